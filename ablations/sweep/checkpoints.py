"""Full-state checkpoints of running cells: everything that the next chunk reads.

    results/work/<hash>/checkpoints/<point>/state/             the arrays, by orbax
    results/work/<hash>/checkpoints/<point>/checkpoint.json    the curve so far, what it belongs to,
                                                               a checksum of every file

A checkpoint appears whole, by one rename, or not at all, and is believed only if every byte is the
one that was written. They go away with the rest of the cell's work folder when its record is there.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ablations.core.decode import decode
from ablations.records import canonical, permitted
from ablations.sweep import provenance
from ablations.sweep.cell import Cell
from ablations.sweep.claims import checkpoint_points, work_folder
from ablations.sweep.lane import Lane, Saved

FORMAT = 1
DESCRIPTION = "checkpoint.json"

# Another version of these may compute other bits from the same state.
DECISIVE = ("rl-ablations", "jax", "jaxlib", "flax", "optax", "brax", "mujoco", "mujoco-mjx")


class Refused(Exception):
    """A checkpoint that cannot be gone on from; the message says why."""


@dataclass(frozen=True)
class Spent:
    """The cost of a cell until now, over all the processes that ran it.

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
    """A place to go on from, what it cost to get there, and how good the policy was."""

    saved: Saved
    spent: Spent
    score: float | None = None


def as_provenance(spent: Spent, seconds: float) -> dict[str, Any]:
    """Return what a record says of it. seconds: what the last process added."""
    found: dict[str, Any] = {
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


def folder_of(results: Path, cell: str) -> Path:
    return work_folder(results, cell) / "checkpoints"


def save(results: Path, cell: Cell, checkpoint: Checkpoint, keep: int = 2) -> Spent:
    """Writes one, then deletes all but the last `keep` and the one with the highest score.

    Returns what was spent, this one included. Raises OSError where it cannot be written; what was
    there before is then still there.
    """
    started = time.monotonic()
    folder = folder_of(results, cell.hash)
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".saving-", dir=folder))
    try:
        names = _write_arrays(temporary / "state", checkpoint.saved.state)
        size = sum(path.stat().st_size for path in _files(temporary))
        before = checkpoint.spent
        spent = replace(
            before,
            checkpoints=before.checkpoints + 1,
            bytes=size,
            arithmetic=tuple(dict.fromkeys((*before.arithmetic, provenance.arithmetic()))),
        )
        description = {
            "format": FORMAT,
            "cell": cell.hash,
            "config": cell.config,
            "versions": _versions(),
            "point": checkpoint.saved.point,
            "score": checkpoint.score,
            # in their order, which JSON's objects lose and the record's file keeps
            "columns": list(checkpoint.saved.lane.columns.items()),
            "diverged": checkpoint.saved.lane.diverged,
            "spent": asdict(spent),
            "arrays": names,
            "files": {
                str(path.relative_to(temporary)): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in _files(temporary)
            },
        }
        whole = canonical(description | {"digest": _digest(description)})
        (temporary / DESCRIPTION).write_text(whole)
        os.chmod(temporary, permitted(0o777))
        final = folder / f"{checkpoint.saved.point:08}"
        shutil.rmtree(final, ignore_errors=True)  # one that was refused, at the same point
        os.rename(temporary, final)
    except BaseException:
        _delete(temporary)
        raise
    _prune(folder, keep)
    taken = time.monotonic() - started
    return replace(spent, saving_seconds=spent.saving_seconds + taken)


def _delete(folder: Path) -> None:
    """Deletes what could not be written whole. Threads of the writer may still be at it when it
    has given up, and make the folder again."""
    gone = 0
    for _ in range(40):
        shutil.rmtree(folder, ignore_errors=True)
        gone = 0 if folder.exists() else gone + 1
        if gone == 3:
            return
        time.sleep(0.05)


def load(results: Path, cell: Cell, point: int) -> Checkpoint:
    """The cell's checkpoint of that point. Raises Refused if it is torn, changed or alien."""
    try:
        return _load(folder_of(results, cell.hash) / f"{point:08}", cell, point)
    except OSError as error:
        raise Refused(f"it cannot be read: {error.strerror or error}") from None


def _load(folder: Path, cell: Cell, point: int) -> Checkpoint:
    description = _description(folder)
    if description["format"] != FORMAT:
        raise Refused(f"it has format {description['format']}, not {FORMAT}")
    if differing := differences(description["config"], cell.config):
        raise Refused(f"it belongs to another cell: {differing}")
    if differing := differences(description["versions"], _versions()):
        raise Refused(f"other versions wrote it: {differing}")
    if description["point"] != point or description["cell"] != cell.hash:
        raise Refused("it was renamed")
    _verify(folder, description["files"])
    diverged = description["diverged"]
    return Checkpoint(
        saved=Saved(
            point=point,
            lane=Lane(dict(description["columns"]), tuple(diverged) if diverged else None),
            state=_read_arrays(folder / "state", description["arrays"]),
        ),
        spent=decode(Spent, description["spent"]),
        score=description["score"],
    )


def newest(results: Path, cells: Sequence[Cell]) -> tuple[list[Checkpoint] | None, list[str]]:
    """The last checkpoints that all these cells have at one point and that are good, or None; and a
    line on each that was refused.
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
    """Sets aside the checkpoints beyond the point that a cell goes on from: they were refused, and
    the new ones that come do not compete with them."""
    for path in folder_of(results, cell).glob("*"):
        if path.name.isdecimal() and int(path.name) > point:
            aside = results / "set-aside" / f"{cell}-checkpoint-{path.name}-{uuid.uuid4().hex[:8]}"
            aside.parent.mkdir(exist_ok=True)
            os.rename(path, aside)


def tidy(results: Path, cell: str) -> None:
    """Deletes what a killed process left half written: checkpoints, policies, records, signs."""
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


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Return where two nested configurations differ, in words; "" where they do not."""
    theirs, ours = _flat(theirs), _flat(ours)
    found = [
        f"{name} is {theirs.get(name, 'not set')} there and {ours.get(name, 'not set')} here"
        for name in sorted(theirs.keys() | ours.keys())
        if theirs.get(name) != ours.get(name)
    ]
    more = f", and {len(found) - 3} more" if len(found) > 3 else ""
    return ", ".join(found[:3]) + more


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = list(value) if isinstance(value, tuple) else value
    return flat


def _versions() -> dict[str, str]:
    import jax

    found = {name: v for name, v in provenance.versions().items() if name in DECISIVE}
    return found | {"device": jax.devices()[0].device_kind}


def _digest(description: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(description).encode()).hexdigest()


def _description(folder: Path) -> dict[str, Any]:
    try:
        text = (folder / DESCRIPTION).read_text()
        description = json.loads(text)
        digest = description.pop("digest")
        good = digest == _digest(description) and text == canonical(
            description | {"digest": digest}
        )
    except FileNotFoundError:
        raise Refused(f"{DESCRIPTION} is missing") from None
    except (ValueError, KeyError, AttributeError, RecursionError):
        good = False
    if not good:
        raise Refused(f"{DESCRIPTION} is damaged")
    return description


def _verify(folder: Path, checksums: Mapping[str, str]) -> None:
    there = {str(path.relative_to(folder)) for path in _files(folder)} - {DESCRIPTION}
    for name in sorted(there ^ checksums.keys()):
        raise Refused(f"{name} is {'missing' if name in checksums else 'not part of it'}")
    for name, checksum in checksums.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != checksum:
            raise Refused(f"{name} fails its checksum")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _prune(folder: Path, keep: int) -> None:
    there = sorted(path for path in folder.iterdir() if path.name.isdecimal() and path.is_dir())
    scores: dict[Path, float] = {}
    for path in there:
        try:
            score = _description(path)["score"]
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
    """Writes them; returns their names, in the order of the numbers that stand for them there."""
    import orbax.checkpoint

    try:
        with orbax.checkpoint.PyTreeCheckpointer() as checkpointer:
            checkpointer.save(
                path.resolve(), {f"{i:05}": np.asarray(x) for i, x in enumerate(arrays.values())}
            )
    except OSError:
        raise
    except Exception as error:  # tensorstore tells the system's errors as text in a ValueError
        raise system_error(error, path) from error
    return list(arrays)


def _read_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    import orbax.checkpoint

    with orbax.checkpoint.PyTreeCheckpointer() as checkpointer:
        arrays = checkpointer.restore(path.resolve())
    return {name: np.asarray(arrays[f"{i:05}"]) for i, name in enumerate(names)}


def system_error(error: Exception, path: Path) -> OSError:
    """The system's error that tensorstore told as text."""
    if told := re.search(r"os_error_code='(\d+)'", str(error)):
        number = int(told.group(1))
        return OSError(number, os.strerror(number), str(path))
    return OSError(errno.EIO, " ".join(str(error).split())[:300], str(path))
