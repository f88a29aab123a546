"""Runs in memory with differences that are hard to judge; their margin is in units of the score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ablations.core import plan as stored
from ablations.records import Plan
from ablations.runs import Runs

SEEDS, MARGIN = 22, 0.05
_NORMAL = np.random.default_rng(7).normal(size=SEEDS)
_STANDARD = (_NORMAL - _NORMAL.mean()) / _NORMAL.std(ddof=1)

# Differences of a variant by seed
PATTERNS: Mapping[str, np.ndarray] = {
    "equal": np.zeros(SEEDS),
    "up": np.full(SEEDS, 15.0),
    "down": np.full(SEEDS, -15.0),
    "ties": np.where(np.arange(SEEDS) % 3, 0.0, 0.25),
    "one seed": np.where(np.arange(SEEDS) == 3, 4.0, 0.0),
    "balanced": np.where(np.arange(SEEDS) % 2, 1.0, -1.0),
    "noise": 0.5 * _STANDARD,
    "within": 0.01 * _STANDARD,
    "within, above": 0.02 + 0.01 * _STANDARD,
    "beyond": 1.0 + 0.1 * _STANDARD[::-1],
    "below": -1.0 + 0.1 * _STANDARD[::-1],
    "above": 0.06 + 0.05 * _STANDARD,
}


def runs_of(
    scores: Mapping[tuple[str, str], np.ndarray],
    *,
    sets: Mapping[str, Mapping[str, Any]] | None = None,
    failed: Mapping[tuple[str, str, int], str] | None = None,
    bits: Mapping[str, str] | None = None,
    looks: stored.Looks = stored.NO_LOOKS,
    **about: Any,
) -> Runs:
    """Return the runs of a study, with a score per seed by task and variant.

    failed: run -> its status, failed or missing. bits: variant -> a digest of its curves; each has
    its own by default. about: more of the stored study.
    """
    lost = failed or {}
    tasks, variants = (list(dict.fromkeys(names)) for names in zip(*scores, strict=True))
    rows = [
        {
            **{"task": task, "variant": variant, "seed": seed},
            "status": lost.get((task, variant, seed), "done"),
            "score": np.nan if (task, variant, seed) in lost else float(score),
            **{"reason": "", "diverged": lost.get((task, variant, seed)) == "failed"},
            "bits": (bits or {}).get(variant, variant),
        }
        for (task, variant), of in scores.items()
        for seed, score in enumerate(of)
    ]
    study = stored.StoredStudy("s", "s", "", "", variants[0], MARGIN, True, "return")
    plan = Plan(
        request={"profile": "quick"},
        study=replace(study, **about),
        variants={
            name: stored.StoredVariant(None, "", (sets or {}).get(name, {}), same_as=name)
            for name in variants
        },
        tasks={task: stored.StoredTask(100, {}, "") for task in tasks},
        cells=tuple(
            stored.CellEntry(row["task"], row["variant"], row["seed"], f"{k}", {})
            for k, row in enumerate(rows)
        ),
        looks=looks,
    )
    return Runs(
        pd.DataFrame(rows),
        pd.DataFrame(columns=["task", "variant", "seed", "step", "return"]),
        "return",
        variants[0],
        dict.fromkeys(variants, variants[0]),
        margin=MARGIN,
        margin_in_metric=True,
        plan=plan,
    )


def contradicts(row: Mapping[str, Any], name: str) -> str:
    """Return what a verdict says against the interval of the estimate `name`; "" for nothing."""
    low, high, verdict = row[f"{name}_low"], row[f"{name}_high"], row["verdict"]
    if row["note"] in ("identical", "does not act"):
        return "" if verdict == "equivalent" and row[name] == 0 else "is not identical"
    inside = max(-low, high) < MARGIN
    side = "better" if low > 0 else "worse" if high < 0 else "inconclusive"
    return "" if verdict == ("equivalent" if inside else side) else f"is not {verdict}"
