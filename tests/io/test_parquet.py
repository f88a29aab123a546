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

    def column() -> list[Any]:
        values = st.none() | draw(st.sampled_from(CONTENTS))
        return draw(st.lists(values, min_size=rows, max_size=rows))

    names = draw(st.lists(NAMES, unique=True, min_size=1, max_size=5))
    return {name: column() for name in names}


@settings(deadline=None)
@given(tables(), st.none() | st.tuples(NAMES, st.text()))
def test_columns_come_back_and_others_read_them(columns, about: tuple[str, str] | None) -> None:
    data = parquet.encode(columns, about, small=True)
    assert data == parquet.encode(columns, about, small=True)
    assert parquet.decode(data) == (columns, dict([about] if about else []))
    table = pyarrow.parquet.ParquetFile(io.BytesIO(data)).read()
    assert table.to_pydict() == columns
    again = io.BytesIO()
    pyarrow.parquet.write_table(table, again)
    assert parquet.decode(again.getvalue())[0] == columns


def test_nan_is_not_nothing_and_columns_are_of_one_length_and_kind() -> None:
    ((nan, nothing),) = parquet.decode(parquet.encode({"x": [math.nan, None]}))[0].values()
    assert math.isnan(nan)
    assert nothing is None
    for columns in ({"x": [1, "one"]}, {"x": [1], "y": [1, 2]}):
        with pytest.raises((TypeError, ValueError)):
            parquet.encode(columns)


def test_damaged_bytes_are_one_line_or_values() -> None:
    dice = random.Random(0)
    columns = {"step": list(range(50)), "x": ["a", "b"] * 25, "x.y": [0.5] * 50}
    data = parquet.encode(columns, ("x", "y"), small=True)
    assert parquet.decode(data, ["step", "x"]) == (columns | {"x.y": []}, {})
    for damaged in (b"", b"PAR1" * 4, data[:-1], data[1:], data[: len(data) // 2]):
        with pytest.raises(ValueError, match="is not a Parquet file"):
            parquet.decode(damaged)
    for _ in range(500):
        changed = bytearray(data)
        for _ in range(dice.randint(1, 3)):
            changed[dice.randrange(len(data))] = dice.randrange(256)
        with contextlib.suppress(ValueError):
            parquet.decode(bytes(changed))
