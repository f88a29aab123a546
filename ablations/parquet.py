"""Encode named columns as Parquet and decode them. Same columns, same bytes.

A column holds int64, float64 or text, or lists of numbers, and None where there is nothing.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from numbers import Integral
from typing import TypeAlias

from arro3.core import Array, DataType, Field, Table, list_array
from arro3.io import read_parquet, write_parquet

from ablations.core.parquet_size import MOST_UNPACKED, ROWS_AT_ONCE, require_size

Value: TypeAlias = int | float | str | list[float | None] | None
Columns: TypeAlias = dict[str, list[Value]]


def encode(
    columns: Mapping[str, Iterable[Value]],
    about: tuple[str, str] | None = None,
    compression: str = "snappy",
) -> bytes:
    """Return the bytes of a file with these columns, all of one length.

    about: a name and a text kept beside them; one, as the writer puts several in any order.
    """
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


def decode(data: bytes, wanted: Container[str] | None = None) -> tuple[Columns, dict[str, str]]:
    """Return the columns of a file, and the texts kept beside them where all is wanted.

    Check the bytes first: Parquet has no checksum, and the reader may end a process over damage.

    Args:
        data: the file.
        wanted: the columns whose values are of use; None: all. The others have none, [].

    Raises:
        ValueError: it is damaged, or unpacks to more than `require_size` allows.
    """
    size = require_size(data)
    try:
        reader = read_parquet(data, batch_size=ROWS_AT_ONCE if size.has_texts else None)
        schema = reader.schema
        columns: Columns = {name: [] for name in schema.names}
        texts = {}
        if wanted is None:
            texts = {name.decode(): text.decode() for name, text in schema.metadata.items()}
        names = [name for name in columns if wanted is None or name in wanted]
        characters = 0
        for batch in reader:
            for name in names:
                values = batch[name].to_pylist()
                if size.has_texts:
                    characters += sum(len(text) for text in values if isinstance(text, str))
                columns[name] += values
            if characters > MOST_UNPACKED:
                raise ValueError(f"has more than {MOST_UNPACKED:,} characters of text")
    except BaseException as error:  # what panics is no Exception
        if isinstance(error, ValueError | MemoryError | KeyboardInterrupt):
            raise
        raise ValueError("is no Parquet file") from None
    return columns, texts


def _array(values: Sequence[Value]) -> Array:
    known = [one for one in values if one is not None]
    if lists := [one for one in known if isinstance(one, list)]:
        flat = _array([*itertools.chain(*lists)])
        ends = Array([0, *itertools.accumulate(map(len, lists))], DataType.int32())
        place = itertools.count()
        return list_array(ends, flat, type=DataType.list(Field("element", flat.type))).take(
            Array([None if one is None else next(place) for one in values], DataType.uint32())
        )
    if known and isinstance(known[0], str):
        return Array(values, DataType.string())
    whole = known and all(isinstance(one, Integral) for one in known)
    return Array(values, DataType.int64() if whole else DataType.float64())
