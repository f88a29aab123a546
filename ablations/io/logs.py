"""Turns the log of a training into the points of one metric, for commands and for `import`."""

from __future__ import annotations

import glob
import math
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ablations.core.files import require_regular
from ablations.core.record import Columns
from ablations.curve import Curve, Floats, diverged_from, is_cut, logged
from ablations.errors import UserError, unknown
from ablations.io import formats, tensorboard
from ablations.io.formats import MOST, are_whole, floats, is_blank, is_logged, is_text, number

EVENTS = "tfevents"
# Columns whose text states the kind of a row; "" has the first words of a printed line.
KINDS = ("", "mode", "split", "phase", "stage", "subset", "kind", "type")
BINS = 50
MANY = 20  # a log of more than this times the expected steps counts something else
LONGER = 1.1  # a run of up to this times the expected steps ends in the last bin
_NAME_THEM = "give each kind of row its own metric, such as 'train {0}' and 'eval {0}'"


class NoValueError(UserError):
    """A log without any value of the metric."""


def find(pattern: str) -> Path | None:
    """Return the log file that a name or pattern matches; None if it does not exist yet.

    Event files are represented by their folder. Raises UserError if several logs match.
    """
    path = Path(pattern)
    paths = [path] if path.exists() else map(Path, sorted(glob.glob(pattern, recursive=True)))
    logs = list(dict.fromkeys(each.parent if EVENTS in each.name else each for each in paths))
    if len(logs) == 1 and logs[0].is_dir():
        logs = sorted({file.parent for file in logs[0].rglob(f"*{EVENTS}*") if file.is_file()})
    if len(logs) > 1:
        names = ", ".join(log.name for log in logs)
        raise UserError(f"'{pattern}' matches several logs: {names}; name one")
    return logs[0] if logs else None


def read(
    path: Path, metric: str, step: str | None = None, *, restarts: int = 0
) -> tuple[Curve, list[str]]:
    """Read a metric of a log.

    Args:
        path: a file, or a folder of event files.
        metric: the column to compare.
        step: the column of steps; None: rows are counted from 1.
        restarts: how often the training was resumed. The steps may go back this often; points
            beyond the step of a restart are dropped.

    Returns:
        The curve and messages on skipped content. Several points may have one step.

    Raises:
        NoValueError: the log has no value of the metric.
        UserError: the log cannot be read.
    """
    notes: list[str] = []
    rows = _rows_in(path, metric, notes)
    if rows.empty:
        empty = path.is_dir() or not path.stat().st_size
        raise NoValueError(
            f"'{path.name}' {'is empty' if empty else 'has no values'}: expected {metric}"
        )
    step = tensorboard.STEP if path.is_dir() else step
    for name in filter(None, (step, metric)):
        if name not in rows:
            raise unknown("column", name, filter(None, rows), of=f"'{path.name}'")
    return curve_of(path.name, rows, metric, step, notes, restarts=restarts), notes


def curve_of(
    name: str,
    rows: pd.DataFrame,
    metric: str,
    step: str | None,
    notes: list[str],
    *,
    restarts: int = 0,
    table: bool = False,
) -> Curve:
    """Return the curve of a log (see `read`), or of one run of a table, sorted by step."""
    if (wrong := np.flatnonzero(is_text(rows[metric]))).size:
        raise refused(name, rows, wrong[0], metric, "a number")
    values, present, given = floats(rows[metric]), is_logged(rows[metric]), ~is_blank(rows[metric])
    steps = (np.cumsum(present) + ~present).astype(np.float64)
    if step:
        steps = floats(rows[step])
    valid = are_whole(steps)
    if (wrong := np.flatnonzero((given | table) & ~valid)).size:
        most = f" up to {MOST:,}" if steps[wrong[0]] > MOST else ""
        raise refused(name, rows, wrong[0], str(step), f"a whole number{most}")
    if table:  # NaN may be an empty field
        given = ~np.isnan(values)
    elif not given.any():
        raise NoValueError(f"'{name}' has no value of {metric}")
    _resume(name, rows, metric, steps, valid, present if table else given, restarts)
    given &= valid
    _require_one_kind(name, rows, given, metric)
    if not table and is_cut(last := steps[given].max(), reached := steps[valid].max()):
        notes.append(f"the steps after {last:,.0f} of {reached:,.0f} have no {metric}")
    ends = np.flatnonzero(present & valid)
    given[ends] |= _empty_end(steps[ends], values[ends], table=table)
    chosen = np.flatnonzero(given)
    chosen = chosen[np.argsort(steps[chosen], kind="stable")]
    return logged(steps[chosen].astype(np.int64), values[chosen])


def refused(name: str, rows: pd.DataFrame, row: int, column: str, must: str) -> UserError:
    """Return the error for an invalid field of a row, by its position."""
    cell = rows[column].iloc[[row]]
    actual = "but is empty" if is_blank(cell)[0] else f"not '{str(cell.iloc[0])[:40]}'"
    return UserError(f"'{name}', line {rows.index[row]}: {column} must be {must}, {actual}")


def _require_one_kind(name: str, rows: pd.DataFrame, given: NDArray[np.bool_], metric: str) -> None:
    for column in (kind for kind in KINDS if kind in rows):
        texts = {"" if v is None or v != v else str(v) for v in rows[column][given]}
        if len(texts) > 1 and any(number(text) is None for text in texts):
            kinds = ", ".join(f"'{text}'" for text in sorted(texts))
            advice = _NAME_THEM.format(metric)
            raise UserError(f"'{name}' has {metric} on rows of several kinds ({kinds}): {advice}")


def _resume(
    name: str,
    rows: pd.DataFrame,
    metric: str,
    steps: Floats,
    valid: NDArray[np.bool_],
    given: NDArray[np.bool_],
    restarts: int,
) -> None:
    """Unset `valid` for rows that a restart repeats.

    Raises UserError if the steps of `given` rows go back more often than there were restarts.
    """
    indices = np.flatnonzero(given & valid)
    change = np.diff(steps[indices])
    repeats = "" in rows  # several episodes may end at one step
    back = indices[1:][(change < 0) | ((change == 0) & (not repeats))].tolist()
    if len(back) > restarts:
        row = back[restarts]
        before, now = int(steps[indices[indices < row][-1]]), int(steps[row])
        why = f"steps go back from {before:,} to {now:,}: does the file have two runs?"
        if now == before:
            why = f"two values for step {now:,}; {_NAME_THEM.format(metric)}"
        raise UserError(f"'{name}', line {rows.index[row]}: {why}")
    for row in back:
        valid[:row] &= steps[:row] < steps[row]


def _empty_end(steps: Floats, values: Floats, *, table: bool) -> NDArray[np.bool_]:
    """Return which empty fields at the end of a log `[n]` stand for NaN: the run diverged.

    They are more than the empty fields between two values. In the log of one run they are also at
    least two and begin before the last tenth of the steps. An empty field has the value NaN.
    """
    given = np.flatnonzero(~np.isnan(values))
    empty = np.zeros(len(steps), np.bool_)
    last = given[-1] if len(given) else -1
    if diverged_from(values) is not None and (
        table or (last >= 0 and is_cut(steps[last], steps[-1]) and len(steps) - last > 2)
    ):
        empty[last + 1 :] = True
    return empty


def latest(path: Path, metric: str, step: str | None) -> tuple[int, float | None] | None:
    """Return the last step and value of a log that is being written, or None if it has no step."""
    try:
        rows = _rows_in(path, metric, [])
    except (OSError, UserError):
        return None
    none = pd.Series([], dtype=object)
    steps = floats(rows.get(tensorboard.STEP if path.is_dir() else step, none))
    steps, scores = steps[are_whole(steps)], rows.get(metric, none)
    values = floats(scores[~is_blank(scores)])
    if not (len(steps) or len(values)):
        return None
    score = float(values[-1]) if len(values) and math.isfinite(values[-1]) else None
    return int(steps[-1]) if len(steps) else 0, score


def _rows_in(path: Path, metric: str, notes: list[str]) -> pd.DataFrame:
    """Return the rows of a file, or of a folder of event files, in the order written."""
    if path.is_dir():
        return tensorboard.rows(path, [metric], notes)
    require_regular(path)
    rows = formats.read(path)
    return formats.printed(path) if rows is None else rows


def binned(curve: Curve, metric: str, steps: int = 0) -> Columns:
    """Return a curve as means over bins of steps; None: a bin without a value.

    A bin's step is its end. With `steps`, the length of a complete run, all seeds have the same 50
    bins. Otherwise the width is a round number (1, 2 or 5 times a power of ten) that gives at most
    50 bins. If there are more bins than points, bins without a value are left out.
    """
    last = int(curve.steps[-1])
    if last > MANY * steps:
        steps = 0
    if len(curve.steps) == 1:
        ends = [steps or last]
    elif steps:
        width = max(1.0, steps / BINS)
        end = max(steps, last) if last > LONGER * steps else steps
        ends = [round(width * (k + 1)) for k in range(math.ceil(round(end / width, 6)))]
        ends = ends if end > steps else [*ends[:-1], steps]
    else:
        widths = (digit * 10**power for power in range(19) for digit in (1, 2, 5))
        width = next((width for width in widths if last <= BINS * width), 5 * 10**18)
        ends = list(range(width, last + width, width)) or [last]
    finite = np.isfinite(curve.values)
    bins = np.searchsorted(ends[:-1], curve.steps)[finite]
    counts = np.bincount(bins, minlength=len(ends))
    sums = np.bincount(bins, curve.values[finite], len(ends)).tolist()
    kept = np.flatnonzero(counts) if len(curve.steps) <= len(ends) else range(len(ends))
    means = [sums[k] / int(counts[k]) if counts[k] else None for k in kept]
    return {"step": [ends[k] for k in kept], metric: means}
