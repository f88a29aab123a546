"""Define the verdict on a comparison and the answer to a question, which renderers print."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """The place of a difference's interval, or the reason why there is none.

    "better" and "worse" are of scores; "higher" and "lower" of metrics, and of interactions, that
    have no good direction. Of those by an undecided amount the interval excludes 0 and holds the
    margin.
    """

    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"
    LOWER = "lower"
    BETTER_UNDECIDED = "better, by an undecided amount"
    WORSE_UNDECIDED = "worse, by an undecided amount"
    HIGHER_UNDECIDED = "higher, by an undecided amount"
    LOWER_UNDECIDED = "lower, by an undecided amount"
    EQUIVALENT = "equivalent"
    IDENTICAL = "identical"
    UNDECIDED = "undecided"
    TASKS_DISAGREE = "tasks disagree"
    UNSTABLE = "unstable"
    UNSTABLE_BASELINE = "unstable baseline"
    UNSTABLE_REFERENCE = "unstable reference"
    NO_PAIRS = "no pairs"
    ONE_SEED = "one seed"
    TOO_FEW_SEEDS = "too few seeds"
    NO_SEED_IS_COMPLETE = "no seed is complete"
    DOES_NOT_ACT = "does not act"
    NOTHING_LEARNED = "nothing learned"

    @property
    def sign(self) -> int:
        """Return 1 or -1 where the difference lies above or below 0, else 0."""
        return _SIGNS.get(self, 0)

    @property
    def same(self) -> bool:
        """Return whether the difference lies within the margin, or is none at all."""
        return self in (Verdict.EQUIVALENT, Verdict.IDENTICAL)

    @property
    def unstable(self) -> bool:
        """Return whether failed runs prevent any other verdict."""
        return self in (Verdict.UNSTABLE, Verdict.UNSTABLE_BASELINE, Verdict.UNSTABLE_REFERENCE)

    @property
    def too_few(self) -> bool:
        """Return whether there are too few seeds for an interval."""
        return self in (Verdict.NO_PAIRS, Verdict.ONE_SEED, Verdict.TOO_FEW_SEEDS)

    @property
    def unlearned(self) -> bool:
        """Return whether the baseline learned nothing, so that nothing can be compared."""
        return self is Verdict.NOTHING_LEARNED

    @property
    def decided(self) -> Verdict:
        """Return the verdict without its undecided amount."""
        return _DECIDED.get(self, self)

    @property
    def undirected(self) -> Verdict:
        """Return the verdict where no direction is good: "higher" for "better"."""
        return _UNDIRECTED.get(self, self)

    def guarded(self, more_failures: int) -> Verdict:
        """Return the verdict in view of failures: seeds that survive look better than they are.

        Args:
            more_failures: how many more runs of the variant failed than of its baseline.
        """
        if more_failures > 0 and (self.same or self.sign > 0):
            return Verdict.UNSTABLE
        if more_failures < 0 and (self.same or self.sign < 0):
            return Verdict.UNSTABLE_BASELINE
        return self


_UNDIRECTED = {
    Verdict.BETTER: Verdict.HIGHER,
    Verdict.WORSE: Verdict.LOWER,
    Verdict.BETTER_UNDECIDED: Verdict.HIGHER_UNDECIDED,
    Verdict.WORSE_UNDECIDED: Verdict.LOWER_UNDECIDED,
}
_DECIDED = {
    Verdict.BETTER_UNDECIDED: Verdict.BETTER,
    Verdict.WORSE_UNDECIDED: Verdict.WORSE,
    Verdict.HIGHER_UNDECIDED: Verdict.HIGHER,
    Verdict.LOWER_UNDECIDED: Verdict.LOWER,
}
_SIGNS = {
    **dict.fromkeys((Verdict.BETTER, Verdict.BETTER_UNDECIDED), 1),
    **dict.fromkeys((Verdict.HIGHER, Verdict.HIGHER_UNDECIDED), 1),
    **dict.fromkeys((Verdict.WORSE, Verdict.WORSE_UNDECIDED), -1),
    **dict.fromkeys((Verdict.LOWER, Verdict.LOWER_UNDECIDED), -1),
}


class Answer(StrEnum):
    """The answer to whether a detail matters, by the interval of its effect, in units."""

    YES = "Yes"
    YES_SMALL = "Yes, but small"
    NO = "No"
    NOT_SEEN = "Not seen"
    CANNOT_TELL = "Cannot tell"
    REVERSE = "The reverse"
    DEPENDS = "It depends"


MARGIN, SEEN = 0.05, 0.10  # of the unit: what matters, and what would have been seen


def answer(
    estimate: float,
    low: float,
    high: float,
    *,
    stated: int = 0,
    tasks: Iterable[tuple[float, float]] = (),
) -> Answer:
    """Return the answer that an interval gives.

    Where 0 is outside of it: yes, but small where the estimate is below `MARGIN`, and the reverse
    on the side that the question's sentence denies. Where 0 is inside: no within `MARGIN`, not seen
    within `SEEN`, else nothing can be told. Where intervals of tasks exclude 0 on both sides it
    depends.

    Args:
        estimate: of the effect, in shares of the unit.
        low: the lower end of its interval.
        high: the upper end.
        stated: the sign that the question's sentence claims, 0 where it claims none.
        tasks: the ends of the interval on each task.
    """
    signs = {(below > 0) - (above < 0) for below, above in tasks}
    if {1, -1} <= signs:
        return Answer.DEPENDS
    sign = (low > 0) - (high < 0)
    if sign:
        if sign == -stated:
            return Answer.REVERSE
        return Answer.YES if abs(estimate) >= MARGIN else Answer.YES_SMALL
    reach = max(-low, high)
    return (
        Answer.NO if reach <= MARGIN else Answer.NOT_SEEN if reach <= SEEN else Answer.CANNOT_TELL
    )
