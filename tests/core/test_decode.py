"""A JSON value is its type, or the error says where it is none."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypedDict

import pyarrow
import pyarrow.parquet
import pytest

from ablations import parquet
from ablations.core import parquet_size
from ablations.core.decode import AnyFloat, Matches, Mismatch, Within, closed, decode
from ablations.core.files import Foreign, parse, read_bytes, read_json, read_toml


@dataclass(frozen=True)
class Point:
    """A dataclass to decode."""

    step: Annotated[int, Within(0, 10)]
    names: tuple[str, ...] = ()


@closed
class Strict(TypedDict):
    """A TypedDict without further keys."""

    name: str


class Open(TypedDict, total=False):
    """One with further keys."""

    name: str


DEEP = json.loads("[" * 33 + "]" * 33)
CASES = [
    (int, True, "must be a whole number"),
    (int, 2**63, "one of more than 64 bits"),
    (int, 10**400, "one of more than 64 bits"),
    (float, float("nan"), "must be a finite number"),
    (float, 10**400, "must be a whole number"),
    (str, "\ud800", "is no Unicode text"),
    (str | None, 1, "must be a text, not 1"),
    (Literal["a", "b"], "c", "must be 'a' or 'b', not 'c'"),
    (tuple[int, str], [1], "must have 2 entries, not 1"),
    (list[int], [1, "x"], "[1] must be a whole number, not 'x'"),
    (Mapping[str, int], {"a": {}}, "a must be a whole number, not an object"),
    (Mapping[Annotated[str, Matches("[0-9]+", "a seed")], int], {"x": 1}, "x must be a seed"),
    (Point, {}, "it lacks step"),
    (Point, {"step": 11}, "step must be from 0 to 10, not 11"),
    (Point, {"step": 1, "other": 2}, "it has an unknown part 'other'"),
    (Point, {"step": 1, "names": [1]}, "names[0] must be a text, not 1"),
    (Point, [], "it must be an object, not a list"),
    (Strict, {"name": "a", "x": 1}, "it has an unknown part 'x'"),
    (Open, {"x": {"y": float("inf")}}, "x.y must be a finite number"),
    (object, DEEP, "is more than 32 deep"),
    (object, {"\ud800": 1}, "is no Unicode text"),
]


@pytest.mark.parametrize(("kind", "value", "why"), CASES)
def test_what_does_not_fit_is_named_with_its_place(kind, value, why: str) -> None:
    with pytest.raises(Mismatch) as error:
        decode(kind, value)
    assert why in str(error.value)
    assert str(error.value).isascii()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Point, {"step": 3, "names": ["a"]}),
        (Open, {"name": "a", "x": [1, {"y": None}]}),
        (Mapping[str, object], {"a": {"b": [0.5]}}),
        (float, 1),
        (AnyFloat, float("inf")),
    ],
)
def test_what_fits_is_what_it_was(kind, value) -> None:
    decoded = decode(kind, value)
    assert decoded == (Point(3, ("a",)) if kind is Point else value)


def test_equal_values_of_other_types_are_told_apart() -> None:
    """What was accepted once is remembered by its bytes, and True equals 1."""
    kind = Mapping[str, int]
    assert decode(kind, {"a": 1}) == {"a": 1}
    for value in (True, 1.0):
        with pytest.raises(Mismatch):
            decode(kind, {"a": value})


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "9" * 5000, b"\xff\xfe", "nan"])
def test_what_is_no_json_is_a_mismatch(text) -> None:
    with pytest.raises(Mismatch, match="is no JSON"):
        parse(text)


def test_only_regular_files_within_bounds_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "large").write_bytes(b"00000000001"[::-1])
    for name in ("pipe", "folder", "round", "endless", "large"):
        with pytest.raises(Foreign, match=name):
            read_bytes(tmp_path / name, 10)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "nothing")
    with pytest.raises(Foreign, match=r"large' is damaged: it must be a text"):
        read_json(tmp_path / "large", str)
    for text in ("x = " + "[" * 5000, "x = " + "9" * 5000):
        (tmp_path / "deep.toml").write_text(text)
        with pytest.raises(ValueError, match=r"Error|Invalid|limit"):
            read_toml(tmp_path / "deep.toml")


# Parquet


def _file(table: pyarrow.Table, **how: object) -> bytes:
    data = io.BytesIO()
    pyarrow.parquet.write_table(table, data, **how)
    return data.getvalue()


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_sizes_are_those_that_are_there(compression: str) -> None:
    table = pyarrow.table({"step": list(range(1000)), "x": [[0.5, 1.0]] * 1000})
    data = _file(table, compression=compression, use_dictionary=False)
    assert parquet_size.require_size(data).values == 3000
    assert parquet.decode(data)[0] == table.to_pydict()


def test_what_unpacks_without_end_is_refused_before() -> None:
    many = {name: pyarrow.nulls(10_000_000, pyarrow.int64()) for name in ("step", "x")}
    text = pyarrow.array(["x" * 3_000_000] * 3).dictionary_encode().cast(pyarrow.string())
    cases = [
        (_file(pyarrow.table(many), compression="zstd"), "values, more than"),
        (_file(pyarrow.table({"a": text.take([0] * 200)})), "characters of text"),
        (_file(pyarrow.table({"a": ["x" * 17_000_000]})), "bytes of texts"),
        (_file(pyarrow.table({"a": [["x"]]})), "lists of texts"),
        (_file(pyarrow.table({"a": [1, 2]}), compression="gzip"), "compression"),
        (b"PAR1" * 4, "is no Parquet file"),
    ]
    for data, why in cases:
        with pytest.raises(ValueError, match=why):
            parquet.decode(data)


def test_readers_cannot_see_another_file_than_the_one_that_was_measured() -> None:
    """Of what they take without a look at its kind, its number or its order."""
    data = parquet.encode({"step": [1, 2, 3]})
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[start:-8]
    groups = footer[footer.index(b"\x19\x1c\x19\x1c") + 1 :]
    dictionary = re.search(rb"\x26(.)\x26(.)\x1c", footer, re.DOTALL)
    swapped = b"\x26%b\x26%b\x1c" % dictionary.groups()[::-1]
    cases = [
        ("out of order", footer[:-1] + b"\x09\x08" + groups),
        ("no Parquet", b"\x14" + footer[1:]),
        ("no Parquet", b"\x05\x28\x02" + footer[2:]),
        ("no Parquet", footer.replace(dictionary[0], swapped)),
        ("parts, more than", footer.replace(groups[:3], b"\xfc\xff\xff\x7f" + groups[1:3])),
    ]
    for why, other in cases:
        changed = data[:start] + other + len(other).to_bytes(4, "little") + b"PAR1"
        with pytest.raises(ValueError, match=why):
            parquet.decode(changed)


def test_a_page_of_zstd_is_not_taken_by_its_word() -> None:
    """A frame of blocks that each repeat a byte: 4 bytes unpack to 128 KB."""
    block = (2**17 << 3 | 1 << 1).to_bytes(3, "little") + b"x"
    frame = b"\x28\xb5\x2f\xfd\x00\x58" + block * 2000
    last = (1 | 1 << 1 | 8 << 3).to_bytes(3, "little") + b"x"
    assert parquet_size._of_zstd(frame + last) == 2000 * 2**17 + 8
    header = {1: 0, 2: 100, 3: len(frame) + len(last), 5: {1: 10, 2: 0}}
    with pytest.raises(ValueError, match="unpacks to more than it says"):
        parquet_size._unpacked(header, frame + last, parquet_size._ZSTD)
