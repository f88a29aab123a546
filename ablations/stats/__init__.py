"""Statistics of scores: NumPy arrays in, small frozen dataclasses out.

These functions know no tasks, files or tables. A number that too few runs determine is NaN. Interim
analyses are in `ablations.stats.interim`, factorial designs in `ablations.stats.factorial`, the
attribution of a gap in `ablations.stats.shares`.

docs/statistics.md states how often intervals and verdicts are wrong; benchmarks/ simulates it. The
choices:

* A mean has Student's interval. A difference is a mean of differences paired by seed. The scores of
  two equally good variants are exchangeable, so their differences are symmetric about 0 for scores
  of any distribution, and the t interval keeps its level.
* An IQM has a percentile bootstrap whose levels are widened from the normal to the Student
  quantile: Phi(-t[n-1, .975]) instead of .025 (Hesterberg 2015, "What teachers should know about
  the bootstrap", section 3.4). 2 to 4 seeds are too few to resample and have a t interval.
* A table's comparisons share the level (Bonferroni), so their intervals are simultaneous and give
  the verdicts. Holm's procedure rejects more, but has no such intervals.
* A variant is marked as not the best by tests of all pairs. Tests against the variant with the
  highest mean mark one of 16 equal variants in up to 22% of studies, these in at most 9%.
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
from ablations.stats.differences import is_outcome as is_outcome
from ablations.stats.differences import loss_p as loss_p
from ablations.stats.differences import not_the_best as not_the_best
from ablations.stats.differences import of_differences as of_differences
from ablations.stats.differences import outcomes as outcomes
from ablations.stats.differences import paired as paired
from ablations.stats.differences import rounding_of as rounding_of
from ablations.stats.differences import share_above as share_above
from ablations.stats.differences import welch as welch
from ablations.stats.seeds import POWER as POWER
from ablations.stats.seeds import power as power
from ablations.stats.seeds import sd_interval as sd_interval
from ablations.stats.seeds import seeds_needed as seeds_needed
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
