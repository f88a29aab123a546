"""Learning curves of one metric over seeds, checked on their way in, and their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.curve import Curve, is_cut
from ablations.errors import UserError
from ablations.report.scores import auc, final

Floats = NDArray[np.float64]
# steps `[points]`, values `[points]` (NaN: no value there) -> one number, in the metric's units
Score = Callable[[Floats, Floats], float]
SCORES: Mapping[str, Score] = {"final": final, "auc": auc}
Rows = Sequence[Sequence[float] | Floats] | Floats


@runtime_checkable
class Frame(Protocol):
    """A data frame of a user, of whatever library."""

    @property
    def columns(self) -> Iterable[str]:
        """The names of the columns."""

    def __getitem__(self, name: str, /) -> ArrayLike:
        """Return a column."""


Data = Rows | Frame


@dataclass(frozen=True)
class Curves:
    """The curves of some seeds, one row each.

    steps: `[points]`, increasing, of all seeds. values: `[seeds, points]`, NaN where a seed has no
    value at a step.
    failed: seed -> why it has no curve (its training became NaN); not among `seeds`.
    logged: `[seeds, points]`, whether a step is one of the seed's own; None: all are.
    """

    seeds: tuple[int, ...]
    steps: Floats
    values: Floats
    failed: Mapping[int, str] = field(default_factory=dict)
    logged: NDArray[np.bool_] | None = None

    @property
    def runs(self) -> list[Curve]:
        """The curve of each seed, at its own steps."""
        if self.logged is None:
            return [Curve(self.steps, row) for row in self.values]
        rows = zip(self.values, self.logged, strict=True)
        return [Curve(self.steps[own], row[own]) for row, own in rows]

    def __len__(self) -> int:
        """Return the number of seeds, failed ones too."""
        return len(self.seeds) + len(self.failed)

    def of(self, seeds: Sequence[int]) -> Curves:
        """Return those of some seeds, in that order."""
        place = {seed: row for row, seed in enumerate(self.seeds)}
        kept = tuple(seed for seed in seeds if seed in place)
        return Curves(
            seeds=kept,
            steps=self.steps,
            values=self.values[[place[seed] for seed in kept]],
            failed={seed: self.failed[seed] for seed in seeds if seed in self.failed},
            logged=None if self.logged is None else self.logged[[place[seed] for seed in kept]],
        )

    def and_(self, other: Curves) -> Curves:
        """Return these and those of other seeds."""
        require_same_steps(other, self)
        return together(
            self.seeds + other.seeds,
            [*self.runs, *other.runs],
            {**self.failed, **other.failed},
            grids=(self.steps, other.steps),
        )


def together(
    seeds: Sequence[int],
    runs: Sequence[Curve],
    failed: Mapping[int, str] | None = None,
    grids: Sequence[Floats] = (),
) -> Curves:
    """Join the curves of some seeds at all of their steps. grids: further steps."""
    every = [np.asarray(steps, np.float64) for steps in (*grids, *(run.steps for run in runs))]
    steps = np.unique(np.concatenate(every)) if every else np.zeros(0)
    values = np.full((len(runs), len(steps)), np.nan)
    logged = np.zeros(values.shape, np.bool_)
    for row, own, run in zip(values, logged, runs, strict=True):
        where = np.searchsorted(steps, np.asarray(run.steps, np.float64))
        row[where], own[where] = run.values, True
    return Curves(tuple(seeds), steps, values, failed or {}, None if logged.all() else logged)


def from_user(
    data: Data,
    *,
    steps: Rows | Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    missing_ok: bool = False,
    scores: Mapping[str, Score] = SCORES,
) -> Curves:
    """Check a user's curves. Raises UserError.

    Args:
        data: an array `[seeds, points]`, or a data frame with columns seed, step and value.
        steps: of the points of an array (default: 1 to points), or of each row's points where rows
            differ, in length too.
        seeds: of its rows (default: 0, 1, ...; runs of equal seed are compared bit by bit first).
        missing_ok: NaN means a point without a value, such as no finished episode; otherwise it is
            refused.
        scores: what the curves will be summed up by.
    """
    rows = _of_frame(data) if isinstance(data, Frame) else _of_array(data, steps, seeds)
    points = max((len(marks) for _, marks, _ in rows), default=0)
    if points < 2:
        raise UserError(
            f"curves need at least one seed and two points: {len(rows)} seeds, {points} points"
        )
    which = tuple(seed for seed, _, _ in rows)
    if len(set(which)) != len(which):
        raise UserError("a seed occurs twice: give each curve a seed of its own")
    for seed, marks, values in rows:
        _require_increasing(marks)
        _require_numbers(seed, marks, values, missing_ok)
    joined = together(which, [Curve(marks, values) for _, marks, values in rows])
    require_scores(joined, scores)
    return joined


Row = tuple[int, Floats, Floats]  # seed, steps and values of one curve


def _of_array(
    data: Rows, steps: Rows | Sequence[float] | None, seeds: Sequence[int] | None
) -> list[Row]:
    try:
        lengths = [len(row) for row in data]
    except TypeError:
        raise UserError(
            "curves are an array [seeds, points], one row per seed, or a data frame with columns "
            "seed, step and value"
        ) from None
    if seeds is not None and len(seeds) != len(lengths):
        raise UserError(f"{len(lengths)} curves, but seeds= names {len(seeds)}")
    which = tuple(map(_seed, range(len(lengths)) if seeds is None else seeds))
    values = [_numbers(row, "curves must be numbers, one per seed and point") for row in data]
    if any(row.ndim != 1 for row in values):
        raise UserError(
            f"curves must have the shape [seeds, points], not {[len(values), *values[0].shape]}"
        )
    marks = _steps_of(steps, which, lengths)
    return list(zip(which, marks, values, strict=True))


def _numbers(given: ArrayLike, problem: str) -> Floats:
    """Return numbers of a user. Raises UserError with the message where they are none."""
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise UserError(problem) from None


def _seed(given: float | str) -> int:
    try:
        seed = int(given)
    except (TypeError, ValueError, OverflowError):
        seed = None
    if seed is None or (seed != given and not isinstance(given, str)):
        raise UserError(f"seeds must be whole numbers, not {given!r:.40}")
    return seed


def _steps_of(
    steps: Rows | Sequence[float] | None, which: Sequence[int], lengths: Sequence[int]
) -> list[Floats]:
    """Return the steps of each row, given none, one list for all, or one each."""
    axis = [] if steps is None else list(steps)
    each = len(axis) > 0 and np.ndim(axis[0]) > 0
    if not each and len(set(lengths)) > 1:
        odd = next(i for i, length in enumerate(lengths) if length != lengths[0])
        raise UserError(
            f"curves of unequal lengths: seed {which[0]} has {lengths[0]} points, "
            f"seed {which[odd]} has {lengths[odd]}: give the steps= of each"
        )
    if each and len(axis) != len(lengths):
        raise UserError(f"{len(lengths)} curves, but steps= has {len(axis)} rows")
    if steps is None:
        return [np.arange(1.0, length + 1) for length in lengths]
    rows = axis if each else [axis] * len(lengths)
    marks = [_numbers(row, "steps must be numbers") for row in rows]
    for row, length in zip(marks, lengths, strict=True):
        if row.shape != (length,):
            raise UserError(
                f"steps= must name the step of each point: {row.size} steps for {length} points"
            )
    return marks


def _of_frame(data: Frame) -> list[Row]:
    names = list(data.columns)
    others = [name for name in names if name not in ("seed", "step")]
    value = "value" if "value" in names else others[0] if len(others) == 1 else None
    if value is None or not {"seed", "step"} <= set(names) or len(set(names)) < len(names):
        raise UserError(
            f"a data frame of curves has the columns seed, step and value, not "
            f"{', '.join(map(str, names))}"
        )
    problem = "the columns seed, step and value must be numbers"
    seed, step, number = (_numbers(data[name], problem) for name in ("seed", "step", value))
    rows = []
    for own in dict.fromkeys(seed.tolist()):
        of_seed = np.flatnonzero(seed == own)
        of_seed = of_seed[np.argsort(step[of_seed], kind="stable")]
        if len(np.unique(step[of_seed])) != len(of_seed):
            raise UserError(f"seed {own:g} has two values at one step")
        rows.append((_seed(own), step[of_seed], number[of_seed]))
    return rows


def _require_increasing(steps: Floats) -> None:
    if not np.all(np.isfinite(steps)) or np.any(np.diff(steps) <= 0) or np.any(steps < 0):
        raise UserError("steps must not be negative and must increase from point to point")


def _require_numbers(seed: int, steps: Floats, values: Floats, missing_ok: bool) -> None:
    bad = np.isinf(values) if missing_ok else ~np.isfinite(values)
    if bad.any():
        place = int(np.argmax(bad))
        raise UserError(
            f"the curve of seed {seed} is {values[place]} at step {steps[place]:,.0f} "
            f"({int(bad.sum())} of {len(values)} points): has its training diverged? Where NaN "
            f"only means that no episode ended, say missing_ok=True"
        )


def require_scores(curves: Curves, wanted: Mapping[str, Score] = SCORES) -> None:
    """Raise UserError for a curve without a score.

    Also for one that was cut before the last tenth of the steps, where its final score would be of
    another time than the others'.
    """
    ends = [run.range[1] if run.range else 0.0 for run in curves.runs]
    for name, values in scores(curves, wanted).items():
        for seed, value, end in zip(curves.seeds, values, ends, strict=True):
            cut = name == "final" and is_cut(end, curves.steps[-1])
            if (np.isnan(value) or cut) and name in SCORES:
                raise UserError(
                    f"the curve of seed {seed} has no value where its {name} score looks"
                    + (" (the last tenth of the steps)" if name == "final" else "")
                )
            if not np.isfinite(value):
                raise UserError(f"the score '{name}' of seed {seed} is {value}, not a number")


def require_same_steps(now: Curves, baseline: Curves) -> None:
    """Raise UserError unless both were trained for as long.

    Up to the distance between two points of the one that records less often.
    """
    ends = [curves.steps[-1] for curves in (now, baseline)]
    apart = max(curves.steps[-1] / _usual_points(curves) for curves in (now, baseline))
    if abs(ends[0] - ends[1]) > apart:
        raise UserError(
            f"different steps: the baseline has {_span(baseline)}, these curves have {_span(now)}; "
            f"train as long, or update the baseline"
        )


def _span(curves: Curves) -> str:
    return f"{_usual_points(curves)} points up to step {curves.steps[-1]:,.0f}"


def _usual_points(curves: Curves) -> int:
    """Return how many points a curve has."""
    if not curves.seeds:
        return len(curves.steps)
    return max(1, int(np.median(np.sum(~np.isnan(curves.values), axis=1))))


def on_steps_of(baseline: Curves, now: Curves) -> tuple[Curves, Curves]:
    """Return both at the baseline's steps, so that neither gains by being recorded more often.

    Where the steps differ, curves are read off on the straight lines between their points, and
    beyond the first and the last at their height. Raises UserError where one was trained longer.
    """
    require_same_steps(now, baseline)
    if np.array_equal(now.steps, baseline.steps):
        return baseline, now
    return at_every_step(baseline), at_every_step(now, baseline.steps)


def at_every_step(curves: Curves, steps: Floats | None = None) -> Curves:
    """Return the values of every seed at all steps (or at those given), read off its curve."""
    steps = curves.steps if steps is None else steps
    values = np.empty((len(curves.seeds), len(steps)))
    for row, own in zip(values, curves.values, strict=True):
        seen = ~np.isnan(own)
        row[:] = np.interp(steps, curves.steps[seen], own[seen])
    return replace(curves, steps=steps, values=values, logged=None)


def scores(curves: Curves, wanted: Mapping[str, Score] = SCORES) -> dict[str, Floats]:
    """Return name -> `[seeds]`; by default `report.scores`' final performance and area."""
    return {
        name: np.array([score(run.steps, run.values) for run in curves.runs], np.float64)
        for name, score in wanted.items()
    }


def first_difference(now: Curves, baseline: Curves) -> tuple[int, float] | None:
    """Return the seed and the first step at which curves of equal seeds are not the same bits.

    None where all are. Compares only the seeds that both have.
    """
    common = [seed for seed in now.seeds if seed in baseline.seeds]
    both = together([*common, *common], [*now.of(common).runs, *baseline.of(common).runs])
    steps, ours, theirs = both.steps, both.values[: len(common)], both.values[len(common) :]
    differs = ~((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)))
    if not differs.any():
        return None
    point = int(np.argmax(differs.any(axis=0)))
    return common[int(np.argmax(differs[:, point]))], float(steps[point])
