"""Read whole numbers of as many bytes as they need: of Thrift and of protocol buffers (LEB128)."""

from __future__ import annotations


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and its end. Raise IndexError where there is none."""
    value, shift = data[at], 0
    if value < 128:
        return value, at + 1
    value = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise IndexError("a number of more than ten bytes")
