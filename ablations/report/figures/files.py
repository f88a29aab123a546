"""Files of a study's figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ablations.errors import unknown
from ablations.records import Plan
from ablations.report.figures import require_drawable, study_figures
from ablations.report.figures.style import FORMATS, write
from ablations.report.results import Results
from ablations.report.scores import DIAGNOSTICS, scores


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
