"""A log on steps that the other seeds have too."""

from __future__ import annotations

import math

from ablations.logs.reading import Log

BINS = 50
MANY = 20  # times the steps that were told: then the log counts something else
LONGER = 1.1  # a run that overshoots by less is given to the last bin


def binned(log: Log, metric: str, steps: int = 0) -> dict[str, list[float | None]]:
    """Return the columns of a curve: step, the metric, the others, as means over bins.

    None where a bin has no value. A bin ends at the step that it is named by.

    steps: of a whole run, whose bins are then the same for every seed. Without, they are as wide as
    a round number (1, 2 or 5 times a power of ten) that gives 50 of them or fewer. Where there are
    more bins than points, those without a point are left out. A log with one value of the metric is
    that point.
    """
    last = log.last
    if last > MANY * steps:
        steps = 0
    if sum(metric in numbers for _, numbers in log.points) == 1:
        ends = [steps or last]
    elif steps:
        ends = _evenly(max(steps, last) if last > LONGER * steps else steps, steps)
    else:
        width = _round_width(last)
        ends = list(range(width, last + width, width)) or [last]
    names = dict.fromkeys([metric, *sorted({n for _, numbers in log.points for n in numbers})])
    sums = {name: [0.0] * len(ends) for name in names}
    counts = {name: [0] * len(ends) for name in names}
    bin = 0
    for step, numbers in log.points:
        while bin < len(ends) - 1 and step > ends[bin]:
            bin += 1
        for name, value in numbers.items():
            if math.isfinite(value):
                sums[name][bin] += value
                counts[name][bin] += 1
    kept = list(range(len(ends)))
    if len(log.points) <= len(ends):
        kept = [k for k in kept if any(counts[name][k] for name in names)]
    columns: dict[str, list[float | None]] = {"step": [ends[k] for k in kept]}
    for name in names:
        columns[name] = [sums[name][k] / n if (n := counts[name][k]) else None for k in kept]
    return columns


def _evenly(last: int, steps: int) -> list[int]:
    """Return the ends of 50 bins up to `steps`, and of more of the same width up to `last`."""
    width = max(1.0, steps / BINS)
    ends = [round(width * (k + 1)) for k in range(math.ceil(round(last / width, 6)))]
    return ends if last > steps else [*ends[:-1], steps]


def _round_width(last: int) -> int:
    widths = (digit * 10**power for power in range(19) for digit in (1, 2, 5))
    return next((width for width in widths if last <= BINS * width), 5 * 10**18)
