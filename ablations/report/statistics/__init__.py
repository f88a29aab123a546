"""Summaries, intervals, tests and verdicts over seeds: pure functions of NumPy arrays.

Every choice below was made by simulating returns with known truth (normal, skewed, bimodal,
ceiling-bound, heavy-tailed) at 5 to 50 seeds; `tests/benchmarks/coverage_of_intervals.py` prints
the numbers, which are kept in results/reference/statistics.txt.

* The interval of an IQM is a percentile bootstrap whose levels are widened from the normal to the
  Student quantile: Phi(-t[n-1, .975]) instead of .025 (Hesterberg 2015, "What teachers should know
  about the bootstrap", section 3.4). It covers 94 to 97% from 8 seeds up. The plain percentile
  bootstrap covers 92 to 94% at 8 to 10 seeds; the bootstrap-t covers 95%, with intervals twice to
  four times as wide; the Tukey-McLaughlin trimmed t falls to 76% where returns are bimodal. With 2
  to 4 seeds nothing can be resampled: the t interval there covers 80 to 95%.
* Differences are means of differences paired by seed, judged by Student's t. Two variants that are
  equally good have exchangeable returns, so the differences are symmetric about 0 whatever the
  shape of the returns, and the t-test keeps its level: at most 5.5% at every sample size. The
  equal-tailed bootstrap-t has up to 7% false alarms at 8 seeds; the symmetric one and the trimmed t
  have far less power under Holm.
* Equivalence is TOST at 2.5% on each side: the 95% interval that the table prints lies within the
  margin. At 5% (a 90% interval) its error, for a true difference of exactly the margin, is 5% where
  both variants have returns of one shape, but 11% at 8 seeds where one is skewed and the other is
  not; at 2.5% that is 2.5% and 7%.
* Power is that of t-tests on normal differences. Against simulation it is off by at most 3 points
  where returns are bimodal, at a ceiling or skewed by collapses, and never too high by more than 1;
  log-normal and heavy-tailed returns decide more often than predicted, by up to 7 and 10 points.
* A limit: where a variant has the baseline's mean and quite another shape (it collapses in a
  quarter of its seeds, the baseline never), the t-test's level is 7.6% at 8 seeds. A study in which
  that is so for one variant of four then claims a difference in 5 to 7% of cases, one in which it
  is so for all in 8 to 11%; where variants that are equally good share a shape, in at most 5%. No
  test on 8 seeds can help: one sample in ten of such a variant shows no collapse at all. All these
  errors shrink with more seeds.
"""

from ablations.report.statistics.aggregates import (
    Aggregate,
    aggregate,
    aggregate_interval,
    by_task,
    normalise,
    performance_profile,
    probability_of_improvement,
)
from ablations.report.statistics.effects import Design, Effect, design, effects
from ablations.report.statistics.efficiency import (
    StepsToThreshold,
    median_steps,
    steps_to_threshold,
)
from ablations.report.statistics.paired import (
    Comparison,
    Verdict,
    compare,
    judge,
    most_differing,
    not_the_best,
    verdict,
    wilcoxon,
)
from ablations.report.statistics.power import (
    Chances,
    Seeds,
    chances,
    deviations,
    seeds_for,
    seeds_range,
    seeds_to_decide,
)
from ablations.report.statistics.summaries import (
    LEVEL,
    REPLICATES,
    SEED,
    Floats,
    Statistic,
    interval,
    iqm,
    order_weights,
    summary,
)

__all__ = [
    "LEVEL",
    "REPLICATES",
    "SEED",
    "Aggregate",
    "Chances",
    "Comparison",
    "Design",
    "Effect",
    "Floats",
    "Seeds",
    "Statistic",
    "StepsToThreshold",
    "Verdict",
    "aggregate",
    "aggregate_interval",
    "by_task",
    "chances",
    "compare",
    "design",
    "deviations",
    "effects",
    "interval",
    "iqm",
    "judge",
    "median_steps",
    "most_differing",
    "normalise",
    "not_the_best",
    "order_weights",
    "performance_profile",
    "probability_of_improvement",
    "seeds_for",
    "seeds_range",
    "seeds_to_decide",
    "steps_to_threshold",
    "summary",
    "verdict",
    "wilcoxon",
]
