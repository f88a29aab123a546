"""A training's own log as points of the metric that is judged: of a command, or to be imported.

TensorBoard's event files are read by `tensorboard`, lines that a command printed by `printed`, all
other files by `formats`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ablations.core.decode import Json, leaves
from ablations.core.record import Columns
from ablations.curve import diverged_from, is_cut
from ablations.errors import UserError, unknown
from ablations.io import tensorboard
from ablations.io.formats import DEPTH, File, Row, Rows, rows_of
from ablations.io.printed import MOST, is_odd, number, pairs

Floats: TypeAlias = NDArray[np.float64]

EVENTS = "tfevents"
RESULT = "result"  # the name of a number on a line of its own
# Columns whose text says of what kind a row is; "" holds the words that a printed line begins with.
KINDS = ("", "mode", "split", "phase", "stage", "subset", "kind", "type")
# What a field of numbers holds where it has none.
BLANK = {"", "null", "NULL", "None", "NA", "N/A", "n/a", "<NA>", "#N/A"}
BINS = 50
MANY = 20  # times the expected steps: then the log counts something else
LONGER = 1.1  # a run that overshoots by less is given to the last bin
MOST_NAMES = 1000  # of a log; where there are more, names hold numbers, such as "run 7 return"
_NAME_THEM = "name the rows with metrics of their own, such as 'train {0}' and 'eval {0}'"


class NoValueError(UserError):
    """A log without a single value of the judged metric."""


def find(pattern: str) -> Path | None:
    """Return the file or folder of a name that may contain *; None where there is none yet.

    For event files, return their folder. Raises UserError where there are several.
    """
    path = Path(pattern)
    root = Path(*itertools.takewhile(lambda part: not {*"*?"} & {*part}, path.parts))
    paths = [path] if path.exists() else []
    if root != path:
        paths = sorted(root.glob(str(path.relative_to(root)))) if root.is_dir() else []
    logs = list(dict.fromkeys(each.parent if EVENTS in each.name else each for each in paths))
    if len(logs) > 1:
        names = ", ".join(log.name for log in logs)
        raise UserError(f"'{pattern}' is several: {names}; name one")
    if not logs or not logs[0].is_dir():
        return logs[0] if logs else None
    inside = sorted({file.parent for file in logs[0].rglob(f"*{EVENTS}*") if file.is_file()})
    if len(inside) > 1:
        raise UserError(f"several folders in '{logs[0].name}' have event files: name one")
    return inside[0] if inside else None


def read(
    path: Path, metric: str, step: str | None = None, *, restarts: int = 0
) -> tuple[Columns, list[str]]:
    """Read a log whose column `metric` is judged.

    Args:
        path: a file, or a folder of event files.
        metric: the judged column.
        step: the column that counts; None: rows are counted from 1.
        restarts: how often the training was resumed. So often the steps may go back; what was
            logged beyond that point is dropped.

    Returns:
        The columns: step, which never decreases and ends with the last value of the metric, then
        the metric and the others, None where they were not logged; and lines on what was left out.

    Raises:
        NoValueError: the log has no value of the metric.
        UserError: it cannot be read.
    """
    notes: list[str] = []
    rows = list(rows_in(path, metric, notes))
    if not rows:
        empty = path.is_dir() or not path.stat().st_size
        why = "is empty" if empty else "has nothing that is read as a value"
        raise NoValueError(f"'{path.name}' {why}: it has no {metric}")
    step = tensorboard.STEP if path.is_dir() else step
    names = columns_of(rows)
    for name in filter(None, (step, metric)):
        if name not in names:
            raise unknown(f"column of '{path.name}'", name, names)
    others = [name for name in names if name not in {metric, step, tensorboard.STEP, *KINDS}]
    others = others if len(others) < MOST_NAMES else []
    return points(path.name, rows, metric, step, others, notes, restarts=restarts), notes


def points(
    name: str,
    rows: Rows,
    metric: str,
    step: str | None,
    others: Sequence[str],
    notes: list[str],
    *,
    restarts: int = 0,
    table: bool = False,
) -> Columns:
    """Return the columns of a log, see `read`, or of one run of a table.

    The points are the rows with the metric; the other rows up to the last of them are beside them.
    Of a table, whose rows are in the order of their steps, all rows are kept.
    """
    logged = np.array([metric in fields for _, fields in rows])
    values, bad = floats(rows, metric)
    if bad:
        raise refused(name, rows[bad[0]], metric, "a number")
    at = floats(rows, step, of_a_total=True)[0] if step else np.cumsum(logged) + ~logged + 0.0
    counted = are_whole(at)
    own = np.array([not is_blank(fields.get(metric)) for _, fields in rows])
    if (wrong := np.flatnonzero((own | table) & ~counted)).size:
        most = f" up to {MOST:,}" if at[wrong[0]] > MOST else ""
        raise refused(name, rows[wrong[0]], str(step), f"a whole number{most}")
    if table:  # NaN may be an empty field
        own = ~np.isnan(values)
    elif not own.any():
        raise NoValueError(f"'{name}' has no value of {metric}")
    _resume(name, rows, metric, at, counted, logged if table else own, restarts)
    own &= counted
    for kind in KINDS:
        texts = {str(rows[row][1].get(kind)) for row in np.flatnonzero(own).tolist()}
        if len(texts) > 1 and any(number(text) is None for text in texts):
            kinds = ", ".join(f"'{text}'" for text in sorted(texts))
            them = _NAME_THEM.format(metric)
            raise UserError(f"'{name}' has {metric} on rows of several kinds ({kinds}): {them}")
    if not table and is_cut(last := at[own].max(), reached := at[counted].max()):
        notes.append(f"{metric}: the last value is at step {last:,.0f} of {reached:,.0f}")
    ends = np.flatnonzero(logged & counted)
    own[ends] |= _empty_end(at[ends], values[ends], table=table)
    read = {metric: values} | {other: floats(rows, other)[0] for other in others}
    known = {other: ~np.isnan(v) | _empty_end(at, v, table=True) for other, v in read.items()}
    known[metric] = own
    beside = np.any([*known.values()], axis=0) & counted & (table or at <= at[own].max())
    chosen = np.flatnonzero(own | beside)
    chosen = chosen[np.lexsort((own[chosen], at[chosen]))]
    columns: Columns = {"step": at[chosen].astype(np.int64).tolist()}
    for other, column in read.items():
        if other == metric or known[other][chosen].any():
            pairs_of = zip(column[chosen].tolist(), known[other][chosen], strict=True)
            columns[other] = [value if there else None for value, there in pairs_of]
    return columns


def refused(name: str, row: Row, column: str, must: str) -> UserError:
    """Return the error for a field of a row."""
    value = row[1].get(column)
    text = str(value)[:40].encode(errors="backslashreplace").decode()
    what = "and is empty" if is_blank(value) else f"not '{text}'"
    return UserError(f"'{name}', line {row[0]}: {column} must be {must}, {what}")


def _resume(
    name: str,
    rows: Rows,
    metric: str,
    at: Floats,
    counted: NDArray[np.bool_],
    own: NDArray[np.bool_],
    restarts: int,
) -> None:
    """Unset `counted` for what a restart repeats.

    Raises UserError where the steps of `own` rows go back more often than there were restarts.
    """
    where = np.flatnonzero(own & counted)
    change = np.diff(at[where])
    repeats = any("" in fields for _, fields in rows[:1])  # episodes that end at one step
    back = where[1:][(change < 0) | ((change == 0) & (not repeats))].tolist()
    if len(back) > restarts:
        row = back[restarts]
        before, now = int(at[where[where < row][-1]]), int(at[row])
        why = f"steps go back from {before:,} to {now:,}: is that two runs in one file?"
        why = two_values(metric, now) if now == before else why
        raise UserError(f"'{name}', line {rows[row][0]}: {why}")
    for row in back:
        counted[:row] &= at[:row] < at[row]


def _empty_end(at: Floats, values: Floats, *, table: bool) -> NDArray[np.bool_]:
    """Return which fields of a metric are NaN that was written as an empty field.

    They end the log: more than are empty between two values, and unless it is a table from before
    the last tenth on, and at least two. at: steps, `[n]`. values: `[n]`, NaN in an empty field.
    """
    given = np.flatnonzero(~np.isnan(values))
    empty = np.zeros(len(at), np.bool_)
    last = given[-1] if len(given) else -1
    if diverged_from(values) is not None and (
        table or (last >= 0 and is_cut(at[last], at[-1]) and len(at) - last > 2)
    ):
        empty[last + 1 :] = True
    return empty


def columns_of(rows: Rows) -> list[str]:
    """Return the names of the fields of rows. Raises UserError for one that cannot be stored."""
    names = list(dict.fromkeys(name for _, fields in rows for name in fields if name))
    for name in names:
        if not is_text(name):
            raise UserError(f"a column has a name that is not text: {name!a:.60}")
    return names


def is_text(name: str) -> bool:
    """Return whether a name can be stored: it is not part of a binary file."""
    return "\0" not in name and not any("\ud800" <= letter <= "\udfff" for letter in name)


def is_blank(value: Json) -> bool:
    """Return whether a field has no value."""
    return value is None or (isinstance(value, str) and value in BLANK)


def floats(rows: Rows, column: str, *, of_a_total: bool = False) -> tuple[Floats, list[int]]:
    """Return a column as numbers, NaN where there is none, and the rows in which it is text."""
    read = [
        math.nan if is_blank(value := fields.get(column)) else number(value, of_a_total=of_a_total)
        for _, fields in rows
    ]
    return np.array(read, np.float64), [row for row, value in enumerate(read) if value is None]


def are_whole(values: Floats) -> NDArray[np.bool_]:
    """Return which numbers are steps or seeds."""
    with np.errstate(invalid="ignore"):
        whole: NDArray[np.bool_] = (values >= 0) & (values <= MOST) & (values % 1 == 0)
    return whole


def two_values(metric: str, step: int) -> str:
    """Return why two values of a metric at one step are not read."""
    return f"two values for step {step:,}; {_NAME_THEM.format(metric)}"


def latest(path: Path, metric: str, step: str | None) -> tuple[int, float | None] | None:
    """Return the last step of a log that is being written, and the last value; None before that.

    Reads only the end of a text file.
    """
    at: int | None = None
    value: float | None = None
    try:
        if path.is_dir():
            tags = tensorboard.parts(path)
            newest = max((part.source for of in tags.values() for part in of), default="")
            last = [of[-1].points[-1][0] for of in tags.values() if of[-1].source == newest]
            at = max(last, default=None)
            value = tags[metric][-1].points[-1][1] if metric in tags else None
        else:
            rows = list(rows_in(path, tail=True))
            steps = floats(rows, step or "")[0]
            counted, values = steps[are_whole(steps)], floats(rows, metric)[0]
            values = values[[not is_blank(fields.get(metric)) for _, fields in rows]]
            at = int(counted[-1]) if len(counted) else 0 if len(values) else None
            value = float(values[-1]) if len(values) else None
    except (OSError, UserError):
        return None
    finite = value is not None and math.isfinite(value)
    return None if at is None else (max(0, at), value if finite else None)


# Rows


def rows_in(
    path: Path, metric: str = "", notes: list[str] | None = None, *, tail: bool = False
) -> Iterator[Row]:
    """Yield the rows of a file, or of a folder of event files, in the order written.

    metric: the tag that must be readable in event files. notes: takes lines on what was left out.
    tail: the last rows are enough. Raises UserError for what is not a log, OSError for what cannot
    be read.
    """
    if path.is_dir():
        yield from tensorboard.rows(tensorboard.parts(path, notes), metric, notes)
        return
    if not path.is_file():
        raise UserError(f"'{path.name}' is neither a file nor a folder")
    file = File(path, tail)
    yield from _of_text(file) if (rows := rows_of(file)) is None else rows
    if notes is not None:
        notes += file.notes


def _of_text(file: File) -> Iterator[Row]:
    """Yield what printed lines hold: objects of JSON, numbers alone, pairs of name and value."""
    for line, text in enumerate(file.lines, 1):
        stripped = text.strip()
        if not text.endswith("\n") and "{" in text and "}" not in text.rpartition("{")[2]:
            return  # it is still being written
        entry: Json = None
        if stripped.startswith("{"):
            with contextlib.suppress(ValueError, RecursionError):
                entry = json.loads(stripped)
        if isinstance(entry, dict):
            yield line, {"": "", **dict(leaves(entry, DEPTH))}
        elif number(stripped) is not None or is_odd(stripped):
            yield line, {"": "", RESULT: stripped}
        elif (":" in stripped or "=" in stripped) and (named := pairs(stripped)):
            yield line, named


# Bins


def binned(log: Columns, metric: str, steps: int = 0) -> Columns:
    """Return the columns of a log as means over bins, None where a bin has no value.

    A bin is named by the step at which it ends.

    steps: of a complete run; then the bins are the same for every seed. Without it their width is
    a round number (1, 2 or 5 times a power of ten) that gives 50 of them or fewer. Where there are
    more bins than points, those without a point are left out. A log with one value of the metric is
    that point.
    """
    at = np.array(log["step"], np.int64)
    last = int(at[-1])
    if last > MANY * steps:
        steps = 0
    if sum(value is not None for value in log[metric]) == 1:
        ends = [steps or last]
    elif steps:
        ends = _evenly(max(steps, last) if last > LONGER * steps else steps, steps)
    else:
        widths = (digit * 10**power for power in range(19) for digit in (1, 2, 5))
        width = next((width for width in widths if last <= BINS * width), 5 * 10**18)
        ends = list(range(width, last + width, width)) or [last]
    bins = np.searchsorted(ends[:-1], at)
    columns: Columns = {"step": list(ends)}
    for name in [metric, *sorted(log.keys() - {"step", metric})]:
        values = np.array(log[name], np.float64)
        finite = np.isfinite(values)
        counts = np.bincount(bins[finite], minlength=len(ends)).tolist()
        sums = np.bincount(bins[finite], values[finite], len(ends)).tolist()
        columns[name] = [total / n if n else None for total, n in zip(sums, counts, strict=True)]
    return with_values(columns) if len(at) <= len(ends) else columns


def with_values(columns: Columns) -> Columns:
    """Return the columns of a curve without points that have no value but their step."""
    rows = zip(*columns.values(), strict=True)
    kept = [row for row in rows if any(value is not None for value in row[1:])]
    return {name: [row[place] for row in kept] for place, name in enumerate(columns)}


def _evenly(last: int, steps: int) -> list[int]:
    """Return the ends of 50 bins up to `steps`, and of more of the same width up to `last`."""
    width = max(1.0, steps / BINS)
    ends = [round(width * (k + 1)) for k in range(math.ceil(round(last / width, 6)))]
    return ends if last > steps else [*ends[:-1], steps]
