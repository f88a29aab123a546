"""A log that others wrote: its first bytes, its lines, its arrays."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ablations.core.files import MOST_LOG, read_bytes, require_regular
from ablations.errors import UserError

TAIL_BYTES = 65_536
_SNIFFED = 4096  # bytes by which a format is told
_DAMAGED = (OSError, ValueError, EOFError, MemoryError, NotImplementedError, zipfile.BadZipFile)


@dataclass(frozen=True)
class File:
    """A file of one run or of several. tail: its last lines are enough."""

    path: Path
    tail: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.path.name

    @property
    def ending(self) -> str:
        """The ending of its name, in small letters."""
        return self.path.suffix.lower()

    @cached_property
    def start(self) -> bytes:
        """The first bytes."""
        require_regular(self.path)
        with self.path.open("rb") as file:
            return file.read(_SNIFFED)

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
        if not self.tail:
            lines = _lines(read_bytes(self.path, MOST_LOG))
            return (lines or [""])[0], lines
        with self.path.open("rb") as file:
            head = file.readline()
            at = max(0, file.seek(0, io.SEEK_END) - TAIL_BYTES)
            file.seek(at)
            data = file.read()
        if at:
            data = data.partition(b"\n")[2]  # what it begins with is not whole
        return (_lines(head) or [""])[0], _lines(data)

    def place(self, line: int) -> str:
        """Return where a line stands, in words."""
        return f"'{self.name}', line {line}"


def _lines(data: bytes) -> list[str]:
    """Return lines of text, but for a mark of their encoding."""
    # Not splitlines(), which also ends a line at characters that JSON has within its texts.
    return list(io.StringIO(data.decode("utf-8-sig", errors="replace"), newline=None))


def arrays(path: Path) -> dict[str, NDArray[np.float64]]:
    """Return the arrays of numbers in an .npz file. Raises UserError."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: np.asarray(stored[name], np.float64) for name in stored.files}
    except _DAMAGED as error:
        raise UserError(f"'{path.name}' is no file of NumPy arrays: {error}") from None
