"""What a number of a table looks like: as many digits as its interval's width supports."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from ablations.report.tables import ALL_TASKS, Entry, Table


def decimals(value: float, low: float | None, high: float | None) -> int:
    """Digits after the point that show an interval's width to two significant digits.

    Without a width, those that show the value to four.
    """
    wide = low is not None and high is not None and high > low
    scale, digits = (high - low, 2) if wide else (abs(value), 4)  # type: ignore[operator]
    if not scale or not math.isfinite(scale):
        return 0 if wide else 2
    return min(8, max(0, digits - 1 - math.floor(math.log10(scale))))


def _shared(cases: Iterable[tuple[float | None, float | None, float | None]]) -> int:
    """One number of decimals for a column: the median of what its numbers ask for."""
    asked = [decimals(value, low, high) for value, low, high in cases if value is not None]
    return statistics.median_low(asked) if asked else 0


def _fixed(value: float, places: int, sign: str = "") -> str:
    text = f"{value:{sign}.{places}f}"
    return text.replace("-", sign) if not float(text) else text  # no "-0.00"


class Column:
    """The strings of one task's column: an estimate and its interval, aligned over the variants."""

    def __init__(self, rows: Sequence[Entry]):
        self._scores = _shared((row.iqm, row.low, row.high) for row in rows)
        self._differences = _shared(
            (row.difference, row.difference_low, row.difference_high) for row in rows
        )

    def score(self, row: Entry) -> tuple[str, str]:
        """("-7.42", "[-8.10, -6.90]"); the second empty where there is no interval."""
        return _estimate(row.iqm, row.low, row.high, self._scores, "")

    def difference(self, row: Entry) -> tuple[str, str]:
        """("+0.12", "[-0.30, +0.54]")."""
        bounds = (row.difference, row.difference_low, row.difference_high)
        return _estimate(*bounds, self._differences, "+")

    def symmetric_difference(self, row: Entry) -> tuple[str, str]:
        """("+0.12", "0.42"): a t interval by half its width."""
        difference, around = self.difference(row)
        if row.difference_high is None or row.difference is None or not around:
            return difference, ""
        places = len(around.partition("]")[0].rpartition(".")[2]) if "." in around else 0
        reach = row.difference_high - row.difference
        return _fixed(row.difference, places, "+"), _fixed(reach, places)


def _estimate(
    value: float | None, low: float | None, high: float | None, places: int, sign: str
) -> tuple[str, str]:
    if value is None:
        return "", ""
    if low is None or high is None:
        return _fixed(value, places, sign), ""
    # A much narrower interval than its neighbours' must not read as no interval at all.
    places = max(places, min(decimals(value, low, high) - 1, places + 2))
    inside = f"[{_fixed(low, places, sign)}, {_fixed(high, places, sign)}]"
    return _fixed(value, places, sign), inside


def p_text(value: float | None) -> str:
    """ ".012", "<.001", "1"; four digits where three would hide on which side of .05 it lies."""
    if value is None:
        return ""
    if value < 0.001:
        return "<.001"
    digits = 3 if (value < 0.05) == (round(value, 3) < 0.05) else 4
    return "1" if value >= 0.9995 else f"{value:.{digits}f}".lstrip("0")


def verdict_text(row: Entry) -> str:
    """ "worse"; "undecided (~37 seeds)"."""
    if row.verdict != "undecided":
        return row.verdict or ""
    seeds = row.seeds_to_decide
    return f"undecided ({'>10,000' if seeds is None else f'~{seeds:,}'} seeds)"


def seeds_text(row: Entry) -> str:
    """ "8"; "5 of 8" when cells have not run; "7, 1 failed"."""
    text = f"{row.n} of {row.n_planned}" if row.n_missing else str(row.n)
    if row.n_failed:
        text += f", {row.n_failed} failed"
    if row.n_empty:
        text += f", {row.n_empty} without value"
    if row.n_pairs is not None and row.n_pairs < row.n:
        text += f" ({row.n_pairs} pairs)"
    return text


def tasks_of(table: Table) -> list[str]:
    """The tasks of a table, then "all tasks" where it has such rows."""
    return [*table.tasks, *([ALL_TASKS] if rows_of(table, ALL_TASKS) else [])]


def rows_of(table: Table, task: str) -> list[Entry]:
    return [row for row in table.rows if row.task == task]


def several_baselines(table: Table) -> bool:
    return len({row.baseline for row in table.rows if row.baseline is not None}) > 1
