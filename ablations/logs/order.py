"""Points in the order written, brought into the order of their steps.

Steps that go back mean different things. A run that goes on from a checkpoint repeats steps: what
came later counts. Writers that run side by side are a little late: all their points count. A
counter that begins again, or a second run in the same place, cannot be told from each other, and is
refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ablations.curve import is_cut
from ablations.errors import UserError, count

Points = list[tuple[int, float]]
_LATE_SHARE = 20  # one step back in so many points is a writer's lateness,
_LATE_WAY = 4  # where it is back by less than this part of the way


@dataclass(frozen=True)
class Part:
    """Points of a tag that one process wrote. began, ended: seconds since 1970 of its writing."""

    source: str
    points: Sequence[tuple[int, float]]
    began: float = 0.0
    ended: float = 0.0


def in_order(tag: str, parts: Iterable[Part], notes: list[str] | None = None) -> Points:
    """Return the points of a tag at steps that never decrease.

    notes: takes a line for what is left out. Raises UserError where two runs may be mixed up.
    """
    notes = [] if notes is None else notes
    joined: Points = []
    ended, source = 0.0, ""
    for part in parts:
        points = _of_one_writer(tag, part, notes)
        if joined and points and points[0][0] <= joined[-1][0]:
            _resume(tag, part, source, joined, points, notes, before=ended)
        joined += points
        ended, source = max(ended, part.ended), part.source
    return joined


def _resume(
    tag: str,
    part: Part,
    source: str,
    joined: Points,
    points: Points,
    notes: list[str],
    *,
    before: float,
) -> None:
    """Remove what an earlier process wrote beyond the step from which this one went on.

    before: the time at which the earlier one ended.
    """
    first, last = points[0][0], points[-1][0]
    begun, reached = joined[0][0], joined[-1][0]
    again = first <= begun and not is_cut(reached, last)  # no failed attempt at the other one
    beside = part.began < before and 10 * (first - begun) <= reached - begun
    if again or beside:
        how = f"both have '{tag}' from about step {begun:,} on"
        raise UserError(
            f"'{source}' and '{part.source}' {how}: two runs in one place? Give each its own"
        )
    kept = bisect_left(joined, first, key=_step)
    notes.append(
        f"'{tag}' goes on from step {first:,} in '{part.source}': "
        f"{count(len(joined) - kept, 'earlier point')} up to step {reached:,} left out"
    )
    del joined[kept:]


def _of_one_writer(tag: str, part: Part, notes: list[str]) -> Points:
    points = part.points
    steps = [step for step, _ in points]
    if steps and min(steps) < 0:
        raise UserError(
            f"'{tag}' is at step {min(steps):,} in '{part.source}': a counter that overflowed?"
        )
    back = [a - b for a, b in pairwise(steps) if b < a]
    if not back:
        return list(points)
    way = max(steps) - min(steps)
    if len(back) >= max(3, len(steps) / _LATE_SHARE) and _LATE_WAY * max(back) <= way:
        notes.append(f"'{tag}': {count(len(back), 'point')} written late, put in order")
        return sorted(points, key=_step)
    kept: Points = []
    late = 0
    for index, (step, value) in enumerate(points):
        at = bisect_left(kept, step, key=_step)
        if not kept or step >= kept[-1][0]:
            kept.append((step, value))
        elif _is_late(steps, index, kept, at):
            kept.insert(at, (step, value))
            late += 1
        elif at == 0:
            raise UserError(
                f"'{tag}' begins again at step {step:,} after step {kept[-1][0]:,} in "
                f"'{part.source}': is that a counter that began again, or two runs in one place?"
            )
        else:
            notes.append(
                f"'{tag}' goes back from step {kept[-1][0]:,} to {step:,} in '{part.source}': "
                f"{count(len(kept) - at, 'earlier point')} left out"
            )
            kept[at:] = [(step, value)]
    if late:
        notes.append(f"'{tag}': {count(late, 'point')} written late, put in order")
    return kept


def _is_late(steps: Sequence[int], index: int, kept: Points, at: int) -> bool:
    """Return whether a point fills a gap, and does not go over a stretch again."""
    if kept[at][0] == steps[index]:
        return False
    again = index + 1 < len(steps) and steps[index] <= steps[index + 1] < kept[-1][0]
    return not again or len(kept) - at < 2


def _step(point: tuple[int, float]) -> int:
    return point[0]
