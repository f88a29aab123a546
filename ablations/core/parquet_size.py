"""Compute the unpacked size of a Parquet file: a thousand bytes may stand for a billion rows.

Walks the headers of all pages (https://parquet.apache.org/docs/file-format) and the blocks of what
zstd compressed, without taking their word for a size, and refuses what our own files never have:
other encodings, other compressions, lists of texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ablations.core.thrift import FOOTER, PAGE_HEADER, Struct, struct
from ablations.core.varint import varint

MOST_VALUES = 2**24  # numbers of a file: as Python's, half a gigabyte
MOST_UNPACKED = 256_000_000
MOST_PAGE = 2**27  # as far as the blocks of zstd say
MOST_DICTIONARY = 16_000_000  # bytes of the texts that rows repeat
ROWS_AT_ONCE = 16  # of texts: each may repeat the longest one
_MAGIC = b"PAR1"
_TEXT, _DICTIONARY_PAGE, _INDEX_PAGE, _DATA_PAGE, _DATA_PAGE_2 = 6, 2, 1, 0, 3
_ENCODINGS = (0, 2, 3, 8)  # plain, by dictionary (twice), run lengths
_NONE, _SNAPPY, _ZSTD = 0, 1, 6
_FRAME = b"\x28\xb5\x2f\xfd"
_BLOCK = 2**17


@dataclass(frozen=True)
class Size:
    """The size of all pages of a file. texts: bytes of the dictionaries of text columns."""

    values: int
    unpacked: int
    has_texts: bool
    texts: int


def require_size(data: bytes) -> Size:
    """Return the size to which a file unpacks.

    Raises:
        ValueError: it is more than the bounds above, or the headers do not fit the file.
    """
    try:
        size = _size(data)
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError):
        raise ValueError("is no Parquet file") from None
    for name, number, most in (
        ("values", size.values, MOST_VALUES),
        ("bytes unpacked", size.unpacked, MOST_UNPACKED),
        ("bytes of texts", size.texts, MOST_DICTIONARY),
    ):
        if number > most:
            raise ValueError(f"has {number:,} {name}, more than {most:,}")
    return size


def _size(data: bytes) -> Size:
    if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise ValueError("is no Parquet file")
    length = int.from_bytes(data[-8:-4], "little")
    footer, _ = struct(data, max(len(data) - 8 - length, 4), FOOTER)
    values = unpacked = texts = 0
    has_texts = False
    for group in footer[4]:
        for chunk in group[1]:
            about = chunk[3]
            is_text = about[1] == _TEXT
            has_texts |= is_text
            if is_text and len(about[3]) > 1:  # the path of a column
                raise ValueError("has lists of texts, which are not ours")
            for header, page in _pages(data, about):
                values += _values(header)
                unpacked += _unpacked(header, page, about[4])
                if is_text and header[1] == _DICTIONARY_PAGE:
                    texts += header[2]
    if footer[3] > max(values, 0):
        raise ValueError("has more rows than values")
    return Size(values, unpacked, has_texts, texts)


def _pages(data: bytes, about: Struct) -> Iterator[tuple[Struct, bytes]]:
    """Yield the pages of a column: header and content."""
    if not about[5]:  # a column without rows has no page
        return
    at: int = about[11] if 11 in about else about[9]  # the page of a dictionary comes first
    end = at + about[7]
    if not 4 <= at <= about[9] <= end <= len(data):
        raise ValueError("is no Parquet file")
    while at < end:
        header, at = struct(data, at, PAGE_HEADER)
        if not (0 <= header[3] <= end - at and 0 <= header[2] < 2**31):
            raise ValueError("is no Parquet file")
        yield header, data[at : at + header[3]]
        at += header[3]


def _values(header: Struct) -> int:
    if header[1] == _INDEX_PAGE:
        return 0
    about = header[{_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_2: 8}[header[1]]]
    encoding = about[4 if header[1] == _DATA_PAGE_2 else 2]
    if about[1] < 0 or encoding not in _ENCODINGS:
        raise ValueError("has an encoding that is not ours")
    return int(about[1])


def _unpacked(header: Struct, page: bytes, codec: int) -> int:
    """Return the bytes of a page when it is unpacked.

    Raises:
        ValueError: they are not those that its header says.
    """
    says = int(header[2])
    levels = 0
    if header[1] == _DATA_PAGE_2:
        levels = header[8].get(5, 0) + header[8].get(6, 0)
        codec = codec if header[8].get(7, True) else _NONE
    if codec == _NONE:
        most = len(page) - levels
    elif codec == _SNAPPY:
        most, _ = varint(page, levels) if len(page) > levels else (0, 0)
    elif codec == _ZSTD:
        most = _of_zstd(page[levels:])
        most = 0 if most <= MOST_PAGE else most  # blocks may be small ones
    else:
        raise ValueError("has a compression that is not ours")
    if most > says - levels:
        raise ValueError("unpacks to more than it says")
    return says


def _of_zstd(data: bytes) -> int:
    """Return the most bytes that frames of zstd (RFC 8878) unpack to, a block to 2^17."""
    most = at = 0
    while at < len(data):
        if data[at : at + 4] != _FRAME:
            raise ValueError("has a page that zstd did not write")
        about = data[at + 4]
        single = about >> 5 & 1
        content = (single, 2, 4, 8)[about >> 6]
        at += 5 + (not single) + (0, 1, 2, 4)[about & 3] + content
        last = False
        while not last:
            block = int.from_bytes(data[at : at + 3], "little")
            if at + 3 > len(data):
                raise ValueError("has a page that ends too early")
            last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
            most += _BLOCK if kind == 2 else size
            at += 3 + (1 if kind == 1 else size)
        at += 4 * (about >> 2 & 1)
    return most
