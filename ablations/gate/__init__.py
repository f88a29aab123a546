"""`ablations gate`: judge a change as an improvement, a regression, or noise.

A command is run before and after a change (a commit and the files as they lie there, or two sets of
arguments) on the same seeds, and more seeds are added at planned looks while nothing is decided.
The runs are cells as those of any study; what is decided follows from their records alone, so that
a second call costs nothing.

With d the mean difference of the change over seeds, m the margin, and (low, high) its interval, one
of the intervals of all looks that hold at once (`ablations.looks`):

    no worse   low > -m: also where the change is a little worse, by less than matters
    worse      high < -m; at the last look also high < 0
    better     low > 0
    not better high < m, where gains are asked for
    futile     no later look would pass with a chance worth running for (`ablations.gate.early`)

Each side of those intervals is wrong with a chance of at most `rate` over all looks together.

    question.py   the question and its answers
    sides.py      which code and which arguments are compared; copies of code
    early.py      the chance that a later look still passes
    run.py        the looks, in a results folder
    ledger.py     one error budget for many candidates, and the file that they are booked in
    night.py      a candidate against the best so far
    sheets.py     tables of looks and ledgers
"""

from ablations.gate.question import (
    CODES,
    FIRST_SEEDS,
    FUTILITY,
    MOST_SEEDS,
    NO_WORSE,
    RATE,
    Margin,
    Question,
    judged,
)
from ablations.gate.run import Gate
from ablations.gate.sides import compared_sides

__all__ = [
    "CODES",
    "FIRST_SEEDS",
    "FUTILITY",
    "MOST_SEEDS",
    "NO_WORSE",
    "RATE",
    "Gate",
    "Margin",
    "Question",
    "compared_sides",
    "judged",
]
