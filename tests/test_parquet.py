"""Columns as Parquet: what was written comes back, and Arrow's own reader finds the same."""

from __future__ import annotations

import io
import math
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablations import parquet
from ablations.core import thrift

REALS = st.floats(allow_nan=False)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
CONTENTS = (REALS, INTEGERS, st.text(), st.lists(INTEGERS), st.lists(st.none() | REALS))


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[Any]]:
    rows = draw(st.integers(0, 8))
    names = draw(st.lists(NAMES, unique=True, min_size=1, max_size=5))
    return {
        name: draw(
            st.lists(st.none() | draw(st.sampled_from(CONTENTS)), min_size=rows, max_size=rows)
        )
        for name in names
    }


@settings(deadline=None)
@given(tables(), st.none() | st.tuples(NAMES, st.text()))
def test_columns_come_back_and_others_read_them(
    columns: dict[str, list[Any]], about: tuple[str, str] | None
) -> None:
    texts = dict([about] if about else [])
    data = parquet.encode(columns, about, "zstd(19)")
    assert data == parquet.encode(columns, about, "zstd(19)")
    assert parquet.decode(data) == (columns, texts)
    table = pyarrow.parquet.ParquetFile(io.BytesIO(data)).read()
    assert table.to_pydict() == columns
    read = {name.decode(): text.decode() for name, text in (table.schema.metadata or {}).items()}
    assert read == texts
    again = io.BytesIO()
    pyarrow.parquet.write_table(table, again)
    assert parquet.decode(again.getvalue())[0] == columns


@settings(deadline=None)
@given(tables(), st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=4))
def test_what_our_writer_writes_is_read_in_short_as_at_length(
    columns: dict[str, list[Any]], changes: list[tuple[int, int]]
) -> None:
    """Where a pattern matches, also in what is no such struct, it is one, and says the same."""
    data = bytearray(parquet.encode(columns))
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    thrift._walked(bytes(data), start, thrift.FOOTER)
    for place, byte in changes:
        data[place % len(data)] = byte
    for shape in (thrift._CHUNK, thrift._ELEMENT, thrift.PAGE_HEADER):
        for match in shape.short.finditer(bytes(data)):
            fields, end = thrift._walked(bytes(data), match.start(), shape)
            taken = shape.taken(match)
            assert end == match.end()
            if shape is thrift._CHUNK:
                fields, taken = fields[3], taken[3]
            assert {name: fields.get(name) for name in taken} == taken


def test_what_is_no_number_and_what_is_nothing_are_two_things() -> None:
    ((nan, nothing),) = parquet.decode(parquet.encode({"x": [math.nan, None]}))[0].values()
    assert math.isnan(nan)
    assert nothing is None


@pytest.mark.parametrize("columns", [{"x": [1, "one"]}, {"x": [1], "y": [1, 2]}])
def test_columns_that_make_no_table_are_refused(columns: dict[str, list[Any]]) -> None:
    with pytest.raises((TypeError, ValueError)):
        parquet.encode(columns)
