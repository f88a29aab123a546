"""A file that may be of anybody: how it begins, its lines, its value as JSON; gzip unpacked."""

from __future__ import annotations

import gzip
import io
import json
import math
import zipfile
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.lib import format
from numpy.typing import NDArray

from ablations.core.decode import Json
from ablations.core.files import MOST_LOG, require_regular
from ablations.errors import UserError

MOST_ARRAYS = 256_000_000  # bytes
TAIL_BYTES = 65_536
_SNIFFED = 4096  # bytes by which a format is told
_BLOCK = 2**20
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class File:
    """A file of one run or of several. tail: its last lines are enough, where that can be."""

    path: Path
    tail: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.path.name

    @property
    def ending(self) -> str:
        """The ending of its name, in small letters, without that of a packed file."""
        return unpacked_name(self.path).suffix.lower()

    @cached_property
    def start(self) -> bytes:
        """The first bytes, unpacked."""
        return _first(self.path, _SNIFFED)

    @cached_property
    def lines(self) -> list[str]:
        """Its lines, or the last of them."""
        return self._text[1]

    @cached_property
    def head(self) -> str:
        """Its first line."""
        return self._text[0]

    @cached_property
    def _text(self) -> tuple[str, list[str]]:
        one_document = self.start.lstrip()[:1] in (b"#", b"[") or self.ending == ".json"
        if one_document or not self.tail or unpacked_name(self.path) != self.path:
            lines = _lines(content(self.path))
            return (lines or [""])[0], lines
        with self.path.open("rb") as file:
            head = file.readline()
            at = max(0, file.seek(0, io.SEEK_END) - TAIL_BYTES)
            file.seek(at)
            data = file.read()
        if at:
            data = data.partition(b"\n")[2]  # what it begins with is not whole
        return (_lines(head) or [""])[0], _lines(data)

    @cached_property
    def json(self) -> Json:
        """Its value where it is JSON as a whole, or None."""
        if self.start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            return None
        try:
            value: Json = json.loads("".join(self.lines))
            return value
        except (ValueError, RecursionError):
            return None

    def place(self, line: int) -> str:
        """Return where a line stands, in words."""
        return f"'{self.name}', line {line}"


def unpacked_name(path: Path) -> Path:
    """Return a file's path without the ending .gz."""
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def content(path: Path, most: int = MOST_LOG) -> bytes:
    """Return the bytes of a file, unpacked. Raises UserError for more than `most`."""
    data = _first(path, most + 1)
    if len(data) > most:
        raise UserError(f"'{path.name}' unpacks to more than {most:,} bytes")
    return data


def _first(path: Path, size: int) -> bytes:
    """Return the first bytes of a regular file, unpacked where it is of gzip."""
    require_regular(path)
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
        file.seek(0)
        stream = gzip.GzipFile(fileobj=file) if packed else file
        data = bytearray()  # in blocks, as a reader asks for the memory of all that it may read
        try:
            while len(data) < size and (block := stream.read(min(size - len(data), _BLOCK))):
                data += block
            return bytes(data)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"'{path.name}' cannot be unpacked: {error}") from None


def _lines(data: bytes) -> list[str]:
    """Return lines of text, but for a mark of their encoding."""
    # Not splitlines(), which also ends a line at characters that JSON has within its texts.
    return list(io.StringIO(data.decode("utf-8-sig", errors="replace"), newline=None))


def arrays(path: Path) -> dict[str, NDArray[np.float64]]:
    """Return the arrays of numbers in an .npz file. Raises UserError."""
    try:
        with zipfile.ZipFile(path) as members:
            _require_arrays(members)
        with np.load(path, allow_pickle=False) as stored:
            return {name: np.asarray(stored[name], np.float64) for name in stored.files}
    except (OSError, ValueError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
        raise UserError(f"'{path.name}' is no file of NumPy arrays: {error}") from None


def _require_arrays(members: zipfile.ZipFile) -> None:
    """Raise ValueError for arrays that are larger than what is stored of them, or than a log."""
    total = 0
    for about in members.infolist():
        with members.open(about) as file:
            version = format.read_magic(file)
            first = version == (1, 0)
            read = format.read_array_header_1_0 if first else format.read_array_header_2_0
            shape, _, dtype = read(file)
        size = math.prod(shape) * dtype.itemsize
        total += size
        if min(shape, default=0) < 0 or size > about.file_size or total > MOST_ARRAYS:
            raise ValueError(f"{about.filename} says that it has {size:,} bytes")
