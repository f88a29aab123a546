"""From a study and its flags to cells: every setting resolved, checked and named."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import variants as registry
from ablations import studies
from ablations.errors import UserError, unknown
from ablations.records import Plan, digest
from ablations.request import Request
from ablations.studies import Profile, Study
from ablations.sweep.config import steps_of
from ablations.tasks import Task, task
from ablations.trainers import Definition, trainer

RUN_SETTINGS = ("steps", "points", "evaluations", "evaluation_envs")
MAX_SEEDS = 100_000


def plan(request: Request) -> Plan:
    """Resolves a request to the cells that answer it. Raises UserError on anything that makes no
    sense.
    """
    study = studies.study(request.study)
    if request.profile not in study.profiles:
        raise unknown(f"profile of '{study.name}'", request.profile, study.profiles)
    profile = study.profiles[request.profile]
    names = _selected(
        request.variants, profile.variants, study.variants, f"variant of '{study.name}'"
    )
    seeds = profile.seeds if request.seeds is None else request.seeds
    if not 0 < seeds <= MAX_SEEDS:
        raise UserError(f"--seeds must be at least 1 and at most {MAX_SEEDS}, not {seeds}")
    tasks = [task(name) for name in _unique(request.tasks or profile.tasks)]
    definition = trainer(study.trainer)
    for name in request.set:
        differing = [v for v in names if name in study.variants[v].sets]
        if differing:
            raise UserError(
                f"--set {name}: variants of '{study.name}' set it themselves "
                f"({', '.join(differing)}): leave those out with --variants, or drop the --set"
            )

    cells, described = [], {}
    for one in tasks:
        configs = {}
        for name in names:
            common = _common(study, profile, one, definition, request)
            values = {**common, **study.variants[name].sets}
            try:
                config = resolve(one, definition, values)
                iteration_steps = definition.iteration_steps(config["structure"])
                configs[name] = config | {"run": _schedule(values, profile, one, iteration_steps)}
            except UserError as error:
                raise UserError(f"{study.name}/{name} on {one.name}: {error}") from None
        shared = configs.get(study.baseline) or next(iter(configs.values()))
        unit = one.score_unit(shared["task"]["settings"])
        units = {name: one.score_unit(c["task"]["settings"]) for name, c in configs.items()}
        described[one.name] = {
            "score_unit": unit,
            "references": list(one.references(shared["task"]["settings"])),
            "score_units": {name: its for name, its in units.items() if its != unit},
            "steps": steps_of(shared),
            "settings": shared["task"]["settings"],
            "summary": one.summary,
        }
        for seed in range(seeds):
            for name, config in configs.items():
                whole = config | {"seed": seed}
                cells.append(
                    {
                        "task": one.name,
                        "variant": name,
                        "seed": seed,
                        "hash": digest(whole),
                        "config": whole,
                    }
                )
    return Plan(
        request=request.flags(),
        study={
            "name": study.name,
            "title": study.title,
            "claim": study.claim,
            "claim_source": study.claim_source,
            "baseline": study.baseline,
            "margin": study.margin,
            "metric": study.metric,
        },
        variants={
            name: {
                "versus": study.variants[name].versus,
                "summary": study.variants[name].summary,
                "sets": dict(study.variants[name].sets),
                "formulas": formulas,
            }
            for name, formulas in _formulas(cells, study, names).items()
        },
        tasks=described,
        cells=tuple(cells),
    )


def _formulas(
    cells: Sequence[Mapping[str, Any]], study: Study, names: Sequence[str]
) -> dict[str, dict[str, dict[str, str]]]:
    """variant -> axis -> choice, summary, formula and source, for the axes that the variants set
    or in which they differ: `report` prints them and never imports the registry."""
    chosen: dict[str, dict[str, str]] = {}
    for cell in cells:
        choices = {axis: one["name"] for axis, one in cell["config"]["choices"].items()}
        chosen.setdefault(cell["variant"], choices)
    axes = [
        axis
        for axis in registry.axes()
        if any(axis in study.variants[name].sets for name in names)
        or len({chosen[name].get(axis) for name in names}) > 1
    ]
    found: dict[str, dict[str, dict[str, str]]] = {}
    for name in names:
        found[name] = {}
        for axis in axes:
            if axis in chosen[name]:
                choice = registry.axis(axis)[chosen[name][axis]]
                found[name][axis] = {
                    "choice": choice.name,
                    "summary": choice.summary,
                    "formula": choice.formula,
                    "source": choice.source,
                }
    return found


def resolve(task: Task, definition: Definition, values: Mapping[str, Any]) -> dict[str, Any]:
    """One configuration, without its seed and how long it runs: the values over the defaults,
    checked.

    Raises UserError for a name that nothing has, a value out of range, a combination that makes no
    sense.
    """
    known = [
        *definition.axes,
        *definition.coefficients,
        *definition.structure,
        *task.settings,
        *RUN_SETTINGS,
    ]
    for name in values:
        if name not in known:
            raise unknown("setting", name, known)

    choices = {
        name: _choice(name, values.get(name, default)) for name, default in definition.axes.items()
    }
    coefficients = {
        name: _number(name, values.get(name, one.default), one.low, one.high)
        for name, one in definition.coefficients.items()
    }
    structure = {
        name: _option(name, values.get(name, one.default), one)
        for name, one in definition.structure.items()
    }
    settings = {name: values.get(name, default) for name, default in task.settings.items()}
    for name, default in task.settings.items():
        settings[name] = _like(name, settings[name], default)
    # Rules name the counts and numbers that they look at, such as samples_per_prompt.
    numbers = {
        name: value
        for name, value in {**coefficients, **structure, **settings}.items()
        if isinstance(value, int | float)
    }
    complaints = [
        *registry.conflicts({**numbers, **choices}),
        *task.check(settings),
        *definition.check(structure=structure, coefficients=coefficients, settings=settings),
    ]
    if complaints:
        raise UserError("; ".join(complaints))
    return {
        "trainer": {"name": definition.name, "revision": definition.revision},
        "task": {"name": task.name, "revision": task.revision, "settings": settings},
        "choices": {
            name: {"name": choice, "revision": registry.axis(name)[choice].revision}
            for name, choice in choices.items()
        },
        "coefficients": coefficients,
        "structure": structure,
    }


def fixed_axes(config: Mapping[str, Any], *, accelerator: bool) -> tuple[str, ...]:
    """Axes whose choice is compiled in. Under vmap every lane pays for every branch of a switch, so
    an accelerator gets one program per choice of those declared `specialise`; a single lane only
    pays for the branch that it takes."""
    if not accelerator:
        return ()
    return tuple(name for name in config["choices"] if registry.axis(name).specialise)


def _common(
    study: Study, profile: Profile, task: Task, definition: Definition, request: Request
) -> dict[str, Any]:
    """What all variants of a study share on a task: the later wins."""
    return {
        **task.hyperparameters.get(definition.name, {}),
        **study.settings,
        **profile.settings,
        **profile.task_settings.get(task.name, {}),
        **request.set,
        **({} if request.steps is None else {"steps": request.steps}),
    }


def _schedule(
    values: Mapping[str, Any], profile: Profile, task: Task, iteration_steps: int
) -> dict[str, int]:
    """Chunks of equal length, so that one compiled program serves them all; steps are rounded
    up.
    """
    steps = _count("steps", values.get("steps", profile.steps or task.steps), 1)
    wanted = _count("points", values.get("points", profile.points), 1)
    evaluations = _count("evaluations", values.get("evaluations", profile.evaluations), 0)
    environments = _count(
        "evaluation_envs", values.get("evaluation_envs", profile.evaluation_envs), 1
    )
    iterations = math.ceil(steps / iteration_steps)
    updates = max(1, round(iterations / wanted))
    points = math.ceil(iterations / updates)
    return {
        "iteration_steps": iteration_steps,
        "updates_per_chunk": updates,
        "points": points,
        "evaluations": min(evaluations, points),
        "evaluation_envs": environments if evaluations else 0,
    }


def _selected(
    asked: Sequence[str] | None, profile: Sequence[str] | None, known: Mapping[str, Any], kind: str
) -> list[str]:
    names = _unique(asked or profile or tuple(known))
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)
    return [name for name in known if name in names]


def _unique(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _choice(axis: str, name: Any) -> str:
    try:
        return registry.axis(axis)[name].name
    except registry.UnknownName as error:
        raise UserError(str(error)) from None


def _number(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"{name} must be a number, not {value!r}")
    if not low <= value <= high:
        raise UserError(f"{name}={value:g} is out of range: it goes from {low:g} to {high:g}")
    return float(value)


def _count(name: str, value: Any, low: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{name} must be a whole number, not {value!r}")
    if value < low:
        raise UserError(f"{name} must be at least {low}, not {value}")
    return value


def _option(name: str, value: Any, option: Any) -> Any:
    value = _like(name, value, option.default)
    if option.allowed is not None and value not in option.allowed:
        raise unknown(name, str(value), map(str, option.allowed))
    numbers = value if isinstance(value, list) else [value]
    if option.low is not None and any(number < option.low for number in numbers):
        raise UserError(f"{name} must be at least {option.low}, not {value}")
    return value


def _like(name: str, value: Any, default: Any) -> Any:
    """The value in the type of its default: a flag, a whole number, a number, a list of counts, a
    text.
    """
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UserError(f"{name} must be true or false, not {value!r}")
        return value
    if isinstance(default, int):
        return _count(name, value, 0)
    if isinstance(default, float):
        return _number(name, value, -sys.float_info.max, sys.float_info.max)
    if isinstance(default, (list, tuple)):
        if not isinstance(value, (list, tuple)):
            raise UserError(f"{name} must be a list such as {list(default)}, not {value!r}")
        return [_count(name, one, 1) for one in value]
    if not isinstance(value, str):
        raise UserError(f"{name} must be a text such as '{default}', not {value!r}")
    return value
