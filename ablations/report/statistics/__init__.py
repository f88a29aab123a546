"""Summaries, intervals, tests and verdicts over seeds: pure functions of NumPy arrays.

Every choice below was made by simulating returns with known truth (normal, skewed, bimodal,
ceiling-bound, heavy-tailed) at 5 to 50 seeds; `benchmarks/coverage_of_intervals.py` and
`benchmarks/verdicts_of_tables.py` print the numbers.

* The interval of an IQM is a percentile bootstrap whose levels are widened from the normal to the
  Student quantile: Phi(-t[n-1, .975]) instead of .025 (Hesterberg 2015, "What teachers should know
  about the bootstrap", section 3.4). It covers 93 to 97% from 5 seeds up. The plain percentile
  bootstrap covers 92 to 94% at 8 seeds; the bootstrap-t 91 to 98%, with intervals 2.6 to 28 times
  as wide; the Tukey-McLaughlin trimmed t falls to 74% where returns are bimodal. With 2 to 4 seeds
  nothing can be resampled: the t interval there covers 81 to 96%.
* The interval of a mean is that bootstrap's from 7 seeds up, and Student's below, where the
  bootstrap of normal returns covers 92%. Either covers 88 to 90% of skewed returns at 8 seeds and
  91 to 92% at 20: their means are as hard as that.
* Differences are means of differences paired by seed, judged by Student's t. Two variants that are
  equally good have exchangeable returns, so the differences are symmetric about 0 whatever the
  shape of the returns, and the t interval keeps its level: it covers 94 to 97% from 5 seeds up.
  The equal-tailed bootstrap-t has up to 7% false alarms at 8 seeds; the symmetric one and the
  trimmed t have far less power at the levels that many comparisons leave.
* The level is shared over a table's comparisons (Bonferroni), so that its intervals hold all at
  once and a word can be read off where one lies. Holm's procedure rejects more, but has no
  intervals that say what it says. Equivalences are words like any other, and corrected alike: they
  are TOST at half the level on each side.
* The mark for the best compares all pairs. Tested against whichever looked best, as if it had been
  chosen beforehand, some of 16 equal variants lose it in up to 22% of studies; so in at most 6%,
  but 9% at 5 seeds where half of the runs collapse.
* Seeds that would decide are a range, from what the data leave open of difference and spread; 91%
  of such ranges or more held the truth, but 83% where 20 differences were skewed or heavy-tailed.
* A limit: where a variant has the baseline's mean and quite another shape (it collapses in a
  quarter of its seeds, the baseline never), studies in which that is so for all four comparisons
  say something false in up to 12% of cases at 8 seeds, and 7% at 20; where all share a shape, in at
  most 5%. No test on 8 seeds can help: one sample in ten of such a variant shows no collapse.
"""

from ablations.report.statistics.aggregates import (
    Aggregate,
    aggregate,
    aggregate_interval,
    performance_profile,
    probability_of_improvement,
)
from ablations.report.statistics.effects import Design, Effect, design, effects
from ablations.report.statistics.efficiency import median_steps, steps_to_threshold
from ablations.report.statistics.paired import (
    Comparison,
    compare,
    judge,
    most_differing,
    not_the_best,
    verdict,
    wilcoxon,
)
from ablations.report.statistics.power import (
    Seeds,
    chances,
    deviations,
    seeds_for,
    seeds_to_decide,
)
from ablations.report.statistics.regression import regress
from ablations.report.statistics.shares import Attribution, attribution, shares
from ablations.report.statistics.summaries import (
    FEWEST,
    LEVEL,
    Floats,
    interval,
    iqm,
    summary,
    worst_quarter,
)
from ablations.report.statistics.unpaired import compare_unpaired

__all__ = [
    "FEWEST",
    "LEVEL",
    "Aggregate",
    "Attribution",
    "Comparison",
    "Design",
    "Effect",
    "Floats",
    "Seeds",
    "aggregate",
    "aggregate_interval",
    "attribution",
    "chances",
    "compare",
    "compare_unpaired",
    "design",
    "deviations",
    "effects",
    "interval",
    "iqm",
    "judge",
    "median_steps",
    "most_differing",
    "not_the_best",
    "performance_profile",
    "probability_of_improvement",
    "regress",
    "seeds_for",
    "seeds_to_decide",
    "shares",
    "steps_to_threshold",
    "summary",
    "verdict",
    "wilcoxon",
    "worst_quarter",
]
