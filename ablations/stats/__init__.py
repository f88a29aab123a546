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

from ablations.stats.aggregates import AGGREGATES as AGGREGATES
from ablations.stats.aggregates import aggregate as aggregate
from ablations.stats.aggregates import improvement as improvement
from ablations.stats.aggregates import iqm as iqm
from ablations.stats.aggregates import iqr as iqr
from ablations.stats.aggregates import profile as profile
from ablations.stats.differences import VERDICTS as VERDICTS
from ablations.stats.differences import Difference as Difference
from ablations.stats.differences import are_successes as are_successes
from ablations.stats.differences import control_variate as control_variate
from ablations.stats.differences import decide as decide
from ablations.stats.differences import equivalence_p as equivalence_p
from ablations.stats.differences import is_outcome as is_outcome
from ablations.stats.differences import loss_p as loss_p
from ablations.stats.differences import not_the_best as not_the_best
from ablations.stats.differences import of_differences as of_differences
from ablations.stats.differences import outcomes as outcomes
from ablations.stats.differences import paired as paired
from ablations.stats.differences import rounding_of as rounding_of
from ablations.stats.differences import share_above as share_above
from ablations.stats.differences import welch as welch
from ablations.stats.differences import wilcoxon_p as wilcoxon_p
from ablations.stats.seeds import POWER as POWER
from ablations.stats.seeds import Seeds as Seeds
from ablations.stats.seeds import power as power
from ablations.stats.seeds import sd_interval as sd_interval
from ablations.stats.seeds import seeds_needed as seeds_needed
from ablations.stats.seeds import seeds_range as seeds_range
from ablations.stats.seeds import smallest_margin as smallest_margin
from ablations.stats.summaries import LEVEL as LEVEL
from ablations.stats.summaries import Estimate as Estimate
from ablations.stats.summaries import Floats as Floats
from ablations.stats.summaries import deviation as deviation
from ablations.stats.summaries import fisher_p as fisher_p
from ablations.stats.summaries import mean as mean
from ablations.stats.summaries import median_time as median_time
from ablations.stats.summaries import rate as rate
from ablations.stats.summaries import steps_to as steps_to
from ablations.stats.summaries import student as student
from ablations.stats.summaries import worst_quarter as worst_quarter
