"""Learning curves of one metric over seeds, checked on their way in, and their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ablations.errors import UserError
from ablations.report.scores import auc, final

Floats = NDArray[np.float64]
SCORES = {"final": final, "auc": auc}


@dataclass(frozen=True)
class Curves:
    """One row per seed.

    steps: `[points]`, increasing. values: `[seeds, points]`, NaN where a point has no value.
    failed: seed -> why it has no curve (its training became NaN); not among `seeds`.
    """

    seeds: tuple[int, ...]
    steps: Floats
    values: Floats
    failed: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.seeds) + len(self.failed)

    def of(self, seeds: Sequence[int]) -> Curves:
        """Those of some seeds, in that order."""
        place = {seed: row for row, seed in enumerate(self.seeds)}
        kept = tuple(seed for seed in seeds if seed in place)
        return Curves(
            seeds=kept,
            steps=self.steps,
            values=self.values[[place[seed] for seed in kept]],
            failed={seed: self.failed[seed] for seed in seeds if seed in self.failed},
        )

    def and_(self, other: Curves) -> Curves:
        """These and those of other seeds."""
        require_same_steps(other, self)
        return Curves(
            seeds=self.seeds + other.seeds,
            steps=self.steps,
            values=np.concatenate([self.values, other.values]),
            failed={**self.failed, **other.failed},
        )


def from_user(
    data: Any,
    *,
    steps: Any = None,
    seeds: Sequence[int] | None = None,
    missing_ok: bool = False,
) -> Curves:
    """Curves from an array `[seeds, points]`, or a data frame with columns seed, step and value.

    steps: of the points of an array (default: 1 to points). seeds: of its rows (default: 0, 1, ...;
    runs of equal seed are compared bit by bit first). missing_ok: NaN means a point without a
    value, such as no finished episode; otherwise it is refused. Raises UserError.
    """
    if hasattr(data, "columns"):
        rows, marks, which = _of_frame(data)
    else:
        rows, marks, which = _of_array(data, steps, seeds)
    steps_ = _increasing(marks)
    if len(rows) == 0 or len(steps_) < 2:
        raise UserError(
            f"curves need at least one seed and two points: {len(rows)} seeds, {len(steps_)} points"
        )
    if len(set(which)) != len(which):
        raise UserError("a seed occurs twice: give each curve a seed of its own")
    found = Curves(which, steps_, rows)
    require_numbers(found, missing_ok)
    return found


def _of_array(
    data: Any, steps: Any, seeds: Sequence[int] | None
) -> tuple[Floats, Any, tuple[int, ...]]:
    try:
        lengths = [len(row) for row in data]
    except TypeError:
        raise UserError(
            "curves are an array [seeds, points], one row per seed, or a data frame with columns "
            "seed, step and value"
        ) from None
    if seeds is not None and len(seeds) != len(lengths):
        raise UserError(f"{len(lengths)} curves, but seeds= names {len(seeds)}")
    which = tuple(range(len(lengths))) if seeds is None else tuple(int(seed) for seed in seeds)
    if len(set(lengths)) > 1:
        odd = next(i for i, length in enumerate(lengths) if length != lengths[0])
        raise UserError(
            f"curves of unequal lengths: seed {which[0]} has {lengths[0]} points, "
            f"seed {which[odd]} has {lengths[odd]}"
        )
    try:
        values = np.array([np.asarray(row, np.float64) for row in data], np.float64)
    except (TypeError, ValueError):
        raise UserError("curves must be numbers, one per seed and point") from None
    if values.ndim != 2:
        raise UserError(f"curves must have the shape [seeds, points], not {list(values.shape)}")
    marks = np.arange(1, values.shape[1] + 1) if steps is None else steps
    if np.shape(marks) != values.shape[1:]:
        raise UserError(
            f"steps= must name the step of each point: {np.size(marks)} steps for "
            f"{values.shape[1]} points"
        )
    return values, marks, which


def _of_frame(data: Any) -> tuple[Floats, Any, tuple[int, ...]]:
    names = list(data.columns)
    others = [name for name in names if name not in ("seed", "step")]
    value = "value" if "value" in names else others[0] if len(others) == 1 else None
    if value is None or not {"seed", "step"} <= set(names):
        raise UserError(
            f"a data frame of curves has the columns seed, step and value, not "
            f"{', '.join(map(str, names))}"
        )
    try:
        seed, step, number = (
            np.asarray(data[name], np.float64) for name in ("seed", "step", value)
        )
    except (TypeError, ValueError):
        raise UserError("the columns seed, step and value must be numbers") from None
    which = tuple(int(one) for one in dict.fromkeys(seed.tolist()))
    marks = np.unique(step)
    values = np.full((len(which), len(marks)), np.nan)
    seen = np.zeros(values.shape, bool)
    for row, one in enumerate(which):
        mine = seed == one
        places = np.searchsorted(marks, step[mine])
        if len(set(places.tolist())) != len(places):
            raise UserError(f"seed {one} has two values at one step")
        values[row, places], seen[row, places] = number[mine], True
    if not seen.all():
        lengths = seen.sum(axis=1)
        odd = int(np.argmin(lengths))
        full = int(np.argmax(lengths))
        raise UserError(
            f"curves of unequal lengths: seed {which[full]} has {lengths[full]} points, seed "
            f"{which[odd]} has {lengths[odd]}: every seed needs a value at the same steps"
        )
    return values, marks, which


def _increasing(steps: Any) -> Floats:
    try:
        marks = np.asarray(steps, np.float64)
    except (TypeError, ValueError):
        raise UserError("steps must be numbers") from None
    if not np.all(np.isfinite(marks)) or np.any(np.diff(marks) <= 0) or np.any(marks <= 0):
        raise UserError("steps must be positive and increase from point to point")
    return marks


def require_numbers(found: Curves, missing_ok: bool) -> None:
    """Raises UserError for a value that is no number, and for a curve without a score."""
    for seed, row in zip(found.seeds, found.values, strict=True):
        bad = np.isinf(row) if missing_ok else ~np.isfinite(row)
        if bad.any():
            place = int(np.argmax(bad))
            raise UserError(
                f"the curve of seed {seed} is {row[place]} at step {found.steps[place]:,.0f} "
                f"({int(bad.sum())} of {len(row)} points): has its training diverged? Where NaN "
                f"only means that no episode ended, say missing_ok=True"
            )
    for name, score in SCORES.items():
        lacking = [
            seed
            for seed, row in zip(found.seeds, found.values, strict=True)
            if np.isnan(score(found.steps, row))
        ]
        if lacking:
            raise UserError(
                f"the curve of seed {lacking[0]} has no value where its {name} score looks"
                + (" (the last tenth of the steps)" if name == "final" else "")
            )


def require_same_steps(now: Curves, baseline: Curves) -> None:
    """Raises UserError unless both have a value at the same steps."""
    if now.steps.shape != baseline.steps.shape or np.any(now.steps != baseline.steps):
        raise UserError(
            f"different steps: the baseline has {_span(baseline)}, these curves have {_span(now)}; "
            f"train as long and record as often, or update the baseline"
        )


def _span(curves: Curves) -> str:
    return f"{len(curves.steps)} points up to step {curves.steps[-1]:,.0f}"


def scores(curves: Curves) -> dict[str, Floats]:
    """name -> `[seeds]`: final performance and area under the curve, of `report.scores`."""
    return {
        name: np.array([score(curves.steps, row) for row in curves.values], np.float64)
        for name, score in SCORES.items()
    }


def first_difference(now: Curves, baseline: Curves) -> tuple[int, float] | None:
    """The seed and the first step at which curves of equal seeds are not the same bits; None where
    all are. Looks only at the seeds that both have."""
    common = [seed for seed in now.seeds if seed in baseline.seeds]
    ours, theirs = now.of(common).values, baseline.of(common).values
    differs = ~((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)))
    if not differs.any():
        return None
    point = int(np.argmax(differs.any(axis=0)))
    return common[int(np.argmax(differs[:, point]))], float(now.steps[point])
