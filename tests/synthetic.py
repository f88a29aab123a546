"""Plans and records with known scores, written through the same functions as real ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ablations.core.plan import CellEntry, Formula, StoredStudy, StoredTask, StoredVariant
from ablations.records import Plan, Record, digest, write_plan, write_record

VERSIONS = {"jax": "0.10.2", "brax": "0.14.2"}


def synthetic_study(
    results: Path,
    finals: Mapping[tuple[str, str], Sequence[float]],
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
    failed: Mapping[tuple[str, str, int], str] | None = None,
    missing: Sequence[tuple[str, str, int]] = (),
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
    failed = failed or {}
    tasks = list(dict.fromkeys(task for task, _ in finals))
    variants = list(dict.fromkeys(variant for _, variant in finals))
    versus = versus or {}
    cells = []
    random = np.random.default_rng(0)
    for (task, variant), values in finals.items():
        for seed, value in enumerate(values):
            config = {
                "study": name,
                "task": task,
                "variant": (same_as or {}).get(variant, variant),
                "seed": seed,
                "final": str(value),
            }
            if task_settings is not None:
                config["task"] = {"name": task, "settings": dict(task_settings[variant])}
            cell = CellEntry(task, variant, seed, digest(config), config)
            cells.append(cell)
            place = (task, variant, seed)
            if place in missing:
                continue
            made_by = {"versions": VERSIONS, "host": "node"}
            outcome: dict[str, Any] = {"status": "done"}
            if place in failed:
                outcome = {
                    "status": "failed",
                    "failure": "diverged",
                    "reason": failed[place],
                    "failed_step": steps // 2,
                }
            step = np.arange(1, points + 1, dtype=np.int64) * (steps // points)
            unit = (units or {}).get(task, 1.0)
            shape = np.exp(-4 * (step - step[0]) / step[-1])
            wobble = noise * random.normal(size=points)
            wobble[10 * step > 9 * step[-1]] = 0
            curve = np.where((10 * step > 9 * step[-1]), value, value - unit * shape) + wobble
            columns = {
                "step": step,
                "training/return": curve,
                "training/length": np.full(points, 100.0),
                "loss/value": np.exp(-3 * step / step[-1]) + abs(wobble),
            }
            record = Record(cell.hash, config, provenance=made_by, **outcome)
            write_record(results, record, columns)
    plan = Plan(
        request={
            "profile": "quick",
            "tasks": None,
            "variants": None,
            "seeds": None,
            "steps": None,
            "set": {},
            "vary": {},
        },
        study=StoredStudy(
            name=name,
            title=title,
            claim=claim,
            claim_source="Andrychowicz et al. 2021",
            baseline=baseline or variants[0],
            margin=margin,
            margin_in_metric=margin_in_metric,
            metric="training/return",
        ),
        variants={
            variant: StoredVariant(
                versus.get(variant),
                summary,
                dict((sets or {}).get(variant, {})),
                {k: Formula(**one) for k, one in (formulas or {}).get(variant, {}).items()},
                (same_as or {}).get(variant, variant),
            )
            for variant in variants
        },
        tasks={task: StoredTask(steps, {}, "") for task in tasks},
        cells=tuple(cells),
    )
    write_plan(results, plan)
    return plan


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
