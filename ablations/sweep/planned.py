"""Plans of selections: as `run` stored them, resolved here, or the last that ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablations import plugins, presets
from ablations.core.files import set_aside
from ablations.errors import UserError, unknown
from ablations.records import DamagedPlan, Plan, digest, has_run, plan_path, read_plan
from ablations.request import Request, Selection
from ablations.sweep.backends.command import study_file
from ablations.sweep.defaults import known_studies
from ablations.sweep.history import last_plan
from ablations.trainers.field_names import FIELD_NAMES, in_our_names


def resolved(studies: Iterable[str], selection: Mapping[str, Any]) -> list[Plan]:
    """Return what `run` runs: the plan of each study."""
    requests = _requests(studies, selection)
    if not requests:
        raise UserError("name a STUDY, or a preset with --preset: `ablations list` has them")
    plugins.load()
    return [_resolve(request) for request in requests]


def resolved_again(stored: Mapping[str, Any], seeds: Iterable[int]) -> Plan:
    """Return the plan of a stored request on other seeds, by the study file where it names one."""
    flags = {**stored, "seeds": seeds, "until": None, "most_seeds": None}
    _, brought = study_file.named(flags.pop("file", ""))
    return _resolve(Request(**flags, brought=brought))


def planned(studies: Iterable[str], results: Path, selection: Mapping[str, Any]) -> list[Plan]:
    """Return what every other command is about. studies: none means all that have run here.

    A damaged plan is left out with a line, unless it is all there is: then DamagedPlan is raised.
    Without a selection the last plan of each study. Otherwise the plan of that selection: as stored
    where it ran, which needs no JAX; resolved here where it did not.
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


def _stored(request: Request, results: Path, selection: Mapping[str, Any]) -> Plan:
    """Return the plan of a request, as `planned` looks for it."""
    if not _given(selection):
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
    """Raise UserError for a study that is known by its stored plans alone. A results folder may be
    somebody else's: a study file that a plan names is neither read nor executed."""
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
    """Return the plan of a study file that was named, anew where its command or code were edited
    since: what ran before them is no result of theirs. Of other revisions of our code it stays."""
    now = _resolve(Request(plan.study.name, **plan.request, brought=request.brought))
    return plan if _configurations(now) == _configurations(plan) else now


def _configurations(plan: Plan) -> dict[tuple[str, str], dict[str, Any]]:
    """Return (task, variant) -> its configuration, but for the seed and our revisions."""
    found = {}
    for cell in plan.cells:
        config = {**cell.config, "seed": None}
        parts = [config["trainer"], config["task"], *config["choices"].values()]
        of_ours = [{**part, "revision": None} for part in parts]
        found[cell.task, cell.variant] = {
            **config,
            "trainer": of_ours[0],
            "task": of_ours[1],
            "choices": dict(zip(config["choices"], of_ours[2:], strict=True)),
        }
    return found


def _given(selection: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in selection.items() if value is not None}


def _requests(studies: Iterable[str], selection: Mapping[str, Any]) -> list[Request]:
    for name in selection:
        if name not in Selection.__annotations__:
            raise unknown("selection", name, Selection.__annotations__)
    return [
        _in_our_names(Request(name, **_given(selection), brought=brought))
        for name, brought in map(study_file.named, studies)
    ]


def _in_our_names(request: Request) -> Request:
    """Return a request with names of the field replaced by ours, where its trainer has these."""
    if FIELD_NAMES.keys().isdisjoint({*request.set, *request.vary}):
        return request
    from ablations.sweep.defaults import study_of
    from ablations.trainers import trainer

    plugins.load()
    study = study_of(request)
    if not isinstance(study.trainer, str):  # a command's settings are its own
        return request
    known = trainer(study.trainer).settings
    return replace(
        request, set=in_our_names(request.set, known), vary=in_our_names(request.vary, known)
    )


def _resolve(request: Request) -> Plan:
    from ablations.sweep.plan import plan

    return plan(request)


def _as_explained(results: Path, request: Request) -> Request:
    """Return a request for an explanation that ran, with the two whose gap it explains."""
    if not has_run(results, request.study):
        return request
    last = read_plan(results, request.study).request
    if not last.get("explain"):
        return request
    asked = {"explain": last["explain"], "together": last.get("together", ())}
    return replace(request, **asked, geometry=request.geometry or last.get("geometry"))


def _that_ran(results: Path) -> list[str]:
    if found := sorted(path.parent.name for path in (results / "plans").glob("*/last")):
        return found
    raise UserError(
        f"nothing has run in '{results}': start with `ablations run STUDY`, "
        f"or name another folder with --results"
    )
