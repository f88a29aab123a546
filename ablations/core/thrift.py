"""Read the footer and the page headers of Parquet files, in Thrift's compact protocol.

https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift. A reader need
not check the kinds of fields, nor which of two with one number counts: only what has the fields of
the format, of its kinds and in its order, means the same to all of them. Other fields are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

from ablations.core.varint import varint

Struct = dict[int, Any]
Part: TypeAlias = "int | Shape | list[int | Shape]"

MOST_PARTS = 2**14  # of a list: row groups of a file, columns of one
_TRUTH, _BYTE, _INT16, _INT, _LONG, _TEXT, _LIST, _STRUCT = 1, 3, 4, 5, 6, 8, 9, 12


@dataclass(frozen=True, eq=False)
class Shape:
    """The fields of a struct by their numbers: a kind, another struct, or a list of either.

    short: how our own writer writes it, to be read in a fraction of the time; taken: what of it is
    then of use.
    """

    fields: Mapping[int, Part]
    short: re.Pattern[bytes] | None = None
    taken: Callable[[re.Match[bytes]], Struct] = lambda _: {}


def struct(data: bytes, at: int, shape: Shape) -> tuple[Struct, int]:
    """Return the fields of a struct by their numbers, and its end.

    Of texts there is None, and of a struct that has a `short` form only what is taken.

    Raises:
        ValueError, IndexError, KeyError: it does not have this shape.
    """
    if shape.short and (match := shape.short.match(data, at)):
        return shape.taken(match), match.end()
    return _walked(data, at, shape)


def _walked(data: bytes, at: int, shape: Shape) -> tuple[Struct, int]:
    fields: Struct = {}
    name = 0
    while kind := data[at]:
        before = name
        at += 1
        if kind > 15:
            name += kind >> 4
            kind &= 15
        else:
            name, at = _number(data, at)
        part = shape.fields[name]
        if name <= before:
            raise ValueError("has fields out of order")
        if part == _TRUTH and kind in (1, 2):  # it stands in the kind itself
            fields[name] = kind == 1
        else:
            fields[name], at = _value(data, at, kind, part)
    return fields, at + 1


def _number(data: bytes, at: int) -> tuple[int, int]:
    value, at = varint(data, at)
    return value >> 1 ^ -(value & 1), at


def _value(data: bytes, at: int, kind: int, part: Part) -> tuple[Any, int]:
    if isinstance(part, Shape):
        if kind == _STRUCT:
            return struct(data, at, part)
    elif isinstance(part, list):
        if kind == _LIST:
            return _values(data, at, part[0])
    elif kind == part != _TRUTH:
        if kind == _TEXT:
            length, at = varint(data, at)
            return None, at + length
        return (data[at], at + 1) if kind == _BYTE else _number(data, at)
    raise ValueError("is no Parquet file")


def _values(data: bytes, at: int, part: int | Shape) -> tuple[list[Any], int]:
    size, kind = data[at] >> 4, data[at] & 15
    at += 1
    if size == 15:
        size, at = varint(data, at)
    if size > MOST_PARTS:
        raise ValueError(f"has a list of {size:,} parts, more than {MOST_PARTS:,}")
    read: Callable[..., tuple[Any, int]] = partial(_value, kind=kind, part=part)
    if isinstance(part, Shape) and kind == _STRUCT:
        read = partial(struct, shape=part)
    values = []
    for _ in range(size):
        value, at = read(data, at)
        values.append(value)
    return values, at


# How our own writer writes: the heads of fields say how far each is from the one before it.

_N = rb"(?:[\x80-\xff]{0,8}+[\x00-\x7f])"
_T = b"(?:%s)" % b"|".join(b"\\x%02x.{%d}" % (n, n) for n in range(40))
_LONGS = b"(?:%s)" % b"|".join(b"\\x%x6%s{%d}" % (n, _N, n) for n in range(4))
_SHORT_STATISTICS = rb"(?:\x18W\x18W\x16N\x28W\x18W[\x11\x12]{2}|\x36N)\x00"
_SHORT_META = (
    rb"\x15(N)\x19(?:\x15N|\x25N{2}|\x35N{3})\x19\x18T\x15(N)\x16(N)\x16N\x16(N)\x26(N)"
    rb"(?:\x26(N)\x1c|\x3c)STATISTICS\x19(?:\x1cE|\x2cE{2}|\x3cE{3})"
    rb"(?:\x3c(?:\x39L|\x16N\x29L|\x29L\x19L)?\x00)?\x00"
)


def _pattern(text: bytes) -> re.Pattern[bytes]:
    for name, part in (
        (b"META", _SHORT_META),
        (b"STATISTICS", _SHORT_STATISTICS),
        (b"E", rb"(?:\x15N\x15N\x15N\x00)"),
        (b"L", _LONGS),
        (b"T", _T),
        (b"W", rb"\x08.{8}"),
        (b"N", _N),
    ):
        text = text.replace(name, part)
    return re.compile(text, re.DOTALL)


def _chunk(match: re.Match[bytes]) -> Struct:
    kind, codec, values, size, at = map(_short_number, match.groups()[:5])
    meta: Struct = {1: kind, 3: [None], 4: codec, 5: values, 7: size, 9: at}
    if match[6]:
        meta[11] = _short_number(match[6])
    return {3: meta}


@lru_cache(maxsize=4096)
def _short_number(data: bytes) -> int:
    return _number(data, 0)[0]


@lru_cache(maxsize=4096)
def _page_header(data: bytes) -> Struct:
    return _walked(data, 0, PAGE_HEADER)[0]


# The format


def _each(part: Part, *names: int) -> dict[int, Part]:
    return dict.fromkeys(names, part)


_NOTHING = Shape({})
_TIME = Shape({1: _TRUTH, 2: Shape({1: _NOTHING, 2: _NOTHING, 3: _NOTHING})})
_LOGICAL = Shape(
    _each(_NOTHING, 1, 2, 3, 4, 6, 11, 12, 13, 14, 15)
    | {5: Shape({1: _INT, 2: _INT}), 7: _TIME, 8: _TIME, 10: Shape({1: _BYTE, 2: _TRUTH})}
)
_ELEMENT = Shape(
    _each(_INT, 1, 2, 3, 5, 6, 7, 8, 9) | _each(_TEXT, 4) | _each(_LOGICAL, 10),
    _pattern(rb"(?:\x15N\x25N\x18|\x48)T(?:\x15N|\x25N\x4c\x1c\x00\x00)?\x00"),
)
_STATISTICS = Shape(
    {1: _TEXT, 2: _TEXT, 3: _LONG, 4: _LONG, 5: _TEXT, 6: _TEXT, 7: _TRUTH, 8: _TRUTH}
)
_PAIR = Shape({1: _TEXT, 2: _TEXT})
_META = Shape(
    _each(_LONG, 5, 6, 7, 9, 10, 11, 14)
    | {1: _INT, 2: [_INT], 3: [_TEXT], 4: _INT, 8: [_PAIR], 12: _STATISTICS, 15: _INT}
    | {13: [Shape({1: _INT, 2: _INT, 3: _INT})], 16: Shape({1: _LONG, 2: [_LONG], 3: [_LONG]})}
)
_CHUNK = Shape(
    {1: _TEXT, 2: _LONG, 3: _META, 4: _LONG, 5: _INT, 6: _LONG, 7: _INT},
    _pattern(rb"\x26N\x1cMETA(?:\x16N\x15N){0,2}\x00"),
    _chunk,
)
_SORTING = Shape({1: _INT, 2: _TRUTH, 3: _TRUTH})
_GROUP = Shape({1: [_CHUNK], 2: _LONG, 3: _LONG, 4: [_SORTING], 5: _LONG, 6: _LONG, 7: _INT16})
_FOOTER: dict[int, Part] = {1: _INT, 2: [_ELEMENT], 3: _LONG, 4: [_GROUP], 5: [_PAIR], 6: _TEXT}
FOOTER = Shape(_FOOTER | {7: [Shape({1: _NOTHING})]})
_PAGE = Shape(_each(_INT, 1, 2, 3, 4) | _each(_STATISTICS, 5))
_DICTIONARY_PAGE = Shape({1: _INT, 2: _INT, 3: _TRUTH})
_PAGE_2 = Shape(_each(_INT, 1, 2, 3, 4, 5, 6) | _each(_TRUTH, 7) | _each(_STATISTICS, 8))
PAGE_HEADER = Shape(
    {1: _INT, 2: _INT, 3: _INT, 4: _INT, 5: _PAGE, 6: _NOTHING, 7: _DICTIONARY_PAGE, 8: _PAGE_2},
    _pattern(
        rb"\x15(?:\x04\x15N\x15N\x4c\x15N\x15N[\x11\x12]?|\x00\x15N\x15N\x2c(?:\x15N){4})\x00\x00"
    ),
    lambda match: _page_header(match[0]),
)
