"""Numbers of tables, with as many digits as the width of their interval supports."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from ablations.core.verdict import MARGIN, Answer, Verdict
from ablations.core.verdict import answer as answer_of
from ablations.report.tables.entries import Column, Entry, Sheet, Values

_MOST = 8  # digits after the point
_LARGE = 1e15  # from here on a float has no digit after the point to spare


def decimals(value: float, low: float | None, high: float | None) -> int:
    """Return the digits after the point that show an interval's width to two significant digits.

    Without a width, those that show the value to four.
    """
    width = 0.0 if low is None or high is None else high - low
    scale, digits, least = (width, 2, 0) if width > 0 else (abs(value), 4, 2)
    if not scale or not math.isfinite(scale):
        return least
    return min(_MOST, max(0, digits - 1 - math.floor(math.log10(scale))))


def _shared(cases: Iterable[tuple[float | None, float | None, float | None]]) -> int:
    """Return one number of decimals for a column: the median of what its numbers ask for."""
    digits = [decimals(value, low, high) for value, low, high in cases if value is not None]
    return statistics.median_low(digits) if digits else 0


def fixed(value: float, places: int, sign: str = "") -> str:
    """Write a number with so many digits after the point, never "-0.00"."""
    text = _digits(value, places, sign)
    return text.replace("-", sign) if not float(text) else text


def _digits(value: float, places: int, sign: str = "") -> str:
    """Write in powers of ten where all digits would be zeros, or more than a float has."""
    if abs(value) >= _LARGE or (places >= _MOST and 0 < abs(value) < 10.0**-_MOST):
        return f"{value:{sign}.3e}"
    return f"{value:{sign}.{places}f}"


class Digits:
    """The strings of one task's column: an estimate and its interval, aligned over the variants."""

    def __init__(self, rows: Sequence[Entry]):
        """Choose the digits that the rows of a task share."""
        self._scores = _shared((row.mean, row.low, row.high) for row in rows)
        self._differences = _shared(
            (row.difference, row.difference_low, row.difference_high) for row in rows
        )

    def score(self, row: Entry) -> tuple[str, str]:
        """("-7.42", "[-8.10, -6.90]"); the second empty where there is no interval."""
        return _estimate(row.mean, row.low, row.high, self._scores, "")

    def iqm(self, row: Entry) -> str:
        """Write the interquartile mean."""
        return _estimate(row.iqm, row.iqm_low, row.iqm_high, self._scores, "")[0]

    def difference(self, row: Entry) -> tuple[str, str]:
        """("+0.12", "[-0.30, +0.54]")."""
        bounds = (row.difference, row.difference_low, row.difference_high)
        return _estimate(*bounds, self._differences, "+")

    def symmetric_difference(self, row: Entry) -> tuple[str, str]:
        """("+0.12", "0.42"): a t interval by half its width."""
        value, low, high = row.difference, row.difference_low, row.difference_high
        difference, _ = self.difference(row)
        if value is None or low is None or high is None:
            return difference, ""
        return difference, fixed(high - value, _places(value, low, high, self._differences, "+"))


def _estimate(
    value: float | None, low: float | None, high: float | None, places: int, sign: str
) -> tuple[str, str]:
    if value is None:
        return "", ""
    if low is None or high is None:
        return fixed(value, places, sign), ""
    places = _places(value, low, high, places, sign)
    inside = f"[{fixed(low, places, sign)}, {fixed(high, places, sign)}]"
    return fixed(value, places, sign), inside


def _places(value: float, low: float, high: float, places: int, sign: str) -> int:
    """Return the digits after the point of an interval that is narrower than its neighbours'.

    It must not read as no interval at all, nor one that excludes 0 as if it held it.
    """
    places = max(places, min(decimals(value, low, high) - 1, places + 2))
    return _apart(low, high, places) if sign else places


def _apart(low: float, high: float, places: int) -> int:
    """Return `places`, or as many as tell an interval that excludes 0 from 0."""
    nearest = max(low, -high)
    while nearest > 0 and places < _MOST and not round(nearest, places):
        places += 1
    return places


def estimate(
    value: float | None, low: float | None = None, high: float | None = None, sign: str = ""
) -> str:
    """Write an estimate with its interval where it has one, as tables do: "+0.1 [-0.3, +0.5]"."""
    if value is None or not math.isfinite(value):
        return ""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return fixed(value, decimals(value, None, None), sign)
    places = decimals(value, low, high)
    return f"{fixed(value, places, sign)} {_between(low, high, sign, places)}"


def p_text(value: float | None) -> str:
    """Write a p-value, as ".012", "<.001" or "1".

    Four digits where three would hide on which side of .05 it lies.
    """
    if value is None:
        return ""
    if value < 0.001:
        return "<.001"
    digits = 3 if (value < 0.05) == (round(value, 3) < 0.05) else 4
    return "1" if value >= 0.9995 else f"{value:.{digits}f}".lstrip("0")


def verdict_text(row: Entry) -> str:
    """Write a verdict, as "worse", "equivalent (+)" or "undecided (12 to 64 seeds)", or an answer.

    The sign stands where 0 is outside. Where another variant is the same composition: "worse,
    identical to b".
    """
    text = str(row.verdict or "")
    if row.answer is not None and row.in_units is not None:
        text = answer_text(row.answer, *row.in_units, row.n_pairs)
    elif row.verdict is Verdict.EQUIVALENT:
        low, high = row.difference_low or 0.0, row.difference_high or 0.0
        text += " (+)" if low > 0 else " (\u2212)" if high < 0 else ""
    elif row.verdict is Verdict.UNDECIDED:
        seeds = seeds_range_text(row.seeds_low, row.seeds_high)
        text += f" ({seeds} seeds)" if seeds else ""
    if row.same_as is None:
        return text
    same = f"identical to {row.same_as}"
    return same if row.verdict in (None, Verdict.IDENTICAL) else f"{text}, {same}"


def answer_text(
    answer: Answer | None,
    share: float | None,
    low: float | None,
    high: float | None,
    seeds: int | None = None,
) -> str:
    """Write an answer with its bound, as "No: any effect is below 4%".

    Args:
        answer: which it is; "" of none.
        share: the estimate, in shares of the unit.
        low: the lower end of its interval.
        high: the upper end.
        seeds: on which the interval rests, where more of them make it narrower.
    """
    if answer is None or share is None or low is None or high is None:
        return ""
    percent = (100 * share, 100 * low, 100 * high)
    places = _apart(*percent[1:], decimals(*percent))
    exact = answer_of(share, low, high)
    # As many digits as tell the same.
    while places < _MOST and answer_of(*(round(end, places) / 100 for end in percent)) != exact:
        places += 1
    center, below, above = (fixed(end, places, "+") for end in percent)
    if answer is Answer.NO:
        size = 10**places
        return f"{answer}: any effect is below {math.ceil(100 * max(-low, high) * size) / size:g}%"
    if answer is Answer.CANNOT_TELL:
        return f"{answer}: {below} to {above}%"
    if answer is Answer.NOT_SEEN:
        text = f"{answer}: between {below} and {above}%"
        if seeds:
            needed = seeds * ((high - low) / 2 / MARGIN) ** 2
            text += f"; {100 * MARGIN:g}% needs about {_rounded_up(needed):,} seeds"
        return text
    return f"{answer}: {center}% [{fixed(percent[1], places)}, {fixed(percent[2], places)}]"


def _rounded_up(number: float) -> int:
    """Round up to two significant digits."""
    size = int(10 ** max(0, math.floor(math.log10(number)) - 1))
    return math.ceil(number / size) * size


def seeds_range_text(low: int | None, high: int | None) -> str:
    """Write a range of seeds, as "12 to 64" or "12 or more"; empty where nothing is known."""
    if low is None:
        return ""
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def verdict_class(verdict: Verdict | None) -> str:
    """Return the CSS class of a verdict, such as "better-undecided"; "" of none."""
    return verdict.name.lower().replace("_", "-") if verdict else ""


def seeds_text(row: Entry) -> str:
    """Write the seeds of a row, as "8", "5 of 8" when cells have not run, or "7, 1 failed"."""
    text = f"{row.n} of {row.n_planned}" if row.n_missing else str(row.n)
    if row.n_failed:
        text += f", {row.n_failed} failed"
    if row.n_empty:
        text += f", {row.n_empty} without value"
    if row.n_pairs is not None and row.n_pairs < row.n:
        text += f" ({row.n_pairs} pairs)"
    return text


# Sheets


def lines_of(sheet: Sheet) -> list[tuple[str, ...]]:
    """Write a sheet's rows as text."""
    return [
        tuple(_written(column, tuple(row[name] for name in column.of)) for column in sheet.shown)
        for row in sheet.records()
    ]


def without_repeats(lines: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return rows of text with the first cell, a task, only where it begins."""
    cells, last = [], None
    for task, *rest in lines:
        cells.append(("" if task == last else task, *rest))
        last = task
    return cells


def _written(column: Column, values: Values) -> str:
    """Write what a column shows of a row; "" where there is no value."""
    if values[0] is None and column.kind != "seeds needed":
        return ""
    return _WRITERS[column.kind](column, *values)


def _between(low: float | None, high: float | None, sign: str, places: int) -> str:
    if low is None or high is None:
        return ""
    places = _apart(low, high, places) if sign else places
    return f"[{_digits(low, places, sign)}, {_digits(high, places, sign)}]"


def _interval(column: Column, value: float, low: float | None, high: float | None) -> str:
    return _between(low, high, column.sign, decimals(value, low, high))


def _fixed(column: Column, value: float, *ends: float | None) -> str:
    if not ends:
        return fixed(value, column.places, column.sign)
    low, high = ends
    return _between(low, high, column.sign, column.places)


def _steps(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:,.0f}"


_WRITERS: Mapping[str, Callable[..., str]] = {
    "text": lambda column, value: str(value),
    "answer": lambda column, *values: answer_text(*values),
    "count": lambda column, value: f"{value:,}",
    "estimate": lambda column, *bounds: fixed(bounds[0], decimals(*bounds), column.sign),
    "interval": _interval,
    "p": lambda column, value: p_text(value),
    "steps": lambda column, value: _steps(value),
    "step interval": lambda column, low, high: (
        "" if high is None else f"[{_steps(low)}, {_steps(high)}]"
    ),
    "share": lambda column, part, whole: f"{part} of {whole}",
    "scaled": lambda column, value, scale: fixed(value, decimals(scale, 0, scale), column.sign),
    "fixed": _fixed,
    "seeds needed": lambda column, low, high: seeds_range_text(low, high) or "> 10,000",
    "seeds": lambda column, n, failed: f"{n}, {failed} failed" if failed else str(n),
}
