"""Plans whose runs were evaluated ten times, with records of known scores, and trivial policies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ablations.core.plan import CellEntry, StoredStudy, StoredTask, StoredVariant
from ablations.records import Plan, Record, digest, write_plan, write_record

EVALUATIONS, POINTS, STEPS = 10, 20, 1_000_000
Place = tuple[str, str, int]


def settings_of(task: str) -> dict[str, Any]:
    return {"name": task, "settings": {"episode_length": 100, "backend": "spring"}}


def curve(score: float, *, level: bool = False) -> dict[str, list[Any]]:
    """Columns of a run whose last three evaluations have the mean `score`, and differ.

    level: all evaluations are the score.
    """
    values = [score * k / EVALUATIONS for k in range(EVALUATIONS - 3)]
    values += [score - 0.5, score + 1.0, score - 0.5]
    values = [score] * EVALUATIONS if level else values
    evaluated = [None if k % 2 == 0 else float(values[k // 2]) for k in range(POINTS)]
    return {
        "step": [(k + 1) * (STEPS // POINTS) for k in range(POINTS)],
        "training/return": [float(score)] * POINTS,
        "evaluation/return": evaluated,
    }


def study(
    results: Path,
    scores: Mapping[tuple[str, str], Sequence[float]],
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
    """Write a study of scores by (task, variant), a number for each seed; return its plan.

    missing, diverged, broken: cells that have no record, that training ended with NaN, and that an
    error ended.
    """
    tasks = list(dict.fromkeys(task for task, _ in scores))
    variants = list(dict.fromkeys(variant for _, variant in scores))
    cells = []
    for (task, variant), of_seeds in scores.items():
        for seed, value in enumerate(of_seeds):
            run = {"evaluations": EVALUATIONS, "evaluation_envs": 64, "points": POINTS}
            config = {"task": settings_of(task), "choices": {}, "seed": seed, "run": run}
            config["structure"] = {"study": name, "variant": variant}
            cell = CellEntry(task, variant, seed, digest(config), config)
            cells.append(cell)
            place = (task, variant, seed)
            if place in missing:
                continue
            failure = "diverged" if place in diverged else "error" if place in broken else None
            status = "failed" if failure else "done"
            record = Record(cell.hash, config, status, failure, failure)  # type: ignore[arg-type]
            write_record(results, record, curve(value, level=level), lasting=False)
    plan = Plan(
        request={"profile": "evidence", "seeds": None, "set": {}},
        study=StoredStudy(
            name, "Details", "they matter", "", variants[0], 0.05, False, "evaluation/return",
            step_unit="environment step", score=score, **about,
        ),
        variants={v: StoredVariant(None, "", dict((sets or {}).get(v, {}))) for v in variants},
        tasks={task: StoredTask(STEPS, {}, "") for task in tasks},
        cells=tuple(cells),
    )  # fmt: skip
    write_plan(results, plan)
    return plan


def trivial(results: Path, floors: Mapping[str, tuple[float, float]]) -> Plan:
    """Write policies that learn nothing: task -> mean scores of zero and of uniform actions."""
    scores = {
        (task, policy): [value - 2.0, value + 2.0]
        for task, pair in floors.items()
        for policy, value in zip(("zero", "uniform"), pair, strict=True)
    }
    return study(results, scores, name="trivial_policies", level=True)


def spread(mean: float, deviation: float, seeds: int, seed: int = 0) -> list[float]:
    """Return scores of so many seeds with exactly this mean and sample deviation."""
    z = np.random.default_rng(seed).normal(size=seeds)
    z = (z - z.mean()) / z.std(ddof=1)
    return [float(value) for value in mean + deviation * z]
