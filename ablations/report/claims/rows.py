"""Claims in numbers: a row for each, for each comparison of one, and for each on other seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ablations.report.claims.found import Judged, Part
from ablations.report.claims.words import verdict
from ablations.report.formats.markdown import markdown_text, pipes
from ablations.report.formats.numbers import decimals, fixed, seeds_range_text, without_repeats
from ablations.report.tables.entries import (
    JOINT,
    Column,
    Sheet,
    Values,
    bounded,
    text_columns,
    with_ends,
)

Bounds = tuple[float, float, float]  # of an estimate: its value, then its interval

_MOST_PLACES = 6


def claims_sheet(claims: Sequence[Judged], at_once: Sequence[Judged]) -> Sheet:
    """List each claim with its verdict and the range of its effects in margins."""
    rows = []
    for alone, joint in zip(claims, at_once, strict=True):
        bounded = [part for part in alone.parts if part.effect_low is not None]
        effects, lows, highs = (
            [bound for part in bounded if (bound := getattr(part, name)) is not None]
            for name in ("effect", "effect_low", "effect_high")
        )
        rows.append(
            (
                *(alone.claim.id, alone.claim.title),
                *(min(effects, default=None), max(effects, default=None)),
                *(min(lows, default=None), max(highs, default=None)),
                len(alone.parts),
                min((part.n for part in alone.parts if part.ran), default=0),
                *(verdict(alone), verdict(joint)),
            )
        )
    return Sheet(
        "claims",
        "claims",
        "Published claims. effects: of all comparisons that a claim rests on, in margins (beyond "
        "-1 and 1 they matter), and how far their intervals reach. all at once: the verdict when "
        "the intervals of all claims hold at once.",
        (
            *("claim", "title", "least", "most", "low", "high", "comparisons", "seeds"),
            *("verdict", "at_once"),
        ),
        tuple(rows),
        (
            *text_columns("claim"),
            Column("effects", "fixed", ("least", "least", "most"), "+", 1, right=True),
            Column(JOINT, "fixed", ("least", "low", "high"), "+", 1),
            Column("of", "count", ("comparisons",)),
            Column("seeds", "count", ("seeds",)),
            *text_columns("verdict"),
            Column("all at once", "text", ("at_once",)),
        ),
    )


def table(judged: Judged) -> list[str]:
    """Write a claim's comparisons as lines of Markdown."""
    claim = judged.claim
    several = any(part.label for part in judged.parts)
    ratio = claim.statistic == "spread"
    both = any(part.sides for part in judged.parts)
    head = ["task", *(["variant"] if several else [])]
    if both:
        ours = "the variant" if several else claim.variant[0]
        head += [f"{name}, mean ± SD" for name in (ours, claim.versus[0])]
    head += ["ratio of SDs" if ratio else "difference"]
    head += ["[95% joint]", "in margins", "word", "seeds"]
    head = [markdown_text(name) for name in head]
    lines = [
        [
            part.task,
            *([markdown_text(part.label)] if several else []),
            *(_mean_and_spread(part) if both else []),
            *estimate(part, ratio=ratio),
            _word(part),
            _seeds(part),
        ]
        for part in judged.parts
    ]
    return pipes(head, without_repeats(lines), {*head} - {"task", "variant", "word"})


def _mean_and_spread(part: Part) -> list[str]:
    if not part.sides:
        return ["", ""]
    texts = []
    for mean, deviation in part.sides:
        places = decimals(mean, mean - deviation, mean + deviation)
        texts.append(f"{fixed(mean, places)} ± {fixed(deviation, places)}")
    return texts


def _word(part: Part) -> str:
    """Write the verdict, with the seeds that would decide what is open."""
    if part.needed is None:
        return part.word
    needed = seeds_range_text(part.needed.low, part.needed.high) or "more than 10,000"
    return f"{part.word} ({needed} seeds)"


def estimate(part: Part, *, ratio: bool) -> list[str]:
    """Write an estimate, its interval, and that in margins; "" for what is not there."""
    if part.value is None or part.low is None or part.high is None:
        value = "" if part.value is None else f"{part.value:.3g}"
        return [value, "", ""]
    value, low, high = (
        map(_ratio, (part.value, part.low, part.high))
        if ratio
        else _signed(part.value, part.low, part.high)
    )
    inside = ""
    if part.effect_low is not None and part.effect_high is not None:
        inside = f"[{_in_margins(part.effect_low)}, {_in_margins(part.effect_high)}]"
    return [value, f"[{low}, {high}]", inside]


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if 10 <= value < 1e15 else f"{value:.3g}"


def _signed(value: float, low: float, high: float) -> list[str]:
    """Write an estimate with the digits of its width, and enough to tell bounds from 0."""
    places = decimals(value, low, high)
    while places < _MOST_PLACES and any(x and not round(x, places) for x in (low, high)):
        places += 1
    return [_fixed(x, places) for x in (value, low, high)]


def _in_margins(value: float) -> str:
    """Write an effect with one digit, or enough to tell it from 0 and from the margin."""
    places = 1
    while places < _MOST_PLACES and any(
        round(value, places) == x != value for x in (-1.0, 0.0, 1.0)
    ):
        places += 1
    return _fixed(value, places)


def _fixed(value: float, places: int) -> str:
    rounded = round(value, places) or 0.0  # no "-0.0"
    return fixed(rounded, places, "+" if rounded else "")


def _seeds(part: Part) -> str:
    return str(part.n) if part.n == part.planned else f"{part.n} of {part.planned}"


# On other seeds


def difference_of_estimates(first: Bounds, second: Bounds) -> Bounds:
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
        (first.claim.id, a.task, a.label, *_beside(a, b, first.claim.statistic == "spread"))
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
            *(*with_ends("between"), "agree"),
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


def _beside(a: Part, b: Part, ratio: bool) -> Values:
    first, second = _bounds(a), _bounds(b)
    if ratio:
        logs = difference_of_estimates(_bounds(a, math.log), _bounds(b, math.log))
        value, low, high = map(math.exp, logs)
        agree = low <= 1 <= high
    else:
        value, low, high = difference_of_estimates(first, second)
        agree = low <= 0 <= high
    return (a.n, b.n, *first, *second, value, low, high, "yes" if agree else "no")


def _bounds(part: Part, of: Callable[[float], float] = float) -> Bounds:
    assert part.value is not None
    assert part.low is not None
    assert part.high is not None
    return of(part.value), of(part.low), of(part.high)
