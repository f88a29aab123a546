"""What the page's interactive charts show, as plain data; page.js draws it.

A chart is {"kind": "lines", "rows" or "matrix", "columns": side by side, "panels": [...]};
every number is rounded to six significant digits, and None where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ablations.records import Plan
from ablations.report.formats.numbers import decimals, verdict_text
from ablations.report.scores import Scores, step_unit
from ablations.report.series import groups, label, normalised, points, shown, thresholds
from ablations.report.statistics import (
    LEVEL,
    aggregate,
    aggregate_interval,
    performance_profile,
)
from ablations.report.tables import ALL_TASKS, Entry, Sheet, Table
from ablations.report.units import Units

Chart = dict[str, Any]


def legend(plan: Plan) -> list[dict[str, Any]]:
    """Every variant with its group and its place in it, which is its colour and its dashes."""
    return [
        {"name": variant, "group": g, "place": place}
        for g, group in enumerate(groups(plan))
        for place, variant in enumerate(group)
        if variant in plan.variants
    ]


def curves(plan: Plan, found: Scores, *, bands: bool = True) -> Chart:
    """IQM over training per task, and per group of variants that share a baseline."""
    panels = []
    families = groups(plan)
    for group in families:
        for task in plan.tasks:
            name = task if len(families) == 1 else f"{task}, vs {group[0]}"
            panels.append(_curve_panel(plan, found, task, group, name, bands))
    columns = len(plan.tasks) if 1 < len(plan.tasks) < 4 else side_by_side(len(panels))
    return {"kind": "lines", "columns": columns, "panels": panels}


def _curve_panel(
    plan: Plan, found: Scores, task: str, variants: Sequence[str], name: str, bands: bool
) -> dict[str, Any]:
    lines = []
    for variant in variants:
        steps, middle, low, high = points(found, task, variant)
        if len(steps):
            line = {"variant": variant, "x": [int(step) for step in steps], "y": numbers(middle)}
            if bands:
                line |= {"low": numbers(low), "high": numbers(high)}
            lines.append(line)
    return {"title": name, "x": step_unit(plan), "y": label(found.metric), "lines": lines}


def diagnostics(plan: Plan, found: Mapping[str, Scores]) -> Chart:
    """The same for other metrics, without bands."""
    families = groups(plan)
    panels = []
    for metric, scores in found.items():
        for task in plan.tasks:
            for group in families:
                name = f"{label(metric)}, {task}" + (f", vs {group[0]}" * (len(families) > 1))
                panels.append(_curve_panel(plan, scores, task, group, name, bands=False))
    # A metric's panels stand side by side, or those of several metrics where it has but one.
    columns = {1: 3, 2: 2, 4: 2}.get(len(plan.tasks) * len(families), 3)
    return {"kind": "lines", "columns": columns, "panels": panels}


def profiles(plan: Plan, found: Scores, learned: Units) -> Chart | None:
    """Share of runs above each normalised score, per group of variants."""
    scores = normalised(plan, found, learned)
    if not scores:
        return None
    cuts = thresholds(scores)
    families = [[v for v in group if v in scores] for group in groups(plan)]
    panels = []
    for group in (group for group in families if group):
        lines = []
        for variant in group:
            share, low, high = performance_profile(scores[variant], cuts)
            lines.append(
                {
                    "variant": variant,
                    "x": numbers(cuts),
                    "y": numbers(share),
                    "low": numbers(low),
                    "high": numbers(high),
                }
            )
        name = "all variants" if len(families) == 1 else f"vs {group[0]}"
        panels.append(
            {"title": name, "x": "normalised score", "y": "share of runs above", "lines": lines}
        )
    return {
        "kind": "lines",
        "shape": "hv",
        "columns": max(2, side_by_side(len(panels))),
        "panels": panels,
    }


def differences(made: Table) -> Chart | None:
    """Every comparison's difference, interval and verdict against the margin, per task."""
    panels = []
    for task in (*made.tasks, ALL_TASKS):
        rows = [row for row in made.rows if row.task == task and row.difference is not None]
        if rows:
            margin = next((row.margin for row in rows if row.margin), None)
            panels.append(
                {
                    "title": task,
                    "x": "in what was learned" if task == ALL_TASKS else label(made.metric),
                    "reference": 0,
                    "margin": number(margin),
                    "rows": [
                        _row(row, row.difference, row.difference_low, row.difference_high, "+")
                        for row in rows
                    ],
                }
            )
    return _rows(panels) if panels else None


def improvement(made: Table) -> Chart | None:
    """Every comparison's probability of improvement with its interval, per task."""
    panels = []
    for task in (*made.tasks, ALL_TASKS):
        rows = [row for row in made.rows if row.task == task and row.improvement_low is not None]
        if rows:
            described = [
                _row(row, row.probability_of_improvement, row.improvement_low, row.improvement_high)
                for row in rows
            ]
            panels.append(
                {
                    "title": task,
                    "x": "P(variant > baseline)",
                    "reference": 0.5,
                    "range": [-0.04, 1.04],
                    "rows": described,
                }
            )
    return _rows(panels) if panels else None


def intervals(plan: Plan, found: Scores, learned: Units) -> Chart | None:
    """Aggregates of normalised scores over tasks, one panel per statistic."""
    scores = normalised(plan, found, learned)
    if not scores:
        return None
    order = [variant for group in groups(plan) for variant in group if variant in scores]
    panels = []
    for statistic, name in shown(plan).items():
        rows = []
        for variant in order:
            low, high = aggregate_interval(scores[variant], statistic)
            value = aggregate(scores[variant], statistic)
            text = estimate(value, low, high)
            rows.append(
                {
                    "variant": variant,
                    "value": number(value),
                    "low": number(low),
                    "high": number(high),
                    "text": f"{text}, {len(scores[variant][0])} seeds",
                }
            )
        better = "lower is better" if statistic == "optimality_gap" else "normalised score"
        panels.append({"title": name, "x": better, "rows": rows})
    return _rows(panels)


def effects(sheet: Sheet | None) -> Chart | None:
    """The effect matrix of a factorial, per task."""
    if sheet is None:
        return None
    rows = sheet.records()
    rows = [row for row in rows if row["effect"] is not None]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    panels = []
    for task in tasks:
        mine = [row for row in rows if row["task"] == task]
        items = [(row["factor"], row["level"]) for row in mine if row["kind"] == "main"]
        names = [f"{factor} = {level}" for factor, level in items]
        cells = []
        for row in mine:
            parts = zip(
                row["factor"].split(" \u00d7 "), row["level"].split(" \u00d7 "), strict=True
            )
            where = sorted(items.index(item) for item in parts)
            text = estimate(row["effect"], row["low"], row["high"], "+")
            cells.append(
                {
                    "row": where[-1],
                    "column": where[0],
                    "value": number(row["effect"]),
                    "significant": row["p_adjusted"] is not None and row["p_adjusted"] < LEVEL,
                    "equivalent": row["verdict"] == "equivalent",
                    "text": f"{row['kind']}: {text}, {row['verdict']}",
                }
            )
        panels.append({"title": task, "names": names, "cells": cells})
    return {"kind": "matrix", "columns": 3, "panels": panels} if panels else None


def side_by_side(count: int) -> int:
    """How many of so many panels stand side by side where there is room: rows come out even."""
    return {1: 1, 2: 2, 4: 2}.get(count, 3)


def number(value: Any) -> float | None:
    """Six significant digits; None for None and NaN."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.6g}")


def numbers(values: ArrayLike) -> list[float | None]:
    return [number(value) for value in np.asarray(values, dtype=np.float64)]


def _rows(panels: list[dict[str, Any]]) -> Chart:
    columns = 4 if len(panels) == 4 else max(2, side_by_side(len(panels)))
    return {"kind": "rows", "columns": columns, "panels": panels}


def _row(
    row: Entry, value: float | None, low: float | None, high: float | None, sign: str = ""
) -> dict[str, Any]:
    return {
        "variant": row.variant,
        "baseline": row.baseline,
        "value": number(value),
        "low": number(low),
        "high": number(high),
        "verdict": row.verdict,
        "text": f"{estimate(value, low, high, sign)}, {verdict_text(row)}, {row.n_pairs} pairs",
    }


def estimate(value: float | None, low: float | None, high: float | None, sign: str = "") -> str:
    """ "+0.12 [-0.30, +0.54]"."""
    bounds: Iterable[float | None] = (value, low, high)
    given = [one for one in bounds if one is not None and math.isfinite(one)]
    if not given:
        return ""
    if len(given) < 3 or low is None or high is None:
        return f"{given[0]:{sign}.{decimals(given[0], None, None)}f}"
    places = decimals(given[0], low, high)
    return f"{given[0]:{sign}.{places}f} [{low:{sign}.{places}f}, {high:{sign}.{places}f}]"
