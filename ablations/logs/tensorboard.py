"""Scalars of TensorBoard event files, read without TensorFlow or TensorBoard.

An event file is a sequence of TFRecords: length (uint64, little-endian), its masked CRC-32C, the
data, their masked CRC-32C. The data are an `Event` message in protocol buffers' wire format
(tensorflow/core/util/event.proto): wall_time = field 1, step = 2, summary = 5; in the summary
(summary.proto) value = field 1 with tag = 1, simple_value = 2 and tensor = 8; in a tensor
dtype = 1, tensor_content = 4, float_val = 5, double_val = 6.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from ablations.core.files import MOST_LOG, read_bytes
from ablations.errors import UserError
from ablations.logs.order import Part, Points, in_order

_FLOAT, _DOUBLE = 1, 2

Scalars = dict[str, Points]


def folders(root: Path) -> list[Path]:
    """Every folder at or under `root` that holds event files, sorted."""
    return sorted({path.parent for path in root.rglob("*tfevents*") if path.is_file()})


def read_scalars(
    folder: Path, judged: str | None = None, notes: list[str] | None = None
) -> Scalars:
    """Return tag -> (step, value) of all event files of a folder, at steps that never decrease."""
    return joined(read_files(folder, notes), judged, notes)


def read_files(folder: Path, notes: list[str] | None = None) -> dict[str, list[Part]]:
    """Return tag -> what each event file of a folder has of it, by the files' names: by their time.

    A file that ends within a record, as one does that is being written, or in zeros, as one does
    after a crash of its machine, is read up to there. notes: takes a line where that is so. Raises
    UserError for one that is no event file, or damaged.
    """
    tags: dict[str, list[Part]] = {}
    for path in sorted(folder.glob("*tfevents*")):
        if not path.is_file():
            continue
        points: Scalars = {}
        times: list[float] = []
        for record in _records(path, notes):
            step, summary = 0, b""
            for number, value in _fields(record, path):
                if number == 1 and isinstance(value, bytes) and len(value) == 8:
                    times.append(struct.unpack("<d", value)[0])
                elif number == 2 and isinstance(value, int):
                    step = value if value < 2**63 else value - 2**64
                elif number == 5 and isinstance(value, bytes):
                    summary = value
            for number, value in _fields(summary, path):
                if number == 1 and isinstance(value, bytes):
                    tag, scalar = _value(value, path)
                    if scalar is not None:
                        points.setdefault(tag, []).append((step, scalar))
        began, ended = (min(times), max(times)) if times else (0.0, 0.0)
        for tag, of_tag in points.items():
            tags.setdefault(tag, []).append(Part(path.name, of_tag, began, ended))
    return tags


def joined(
    tags: Mapping[str, list[Part]], judged: str | None = None, notes: list[str] | None = None
) -> Scalars:
    """Return the points of each tag in order, see `in_order`; notes are of the judged one.

    A tag whose steps cannot be put in order is left out, unless it is the judged one, or there is
    none: then UserError is raised.
    """
    found: Scalars = {}
    for tag, parts in tags.items():
        try:
            found[tag] = in_order(tag, parts, notes if tag == judged else None)
        except UserError as error:
            if judged in (None, tag):
                raise
            if notes is not None:
                notes.append(f"left out: {error}")
    return found


def _records(path: Path, notes: list[str] | None = None) -> Iterator[bytes]:
    data = read_bytes(path, MOST_LOG)
    written = len(data.rstrip(b"\0"))
    at = 0
    while at + 12 <= len(data):
        length, check = struct.unpack_from("<QI", data, at)
        end = at + 12 + length
        whole = _masked_crc(data[at : at + 8]) == check
        if whole and end + 4 > len(data):
            return
        record = data[at + 12 : end]
        if not whole or (_masked_crc(record),) != struct.unpack_from("<I", data, end):
            if written < min(len(data), end + 4 if whole else at + 12):
                if notes is not None:
                    notes.append(
                        f"'{path.parent.name}/{path.name}' ends in zeros, and is read up to there"
                    )
                return
            raise UserError(f"'{path}' is no TensorBoard event file, or it is damaged")
        yield record
        at = end + 4


def _value(data: bytes, path: Path) -> tuple[str, float | None]:
    tag, scalar = "", None
    for number, value in _fields(data, path):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode(errors="replace")
        elif number == 2 and isinstance(value, bytes):
            scalar = struct.unpack("<f", value)[0]
        elif number == 8 and isinstance(value, bytes):
            scalar = _tensor(value, path)
    return tag, scalar


def _tensor(data: bytes, path: Path) -> float | None:
    """The number in a tensor of one float or double; None for anything else."""
    kind, content = 0, b""
    for number, value in _fields(data, path):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number in (4, 5, 6) and isinstance(value, bytes):
            content = value
    size, code = {_FLOAT: (4, "<f"), _DOUBLE: (8, "<d")}.get(kind, (0, ""))
    return struct.unpack(code, content)[0] if size and len(content) == size else None


def _fields(data: bytes, path: Path) -> Iterator[tuple[int, int | bytes]]:
    """Field number and value of a message: an int for a varint, else its bytes."""
    at = 0
    try:
        while at < len(data):
            key, at = _varint(data, at)
            kind = key & 7
            if kind == 0:
                value, at = _varint(data, at)
                yield key >> 3, value
                continue
            if kind == 2:
                length, at = _varint(data, at)
            elif kind in (1, 5):
                length = 8 if kind == 1 else 4
            else:
                raise IndexError
            if at + length > len(data):
                raise IndexError
            yield key >> 3, data[at : at + length]
            at += length
    except IndexError:
        raise UserError(f"'{path}' holds an event that cannot be read") from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
        if shift > 63:
            raise IndexError


def _table() -> list[int]:
    """CRC-32C (Castagnoli), reflected polynomial 0x82F63B78."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC = _table()


def _masked_crc(data: bytes) -> int:
    """As TFRecords mask it: rotated right by 15 bits, plus 0xA282EAD8."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
