"""From a study and its flags to cells: every setting resolved, checked and named."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ablations import studies
from ablations.errors import UserError
from ablations.records import Plan, digest
from ablations.request import Request
from ablations.studies import Profile, Study
from ablations.sweep.config import steps_of
from ablations.sweep.selection import RUN_SETTINGS, select
from ablations.tasks import Task, task
from ablations.trainers import Definition, trainer
from ablations.trainers.composition import count, formulas, resolve


def plan(request: Request) -> Plan:
    """Resolves a request to the cells that answer it. Raises UserError on anything that makes no
    sense.
    """
    selected = select(studies.study(request.study), request)
    study, profile, names = selected.study, selected.profile, list(selected.study.variants)
    tasks = [task(name) for name in selected.tasks]
    definition = trainer(study.trainer)

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
        for seed in selected.seeds:
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
