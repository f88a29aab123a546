"""The formats of a run's log: each is a test of its content, and a function that yields its rows.

A file is told by how it begins. Its ending decides only where that leaves a doubt: a file called
.csv is a table, one called .jsonl has an object on every line.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ablations.core.decode import Json
from ablations.core.encode import leaves
from ablations.errors import UserError
from ablations.logs import numbers
from ablations.logs.files import TAIL_BYTES, File, arrays

RESULT = "result"  # what a number on a line of its own is called
STEP = "step"  # what steps are called where the format has no name for them
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
    without a value. broken: a line that holds no row: cut off at the end, or no object among them.
    """

    place: str
    numbers: Mapping[str, float]
    other: Mapping[str, str]
    empty: frozenset[str] = frozenset()
    broken: bool = False


def _broken(place: str) -> Row:
    """Return the row of a line that is still being written, or that a crash left behind."""
    return Row(place, {}, {}, broken=True)


class Format(NamedTuple):
    """matches: tells a file of this format. rows: yields what it holds, in the order written."""

    matches: Callable[[File], bool]
    rows: Callable[[File], Iterator[Row]]


def rows_of(file: File) -> Iterator[Row]:
    """Yield the rows of a file, in the order written, broken ones among them.

    Raises UserError for a file that is no log.
    """
    for magic, what in REFUSED.items():
        if file.start.startswith(magic):
            raise UserError(f"'{file.name}' is {what}")
    yield from next(each for each in FORMATS if each.matches(file)).rows(file)


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
    """Yield a row per line, but for those that repeat the names.

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
                if not line.endswith("\n"):
                    yield _broken(file.place(number))
                    return
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
        if row.broken:
            yield row
            return
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
        yield _row(place, leaves(entry, _DEPTH))


def _of_json_lines(file: File) -> Iterator[Row]:
    for number, line in enumerate(file.lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            if not line.endswith("\n"):
                yield _broken(file.place(number))
                return
            raise UserError(f"{file.place(number)} is no JSON: {line.strip()[:40]!r}") from None
        place = file.place(number)
        yield _row(place, leaves(entry, _DEPTH)) if isinstance(entry, dict) else _broken(place)


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
        yield from _of_line(file.place(number), text, complete=line.endswith("\n"))


def _of_line(place: str, text: str, *, complete: bool) -> Iterator[Row]:
    if not complete and "{" in text and "}" not in text.rpartition("{")[2]:
        yield _broken(place)
        return
    entry: Json = None
    if text.startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(text)
    if isinstance(entry, dict):
        yield _row(place, leaves(entry, _DEPTH))
    elif numbers.number(text) is not None or numbers.is_odd(text):
        yield _row(place, [(RESULT, text)])
    elif pairs := numbers.pairs(text):
        yield _row(place, pairs)


def _of_evaluations(file: File) -> Iterator[Row]:
    """Yield means of evaluations.npz: timesteps `[n]`, results, ep_lengths `[n, episodes]`."""
    members = arrays(file.path)
    if "timesteps" not in members:
        raise UserError(f"'{file.name}' has no timesteps: it has {', '.join(members)}")
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
        yield Row(f"'{file.name}', entry {i + 1}", numbers, {})


def _row(place: str, fields: Iterable[tuple[str, Json]]) -> Row:
    """Return a row. A name that stands there twice, with two values, has no number."""
    values: dict[str, float] = {}
    other: dict[str, str] = {}
    seen: dict[str, Json] = {}
    empty: set[str] = set()
    for name, value in fields:
        if value is None or value == "":
            empty.add(name)
            continue
        if str(seen.setdefault(name, value)) != str(value):
            other[name] = f"{seen[name]} and {value}"[:40]
            values.pop(name, None)
            continue
        number = numbers.as_number(value)
        if number is None:
            other[name] = str(value)[:40]
            number = numbers.of_a_total(other[name])
        if number is not None:
            values[name] = number
    return Row(place, values, other, frozenset(empty - seen.keys()))


FORMATS = (
    Format(lambda file: file.start.startswith(b"PK"), _of_evaluations),
    Format(_is_monitor, _of_monitor),
    Format(_is_json, _of_json),
    Format(lambda file: file.ending in _LINES, _of_json_lines),
    Format(_is_table, _of_table),
    Format(lambda file: True, _of_text),
)
