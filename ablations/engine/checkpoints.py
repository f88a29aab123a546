"""Save and load the whole state of a run, and keep policies of it.

    results/work/<hash>/checkpoints/<point>.msgpack
    results/work/<hash>/policies/<step>.npz     the arrays that `Trainer.policy` keeps, by path

A checkpoint is one file, which appears whole or not at all. Its first line is the SHA-256 of the
rest. The second line is JSON: the curve so far, and what it belongs to. The rest are the arrays, by
`flax.serialization`. Checkpoints go away with the work folder when the record is there.

Policies move to results/cells/<hash> with the record. Each file holds its configuration, so that it
can be taken elsewhere. No pickle.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ablations.core.decode import Json, Number, Part, as_json, decode, leaves
from ablations.core.files import parse_object
from ablations.core.record import Policies, Provenance, RawConfiguration
from ablations.engine import provenance
from ablations.engine.claims import checkpoint_points, work_folder
from ablations.engine.job import Cell, Lane, Saved
from ablations.engine.machine import arithmetic
from ablations.records import as_read, canonical, flush_to_disc, write_atomically

if TYPE_CHECKING:
    from ablations.engine.job import Lane

FORMAT = 2

# Another version of these may compute other bits from the same state.
DECISIVE = ("rl-ablations", "jax", "jaxlib", "flax", "optax", "brax", "mujoco", "mujoco-mjx")


class Refused(Exception):
    """A checkpoint that cannot be resumed from; the message says why."""


class Spent(Part, frozen=True):
    """The cost of a run until now, over all processes that ran it.

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
    """The second line of a checkpoint.

    columns: of the curve, in their order, which the record's file keeps.
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


def folder_of(results: Path, cell: str) -> Path:
    """Return the folder of a run's checkpoints."""
    return work_folder(results, cell) / "checkpoints"


def path_of(results: Path, cell: str, point: int) -> Path:
    """Return the file of a checkpoint."""
    return folder_of(results, cell) / f"{point:08}.msgpack"


def save(results: Path, cell: Cell, checkpoint: Checkpoint, keep: int = 2) -> Spent:
    """Write a checkpoint, then delete all but the last `keep` and the one with the highest score.

    Returns:
        The cost until now, this one included.

    Raises:
        OSError: it cannot be written; what was there before is then still there.
    """
    from flax import serialization

    started = time.monotonic()
    arrays = {name: np.asarray(array) for name, array in checkpoint.saved.state.items()}
    state = serialization.msgpack_serialize(arrays)
    before = checkpoint.spent
    spent = msgspec.structs.replace(
        before,
        checkpoints=before.checkpoints + 1,
        bytes=len(state),
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
    )
    path = path_of(results, cell.hash, checkpoint.saved.point)
    write_atomically(path, sealed(as_read(msgspec.structs.asdict(description)), state))
    _prune(path.parent, keep)
    taken = time.monotonic() - started
    return msgspec.structs.replace(spent, saving_seconds=spent.saving_seconds + taken)


def sealed(description: Mapping[str, Json], state: bytes) -> bytes:
    """Return the content of a checkpoint's file."""
    content = canonical(description).encode() + b"\n" + state
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def load(results: Path, cell: Cell, point: int) -> Checkpoint:
    """Return the run's checkpoint of a point.

    Raises Refused: it is torn, changed, or of another run or version.
    """
    from flax import serialization

    try:
        digest, _, content = path_of(results, cell.hash, point).read_bytes().partition(b"\n")
    except OSError as error:
        raise Refused(f"it cannot be read: {error.strerror or error}") from None
    if digest != hashlib.sha256(content).hexdigest().encode():
        raise Refused("it is damaged: it fails its checksum")
    line, _, state = content.partition(b"\n")
    about = _described(line)
    if differing := differences(as_json(about.config), as_json(cell.config)):
        raise Refused(f"it belongs to another run: {differing}")
    if differing := differences(about.versions, _versions()):
        raise Refused(f"other versions wrote it: {differing}")
    if about.point != point or about.cell != cell.hash:
        raise Refused("it was renamed")
    lane = Lane(dict(about.columns), about.diverged)
    saved = Saved(point, lane, serialization.msgpack_restore(state))
    return Checkpoint(saved, about.spent, about.score)


def _described(line: bytes) -> _Description:
    try:
        description = parse_object(line)
        if (form := description["format"]) != FORMAT:
            raise Refused(f"it has format {form}, not {FORMAT}")
        return decode(_Description, description)
    except (ValueError, KeyError, RecursionError):
        raise Refused("it is damaged: its second line describes no checkpoint") from None


def newest(results: Path, cells: Sequence[Cell]) -> tuple[list[Checkpoint] | None, list[str]]:
    """Return the last good checkpoints that all these runs have at one point.

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
    """Set aside the checkpoints beyond the point from which a run resumes.

    They were refused, and the new ones that come do not compete with them.
    """
    for there in checkpoint_points(results, cell):
        if there > point:
            aside = results / "set-aside" / f"{cell}-checkpoint-{there:08}-{uuid.uuid4().hex[:8]}"
            aside.parent.mkdir(exist_ok=True)
            os.rename(path_of(results, cell, there), aside)


def tidy(results: Path, cell: str) -> None:
    """Delete files that a killed process left half written."""
    work = work_folder(results, cell)
    halves = (
        *folder_of(results, cell).glob(".*"),
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


def _prune(folder: Path, keep: int) -> None:
    there = sorted(path for path in folder.glob("*.msgpack") if path.stem.isdecimal())
    scores: dict[Path, float] = {}
    for path in there:
        try:
            with path.open("rb") as file:
                file.readline()
                score = _described(file.readline()).score
        except (Refused, OSError):
            continue
        if score is not None:
            scores[path] = score
    best = max(scores, key=lambda path: scores[path]) if scores else None
    for path in there[:-keep]:
        if path != best:
            path.unlink(missing_ok=True)


ABOUT = "about"  # the entry beside the arrays: JSON as UTF-8 bytes


@dataclass(frozen=True)
class Snapshots:
    """The policies of a run that are kept: evenly spaced ones, and the best.

    count: how many evenly spaced; 0: nothing is kept.
    """

    results: Path
    cell: Cell
    count: int

    @property
    def folder(self) -> Path:
        """Return the folder of the policies while the run trains."""
        return work_folder(self.results, self.cell.hash) / "policies"

    def wanted(self, point: int, lane: Lane) -> bool:
        """Return whether this point's policy is kept, by the schedule or as the best so far."""
        if not self.count or lane.diverged:
            return False
        return point in self._schedule or self.best(lane) == lane.columns["step"][-1]

    def write(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep the policy of a step, by `to_arrays`; it outlasts the power from `flush` on."""
        data = io.BytesIO()
        dtypes = {name: str(array.dtype) for name, array in arrays.items()}
        about = canonical({"config": self.cell.config, "step": step, "dtypes": dtypes}).encode()
        # bfloat16 and its like are not NumPy's own: as plain bytes they are stored without pickle
        plain = {n: a if a.dtype.isbuiltin else a.view(f"V{a.itemsize}") for n, a in arrays.items()}
        np.savez(data, allow_pickle=False, **plain | {ABOUT: np.frombuffer(about, np.uint8)})
        write_atomically(self.folder / f"{step}.npz", data.getvalue(), lasting=False)

    def flush(self) -> None:
        """Flush them to disc, before a checkpoint that relies on them."""
        for path in _files(self.folder).values():
            with path.open("rb") as file:
                flush_to_disc(file)

    def best(self, lane: Lane, among: Sequence[int] | None = None) -> int | None:
        """Return the step with the highest value of what ranks them, the first of equals.

        among: the steps that count; None: all. None where there is no value yet.
        """
        scores = lane.values(self.cell.ranked_by)
        steps = [step for step in scores if not among or step in among]
        return max(steps, key=scores.__getitem__, default=None)

    def score(self, lane: Lane) -> float | None:
        """Return the last value of what ranks them, None where there is none yet."""
        return next(reversed(lane.values(self.cell.ranked_by).values()), None)

    def prune(self, lane: Lane) -> None:
        """Delete those that were the best once and are not any more."""
        keep = {self.cell.step_at(point) for point in self._schedule} | {self.best(lane)}
        for step, path in _files(self.folder).items():
            if step not in keep:
                path.unlink(missing_ok=True)

    def finish(self, lane: Lane) -> Policies:
        """Delete those that the record does not keep; return the description of the others."""
        if not self.count:
            return {}
        self.prune(lane)
        files = _files(self.folder)
        if not files:
            return {}
        last = max(files)
        return {
            "files": {str(s): hashlib.sha256(p.read_bytes()).hexdigest() for s, p in files.items()},
            "best": self.best(lane, among=list(files)) or last,
            "last": last,
        }

    @property
    def _schedule(self) -> frozenset[int]:
        return self.cell.evenly_spaced(min(self.count, self.cell.points))


def _files(folder: Path) -> dict[int, Path]:
    """Return the files by step, ascending."""
    found = {int(p.stem): p for p in folder.glob("*.npz") if p.stem.isdecimal()}
    return dict(sorted(found.items()))
