"""Find stored plans by a selection, by study, or all of a folder. Remove a study."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from ablations import plugins, presets
from ablations.core.files import set_aside
from ablations.core.plan import Flags
from ablations.core.record import Configuration
from ablations.engine import explanation
from ablations.engine.backends.command import study_file
from ablations.engine.claims import at_rest
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
    """Return the plan of each study, which `run` trains."""
    requests = _requests(studies, selection)
    if not requests:
        raise UserError("name a study or a preset: see `ablations list studies`")
    plugins.load()
    return [_resolve(request) for request in requests]


def resolved_again(stored: Mapping[str, Any], seeds: Iterable[int]) -> Plan:
    """Return the plan of a stored request on other seeds.

    stored: the flags of a request, with its "study" and optionally the "file" of the study.
    """
    flags = {**stored, "seeds": seeds, "until": None, "most_seeds": None}
    _, brought = study_file.named(flags.pop("file", ""))
    return _resolve(Request(**flags, brought=brought))


def planned(studies: Iterable[str], results: Path, selection: Selection | Flags) -> list[Plan]:
    """Return the plans that commands other than `run` read.

    studies: the studies; none: all that have run here.
    results: the results folder.
    selection: empty: the last plan of each study. Otherwise the stored plan of that selection,
        or a new plan.
    Raises DamagedPlan: the only plan is damaged; one of several is skipped with a warning. Raises
    UserError: a study is unknown, or the selection is wrong.
    """
    studies = list(studies) or _that_ran(results)
    requests = _requests(studies, selection)
    plans = []
    for request in requests:
        try:
            plan = _stored(request, results, selection)
        except DamagedPlan as why:
            if len(requests) == 1:
                raise
            set_aside(why)
        else:
            plans.append(_as_it_is_now(plan, request) if request.brought else plan)
    if not plans:
        raise UserError(f"no plan in '{results}' can be read")
    return plans


def to_work_on(studies: Iterable[str], results: Path) -> list[Plan]:
    """Return the last plans of studies, or of all stored studies, without imported ones.

    Raises UserError: a plan runs commands and its study file is not named. Commands in a results
    folder are never executed.
    """
    plans = []
    for request in _requests(list(studies) or _that_ran(results), {}):
        plan = read_plan(results, request.study)
        if request.brought:
            plan = _as_it_is_now(plan, request)
        elif any("command" in cell.config for cell in plan.cells):
            raise UserError(
                f"'{request.study}' runs commands, and commands in a results folder are not "
                f"executed: `ablations work {results} {plan.study.file or 'FILE.toml'}`"
            )
        if not plan.imported:
            plans.append(plan)
    return plans


def _stored(request: Request, results: Path, selection: Selection | Flags) -> Plan:
    """Return the plan of one request; see `planned`."""
    if not selects(selection):
        return read_plan(results, request.study)
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
    """Raise UserError for a study of which only stored plans are known.

    The results folder may be someone else's: the study file that a plan names is not read.
    """
    study = request.study
    defined = {**known_studies(request), **presets.presets()}
    if not request.explain and study not in defined and has_run(results, study):
        plan = read_plan(results, study)
        named = f", or name {plan.study.file or 'the --plugin that defines it'}"
        raise UserError(
            f"'{study}' is not defined here, and has not run with these settings in '{results}': "
            f"omit the flags that select a part of it{'' if plan.imported else named}"
        )


def _as_it_is_now(plan: Plan, request: Request) -> Plan:
    """Return the plan of a study file, or a new plan if its command or code was edited.

    Other revisions of our own code keep the plan. The file always decides where commands run.
    """
    now = _resolve(Request.of(plan.study.name, plan.request, request.brought))
    same = _configurations(now) == _configurations(plan)
    return structs.replace(plan, variants=now.variants) if same else now


def _configurations(plan: Plan) -> dict[tuple[str, str], Configuration]:
    """Return the configuration of each task and variant without seed and revisions."""
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
    """Return a request with other names of settings (`gamma`) replaced by ours (`discount`)."""
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
    """Return the request of a stored explanation with its two ends."""
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
    named = sorted(path.parent.name for path in (results / "plans").glob("*/last"))
    if found := [name for name in named if has_run(results, name)]:
        return found
    raise UserError(
        f"no study has run in '{results}': start with `ablations run STUDY`, "
        f"or name another folder with --results"
    )


def command_of(plan: Plan) -> str:
    """Return the command that made a plan, with the plugins of this process."""
    name = plan.study.name
    if plan.imported:
        return f"ablations import ... --study {name}"
    if not plan.study.file and any("command" in cell.config for cell in plan.cells):
        return f"ablations gate ... --name {name}"
    command = Request.of(name, plan.request).command()
    ends = plan.request.get("explain")
    asked = ["explain", *ends] if ends else ["run", plan.study.file or name]
    loaded = "".join(f" --plugin {shlex.quote(plugin)}" for plugin in plugins.loaded())
    return command.replace(f"run {name}", shlex.join(asked), 1) + loaded


def stored_plans(results: Path) -> list[tuple[float, Plan]]:
    """Return all plans with the times of their files, newest first, without damaged ones."""
    plans = [(path.stat().st_mtime, plan) for path, plan in every_plan(results) if plan]
    return sorted(plans, key=lambda each: -each[0])


def every_plan(results: Path) -> Iterator[tuple[Path, Plan | None]]:
    """Yield the files of plans with their plans; None for a damaged one, with a warning."""
    for path in sorted((results / "plans").glob("*/*.json")):
        try:
            if not NAME.fullmatch(path.parent.name):
                raise UserError(f"'{path}' is not a plan")
            yield path, read_plan(results, path.parent.name, path.stem)
        except (UserError, OSError) as why:
            set_aside(str(why))
            yield path, None


def remove(results: Path, study: str, *, dry_run: bool) -> list[Path]:
    """Delete a study's plans, and its runs that no other study has; return the paths.

    Raises UserError: the study has not run, a plan cannot be read, or something runs here.
    """
    own = _hashes(results, study)
    others = {path.parent.name for path in (results / "plans").glob("*/*.json")} - {study}
    names = sorted(own.difference(*(_hashes(results, other) for other in others)))
    folders = [cell_folder(results, name) for name in names]
    paths = [results / "plans" / study, *(folder for folder in folders if folder.is_dir())]
    if dry_run:
        return paths
    with at_rest(results) as idle:
        if not idle:
            raise UserError(f"something runs in '{results}': stop it first")
        for path in paths:
            shutil.rmtree(path)
    return paths


def _hashes(results: Path, study: str) -> set[str]:
    """Return the hashes of all runs in a study's plans. Raises UserError."""
    names = [path.stem for path in (results / "plans" / study).glob("*.json")]
    plans = [read_plan(results, study, name) for name in names] or [read_plan(results, study)]
    return {cell.hash for plan in plans for cell in plan.cells}
