"""Figures: learning curves, and paired differences against the margin. From plan and records alone.

Same records, same bytes for SVG: fixed ids, no date. Text stays text.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import NDArray

from ablations.errors import unknown
from ablations.records import Plan
from ablations.report.scores import Scores, scores
from ablations.report.statistics import interval, iqm
from ablations.report.tables import ALL_TASKS, Entry, baseline_of, grouped, table

FORMATS = ("svg", "png", "pdf")

# Okabe & Ito 2008, without the yellow that vanishes on white; black is the baseline.
COLORS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (8, 2)), (0, (3, 1)))
VERDICT_COLORS = {
    "better": "#009E73",
    "worse": "#D55E00",
    "higher": "#0072B2",
    "lower": "#0072B2",
    "equivalent": "#0072B2",
}
UNDECIDED = "#7F7F7F"
REPLICATES = 2_000  # a band is drawn, not quoted

_STYLE: dict[str, Any] = {
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "rl-ablations",
    "pdf.fonttype": 42,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8.5,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "axes.linewidth": 0.8,
    "axes.edgecolor": "#444444",
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "savefig.dpi": 200,
}
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def figure(
    plan: Plan,
    results: Path,
    folder: Path,
    *,
    metric: str | None = None,
    formats: Sequence[str] = ("svg", "png"),
) -> list[Path]:
    """Draws a study's learning curves and its paired differences; returns the files written.

    `<study>_curves.<format>` and, where there is something to compare,
    `<study>_differences.<format>`; a metric other than the study's own is part of the name. Raises
    UserError for an unknown metric or format, DamagedRecord for a broken record.
    """
    for name in formats:
        if name not in FORMATS:
            raise unknown("figure format", name, FORMATS)
    found = scores(plan, results, metric=metric)
    stem = plan.study["name"]
    if found.metric != plan.study["metric"]:
        stem += "_" + re.sub(r"\W+", "_", found.metric)
    written = []
    with _style():
        written += _save(curves(plan, found), folder, f"{stem}_curves", formats)
        drawn = differences(plan, results, found.metric)
        if drawn is not None:
            written += _save(drawn, folder, f"{stem}_differences", formats)
    return written


# Learning curves


def curves(plan: Plan, found: Scores) -> Figure:
    """One panel per task (and per group of variants that share a baseline): IQM and 95% band."""
    groups = _groups(plan)
    tasks = list(plan.tasks)
    several = len(groups) > 1
    columns = len(tasks) if several else min(3, len(tasks))
    rows = len(groups) if several else -(-len(tasks) // columns)
    drawn = Figure(figsize=(3.5 * columns + 1.9, 2.5 * rows + 0.65), layout="constrained")
    panels = drawn.subplots(rows, columns, squeeze=False, sharey="col" if several else False)
    places = [(g, t) for g in range(len(groups)) for t in range(len(tasks))]
    for g, t in places:
        panel = panels[g][t] if several else panels[t // columns][t % columns]
        for place, variant in enumerate(groups[g]):
            _curve(panel, found, tasks[t], variant, place)
        _dress(panel)
        if not several or g == 0:
            panel.set_title(tasks[t])
        if t % columns == 0:
            panel.set_ylabel(_label(found.metric))
        last = g == len(groups) - 1 if several else t + columns >= len(tasks)
        if last:
            panel.set_xlabel("environment steps")
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        panel.xaxis.set_major_locator(MaxNLocator(5))
        panel.set_xlim(left=0)
    for empty in panels.flat[len(places) :]:
        empty.set_axis_off()
    for g, group in enumerate(groups):
        handles = [_handle(found, tasks, variant, place) for place, variant in enumerate(group)]
        panels[g][-1].legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(1.02, 1.02),
            frameon=False,
            borderaxespad=0,
            handlelength=2.6,
            title=f"vs {group[0]}" if several else None,
            alignment="left",
        )
    drawn.suptitle(plan.study["title"], fontsize=11, fontweight="bold")
    seeds = len(plan.seeds)
    band = f"IQM over {seeds} seeds, pointwise 95% interval" if seeds > 1 else "one seed"
    drawn.supxlabel(band, fontsize=8, color="#666666")
    return drawn


def points(
    found: Scores, task: str, variant: str
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """steps, IQM, low, high, `[n]` each: where at least half of the finished cells have a value.

    Failed and missing cells are left out. low and high are NaN where there is one value.
    """
    cells = [cell for cell in found.of(task, variant) if len(cell.steps)]
    if not cells:
        nothing = np.zeros(0)
        return np.zeros(0, np.int64), nothing, nothing, nothing
    steps = np.unique(np.concatenate([cell.steps for cell in cells]))
    values = np.full((len(steps), len(cells)), np.nan)
    for column, cell in enumerate(cells):
        values[np.searchsorted(steps, cell.steps), column] = cell.values
    counts = np.sum(np.isfinite(values), axis=1)
    middle, low, high = (np.full(len(steps), np.nan) for _ in range(3))
    for count in np.unique(counts):
        if 2 * count < len(cells) or not count:
            continue
        chosen = counts == count
        here = np.stack([row[np.isfinite(row)] for row in values[chosen]])
        middle[chosen] = iqm(here)
        low[chosen], high[chosen] = interval(here, replicates=REPLICATES)
    kept = np.isfinite(middle)
    return steps[kept], middle[kept], low[kept], high[kept]


def _curve(panel: Any, found: Scores, task: str, variant: str, place: int) -> None:
    import seaborn

    steps, middle, low, high = points(found, task, variant)
    if not len(steps):
        return
    color = _color(place)
    panel.fill_between(steps, low, high, color=color, alpha=0.13, linewidth=0)
    seaborn.lineplot(
        x=steps,
        y=middle,
        ax=panel,
        color=color,
        linestyle=_dash(place),
        linewidth=2.0 if place == 0 else 1.6,
        marker="o" if len(steps) <= 6 else None,
        markersize=4,
        markeredgewidth=0,
        errorbar=None,
        estimator=None,
        zorder=4 if place == 0 else 3,
    )


def _handle(found: Scores, tasks: Sequence[str], variant: str, place: int) -> Any:
    """A legend entry that says how many cells of a variant failed or are missing."""
    from matplotlib.lines import Line2D

    cells = [cell for task in tasks for cell in found.of(task, variant)]
    lacking = []
    for status in ("failed", "missing"):
        count = sum(cell.status == status for cell in cells)
        if count:
            lacking.append(f"{count} {status}")
    label = variant + (f"\n({', '.join(lacking)})" if lacking else "")
    return Line2D([], [], color=_color(place), linestyle=_dash(place), linewidth=1.8, label=label)


# Paired differences


def differences(plan: Plan, results: Path, metric: str | None = None) -> Figure | None:
    """Forest plot: every comparison's difference and 95% interval, the margin shaded, per task.

    None where a plan compares nothing.
    """
    made = table(plan, results, metric=metric)
    tasks = [task for task in (*made.tasks, ALL_TASKS) if any(r.task == task for r in made.rows)]
    compared = [v for v in made.variants if baseline_of(plan, v) is not None]
    if not compared:
        return None
    several = len({baseline_of(plan, v) for v in compared}) > 1
    height = 0.42 * len(compared) + 1.45
    drawn = Figure(figsize=(2.75 * len(tasks) + 1.7, height), layout="constrained")
    panels = drawn.subplots(1, len(tasks), squeeze=False, sharey=True)[0]
    for panel, task in zip(panels, tasks, strict=True):
        _forest(panel, [made.entry(task, variant) for variant in compared])
        panel.set_title(task)
        panel.set_xlabel("in score units" if task == ALL_TASKS else f"final {_label(made.metric)}")
    names = [f"{v}\nvs {baseline_of(plan, v)}" if several else v for v in compared]
    panels[0].set_yticks(range(len(compared)), names)
    panels[0].set_ylim(len(compared) - 0.45, -0.65)
    to = "" if several else f": difference to {baseline_of(plan, compared[0])}"
    drawn.suptitle(plan.study["title"] + to, fontsize=11, fontweight="bold")
    said = "mean of the differences paired by seed, 95% interval"
    if any(row.margin for row in made.rows):
        said += "; shaded: the margin within which a difference does not matter"
    drawn.supxlabel(said, fontsize=8, color="#666666")
    return drawn


def _forest(panel: Any, rows: Sequence[Entry | None]) -> None:
    margin = next((row.margin for row in rows if row is not None and row.margin), None)
    if margin:
        panel.axvspan(-margin, margin, color="#0072B2", alpha=0.09, linewidth=0)
    panel.axvline(0, color="#444444", linewidth=0.9)
    _dress(panel)
    panel.grid(axis="y", visible=False)
    panel.tick_params(axis="y", length=0)
    for place, row in enumerate(rows):
        if row is None or row.difference is None:
            continue
        color = VERDICT_COLORS.get(row.verdict or "", UNDECIDED)
        if row.difference_low is not None:
            panel.plot(
                [row.difference_low, row.difference_high],
                [place, place],
                color=color,
                linewidth=2.2,
                solid_capstyle="butt",
            )
        filled = row.verdict in VERDICT_COLORS
        panel.plot(
            row.difference,
            place,
            marker="o",
            markersize=6,
            markerfacecolor=color if filled else "white",
            markeredgecolor=color,
            markeredgewidth=1.5,
        )
        panel.annotate(
            row.verdict,
            (row.difference, place),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7.5,
            color=color,
            bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.6},
        )
    panel.xaxis.set_major_locator(MaxNLocator(5))


# Shared by both


def _groups(plan: Plan) -> list[list[str]]:
    """Variants by baseline, each baseline first in its group."""
    groups: dict[str, list[str]] = {}
    for name, _ in grouped({v: baseline_of(plan, v) for v in plan.variants}):
        versus = baseline_of(plan, name)
        head = versus if versus in plan.variants else name if versus is None else ""
        groups.setdefault(head or "", [head] if head else []).append(name)
    return [list(dict.fromkeys(group)) for group in groups.values()]


def _label(metric: str) -> str:
    """ "training/return" -> "return (training)"."""
    where, _, what = metric.rpartition("/")
    return f"{what.replace('_', ' ')} ({where})" if where else what.replace("_", " ")


def _color(place: int) -> str:
    return COLORS[place % len(COLORS)]


def _dash(place: int) -> Any:
    return DASHES[place % len(DASHES)]


def _dress(panel: Any) -> None:
    import seaborn

    seaborn.despine(ax=panel)
    panel.grid(visible=True)
    panel.set_axisbelow(True)


@contextmanager
def _style() -> Iterator[None]:
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)  # type: ignore[arg-type]
        yield


def _save(drawn: Figure, folder: Path, stem: str, formats: Sequence[str]) -> list[Path]:
    """Writes a figure in each format, each file whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for format in formats:
        path = folder / f"{stem}.{format}"
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=folder)
        os.close(handle)
        try:
            drawn.savefig(temporary, format=format, metadata=_METADATA[format])
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        written.append(path)
    return written
