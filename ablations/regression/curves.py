"""Learning curves of one metric over seeds: their input checks and their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ablations.errors import UserError
from ablations.scoring import auc, final
from ablations.stats import Floats

# steps `[points]`, values `[points]` (NaN: no value) -> a number in units of the metric
Score = Callable[[Floats, Floats], float]
SCORES: Mapping[str, Score] = {"final": final, "auc": auc}
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
    steps: Sequence[float] | Floats | None = None,
    seeds: Sequence[int] | None = None,
    missing_ok: bool = False,
    scores: Mapping[str, Score] = SCORES,
) -> Curves:
    """Return a user's curves. Raises UserError for invalid data.

    Args:
        data: an array `[seeds, points]`, or a data frame with the columns seed, step and value.
        steps: of an array's points; default: 1, 2, ...
        seeds: of an array's rows; default: 0, 1, ...
        missing_ok: accept NaN as a point without a value (no episode ended).
        scores: functions that must give each curve a finite score.
    """
    try:
        points = _columns(data) if hasattr(data, "columns") else _rows(data, steps, seeds)
        seeds_of, marks, values = points
    except (TypeError, ValueError) as why:
        raise UserError(
            f"curves are an array [seeds, points], with a number in seeds= for each row and one in "
            f"steps= for each point, or a data frame with the columns seed, step and value: {why}"
        ) from None
    if (seeds_of % 1 != 0).any():
        raise UserError("seeds must be whole numbers")
    if not (marks >= 0).all() or np.isinf(marks).any():
        raise UserError("steps must not be negative, and finite")
    bad = np.isinf(values) if missing_ok else ~np.isfinite(values)
    for seed, step, value in zip(seeds_of[bad], marks[bad], values[bad], strict=True):
        raise UserError(
            f"the curve of seed {seed:.0f} is {value} at step {step:,.0f}: did its training "
            f"diverge? If NaN only means that no episode ended, add missing_ok=True"
        )
    runs = {}
    for seed in dict.fromkeys(seeds_of.tolist()):
        own = np.flatnonzero(seeds_of == seed)
        own = own[np.argsort(marks[own], kind="stable")]
        runs[int(seed)] = Run(marks[own], values[own])
        if (np.diff(marks[own]) == 0).any():
            raise UserError(f"seed {seed:.0f} has two values at one step")
    if max((len(run.steps) for run in runs.values()), default=0) < 2:
        raise UserError("curves need at least one seed and two points")
    curves = Curves(runs)
    require_scores(curves, scores)
    return curves


def _rows(
    data: Data, steps: Sequence[float] | Floats | None, seeds: Sequence[int] | None
) -> list[Floats]:
    """Return seed, step and value of each point of an array."""
    values = np.asarray(data, np.float64)
    rows, points = values.shape
    names = np.asarray(range(rows) if seeds is None else seeds, np.float64)
    marks = np.asarray(range(1, points + 1) if steps is None else steps, np.float64)
    if (len(names), len(marks)) != (rows, points):
        raise ValueError(f"{rows} rows of {points} points, {len(names)} seeds, {len(marks)} steps")
    return [np.repeat(names, points), np.tile(marks, rows), values.ravel()]


def _columns(data: Data) -> list[Floats]:
    """Return seed, step and value of each point of a data frame."""
    names = list(data.columns)
    others = [name for name in names if name not in ("seed", "step")]
    value = "value" if "value" in names else others[0] if len(others) == 1 else None
    if value is None or not {"seed", "step"} <= set(names) or len(set(names)) < len(names):
        raise ValueError(f"it has the columns {', '.join(map(str, names))}")
    return [np.asarray(data[name], np.float64) for name in ("seed", "step", value)]


def require_scores(curves: Curves, wanted: Mapping[str, Score] = SCORES) -> None:
    """Raise UserError for a curve without a score, and for a curve that ends too early.

    A curve that ends before 90% of the steps would have its final score at another time.
    """
    last = curves.steps[-1] if curves.runs else 0.0
    for name, values in curves.scores(wanted).items():
        for (seed, run), value in zip(curves.runs.items(), values, strict=True):
            end = run.steps[np.isfinite(run.values)].max(initial=0.0)
            if not np.isfinite(value) or (name == "final" and 10 * end < 9 * last):
                raise UserError(
                    f"seed {seed} has no score '{name}' (computed: {value:g}); its curve ends at "
                    f"step {end:,.0f} of {last:,.0f}"
                )


def require_same_steps(now: Curves, baseline: Curves) -> None:
    """Raise UserError unless both were trained for the same number of steps.

    They may differ by the distance between two points of the coarser curves.
    """
    if not now.runs or not baseline.runs:
        return
    ends = [curves.steps[-1] for curves in (now, baseline)]
    points = [
        max(1, int(np.median([np.sum(~np.isnan(run.values)) for run in curves.runs.values()])))
        for curves in (now, baseline)
    ]
    if abs(ends[0] - ends[1]) > max(ends[0] / points[0], ends[1] / points[1]):
        raise UserError(
            f"different steps: the baseline has {points[1]} points up to step {ends[1]:,.0f}, "
            f"these curves have {points[0]} points up to step {ends[0]:,.0f}; train for the same "
            f"number of steps, or update the baseline"
        )


def first_difference(now: Curves, baseline: Curves) -> tuple[int, float] | None:
    """Return the seed and step of the first difference in bits, or None.

    Only seeds that both have are compared.
    """
    differing = [
        (step, seed)
        for seed in now.runs.keys() & baseline.runs.keys()
        for step, _ in _points(now.runs[seed]) ^ _points(baseline.runs[seed])
    ]
    step, seed = min(differing, default=(0.0, None))
    return None if seed is None else (seed, step)


def _points(run: Run) -> set[tuple[float, float]]:
    points = zip(run.steps.tolist(), run.values.tolist(), strict=True)
    return {(step, value) for step, value in points if not math.isnan(value)}
