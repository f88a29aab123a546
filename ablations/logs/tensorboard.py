"""Scalars of TensorBoard event files, read without TensorFlow or TensorBoard.

An event file is a sequence of TFRecords: length (uint64, little-endian), its masked CRC-32C, the
data, their masked CRC-32C. The data are an `Event` message in protocol buffers' wire format
(tensorflow/core/util/event.proto): wall_time = field 1, step = 2, summary = 5; in the summary
(summary.proto) value = field 1 with tag = 1, simple_value = 2 and tensor = 8; in a tensor
dtype = 1, tensor_content = 4, float_val = 5, double_val = 6.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ablations.core.files import require_regular
from ablations.errors import UserError
from ablations.logs.order import Part, Points, in_order

BLOCK_BYTES = 2**20
FEW = 32  # records of one length: their checksums are faster one by one
_FLOAT, _DOUBLE = 1, 2
_LENGTH = struct.Struct("<Q")

Scalars = dict[str, Points]


def folders(root: Path) -> list[Path]:
    """Return every folder at or under `root` that holds event files, sorted."""
    return sorted({path.parent for path in root.rglob("*tfevents*") if path.is_file()})


class Events:
    """The event files of a folder in which more may be written: each byte is read once."""

    def __init__(self, folder: Path):
        """Read nothing yet."""
        self.folder = folder
        self._files: dict[Path, _EventFile] = {}

    def read_on(self, notes: list[str] | None = None) -> None:
        """Read what was written since the last call.

        A file that ends within a record, as one does that is being written, or in zeros, as one
        does after a crash of its machine, is read up to there. notes: takes a line where that is
        so. Raises UserError for one that is no event file, or damaged.
        """
        paths = sorted(path for path in self.folder.glob("*tfevents*") if path.is_file())
        known = {path: file for path, file in self._files.items() if file.grows}
        self._files = {path: known.get(path) or _EventFile(path) for path in paths}
        for file in self._files.values():
            file.read_on(notes)

    def parts(self) -> dict[str, list[Part]]:
        """Return tag -> what each event file has of it, by the files' names: by their time."""
        tags: dict[str, list[Part]] = {}
        for path, file in self._files.items():
            for tag, points in file.points.items():
                tags.setdefault(tag, []).append(Part(path.name, points, file.began, file.ended))
        return tags

    def last(self, tag: str) -> tuple[int, float | None] | None:
        """Return the last step of the newest file and the last value of a tag; or None."""
        step, value = None, None
        for file in self._files.values():
            if file.points:
                step = max(points[-1][0] for points in file.points.values())
                value = file.points[tag][-1][1] if tag in file.points else value
        return None if step is None else (step, value)


@dataclass
class _EventFile:
    """at: how many bytes were read. began, ended: the times of the first and last event."""

    path: Path
    at: int = 0
    points: Scalars = field(default_factory=dict)
    began: float = 0.0
    ended: float = 0.0

    @property
    def grows(self) -> bool:
        """True where it is still there, and was not begun anew."""
        return self.path.is_file() and self.path.stat().st_size >= self.at

    def read_on(self, notes: list[str] | None) -> None:
        for end, record in _records(self.path, self.at, notes):
            self._take(record)
            self.at = end

    def _take(self, record: bytes) -> None:
        event = dict(_fields(record, self.path))
        if len(time := _bytes(event.get(1))) == 8:
            (at,) = struct.unpack("<d", time)
            self.began = min(self.began or at, at)
            self.ended = max(self.ended, at)
        step = _int(event.get(2))
        for number, value in _fields(_bytes(event.get(5)), self.path):
            tag, scalar = _value(_bytes(value), self.path) if number == 1 else ("", None)
            if scalar is not None:
                signed = step if step < 2**63 else step - 2**64
                self.points.setdefault(tag, []).append((signed, scalar))


def joined(
    tags: Mapping[str, list[Part]], judged: str | None = None, notes: list[str] | None = None
) -> Scalars:
    """Return the points of each tag in order, see `in_order`; notes are of the judged one.

    A tag whose steps cannot be put in order is left out, unless it is the judged one, or there is
    none: then UserError is raised.
    """
    scalars: Scalars = {}
    for tag, parts in tags.items():
        try:
            scalars[tag] = in_order(tag, parts, notes if tag == judged else None)
        except UserError as error:
            if judged in (None, tag):
                raise
            if notes is not None:
                notes.append(f"left out: {error}")
    return scalars


def _records(path: Path, at: int, notes: list[str] | None) -> Iterator[tuple[int, bytes]]:
    """Yield the whole records from a byte on, each with the byte at which the next one begins."""
    wanted = BLOCK_BYTES
    require_regular(path)
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        while at + 12 <= size:
            file.seek(at)
            data = file.read(min(wanted, size - at))
            if len(data) < min(wanted, size - at):
                return  # somebody cut it meanwhile
            spans = _spans(data)
            good = _checked(data, spans)
            for start, end in spans[:good]:
                yield at + end + 4, data[start:end]
            done = spans[good - 1][1] + 4 if good else 0
            at, rest = at + done, data[done : done + 12]
            if len(rest) < 12:
                continue
            length, check = struct.unpack("<QI", rest)
            complete = _masked_crc(rest[:8]) == check
            end = at + 16 + length if complete else at + 12
            if complete and end > size:
                return
            if complete and good == len(spans):  # it is larger than what was read
                wanted = max(BLOCK_BYTES, end - at)
                continue
            if not _is_zero(file, min(size, end) - 1):
                raise UserError(f"'{path}' is no TensorBoard event file, or it is damaged")
            if notes is not None:
                notes.append(
                    f"'{path.parent.name}/{path.name}' ends in zeros, and is read up to there"
                )
            return


def _is_zero(file: IO[bytes], at: int) -> bool:
    """Return whether a file has nothing but zeros from a byte on."""
    file.seek(at)
    return not any(block.strip(b"\0") for block in iter(lambda: file.read(BLOCK_BYTES), b""))


def _spans(data: bytes) -> list[tuple[int, int]]:
    """Return where the data of each record that lies wholly in some bytes begin and end."""
    spans, at = [], 0
    while at + 16 <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        start, at = at + 12, at + 16 + length
        if at > len(data):
            break
        spans.append((start, at - 4))
    return spans


def _checked(data: bytes, spans: list[tuple[int, int]]) -> int:
    """Return how many records, from the first on, have the checksums that they tell."""
    if not spans:
        return 0
    octets = np.frombuffer(data, np.uint8)
    starts, ends = np.array(spans).T
    stated = [octets[at[:, None] + np.arange(4)].view("<u4")[:, 0] for at in (starts - 4, ends)]
    good = _masked_crcs(octets[starts[:, None] + np.arange(-12, -4)]) == stated[0]
    lengths = ends - starts
    for length in np.unique(lengths):
        same = np.flatnonzero(lengths == length)
        if len(same) >= FEW:
            sums = _masked_crcs(octets[starts[same][:, None] + np.arange(length)])
        else:
            sums = np.array([_masked_crc(data[slice(*spans[i])]) for i in same])
        good[same] &= sums == stated[1][same]
    return len(spans) if good.all() else int(good.argmin())


def _value(data: bytes, path: Path) -> tuple[str, float | None]:
    """Return the tag of a value of a summary, and its number, if it is one."""
    value = dict(_fields(data, path))
    simple, tensor = _bytes(value.get(2)), _bytes(value.get(8))
    scalar = _tensor(tensor, path) if tensor else None
    if len(simple) == 4:
        (scalar,) = struct.unpack("<f", simple)
    return _bytes(value.get(1)).decode(errors="replace"), scalar


def _tensor(data: bytes, path: Path) -> float | None:
    """Return the number in a tensor of one float or double; None for anything else."""
    tensor = dict(_fields(data, path))
    content = next((_bytes(tensor[number]) for number in (6, 5, 4) if number in tensor), b"")
    size, code = {_FLOAT: (4, "<f"), _DOUBLE: (8, "<d")}.get(_int(tensor.get(1)), (0, ""))
    return struct.unpack(code, content)[0] if size and len(content) == size else None


def _bytes(value: int | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else b""


def _int(value: int | bytes | None) -> int:
    return value if isinstance(value, int) else 0


def _fields(data: bytes, path: Path) -> Iterator[tuple[int, int | bytes]]:
    """Yield field number and value of a message: an int for a varint, else its bytes."""
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
    """Return the number of as many bytes as it needs (LEB128), and its end. Raise IndexError."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise IndexError("a number of more than ten bytes")


def _table() -> list[int]:
    """Return the table of CRC-32C (Castagnoli), reflected polynomial 0x82F63B78."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC = _table()


def _masked_crc(data: bytes) -> int:
    """Return a checksum as TFRecords mask it: rotated right by 15 bits, plus 0xA282EAD8."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _masked_crcs(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the checksums of many records of one length, `[n, bytes]`, side by side."""
    table = np.array(_CRC, np.uint32)
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in np.ascontiguousarray(rows.T):
        crc = table[(crc ^ column) & 0xFF] ^ (crc >> 8)
    crc = ~crc
    return np.asarray(((crc >> 15) | (crc << 17)) + np.uint32(0xA282EAD8), np.uint32)
