"""Seeds needed: at how many comparisons decide, from a study's variance or before there is one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ablations.errors import UserError
from ablations.report.results import Results
from ablations.report.statistics.power import POWER, deviations, seeds_for, seeds_range
from ablations.report.tables.comparison import table
from ablations.report.tables.entries import Column, Sheet, Values, text_columns

# Effects in margins -> the names of their columns.
_EFFECTS = {
    0: "seeds_equivalent",
    1: "seeds_1_margins",
    2: "seeds_2_margins",
    4: "seeds_4_margins",
}


def _seeds_columns() -> tuple[Column, ...]:
    heads = ("no difference", "margin", "2 margins", "4 margins")
    return tuple(
        Column(head, "seeds needed", (f"{name}_low", f"{name}_high"))
        for head, name in zip(heads, _EFFECTS.values(), strict=True)
    )


def power_sheet(results: Results, metric: str | None = None) -> Sheet | None:
    """List the seeds at which the comparisons of a study decide, from the variance seen."""
    comparison = table(results, metric=metric)
    compared = [row for row in comparison.rows if row.deviation and row.margin and row.level]
    if not compared:
        return None
    rows: list[Values] = []
    for row in compared:
        seen, margin = row.comparison, row.margin or 0.0
        spreads = deviations(seen.n, seen.deviation or 0.0, 0.1)
        ends = [seeds_for(k * margin, x, margin, seen.level) for k in _EFFECTS for x in spreads]
        rows.append((row.task, row.variant, row.n_pairs, row.deviation, margin, *ends))
    return Sheet(
        comparison.study,
        "power",
        "Seeds needed to decide with 80% chance, where a variant does not differ at all, or by "
        "one, two or four margins: its interval excludes 0 or lies within the margin, at the level "
        "that the study's table uses. Ranges: the 90% interval of the standard deviation of the "
        "paired differences, which is estimated from the seeds there are.",
        (
            *("task", "variant", "n_pairs", "deviation", "margin"),
            *(f"{name}{end}" for name in _EFFECTS.values() for end in ("_low", "_high")),
        ),
        tuple(rows),
        (
            *text_columns("task", "variant"),
            Column("sd", "scaled", ("deviation", "margin")),
            Column("margin", "scaled", ("margin", "margin")),
            *_seeds_columns(),
            Column("seeds now", "count", ("n_pairs",)),
        ),
    )


_MOST_CORRELATED = 0.999


class Spread(NamedTuple):
    """The standard deviation of scores between seeds, and of how many it was estimated.

    n: None where it is known.
    """

    deviation: float
    n: int | None = None


def spread_of(scores: Sequence[float]) -> Spread:
    """Return the spread of scores, one a seed. Raises UserError for fewer than two different."""
    deviation = float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0
    if not deviation > 0:
        raise UserError(f"a spread takes two different scores or more, not {len(scores)} equal")
    return Spread(deviation, len(scores))


def seeds_sheet(
    spreads: Mapping[tuple[str, str], Spread],
    margin: float,
    *,
    correlation: float = 0.0,
    power: float = POWER,
) -> Sheet:
    """List the seeds of either side at which a comparison decides.

    Args:
        spreads: (task, run) -> spread between seeds.
        margin: a difference that matters, in the scores' units.
        correlation: between the two sides on equal seeds, which takes sqrt(1 - correlation) off
            the deviation of differences; 0 where nothing is paired.
        power: the chance to decide.

    Raises:
        UserError: a margin, a correlation or a power that is none.
    """
    if not (margin > 0 and math.isfinite(margin)):
        raise UserError(f"a margin is a positive number, not {margin:g}")
    if not -1 <= correlation <= _MOST_CORRELATED:
        raise UserError(f"a correlation is from -1 to {_MOST_CORRELATED}, not {correlation:g}")
    if not 0.5 <= power < 1:
        raise UserError(f"a power is from 0.5 to below 1, not {power:g}")
    rows: list[Values] = []
    for (task, run), spread in spreads.items():
        paired = spread.deviation * math.sqrt(2 * (1 - correlation))
        needed = [seeds_range(k * margin, paired, spread.n, margin, power=power) for k in _EFFECTS]
        ends = [end for each in needed for end in (each.low, each.seen, each.high)]
        rows.append((task, run, spread.n, spread.deviation, margin, *ends))
    columns = [f"{name}{end}" for name in _EFFECTS.values() for end in ("_low", "", "_high")]
    shown = [
        *(text_columns("task", "run") if any(any(place) for place in spreads) else ()),
        Column("sd", "scaled", ("deviation", "margin")),
        *_seeds_columns(),
    ]
    return Sheet(
        "seeds",
        "seeds",
        f"of either side at which a comparison decides with {power:.0%} chance, where the "
        f"truth is no difference, or one, two or four margins of {margin:g}: its 95% interval "
        f"excludes 0 or lies within the margin. Ranges: what a standard deviation that was "
        f"estimated from few seeds leaves open (90%). One comparison; several share the 5%.",
        ("task", "run", "n", "deviation", "margin", *columns),
        tuple(rows),
        tuple(shown),
    )
