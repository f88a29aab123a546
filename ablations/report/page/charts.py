"""What the page's interactive charts show, as plain data; charts.js draws it.

A chart is {"kind": "lines", "rows", "along" or "matrix", "columns": side by side, "panels": [...]};
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
from ablations.report.sensitivity import Tuned, panels, rows_of, runs
from ablations.report.series import (
    efficiency,
    families,
    label,
    normalised,
    ordered,
    paired,
    points,
    shown,
    thresholds,
)
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
    """Every variant with its family and its place in it, which is its colour and its dashes."""
    entries: dict[str, dict[str, Any]] = {}
    for family in families(plan):
        for place, variant in enumerate(family.variants):
            if variant in plan.variants:
                entry = {"name": variant, "family": family.name, "place": place}
                entries.setdefault(variant, entry)
    return list(entries.values())


def curves(plan: Plan, found: Scores, *, bands: bool = True) -> Chart:
    """IQM over training per task, and per group of variants that share a baseline."""
    panels = []
    for family in families(plan):
        for task in plan.tasks:
            name = f"{task}, {family.name}" if family.name else task
            panels.append(_curve_panel(plan, found, task, family.variants, name, bands))
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
    groups = families(plan)
    panels = []
    for metric, scores in found.items():
        for task in plan.tasks:
            for family in groups:
                name = ", ".join(filter(None, (label(metric), task, family.name)))
                panels.append(_curve_panel(plan, scores, task, family.variants, name, bands=False))
    # A metric's panels stand side by side, or those of several metrics where it has but one.
    columns = {1: 3, 2: 2, 4: 2}.get(len(plan.tasks) * len(groups), 3)
    return {"kind": "lines", "columns": columns, "panels": panels}


def profiles(plan: Plan, found: Scores, learned: Units) -> Chart | None:
    """Share of runs above each normalised score, per group of variants."""
    scores = normalised(plan, found, learned)
    if not scores:
        return None
    cuts = thresholds(scores)
    lines = {v: (cuts, *performance_profile(rows, cuts)) for v, rows in scores.items()}
    chart = _by_family(plan, lines, "normalised score", "share of runs above")
    return chart | {"shape": "hv"}


def sample_efficiency(plan: Plan, found: Scores, learned: Units) -> Chart | None:
    """Normalised scores over training, over several tasks, per family of variants."""
    lines = efficiency(plan, found, learned)
    return _by_family(plan, lines, "share of training", "normalised score") if lines else None


def _by_family(plan: Plan, lines: Mapping[str, Sequence[ArrayLike]], x: str, y: str) -> Chart:
    """A panel per family of those variants that have a line: x, middle, low, high."""
    panels = []
    for family in families(plan):
        described = [
            {
                "variant": v,
                **dict(zip(("x", "y", "low", "high"), map(numbers, lines[v]), strict=True)),
            }
            for v in family.variants
            if v in lines
        ]
        if described:
            name = family.name or "all variants"
            panels.append({"title": name, "x": x, "y": y, "lines": described})
    return {"kind": "lines", "columns": max(2, side_by_side(len(panels))), "panels": panels}


def sensitivity(plan: Plan, made: Table, found: Scores, learned: Units) -> Chart | None:
    """Scores along each number that variants differ in, with the margin around what they are
    compared with."""
    described = []
    for panel in panels(plan, made):
        lines = []
        places = panel.places
        for one in panel.lines:
            along = zip(one.values, rows_of(made, panel, one), strict=True)
            seen = [(places[value], row) for value, row in along if row is not None]
            scores = [(x, runs(plan, found, learned, panel.task, row.variant)) for x, row in seen]
            lines.append(
                {
                    "name": one.name or panel.number,
                    "x": numbers([x for x, _ in seen]),
                    "y": [number(row.mean) for _, row in seen],
                    "low": [number(row.low) for _, row in seen],
                    "high": [number(row.high) for _, row in seen],
                    "dots": [
                        [number(x) for x, of in scores for _ in of],
                        [number(value) for _, of in scores for value in of],
                    ],
                }
            )
        over = panel.task == ALL_TASKS
        band = panel.band
        described.append(
            {
                "title": f"{panel.number}: {panel.title}",
                "x": panel.number,
                "y": "normalised score" if over else f"final {label(made.metric)}",
                "ticks": [numbers(list(places.values())), panel.labels(0.02)],
                "band": band and [numbers([places[x] for x in band[0]]), *map(numbers, band[1:])],
                "lines": lines,
            }
        )
    columns = max(2, side_by_side(len(described)))
    return {"kind": "along", "columns": columns, "panels": described} if described else None


def plane(points: Sequence[Tuned]) -> Chart | None:
    """What is lost without tuning against the tuned score."""
    lines = [
        {
            "name": one.name,
            **dict(zip(("x", "left", "right"), ([number(v)] for v in one.lost), strict=True)),
            **dict(zip(("y", "low", "high"), ([number(v)] for v in one.score), strict=True)),
        }
        for one in points
    ]
    panel = {
        "title": "all environments",
        "x": "lost with one setting for all environments",
        "y": "score, tuned for each",
        "reference": 0,
        "lines": lines,
    }
    return {"kind": "along", "columns": 2, "panels": [panel]} if lines else None


def differences(plan: Plan, made: Table, found: Scores, learned: Units | None) -> Chart | None:
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
                        | {"dots": numbers(paired(plan, found, learned, task, row.variant))}
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
                    "ticks": [0, 0.5, 1],
                    "rows": described,
                }
            )
    return _rows(panels) if panels else None


def intervals(plan: Plan, found: Scores, learned: Units) -> Chart | None:
    """Aggregates of normalised scores over tasks, one panel per statistic."""
    scores = normalised(plan, found, learned)
    if not scores:
        return None
    order = [variant for variant in ordered(plan) if variant in scores]
    panels = []
    for statistic, name in shown(plan).items():
        rows = []
        for variant in order:
            low, high = aggregate_interval(scores[variant], statistic)
            value = aggregate(scores[variant], statistic)
            seeds = range(len(scores[variant][0]))
            each = [aggregate([one[[s]] for one in scores[variant]], statistic) for s in seeds]
            text = estimate(value, low, high)
            rows.append(
                {
                    "variant": variant,
                    "value": number(value),
                    "low": number(low),
                    "high": number(high),
                    "text": f"{text}, {len(seeds)} seeds",
                    "dots": numbers(each),
                }
            )
        better = "lower is better" if statistic == "optimality_gap" else "normalised score"
        panels.append({"title": name, "x": better, "rows": rows})
    return _rows(panels)


def effects(sheet: Sheet | None, metric: str) -> Chart | None:
    """Effects on a metric, per task: the matrix of a factorial; of a fraction, which has no
    interactions, a row per main effect."""
    rows = [] if sheet is None else sheet.records()
    rows = [row for row in rows if row["effect"] is not None]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    panels = []
    if rows and not any(row["kind"] == "interaction" for row in rows):
        for task in tasks:
            described = [
                {
                    "variant": f"{row['factor']} = {row['level']}",
                    "baseline": None,
                    **{key: number(row[key]) for key in ("low", "high")},
                    "value": number(row["effect"]),
                    "verdict": row["verdict"],
                    "text": f"{estimate(row['effect'], row['low'], row['high'], '+')}, "
                    f"{row['verdict']}, {row['n']} seeds",
                }
                for row in rows
                if row["task"] == task
            ]
            of = "in what was learned" if task == ALL_TASKS else label(metric)
            panels.append({"title": task, "x": of, "reference": 0, "rows": described})
        return _rows(panels)
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


LONG = 24  # letters of a name, which take the room of a third panel beside


def _rows(panels: list[dict[str, Any]]) -> Chart:
    columns = 4 if len(panels) == 4 else max(2, side_by_side(len(panels)))
    if max(len(row["variant"]) for panel in panels for row in panel["rows"]) > LONG:
        columns = 2
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
