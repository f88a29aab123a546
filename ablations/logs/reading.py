"""A training's own log as rows of numbers, whatever wrote it. No pandas.

The name of a file says its format: .csv and .tsv; .jsonl and .ndjson, one object per line; .json,
one object or a list of them; .npz of Stable-Baselines3's EvalCallback; a folder with TensorBoard's
event files; anything else is text, where "name: value" and "name=value" are read, and lines that
are JSON objects; a number on a line of its own is a "result". What a number is, `numbers` says.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import math
import zipfile
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from ablations.core.files import require_regular
from ablations.curve import diverged_from, is_cut
from ablations.errors import UserError, unknown
from ablations.logs import numbers, tensorboard

MOST_ARRAYS = 256_000_000  # bytes
TAIL_BYTES = 65_536
RESULT = "result"  # what a number on a line of its own is called
STEP = "step"  # what the steps of event files are called
_EVENTS = "tfevents"
_LINES = (".jsonl", ".ndjson")
_DEPTH = 16  # of JSON objects in each other

Point = tuple[int, Mapping[str, float]]
_at = itemgetter(0)


class NoValue(UserError):
    """A log without a single value of what is judged: its run wrote none."""


@dataclass(frozen=True)
class Row:
    """A row of a log.

    place: where it stands, in words. numbers: what is a number in it; NaN is one. empty: names
    without a value.
    """

    place: str
    numbers: Mapping[str, float]
    other: Mapping[str, str]
    empty: frozenset[str] = frozenset()


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
    logs = list(dict.fromkeys(each.parent if _EVENTS in each.name else each for each in paths))
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
) -> Log:
    """Read a log whose column `metric` is judged.

    Its steps are those of the rows that have the metric; other rows stand beside them. Where its
    fields are empty from before the last tenth on, and were not as long before, they are NaN, as
    tables write it. step: the column that counts; without one, rows are counted from 1. restarts:
    how often the training was taken up again: so often the steps may go back, and what was written
    beyond is then forgotten. events: of a folder of event files, what was read of it before.
    Raises NoValue where the metric has none, UserError, in a line, for whatever cannot be read.
    """
    notes: list[str] = []
    rows = list(_rows(path, metric, notes, events=events))
    step = STEP if path.is_dir() else step
    names = {name: None for row in rows for name in (*row.numbers, *row.other)}
    if not rows:
        empty = path.is_dir() or not path.stat().st_size
        why = "is empty" if empty else "has nothing that is read as a value"
        raise NoValue(f"'{path.name}' {why}: it has no {metric}")
    for name in filter(None, (step, metric)):
        if name not in names:
            raise unknown(f"column of '{path.name}'", name, names)
    _require_names(path.name, names)
    own, others, fields = _points(rows, metric, step, restarts)
    if not own:
        raise NoValue(f"'{path.name}' has no value of {metric}")
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
        if own and at < own[-1][0]:
            if not restarts:
                raise UserError(
                    f"{row.place}: {step} goes back from {own[-1][0]:,} to {at:,}: is that two "
                    f"runs in one file?"
                )
            restarts -= 1
            del own[bisect_left(own, at, key=_at) :]
            others = [point for point in others if point[0] < at]
            fields = [point for point in fields if point[0] < at]
        own.append((at, values))
        fields.append((at, values))
    return own, others, fields


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
) -> Iterator[Row]:
    """Yield rows in the order written. tail: those near the end are enough.

    Raises UserError for whatever a file of others' may hold, OSError where it cannot be read.
    """
    if not path.is_dir() and not path.is_file():
        raise UserError(f"'{path.name}' is neither a file nor a folder")
    with _errors_of(path):
        if path.is_dir():
            yield from _of_events(events or tensorboard.Events(path), metric, notes)
        else:
            require_regular(path)
            yield from _of_file(path, tail=tail)


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


def _of_file(path: Path, *, tail: bool) -> Iterator[Row]:
    kind = path.suffix.lower()
    if kind == ".npz":
        yield from _of_evaluations(path)
        return
    head, body = _text(path, tail=tail and kind != ".json")
    if kind in (".csv", ".tsv"):
        yield from _of_csv(path.name, head, body, "\t" if kind == ".tsv" else ",")
    elif kind == ".json":
        yield from _of_json(path.name, body)
    else:
        yield from _of_lines(path.name, body, strict=kind in _LINES)


def _text(path: Path, *, tail: bool) -> tuple[str, list[str]]:
    """Return the first line; the lines, or the last of them."""
    with path.open("rb") as file:
        head = file.readline()
        size = file.seek(0, io.SEEK_END)
        start = max(0, size - TAIL_BYTES) if tail else 0
        file.seek(start)
        data = file.read()
    if start:
        data = data.partition(b"\n")[2]  # what it begins with is not whole
    text = data.decode("utf-8-sig", errors="replace")
    # Not splitlines(), which also ends a line at characters that JSON has within its texts.
    return head.decode("utf-8-sig", errors="replace"), list(io.StringIO(text, newline=None))


def _of_csv(name: str, head: str, lines: list[str], comma: str) -> Iterator[Row]:
    """Yield a row per line, but for those that repeat the names or are still being written."""
    if not lines:
        return
    try:
        names = [field.strip() for field in next(csv.reader([head], delimiter=comma), [])]
        for number, line in enumerate(lines, 1):
            fields = [field.strip() for field in next(csv.reader([line], delimiter=comma), [])]
            if not fields or fields == names or not line.strip("\r\n"):
                continue
            if len(fields) != len(names):
                if number == len(lines):
                    return  # still being written
                raise UserError(
                    f"'{name}', line {number}: {len(fields)} fields, and {len(names)} names in "
                    f"the first line"
                )
            yield _row(f"'{name}', line {number}", zip(names, fields, strict=True))
    except csv.Error as error:
        raise UserError(f"'{name}' is no CSV: {error}") from None


def _of_json(name: str, lines: list[str]) -> Iterator[Row]:
    try:
        entries = json.loads("".join(lines))
    except (ValueError, RecursionError):
        yield from _of_lines(name, lines, strict=True)
        return
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries], 1):
        if not isinstance(entry, dict):
            raise UserError(f"'{name}', entry {number}: an object is needed, not {entry!r:.40}")
        yield _row(f"'{name}', entry {number}", _flat(entry))


def _of_lines(name: str, lines: list[str], *, strict: bool) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        place, text = f"'{name}', line {number}", line.strip()
        entry: Any = None
        if strict or text.startswith("{"):
            try:
                entry = json.loads(text) if text else None
            except (ValueError, RecursionError):
                if strict and line.endswith("\n"):
                    raise UserError(f"{place} is no JSON: {text[:40]!r}") from None
        if isinstance(entry, dict):
            yield _row(place, _flat(entry))
        elif not strict and (numbers.number(text) is not None or numbers.is_odd(text)):
            yield _row(place, [(RESULT, text)])
        elif not strict and (pairs := numbers.pairs(text)):
            yield _row(place, pairs)


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
        yield Row(f"'{events.folder.name}', step {step}", values, {})


def _of_evaluations(path: Path) -> Iterator[Row]:
    """Yield means of evaluations.npz: timesteps `[n]`, results, ep_lengths `[n, episodes]`."""
    import numpy as np

    try:
        with zipfile.ZipFile(path) as members:
            _require_arrays(members)
        with np.load(path, allow_pickle=False) as found:
            arrays = {name: np.asarray(found[name], np.float64) for name in found.files}
    except (OSError, ValueError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
        raise UserError(f"'{path.name}' is no file of NumPy arrays: {error}") from None
    if "timesteps" not in arrays:
        raise UserError(f"'{path.name}' has no timesteps: it has {', '.join(arrays)}")
    length = arrays["timesteps"].size
    if not length:
        return
    means = {
        name: array.reshape(length, -1).mean(axis=1)
        for name, array in arrays.items()
        if array.size and array.ndim and len(array) == length
    }
    for i in range(length):
        numbers = {name: float(array[i]) for name, array in means.items()}
        yield Row(f"'{path.name}', entry {i + 1}", numbers, {})


def _require_arrays(members: zipfile.ZipFile) -> None:
    """Raise ValueError for arrays that are larger than what is stored of them, or than a log."""
    from numpy.lib import format

    total = 0
    for about in members.infolist():
        with members.open(about) as file:
            version = format.read_magic(file)
            first = version == (1, 0)
            read = format.read_array_header_1_0 if first else format.read_array_header_2_0
            shape, _, dtype = read(file)
        size = math.prod(shape) * dtype.itemsize
        total += size
        if min(shape, default=0) < 0 or size > about.file_size or total > MOST_ARRAYS:
            raise ValueError(f"{about.filename} says that it has {size:,} bytes")


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and prefix.count(".") < _DEPTH:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _row(place: str, fields: Iterable[tuple[str, Any]]) -> Row:
    """Return a row. A name that stands there twice, with two values, has no number."""
    found: dict[str, float] = {}
    other: dict[str, str] = {}
    seen: dict[str, Any] = {}
    empty: set[str] = set()
    for name, value in fields:
        if value is None or value == "":
            empty.add(name)
            continue
        if str(seen.setdefault(name, value)) != str(value):
            other[name] = f"{seen[name]} and {value}"[:40]
            found.pop(name, None)
            continue
        number = numbers.as_number(value)
        if number is None:
            other[name] = str(value)[:40]
            number = numbers.of_a_total(other[name])
        if number is not None:
            found[name] = number
    return Row(place, found, other, frozenset(empty - seen.keys()))
