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

from ablations.stats.aggregates import AGGREGATES, aggregate, improvement, profile
from ablations.stats.differences import (
    VERDICTS,
    Difference,
    are_successes,
    control_variate,
    decide,
    is_outcome,
    loss_p,
    mean_of_tasks,
    not_the_best,
    of_differences,
    outcomes,
    paired,
    share_above,
    welch,
)
from ablations.stats.seeds import POWER, power, sd_interval, seeds_needed, smallest_margin
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
)
