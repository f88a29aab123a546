"""Records and plans on disk: what the sweep writes and everything else reads. No JAX, no pandas.

    results/cells/<hash>/record.json     config, status, provenance, checksum of the curve
    results/cells/<hash>/curve.parquet   one row per point: step, then one float column per metric
    results/cells/<hash>/policies/       saved policies, if any: see ablations/sweep/snapshots.py
    results/cells/<hash>/run/            what a command left in its {folder}
    results/plans/<study>/<plan>.json    what a run resolved to: all that a table must know
    results/plans/<study>/<plan>.unit  what was learned, the unit of margins: see `write_units`
    results/plans/<study>/last           the name of the plan that ran last
    results/archive/                     plans with their records, to be committed: see
                                         ablations/exchange/archives.py

A cell's folder appears whole, by one rename, or not at all. Its hash covers everything that decides
the result, so whoever computes it writes the same thing, and a study refers to cells that another
one ran.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, TypedDict

from ablations import parquet
from ablations.core.decode import As, Mismatch, decode, shown
from ablations.core.encode import fields_of
from ablations.core.files import Foreign, parse_object, read_bytes, read_json, set_aside
from ablations.core.plan import (
    NO_LOOKS,
    CellEntry,
    Flags,
    Looks,
    StoredStudy,
    StoredTask,
    StoredVariant,
)
from ablations.core.record import Configuration, CurveFile, Failure, Policies, Provenance, Status
from ablations.errors import UserError
from ablations.names import NAME, require_name

FORMAT = 1

MOST_RECORD = 4_000_000  # bytes of a record.json
MOST_CURVE = 256_000_000  # and of its curve
_NUMBERS = {int, float, type(None)}
MOST_NAME = 1000


class DamagedRecord(UserError):
    """A record that exists and cannot be trusted."""


class OtherFormat(UserError):
    """A file of another version of the suite, which may read it: it is neither damaged nor ours to
    set aside."""


class DamagedPlan(UserError):
    """A plan that exists and cannot be trusted, or is another version's."""


def canonical(value: Any) -> str:
    """JSON with one spelling per value: what is hashed and compared."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """16 hexadecimal digits that name a JSON value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def permitted(mode: int) -> int:
    """Return what the umask leaves of permissions, which temporary files and folders do not ask."""
    try:
        status = Path("/proc/self/status").read_text()
        return mode & ~int(status.partition("Umask:")[2].split()[0], 8)
    except (OSError, ValueError, IndexError):  # not Linux: 022, nearly everybody's
        return mode & ~0o022


def write_atomically(path: Path, content: str | bytes, *, lasting: bool = True) -> None:
    """Writes a file that is there whole or not at all, on a shared folder too. lasting: also after
    the power fails, which takes some milliseconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        with temporary.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if lasting:
                flush_to_disc(file)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _beside(path: Path) -> Path:
    """Return a new hidden name in the folder of a path. What is made there has the permissions that
    the umask leaves, unlike what `tempfile` makes."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def flush_to_disc(file: IO[Any]) -> None:
    """Have what was written to a file outlast the power."""
    file.flush()
    os.fsync(file.fileno())


@dataclass(frozen=True)
class Record:
    """One finished cell.

    status: "done", or "failed" with the reason and the environment step at which it happened.
    failure: "diverged" (training gave NaN: deterministic, so it is a result), "cut" (others ran it,
        and its log ends long before the end) or "error" (it raised, or its worker died: worth
        another try).
    provenance: versions, commit, device, host, times. Never part of a table.
    policies: {"files": {step: sha256}, "best": step, "last": step}, or {} where none was saved.
    """

    hash: str
    config: Annotated[Mapping[str, Any], As(Configuration)]
    status: Status
    failure: Failure | None = None
    reason: str | None = None
    failed_step: int | None = None
    provenance: Annotated[Mapping[str, Any], As(Provenance)] = field(default_factory=dict)
    curve: Annotated[Mapping[str, Any], As(CurveFile)] = field(default_factory=dict)
    policies: Annotated[Mapping[str, Any], As(Policies)] = field(default_factory=dict)


def cell_folder(results: Path, cell: str) -> Path:
    """Return where the record of a cell lies."""
    return results / "cells" / require_name("the name of a cell", cell)


def plans_folder(results: Path, study: str) -> Path:
    """Return where the plans of a study lie."""
    return results / "plans" / require_name("the name of a study", study)


def plan_path(results: Path, study: str, name: str) -> Path:
    """Return the file of a plan."""
    return plans_folder(results, study) / f"{require_name('the name of a plan', name)}.json"


def has_run(results: Path, study: str) -> bool:
    """Return whether a study by this name has a last plan here."""
    return bool(NAME.fullmatch(study)) and (plans_folder(results, study) / "last").exists()


def write_record(
    results: Path,
    record: Record,
    columns: Mapping[str, Any],
    policies: Path | None = None,
    files: Path | None = None,
    *,
    within: Path | None = None,
    lasting: bool = True,
) -> bool:
    """Publishes a cell. `columns`: name -> sequence of ints, of floats, or of floats and None,
    `step` first, all of one length.

    policies: the folder with the files that `record.policies` names. files: a folder on the same
    disc that becomes run/ of the cell's. within: another one, in which the record is written before
    it is published, for whoever clears up there after a kill. lasting: also after the power fails.
    Returns False, and changes nothing, if somebody else published the same cell first.
    """
    folder = cell_folder(results, record.hash)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(folder if within is None else within / folder.name)
    try:
        temporary.mkdir()
        curve = parquet.encode(columns, ("config", canonical(record.config)))
        (temporary / "curve.parquet").write_bytes(curve)
        if policies and record.policies:
            (temporary / "policies").mkdir()
            for step in record.policies["files"]:
                _share(policies / f"{step}.npz", temporary / "policies" / f"{step}.npz")
        described = _as_read(
            vars(record)
            | {
                "format": FORMAT,
                "curve": {
                    "rows": len(columns["step"]),
                    "sha256": hashlib.sha256(curve).hexdigest(),
                },
            }
        )
        with (temporary / "record.json").open("w") as file:
            file.write(_with_checksum(described))
            if lasting:
                flush_to_disc(file)
        if files is not None:
            os.rename(files, temporary / "run")
        os.rename(temporary, folder)
        return True
    except OSError:  # whoever was first may have cleared up meanwhile
        if not (folder / "record.json").exists():
            raise
        return False
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _share(file: Path, other: Path) -> None:
    """Have a file of ours under another name too; as a copy, where the disc has no links."""
    try:
        os.link(file, other)
    except OSError:
        shutil.copyfile(file, other)


def read_record(results: Path, cell: str) -> Record | None:
    """The record of a cell, or None where there is none. Raises DamagedRecord, OtherFormat, and
    OSError for one that cannot be read."""
    try:
        data = _read_file(results, cell, "record.json", MOST_RECORD)
        fields = parse_object(data)
        checksum = fields.pop("checksum", None)  # earlier records have none
        # As it was written; else as it says the same, in another spelling.
        whole = checksum in (None, _checksum_of_lines(data)) or checksum == _checksum(fields)
        require_format(fields.pop("format", None))
        record = decode(Record, fields)
    except FileNotFoundError:
        if cell_folder(results, cell).is_dir():
            raise _damaged(cell, "record.json is missing") from None
        return None
    except OtherFormat as why:
        raise OtherFormat(f"record {cell} {why}") from None
    except (Mismatch, Foreign) as why:
        raise _damaged(cell, f"record.json is not a whole record: {why}") from None
    if record.hash != cell or digest(record.config) != cell:
        raise _damaged(cell, "its configuration does not match its name")
    if not whole:
        raise _damaged(cell, "record.json fails its checksum")
    return record


def _read_file(results: Path, cell: str, name: str, most: int) -> bytes:
    """The bytes of a file of a record: of `cell_folder`, whose joins take longer than the file."""
    named = require_name("the name of a cell", cell)
    return read_bytes(Path(os.path.join(results, "cells", named, name)), most)


def require_format(form: object, ours: int = FORMAT) -> None:
    """Raise OtherFormat for another format than this version's."""
    if form != ours:
        newer = "a newer" if type(form) is int and form > ours else "another"
        raise OtherFormat(
            f"has another format, {shown(form)} and not {ours}: {newer} version of rl-ablations "
            f"wrote it; choose another --results folder"
        )


def usable_record(results: Path, cell: str) -> Record | None:
    """The record of a cell for a command that reads; None where there is none, or one that is
    damaged or closed to this user, which is said in a line."""
    try:
        return read_record(results, cell)
    except (DamagedRecord, OtherFormat) as why:
        set_aside(why)
    except PermissionError as error:
        set_aside(f"record {cell} cannot be read: {error.strerror}")
    return None


def _checksum(fields: Mapping[str, Any]) -> str:
    """Of what a record or a plan says, as it is read from its file, without its own checksum."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _as_read(fields: Mapping[str, Any]) -> Any:
    """Keys are text in a file, and sorted as such."""
    return json.loads(json.dumps(fields, default=fields_of))


def _with_checksum(fields: Mapping[str, Any]) -> str:
    """JSON with a line for each field, and one more for the `_checksum` of the others. Each field
    is encoded once, and without `indent`, for which Python would take ten times as long."""
    lines = [f'"{name}": {json.dumps(fields[name], sort_keys=True)}' for name in sorted(fields)]
    checksum = hashlib.sha256(f"{{{', '.join(lines)}}}".encode()).hexdigest()
    return ",\n".join([f'{{"checksum": "{checksum}"', *lines]) + "}\n"


def _checksum_of_lines(text: bytes) -> str:
    """The checksum of what stands below the first line of `_with_checksum`. JSON has no other ends
    of lines."""
    _, _, lines = text.partition(b"\n")
    return hashlib.sha256(b"{" + lines.replace(b",\n", b", ").removesuffix(b"\n")).hexdigest()


def read_curve(results: Path, record: Record) -> parquet.Columns:
    """The curve of a record: `step`, then a column per metric, None where it has no value. Raises
    DamagedRecord."""
    data = verify_curve(results, record)
    try:
        columns = parquet.decode(data)[0]
        require_curve(columns)
    except ValueError as why:
        raise _damaged(record.hash, f"curve.parquet {why}") from None
    return columns


def require_curve(columns: parquet.Columns) -> None:
    """Raise ValueError for columns that are no curve."""
    steps = columns.get("step")
    if steps is None or not {int}.issuperset(map(type, steps)) or min(steps, default=0) < 0:
        raise ValueError("has no column of steps")
    if any(map(operator.gt, steps, steps[1:])):
        raise ValueError("has steps that go back")
    for name, values in columns.items():
        if not _NUMBERS.issuperset(map(type, values)):
            raise ValueError(f"has a column of no numbers, {shown(name)}")


def verify_curve(results: Path, record: Record) -> bytes:
    """The bytes of a record's curve file. Raises DamagedRecord if they are not those written."""
    try:
        data = _read_file(results, record.hash, "curve.parquet", MOST_CURVE)
    except FileNotFoundError:
        raise _damaged(record.hash, "curve.parquet is missing") from None
    except Foreign as why:
        raise _damaged(record.hash, f"curve.parquet: {why}") from None
    if hashlib.sha256(data).hexdigest() != record.curve.get("sha256"):
        raise _damaged(record.hash, f"curve.parquet ({len(data)} bytes) fails its checksum")
    return data


def _damaged(cell: str, what: str) -> DamagedRecord:
    return DamagedRecord(
        f"record {cell} is damaged: {what}; `ablations run` sets it aside and computes it again"
    )


# Plans


@dataclass(frozen=True)
class Plan:
    """What a study with its flags resolved to; with the records, enough for every table.

    request: the selection flags: profile, tasks, variants, seeds, until, steps, set.
    cells: one entry per (task, variant, seed); where seeds are added, those of the looks that were
        needed so far.
    looks: how seeds are added, if they are.
    """

    request: Annotated[Mapping[str, Any], As(Flags)]
    study: StoredStudy
    variants: Mapping[str, StoredVariant]
    tasks: Mapping[str, StoredTask]
    cells: tuple[CellEntry, ...]
    looks: Looks = NO_LOOKS

    @property
    def name(self) -> str:
        return digest(self.request)

    @property
    def imported(self) -> bool:
        """Whether other people ran it: nothing here can run it again."""
        return "imported" in self.request

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({cell.seed for cell in self.cells}))


def write_plan(results: Path, plan: Plan, *, last: bool = True) -> Path:
    """Stores a plan. last: and marks it as the study's last, as the first one is in any case."""
    path = plan_path(results, plan.study.name, plan.name)
    folder = path.parent
    # Keys stay in the study's order: tables list tasks and variants as it does.
    described = {"format": FORMAT} | encode_plan(plan)
    described["checksum"] = _checksum(described)
    write_atomically(path, json.dumps(described))
    if last or not (folder / "last").exists():
        write_atomically(folder / "last", plan.name)
    return path


def read_plan(results: Path, study: str, name: str | None = None) -> Plan:
    """A stored plan of a study: the one of that name, else the last that ran. Raises UserError
    where there is none, DamagedPlan for one that is damaged or another version's."""
    folder = results / "plans" / study
    if not NAME.fullmatch(study) or not folder.is_dir():
        planned = sorted(p.name for p in (results / "plans").glob("*") if p.is_dir())
        raise UserError(
            f"'{study}' has not run in '{results}': start with `ablations run {study}`, "
            f"or name another folder with --results"
            + (f"; what has run there: {', '.join(planned)}" if planned else "")
        )
    try:
        name = name or read_bytes(folder / "last", MOST_NAME).decode().strip()
        fields = parse_object(read_bytes(plan_path(results, study, name)))
        whole = fields.pop("checksum", None) in (None, _checksum(fields))
        require_format(fields.pop("format", None))
        if not whole:
            raise Mismatch("fails its checksum")
        plan = decode_plan(fields)
        if (plan.study.name, plan.name) != (study, name):
            raise Mismatch("is of another study or selection than its name says")
        return plan
    except FileNotFoundError:
        raise UserError(
            f"no run of '{study}' with these settings in '{results}': "
            f"give `ablations run {study}` the same flags first"
        ) from None
    except OtherFormat as why:
        raise DamagedPlan(f"the plan '{folder / str(name)}.json' {why}") from None
    except (Mismatch, Foreign, UnicodeDecodeError, PermissionError) as why:
        file = folder / (f"{name}.json" if name else "last")
        raise DamagedPlan(
            f"the plan '{file}' is damaged: `ablations run {study}` writes it "
            f"again, or the import that wrote it ({why})"
        ) from None


def encode_plan(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON, with an empty object where no seeds are added."""
    return _as_read({**fields_of(plan), "looks": plan.looks or {}})


def decode_plan(fields: Mapping[str, Any]) -> Plan:
    """Return a plan from its JSON. Raise Mismatch, also where its parts do not fit each other."""
    plan = decode(Plan, {name: part for name, part in fields.items() if name != "looks" or part})
    places = set()
    for cell in plan.cells:
        if cell.task not in plan.tasks or cell.variant not in plan.variants:
            raise Mismatch(f"has a cell of an unknown task or variant, {shown(cell.variant)}")
        if cell.place in places:
            raise Mismatch(f"has two cells of {shown(cell.variant)} and seed {cell.seed}")
        places.add(cell.place)
    if fields.get("looks") and not plan.looks:
        raise Mismatch("has looks without seeds")
    return plan


class Unit(TypedDict):
    """How far a variant went on a task, from the lowest to the highest point of its mean curve, or
    null where it learned nothing; and the hashes of the cells that say so."""

    learned: list[float] | None
    cells: list[str]


def read_units(results: Path, plan: Plan) -> Mapping[str, Unit]:
    """Return the units of a plan that were kept; none of cells that it no longer has, and none of a
    file that is damaged."""
    try:
        stored = read_json(_units_path(results, plan), dict[str, Unit])
    except (OSError, Foreign):
        return {}
    known = {cell.hash for cell in plan.cells}
    kept = {name: unit for name, unit in stored.items() if known.issuperset(unit["cells"])}
    whole = all(unit["learned"] is None or len(unit["learned"]) == 2 for unit in kept.values())
    return kept if whole else {}


def write_units(results: Path, plan: Plan, units: Mapping[str, Unit]) -> None:
    """Keep the units of a plan. Those that were kept before stay as they are."""
    units = {**units, **read_units(results, plan)}
    write_atomically(_units_path(results, plan), json.dumps(units, indent=1, sort_keys=True))


def _units_path(results: Path, plan: Plan) -> Path:
    return plan_path(results, plan.study.name, plan.name).with_suffix(".unit")


def usable_curve(results: Path, record: Record) -> parquet.Columns | None:
    """The curve of a record for a command that reads; None for one that is damaged or closed to
    this user, which is said in a line."""
    try:
        return read_curve(results, record)
    except DamagedRecord as damaged:
        set_aside(damaged)
    except PermissionError as error:
        set_aside(f"record {record.hash} cannot be read: {error.strerror}")
    return None


def read_results(results: Path, plan: Plan) -> Iterator[tuple[CellEntry, Record | None]]:
    """Every cell of a plan with its record, or None where it has not run yet, or has none that is
    usable, which is said in a line."""
    for cell in plan.cells:
        yield cell, usable_record(results, cell.hash)


def read_runs(
    results: Path, plan: Plan
) -> Iterator[tuple[CellEntry, Record | None, parquet.Columns]]:
    """Every cell of a plan with its record and the curve of that, {} where it has none. Of a record
    whose curve is damaged nothing is used, which is said in a line."""
    for cell, record in read_results(results, plan):
        curve = None if record is None else usable_curve(results, record)
        yield cell, None if curve is None else record, curve or {}
