"""`ablations gate`: judge a change as an improvement, a regression, or noise.

A gate runs a command with two versions of the code (a commit and the current files), or with two
sets of arguments, on the same seeds. It adds seeds at planned stages until the change is decided.
The verdict is computed from stored runs, so a second call trains nothing.

Let d be the mean of change minus baseline over seeds, (low, high) its interval, and m the margin.
The intervals of all stages are simultaneous (`ablations.stats.interim`). A change

    passes     if low > -m; with `--require better` if low > 0
    fails      if high < -m, and at the last stage if high < 0; with `--require better` if high < m
    undecided  otherwise; a stage also ends the gate if the last stage is unlikely to pass

Each end of these intervals is wrong with a probability of at most `rate` over all stages.
`stats.decide` gives the verdict on the difference.

    question.py   the two sides, the error rates and the rule
    early.py      the probability that the last stage passes
    run.py        runs the stages in a results folder; the spread over runs of one command
    ledger.py     many candidates against the best so far, with one error budget
"""
