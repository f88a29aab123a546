"""Read and write plans, with the records of their cells and the units of their margins."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypedDict

from ablations.core.decode import Json, Mismatch, decode, shown
from ablations.core.files import Foreign, find_json, parse_object, read_bytes
from ablations.core.plan import (
    NO_LOOKS,
    CellEntry,
    Flags,
    Looks,
    StoredStudy,
    StoredTask,
    StoredVariant,
)
from ablations.core.record import Columns
from ablations.core.scalars import fields_of
from ablations.errors import UserError
from ablations.names import NAME, require_name
from ablations.records.files import (
    FORMAT,
    OtherFormat,
    as_read,
    checksum_of,
    digest,
    require_format,
    write_atomically,
)
from ablations.records.record import Record, usable_curve, usable_record

MOST_NAME = 1000
_TOGETHER = 64  # records, then as many curves: in turns they take a third more time


class DamagedPlan(UserError):
    """A plan that exists and cannot be trusted, or is another version's."""


@dataclass(frozen=True)
class Plan:
    """A study with its flags, resolved to cells; with the records, enough for every table.

    request: the flags of its selection.
    cells: one entry per (task, variant, seed); where seeds are added, those of the looks that were
        needed so far.
    looks: how seeds are added, if they are.
    """

    request: Flags
    study: StoredStudy
    variants: Mapping[str, StoredVariant]
    tasks: Mapping[str, StoredTask]
    cells: tuple[CellEntry, ...]
    looks: Looks = NO_LOOKS

    @property
    def name(self) -> str:
        """Return its name: the digest of its request."""
        return digest(self.request)

    @property
    def imported(self) -> bool:
        """Return whether it was imported, so that it cannot be run again here."""
        return "imported" in self.request

    @cached_property
    def cells_of(self) -> Mapping[str, int]:
        """Return how many cells each variant has."""
        return Counter(cell.variant for cell in self.cells)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Return the seeds of its cells, ascending."""
        return tuple(sorted({cell.seed for cell in self.cells}))


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
    """Store a plan; return its file.

    last: it becomes the last of its study, as the first is in any case.
    """
    path = plan_path(results, plan.study.name, plan.name)
    folder = path.parent
    # Keys stay in the study's order: tables list tasks and variants as it does.
    described = {"format": FORMAT} | encode_plan(plan)
    described["checksum"] = checksum_of(described)
    write_atomically(path, json.dumps(described))
    if last or not (folder / "last").exists():
        write_atomically(folder / "last", plan.name)
    return path


def _first_command(study: str) -> str:
    """Return the command that plans a study of this name, which may be one of `explain`."""
    start, joint, end = study.replace(".", "/").partition("_to_")
    if not joint:
        return f"`ablations run {study}`"
    within, slash, _ = start.rpartition("/")
    if slash and "/" not in end:
        end = f"{within}/{end}"
    return f"`ablations explain {start} {end}`, or `ablations run {study}` if that is a study"


def read_plan(results: Path, study: str, name: str | None = None) -> Plan:
    """Return a stored plan of a study: the one of that name, else the last that ran.

    Raises:
        UserError: there is none.
        DamagedPlan: it is damaged, or another version's.
    """
    folder = results / "plans" / study
    if not NAME.fullmatch(study) or not folder.is_dir():
        planned = sorted(p.name for p in (results / "plans").glob("*") if p.is_dir())
        raise UserError(
            f"'{study}' has not run in '{results}': start with {_first_command(study)}, "
            f"or name another folder with --results"
            + (f"; what has run there: {', '.join(planned)}" if planned else "")
        )
    try:
        name = name or read_bytes(folder / "last", MOST_NAME).decode().strip()
        fields = parse_object(read_bytes(plan_path(results, study, name)))
        whole = fields.pop("checksum", None) in (None, checksum_of(fields))
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


def encode_plan(plan: Plan) -> dict[str, Json]:
    """Return a plan as JSON, with an empty object where no seeds are added."""
    return as_read({**fields_of(plan), "looks": plan.looks or {}})


def decode_plan(fields: Mapping[str, Json]) -> Plan:
    """Return a plan from its JSON.

    Raises:
        Mismatch: a part is not of its type, or its parts do not fit each other.
    """
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


def read_results(results: Path, plan: Plan) -> Iterator[tuple[CellEntry, Record | None]]:
    """Yield every cell of a plan with its record.

    None where it has not run yet, or has no usable one, with a line.
    """
    for cell in plan.cells:
        yield cell, usable_record(results, cell.hash)


def read_runs(
    results: Path, plan: Plan, metrics: Collection[str] | None = None
) -> Iterator[tuple[CellEntry, Record | None, Columns]]:
    """Yield every cell of a plan with its record and the curve of that, {} where it has none.

    Of a record whose curve is damaged nothing is used, which is said in a line. metrics: of
    `read_curve`.
    """
    for start in range(0, len(plan.cells), _TOGETHER):
        cells = plan.cells[start : start + _TOGETHER]
        records = [usable_record(results, cell.hash) for cell in cells]
        curves = [usable_curve(results, each, metrics) if each else None for each in records]
        for cell, record, curve in zip(cells, records, curves, strict=True):
            yield cell, None if curve is None else record, curve or {}


class Unit(TypedDict):
    """The unit of margins of a variant on a task.

    learned: the lowest and the highest point of its mean curve; null where it learned nothing.
    cells: the hashes of those that say so.
    """

    learned: list[float] | None
    cells: list[str]


def read_units(results: Path, plan: Plan) -> Mapping[str, Unit]:
    """Return the stored units of a plan.

    None of cells that it no longer has, and none of a file that is damaged.
    """
    stored = find_json(_units_path(results, plan), dict[str, Unit], lenient=True) or {}
    known = {cell.hash for cell in plan.cells}
    kept = {name: unit for name, unit in stored.items() if known.issuperset(unit["cells"])}
    whole = all(unit["learned"] is None or len(unit["learned"]) == 2 for unit in kept.values())
    return kept if whole else {}


def write_units(results: Path, plan: Plan, units: Mapping[str, Unit]) -> None:
    """Store the units of a plan. Those that are stored already stay as they are."""
    units = {**units, **read_units(results, plan)}
    write_atomically(_units_path(results, plan), json.dumps(units, indent=1, sort_keys=True))


def _units_path(results: Path, plan: Plan) -> Path:
    return plan_path(results, plan.study.name, plan.name).with_suffix(".unit")
