"""The sheet of an explanation: the share of each detail in the gap between two variants."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ablations.core.decode import Json
from ablations.core.plan import Detail, Explanation, Settings
from ablations.core.verdict import Verdict
from ablations.errors import value_text
from ablations.records import Plan
from ablations.report.results import Once, Results
from ablations.report.scores import Cell, Scores, scores
from ablations.report.statistics import (
    Attribution,
    Comparison,
    Floats,
    attribution,
    verdict,
)
from ablations.report.tables.entries import Column, Sheet, Values, bounded, text_columns, with_ends
from ablations.report.units import units_of_score

GAP = "the whole gap"
INERT = Verdict.DOES_NOT_ACT
_NUMBERS = ("share", "alone", "removed", "interaction")
COLUMNS = (
    *("task", "detail", "change", "n", "n_planned"),
    *(column for name in _NUMBERS for column in with_ends(name)),
    *("p", "p_adjusted", "margin", "verdict"),
)


@dataclass(frozen=True)
class Paths:
    """The scores of an explanation on a task, of the seeds that have all of their cells.

    orders `[n, d]`, along and back `[n, d + 1]`, alone and without `[n, d]`: as in
    `statistics.attribution`. acts `[d]`: whether switching a detail ever changed a curve; gap:
    whether switching them all did.
    """

    seeds: tuple[int, ...]
    orders: NDArray[np.intp]
    along: Floats
    back: Floats
    alone: Floats
    without: Floats
    acts: tuple[bool, ...]
    gap: bool


def paths(plan: Plan, scored: Scores, task: str) -> Paths:
    """Collect the scores of an explanation on a task."""
    about = plan.study.explanation
    assert about is not None
    details, start, end = list(about.details), about.start, about.end
    by_variant: dict[str, dict[int, Cell]] = {}
    for cell in scored.cells:
        if cell.task == task and cell.status == "done":
            by_variant.setdefault(cell.variant, {})[cell.seed] = cell

    def row(seed: int, names: Sequence[str]) -> list[Cell | None]:
        return [by_variant.get(name, {}).get(seed) for name in names]

    inner = range(1, len(details))
    needed = {
        "along": [start, *(f"order {k}" for k in inner), end],
        "back": [start, *(f"reverse {k}" for k in inner), end],
        "alone": [f"{start} + {detail}" for detail in details],
        "without": [f"{end} - {detail}" for detail in details],
    }
    rows = {seed: {kind: row(seed, of) for kind, of in needed.items()} for seed in plan.seeds}
    complete = {
        seed: {kind: [cell for cell in of if cell is not None] for kind, of in by_kind.items()}
        for seed, by_kind in rows.items()
        if not any(None in of for of in by_kind.values())
    }
    orders = {seed: [details.index(name) for name in about.orders[str(seed)]] for seed in complete}
    acts = [False] * len(details)
    for seed, of in complete.items():
        ends = of["along"][0], of["along"][-1]
        for way, cells in ((orders[seed], of["along"]), (orders[seed][::-1], of["back"])):
            for detail, (before, after) in zip(way, itertools.pairwise(cells), strict=True):
                acts[detail] |= not before.same(after)
        for detail in range(len(details)):
            acts[detail] |= not ends[0].same(of["alone"][detail])
            acts[detail] |= not of["without"][detail].same(ends[1])

    def together(kind: str) -> Floats:
        values = [[cell.value for cell in of[kind]] for of in complete.values()]
        return np.array(values, np.float64).reshape(len(complete), len(needed[kind]))

    return Paths(
        tuple(complete),
        np.array(list(orders.values()), np.intp).reshape(len(complete), len(details)),
        together("along"),
        together("back"),
        together("alone"),
        together("without"),
        acts=tuple(acts),
        gap=any(not of["along"][0].same(of["along"][-1]) for of in complete.values()),
    )


@Once
def shares_sheet(results: Results, metric: str | None = None) -> Sheet | None:
    """List the gap and the share of each detail per task, the largest first.

    Returns:
        None for a plan that explains no gap.
    """
    plan = results.plan
    about = plan.study.explanation
    if about is None:
        return None
    rows: list[Values] = []
    left_out = []
    scored, learned = scores(results, metric=metric), units_of_score(results, metric)
    for task in plan.tasks:
        paths_ = paths(plan, scored, task)
        unit = learned.of(task, about.start)
        margin = None if unit is None else plan.study.margin * unit.size
        comparisons = len(about.details) * len(plan.tasks)
        attributed = attribution(
            paths_.orders,
            paths_.along,
            paths_.back,
            paths_.alone,
            paths_.without,
            margin,
            comparisons,
        )
        rows += _rows(plan, about, task, paths_, attributed, margin)
        if missing := sorted(set(plan.seeds) - set(paths_.seeds)):
            left_out.append(f"{task}: {len(missing)} of {len(plan.seeds)} ({_few(missing)})")
    return Sheet(
        plan.study.name,
        "shares",
        _caption(plan, about, scored, left_out),
        COLUMNS,
        tuple(rows),
        (
            *text_columns("task", "detail", "change"),
            *bounded("share", "share", sign="+"),
            Column("verdict", "text", ("verdict",)),
            *(bounded(name, name, sign="+")[0] for name in ("alone", "removed", "interaction")),
            Column("seeds", "count", ("n",)),
        ),
    )


def _rows(
    plan: Plan,
    about: Explanation,
    task: str,
    paths_: Paths,
    gap_shares: Attribution,
    margin: float | None,
) -> Iterator[Values]:
    n, planned = len(paths_.seeds), len(plan.seeds)
    gap = gap_shares.gap
    yield (
        *(task, GAP, f"{about.start} → {about.end}", n, planned),
        *gap.bounds,
        *(None,) * 9,
        *(gap.p, gap.p, margin, _verdict(gap, margin, paths_.gap)),
    )
    acts = paths_.acts
    parts = (gap_shares.shares, gap_shares.alone, gap_shares.removed, gap_shares.interactions)
    places = sorted(
        range(len(gap_shares.shares)),
        key=lambda i: (not acts[i], -abs(gap_shares.shares[i].difference or 0.0)),
    )
    for i, detail in ((place, list(about.details)[place]) for place in places):
        share = gap_shares.shares[i]
        yield (
            *(task, detail, change(about.details[detail]), n, planned),
            *(value for each in parts for value in each[i].bounds),
            *(share.p, share.p_adjusted, margin, _verdict(share, margin, acts[i])),
        )


def _verdict(comparison: Comparison, margin: float | None, acts: bool) -> Verdict:
    if comparison.n == 0:
        return Verdict.NO_SEED_IS_COMPLETE
    if not acts:
        return INERT
    return Verdict.ONE_SEED if comparison.n == 1 else verdict(comparison, margin)


def explained_in_words(sheet: Sheet) -> str:
    """Write the gap and its largest shares, task by task."""
    sentences = []
    for task in dict.fromkeys(row["task"] for row in sheet.records()):
        gap, *details = (row for row in sheet.records() if row["task"] == task)
        if gap["share"] is None:
            sentences.append(f"{task}: no seed is complete yet")
            continue
        largest = ", ".join(f"{row['detail']} {row['share']:+.3g}" for row in details[:3])
        sentences.append(
            f"{task}: {gap['change']} is {gap['share']:+.3g}; largest shares: {largest}"
        )
    return "; ".join(sentences)


def change(detail: Detail) -> str:
    """Write what is switched, and the numbers that come with either value.

    For example "none → pessimistic (value_clip_range 0.2)".
    """
    moved = []
    for name, values in detail.settings.items():
        sides = zip(values, detail.brings.get(name, ({}, {})), strict=True)
        moved.append(" → ".join(_side(value, numbers) for value, numbers in sides))
    return ", ".join(moved)


def _side(value: Json, brings: Settings) -> str:
    numbers = ", ".join(f"{name} {value_text(number)}" for name, number in brings.items())
    return f"{value_text(value)} ({numbers})" if numbers else value_text(value)


def _few(seeds: Sequence[int]) -> str:
    shown = ", ".join(map(str, seeds[:8]))
    return f"seed{'' if len(seeds) == 1 else 's'} {shown}{', ...' if len(seeds) > 8 else ''}"


def _caption(plan: Plan, about: Explanation, scored: Scores, left_out: Sequence[str]) -> str:
    start, end = about.start, about.end
    steps = {task.steps for task in plan.tasks.values()}
    held = ", ".join(f"{name}={value_text(value)}" for name, value in about.held.items())
    text = (
        f"What makes the gap between {start} and {end} in {scored.metric}, "
        f"{' or '.join(f'{n:,} steps' for n in sorted(steps) if n) or 'each run to its own end'}. "
        f"share: mean change of the score "
        f"when the detail is switched from {start}'s to {end}'s value, over random orders in which "
        "all details are switched one after another (each seed has one of its own and the reverse "
        "of it): the Shapley value; shares sum to the gap. alone: switched first, all others at "
        f"{start}'s. removed: switched last, all others at {end}'s. interaction: removed minus "
        "alone. Paired by seed; t intervals of the shares that hold at once with 95% (Bonferroni); "
        "that of the gap is its own. The words mean what they do in a comparison; does not act: "
        f"the same cell on either side. Held equal: {held}."
    )
    return text + (f" Seeds without all of their cells: {'; '.join(left_out)}." if left_out else "")
