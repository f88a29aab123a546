"""The formats of a run's log: each is a test of the file, and a function that yields its rows.

The ending of a file's name decides. A file with another ending is a table if it has a line of names
and values below them; else it is text that a command printed, which `import` does not read.
"""

from __future__ import annotations

import contextlib
import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ablations.core.decode import Json, leaves
from ablations.errors import UserError
from ablations.logs import numbers
from ablations.logs.files import TAIL_BYTES, File, arrays

RESULT = "result"  # what a number on a line of its own is called
STEP = "step"  # the name of the steps of event files
_LINES = (".jsonl", ".ndjson", ".json")
_TABLES = (".csv", ".tsv")
_DEPTH = 16  # of JSON objects in each other

# How files begin that are no logs, and what to do with them.
REFUSED = {
    b"SQLite format 3\0": "a database: write its table as CSV",
    b"PAR1": "a Parquet file: `ablations import` reads those of `ablations export`",
    b":W&B": "a W&B run's own log: take its history as CSV, wandb.Api().run(...).history()",
    b"\x89HDF": "an HDF5 file: write its columns as CSV",
    b"\x1f\x8b": "compressed: unpack it with gunzip",
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "text in UTF-16: save it in the encoding UTF-8"),
    b"#{": "a monitor file, one of the environments of one run: docs/own-runs.md joins them",
    **{
        bytes([0x80, protocol]): "a pickle, which runs code when it is read: write it as CSV"
        for protocol in range(2, 6)
    },
}


@dataclass(frozen=True)
class Row:
    """A row of a log.

    place: where it stands, in words. numbers: what is a number in it; NaN is one. empty: names
    without a value. repeats: whether other rows may have its step.
    """

    place: str
    numbers: Mapping[str, float]
    other: Mapping[str, str]
    empty: frozenset[str] = frozenset()
    repeats: bool = False


def rows_of(file: File, *, printed: bool = True) -> Iterator[Row]:
    """Yield the rows of a file, in the order written, without a line that is still being written.

    printed: text that a command printed is read as well. Raises UserError for a file that is no
    log.
    """
    for magic, what in REFUSED.items():
        if file.start.startswith(magic):
            raise UserError(f"'{file.name}' is {what}")
    if file.start.startswith(b"PK"):
        yield from _of_evaluations(file)
    elif file.ending in _LINES:
        yield from _of_json_lines(file)
    elif _is_table(file):
        yield from _of_table(file)
    elif printed:
        yield from _of_text(file)
    elif file.start:
        raise UserError(
            f"'{file.name}' is neither a table with a line of names nor JSON lines (.jsonl): "
            f"docs/own-runs.md says how to write one"
        )


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
    """Yield a row per line, but for those that repeat the names."""
    comma = separator(file.head)
    try:
        names = _fields(file.head, comma)
        for number, line in enumerate(file.lines, 1):
            fields = _fields(line, comma)
            if not fields or fields == names or not line.strip("\r\n"):
                continue
            if len(fields) != len(names):
                if not line.endswith("\n"):
                    return  # it is still being written
                raise UserError(
                    f"{file.place(number)}: {len(fields)} fields, and {len(names)} names in "
                    f"the first line"
                )
            yield _row(file.place(number), zip(names, fields, strict=True))
    except csv.Error as error:
        raise UserError(f"'{file.name}' is no CSV: {error}") from None


# JSON lines


def _of_json_lines(file: File) -> Iterator[Row]:
    for number, line in enumerate(file.lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            if not line.endswith("\n"):
                return  # it is still being written
            raise UserError(f"{file.place(number)} is no JSON: {line.strip()[:40]!r}") from None
        if isinstance(entry, dict):
            yield _row(file.place(number), leaves(entry, _DEPTH))


# Text


def _of_text(file: File) -> Iterator[Row]:
    """Yield what lines of text hold: objects of JSON, numbers alone, pairs of name and value."""
    for number, line in enumerate(file.lines, 1):
        yield from _of_line(file.place(number), line.strip(), complete=line.endswith("\n"))


def _of_line(place: str, text: str, *, complete: bool) -> Iterator[Row]:
    if not complete and "{" in text and "}" not in text.rpartition("{")[2]:
        return  # it is still being written
    entry: Json = None
    if text.startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(text)
    if isinstance(entry, dict):
        yield _row(place, leaves(entry, _DEPTH), repeats=True)
    elif numbers.number(text) is not None or numbers.is_odd(text):
        yield _row(place, [(RESULT, text)], repeats=True)
    elif pairs := numbers.pairs(text):
        yield _row(place, pairs, repeats=True)


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


def _row(place: str, fields: Iterable[tuple[str, Json]], *, repeats: bool = False) -> Row:
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
    return Row(place, values, other, frozenset(empty - seen.keys()), repeats=repeats)
