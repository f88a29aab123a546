"""A training's own log as points of the metric that is judged, whatever wrote it. No pandas.

Event files of TensorBoard are read by `tensorboard`, other files by `formats`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from ablations.curve import diverged_from, is_cut
from ablations.errors import UserError, unknown
from ablations.logs import numbers, tensorboard
from ablations.logs.files import File
from ablations.logs.formats import STEP, Row, rows_of

EVENTS = "tfevents"

Point = tuple[int, Mapping[str, float]]
_at = itemgetter(0)


class NoValueError(UserError):
    """A log without a single value of what is judged: its run wrote none."""


@dataclass(frozen=True)
class Log:
    """Points (step, column -> number) up to the last one of the judged metric.

    Their steps never decrease. notes: what was left out, a line each.
    """

    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()

    @property
    def last(self) -> int:
        """The last step."""
        return self.points[-1][0]


def find(pattern: str) -> Path | None:
    """Return the file or folder of a name that may have * in it; None where there is none yet.

    Of event files it is the folder that they stand in. Raises UserError where there are several.
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
    inside = tensorboard.folders(logs[0])
    if len(inside) > 1:
        raise UserError(f"several folders in '{logs[0].name}' have event files: name one")
    return inside[0] if inside else None


def read(
    path: Path,
    metric: str,
    step: str | None = None,
    *,
    restarts: int = 0,
    events: tensorboard.Events | None = None,
    rows: Sequence[Row] | None = None,
) -> Log:
    """Read a log whose column `metric` is judged.

    Its steps are those of the rows that have the metric; other rows stand beside them. Where its
    fields are empty from before the last tenth on, and were not as long before, they are NaN, as
    tables write it. step: the column that counts; without one, rows are counted from 1. restarts:
    how often the training was taken up again: so often the steps may go back, and what was written
    beyond is then forgotten. events, rows: of a folder of event files, or of a file, what was read
    before. Raises NoValueError where the metric has none, UserError, in a line, for whatever cannot
    be read.
    """
    notes: list[str] = []
    rows = rows or list(_rows(path, metric, notes, events=events))
    step = STEP if path.is_dir() else step
    names = {name: None for row in rows for name in (*row.numbers, *row.other)}
    if not rows:
        empty = path.is_dir() or not path.stat().st_size
        why = "is empty" if empty else "has nothing that is read as a value"
        raise NoValueError(f"'{path.name}' {why}: it has no {metric}")
    for name in filter(None, (step, metric)):
        if name not in names:
            raise unknown(f"column of '{path.name}'", name, names)
    _require_names(path.name, names)
    own, others, fields = _points(rows, metric, step, restarts)
    if not own:
        raise NoValueError(f"'{path.name}' has no value of {metric}")
    reached = max(points[-1][0] for points in (own, fields, others) if points)
    if step and not path.is_dir() and is_cut(own[-1][0], reached):
        notes.append(f"{metric}: the last value is at step {own[-1][0]:,} of {reached:,}")
    if is_cut(own[-1][0], fields[-1][0]):
        tail = diverged_from([row[metric] for _, row in fields]) or len(fields)
        missing = [point for point in fields[tail:] if point[0] > own[-1][0]]
        own += missing if len(missing) > 1 else []  # one may be a summary
    beside = [point for point in others if point[0] <= own[-1][0]]
    return Log(tuple(sorted([*beside, *own], key=_at)), tuple(notes))


def _points(
    rows: Iterable[Row], metric: str, step: str | None, restarts: int
) -> tuple[list[Point], list[Point], list[Point]]:
    """Return the points of rows with the metric, of other rows, and of rows with its field."""
    own: list[Point] = []
    others: list[Point] = []
    fields: list[Point] = []  # of the rows that have a field for the metric
    left_out = {step, STEP} - {metric}
    for row in rows:
        if metric in row.other:
            raise UserError(f"{row.place}: {metric} must be a number, not '{row.other[metric]}'")
        values = {name: value for name, value in row.numbers.items() if name not in left_out}
        if metric not in row.numbers:
            at = len(own) + 1 if step is None else _whole(row.numbers.get(step, math.nan))
            if at is not None and values:
                others.append((at, values))
            if metric in row.empty:
                at = len(fields) + 1 if step is None else at
                fields += [(at, {metric: math.nan})] if at is not None else []
            continue
        at = len(own) + 1 if step is None else _step_of(row, step)
        if own and (at < own[-1][0] or (at == own[-1][0] and not row.repeats)):
            if not restarts:
                raise UserError(f"{row.place}: {_repeated(own[-1][0], at, metric, step)}")
            restarts -= 1
            del own[bisect_left(own, at, key=_at) :]
            others = [point for point in others if point[0] < at]
            fields = [point for point in fields if point[0] < at]
        own.append((at, values))
        fields.append((at, values))
    return own, others, fields


def _repeated(before: int, at: int, metric: str, step: str | None) -> str:
    if at < before:
        return f"{step} goes back from {before:,} to {at:,}: is that two runs in one file?"
    return (
        f"a second value of {metric} at step {at:,}: write one row for each step, such as the "
        f"rows of the evaluation alone"
    )


def rows(path: Path) -> list[Row]:
    """Return the rows of a table or of JSON lines, in the order written.

    Raises UserError, OSError.
    """
    return list(_rows(path, "", printed=False))


def latest(
    path: Path, metric: str, step: str | None, events: tensorboard.Events | None = None
) -> tuple[int, float | None] | None:
    """Return the last step of a log that is being written, and its last value.

    None where that cannot be said yet. Reads the end of the file alone, where the format allows
    that; of event files what was written since `events` was read.
    """
    try:
        if path.is_dir():
            return _latest_event(events or tensorboard.Events(path), metric)
        rows = list(_rows(path, metric, tail=True))
    except (OSError, UserError):
        return None
    steps = [_whole(row.numbers[step]) for row in rows if step in row.numbers] if step else []
    reached = [at for at in steps if at is not None]
    values = [row.numbers[metric] for row in rows if metric in row.numbers]
    if not reached and not values:
        return None
    last = values[-1] if values else math.nan
    return max(reached[-1:], default=0), last if math.isfinite(last) else None


def _latest_event(events: tensorboard.Events, metric: str) -> tuple[int, float | None] | None:
    with _errors_of(events.folder):
        events.read_on()
    if (last := events.last(metric)) is None:
        return None
    step, value = last
    return _whole(step) or 0, None if value is None or not math.isfinite(value) else value


def _whole(value: float) -> int | None:
    return int(value) if 0 <= value <= numbers.MOST and value == int(value) else None


def _step_of(row: Row, step: str) -> int:
    if step not in row.numbers:
        wrong = f"not '{row.other[step]}'" if step in row.other else "and is left out"
        raise UserError(f"{row.place}: {step} must be a whole number, {wrong}")
    at = _whole(row.numbers[step])
    if at is None:
        value = row.numbers[step]
        most = f" up to {numbers.MOST:,}" if value > numbers.MOST else ""
        raise UserError(f"{row.place}: {step} must be a whole number{most}, not {value:g}")
    return at


def _require_names(file: str, names: Iterable[str]) -> None:
    """Raise UserError for a column that no file can keep: a zero byte, half a character."""
    for name in names:
        if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
            raise UserError(f"'{file}' has a column whose name is no text: {name!a:.60}")


def _rows(
    path: Path,
    metric: str,
    notes: list[str] | None = None,
    *,
    tail: bool = False,
    events: tensorboard.Events | None = None,
    printed: bool = True,
) -> Iterator[Row]:
    """Yield rows in the order written. tail: those near the end are enough. printed: see `rows_of`.

    Raises UserError for whatever a file of others' may hold, OSError where it cannot be read.
    """
    if not path.is_dir() and not path.is_file():
        raise UserError(f"'{path.name}' is neither a file nor a folder")
    with _errors_of(path):
        if path.is_dir():
            yield from _of_events(events or tensorboard.Events(path), metric, notes)
        else:
            yield from rows_of(File(path, tail), printed=printed)


@contextlib.contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Raise whatever goes wrong with a file of others' as a UserError in a line."""
    try:
        yield
    except (OSError, UserError):
        raise
    except Exception as error:
        why = " ".join(str(error).split())[:200]
        raise UserError(f"'{path.name}' cannot be read: {type(error).__name__}: {why}") from None


def _of_events(events: tensorboard.Events, metric: str, notes: list[str] | None) -> Iterator[Row]:
    """Yield a row per step; several, where tags have several points at it."""
    events.read_on(notes)
    rows: dict[tuple[int, int], dict[str, float]] = {}
    for tag, points in tensorboard.joined(events.parts(), metric, notes).items():
        for step, same in itertools.groupby(points, key=lambda point: point[0]):
            for nth, (_, value) in enumerate(same):
                rows.setdefault((step, nth), {})[tag] = value
    for step, nth in sorted(rows):
        values = {**rows[step, nth], STEP: float(step)}
        yield Row(f"'{events.folder.name}', step {step}", values, {}, repeats=True)
