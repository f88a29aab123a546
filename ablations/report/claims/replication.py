"""Claims on other seeds: both estimates and the interval of their difference."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ablations.report.claims.found import Judged, Part
from ablations.report.tables.entries import Sheet, Values, bounded, text_columns


def difference_of_estimates(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Return (value, low, high) of first minus second, each (value, low, high) and independent.

    Each side reaches as far as the two intervals do there, squared and summed (Zou & Donner 2008,
    Statistics in Medicine 27, 1693), which serves intervals that are longer on one side.
    """
    a, a_low, a_high = first
    b, b_low, b_high = second
    value = a - b
    return (
        value,
        value - math.hypot(a - a_low, b_high - b),
        value + math.hypot(a_high - a, b - b_low),
    )


def replication_sheet(pairs: Sequence[tuple[Judged, Judged]]) -> Sheet:
    """List each comparison that has all its seeds both times.

    Of a spread the ratio of the two ratios.

    Args:
        pairs: each claim, and the same judged by other seeds.
    """
    rows = [
        (first.claim.id, a.task, a.label, *_row(a, b, first.claim.statistic == "spread"))
        for first, second in pairs
        for a, b in zip(first.parts, second.parts, strict=True)
        if a.low is not None and b.low is not None
    ]
    return Sheet(
        "claims",
        "replication",
        "Each comparison on other seeds. difference: the first estimate minus the second, of a "
        "spread divided by it. Intervals of a claim's comparisons hold at once with 95%.",
        (
            *("claim", "task", "variant", "seeds", "other_seeds"),
            *("value", "low", "high", "other_value", "other_low", "other_high"),
            *("between", "between_low", "between_high", "agree"),
        ),
        tuple(rows),
        (
            *text_columns("claim", "task", "variant"),
            *bounded("estimate", "value", ("low", "high")),
            *bounded("on other seeds", "other_value", ("other_low", "other_high")),
            *bounded("difference", "between"),
            *text_columns("agree"),
        ),
    )


def _row(a: Part, b: Part, ratio: bool) -> Values:
    first, second = _estimate(a), _estimate(b)
    if ratio:
        logs = [tuple(math.log(x) for x in bounds) for bounds in (first, second)]
        between = tuple(math.exp(x) for x in difference_of_estimates(*logs))  # type: ignore[arg-type]
        agree = between[1] <= 1 <= between[2]
    else:
        between = difference_of_estimates(first, second)
        agree = between[1] <= 0 <= between[2]
    return (a.n, b.n, *first, *second, *between, "yes" if agree else "no")


def _estimate(part: Part) -> tuple[float, float, float]:
    assert part.value is not None
    assert part.low is not None
    assert part.high is not None
    return part.value, part.low, part.high
