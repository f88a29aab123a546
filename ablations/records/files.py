"""Write files that are there whole or not at all, with checksums of what is in them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ablations.core.decode import Json, shown
from ablations.core.scalars import fields_of
from ablations.errors import UserError

FORMAT = 1


def canonical(value: Any) -> str:
    """Encode JSON with one spelling per value, to be hashed and compared."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits that name a JSON value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def permitted(mode: int) -> int:
    """Apply the umask to permissions, as temporary files and folders do not."""
    try:
        status = Path("/proc/self/status").read_text()
        return mode & ~int(status.partition("Umask:")[2].split()[0], 8)
    except (OSError, ValueError, IndexError):  # not Linux: 022, nearly everybody's
        return mode & ~0o022


def write_atomically(path: Path, content: str | bytes, *, lasting: bool = True) -> None:
    """Write a file that is there whole or not at all, in a shared folder too.

    lasting: also after the power fails, which takes some milliseconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = beside(path)
    try:
        with temporary.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if lasting:
                flush_to_disc(file)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def folder_at_once(final: Path) -> Iterator[Path]:
    """Yield a new folder, which becomes `final` by one rename, unless one is there by then."""
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = beside(final)
    temporary.mkdir()
    try:
        yield temporary
        os.rename(temporary, final)
    except OSError:
        if not final.is_dir():
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def beside(path: Path) -> Path:
    """Return a new hidden name in the folder of a path.

    What is made there has the permissions that the umask leaves, unlike what `tempfile` makes.
    """
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def flush_to_disc(file: IO[str] | IO[bytes]) -> None:
    """Flush a file to disc, so that it outlasts a failure of the power."""
    file.flush()
    os.fsync(file.fileno())


class OtherFormat(UserError):
    """A file of another version of the suite, which is neither damaged nor set aside."""


def require_format(form: Json, ours: int = FORMAT) -> None:
    """Raise OtherFormat for another format than this version's."""
    if form != ours:
        newer = "a newer" if type(form) is int and form > ours else "another"
        raise OtherFormat(
            f"has another format, {shown(form)} and not {ours}: {newer} version of rl-ablations "
            f"wrote it; choose another --results folder"
        )


def as_read(fields: Mapping[str, Any]) -> dict[str, Json]:
    """Return fields as they are read from a file, where keys are text."""
    read: dict[str, Json] = json.loads(json.dumps(fields, default=fields_of))
    return read


def checksum_of(fields: Mapping[str, Json]) -> str:
    """Return the checksum of a record or plan as read from its file, without its own."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def with_checksum(fields: Mapping[str, Json]) -> str:
    """Encode fields as JSON with a line for each, and one more for their `checksum_of`.

    Each field is encoded once, and without `indent`, for which Python would take ten times as long.
    """
    lines = [f'"{name}": {json.dumps(fields[name], sort_keys=True)}' for name in sorted(fields)]
    checksum = hashlib.sha256(f"{{{', '.join(lines)}}}".encode()).hexdigest()
    return ",\n".join([f'{{"checksum": "{checksum}"', *lines]) + "}\n"


def checksum_of_lines(text: bytes) -> str:
    """Return the checksum of the lines below the first of `with_checksum`.

    JSON has no other ends of lines.
    """
    _, _, lines = text.partition(b"\n")
    return hashlib.sha256(b"{" + lines.replace(b",\n", b", ").removesuffix(b"\n")).hexdigest()
