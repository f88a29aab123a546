"""Save and load the whole state of running cells: everything that the next chunk reads.

    results/work/<hash>/checkpoints/<point>/state/             the arrays, by orbax
    results/work/<hash>/checkpoints/<point>/checkpoint.json    the curve so far, what it belongs to,
                                                               a checksum of every file

A checkpoint appears whole, by one rename, or not at all, and is believed only if every byte is the
one that was written. They go away with the rest of the cell's work folder when its record is there.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from ablations.core.decode import (
    Json,
    Mismatch,
    Number,
    Part,
    as_json,
    decode,
    leaves,
)
from ablations.core.files import parse_object
from ablations.core.record import Provenance, RawConfiguration
from ablations.records import as_read, canonical
from ablations.sweep import provenance
from ablations.sweep.cell import Cell
from ablations.sweep.claims import checkpoint_points, work_folder
from ablations.sweep.lane import Lane, Saved
from ablations.sweep.machine import arithmetic

FORMAT = 1
DESCRIPTION = "checkpoint.json"

# Another version of these may compute other bits from the same state.
DECISIVE = ("rl-ablations", "jax", "jaxlib", "flax", "optax", "brax", "mujoco", "mujoco-mjx")


class Refused(Exception):
    """A checkpoint that cannot be resumed from; the message says why."""


class Spent(Part, frozen=True):
    """The cost of a cell until now, over all processes that ran it.

    seconds: of training. resumed: the steps at which it was taken up again. checkpoints, bytes,
    saving_seconds: how many were written, the size of the last, the time of all. arithmetic: every
    kind that those processes had.
    """

    seconds: float = 0.0
    resumed: tuple[int, ...] = ()
    checkpoints: int = 0
    bytes: int = 0
    saving_seconds: float = 0.0
    arithmetic: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checkpoint:
    """A saved state to resume from, its cost until then, and the score of its policy."""

    saved: Saved
    spent: Spent
    score: float | None = None


def as_provenance(spent: Spent, seconds: float) -> Provenance:
    """Return the cost for a record. seconds: what the last process added."""
    found: Provenance = {
        "seconds": round(spent.seconds + seconds, 3),
        "versions": provenance.versions_with_arithmetic(spent.arithmetic),
    }
    if spent.resumed:
        found["resumed_at_steps"] = list(spent.resumed)
    if spent.checkpoints:
        found["checkpoints"] = {
            "written": spent.checkpoints,
            "bytes": spent.bytes,
            "seconds": round(spent.saving_seconds, 3),
        }
    return found


class _Description(Part, frozen=True):
    """A checkpoint's file.

    arrays: their names, in the order of the numbers that stand for them on disk. files: name ->
    SHA-256. columns: of the curve, in their order, which the record's file keeps.
    """

    format: int
    cell: str
    config: RawConfiguration
    versions: Mapping[str, str]
    point: int
    score: float | None
    columns: list[tuple[str, list[Number | None]]]
    diverged: tuple[int, int] | None
    spent: Spent
    arrays: list[str]
    files: Mapping[str, str]


def folder_of(results: Path, cell: str) -> Path:
    """Return the folder of a cell's checkpoints."""
    return work_folder(results, cell) / "checkpoints"


def save(results: Path, cell: Cell, checkpoint: Checkpoint, keep: int = 2) -> Spent:
    """Write a checkpoint, then delete all but the last `keep` and the one with the highest score.

    Returns:
        The cost until now, this one included.

    Raises:
        OSError: it cannot be written; what was there before is then still there.
    """
    started = time.monotonic()
    folder = folder_of(results, cell.hash)
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".saving-{uuid.uuid4().hex[:8]}"
    temporary.mkdir()
    try:
        names = _write_arrays(temporary / "state", checkpoint.saved.state)
        size = sum(path.stat().st_size for path in _files(temporary))
        before = checkpoint.spent
        spent = msgspec.structs.replace(
            before,
            checkpoints=before.checkpoints + 1,
            bytes=size,
            arithmetic=tuple(dict.fromkeys((*before.arithmetic, arithmetic()))),
        )
        description = _Description(
            format=FORMAT,
            cell=cell.hash,
            config=cell.config,
            versions=_versions(),
            point=checkpoint.saved.point,
            score=checkpoint.score,
            columns=list(checkpoint.saved.lane.columns.items()),
            diverged=checkpoint.saved.lane.diverged,
            spent=spent,
            arrays=names,
            files={str(path.relative_to(temporary)): _sha256(path) for path in _files(temporary)},
        )
        described = as_read(msgspec.structs.asdict(description))
        whole = canonical(described | {"digest": _digest(described)})
        (temporary / DESCRIPTION).write_text(whole)
        final = folder / f"{checkpoint.saved.point:08}"
        shutil.rmtree(final, ignore_errors=True)  # one that was refused, at the same point
        os.rename(temporary, final)
    except BaseException:
        _delete(temporary)
        raise
    _prune(folder, keep)
    taken = time.monotonic() - started
    return msgspec.structs.replace(spent, saving_seconds=spent.saving_seconds + taken)


def _delete(folder: Path) -> None:
    """Delete a checkpoint that could not be written whole.

    Threads of the writer may still be at it when it has given up, and make the folder again.
    """
    gone = 0
    for _ in range(40):
        shutil.rmtree(folder, ignore_errors=True)
        gone = 0 if folder.exists() else gone + 1
        if gone == 3:
            return
        time.sleep(0.05)


def load(results: Path, cell: Cell, point: int) -> Checkpoint:
    """Return the cell's checkpoint of a point.

    Raises:
        Refused: it is torn, changed, or of another cell or version.
    """
    try:
        return _load(folder_of(results, cell.hash) / f"{point:08}", cell, point)
    except OSError as error:
        raise Refused(f"it cannot be read: {error.strerror or error}") from None


def _load(folder: Path, cell: Cell, point: int) -> Checkpoint:
    about = _description(folder)
    if differing := differences(as_json(about.config), as_json(cell.config)):
        raise Refused(f"it belongs to another cell: {differing}")
    if differing := differences(about.versions, _versions()):
        raise Refused(f"other versions wrote it: {differing}")
    if about.point != point or about.cell != cell.hash:
        raise Refused("it was renamed")
    _verify(folder, about.files)
    lane = Lane(dict(about.columns), about.diverged)
    state = _read_arrays(folder / "state", about.arrays)
    return Checkpoint(Saved(point, lane, state), about.spent, about.score)


def newest(results: Path, cells: Sequence[Cell]) -> tuple[list[Checkpoint] | None, list[str]]:
    """Return the last good checkpoints that all these cells have at one point.

    None where there are none; and a line on each that was refused.
    """
    refused: list[str] = []
    if not cells:
        return None, refused
    common = set.intersection(*(set(checkpoint_points(results, cell.hash)) for cell in cells))
    for point in sorted(common, reverse=True):
        found = []
        for cell in cells:
            try:
                found.append(load(results, cell, point))
            except Refused as why:
                refused.append(f"checkpoint {cell.hash}/{point:08} is refused: {why}")
                break
        else:
            return found, refused
    return None, refused


def discard_after(results: Path, cell: str, point: int) -> None:
    """Set aside the checkpoints beyond the point from which a cell resumes.

    They were refused, and the new ones that come do not compete with them.
    """
    for path in folder_of(results, cell).glob("*"):
        if path.name.isdecimal() and int(path.name) > point:
            aside = results / "set-aside" / f"{cell}-checkpoint-{path.name}-{uuid.uuid4().hex[:8]}"
            aside.parent.mkdir(exist_ok=True)
            os.rename(path, aside)


def tidy(results: Path, cell: str) -> None:
    """Delete files that a killed process left half written."""
    work = work_folder(results, cell)
    halves = (
        *folder_of(results, cell).glob(".saving-*"),
        *work.glob(".*"),
        *work.glob("policies/.*.npz.*"),
    )
    for path in halves:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def differences(theirs: Mapping[str, Json], ours: Mapping[str, Json]) -> str:
    """Return where two nested configurations differ, in words; "" where they do not."""
    there, here = (
        {name: list(value) if isinstance(value, tuple) else value for name, value in leaves(each)}
        for each in (theirs, ours)
    )
    found = [
        f"{name} is {there.get(name, 'not set')} there and {here.get(name, 'not set')} here"
        for name in sorted(there.keys() | here.keys())
        if there.get(name) != here.get(name)
    ]
    more = f", and {len(found) - 3} more" if len(found) > 3 else ""
    return ", ".join(found[:3]) + more


def _versions() -> dict[str, str]:
    import jax

    found = {name: v for name, v in provenance.versions().items() if name in DECISIVE}
    return found | {"device": jax.devices()[0].device_kind}


def _digest(description: Mapping[str, Json]) -> str:
    return hashlib.sha256(canonical(description).encode()).hexdigest()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _description(folder: Path) -> _Description:
    try:
        text = (folder / DESCRIPTION).read_text()
        description = parse_object(text)
        digest = description.pop("digest")
        if digest != _digest(description) or text != canonical(description | {"digest": digest}):
            raise Mismatch("fails its digest")
        if (form := description["format"]) != FORMAT:
            raise Refused(f"it has format {form}, not {FORMAT}")
        return decode(_Description, description)
    except FileNotFoundError:
        raise Refused(f"{DESCRIPTION} is missing") from None
    except (ValueError, KeyError, RecursionError):
        raise Refused(f"{DESCRIPTION} is damaged") from None


def _verify(folder: Path, checksums: Mapping[str, str]) -> None:
    there = {str(path.relative_to(folder)) for path in _files(folder)} - {DESCRIPTION}
    for name in sorted(there ^ checksums.keys()):
        raise Refused(f"{name} is {'missing' if name in checksums else 'not part of it'}")
    for name, checksum in checksums.items():
        if _sha256(folder / name) != checksum:
            raise Refused(f"{name} fails its checksum")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _prune(folder: Path, keep: int) -> None:
    there = sorted(path for path in folder.iterdir() if path.name.isdecimal() and path.is_dir())
    scores: dict[Path, float] = {}
    for path in there:
        try:
            score = _description(path).score
        except (Refused, OSError):
            continue
        if score is not None:
            scores[path] = score
    best = max(scores, key=lambda path: scores[path]) if scores else None
    for path in there[:-keep]:
        if path != best:
            shutil.rmtree(path, ignore_errors=True)


# orbax takes a second to import, and most cells end before their first checkpoint is due.


def _write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Write arrays; return their names, in the order of the numbers that stand for them."""
    import orbax.checkpoint

    try:
        with orbax.checkpoint.PyTreeCheckpointer() as checkpointer:
            checkpointer.save(
                path.resolve(), {f"{i:05}": np.asarray(x) for i, x in enumerate(arrays.values())}
            )
    except OSError:
        raise
    except Exception as error:  # tensorstore tells the system's errors as text in a ValueError
        raise _system_error(error, path) from error
    return list(arrays)


def _read_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    import orbax.checkpoint

    with orbax.checkpoint.PyTreeCheckpointer() as checkpointer:
        arrays = checkpointer.restore(path.resolve())
    return {name: np.asarray(arrays[f"{i:05}"]) for i, name in enumerate(names)}


def _system_error(error: Exception, path: Path) -> OSError:
    """Return the system's error that tensorstore tells as text."""
    if told := re.search(r"os_error_code='(\d+)'", str(error)):
        number = int(told.group(1))
        return OSError(number, os.strerror(number), str(path))
    return OSError(errno.EIO, " ".join(str(error).split())[:300], str(path))
