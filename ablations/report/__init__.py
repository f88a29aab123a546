"""From records to what a study found: statistics, tables, figures. Starts neither JAX nor pandas.

from ablations import report

report.table("gae")                      # DataFrame: one row per variant and task
report.table("gae", kind="power")        # seeds needed; also "efficiency" and "effects"
report.write_page(["gae"])               # results/report/index.html
report.figure("gae", formats=["pdf"])    # the files written
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

__all__ = ["figure", "table", "write_page"]


def table(
    study: str,
    results: str | Path = "results",
    *,
    plan: str | None = None,
    metric: str | None = None,
    score: str = "final",
    kind: str = "comparison",
) -> pandas.DataFrame:
    """What the study's last plan (or the one named) found; caption and notes are in `.attrs`.

    kind: "comparison", or one of `tables.KINDS`: "effects" of a factorial, "efficiency", "power".
    """
    from ablations.records import read_plan
    from ablations.report import tables

    folder = Path(results)
    if kind != "comparison":
        plan_ = read_plan(folder, study, plan)
        return tables.sheet(kind, plan_, folder, metric=metric).dataframe()
    found = tables.table(read_plan(folder, study, plan), folder, metric=metric, score=score)
    return found.dataframe()


def figure(
    study: str,
    results: str | Path = "results",
    folder: str | Path | None = None,
    *,
    plan: str | None = None,
    metric: str | None = None,
    formats: Sequence[str] = ("svg", "png"),
) -> list[Path]:
    """Draws the study's figures into `folder` (default: figures/ in the results folder)."""
    from ablations.records import read_plan
    from ablations.report import figures

    results = Path(results)
    target = results / "figures" if folder is None else Path(folder)
    found = read_plan(results, study, plan)
    return figures.figure(found, results, target, metric=metric, formats=formats)


def write_page(studies: Sequence[str], results: str | Path = "results") -> Path:
    """Writes the page of these studies' last plans; returns its path."""
    from ablations.records import read_plan
    from ablations.report import page

    folder = Path(results)
    return page.write([read_plan(folder, study) for study in studies], folder)
