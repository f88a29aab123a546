"""Read files that may be damaged, from another program, a pipe, or endless."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import tomllib
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from ablations.core.decode import Json, Mismatch, decode
from ablations.errors import UserError

T = TypeVar("T")

_NO_FILES = (errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ENXIO)


class SetAside(UserWarning):
    """A warning: a command skips a file for this reason."""


class Foreign(UserError):
    """A file that is damaged, not a regular file, or from another program."""


def set_aside(why: str | Exception) -> None:
    """Warn that a file is skipped. A command prints each message once."""
    warnings.warn(SetAside(str(why)), stacklevel=2)


def require_regular(path: Path | str) -> None:
    """Raise Foreign unless a path is a regular file, and OSError."""
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        if error.errno not in _NO_FILES:
            raise
        raise Foreign(f"'{path}' is not a regular file: {error.strerror}") from None
    if not regular:
        raise Foreign(f"'{path}' is not a regular file")


def read_bytes(path: Path | str) -> bytes:
    """Return the content of a regular file. Raises Foreign for another kind, and OSError."""
    require_regular(path)
    with open(path, "rb") as file:
        return file.read()


def read_toml(path: Path) -> dict[str, Json]:
    """Return the tables of a TOML file. Raises Foreign, or FileNotFoundError."""
    try:
        return tomllib.loads(read_bytes(path).decode())
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise Foreign(f"cannot read '{path}' as TOML: {error}") from None


def parse(data: bytes | str) -> Json:
    """Return the value of a JSON text with finite numbers and 64-bit integers. Raises Mismatch."""
    try:
        try:
            value: Json = msgspec.json.decode(data)
            msgspec.msgpack.encode(value)  # fails for integers of more than 64 bits
        except (ValueError, OverflowError):  # or for a surrogate escape in the name of a file
            value = json.loads(data, parse_int=_int)
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
            text.encode(errors="surrogateescape")
        return value
    except (ValueError, RecursionError):
        raise Mismatch(f"not JSON with finite numbers ({len(data)} bytes)") from None


def _int(digits: str) -> int:
    number = int(digits)
    if not -(2**63) <= number < 2**63:
        raise ValueError(number)
    return number


def parse_object(data: bytes | str) -> dict[str, Json]:
    """Return a JSON object without decoding its values as types. Raises Mismatch."""
    value = parse(data)
    if not isinstance(value, dict):
        raise Mismatch("expected an object")
    return value


def read_json(path: Path, kind: type[T]) -> T:
    """Return the content of a JSON file as a type (see `decode`). Raises Foreign or OSError."""
    try:
        return decode(kind, parse(read_bytes(path)))
    except Mismatch as why:
        raise Foreign(f"'{path}' is damaged: {why}") from None


def find_json(path: Path, kind: type[T]) -> T | None:
    """Return the content of a JSON file as a type; None if it is missing or unreadable."""
    try:
        return read_json(path, kind)
    except (OSError, Foreign):
        return None


def digest_of_files(files: Iterable[tuple[Path, Path]]) -> str:
    """Return the SHA-256 of the names and contents of files (name, path)."""
    total = hashlib.sha256()
    for name, path in files:
        total.update(f"{name}\0".encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
