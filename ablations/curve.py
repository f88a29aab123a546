"""The learning curve of one metric of a run.

A curve keeps its own steps. It is interpolated at other steps only for a mean over runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Steps = NDArray[Any]  # int64, or a user's float64
Status = Literal["finished", "cut", "diverged"]

MOST_STEPS = 1_000  # of a common grid


@dataclass(frozen=True, eq=False)
class Curve:
    """One metric of one run.

    Attributes:
        steps: `[n]`, increasing.
        values: `[n]`; NaN: the metric has no value.
        end: the last step, or the first step from which no value is finite.
        status: "finished", "cut" (the run ended before 90% of a complete run) or "diverged" (its
            values are not finite up to its end).
    """

    steps: Steps
    values: Floats
    end: float = 0
    status: Status = "finished"

    def at(self, steps: Steps) -> Floats:
        """Return linearly interpolated values at steps `[m]`; NaN outside of its range."""
        finite = np.isfinite(self.values)
        if not finite.any():
            return np.full(np.shape(steps), np.nan)
        known, values = self.steps[finite], self.values[finite]
        return np.interp(steps, known, values, left=np.nan, right=np.nan)

    def bridged(self) -> Floats:
        """Return its values `[n]`, with gaps between values interpolated."""
        finite = np.isfinite(self.values)
        return self.values if finite.all() else np.where(finite, self.values, self.at(self.steps))


def logged(
    steps: Sequence[float | None] | Steps,
    values: Sequence[float | None] | Floats,
    complete: float = 0,
) -> Curve:
    """Return the curve of a log.

    Args:
        steps: `[n]`, increasing.
        values: `[n]`; None: not logged, such as no finished episode. NaN and infinities count as
            logged.
        complete: the steps of a complete run; 0: unknown.
    """
    marks = np.asarray(steps)
    numbers = np.asarray(values, np.float64)
    finite = np.isfinite(numbers)
    if not finite.all():
        indices = np.flatnonzero([value is not None for value in values])
        tail = _tail(finite[indices])
        if tail < len(indices):
            return Curve(marks, numbers, marks[indices[tail]], "diverged")
    end = marks[-1] if len(marks) else 0
    return Curve(marks, numbers, end, "cut" if is_cut(end, complete) else "finished")


def is_cut(end: float, complete: float) -> bool:
    """Return whether a run ended before 90% of a complete run; False if that is unknown (0)."""
    return complete > 0 and 10 * end < 9 * complete


def diverged_from(values: ArrayLike) -> int | None:
    """Return the index from which values `[n]` are not finite, or None.

    NaN may be an empty field of a table: a metric that is logged less often than others ends in
    empty fields. So the last NaN count only if they are more than any NaN between two values.
    Infinities always count.
    """
    numbers = np.asarray(values, np.float64)
    finite = np.isfinite(numbers)
    tail = _tail(finite)
    usual = int((np.diff(np.flatnonzero(finite)) - 1).max(initial=0))
    if len(numbers) - tail > usual or np.isinf(numbers[tail:]).any():
        return tail if tail < len(numbers) else None
    return None


def diverged(metric: str, step: float) -> str:
    """Return the reason of a divergence, for a record."""
    return f"{metric} is no finite number from step {step:,.0f} on"


def _tail(finite: NDArray[np.bool_]) -> int:
    """Return the index after the last True."""
    indices = np.flatnonzero(finite)
    return int(indices[-1]) + 1 if len(indices) else 0


def on_common_steps(curves: Sequence[Curve], most: int = MOST_STEPS) -> tuple[Steps, Floats]:
    """Return curves at common steps: `[n]` and values `[curves, n]`, NaN without a value.

    Curves with the same steps keep their steps and values. Other curves are interpolated, from the
    latest start to the earliest end: otherwise a mean would jump where a curve starts or ends. If
    the steps would be more than `most`, a regular grid replaces them.
    """
    if all(np.array_equal(curve.steps, curves[0].steps) for curve in curves[1:]):
        return curves[0].steps, np.stack([curve.bridged() for curve in curves])
    known = [curve.steps[np.isfinite(curve.values)] for curve in curves]
    first = max((steps[0] for steps in known if len(steps)), default=0)
    last = min((steps[-1] for steps in known if len(steps)), default=-1)
    union = np.unique(np.concatenate([curve.steps for curve in curves]))
    steps = union[(union >= first) & (union <= last)]
    if len(steps) > most:
        steps = np.linspace(first, last, most)
    return steps, np.stack([curve.at(steps) for curve in curves])
