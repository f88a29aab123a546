"""Pairings of variants with baselines: on which seeds, at which level, with which verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ablations import looks
from ablations.core.verdict import Verdict
from ablations.records import Plan
from ablations.report.scores import Scores
from ablations.report.statistics import LEVEL, Comparison, compare, regress, verdict
from ablations.report.statistics.rates import compare_outcomes
from ablations.report.tables.success_rates import successes
from ablations.report.units import Units


@dataclass(frozen=True)
class Pairing:
    """A variant, its baseline, and the scores on which they are compared.

    tasks: on which it rests. ours, theirs: scores `[n]` per task, over the seeds that both have on
    every task; in units of what was learned where there are several. more_failures: how many more
    cells of the variant failed than of its baseline. identical: the curves are the same bits.
    same_as: another variant that is the same composition, the baseline where it is. unlearned: the
    baseline does not stand out of policies that learn nothing. every: scores `[n]` per task of the
    baseline, over all of its seeds, where it was given more than the variant. successes: every
    score of the task is a run's success or failure.
    """

    tasks: tuple[str, ...]
    variant: str
    baseline: str | None
    margin: float | None
    ours: tuple[np.ndarray, ...] = ()
    theirs: tuple[np.ndarray, ...] = ()
    more_failures: int = 0
    identical: bool = False
    same_as: str | None = None
    unlearned: bool = False
    every: tuple[np.ndarray, ...] = ()
    successes: bool = False
    level: float = LEVEL

    def compare(self) -> Comparison:
        """Compare the means over tasks, seed by seed."""
        if not self.ours:
            return Comparison(0, level=self.level)
        if self.successes and len(self.ours[0]) > 1:
            return compare_outcomes(*self.ours, *self.theirs, paired=True, level=self.level)
        ours, theirs = np.stack(self.ours), np.stack(self.theirs)
        if self.every:
            return regress(ours, theirs, np.stack(self.every), self.margin, self.level)
        return compare(ours, theirs, self.margin, self.level)


@dataclass(frozen=True)
class Family:
    """The comparisons of a plan that share an error rate.

    over: of means over tasks, else of each task.
    """

    plan: Plan
    scored: Scores
    learned: Units
    over: bool

    def pairings(
        self, compared: Sequence[tuple[Sequence[str], str, str | None]], level: float
    ) -> list[Pairing]:
        """Pair variants with their baselines.

        The level is shared over the comparisons that are made (Bonferroni); where seeds were added
        at looks, each is as it was read.

        Args:
            compared: (tasks, variant, baseline).
            level: of all at once.
        """
        if self.plan.looks:
            return [self._read(*pairing) for pairing in compared]
        pairs = [self._pairing(self.scored, *pairing) for pairing in compared]
        # A composition of two names is compared once. What is the same bits needs no share: nothing
        # false can be said of it.
        different = {
            (pairing.tasks, self._first_of(pairing.variant), self._first_of(pairing.baseline))
            for pairing in pairs
            if pairing.baseline is not None and not pairing.identical
        }
        return [replace(pairing, level=level / max(1, len(different))) for pairing in pairs]

    def _first_of(self, variant: str | None) -> str | None:
        """Return the first variant of the same composition, one name for all that share cells."""
        known = self.plan.variants.get(variant or "")
        return (known and known.same_as) or variant

    def _read(self, tasks: Sequence[str], variant: str, baseline: str | None) -> Pairing:
        """Pair at the look that decided, else at the last that variant and baseline reach.

        The level is shared over all comparisons that were planned, as nothing that was seen since
        may change it. Over tasks a sign decides: equivalence is said by the tasks.
        """
        nothing = Pairing(tuple(tasks), variant, baseline, None)
        if baseline is None or not tasks:
            return self._pairing(self.scored, tasks, variant, baseline)

        def at(seeds: int, level: float) -> Pairing:
            pairing = self._pairing(self.scored.below(seeds), tasks, variant, baseline)
            return replace(pairing, level=level)

        def decided(pairing: Pairing) -> bool:
            if pairing.identical:
                return True
            margin = None if self.over else pairing.margin
            return verdict(pairing.compare(), margin) != Verdict.UNDECIDED

        ended = min(self.scored.ended(task, name) for task in tasks for name in (variant, baseline))
        return looks.read(levels(self.plan, over=self.over), ended, at, decided) or nothing

    def _pairing(
        self, scored: Scores, tasks: Sequence[str], variant: str, baseline: str | None
    ) -> Pairing:
        margin = self._margin(tasks, variant)
        first = self._first_of(variant)
        alike = baseline is not None and first == self._first_of(baseline)
        same_as = baseline if alike else first if first != variant else None
        if baseline is None or not tasks:
            return Pairing(tuple(tasks), variant, baseline, margin, same_as=same_as)
        units: dict[tuple[str, str], float] = {}
        for task in tasks if self.over else ():
            unit = self.learned.of(task, variant)
            if unit is not None:
                units |= {(task, variant): unit.size, (task, baseline): unit.size}
        pairs = scored.on_common_seeds(tasks, (variant, baseline), units)
        more = given_more(self.plan, baseline)
        # Failures count on every task, also on one where nothing was learned.
        every = list(self.plan.tasks) if self.over else tasks
        return Pairing(
            tuple(tasks),
            variant,
            baseline,
            margin,
            tuple(pairs[:, 0]),
            tuple(pairs[:, 1]),
            scored.failures(every, variant) - scored.failures(every, baseline),
            alike or scored.identical(every, variant, baseline),
            same_as,
            bool(self.learned.trivial) and margin is None,
            tuple(scored.on_common_seeds(tasks, (baseline,), units)[:, 0]) if more else (),
            not self.over and successes(scored, self.learned, tasks[0]),
        )

    def _margin(self, tasks: Sequence[str], variant: str) -> float | None:
        share = self.plan.study.margin
        if self.over:
            return share
        unit = self.learned.of(tasks[0], variant)
        return None if unit is None else share * unit.size


def given_more(plan: Plan, baseline: str) -> bool:
    """Return whether a study's baseline was planned with more seeds than the variants."""
    if plan.looks or plan.imported or baseline != plan.study.baseline:
        return False
    counts = plan.cells_of.values() or (0,)
    return plan.cells_of.get(baseline) == max(counts) > min(counts)


def levels(plan: Plan, *, over: bool) -> looks.Looks:
    """Return the looks at each of a plan's comparisons: per task, or of means over tasks.

    What was seen since they were planned may change nothing of it.
    """
    planned = plan.looks
    share = planned.over_tasks if over else planned.comparisons
    return looks.design(planned.seeds, LEVEL / (2 if planned.over_tasks else 1) / share)


def last_look(
    plan: Plan, scored: Scores, tasks: Sequence[str], variants: Sequence[str], level: float
) -> tuple[Scores, float]:
    """Return the scores that a comparison of all these variants may look at, and its level.

    Where seeds were added at looks, those of the last look that all of them have reached.
    """
    if not plan.looks:
        return scored, level
    planned = looks.design(plan.looks.seeds, level)
    ended = min(scored.ended(task, variant) for task in tasks for variant in variants)
    place = looks.last_reached(planned, ended)
    if place is None:
        return scored.below(0), level
    return scored.below(planned.seeds[place]), planned.levels[place]


def pooled_tasks(plan: Plan, learned: Units) -> dict[str, list[str]]:
    """Return the tasks that the "all tasks" row of each variant averages.

    Those where there is a unit; {} where no variant has two.
    """
    pooled = {
        variant: [task for task in plan.tasks if learned.of(task, variant) is not None]
        for variant in plan.variants
    }
    if not any(len(tasks) > 1 for tasks in pooled.values()):
        return {}
    return {variant: tasks if len(tasks) > 1 else [] for variant, tasks in pooled.items()}


def verdict_of(comparison: Comparison, pairing: Pairing, judged: bool) -> Verdict:
    """Return the verdict on a comparison.

    Args:
        comparison: of the pairing.
        pairing: what is compared.
        judged: whether the metric is a score, where higher is better.
    """
    if comparison.n < 2:
        return (Verdict.NO_PAIRS, Verdict.ONE_SEED)[comparison.n]
    if not judged:
        return verdict(comparison, None).decided.undirected
    if pairing.unlearned:
        return Verdict.NOTHING_LEARNED
    return verdict(comparison, pairing.margin).guarded(pairing.more_failures)


@dataclass(frozen=True)
class Finding:
    """Verdict of a table on a comparison.

    sign: the side of 0 on which the difference lies for sure, 1 or -1; 0 where that is open, or
    where failed runs may be why.
    """

    verdict: Verdict
    sign: int

    @classmethod
    def of(cls, verdict: Verdict, comparison: Comparison) -> Finding:
        """Return the finding of a verdict on a comparison."""
        silent = verdict.unstable or verdict.too_few or verdict.unlearned
        silent = silent or verdict is Verdict.IDENTICAL
        return cls(verdict, 0 if silent else comparison.sign)


def over_tasks(mean: Finding, unmargined: Verdict, tasks: Sequence[Finding]) -> Verdict:
    """Return the verdict on a mean over tasks, in view of each task.

    Equivalent only where every task is (an intersection-union test, Berger 1982): a mean can be
    small because tasks cancel. Tasks that lie on two sides of 0 disagree (a qualitative
    interaction, Gail and Simon 1985; by simultaneous intervals, Piantadosi and Gail 1993), as does
    a task with the mean, which then says little.

    Args:
        mean: of the mean.
        unmargined: its verdict where the sign alone is judged.
        tasks: of each task.
    """
    if mean.verdict.too_few or mean.verdict is Verdict.IDENTICAL:
        return mean.verdict
    if {1, -1} <= {mean.sign, *(task.sign for task in tasks)}:
        return Verdict.TASKS_DISAGREE
    if not mean.verdict.unstable and all(task.verdict.same for task in tasks):
        return Verdict.EQUIVALENT
    return unmargined if mean.verdict is Verdict.EQUIVALENT else mean.verdict
