"""Figures of a study, from plan and records alone, readable in print and by the colour-blind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from ablations.errors import unknown
from ablations.records import Plan
from ablations.report.figures.aggregates import intervals, profiles, sample_efficiency
from ablations.report.figures.curves import curves, diagnostics
from ablations.report.figures.differences import differences, improvement
from ablations.report.figures.effects import effect_matrix, main_effects
from ablations.report.figures.sensitivity import plane, sensitivity
from ablations.report.figures.style import COLORS, DASHES, FORMATS, WIDTHS, save, style
from ablations.report.figures.waterfall import waterfall
from ablations.report.results import Results
from ablations.report.scores import DIAGNOSTICS, diagnostic_scores, scores
from ablations.report.sensitivity import plane as points_of
from ablations.report.tables import table
from ablations.report.tables.explained import shares_sheet
from ablations.report.tables.factorial import effects_sheet
from ablations.report.units import units_of_score

__all__ = [
    "COLORS",
    "DASHES",
    "FORMATS",
    "WIDTHS",
    "curves",
    "diagnostics",
    "differences",
    "draw",
    "effect_matrix",
    "figure",
    "improvement",
    "intervals",
    "main_effects",
    "plane",
    "profiles",
    "sample_efficiency",
    "sensitivity",
    "style",
    "waterfall",
]


def figure(
    plan: Plan,
    results: Path,
    folder: Path,
    *,
    metric: str | None = None,
    formats: Sequence[str] = ("svg", "png"),
    width: float | str | None = None,
    each_seed: bool = False,
) -> list[Path]:
    """Draws a study's figures; returns the files written, `<study>_<figure>.<format>` each.

    curves; and where there is something to compare differences and improvement; where variants
    differ in a number sensitivity, and plane where they differ in more; for a score that was
    learned intervals and profiles, and over several tasks efficiency; for a factorial effects; for
    the study's own metric diagnostics; for an explanation shares alone. A metric other than the
    study's own is part of the name.

    width: for a paper, in inches or one of `WIDTHS`, without title and footnote. each_seed: curves
    with a faint line for every seed. Raises UserError for an unknown metric, format or width,
    DamagedRecord for a broken record.
    """
    for name in formats:
        if name not in FORMATS:
            raise unknown("figure format", name, FORMATS)
    stem = re.sub(r"[^\w.-]+", "_", plan.study.name)
    if metric is not None and metric != plan.study.metric:
        stem += "_" + re.sub(r"\W+", "_", metric)
    written = []
    with style(width):
        read = Results(plan, results, DIAGNOSTICS)
        for name, drawn in draw(read, metric, each_seed=each_seed):
            written += save(drawn, folder, f"{stem}_{name}", formats)
    return written


def draw(
    results: Results, metric: str | None = None, *, each_seed: bool = False
) -> Iterator[tuple[str, Figure]]:
    """Yield every figure that a study has by its name, within `style()`."""
    plan, found = results.plan, scores(results, metric=metric)
    explained = shares_sheet(results, metric)
    if explained is not None:
        if (drawn := waterfall(plan, found, explained)) is not None:
            yield "shares", drawn
        return
    yield "curves", curves(plan, found, each_seed=each_seed)
    made = table(results, metric=metric)
    learned = units_of_score(results, metric)
    effects = effects_sheet(results, metric)
    points = [] if learned is None else points_of(plan, found, learned)
    maybe = {
        "differences": differences(plan, made, found, learned),
        "improvement": improvement(plan, made) if learned else None,
        "intervals": intervals(plan, found, learned) if learned else None,
        "profiles": profiles(plan, found, learned) if learned else None,
        "efficiency": sample_efficiency(plan, found, learned) if learned else None,
        "sensitivity": sensitivity(plan, made, found, learned),
        "plane": plane(plan, points) if points else None,
        "effects": None
        if effects is None
        else effect_matrix(plan, effects) or main_effects(plan, effects, found.metric),
    }
    if found.metric == plan.study.metric:
        maybe["diagnostics"] = diagnostics(plan, diagnostic_scores(results))
    for name, drawn in maybe.items():
        if drawn is not None:
            yield name, drawn
