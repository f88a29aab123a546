"""Parquet: named columns as bytes and back. Same columns, same bytes.

A column holds int64, float64 or text, or lists of numbers, and None where there is nothing.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arro3.core import Array

Columns = dict[str, list[Any]]


def encode(
    columns: Mapping[str, Iterable[Any]],
    about: tuple[str, str] | None = None,
    compression: str = "snappy",
) -> bytes:
    """The bytes of a file with these columns, all of one length.

    about: a name and a text kept beside them; one, as the writer puts several in any order.
    """
    from arro3.core import Table
    from arro3.io import write_parquet

    arrays = [_array(list(values)) for values in columns.values()]
    data = io.BytesIO()
    write_parquet(
        Table(arrays, names=list(columns)),
        data,
        compression=compression,
        key_value_metadata=dict([about] if about else []),
        skip_arrow_metadata=True,  # the types of Parquet say it all
    )
    return data.getvalue()


def decode(data: bytes) -> tuple[Columns, dict[str, str]]:
    """The columns of a file, and the texts kept beside them.

    Check the bytes first: Parquet has no checksum, and the reader may end a process over damage.
    """
    from arro3.io import read_parquet

    try:
        table = read_parquet(data).read_all()
    except BaseException as error:  # what panics is no Exception
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError("not a Parquet file") from None
    columns: Columns = {name: list(table[name].to_pylist()) for name in table.column_names}
    return columns, {name.decode(): text.decode() for name, text in table.schema.metadata.items()}


def _array(values: Sequence[Any]) -> Array:
    from arro3.core import Array, DataType, Field, list_array

    known = [one for one in values if one is not None]
    if known and isinstance(known[0], list):
        flat = _array([*itertools.chain(*known)])
        ends = Array([0, *itertools.accumulate(map(len, known))], DataType.int32())
        lists = list_array(ends, flat, type=DataType.list(Field("element", flat.type)))
        place = itertools.count()
        return lists.take(
            Array([None if one is None else next(place) for one in values], DataType.uint32())
        )
    if known and isinstance(known[0], str):
        return Array(values, DataType.string())
    whole = known and all(isinstance(one, Integral) for one in known)
    return Array(values, DataType.int64() if whole else DataType.float64())
