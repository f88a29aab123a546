"""From records to what a study found: statistics, tables, figures. Starts neither JAX nor pandas.

from ablations import report

report.table("gae")                      # DataFrame: one row per variant and task
report.figure("gae", formats=["pdf"])    # the files written
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

__all__ = ["figure", "table"]


def table(
    study: str,
    results: str | Path = "results",
    *,
    plan: str | None = None,
    metric: str | None = None,
    score: str = "final",
) -> pandas.DataFrame:
    """What the study's last plan (or the one named) found; caption and notes are in `.attrs`."""
    from ablations.records import read_plan
    from ablations.report import tables

    folder = Path(results)
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
