"""Figures of a study, from plan and records alone, readable by the colour-blind."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from ablations.errors import UserError, unknown
from ablations.records import Plan
from ablations.report.figures.aggregates import intervals, profiles, sample_efficiency
from ablations.report.figures.curves import curves, diagnostics
from ablations.report.figures.differences import differences, improvement
from ablations.report.figures.effects import effects
from ablations.report.figures.sensitivity import sensitivity
from ablations.report.figures.style import FORMATS, Drawing, write
from ablations.report.figures.waterfall import waterfall
from ablations.report.results import Results
from ablations.report.scores import DIAGNOSTICS, Scores, diagnostic_scores, largest, scores
from ablations.report.tables import table
from ablations.report.tables.explained import shares_sheet
from ablations.report.tables.fractions import effects_sheet
from ablations.report.trivial import trivial
from ablations.report.units import units_of_score

__all__ = ["FAR", "require_drawable", "study_figures", "write_figures"]

FAR = 1e300  # beyond it ticks are too far apart for a number


def require_drawable(plan: Plan, scored: Scores) -> None:
    """Raise UserError for a metric that no axis can hold."""
    if (most := largest(scored)) > FAR:
        raise UserError(
            f"{plan.study.name}: {scored.metric} reaches {most:.3g}, further than an axis does: "
            f"`ablations table` has the numbers"
        )


def study_figures(
    results: Results,
    scored: Scores,
    *,
    each_seed: bool = False,
    only: Collection[str] = (),
    width: float | str | None = None,
) -> dict[str, Drawing]:
    """Draw the figures that a study has, by name.

    curves; and where there is something to compare differences and improvement; for a score that
    was learned intervals and profiles, and over several tasks efficiency; where variants differ in
    a number sensitivity; for a factorial effects; for the study's own metric diagnostics; for an
    explanation shares alone.

    Args:
        results: of the study.
        scored: its scores, of its own metric or another.
        each_seed: draw curves with a faint line for every seed.
        only: names of figures, in that order; all by default.
        width: for a paper, in inches or one of `style.WIDTHS`, without title and caption.

    Raises:
        UserError: for an unknown width.
    """
    plan = results.plan
    own = scored.metric == plan.study.metric
    metric = None if own else scored.metric  # as tables of these results were asked for
    shares = shares_sheet(results, metric)
    if shares is not None:
        steps = waterfall(plan, scored, shares, width)
        return {} if steps is None else {"shares": steps}
    comparison, learned = table(results, metric=metric), units_of_score(results, metric)
    effects_found = effects_sheet(results, metric)
    builders: dict[str, Callable[[], Drawing | None]] = {
        "curves": lambda: curves(
            plan,
            scored,
            each_seed=each_seed,
            policies=trivial(results, scored.metric),
            width=width,
        ),
        "differences": lambda: differences(plan, comparison, scored, learned, width),
        "improvement": lambda: improvement(plan, comparison, width) if learned.judged else None,
        "intervals": lambda: intervals(plan, scored, learned, width) if learned.judged else None,
        "profiles": lambda: profiles(plan, scored, learned, width) if learned.judged else None,
        "efficiency": lambda: (
            sample_efficiency(plan, scored, learned, width) if learned.judged else None
        ),
        "sensitivity": lambda: sensitivity(plan, comparison, scored, learned, width),
        "effects": lambda: (
            effects(plan, effects_found, scored.metric, width) if effects_found else None
        ),
        "diagnostics": lambda: diagnostics(plan, _near(results), width) if own else None,
    }
    drawn = ((name, builders[name]()) for name in only or builders if name in builders)
    return {name: figure for name, figure in drawn if figure is not None}


def _near(results: Results) -> dict[str, Scores]:
    """Return the diagnostics that an axis can hold."""
    others = diagnostic_scores(results)
    return {name: scores for name, scores in others.items() if largest(scores) <= FAR}


def write_figures(
    plan: Plan,
    results: Path,
    folder: Path,
    *,
    metric: str | None = None,
    kinds: Sequence[str] = (),
    formats: Sequence[str] = ("svg", "png"),
    width: float | str | None = None,
    each_seed: bool = False,
) -> list[Path]:
    """Draw a study's figures into `<study>_<figure>.<format>`; return the paths.

    A metric other than the study's own is part of the name.

    Args:
        plan: the study.
        results: folder of its records.
        folder: of the files.
        metric: one of its records', the study's own by default.
        kinds: names of figures; all that the study has by default.
        formats: of `style.FORMATS`.
        width: for a paper, in inches or one of `style.WIDTHS`, without title and caption.
        each_seed: draw curves with a faint line for every seed.

    Raises:
        UserError: for an unknown metric, format or width, a figure that the study has not, or a
            metric that no axis can hold.
    """
    for format in formats:
        if format not in FORMATS:
            raise unknown("figure format", format, FORMATS)
    stem = re.sub(r"[^\w.-]+", "_", plan.study.name)
    if metric is not None and metric != plan.study.metric:
        stem += "_" + re.sub(r"\W+", "_", metric)
    read = Results(plan, results, DIAGNOSTICS)
    scored = scores(read, metric=metric)
    require_drawable(plan, scored)
    figures = study_figures(read, scored, each_seed=each_seed, only=kinds, width=width)
    for kind in kinds:
        if kind not in figures:
            raise unknown(f"figure of '{plan.study.name}'", kind, study_figures(read, scored))
    return [
        path
        for name, figure in figures.items()
        for path in write(figure, folder, f"{stem}_{name}", formats)
    ]
