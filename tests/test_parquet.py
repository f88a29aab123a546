"""Columns as Parquet: what was written comes back, and Arrow's own reader finds the same."""

from __future__ import annotations

import contextlib
import io
import math
import random
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablations import parquet

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
    data = parquet.encode(columns, about, small=True)
    assert data == parquet.encode(columns, about, small=True)
    assert parquet.decode(data) == (columns, texts)
    table = pyarrow.parquet.ParquetFile(io.BytesIO(data)).read()
    assert table.to_pydict() == columns
    read = {name.decode(): text.decode() for name, text in (table.schema.metadata or {}).items()}
    assert read == texts
    again = io.BytesIO()
    pyarrow.parquet.write_table(table, again)
    assert parquet.decode(again.getvalue())[0] == columns


def test_what_is_no_number_and_what_is_nothing_are_two_things() -> None:
    ((nan, nothing),) = parquet.decode(parquet.encode({"x": [math.nan, None]}))[0].values()
    assert math.isnan(nan)
    assert nothing is None


@pytest.mark.parametrize("columns", [{"x": [1, "one"]}, {"x": [1], "y": [1, 2]}])
def test_columns_that_make_no_table_are_refused(columns: dict[str, list[Any]]) -> None:
    with pytest.raises((TypeError, ValueError)):
        parquet.encode(columns)


def test_only_the_columns_that_are_wanted_are_read() -> None:
    data = parquet.encode({"step": [1, 2], "a": [3, None], "a.b": [4.0, 5.0]}, ("x", "y"))
    assert parquet.decode(data, ["step", "a"]) == ({"step": [1, 2], "a": [3, None], "a.b": []}, {})


def test_damaged_bytes_are_one_line_or_values() -> None:
    dice = random.Random(0)
    data = parquet.encode({"step": list(range(50)), "x": ["a", "b"] * 25}, small=True)
    assert not parquet.decode(parquet.encode({"step": []}))[0]["step"]
    for damaged in (b"", b"PAR1" * 4, data[:-1], data[1:], data[: len(data) // 2]):
        with pytest.raises(ValueError, match="is no Parquet file"):
            parquet.decode(damaged)
    for _ in range(500):
        changed = bytearray(data)
        for _ in range(dice.randint(1, 3)):
            changed[dice.randrange(len(data))] = dice.randrange(256)
        with contextlib.suppress(ValueError):
            parquet.decode(bytes(changed))
