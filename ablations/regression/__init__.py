"""Learning curves under guard: has a trainer become worse than its stored baseline?

    curves.py          one metric's curves over seeds, from arrays or data frames, and their scores
    permutation.py     the tests: exact at every number of seeds, whatever the returns look like
    design.py          how many seeds, in which steps, at which levels, from the baseline's variance
    check.py           the check itself, a sequential test of `ablations.looks`
    baselines.py       curves on disk, as text: JSON with their reasons, and CSV
    messages.py        checks and baselines as text
    figures.py         both curves, drawn
    baseline_files.py  where they lie in a results folder
    from_records.py    from the records of a study to curves by task and variant
    training.py        trains a baseline's seeds again (the only file here that trains)
    plugin.py          pytest's options and summary
    fixture.py         the pytest fixture `learning_curve`

Needs neither JAX nor a trainer: curves may come from anywhere.
"""

ALPHA = 0.01  # chance of a false alarm
EFFECT = 0.15  # smallest loss worth catching, as a share of what matters
MOST_SEEDS = 32
FOLDER = "learning_curves"  # of pytest's baselines, beside the test
SAID = "learning_curve"  # the property of a report that holds lines for pytest's summary
