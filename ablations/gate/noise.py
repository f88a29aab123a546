"""`ablations gate --noise`: the spread over runs of one command, and the margins it allows."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ablations.errors import UserError, count
from ablations.stats import POWER, deviation, sd_interval, smallest_margin

RUNS = (5, 10, 20)  # runs per side for which the table states a margin


def noise(metric: str, scores: Sequence[float], rate: float) -> pd.DataFrame:
    """Return the smallest margin that 5, 10 and 20 runs per side can decide, with its interval.

    Args:
        metric: the name of the scores.
        scores: of runs of one command `[n]`.
        rate: of false passes.

    Raises:
        UserError: fewer than two scores.
    """
    if (n := len(scores)) < 2:
        raise UserError(f"{count(n, 'run')} has a value: 2 are needed")
    sd, mean = float(deviation(scores)), sum(scores) / n
    low, high = sd_interval(n, sd) if sd else (0.0, 0.0)
    frame = pd.DataFrame({"runs": RUNS})
    for column, of in (("margin", sd), ("margin_low", low), ("margin_high", high)):
        frame[column] = [smallest_margin(runs, of, rate) if of else 0.0 for runs in RUNS]
    frame["percent_of_the_mean"] = 100 * frame.margin / abs(mean) if mean else float("nan")
    interval = f" [{low:.3g}, {high:.3g}]" if sd else ""
    frame.attrs["study"] = "noise"
    frame.attrs["caption"] = (
        f"{n} runs of one command: {metric} {mean:.4g}, standard deviation {sd:.3g}{interval}. "
        f"Margin: the smallest margin with which this number of unpaired runs per side passes a "
        f"change without effect with a probability of {POWER:.0%}. A change that is worse by the "
        f"margin passes with a probability of at most {rate:.0%}."
    )
    return frame
