"""From a study and its flags to cells: every setting resolved, checked and named."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ablations import studies
from ablations.errors import UserError, unknown
from ablations.records import Plan, digest
from ablations.request import Request
from ablations.studies import Profile, Study
from ablations.sweep.config import steps_of
from ablations.tasks import Task, task
from ablations.trainers import Definition, trainer
from ablations.trainers.composition import count, formulas, resolve

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
    chosen: dict[str, dict[str, str]] = {}
    for one in tasks:
        configs = {}
        for name in names:
            common = _common(study, profile, one, definition, request)
            values = {**common, **study.variants[name].sets}
            try:
                config = resolve(one, definition, values, RUN_SETTINGS)
                iteration_steps = definition.iteration_steps(config["structure"])
                configs[name] = config | {"run": _schedule(values, profile, one, iteration_steps)}
            except UserError as error:
                raise UserError(f"{study.name}/{name} on {one.name}: {error}") from None
        for name, config in configs.items():
            chosen[name] = {axis: one["name"] for axis, one in config["choices"].items()}
        shared = configs.get(study.baseline) or next(iter(configs.values()))
        described[one.name] = {
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
            "margin_in_metric": study.margin_in_metric,
            "metric": study.metric,
        },
        variants={
            name: {
                "versus": study.variants[name].versus,
                "summary": study.variants[name].summary,
                "sets": dict(study.variants[name].sets),
                "formulas": told,
            }
            for name, told in formulas(
                chosen, {name: study.variants[name].sets for name in names}
            ).items()
        },
        tasks=described,
        cells=tuple(cells),
    )


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
    steps = count("steps", values.get("steps", profile.steps or task.steps), 1)
    wanted = count("points", values.get("points", profile.points), 1)
    evaluations = count("evaluations", values.get("evaluations", profile.evaluations), 0)
    environments = count(
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
