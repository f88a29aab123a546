"""Plans and records with known scores, written through the same functions as real ones.

`synthetic_study`: returns that rise to their scores. `study`: runs that were evaluated ten times,
beside the untrained policies of `trivial`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ablations.core.plan import CellEntry, Formula, StoredStudy, StoredTask, StoredVariant
from ablations.records import Plan, Record, digest, write_plan, write_record

VERSIONS = {"jax": "0.10.2", "brax": "0.14.2"}
EVALUATIONS, POINTS, STEPS = 10, 20, 1_000_000
Scores = Mapping[tuple[str, str], Sequence[float]]
Place = tuple[str, str, int]


def _written(
    results: Path,
    scores: Scores,
    study: StoredStudy,
    variants: Mapping[str, StoredVariant],
    *,
    steps: int,
    request: Mapping[str, Any],
    config: Callable[[Place, float], dict[str, Any]],
    columns: Callable[[str, float], Mapping[str, Any]],
    failed: Mapping[Place, Mapping[str, Any]],
    missing: Collection[Place],
    **about: Any,
) -> Plan:
    """Write a plan, and a record for each run but the missing ones. about: more of the records."""
    cells = []
    for (task, variant), values in scores.items():
        for seed, value in enumerate(values):
            place = (task, variant, seed)
            of = config(place, value)
            cells.append(CellEntry(*place, digest(of), of))
            if place not in missing:
                outcome = failed.get(place, {"status": "done"})
                record = Record(cells[-1].hash, of, **outcome, **about)
                write_record(results, record, columns(task, value), lasting=False)
    tasks = {task: StoredTask(steps, {}, "") for task, _ in scores}
    plan = Plan(request, study, variants, tasks, tuple(cells))
    write_plan(results, plan)
    return plan


def synthetic_study(
    results: Path,
    finals: Scores,
    *,
    name: str = "gae",
    baseline: str | None = None,
    versus: Mapping[str, str] | None = None,
    units: Mapping[str, float] | None = None,
    margin: float = 0.05,
    margin_in_metric: bool = False,
    points: int = 20,
    steps: int = 400_000,
    noise: float = 0.0,
    failed: Mapping[Place, str] | None = None,
    missing: Sequence[Place] = (),
    title: str = "Generalised advantage estimation",
    claim: str = "how an episode's end enters the advantage matters",
    summary: str = "",
    sets: Mapping[str, Mapping[str, Any]] | None = None,
    formulas: Mapping[str, Mapping[str, Mapping[str, str]]] | None = None,
    same_as: Mapping[str, str] | None = None,
    task_settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> Plan:
    """Writes a study of which every cell's final score is known, and returns its plan.

    finals: (task, variant) -> the final score of each seed. Curves rise to it by the task's unit
    (1 by default), which is what each seed learns, and stand still over the last tenth. failed:
    cell -> reason; missing: cells without a record. same_as: variant -> the one whose cells it
    shares, and whose scores are given. task_settings: variant -> settings of the task.
    """
    variants = list(dict.fromkeys(variant for _, variant in finals))
    same_as, random = same_as or {}, np.random.default_rng(0)
    step = np.arange(1, points + 1, dtype=np.int64) * (steps // points)
    shape, end = np.exp(-4 * (step - step[0]) / step[-1]), 10 * step > 9 * step[-1]

    def config(place: Place, value: float) -> dict[str, Any]:
        task, variant, seed = place
        own = {"study": name, "task": task, "variant": same_as.get(variant, variant), "seed": seed}
        own["final"] = str(value)
        if task_settings is not None:
            own["task"] = {"name": task, "settings": dict(task_settings[variant])}
        return own

    def columns(task: str, value: float) -> dict[str, Any]:
        wobble = np.where(end, 0.0, noise * random.normal(size=points))
        curve = np.where(end, value, value - (units or {}).get(task, 1.0) * shape) + wobble
        return {
            "step": step,
            "training/return": curve,
            "training/length": np.full(points, 100.0),
            "loss/value": np.exp(-3 * step / step[-1]) + abs(wobble),
        }

    lost = {"status": "failed", "failure": "diverged", "failed_step": steps // 2}
    return _written(
        results,
        finals,
        StoredStudy(
            name=name,
            title=title,
            claim=claim,
            claim_source="Andrychowicz et al. 2021",
            baseline=baseline or variants[0],
            margin=margin,
            margin_in_metric=margin_in_metric,
            metric="training/return",
        ),
        {
            variant: StoredVariant(
                (versus or {}).get(variant),
                summary,
                dict((sets or {}).get(variant, {})),
                {k: Formula(**one) for k, one in (formulas or {}).get(variant, {}).items()},
                same_as.get(variant, variant),
            )
            for variant in variants
        },
        steps=steps,
        request={"profile": "quick", "set": {}, "vary": {}}
        | dict.fromkeys(("tasks", "variants", "seeds", "steps")),
        config=config,
        columns=columns,
        failed={place: {**lost, "reason": reason} for place, reason in (failed or {}).items()},
        missing=missing,
        provenance={"versions": VERSIONS, "host": "node"},
    )


def realistic(
    seeds: int = 8,
    variants: int = 4,
    tasks: Sequence[str] = ("reacher", "hopper"),
    random_seed: int = 3,
) -> dict[tuple[str, str], list[float]]:
    """Final scores as a control study has them: the variants share the seeds' effects."""
    random = np.random.default_rng(random_seed)
    names = ["standard", "brax", "done_cut", "masked_truncation", "lambda_1", "lambda_0"][:variants]
    centers = {"reacher": (-7.5, 0.6), "hopper": (1450.0, 160.0)}
    effects = [0.0, 0.05, -2.2, 0.1, 0.7, -3.0]
    finals = {}
    for task in tasks:
        center, spread = centers.get(task, (0.0, 1.0))
        shared = random.normal(size=seeds)
        for effect, name in zip(effects, names, strict=False):
            own = random.normal(size=seeds)
            values = center + spread * (0.8 * shared + 0.45 * own + effect)
            finals[task, name] = [round(float(value), 6) for value in values]
    return finals


def spread(mean: float, deviation: float, seeds: int, seed: int = 0) -> list[float]:
    """Return scores of so many seeds with exactly this mean and sample deviation."""
    z = np.random.default_rng(seed).normal(size=seeds)
    z = (z - z.mean()) / z.std(ddof=1)
    return [float(value) for value in mean + deviation * z]


def study(
    results: Path,
    scores: Scores,
    *,
    name: str = "details",
    sets: Mapping[str, Mapping[str, Any]] | None = None,
    missing: Collection[Place] = (),
    diverged: Collection[Place] = (),
    broken: Collection[Place] = (),
    score: str | None = "last",
    level: bool = False,
    **about: Any,
) -> Plan:
    """Write a study whose last three evaluations of a run have its score as mean, and differ.

    missing, diverged, broken: cells that have no record, that training ended with NaN, and that an
    error ended. level: all evaluations are the score. about: more of the study.
    """
    variants = list(dict.fromkeys(variant for _, variant in scores))
    run = {"evaluations": EVALUATIONS, "evaluation_envs": 64, "points": POINTS}
    settings = {"episode_length": 100, "backend": "spring"}

    def config(place: Place, value: float) -> dict[str, Any]:
        task = {"name": place[0], "settings": settings}
        own = {"task": task, "choices": {}, "seed": place[2], "run": run}
        return own | {"structure": {"study": name, "variant": place[1]}}

    def columns(task: str, value: float) -> dict[str, Any]:
        values = [value * k / EVALUATIONS for k in range(EVALUATIONS - 3)]
        values += [value - 0.5, value + 1.0, value - 0.5]
        values = [value] * EVALUATIONS if level else values
        return {
            "step": [(k + 1) * (STEPS // POINTS) for k in range(POINTS)],
            "training/return": [float(value)] * POINTS,
            "evaluation/return": [float(values[k // 2]) if k % 2 else None for k in range(POINTS)],
        }

    lost = {"diverged": diverged, "error": broken}
    return _written(
        results,
        scores,
        StoredStudy(
            name, "Details", "they matter", "", variants[0], 0.05, False, "evaluation/return",
            step_unit="environment step", score=score, **about,
        ),
        {v: StoredVariant(None, "", dict((sets or {}).get(v, {}))) for v in variants},
        steps=STEPS,
        request={"profile": "evidence", "seeds": None, "set": {}},
        config=config,
        columns=columns,
        failed={
            place: {"status": "failed", "failure": why, "reason": why}
            for why, places in lost.items()
            for place in places
        },
        missing=missing,
    )  # fmt: skip


def trivial(results: Path, floors: Mapping[str, tuple[float, float]]) -> Plan:
    """Write policies that learn nothing: task -> mean scores of zero and of uniform actions."""
    scores = {
        (task, policy): [value - 2.0, value + 2.0]
        for task, pair in floors.items()
        for policy, value in zip(("zero", "uniform"), pair, strict=True)
    }
    return study(results, scores, name="trivial_policies", level=True)
