"""How many seeds a question needs, from a standard deviation, before there is a study."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ablations.errors import UserError
from ablations.report.statistics.power import POWER, seeds_range
from ablations.report.tables.entries import Column, Sheet, Values, text_columns
from ablations.report.tables.seeds_needed import EFFECTS, seeds_columns

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
        needed = [seeds_range(k * margin, paired, spread.n, margin, power=power) for k in EFFECTS]
        ends = [end for each in needed for end in (each.low, each.seen, each.high)]
        rows.append((task, run, spread.n, spread.deviation, margin, *ends))
    columns = [f"{name}{end}" for name in EFFECTS.values() for end in ("_low", "", "_high")]
    shown = [
        *(text_columns("task", "run") if any(any(place) for place in spreads) else ()),
        Column("sd", "scaled", ("deviation", "margin")),
        *seeds_columns(),
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
