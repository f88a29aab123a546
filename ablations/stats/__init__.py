"""Statistics of scores: NumPy arrays in, small frozen dataclasses out.

Nothing here knows a task, a file or a table. Numbers that few runs do not give are NaN. Interim
analyses are in `ablations.stats.interim`, factorial designs in `ablations.stats.factorial`, the
attribution of a gap in `ablations.stats.shares`.

Every choice below was made by simulating returns with known truth (normal, skewed, bimodal,
ceiling-bound, heavy-tailed) at 5 to 50 seeds; `benchmarks/coverage_of_intervals.py` and
`benchmarks/verdicts_of_tables.py` print the numbers.

* The interval of an IQM is a percentile bootstrap whose levels are widened from the normal to the
  Student quantile: Phi(-t[n-1, .975]) instead of .025 (Hesterberg 2015, "What teachers should know
  about the bootstrap", section 3.4). It covers 93 to 97% from 5 seeds up. The plain percentile
  bootstrap covers 92 to 94% at 8 seeds; the bootstrap-t 91 to 98%, with intervals 2.6 to 28 times
  as wide. With 2 to 4 seeds nothing can be resampled: the t interval there covers 81 to 96%.
* The interval of a mean is Student's.
* Differences are means of differences paired by seed, with Student's interval. Two variants that
  are equally good have exchangeable returns, so the differences are symmetric about 0 whatever the
  shape of the returns, and the t interval keeps its level: it covers 94 to 97% from 5 seeds up.
* The level is shared over a table's comparisons (Bonferroni), so that its intervals hold all at
  once and a verdict follows from one. Holm's procedure rejects more, but has no such intervals.
* Variants are marked as not the best by all pairs. Tested against whichever looked best, some of 16
  equal variants lose the mark in up to 22% of studies; so in at most 6%, but 9% at 5 seeds where
  half of the runs collapse.
* Numbers of seeds are a range, from what the data leave open of difference and spread; 91% of such
  ranges or more held the truth, but 83% where 20 differences were skewed or heavy-tailed.
* A limit: where a variant has the baseline's mean and quite another shape (it collapses in a
  quarter of its seeds, the baseline never), studies in which that is so for all four comparisons
  say something false in up to 12% of cases at 8 seeds, and 7% at 20; where all share a shape, in at
  most 5%. No test on 8 seeds can help: one sample in ten of such a variant shows no collapse.
"""

from ablations.stats.aggregates import AGGREGATES, aggregate, improvement, iqm, iqr, profile
from ablations.stats.differences import (
    VERDICTS,
    Difference,
    are_successes,
    control_variate,
    decide,
    equivalence_p,
    is_outcome,
    loss_p,
    not_the_best,
    of_differences,
    outcomes,
    paired,
    rounding_of,
    share_above,
    welch,
    wilcoxon_p,
)
from ablations.stats.power import (
    POWER,
    Seeds,
    power,
    sd_interval,
    seeds_needed,
    seeds_range,
    smallest_margin,
)
from ablations.stats.summaries import (
    LEVEL,
    Estimate,
    Floats,
    deviation,
    fisher_p,
    mean,
    median_time,
    rate,
    steps_to,
    student,
    worst_quarter,
)

__all__ = [
    "AGGREGATES",
    "LEVEL",
    "POWER",
    "VERDICTS",
    "Difference",
    "Estimate",
    "Floats",
    "Seeds",
    "aggregate",
    "are_successes",
    "control_variate",
    "decide",
    "deviation",
    "equivalence_p",
    "fisher_p",
    "improvement",
    "iqm",
    "iqr",
    "is_outcome",
    "loss_p",
    "mean",
    "median_time",
    "not_the_best",
    "of_differences",
    "outcomes",
    "paired",
    "power",
    "profile",
    "rate",
    "rounding_of",
    "sd_interval",
    "seeds_needed",
    "seeds_range",
    "share_above",
    "smallest_margin",
    "steps_to",
    "student",
    "welch",
    "wilcoxon_p",
    "worst_quarter",
]
