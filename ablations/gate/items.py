"""A gate on two evaluations of the same items; see `statistics.items`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ablations.errors import UserError
from ablations.gate.question import RATE, Margin, Word, judged
from ablations.report.statistics import Comparison
from ablations.report.statistics.items import compare_items, mean_of_items
from ablations.report.statistics.rates import is_outcome, mcnemar_p
from ablations.report.tables.entries import Column, Sheet, bounded, text_columns, with_ends

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ItemTest:
    """The evaluation of a change and that of a baseline.

    ours, theirs: `[items]`, in one order. clusters: of the items. better: whether only a gain
    passes. lower: whether less is better. rate: of a false alarm, and of a false pass.
    """

    metric: str
    ours: Floats
    theirs: Floats
    clusters: Sequence[str]
    margin: Margin
    better: bool = False
    lower: bool = False
    rate: float = RATE

    @property
    def size(self) -> float:
        """The margin in units of the metric.

        Raises UserError for a share of nothing, and for one that no difference of rates exceeds.
        """
        mean = abs(float(self.theirs.mean()))
        if self.margin.share and not mean:
            raise UserError("the baseline's mean is 0: give the margin as a number, such as 0.02")
        size = self.margin.size * (mean if self.margin.share else 1.0)
        sides = np.append(self.ours, self.theirs)
        if size >= 1 and sides.min() >= 0 and sides.max() <= 1:
            raise UserError(
                f"a margin of {self.margin.text} lets every rate pass, as rates differ by 1 at "
                f"most: give 0.02, or 2% of the baseline's mean"
            )
        return size

    @cached_property
    def compared(self) -> Comparison:
        """Change - baseline, the greater the better; the interval at twice the rate, two-sided."""
        sides = (self.theirs, self.ours) if self.lower else (self.ours, self.theirs)
        return compare_items(*sides, self.clusters, 2 * self.rate)

    @property
    def word(self) -> Word:
        """The verdict."""
        return judged(
            self.compared,
            self.size,
            last=True,
            better=self.better,
            identical=np.array_equal(self.ours, self.theirs),
        )


def items_sheet(test: ItemTest) -> Sheet:
    """Describe a comparison item by item."""
    compared, sign = test.compared, -1 if test.lower else 1
    gained, lost = (int(np.sum(sign * (test.ours - test.theirs) * way > 0)) for way in (1, -1))
    means = [
        value
        for side in (test.theirs, test.ours)
        for value in mean_of_items(side, test.clusters).bounds
    ]
    exact = compared.n == len(test.ours) and is_outcome([*test.ours, *test.theirs])
    how = "McNemar's exact test" if exact else f"clustered, {compared.n} clusters"
    p = mcnemar_p(gained, lost) if exact else compared.p
    return Sheet(
        "items",
        "items",
        f"{test.metric} on {len(test.ours)} items that both have ({how}); margin {test.size:.3g}. "
        f"gained, lost: items on which the change is better, worse. The interval of the difference "
        f"is at {1 - 2 * test.rate:.0%}, either side wrong at most {test.rate:.0%} of the time; "
        f"it is over items: other seeds of the same training are not in it.",
        (
            *("verdict", "items", *with_ends("baseline"), *with_ends("change")),
            *("gained", "lost", *with_ends("difference"), "p"),
        ),
        ((test.word, len(test.ours), *means, gained, lost, *compared.bounds, p),),
        (
            *text_columns("verdict"),
            *bounded("baseline", "baseline", inside="[95%]"),
            *bounded("change", "change", inside="[95%]"),
            Column("gained", "count", ("gained",)),
            Column("lost", "count", ("lost",)),
            *bounded("difference", "difference", inside=f"[{1 - 2 * test.rate:.0%}]"),
            Column("p", "p", ("p",)),
        ),
    )


def rates_sheet(metric: str, scores: Floats, clusters: Sequence[str]) -> Sheet:
    """Describe the mean of one evaluation with its interval."""
    mean = mean_of_items(scores, clusters)
    exact = mean.n == len(scores) and is_outcome(scores)
    how = "Clopper's and Pearson's exact" if exact else f"over {mean.n} clusters"
    return Sheet(
        "items",
        "items",
        f"{metric} on {len(scores)} items; the interval is {how}.",
        ("items", *with_ends("mean")),
        ((len(scores), *mean.bounds),),
        (Column("items", "count", ("items",)), *bounded("mean", "mean", inside="[95%]")),
    )
