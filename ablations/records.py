"""Read and write records and plans on disk. Does not import JAX or pandas.

    results/cells/<hash>/record.json     configuration, status, provenance, checksum of the curve
    results/cells/<hash>/curve.parquet   one row per point: step, then one float column per metric
    results/cells/<hash>/policies/       saved policies: see ablations/engine/checkpoints.py
    results/cells/<hash>/run/            the {folder} of a command
    results/plans/<study>/<plan>.json    a study resolved to runs: everything that tables need
    results/plans/<study>/last           the name of the plan that ran last
    results/archive/                     plans with their records, to be committed

The folder of a run is published by one rename. Its hash covers everything that decides the result,
so studies share runs.

A plan of format 2 has each configuration once, without the seed, under `configurations`. Its
`cells` are rows of task, variant, seed, hash and the number of the configuration. In format 1, and
in archives, each run has its complete configuration.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from ablations import parquet
from ablations.core.decode import Count, Json, Mismatch, Part, decode, encode, shown
from ablations.core.files import Foreign, parse_object, read_bytes, set_aside
from ablations.core.plan import (
    NO_LOOKS,
    CellEntry,
    Flags,
    Looks,
    Name,
    Seed,
    StoredStudy,
    StoredTask,
    StoredVariant,
)
from ablations.core.record import (
    Columns,
    Configuration,
    CurveFile,
    Failure,
    Policies,
    Provenance,
    Status,
)
from ablations.errors import UserError
from ablations.names import NAME, require_name

UNTRAINED = "trivial_policies"  # the study that evaluates untrained policies
T = TypeVar("T")

FORMAT, PLAN_FORMAT = 1, 2
_TOGETHER = 64  # records, then as many curves: faster than one by one


class OtherFormat(UserError):
    """A file of another version of the suite. It is not set aside."""


class DamagedRecord(UserError):
    """A record that exists but is damaged."""


class DamagedPlan(UserError):
    """A plan that exists but is damaged or of another version."""


class Record(Part, frozen=True):
    """One finished run.

    failure: "diverged" (NaN, a deterministic result), "cut" (an imported log that ends early) or
    "error" (an exception, or its worker died; `run` tries it again), with its reason and step.
    """

    hash: str
    config: Configuration
    status: Status
    failure: Failure | None = None
    reason: str | None = None
    failed_step: int | None = None
    provenance: Provenance = msgspec.field(default_factory=Provenance)
    curve: CurveFile = msgspec.field(default_factory=CurveFile)
    policies: Policies = msgspec.field(default_factory=Policies)


class Plan(Part, frozen=True):
    """A study and a selection, resolved to runs.

    request: the flags of the selection. cells: one entry per (task, variant, seed); with interim
    analyses, only those so far. looks: the interim analyses.
    """

    request: Flags
    study: StoredStudy
    variants: Mapping[str, StoredVariant]
    tasks: Mapping[str, StoredTask]
    cells: tuple[CellEntry, ...]
    looks: Looks = NO_LOOKS

    @property
    def name(self) -> str:
        """Return the digest of the request."""
        return digest(self.request)

    @property
    def imported(self) -> bool:
        """Return whether the runs were imported, so that they cannot be trained here."""
        return "imported" in self.request

    @property
    def seeds(self) -> tuple[int, ...]:
        """Return the seeds of the runs, ascending."""
        return tuple(sorted({cell.seed for cell in self.cells}))


# Digests, checksums and formats


def canonical(value: Any) -> str:
    """Encode JSON in a unique way, for hashes and comparisons."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits that name a JSON value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def as_read(fields: Mapping[str, Any]) -> dict[str, Json]:
    """Return fields as they are read from a file, as plain JSON values."""
    read: dict[str, Json] = json.loads(encode(fields))
    return read


def require_format(form: Json, ours: int = FORMAT, oldest: int | None = None) -> None:
    """Raise OtherFormat for an unknown format."""
    if form not in range(oldest or ours, ours + 1):
        newer = "a newer" if type(form) is int and form > ours else "another"
        raise OtherFormat(
            f"has another format, {shown(form)} and not {ours}: {newer} version of rl-ablations "
            f"wrote it; choose another --results folder"
        )


def _checksum(fields: Mapping[str, Json]) -> str:
    """Return the checksum of a record or plan, without its field `checksum`."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _parse(data: bytes, form: int, oldest: int | None = None) -> dict[str, Json]:
    """Return the fields of a record or plan. Raises Mismatch or OtherFormat."""
    fields = parse_object(data)
    require_format(fields.get("format"), form, oldest)
    checksum = fields.pop("checksum", None)  # None: of an earlier version
    if checksum not in (None, _checksum(fields)):
        raise Mismatch("it fails its checksum")
    del fields["format"]
    return fields


# Atomic files and folders


def write_atomically(path: Path, content: str | bytes, *, lasting: bool = True) -> None:
    """Write a file atomically. lasting: flush it to disc, which takes some milliseconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    # Names of files may have surrogate escapes.
    data = content.encode(errors="surrogateescape") if isinstance(content, str) else content
    try:
        with temporary.open("xb") as file:
            file.write(data)
            if lasting:
                flush_to_disc(file)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _beside(path: Path) -> Path:
    """Return a new hidden name in the folder of a path."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def flush_to_disc(file: IO[str] | IO[bytes]) -> None:
    """Flush a file to disc."""
    file.flush()
    os.fsync(file.fileno())


# Plans


def plans_folder(results: Path, study: str) -> Path:
    """Return the folder of a study's plans."""
    return results / "plans" / require_name("the name of a study", study)


def plan_path(results: Path, study: str, name: str) -> Path:
    """Return the path of a plan."""
    return plans_folder(results, study) / f"{require_name('the name of a plan', name)}.json"


def has_run(results: Path, study: str) -> bool:
    """Return whether a study of this name has run here."""
    return bool(NAME.fullmatch(study)) and (plans_folder(results, study) / "last").exists()


def write_plan(results: Path, plan: Plan, *, last: bool = True) -> Path:
    """Store a plan; return its file. last: make it the last plan of its study."""
    path = plan_path(results, plan.study.name, plan.name)
    # Not sorted: tables list tasks and variants in the order of the study.
    described = {"format": PLAN_FORMAT} | encode_plan(plan)
    described["checksum"] = _checksum(described)
    write_atomically(path, json.dumps(described))
    if last or not path.with_name("last").exists():
        write_atomically(path.with_name("last"), plan.name)
    return path


def encode_plan(plan: Plan) -> dict[str, Json]:
    """Return a plan as JSON in format 2. Without runs, it has no `configurations`."""
    numbers: dict[str, int] = {}  # of configurations, by their text
    rows = []
    for cell in plan.cells:
        text = json.dumps({name: part for name, part in cell.config.items() if name != "seed"})
        rows.append([*cell.place, cell.hash, numbers.setdefault(text, len(numbers))])
    described = {name: getattr(plan, name) for name in ("request", "study", "variants", "tasks")}
    described |= {"cells": rows, "looks": plan.looks or {}}
    if numbers:
        described["configurations"] = list(map(json.loads, numbers))
    return as_read(described)


def decode_plan(fields: Mapping[str, Json]) -> Plan:
    """Return a plan from its JSON, of format 2 or 1. Raises Mismatch."""
    given = {name: part for name, part in fields.items() if name != "looks" or part}
    if "configurations" in given:
        cells = _cells(given.pop("configurations"), given.get("cells"))
    else:
        objects = decode(list[dict[str, Json]], given.get("cells"))
        cells = tuple(decode(CellEntry, each, raw=("config",)) for each in objects)
    plan = decode(Plan, given | {"cells": ()}, raw=("request",))
    if unknown := sorted(plan.request.keys() - Flags.__annotations__.keys()):
        raise Mismatch(f"request: unknown key {shown(unknown[0])}")
    places = set()
    for cell in cells:
        if cell.task not in plan.tasks or cell.variant not in plan.variants:
            raise Mismatch(f"a run is of an unknown task or variant, {shown(cell.variant)}")
        if cell.place in places:
            raise Mismatch(f"two runs are of {shown(cell.variant)} and seed {cell.seed}")
        places.add(cell.place)
    if fields.get("looks") and not plan.looks:
        raise Mismatch("looks: expected seeds")
    return msgspec.structs.replace(plan, cells=cells)


def _cells(configurations: Json, rows: Json) -> tuple[CellEntry, ...]:
    """Return the runs of a plan of format 2."""
    decode(list[Configuration], configurations)  # the raw ones are hashed
    raw = decode(list[dict[str, Any]], configurations)
    cells = []
    for task, variant, seed, name, number in decode(list[tuple[str, str, Seed, Name, Count]], rows):
        if number >= len(raw):
            raise Mismatch(f"a run has configuration {number} of {len(raw)}")
        config: Any = {**raw[number], "seed": seed}
        cells.append(CellEntry(task, variant, seed, name, config))
    return tuple(cells)


def read_plan(results: Path, study: str, name: str | None = None) -> Plan:
    """Return a stored plan of a study by name, or its last plan.

    Raises UserError: there is no plan. Raises DamagedPlan: it is damaged or of another version.
    """
    folder = results / "plans" / study
    if not NAME.fullmatch(study) or not folder.is_dir():
        planned = sorted(p.name for p in (results / "plans").glob("*") if p.is_dir())
        raise UserError(
            f"'{study}' has not run in '{results}' and has no archive there: start with "
            f"`ablations run {study}`, or name another folder with --results"
            + (f"; what has run there: {', '.join(planned)}" if planned else "")
        )
    try:
        name = name or read_bytes(folder / "last").decode().strip()
        data = read_bytes(plan_path(results, study, name))
        plan = decode_plan(_parse(data, PLAN_FORMAT, oldest=1))
        if (plan.study.name, plan.name) != (study, name):
            raise Mismatch("its name does not match its study and selection")
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
            f"the plan '{file}' is damaged: write it again by `ablations run {study}`, or by the "
            f"import that wrote it ({why})"
        ) from None


def read_runs(
    results: Path, plan: Plan, metrics: Collection[str] | None = None
) -> Iterator[tuple[CellEntry, Record | None, Columns]]:
    """Yield every run of a plan with its record and curve, or None and {}.

    A record with a damaged curve is skipped with a warning. metrics: see `read_curve`.
    """
    for start in range(0, len(plan.cells), _TOGETHER):
        cells = plan.cells[start : start + _TOGETHER]
        records = [usable_record(results, cell.hash) for cell in cells]
        curves = [_usable(read_curve, results, each, metrics) if each else None for each in records]
        for cell, record, curve in zip(cells, records, curves, strict=True):
            yield cell, None if curve is None else record, curve or {}


# Records


def cell_folder(results: Path, cell: str) -> Path:
    """Return the folder of a run's record."""
    return results / "cells" / require_name("the name of a cell", cell)


def write_record(
    results: Path,
    record: Record,
    columns: Columns,
    policies: Path | None = None,
    files: Path | None = None,
    *,
    within: Path | None = None,
    lasting: bool = True,
) -> bool:
    """Publish a record with its curve and policies by one rename.

    Args:
        results: the results folder.
        record: the record, without its field `curve`.
        columns: the curve.
        policies: the folder with the files that `record.policies` names.
        files: a folder on the same disc that becomes the folder run/ of the record.
        within: the folder in which the record is written first.
        lasting: flush the record to disc.

    Returns False if another process has published the run; nothing is changed then.
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
                share(policies / f"{step}.npz", temporary / "policies" / f"{step}.npz")
        stored = {"rows": len(columns["step"]), "sha256": hashlib.sha256(curve).hexdigest()}
        described = msgspec.structs.asdict(record) | {"format": FORMAT, "curve": stored}
        with (temporary / "record.json").open("w") as file:
            fields = as_read(described)
            file.write(json.dumps(fields | {"checksum": _checksum(fields)}, indent=1))
            if lasting:
                flush_to_disc(file)
        if files is not None:
            os.rename(files, temporary / "run")
        os.rename(temporary, folder)
        return True
    except OSError:  # the other process may have deleted this folder
        if not (folder / "record.json").exists():
            raise
        return False
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def share(file: Path | str, other: Path | str) -> None:
    """Link a file to another name, or copy it if the disc has no links."""
    try:
        os.link(file, other)
    except OSError:
        shutil.copy2(file, other)


def read_record(results: Path, cell: str) -> Record | None:
    """Return the record of a run, or None. Raises DamagedRecord, OtherFormat, OSError."""
    try:
        fields = _parse(_read_file(results, cell, "record.json"), FORMAT)
        record = decode(Record, fields, raw=("config", "provenance", "curve", "policies"))
        if record.hash != cell or digest(record.config) != cell:
            raise Mismatch("its configuration does not match its name")
        return record
    except FileNotFoundError:
        if cell_folder(results, cell).is_dir():
            raise _damaged(cell, "record.json is missing") from None
        return None
    except OtherFormat as why:
        raise OtherFormat(f"record {cell} {why}") from None
    except (Mismatch, Foreign) as why:
        raise _damaged(cell, f"record.json is not a complete record: {why}") from None


def _read_file(results: Path, cell: str, name: str) -> bytes:
    """Return the bytes of a file of a record, without `Path`, which is slower."""
    named = require_name("the name of a cell", cell)
    return read_bytes(f"{results}/cells/{named}/{name}")


def usable_record(results: Path, cell: str) -> Record | None:
    """Return the record of a run, or None; skip an unreadable record with a warning."""
    return _usable(read_record, results, cell)


def _usable(read: Callable[..., T], *arguments: Any) -> T | None:
    try:
        return read(*arguments)
    except (DamagedRecord, OtherFormat) as why:
        set_aside(why)
    except PermissionError as error:
        set_aside(f"record {Path(error.filename).parent.name} cannot be read: {error.strerror}")
    return None


def read_curve(results: Path, record: Record, metrics: Collection[str] | None = None) -> Columns:
    """Return the curve of a record: `step`, then a column per metric. Raises DamagedRecord.

    metrics: the columns to read, others are []; None: all.
    """
    data = verify_curve(results, record)
    try:
        wanted = None if metrics is None else {"step", *metrics}
        return curve_of(parquet.decode(data, wanted)[0])
    except ValueError as why:
        raise _damaged(record.hash, f"curve.parquet {why}") from None


def curve_of(columns: parquet.Columns) -> Columns:
    """Check the columns of a curve. Raises ValueError: not numbers, or steps that decrease."""
    curve = decode(Columns, columns)
    steps = decode(list[Count], curve.get("step"))
    if any(map(operator.gt, steps, steps[1:])):
        raise ValueError("has steps that go back")
    return curve


def verify_curve(results: Path, record: Record) -> bytes:
    """Return the bytes of a record's curve file. Raises DamagedRecord."""
    try:
        data = _read_file(results, record.hash, "curve.parquet")
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
