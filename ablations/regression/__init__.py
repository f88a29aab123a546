"""Learning-curve checks: is a trainer worse than its stored baseline?

    curves.py      the curves of one metric over seeds, and their scores
    design.py      permutation tests and their sample sizes
    check.py       the check and its messages
    baselines.py   stored curves, where they come from, and how to train them again
    plugin.py      pytest's options and summary
    fixture.py     the pytest fixture `learning_curve`

Curves may come from any trainer.
"""

ALPHA = 0.01  # probability of a false alarm
EFFECT = 0.15  # smallest loss worth detecting, as a share of the baseline's learned range
MOST_SEEDS = 32
REPORTED = "learning_curve"  # the property of a test report that holds lines for pytest's summary
