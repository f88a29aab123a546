"""Readers of log files.

A reader is a function from a path to a data frame with a row per line; FORMATS has the reader of
each ending or name. The index has the numbers of the lines. A cell is text or a number, with the
text "nan" for NaN. None is a field without a value, and NaN a line without the field.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ablations import parquet
from ablations.core.decode import Json, leaves
from ablations.core.files import read_bytes
from ablations.errors import UserError

Bools: TypeAlias = NDArray[np.bool_]

RECIPES = "docs/own-runs.md shows how to write a table with three lines of pandas"
RESULT = "result"  # the name of a number on a line of its own


def read(path: Path) -> pd.DataFrame | None:
    """Return the rows of a file by the format of its name, or None if that is unknown."""
    reader = FORMATS.get(path.name) or FORMATS.get(path.suffix.lower())
    return reader and reader(path)


def rows_of(rows: Mapping[int, Mapping[str, Json]]) -> pd.DataFrame:
    """Return the rows of lines, by their number."""
    return pd.DataFrame([*rows.values()], index=[*rows], dtype=object)


def _text(path: Path) -> str:
    data = read_bytes(path)
    if data.startswith(b"#{"):
        raise UserError(
            f"'{path}' is a monitor file of one of the environments of one run; {RECIPES}"
        )
    with contextlib.suppress(UnicodeDecodeError):
        if "\0" not in (text := data.decode("utf-8-sig")):
            return text
    raise UserError(f"'{path}' is not text in UTF-8: save it as CSV in UTF-8; {RECIPES}")


# Tables


def table(path: Path) -> pd.DataFrame:
    """Read a CSV file, without an incomplete last line and lines that repeat the header.

    The delimiter is the most frequent of comma, tab and semicolon in the header.
    """
    text = _text(path)
    lines = io.StringIO(text, newline=None)
    delimiter = max(",\t;", key=lines.readline().count)
    lines.seek(0)
    reader = csv.reader(lines, delimiter=delimiter)
    records: dict[int, list[str]] = {}
    try:
        for fields in reader:  # concatenated files may have a byte order mark in any line
            records[reader.line_num] = [text.lstrip("\ufeff").strip() for text in fields]
    except csv.Error as error:
        raise UserError(f"'{path}' is not a valid CSV file: {error}") from None
    names = next(iter(records.values()), [])
    if duplicates := [name for name in names if name and names.count(name) > 1]:
        raise UserError(f"'{path}' has two columns '{duplicates[0]}': rename one")
    if records and len([*records.values()][-1]) != len(names) and text[-1] not in "\r\n":
        records.popitem()
    records = {line: fields for line, fields in records.items() if any(fields) and fields != names}
    for line, fields in records.items():
        if len(fields) != len(names):
            why = f"{len(fields)} fields, but the header has {len(names)} names"
            raise UserError(f"'{path}', line {line}: {why}")
    frame = pd.DataFrame([*records.values()], index=[*records], columns=names, dtype=object)
    return frame.drop(columns="", errors="ignore")


def json_lines(path: Path) -> pd.DataFrame:
    """Read a JSON object per line, without an incomplete last line; dots join nested names."""
    rows, lines = {}, _text(path).split("\n")
    for line, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            rows[line] = dict(leaves(json.loads(text, parse_constant=str)))
        except (ValueError, AttributeError, RecursionError) as error:
            if line == len(lines) and isinstance(error, ValueError):
                break
            raise UserError(
                f"'{path}', line {line} is not a JSON object: {text.strip()[:40]!r}; expected one "
                f"object per line; {RECIPES}"
            ) from None
    return rows_of(rows)


def npz(path: Path) -> pd.DataFrame:
    """Read SB3's evaluations.npz: timesteps `[n]`; other arrays `[n, episodes]`, as means."""
    try:
        with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as stored:
            arrays = {name: np.asarray(stored[name], np.float64) for name in stored.files}
    except (OSError, ValueError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile) as error:
        raise UserError(f"'{path}' is not a file of NumPy arrays: {error}") from None
    if "timesteps" not in arrays:
        raise UserError(f"'{path}' has no array 'timesteps'; it has {', '.join(arrays)}")
    length = arrays["timesteps"].size
    return _columns(
        {
            name: array.reshape(length, -1).mean(axis=1).tolist()
            for name, array in arrays.items()
            if array.size and array.ndim and len(array) == length
        }
    )


def of_parquet(path: Path) -> pd.DataFrame:
    """Read a Parquet file."""
    try:
        return _columns(parquet.decode(read_bytes(path))[0])
    except ValueError as error:
        raise UserError(f"cannot read '{path}': {error}") from None


def _columns(columns: Mapping[str, Iterable[Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            name: pd.Series(["nan" if value != value else value for value in values], dtype=object)
            for name, values in columns.items()
        }
    )
    return frame.set_axis(frame.index + 1)


FORMATS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": table,
    ".tsv": table,
    "progress.txt": table,  # of Spinning Up
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".json": json_lines,
    ".npz": npz,
    ".parquet": of_parquet,
}


# Printed lines

_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:(?:,\d{3}){2,}(?:\.\d*)?|,\d{3}\.\d+)")
# How a value starts: like a number, or like an array as Python prints it.
_START = r"['\"]?(?:[\w.]*[(\[]+)?[-+\u2212]?(?:\.?\d|(?i:nan|inf(?:inity)?)(?!\w))"
_VALUE = re.compile(rf"[:=][ \t]{{0,9}}(?={_START})([^\s,;|]+(?:,\d[^\s,;|]*)*)", re.ASCII)
_COUNTER = re.compile(
    r"\W*(epoch|iteration|iter|episode|update|step|timestep|batch|round|trial|generation)"
    r"[ \t]+#?(\d+)(?:[ \t]?/[ \t]?\d+)?(?![\w.])[\]):|,;-]*",
    re.IGNORECASE,
)
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RATE = re.compile(r"[^\s,\]]{0,20}(?:it/s|s/it)")  # of a progress bar
_WORD = re.compile(r"\S*[^\W\d_]\S*")
_SPREAD = re.compile(r"±|\+/?-")  # 9.5±0.1
_SEPARATOR = re.compile(r"[,;|]\s")
_LONGEST = 200  # letters of a name


def number(value: Json) -> float | None:
    """Return a text or JSON value as a number, or None.

    A number is decimal, with or without an exponent, or NaN or an infinity. Commas may group
    thousands if they cannot be decimal commas: 1,234,567 and 9,839.45, but not 9,125.
    """
    if isinstance(value, str):
        value = value.replace("\u2212", "-").strip()
        value = value.replace(",", "") if _GROUPED.fullmatch(value) else value
    elif not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except ValueError:
        return None


def printed(path: Path) -> pd.DataFrame:
    """Read lines that a command printed: pairs `name: value`, JSON objects, and lone numbers.

    The column "" has the first words of a line.
    """
    rows: dict[int, Mapping[str, Json]] = {}
    lines = io.StringIO(read_bytes(path).decode("utf-8-sig", errors="replace"), newline=None)
    for line, text in enumerate(lines, 1):
        if not text.endswith("\n") and "{" in text and "}" not in text.rpartition("{")[2]:
            break  # an incomplete line
        stripped, entry = text.strip(), None
        if stripped.startswith("{"):
            with contextlib.suppress(ValueError, RecursionError):
                entry = dict(leaves(json.loads(stripped, parse_constant=str)))
        if entry is not None:
            rows[line] = {"": "", **entry}
        elif number(stripped) is not None:
            rows[line] = {"": "", RESULT: stripped}
        elif (":" in stripped or "=" in stripped) and (named := pairs(stripped)):
            rows[line] = named
    return rows_of(rows)


def pairs(line: str) -> dict[str, str]:
    """Return the pairs `name: value` and `name=value` of a line, and its first words under "".

    A name is all text after the previous value and its comma, without leading numbers and
    punctuation: "train return" and "eval return" are two names. Of a quoted name the quotes are
    dropped. "Epoch 3:" at the start is a pair. A value that starts like a number but is not one
    stays as it is, and so do two values of one name. In "eval step: 1 return: 5" the first word is
    "eval".
    """
    line = _COLOUR.sub("", line) if "\x1b" in line else line
    line = _RATE.sub("", line) if "it/s" in line or "s/it" in line else line
    named: dict[str, str] = {}
    at, heading = 0, None
    if counter := _COUNTER.match(line):
        named[counter[1]] = counter[2]
        at = counter.end()
    for match in _VALUE.finditer(line, at):
        text, at = line[max(at, match.start() - 2 * _LONGEST) : match.start()].rstrip(), match.end()
        if heading is not None:
            text = _SEPARATOR.split(text)[-1]
        if text.endswith(("'", '"')):
            before, _, name = text[:-1].rpartition(text[-1])
        else:
            first = _WORD.search(text)
            name = " ".join(text[first.start() :].split()).lstrip(",;|&({") if first else ""
            before = name.rpartition(" ")[0]
        if not name or len(name) > _LONGEST:
            continue
        if heading is None:  # words with digits differ from line to line
            words = before.split()
            heading = " ".join(w for w in words if _WORD.match(w) and not re.search(r"\d", w))
        token = _SPREAD.split(match[1])[0].rstrip(".:!?*>)}'\"").lstrip("'\"")
        token = token.strip("[]") if token.endswith("]") else token
        value = match[1] if number(token) is None else token
        known = named.setdefault(name, value)
        if known != value and number(known) != number(value):
            named[name] = f"{known} and {value}"
    return {"": heading or "", **named} if named else {}


# Columns

MOST = 2**53  # beyond it float64 skips whole numbers
# Texts for a missing number.
BLANK = {"", "null", "NULL", "None", "NA", "N/A", "n/a", "<NA>", "#N/A"}


def is_logged(column: pd.Series) -> Bools:
    """Return which lines have the field."""
    return np.array([value is None or value == value for value in column], np.bool_)


def is_blank(column: pd.Series) -> Bools:
    """Return which lines lack a value of the field."""
    blank = (v is None or v != v or (isinstance(v, str) and v in BLANK) for v in column)
    return np.fromiter(blank, np.bool_, len(column))


def is_text(column: pd.Series) -> Bools:
    """Return which lines have a value that is not a number."""
    return ~is_blank(column) & np.array([number(value) is None for value in column], np.bool_)


def floats(column: pd.Series) -> NDArray[np.float64]:
    """Return a column as numbers (NaN: blank or text)."""
    read = [number(value) for value in column]
    return np.array([math.nan if value is None else value for value in read], np.float64)


def are_whole(values: NDArray[np.float64]) -> Bools:
    """Return which numbers are whole, not negative, and exact in float64."""
    with np.errstate(invalid="ignore"):
        whole: Bools = (values >= 0) & (values <= MOST) & (values % 1 == 0)
    return whole
