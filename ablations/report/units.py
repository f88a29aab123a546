"""The amount learned: the unit in which tables, aggregates and learning-curve checks count.

Where policies that learn nothing were evaluated on the tasks of a study, it is what its baseline
learned beyond them: its score minus that of the better of them, one number per task. Where the
baseline is not `LEAD` standard deviations between seeds above that, nothing was learned, and
nothing is said of variants.

Without them, the unit of a comparison is how far the variant that it is compared with went: from
the lowest to the highest point of its mean learning curve, smoothed over a tenth of training, on
that task at those settings. Where a curve does not stand out of its noise there is no unit, and
only the sign of a difference can be judged.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.curve import Curve, Steps, on_common_steps
from ablations.distributions import student_quantile
from ablations.errors import UserError
from ablations.records import Plan, Unit, canonical, read_units, write_units
from ablations.report.results import Once, Results
from ablations.report.scores import Scores, baseline_of, is_score, scores
from ablations.report.statistics.summaries import deviation
from ablations.report.trivial import Trivial, trivial

NOISE_LEVEL = 0.005
LEAD = 5.0  # standard deviations between seeds by which a baseline stands out of doing nothing


@dataclass(frozen=True)
class Learned:
    """low, high: the ends of what was learned, in the metric's units."""

    low: float
    high: float

    @property
    def size(self) -> float:
        """The amount that was learned, in the metric's units."""
        return self.high - self.low


# Where a study states its margin in units of the metric itself, as an accuracy may.
METRIC = Learned(0.0, 1.0)


def smoothed(steps: ArrayLike, values: ArrayLike) -> NDArray[np.float64]:
    """Means over the tenth of training that ends at each point: `[seeds, points]`, the same shape.

    NaN, a point without a value, is left out; NaN where a whole tenth has none. The last point is
    the final score. The first tenth is shorter the nearer to the start, where a curve is steepest.
    """
    ends = np.asarray(steps, np.float64)
    rows = np.asarray(values, np.float64)
    seen = np.isfinite(rows)
    sums = np.cumsum(np.where(seen, rows, 0.0), axis=-1)
    counts = np.cumsum(seen, axis=-1)
    # The points before the window: those that end at or before a tenth of training earlier.
    before = np.searchsorted(10 * ends, 10 * ends - ends[-1:], side="right")
    zero = np.zeros((*rows.shape[:-1], 1))
    sums, counts = (np.concatenate([zero, column], axis=-1) for column in (sums, counts))
    after = np.arange(1, len(ends) + 1)
    inside = counts[..., after] - counts[..., before]
    with np.errstate(invalid="ignore"):
        return np.where(
            inside > 0, (sums[..., after] - sums[..., before]) / np.maximum(inside, 1), np.nan
        )


def smoothed_together(curves: Sequence[Curve]) -> tuple[Steps, NDArray[np.float64]]:
    """Smooth each curve over its own tenths: steps `[n]` that all have, values `[curves, n]`."""
    return on_common_steps([replace(c, values=smoothed(c.steps, c.values)) for c in curves])


def learned_of(seeds: Sequence[Curve]) -> Learned | None:
    """Return what the curves of one variant's seeds say was learned.

    None where nothing stands out of the noise, and with fewer than two seeds, which show no noise.
    Counted are the steps at which at least half of the seeds have a value.

    Each seed in turn is left out: where the mean curve of the others is lowest and highest, its own
    must differ in the same direction, by Student's t over the seeds at 0.5%. Ends that are chosen
    on other seeds stand out less by having been chosen; simulated, curves that only wander pass in
    at most 4% of cases up to 8 seeds, and 6% at 20.
    """
    if len(seeds) < 2:
        return None
    _, curves = smoothed_together(seeds)
    counts = np.sum(np.isfinite(curves), axis=0)
    kept = (2 * counts >= len(curves)) & (counts > 0)
    curves, counts = curves[:, kept], counts[kept]
    if curves.shape[1] < 2:
        return None
    mean = np.nanmean(curves, axis=0)
    low, high = float(mean.min()), float(mean.max())
    sums = np.where(np.isfinite(curves), curves, 0.0).sum(axis=0)
    # Against the largest number that was averaged: what cancels up to rounding is nothing.
    rows = np.concatenate([curve.values for curve in seeds])
    largest = float(np.max(np.abs(rows[np.isfinite(rows)]), initial=0.0))
    if not 1e-9 * largest < high - low < math.inf:
        return None
    climbs = []
    for curve in curves:
        own = np.isfinite(curve)
        others = (sums - np.where(own, curve, 0.0))[own & (counts > 1)]
        if len(others) < 2:
            continue
        others = others / (counts[own & (counts > 1)] - 1)
        of_curve = curve[own & (counts > 1)]
        climbs.append(of_curve[np.argmax(others)] - of_curve[np.argmin(others)])
    return Learned(low, high) if _stands_out(np.array(climbs), high - low) else None


def _stands_out(climbs: NDArray[np.float64], size: float) -> bool:
    n = len(climbs)
    if n < 2:
        return False
    error = float(deviation(climbs)) / math.sqrt(n)
    bound = -student_quantile(n - 1, NOISE_LEVEL) * max(error, 1e-12 * size)
    return float(climbs.mean()) > bound


@dataclass(frozen=True)
class Units:
    """The units of a plan's comparisons: by task and by the variant that a row is compared with.

    trivial: task -> the policies that learn nothing from whose score units are counted; {} where
    they are the ranges of curves. judged: the metric is a score, where higher is better; else there
    is no unit.
    """

    by_source: Mapping[tuple[str, str], Learned | None]
    sources: Mapping[str, str]
    trivial: Mapping[str, Trivial] = field(default_factory=dict)
    judged: bool = True

    def of(self, task: str, variant: str) -> Learned | None:
        """Return the unit of a variant's row on a task; None where nothing was learned."""
        return self.by_source[task, self.sources[variant]] if self.judged else None

    @property
    def floors(self) -> dict[str, float]:
        """Return the score of the better policy that learns nothing, by task."""
        return {task: policies.floor for task, policies in self.trivial.items()}

    def source(self, variant: str) -> str:
        """Return the variant whose learning is the unit of a variant's row."""
        return self.sources[variant]


@Once
def units(results: Results, metric: str | None = None, score: str | None = None) -> Units:
    """Return what was learned by whatever each variant is compared with.

    A variant that heads its group is measured by itself. Where seeds were added later, the margin
    stays that of the seeds for which `keep_units` wrote it; at planned looks, that of the first. A
    study that states its margin in units of the metric has those. Where policies that learn nothing
    have records on every task, all that share the baseline's settings of a task have its unit.
    """
    plan, scored = results.plan, scores(results, metric=metric, score=score)
    sources = {v: _source(plan, v) for v in plan.variants}
    places = [(task, source) for task in plan.tasks for source in dict.fromkeys(sources.values())]
    if plan.study.margin_in_metric:
        return Units(dict.fromkeys(places, METRIC), sources)
    policies = trivial(results, scored.metric)
    floors = policies if set(policies) == set(plan.tasks) else {}
    if floors:  # one number per task, whichever score is asked for
        scored = scores(results, metric=metric)

    def measured(task: str, source: str) -> Learned | None:
        if task not in floors:
            return of_cells(scored, task, source)
        return beyond(floors[task].floor, list(scored.by_seed(task, source).values()))

    if plan.looks:
        scored = scored.below(plan.looks.seeds[0])
        kept: Mapping[str, Unit] = {}
    else:
        kept = read_units(results.folder, plan)

    def first(task: str, source: str) -> Learned | None:
        head = _head(plan, task, source) if floors else source
        if (unit := kept.get(_name(scored, task, head, beyond=bool(floors)))) is None:
            return measured(task, head)
        return Learned(*unit["learned"]) if unit["learned"] else None

    return Units({place: first(*place) for place in places}, sources, floors)


def beyond(floor: float, scores: Sequence[float]) -> Learned | None:
    """Return what a baseline learned beyond policies that learn nothing, from `floor` to its mean.

    None where it is not `LEAD` standard deviations between seeds above them, and with fewer than
    two seeds, which show none.
    """
    if len(scores) < 2:
        return None
    mean = float(np.mean(scores))
    lead = mean - floor
    return Learned(floor, mean) if lead > 0 and lead >= LEAD * float(deviation(scores)) else None


def _head(plan: Plan, task: str, source: str) -> str:
    """Return the study's baseline, whose unit is everybody's at its settings of the task."""
    baseline = plan.study.baseline
    alike = settings_of(plan, task, source) == settings_of(plan, task, baseline)
    return baseline if alike and baseline in plan.variants else source


def units_of_score(results: Results, metric: str | None = None, score: str | None = None) -> Units:
    """Return the `units`, without any for a metric that is no score and has no margin."""
    if metric is None or is_score(results.plan, metric):
        return units(results, metric, score)
    return Units({}, {}, judged=False)


def keep_units(plan: Plan, folder: Path) -> None:
    """Write the units of the study's metric beside its plan, of sources whose cells all ended.

    What was written before stays, so that seeds which are added do not move the margin. Nothing is
    written where records lack the metric, or the folder cannot be written.
    """
    if plan.study.margin_in_metric or plan.looks:
        return
    results = Results(plan, folder)
    with contextlib.suppress(UserError, OSError):
        scored, complete, unit = scores(results), {}, units(results)
        for (task, source), learned in unit.by_source.items():
            head = _head(plan, task, source) if unit.trivial else source
            cells = scored.of(task, head)
            if cells and all(cell.status != "missing" for cell in cells):
                ends = None if learned is None else [learned.low, learned.high]
                hashes = [cell.hash for cell in cells]
                name = _name(scored, task, head, beyond=bool(unit.trivial))
                complete[name] = Unit(learned=ends, cells=hashes)
        write_units(folder, plan, complete)


def _name(scored: Scores, task: str, source: str, *, beyond: bool) -> str:
    unit = f"{scored.metric} {task} {source}"
    return f"{unit}, {scored.score}, beyond trivial policies" if beyond else unit


def of_cells(scored: Scores, task: str, variant: str) -> Learned | None:
    """Return what a variant learned on a task, from the cells that ended well."""
    return learned_of(scored.curves(task, variant))


def _source(plan: Plan, variant: str) -> str:
    versus = baseline_of(plan, variant)
    return variant if versus is None or versus not in plan.variants else versus


def normalised(
    plan: Plan, scored: Scores, learned: Units, variant: str
) -> list[NDArray[np.float64]]:
    """Return normalised scores `[n]` per task that has a unit.

    Over the seeds that are complete on them: 0 where the learning of what the variant is compared
    with began, 1 where it got to.
    """
    scales = {task: learned.of(task, variant) for task in plan.tasks}
    kept = {task: unit for task, unit in scales.items() if unit is not None}
    if not kept:
        return []
    rows = scored.on_common_seeds(list(kept), [variant])[:, 0]
    return [(row - unit.low) / unit.size for row, unit in zip(rows, kept.values(), strict=True)]


def settings_of(plan: Plan, task: str, variant: str) -> str:
    """Return the settings of a task that a variant's cells were run with.

    Only rows that share them can be ranked.
    """
    for cell in plan.cells:
        if (cell.task, cell.variant) == (task, variant):
            return canonical(cell.config.get("task"))
    return ""
