"""Find stored plans: of a selection, the last of a study, all of a folder. Remove a study."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from ablations import plugins, presets
from ablations.core.files import set_aside
from ablations.core.plan import Flags
from ablations.core.record import Configuration
from ablations.engine import explanation
from ablations.engine.backends.command import study_file
from ablations.engine.claims import hold
from ablations.engine.plan import known_studies, study_of
from ablations.engine.plan import plan as plan_of
from ablations.errors import UserError
from ablations.names import NAME
from ablations.parameters import Selection
from ablations.records import DamagedPlan, Plan, cell_folder, digest, has_run, plan_path, read_plan
from ablations.request import Request, selects
from ablations.trainers import trainer
from ablations.trainers.values import FIELD_NAMES, in_our_names


def resolved(studies: Iterable[str], selection: Selection) -> list[Plan]:
    """Return the plan of each study, which `run` runs."""
    requests = _requests(studies, selection)
    if not requests:
        raise UserError("name a study or a preset: see `ablations list studies`")
    plugins.load()
    return [_resolve(request) for request in requests]


def resolved_again(stored: Mapping[str, Any], seeds: Iterable[int]) -> Plan:
    """Return the plan of a stored request on other seeds, by its study file where it has one.

    stored: the flags of a request, with its "study", and the "file" of that.
    """
    flags = {**stored, "seeds": seeds, "until": None, "most_seeds": None}
    _, brought = study_file.named(flags.pop("file", ""))
    return _resolve(Request(**flags, brought=brought))


def planned(studies: Iterable[str], results: Path, selection: Selection | Flags) -> list[Plan]:
    """Return the plans that every other command is about.

    Args:
        studies: their names; none means all that have run here.
        results: the results folder.
        selection: None means the last plan of each study. Otherwise the plan of that selection: as
            stored where it ran, which needs no JAX; resolved here where it did not.

    Raises:
        DamagedPlan: the only plan is damaged. One of several is left out, with a line.
        UserError: a study is unknown, or the selection makes no sense.
    """
    studies = list(studies) or _that_ran(results)
    requests = _requests(studies, selection)
    plans = []
    damaged: list[DamagedPlan] = []
    for request in requests:
        try:
            plan = _stored(request, results, selection)
        except DamagedPlan as why:
            damaged.append(why)
            continue
        plans.append(_as_it_is_now(plan, request) if request.brought else plan)
    if not plans:
        raise damaged[0]
    for error in damaged:
        set_aside(error)
    return plans


def to_work_on(studies: Iterable[str], results: Path) -> list[Plan]:
    """Return the last plans of studies, or of all that are stored, that can be run.

    Raises UserError: a plan runs commands and its study file is not named: none that is written
    in a results folder is executed.
    """
    plans = []
    for request in _requests(list(studies) or _that_ran(results), {}):
        plan = read_plan(results, request.study)
        if request.brought:
            plan = _as_it_is_now(plan, request)
        elif any("command" in cell.config for cell in plan.cells):
            raise UserError(
                f"'{request.study}' runs commands, and none that is written in a results folder is "
                f"executed: `ablations work {results} {plan.study.file or 'FILE.toml'}`"
            )
        if not plan.imported:
            plans.append(plan)
    return plans


def _stored(request: Request, results: Path, selection: Selection | Flags) -> Plan:
    """Return the plan of one request; see `planned`."""
    if not selects(selection):
        return last_plan(results, request.study)
    name = digest(request.flags())
    if not plan_path(results, request.study, name).exists():
        request = _as_explained(results, request)
        name = digest(request.flags())
    if plan_path(results, request.study, name).exists():
        return read_plan(results, request.study, name)
    plugins.load()
    _require_defined(results, request)
    return _resolve(request)


def _require_defined(results: Path, request: Request) -> None:
    """Raise UserError for a study that is known by its stored plans alone.

    A results folder may be somebody else's: a study file that a plan names is neither read nor
    executed.
    """
    study = request.study
    if request.explain or study in {**known_studies(request), **presets.presets()}:
        return
    if not has_run(results, study):
        return
    plan = read_plan(results, study)
    if plan.imported:
        raise UserError(f"'{study}' was imported: it has all of its runs and no selection of them")
    if file := plan.study.file:
        raise UserError(
            f"'{study}' has not run with these settings in '{results}': name its study file "
            f"instead, which was '{file}'"
        )
    raise UserError(
        f"'{study}' ran in '{results}', and nothing defines it here: give the --plugin that does, "
        f"or no selection for its last run"
    )


def _as_it_is_now(plan: Plan, request: Request) -> Plan:
    """Return the plan of a study file, made anew where its command or code was edited since.

    What ran before an edit is no result of what is there now. Of other revisions of our code the
    plan stays; where its commands run is said by the file in any case.
    """
    now = _resolve(Request.of(plan.study.name, plan.request, request.brought))
    same = _configurations(now) == _configurations(plan)
    return structs.replace(plan, variants=now.variants) if same else now


def _configurations(plan: Plan) -> dict[tuple[str, str], Configuration]:
    """Return the configuration of each task and variant, but for the seed and our revisions."""
    return {
        (cell.task, cell.variant): {
            **cell.config,
            "seed": 0,
            "trainer": {**cell.config["trainer"], "revision": 0},
            "task": {**cell.config["task"], "revision": 0},
        }
        for cell in plan.cells
    }


def _requests(studies: Iterable[str], selection: Selection | Flags) -> list[Request]:
    return [
        _in_our_names(Request.of(name, selection, brought))
        for name, brought in map(study_file.named, studies)
    ]


def _in_our_names(request: Request) -> Request:
    """Return a request with names of the field replaced by ours, where its trainer has these."""
    if FIELD_NAMES.keys().isdisjoint({*request.set, *request.vary}):
        return request

    plugins.load()
    study = study_of(request)
    if not isinstance(study.trainer, str):  # a command's settings are its own
        return request
    known = trainer(study.trainer).settings
    return replace(
        request, set=in_our_names(request.set, known), vary=in_our_names(request.vary, known)
    )


def _resolve(request: Request) -> Plan:
    return explanation.plan(request) if request.explain else plan_of(request)


def _as_explained(results: Path, request: Request) -> Request:
    """Return the request of an explanation that ran, with the two ends of its gap."""
    if not has_run(results, request.study):
        return request
    last = read_plan(results, request.study).request
    if not (explained := last.get("explain")):
        return request
    start, end = explained
    together = tuple(tuple(names) for names in last.get("together", ()))
    geometry = request.geometry or last.get("geometry")
    return replace(request, explain=(start, end), together=together, geometry=geometry)


def _that_ran(results: Path) -> list[str]:
    if found := sorted(path.parent.name for path in (results / "plans").glob("*/last")):
        return found
    raise UserError(
        f"nothing has run in '{results}': start with `ablations run STUDY`, "
        f"or name another folder with --results"
    )


@dataclass(frozen=True)
class StoredRun:
    """A stored plan.

    when: of its file, in seconds since 1970. done: runs that have a record. last: it is what the
    study's name means where no flags are given.
    """

    plan: Plan
    path: Path
    when: float
    done: int
    last: bool

    @property
    def command(self) -> str:
        """Return the command that ran it, or the one that imports such runs."""
        plan = self.plan
        if plan.imported:
            return f"ablations import ... --study {plan.study.name}"
        if ends := plan.request.get("explain"):
            return f"ablations explain {' '.join(ends)}"
        return Request.of(plan.study.name, plan.request).command()


def stored_runs(results: Path, study: str = "*") -> list[StoredRun]:
    """Return the plans of a study, or of all of them, the newest first.

    A damaged one is left out, with a line.
    """
    runs = []
    for path in (results / "plans").glob(f"{study}/*.json"):
        if not NAME.fullmatch(path.parent.name):
            continue
        try:
            plan = read_plan(results, path.parent.name, path.stem)
        except UserError as why:
            set_aside(why)
            continue
        done = sum(cell_folder(results, cell.hash).exists() for cell in plan.cells)
        runs.append(StoredRun(plan, path, path.stat().st_mtime, done, _is_last(path)))
    return sorted(runs, key=lambda run: (-run.when, run.path))


def last_plan(results: Path, study: str) -> Plan:
    """Return the last plan of a study that has begun.

    One that was stopped before it had a run, or any work on one, hides no results of the plan
    before it. Raises UserError: there is none.
    """
    plan = read_plan(results, study)
    if _has_begun(results, plan):
        return plan
    return next((run.plan for run in stored_runs(results, study) if run.done), plan)


def remove(results: Path, study: str, *, dry_run: bool) -> list[Path]:
    """Delete a study's plans, and its runs that no other study has; return what goes.

    Raises UserError: nothing of that name ran, another study's plan cannot be read, so that
    nobody knows its runs, or one of them is running.
    """
    mine = {cell.hash for plan in _plans(results, study) for cell in plan.cells}
    others = {path.parent.name for path in (results / "plans").glob("*/*.json")} - {study}
    shared = {cell.hash for one in others for plan in _plans(results, one) for cell in plan.cells}
    cells = [cell_folder(results, name) for name in sorted(mine - shared)]
    going = [results / "plans" / study, *(cell for cell in cells if cell.is_dir())]
    if dry_run:
        return going
    _require_rest(results, mine - shared)
    for path in going:
        shutil.rmtree(path)
    return going


def _plans(results: Path, study: str) -> Iterator[Plan]:
    names = sorted(path.stem for path in (results / "plans" / study).glob("*.json"))
    if not names:
        read_plan(results, study)
    yield from (read_plan(results, study, name) for name in names)


def _require_rest(results: Path, cells: set[str]) -> None:
    for name in sorted(cells):
        if (results / "work" / name / "lock").exists():
            held = hold(results, name)
            if held is None:
                raise UserError(f"the run {name} is running: stop it first")
            held.release()


def _has_begun(results: Path, plan: Plan) -> bool:
    return any(
        cell_folder(results, cell.hash).exists() or (results / "work" / cell.hash).exists()
        for cell in plan.cells
    )


def _is_last(path: Path) -> bool:
    try:
        return (path.parent / "last").read_text().strip() == path.stem
    except (OSError, UnicodeDecodeError):
        return False
