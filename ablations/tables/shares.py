"""Shares of an explained gap: the contribution of each detail in which two variants differ."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ablations.comparison import ends
from ablations.core.plan import Detail, Explanation, Settings
from ablations.errors import UserError, count, value_text
from ablations.runs import Runs
from ablations.stats import Difference, decide
from ablations.stats.shares import attribution
from ablations.tables.kinds import study_of
from ablations.tables.notes import seeds_text

GAP = "the whole gap"
INERT = "does not act"
BESIDE = ("alone", "removed", "interaction")
COLUMNS = (
    *("task", "detail", "change", "n", "n_planned", "share", "share_low", "share_high"),
    *(f"{name}{end}" for name in BESIDE for end in ("", "_low", "_high")),
    *("p", "p_adjusted", "margin", "verdict", "note"),
)


def shares(runs: Runs) -> pd.DataFrame:
    """Return the gap and the share of each detail per task, the largest first, in score units.

    Columns:
        n, n_planned: seeds that have all runs, and planned seeds.
        share: mean change when the detail is switched, over random orders (Shapley value). The
            shares sum to the gap.
        alone, removed: the change when the detail is switched first, and when it is switched last.
        interaction: removed minus alone.
        p, p_adjusted: of the share, without and with Bonferroni.
        verdict, note: as in a comparison; a detail that never changed a curve "does not act".

    Raises UserError if the study is not an explanation.
    """
    about = runs.plan.study.explanation if runs.plan else None
    if about is None or runs.plan is None:
        raise UserError(
            f"{study_of(runs)} does not explain a gap: `ablations explain A B` plans such a study"
        )
    planned, details = list(runs.plan.seeds), list(about.details.items())
    comparisons = len(details) * len(runs.tasks)
    rows, notes = [], [f"the same in both: {_settings(about.held)}"] if about.held else []
    for task in runs.tasks:
        seeds, arrays, acts = _paths(runs, about, task)
        gap, effects = attribution(**arrays, comparisons=comparisons)
        margin = runs.margin * runs.size(task, about.start)
        common = {"task": task, "n": len(seeds), "n_planned": len(planned), "margin": margin}
        names = {"detail": GAP, "change": f"{about.start} → {about.end}"}
        rows.append(common | names | _judged(runs, gap, margin, acts=acts[0]))
        sizes = np.abs(np.nan_to_num([share.difference for share in effects["share"]]))
        for i in np.lexsort((-sizes, ~acts[1:])):
            row = common | {"detail": details[i][0], "change": change(details[i][1])}
            row |= _judged(runs, effects["share"][i], margin, comparisons, acts=acts[1 + i])
            for name in BESIDE:
                row |= ends(name, effects[name][i])
            rows.append(row)
        if missing := sorted(set(planned) - set(seeds)):
            excluded = f"{len(missing)} of {count(len(planned), 'seed')} ({seeds_text(missing)})"
            notes.append(f"{task}: excluded as a run is missing: {excluded}")
    frame = pd.DataFrame(rows).reindex(columns=list(COLUMNS))
    frame.attrs = {
        "metric": runs.metric,
        "unit": "score",
        "caption": f"Shares of the gap in {runs.metric} between {about.start} and {about.end}: "
        "mean change when a detail is switched, over random orders (Shapley value); they sum to "
        "the gap. alone: switched first; removed: switched last; interaction: their difference. "
        "Paired by seed; the 95% intervals of all shares are simultaneous (Bonferroni).",
        "notes": notes,
        "summary": explained_in_words(frame),
        "shown": ["task", "detail", "change", "share", "verdict", *BESIDE, "n"],
    }
    return frame


def _paths(
    runs: Runs, about: Explanation, task: str
) -> tuple[list[int], dict[str, Any], NDArray[np.bool_]]:
    """Return the seeds that have all runs, the arguments of `attribution`, and whether details act.

    The last is `[1 + d]`: did all details together, and did each detail, ever change a curve?
    """
    details, start, end = list(about.details), about.start, about.end
    inner = range(1, len(details))
    along = [start, *(f"order {k}" for k in inner), end]
    back = [start, *(f"reverse {k}" for k in inner), end]
    alone = [f"{start} + {detail}" for detail in details]
    without = [f"{end} - {detail}" for detail in details]
    needed = list(dict.fromkeys([*along, *back, *alone, *without]))
    done = runs.runs[(runs.runs.task == task) & runs.runs.score.notna()]
    scores = done.pivot(index="seed", columns="variant", values="score")
    scores = scores.reindex(columns=needed).dropna()
    bits = done.pivot(index="seed", columns="variant", values="bits")
    bits = bits.reindex(scores.index, columns=needed)
    orders = [[details.index(name) for name in about.orders[str(seed)]] for seed in scores.index]
    ways = np.array(orders, np.intp).reshape(len(scores), len(details))

    def differ(ours: list[str], theirs: list[str]) -> NDArray[np.bool_]:
        return np.asarray(bits[ours].to_numpy() != bits[theirs].to_numpy(), bool)

    acts = np.asarray((differ(alone, [start]) | differ(without, [end])).any(axis=0))
    for way, path in ((ways, along), (ways[:, ::-1], back)):
        acts[way[differ(path[1:], path[:-1])]] = True
    variants = {"along": along, "back": back, "alone": alone, "without": without}
    arrays = {name: scores[of].to_numpy() for name, of in variants.items()} | {"orders": ways}
    return list(scores.index), arrays, np.array([differ([start], [end]).any(), *acts])


def explained_in_words(frame: pd.DataFrame) -> str:
    """Write the gap of each task and its three largest shares."""
    sentences = []
    for task, rows in frame.groupby("task", sort=False):
        gap, *details = rows.to_dict("records")
        largest = ", ".join(f"{row['detail']} {row['share']:+.3g}" for row in details[:3])
        text = f"{gap['change']} is {gap['share']:+.3g}; largest shares: {largest}"
        is_empty = math.isnan(gap["share"])
        sentences.append(f"{task}: {'no seed is complete yet' if is_empty else text}")
    return "; ".join(sentences)


def change(detail: Detail) -> str:
    """Write the change of a detail, such as "none → pessimistic (value_clip_range 0.2)"."""
    changes = []
    for name, values in detail.settings.items():
        sides = zip(values, detail.brings.get(name, ({}, {})), strict=True)
        texts = (value_text(v) + (f" ({_settings(new, ' ')})" if new else "") for v, new in sides)
        changes.append(" → ".join(texts))
    return ", ".join(changes)


def _settings(settings: Settings, between: str = "=") -> str:
    return ", ".join(f"{name}{between}{value_text(value)}" for name, value in settings.items())


def _judged(
    runs: Runs, share: Difference, margin: float, comparisons: int = 1, *, acts: bool
) -> dict[str, Any]:
    note = "no seed is complete" if not share.n else INERT if not acts else ""
    if not note and math.isnan(share.low):
        note = "one seed" if share.n == 1 else "no spread"
    verdict = "equivalent" if note == INERT else decide(share.low, share.high, margin)
    return {
        **ends("share", share),
        "p": share.p,
        "p_adjusted": np.minimum(1.0, share.p * comparisons),
        "verdict": verdict if runs.directed or verdict == "equivalent" else "",
        "note": note,
    }
