"""Learning curves of one metric over seeds: their input checks and their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ablations.errors import UserError
from ablations.scoring import auc, final
from ablations.stats import Floats

# steps `[points]`, values `[points]` (NaN: no value) -> a number in units of the metric
Score = Callable[[Floats, Floats], float]
SCORES: Mapping[str, Score] = {"final": final, "auc": auc}
Rows: TypeAlias = "Sequence[Sequence[float] | Floats] | Floats"
Data: TypeAlias = Any  # an array `[seeds, points]`, or a data frame of any library


class Run(NamedTuple):
    """The curve of a seed: increasing steps and values `[points]`; NaN: no value."""

    steps: Floats
    values: Floats

    def at(self, steps: Floats) -> Floats:
        """Return the values at other steps, by linear interpolation; constant beyond the ends."""
        known = ~np.isnan(self.values)
        return np.interp(steps, self.steps[known], self.values[known])


@dataclass(frozen=True, eq=False)
class Curves:
    """The curves of seeds, each at its own steps.

    Attributes:
        runs: by seed.
        failed: seed -> why it has no curve (its training diverged).
    """

    runs: Mapping[int, Run]
    failed: Mapping[int, str] = field(default_factory=dict)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that have a curve."""
        return tuple(self.runs)

    @property
    def steps(self) -> Floats:
        """All steps at which any seed has a point, in order."""
        every = [run.steps for run in self.runs.values()]
        return np.unique(np.concatenate(every)) if every else np.zeros(0)

    def __len__(self) -> int:
        """Return the number of seeds, including failed ones."""
        return len(self.runs) + len(self.failed)

    def of(self, seeds: Iterable[int]) -> Curves:
        """Return the curves of these seeds, in this order."""
        wanted = list(seeds)
        return Curves(
            {seed: self.runs[seed] for seed in wanted if seed in self.runs},
            {seed: self.failed[seed] for seed in wanted if seed in self.failed},
        )

    def at(self, steps: Floats) -> Curves:
        """Return all curves at the same steps."""
        return Curves({s: Run(steps, run.at(steps)) for s, run in self.runs.items()}, self.failed)

    def scores(self, wanted: Mapping[str, Score] = SCORES) -> dict[str, Floats]:
        """Return name -> `[seeds]`; by default final performance and area under the curve."""
        return {
            name: np.array([score(*run) for run in self.runs.values()], np.float64)
            for name, score in wanted.items()
        }


def from_user(
    data: Data,
    *,
    steps: Rows | Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    missing_ok: bool = False,
    scores: Mapping[str, Score] = SCORES,
) -> Curves:
    """Return a user's curves. Raises UserError for invalid data.

    Args:
        data: an array `[seeds, points]`, or a data frame with the columns seed, step and value.
        steps: of an array's points, for all rows or for each row; default: 1, 2, ...
        seeds: of an array's rows; default: 0, 1, ...
        missing_ok: accept NaN as a point without a value (no episode ended).
        scores: functions that must give each curve a finite score.
    """
    rows = _of_frame(data) if is_frame(data) else _of_array(data, steps, seeds)
    if max((len(run.steps) for _, run in rows), default=0) < 2:
        raise UserError("curves need at least one seed and two points")
    curves = Curves(dict(rows))
    if len(curves) != len(rows):
        raise UserError("a seed occurs twice: give each curve a seed of its own")
    for seed, (marks, values) in rows:
        if not (np.isfinite(marks).all() and marks[0] >= 0 and (np.diff(marks) > 0).all()):
            raise UserError("steps must not be negative and must increase from point to point")
        bad = np.isinf(values) if missing_ok else ~np.isfinite(values)
        if bad.any():
            first = int(np.argmax(bad))
            raise UserError(
                f"the curve of seed {seed} is {values[first]} at step {marks[first]:,.0f}: did its "
                f"training diverge? If NaN only means that no episode ended, add missing_ok=True"
            )
    require_scores(curves, scores)
    return curves


def is_frame(data: Data) -> bool:
    """Return whether the curves are a data frame of some library."""
    return hasattr(data, "columns")


def _of_array(
    data: Rows, steps: Rows | Sequence[float] | None, seeds: Sequence[int] | None
) -> list[tuple[int, Run]]:
    try:
        values = [_numbers(row, "curves must be numbers, one per seed and point") for row in data]
        lengths = [len(row) for row in values]
    except TypeError:
        raise UserError(
            "curves are an array [seeds, points], one row per seed, or a data frame with columns "
            "seed, step and value"
        ) from None
    if any(row.ndim != 1 for row in values):
        raise UserError("curves must have the shape [seeds, points]")
    names = _seeds(range(len(values)) if seeds is None else seeds)
    if len(names) != len(values):
        raise UserError(f"{len(values)} curves, but seeds= names {len(names)}")
    given: Any = steps
    if given is None or len(given) == 0 or np.ndim(given[0]) == 0:  # the same steps for all rows
        if len(set(lengths)) > 1:
            raise UserError("curves of unequal lengths: pass steps= with a row per seed")
        given = [range(1, max(lengths, default=0) + 1) if given is None else given] * len(values)
    marks = [_numbers(row, "steps must be numbers") for row in given]
    if [row.shape for row in marks] != [row.shape for row in values]:
        raise UserError("steps= needs one step per point of each curve")
    return list(zip(names, map(Run, marks, values), strict=True))


def _of_frame(data: Data) -> list[tuple[int, Run]]:
    names = list(data.columns)
    others = [name for name in names if name not in ("seed", "step")]
    value = "value" if "value" in names else others[0] if len(others) == 1 else None
    if value is None or not {"seed", "step"} <= set(names) or len(set(names)) < len(names):
        raise UserError(
            f"a data frame of curves needs the columns seed, step and value, not "
            f"{', '.join(map(str, names))}"
        )
    problem = "the columns seed, step and value must be numbers"
    steps, values = (_numbers(data[name], problem) for name in ("step", value))
    points: dict[int, list[int]] = {}
    for point, seed in enumerate(_seeds(data["seed"])):
        points.setdefault(seed, []).append(point)
    runs = {}
    for seed, rows in points.items():
        ordered = np.array(rows)[np.argsort(steps[rows], kind="stable")]
        if len(np.unique(steps[rows])) != len(rows):
            raise UserError(f"seed {seed} has two values at one step")
        runs[seed] = Run(steps[ordered], values[ordered])
    return list(runs.items())


def _numbers(given: ArrayLike, problem: str) -> Floats:
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise UserError(problem) from None


def _seeds(given: ArrayLike) -> list[int]:
    seeds = _numbers(given, problem := "seeds must be whole numbers")
    if not (seeds % 1 == 0).all():
        raise UserError(problem)
    return [int(seed) for seed in seeds]


def require_scores(curves: Curves, wanted: Mapping[str, Score] = SCORES) -> None:
    """Raise UserError for a curve without a score, and for a curve that ends too early.

    A curve that ends before 90% of the steps would have its final score at another time.
    """
    last = curves.steps[-1] if curves.runs else 0.0
    for name, values in curves.scores(wanted).items():
        for (seed, run), value in zip(curves.runs.items(), values, strict=True):
            end = run.steps[np.isfinite(run.values)].max(initial=0.0)
            cut = name == "final" and 10 * end < 9 * last
            if name in SCORES and (np.isnan(value) or cut):
                where = " in the last tenth of the steps" if name == "final" else ""
                raise UserError(f"seed {seed} has no {name} score: its curve has no value{where}")
            if not np.isfinite(value):
                raise UserError(f"the score '{name}' of seed {seed} is {value}, not a number")


def require_same_steps(now: Curves, baseline: Curves) -> None:
    """Raise UserError unless both were trained for the same number of steps.

    They may differ by the distance between two points of the coarser curves.
    """
    if not now.runs or not baseline.runs:
        return
    ends = [curves.steps[-1] for curves in (now, baseline)]
    points = [_median_points(curves) for curves in (now, baseline)]
    if abs(ends[0] - ends[1]) > max(ends[0] / points[0], ends[1] / points[1]):
        raise UserError(
            f"different steps: the baseline has {points[1]} points up to step {ends[1]:,.0f}, "
            f"these curves have {points[0]} points up to step {ends[0]:,.0f}; train for the same "
            f"number of steps, or update the baseline"
        )


def _median_points(curves: Curves) -> int:
    return max(1, int(np.median([np.sum(~np.isnan(r.values)) for r in curves.runs.values()])))


def on_steps_of(baseline: Curves, now: Curves) -> tuple[Curves, Curves]:
    """Return both at the baseline's steps, so that their scores are comparable.

    Raises UserError if one was trained longer.
    """
    require_same_steps(now, baseline)
    steps = baseline.steps
    if not now.runs or np.array_equal(now.steps, steps):
        return baseline, now
    return baseline.at(steps), now.at(steps)


def first_difference(now: Curves, baseline: Curves) -> tuple[int, float] | None:
    """Return the seed and step of the first difference in bits, or None.

    Only seeds that both have are compared.
    """
    steps = {}
    for seed in now.seeds:
        if seed in baseline.runs:
            points = _points(now.runs[seed]) ^ _points(baseline.runs[seed])
            steps[seed] = min((step for step, _ in points), default=math.inf)
    first = min(steps, key=steps.__getitem__, default=None)
    return None if first is None or steps[first] == math.inf else (first, steps[first])


def _points(run: Run) -> set[tuple[float, float]]:
    points = zip(run.steps.tolist(), run.values.tolist(), strict=True)
    return {(step, value) for step, value in points if not math.isnan(value)}
