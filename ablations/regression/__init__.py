"""Learning curves under guard: has a trainer become worse than its stored baseline?

    curves.py       one metric's curves over seeds, from arrays, data frames or records
    permutation.py  the tests: exact at every number of seeds, whatever the returns look like
    design.py       how many seeds, in which steps, at which levels, from the baseline's variance
    check.py        the check itself: few seeds first, more only while undecided
    baselines.py    curves on disk: diffable JSON with its reasons, and Parquet
    words.py        what a check says, in a table and in one line
    figures.py      both curves, drawn
    cells.py        from the records of a study to curves by task and variant
    plugin.py       the pytest fixture `learning_curve`

Needs neither JAX nor a trainer: curves may come from anywhere.
"""

ALPHA = 0.01  # chance of a false alarm
EFFECT = 0.15  # smallest loss worth catching, as a share of what matters
MOST_SEEDS = 32
