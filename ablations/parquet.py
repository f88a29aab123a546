"""Encodes named columns as Parquet and decodes them. The same columns give the same bytes.

A column has int64, float64, text or lists of numbers, and None for missing values.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import pyarrow

Value: TypeAlias = int | float | str | list[float | None] | None
Columns: TypeAlias = dict[str, list[Value]]


def encode(
    columns: Mapping[str, Iterable[Value]],
    about: tuple[str, str] | None = None,
    *,
    small: bool = False,
) -> bytes:
    """Return the bytes of a file with these columns, which have equal lengths.

    `about` is a name and a text for the file's metadata. `small` compresses better but slower.
    """
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({name: _array(values) for name, values in columns.items()})
    data = pyarrow.BufferOutputStream()
    how = {"compression": "zstd", "compression_level": 19} if small else {"compression": "snappy"}
    # Arrow's schema would only repeat Parquet's types.
    with pyarrow.parquet.ParquetWriter(data, table.schema, store_schema=False, **how) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(dict([about] if about else []))
    return bytes(data.getvalue())


def _array(values: Iterable[Value]) -> pyarrow.Array:
    """Return a column; one without values has real numbers."""
    import pyarrow

    array = pyarrow.array([*values])
    of_lists = pyarrow.types.is_list(array.type)
    if (array.type.value_type if of_lists else array.type) != pyarrow.null():
        return array
    return array.cast(pyarrow.list_(pyarrow.float64()) if of_lists else pyarrow.float64())


def decode(data: bytes, wanted: Container[str] | None = None) -> tuple[Columns, dict[str, str]]:
    """Return the columns of a file and the texts of its metadata. Raises ValueError if damaged.

    With `wanted`, other columns are [] and the metadata is not read.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data))
        schema = file.schema_arrow
        chosen = [name for name in schema.names if wanted is None or name in wanted]
        table = file.read(chosen, use_threads=False)
        columns: Columns = {name: [] for name in schema.names}
        columns |= {name: table.column(name).to_pylist() for name in chosen}
        about = schema.metadata if wanted is None else None
        return columns, {name.decode(): text.decode() for name, text in (about or {}).items()}
    except (pyarrow.ArrowException, OSError, KeyError, ValueError, MemoryError) as error:
        raise ValueError(f"is not a Parquet file ({type(error).__name__})") from None
