"""Readers of log files: CSV, JSON lines, NumPy, Parquet.

A reader is a function from a `File` to rows (line, {name: value}); FORMATS maps file extensions to
readers. A value is text or a number; a missing value is None or "".
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ablations import parquet
from ablations.core.decode import Json, leaves
from ablations.core.files import read_bytes, require_regular
from ablations.errors import UserError, count
from ablations.io.printed import number
from ablations.spreadsheets import plain

Fields: TypeAlias = Mapping[str, Json]
Row: TypeAlias = tuple[int, Fields]  # line, or step, and fields
Rows: TypeAlias = Sequence[Row]

RECIPES = "docs/own-runs.md shows how to write a table with three lines of pandas"
DEPTH = 16  # of nested JSON objects

# The first bytes of files that are not read
REFUSED = {
    b"SQLite format 3\0": "a database",
    b":W&B": "a binary W&B log",
    b"\x89HDF": "an HDF5 file",
    b"\x1f\x8b": "compressed",
    b"\x80": "a pickle",
    b"#{": "a monitor file of one of a run's environments",
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "text in UTF-16"),
}


@dataclass(frozen=True)
class File:
    """A log file. `notes`: messages on skipped content."""

    path: Path
    notes: list[str] = field(default_factory=list)

    @cached_property
    def start(self) -> bytes:
        """The first bytes. Raises UserError for a file that is not a log."""
        require_regular(self.path)
        with self.path.open("rb") as file:
            start = file.read(4096)
        for magic, what in REFUSED.items():
            if start.startswith(magic):
                raise UserError(f"'{self.path}' is {what}: save it as CSV in UTF-8; {RECIPES}")
        return start

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the file, with their ends."""
        text = read_bytes(self.path).decode("utf-8-sig", errors="surrogateescape")
        # splitlines() would also split at characters that occur inside JSON strings.
        return list(io.StringIO(text, newline=None))


def rows_of(file: File) -> Iterator[Row] | None:
    """Return the rows of a file, or None if it is not a table.

    The extension decides the format. A file with another extension is a table if its first line has
    names and its second line equally many values. An incomplete last line is skipped. Raises
    UserError for a file that is not a log.
    """
    if file.start.startswith(b"PK"):
        return npz(file)
    if file.start.startswith(b"PAR1"):
        return of_parquet(file)
    read = FORMATS.get(file.path.suffix.lower())
    if read is None and _is_table(file):
        read = table
    if read is None:
        return None
    if b"\0" in file.start:
        raise UserError(f"'{file.path}' contains null bytes: save it as text in UTF-8")
    return read(file)


# Tables


def table(file: File) -> Iterator[Row]:
    """Yield a row per line of a CSV file, without lines that repeat the header."""
    repeated, records = 0, _records(file, file.lines)
    _, names = next(records, (1, []))
    if duplicates := [name for name, times in Counter(names).items() if times > 1 and name]:
        raise UserError(f"'{file.path}' has two columns '{duplicates[0]}': rename one")
    for line, fields in records:
        if not any(fields):
            continue
        if fields == names:
            repeated += 1
            continue
        if len(fields) != len(names):
            if line == len(file.lines) and not file.lines[-1].endswith("\n"):
                break  # an incomplete line
            raise UserError(
                f"'{file.path}', line {line}: {len(fields)} fields, but the header has "
                f"{len(names)} names"
            )
        yield line, dict(zip(names, fields, strict=True))
    if repeated:
        file.notes.append(f"skipped {count(repeated, 'line')} that repeat the header")


def _records(file: File, lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields; the delimiter is the most frequent of , tab ; in the header."""
    reader = csv.reader(lines, delimiter=max(",\t;", key="".join(lines[:1]).count))
    try:
        for values in reader:
            # Concatenated files may have a byte order mark in any line.
            yield reader.line_num, [plain(value.lstrip("\ufeff").strip()) for value in values]
    except csv.Error as error:
        raise UserError(f"'{file.path}' is not a valid CSV file: {error}") from None


def _is_table(file: File) -> bool:
    first = file.lines[:2]
    if re.search(r"[={]|: ", "".join(first[:1])):
        return False
    fields = [fields for _, fields in _records(file, first)]
    return (
        len(fields) == 2
        and len(fields[1]) == len(fields[0]) > 1
        and all(name and number(name) is None for name in fields[0])
        and any(number(value) is not None for value in fields[1])
    )


# JSON lines


def json_lines(file: File) -> Iterator[Row]:
    """Yield a row per line, each a JSON object; names of nested objects are joined by dots."""
    for line, text in enumerate(file.lines, 1):
        if not text.strip():
            continue
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError):
            if not text.endswith("\n"):
                return  # an incomplete line
            entry = None
        if not isinstance(entry, dict):
            raise UserError(
                f"'{file.path}', line {line} is not a JSON object: {text.strip()[:40]!r}; expected "
                f"one object per line; {RECIPES}"
            )
        fields = list(leaves(entry, DEPTH))
        if len(dict(fields)) < len(fields):
            raise UserError(f"'{file.path}', line {line} has a name with two values")
        if file.path.suffix == ".json" and any(isinstance(value, list) for _, value in fields):
            raise UserError(f"'{file.path}' is a JSON document, not JSON lines: {RECIPES}")
        yield line, dict(fields)


# Binary


def npz(file: File) -> Iterator[Row]:
    """Yield means over episodes of SB3's evaluations.npz. Raises UserError for another file.

    The file has timesteps `[n]`, and results and ep_lengths `[n, episodes]`.
    """
    try:
        with np.load(file.path, allow_pickle=False) as stored:
            arrays = {name: np.asarray(stored[name], np.float64) for name in stored.files}
    except (OSError, ValueError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile) as error:
        raise UserError(f"'{file.path}' is not a file of NumPy arrays: {error}") from None
    if "timesteps" not in arrays:
        raise UserError(f"'{file.path}' has no array 'timesteps'; it has {', '.join(arrays)}")
    length = arrays["timesteps"].size
    means = {
        name: array.reshape(length, -1).mean(axis=1).tolist()
        for name, array in arrays.items()
        if array.size and array.ndim and len(array) == length
    }
    for row in range(length):
        yield row + 1, {name: values[row] for name, values in means.items()}


def of_parquet(file: File) -> Iterator[Row]:
    """Yield the rows of a Parquet file. Raises UserError if it is damaged."""
    try:
        columns, _ = parquet.decode(read_bytes(file.path))
    except ValueError as error:
        raise UserError(f"cannot read '{file.path}': {error}") from None
    for row, values in enumerate(zip(*columns.values(), strict=True), 1):
        yield row, dict(zip(columns, values, strict=True))


FORMATS: dict[str, Callable[[File], Iterator[Row]]] = {
    ".csv": table,
    ".tsv": table,
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".json": json_lines,
    ".npz": npz,
    ".parquet": of_parquet,
}
