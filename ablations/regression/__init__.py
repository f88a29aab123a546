"""Learning-curve checks: has a trainer become worse than its stored baseline?

    curves.py      one metric's curves over seeds, from arrays or data frames, and their scores
    design.py      permutation tests, and how many seeds they take
    check.py       the check itself, and its text
    baselines.py   curves on disk, from a study's records, and trained again
    plugin.py      pytest's options and summary
    fixture.py     the pytest fixture `learning_curve`

Curves may come from any trainer. Only the figures need matplotlib, and only tables pandas.
"""

ALPHA = 0.01  # chance of a false alarm
EFFECT = 0.15  # smallest loss worth detecting, as a share of the range that the baseline learned
MOST_SEEDS = 32
FOLDER = "learning_curves"  # of pytest's baselines, beside the test
REPORTED = "learning_curve"  # the property of a test report that holds lines for pytest's summary
