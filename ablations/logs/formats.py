"""The formats of a run's log: each is a test of its content, and a function that yields its rows.

A file is told by how it begins. Its ending decides only where that leaves a doubt: a file called
.csv is a table, one called .jsonl has an object on every line.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ablations.core.files import MOST_LOG, require_regular
from ablations.errors import UserError
from ablations.logs import numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_ARRAYS = 256_000_000  # bytes
TAIL_BYTES = 65_536
RESULT = "result"  # what a number on a line of its own is called
STEP = "step"  # what steps are called where the format has no name for them
SNIFFED = 4096  # bytes by which a format is told
_GZIP = b"\x1f\x8b"
_LINES = (".jsonl", ".ndjson", ".json")
_TABLES = (".csv", ".tsv")
_DEPTH = 16  # of JSON objects in each other
_WIDEST = 500  # characters of a line of a table in text
_CELLS = re.compile(r"\|( *)([^|:=]+?) *\|([^|:=]*)\|")  # of a table with two columns

# How files begin that are no logs, and what to do with them.
REFUSED = {
    b"SQLite format 3\0": "a database: `ablations import` reads those of Trackio",
    b"PAR1": "a Parquet file: `ablations import` reads those of `ablations export`",
    b":W&B": "a W&B run's own log: take its history as CSV, wandb.Api().run(...).history()",
    b"\x89HDF": "an HDF5 file: write its columns as CSV",
    **{
        bytes([0x80, protocol]): "a pickle, which runs code when it is read: write it as CSV"
        for protocol in range(2, 6)
    },
}


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
class File:
    """A file of a run, unpacked.

    start: its first bytes. head: its first line. lines: all of them, or the last ones.
    """

    path: Path
    start: bytes
    head: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name."""
        return self.path.name

    @property
    def ending(self) -> str:
        """The ending of its name, in small letters, without that of a packed file."""
        return unpacked_name(self.path).suffix.lower()

    @cached_property
    def json(self) -> Any:
        """The value of a file that is JSON as a whole, or None."""
        if not self.head.lstrip().startswith(("{", "[")):
            return None
        try:
            return json.loads("".join(self.lines))
        except (ValueError, RecursionError):
            return None

    def place(self, line: int) -> str:
        """Return where a line stands, in words."""
        return f"'{self.name}', line {line}"


class Format(NamedTuple):
    """matches: tells a file of this format. rows: yields what it holds, in the order written."""

    matches: Callable[[File], bool]
    rows: Callable[[File], Iterator[Row]]


def unpacked_name(path: Path) -> Path:
    """Return a file's path without the ending .gz."""
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _first(path: Path, size: int) -> bytes:
    """Return the first bytes of a regular file, unpacked where it is of gzip."""
    require_regular(path)
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
        file.seek(0)
        if not packed:
            return file.read(size)
        try:
            return gzip.GzipFile(fileobj=file).read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"'{path.name}' cannot be unpacked: {error}") from None


def content(path: Path, most: int = MOST_LOG) -> bytes:
    """Return the bytes of a file, unpacked. Raises UserError for more than `most`."""
    data = _first(path, most + 1)
    if len(data) > most:
        raise UserError(f"'{path.name}' unpacks to more than {most:,} bytes")
    return data


def start_of(path: Path) -> bytes:
    """Return how a file begins, unpacked. Raises UserError for one that is no log."""
    start = _first(path, SNIFFED)
    for magic, what in REFUSED.items():
        if start.startswith(magic):
            raise UserError(f"'{path.name}' is {what}")
    return start


def rows_of(path: Path, *, tail: bool = False) -> Iterator[Row]:
    """Yield the rows of a file, in the order written. tail: those near its end are enough."""
    start = start_of(path)
    if start.startswith(b"PK"):
        yield from _of_evaluations(path)
        return
    whole = not tail or start.lstrip()[:1] in (b"#", b"[") or unpacked_name(path) != path
    head, lines = _text(path, tail=not whole and path.suffix.lower() != ".json")
    file = File(path, start, head, lines)
    yield from next(each for each in FORMATS if each.matches(file)).rows(file)


def _text(path: Path, *, tail: bool) -> tuple[str, list[str]]:
    """Return the first line; the lines, or the last of them."""
    if not tail:
        data = content(path)
        head = data.partition(b"\n")[0]
    else:
        with path.open("rb") as raw:
            head = raw.readline()
            start = max(0, raw.seek(0, io.SEEK_END) - TAIL_BYTES)
            raw.seek(start)
            data = raw.read()
        if start:
            data = data.partition(b"\n")[2]  # what it begins with is not whole
    text = data.decode("utf-8-sig", errors="replace")
    # Not splitlines(), which also ends a line at characters that JSON has within its texts.
    lines = list(io.StringIO(text, newline=None))
    return (lines[:1] or [""])[0] if not tail else head.decode("utf-8-sig", errors="replace"), lines


# Tables


def separator(head: str) -> str:
    """Return what parts the names in the first line of a table: a comma, a tab or a semicolon."""
    return max(",\t;", key=head.count)


def _is_table(file: File) -> bool:
    """Return whether a file has a line of names, and one of as many fields below it."""
    if file.ending in _TABLES:
        return True
    first = [file.head, *file.lines[1:2]]
    if any(len(line) > TAIL_BYTES for line in first) or re.search(r"[={]|: ", file.head):
        return False
    comma = separator(file.head)
    names, *rows = (_fields(line, comma) for line in first)
    return (
        len(names) > 1
        and all(name and numbers.number(name) is None for name in names)
        and [len(row) for row in rows] == [len(names)]
        and any(numbers.number(value) is not None for value in rows[0])
    )


def _fields(line: str, comma: str) -> list[str]:
    return [value.strip() for value in next(csv.reader([line], delimiter=comma), [])]


def _of_table(file: File) -> Iterator[Row]:
    return _of_csv(file, file.head, 1)


def _of_csv(file: File, head: str, first: int) -> Iterator[Row]:
    """Yield a row per line, but for those that repeat the names or are still being written.

    first: the number of the first of the lines.
    """
    if not file.lines:
        return
    comma = separator(head)
    try:
        names = _fields(head, comma)
        for number, line in enumerate(file.lines[first - 1 :], first):
            fields = _fields(line, comma)
            if not fields or fields == names or not line.strip("\r\n"):
                continue
            if len(fields) != len(names):
                if number == len(file.lines):
                    return  # still being written
                raise UserError(
                    f"{file.place(number)}: {len(fields)} fields, and {len(names)} names in "
                    f"the first line"
                )
            yield _row(file.place(number), zip(names, fields, strict=True))
    except csv.Error as error:
        raise UserError(f"'{file.name}' is no CSV: {error}") from None


def _is_monitor(file: File) -> bool:
    return bool(re.match(r"#\s*\{", file.head)) and len(file.lines) > 1


def _of_monitor(file: File) -> Iterator[Row]:
    """Yield the episodes of Stable-Baselines3's monitor.csv: return r, length l, time t.

    An episode's step is the sum of the lengths up to its end; the first line has the environment.
    """
    try:
        about = json.loads(file.head.lstrip("#"))
    except (ValueError, RecursionError):
        raise UserError(f"{file.place(1)} is no JSON: {file.head.strip()[:40]!r}") from None
    own = [("env_id", about["env_id"])] if isinstance(about, dict) and about.get("env_id") else []
    total = 0.0
    for row in _of_csv(file, file.lines[1], 3):
        total += row.numbers.get("l", math.nan)
        fields = [*own, *row.numbers.items(), *row.other.items()]
        yield _row(row.place, [(STEP, total), *(pair for pair in fields if pair[0] != STEP)])


# JSON


def _is_json(file: File) -> bool:
    value = None if file.ending in _LINES[:2] else file.json
    some = value if isinstance(value, list) else [value]
    return any(isinstance(entry, dict) for entry in some) or (bool(value) and file.ending in _LINES)


def _of_json(file: File) -> Iterator[Row]:
    """Yield a row per object of a list, such as `log_history` of Hugging Face, or the only one."""
    entries = file.json
    if isinstance(entries, dict) and isinstance(entries.get("log_history"), list):
        entries = entries["log_history"]
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries], 1):
        place = f"'{file.name}', entry {number}"
        if not isinstance(entry, dict):
            raise UserError(f"{place}: an object is needed, not {entry!r:.40}")
        yield _row(place, _flat(entry))


def _of_json_lines(file: File) -> Iterator[Row]:
    for number, line in enumerate(file.lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            if not line.endswith("\n"):
                return  # still being written
            raise UserError(f"{file.place(number)} is no JSON: {line.strip()[:40]!r}") from None
        if isinstance(entry, dict):
            yield _row(file.place(number), _flat(entry))


# Text


def _of_text(file: File) -> Iterator[Row]:
    """Yield what lines of text hold: objects of JSON, numbers alone, pairs of name and value.

    The lines of a table with two columns, as Stable-Baselines3 prints them, are a row together.
    """
    table: list[tuple[str, str]] = []
    group = ""
    for number, line in enumerate(file.lines, 1):
        text = line.strip()
        if len(text) < _WIDEST and (cells := _CELLS.fullmatch(text)):
            indented, name, value = len(cells[1]) > 1, cells[2], cells[3].strip()
            group = group if indented else name if name.endswith("/") else ""
            table += [(group * indented + name, value)] if value else []
            continue
        if table:
            yield _row(file.place(number - 1), table)
            table = []
        yield from _of_line(file.place(number), text, whole=line.endswith("\n"))


def _of_line(place: str, text: str, *, whole: bool) -> Iterator[Row]:
    if not whole and "{" in text and "}" not in text.rpartition("{")[2]:
        return  # still being written
    entry: Any = None
    if text.startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(text)
    if isinstance(entry, dict):
        yield _row(place, _flat(entry))
    elif numbers.number(text) is not None or numbers.is_odd(text):
        yield _row(place, [(RESULT, text)])
    elif pairs := numbers.pairs(text):
        yield _row(place, pairs)


FORMATS = (
    Format(_is_monitor, _of_monitor),
    Format(_is_json, _of_json),
    Format(lambda file: file.ending in _LINES, _of_json_lines),
    Format(_is_table, _of_table),
    Format(lambda file: True, _of_text),
)


# NumPy


def arrays(path: Path) -> dict[str, NDArray[np.float64]]:
    """Return the arrays of numbers in an .npz file. Raises UserError."""
    import numpy as np

    try:
        with zipfile.ZipFile(path) as members:
            _require_arrays(members)
        with np.load(path, allow_pickle=False) as found:
            return {name: np.asarray(found[name], np.float64) for name in found.files}
    except (OSError, ValueError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
        raise UserError(f"'{path.name}' is no file of NumPy arrays: {error}") from None


def _of_evaluations(path: Path) -> Iterator[Row]:
    """Yield means of evaluations.npz: timesteps `[n]`, results, ep_lengths `[n, episodes]`."""
    members = arrays(path)
    if "timesteps" not in members:
        raise UserError(f"'{path.name}' has no timesteps: it has {', '.join(members)}")
    length = members["timesteps"].size
    if not length:
        return
    means = {
        name: array.reshape(length, -1).mean(axis=1)
        for name, array in members.items()
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
