"""Runs in memory with differences that are hard to judge; their margin is in units of the score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from synthetic import spread

from ablations.core import plan as stored
from ablations.records import Plan
from ablations.runs import Runs

SEEDS, MARGIN = 22, 0.05
NOISE = np.array(spread(0.0, 1.0, SEEDS, 7))

# Differences of a variant by seed
PATTERNS: Mapping[str, np.ndarray] = {
    "equal": np.zeros(SEEDS),
    "up": np.full(SEEDS, 15.0),
    "down": np.full(SEEDS, -15.0),
    "ties": np.where(np.arange(SEEDS) % 3, 0.0, 0.25),
    "one seed": np.where(np.arange(SEEDS) == 3, 4.0, 0.0),
    "balanced": np.where(np.arange(SEEDS) % 2, 1.0, -1.0),
    "noise": 0.5 * NOISE,
    "within": 0.01 * NOISE,
    "within, above": 0.02 + 0.01 * NOISE,
    "beyond": 1.0 + 0.1 * NOISE[::-1],
    "below": -1.0 + 0.1 * NOISE[::-1],
    "above": 0.06 + 0.05 * NOISE,
}


def runs_of(
    scores: Mapping[tuple[str, str], Any],
    *,
    sets: Mapping[str, Mapping[str, Any]] | None = None,
    lost: Mapping[tuple[str, str, int], str] | None = None,
    bits: Mapping[str, str] | None = None,
    looks: stored.Looks = stored.NO_LOOKS,
    **about: Any,
) -> Runs:
    """Return runs with a score per seed by task and variant, the first variant the baseline.

    lost: run -> failed or missing. bits: variant -> digest of its curves, by default its own.
    about: more of the study.
    """
    tasks, variants = (list(dict.fromkeys(names)) for names in zip(*scores, strict=True))
    rows = pd.DataFrame(
        [(*place, seed, float(x)) for place, of in scores.items() for seed, x in enumerate(of)],
        columns=["task", "variant", "seed", "score"],
    )
    places = zip(rows.task, rows.variant, rows.seed, strict=True)
    rows["status"] = [(lost or {}).get(place, "done") for place in places]
    rows["score"] = rows.score.where(rows.status == "done")
    rows["bits"] = [(bits or {}).get(name, name) for name in rows.variant]
    rows["reason"], rows["diverged"] = "", rows.status == "failed"
    study = stored.StoredStudy("s", "s", "", "", variants[0], MARGIN, True, "return", **about)
    plan = Plan(
        {"profile": "quick"},
        study,
        {v: stored.StoredVariant(None, "", (sets or {}).get(v, {}), same_as=v) for v in variants},
        {task: stored.StoredTask(100, {}, "") for task in tasks},
        tuple(stored.CellEntry(r.task, r.variant, r.seed, "", {}) for r in rows.itertuples()),
        looks,
    )
    curves = pd.DataFrame(columns=["task", "variant", "seed", "step", "return"])
    versus = dict.fromkeys(variants, variants[0])
    options: dict[str, Any] = {"margin": MARGIN, "margin_in_metric": True, "plan": plan}
    return Runs(rows, curves, "return", variants[0], versus, **options)


def contradicts(row: Mapping[str, Any], name: str) -> bool:
    """Return whether a verdict does not go with the interval of the estimate `name`."""
    low, high, expected = row[f"{name}_low"], row[f"{name}_high"], "equivalent"
    if row["note"] not in ("identical", "does not act") and not max(-low, high) < MARGIN:
        expected = "better" if low > 0 else "worse" if high < 0 else "inconclusive"
    return bool(row["verdict"] != expected)
