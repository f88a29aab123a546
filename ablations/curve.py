"""Define a run's curve of one metric: one object from reading to verdict.

It keeps its own steps, says where it ended and how, and is read off at the steps of others only
when a mean over runs is taken. NumPy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Steps = NDArray[Any]  # int64, or float64 where a user counts otherwise
Status = Literal["finished", "cut", "diverged"]

MOST_STEPS = 1_000  # of a common grid


@dataclass(frozen=True, eq=False)
class Curve:
    """One metric of one run.

    steps: `[n]`, increasing, those at which this run was logged. values: `[n]`, NaN where the
    metric has none. end: the last step, or the first from which on no value is finite.
    status: "finished"; "cut", the run ended before 90% of a whole one; "diverged", its
    values are no finite numbers up to its end.
    """

    steps: Steps
    values: Floats
    end: float = 0
    status: Status = "finished"

    @property
    def range(self) -> tuple[float, float] | None:
        """Return the steps of the first and the last finite value; None where there is none."""
        finite = self.steps[np.isfinite(self.values)]
        return (finite[0], finite[-1]) if len(finite) else None

    def at(self, steps: Steps) -> Floats:
        """Return the values at any steps `[m]`, on the straight lines between its own.

        NaN outside of its range, as nothing is known there.
        """
        finite = np.isfinite(self.values)
        if not finite.any():
            return np.full(np.shape(steps), np.nan)
        known, values = self.steps[finite], self.values[finite]
        return np.interp(steps, known, values, left=np.nan, right=np.nan)

    def bridged(self) -> Floats:
        """Return its own values `[n]`, with those interpolated that are missing between others."""
        finite = np.isfinite(self.values)
        return self.values if finite.all() else np.where(finite, self.values, self.at(self.steps))


def logged(
    steps: Sequence[float | None] | Steps,
    values: Sequence[float | None] | Floats,
    whole: float = 0,
) -> Curve:
    """Return the curve of a log.

    Args:
        steps: `[n]`, increasing.
        values: `[n]`, None where the metric was not logged, such as no finished episode; NaN and
            infinities count as logged.
        whole: the steps of a whole run, where known.
    """
    marks = np.asarray(steps)
    numbers = np.asarray(values, np.float64)
    finite = np.isfinite(numbers)
    if not finite.all():
        places = np.flatnonzero([value is not None for value in values])
        tail = _tail(finite[places])
        if tail < len(places):
            return Curve(marks, numbers, marks[places[tail]], "diverged")
    end = marks[-1] if len(marks) else 0
    return Curve(marks, numbers, end, "cut" if is_cut(end, whole) else "finished")


def is_cut(end: float, whole: float) -> bool:
    """Return whether a run ended before 90% of a whole one, where that is known."""
    return whole > 0 and 10 * end < 9 * whole


def diverged_from(values: ArrayLike) -> int | None:
    """Return the index from which on values `[n]` are no finite numbers; None where there is none.

    A NaN may be an empty field of a table, and a metric that is logged less often than others ends
    in such fields too: as many as it leaves empty elsewhere are no divergence. Infinities always
    are.
    """
    numbers = np.asarray(values, np.float64)
    finite = np.isfinite(numbers)
    tail = _tail(finite)
    usual = int((np.diff(np.flatnonzero(finite)) - 1).max(initial=0))
    if len(numbers) - tail > usual or np.isinf(numbers[tail:]).any():
        return tail if tail < len(numbers) else None
    return None


def diverged(metric: str, step: float) -> str:
    """Return the reason that a record gives for a divergence."""
    return f"{metric} is no finite number from step {step:,.0f} on"


def _tail(finite: NDArray[np.bool_]) -> int:
    """Return the index after the last True."""
    places = np.flatnonzero(finite)
    return int(places[-1]) + 1 if len(places) else 0


def share_steps(curves: Sequence[Curve]) -> bool:
    """Return whether all were logged at the same steps."""
    return all(np.array_equal(one.steps, curves[0].steps) for one in curves[1:])


def on_common_steps(curves: Sequence[Curve], most: int = MOST_STEPS) -> tuple[Steps, Floats]:
    """Return several curves at the same steps: `[n]` and `[curves, n]`, NaN without a value.

    Curves that share their steps keep them, and their values. Others are read off on the straight
    lines between their points, from where the last of them begins to where the first of them ends:
    a mean over those that happen to have a value at a step would jump from one set of runs to
    another. most: bound on the steps of such a grid; more are replaced by as many at equal
    distances.
    """
    if share_steps(curves):
        return curves[0].steps, np.stack([one.bridged() for one in curves])
    ranges = [one.range for one in curves if one.range is not None]
    first = max((low for low, _ in ranges), default=0)
    last = min((high for _, high in ranges), default=-1)
    every = np.unique(np.concatenate([one.steps for one in curves]))
    steps = every[(every >= first) & (every <= last)]
    if len(steps) > most:
        steps = np.linspace(first, last, most)
    return steps, np.stack([one.at(steps) for one in curves])
