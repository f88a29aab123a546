"""`ablations gate`: judge a change as an improvement, a regression, or noise.

A command is run before and after a change (a commit and the files as they are, or two sets of
arguments) on the same seeds, and more seeds are added at planned stages while nothing is decided.
The verdict follows from the records alone, so that a second call costs nothing.

With d the mean difference of the change over seeds, m the margin, and (low, high) its interval, one
of the intervals of all stages that hold at once (`ablations.stats.interim`), a change

    passes     if low > -m; with `--require better` if low > 0
    fails      if high < -m, and at the last stage if high < 0; with `--require better` if high < m
    undecided  otherwise; a stage also ends the gate where no later stage is likely to pass

Each side of those intervals is wrong with a chance of at most `rate` over all stages together. The
verdict on the difference is that of `stats.decide`.

    question.py   what is compared, how surely, and the rule
    early.py      the chance that a later stage still passes
    run.py        the stages, in a results folder
    ledger.py     many candidates against the best so far, with one error budget
    noise.py      how much runs of one command differ
"""

from ablations.gate.question import (
    EXIT_CODES,
    FIRST_SEEDS,
    FUTILITY,
    MOST_SEEDS,
    RATE,
    Judgement,
    Margin,
    Question,
    compared_sides,
    judged,
)
from ablations.gate.run import Execution, Gate

__all__ = [
    "EXIT_CODES",
    "FIRST_SEEDS",
    "FUTILITY",
    "MOST_SEEDS",
    "RATE",
    "Execution",
    "Gate",
    "Judgement",
    "Margin",
    "Question",
    "compared_sides",
    "judged",
]
