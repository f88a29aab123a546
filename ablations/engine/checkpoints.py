"""Save and load the complete state of a run, and its policies. Nothing is pickled.

    results/work/<hash>/checkpoints/<point>.msgpack
    results/work/<hash>/policies/<step>.npz     the arrays of `Trainer.policy`, by path

A checkpoint is written atomically. Its first line is the SHA-256 of the rest. The second line is
JSON: the run, the curve and the versions. The rest are the arrays, written by
`flax.serialization`. Checkpoints are deleted when the run has a record.

Policies move to results/cells/<hash> with the record. Each file contains the configuration.
"""

from __future__ import annotations

import hashlib
import io
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from ablations.core.decode import Json, Mismatch, Number, Part, Within, decode
from ablations.core.files import parse_object
from ablations.core.record import Policies, Provenance
from ablations.engine import provenance
from ablations.engine.claims import checkpoint_points, work_folder
from ablations.engine.job import Cell, Lane, Saved
from ablations.engine.machine import arithmetic
from ablations.records import as_read, canonical, write_atomically

FORMAT = 4

# Other versions of these packages may compute other bits from the same state.
DECISIVE = ("rl-ablations", "jax", "jaxlib", "flax", "optax", "brax", "mujoco", "mujoco-mjx")
ABOUT = "about"  # the entry beside the arrays of a policy: JSON as UTF-8 bytes


class Refused(Exception):
    """A checkpoint that cannot be resumed from."""


class Spent(Part, frozen=True):
    """The cost of a run so far, over all of its processes.

    seconds: the training time. resumed: the steps at which the run was resumed.
    """

    seconds: float = 0.0
    resumed: tuple[int, ...] = ()

    def provenance(self, seconds: float) -> Provenance:
        """Return the cost for a record. seconds: the time of the last process."""
        found: Provenance = {"seconds": round(self.seconds + seconds, 3)}
        if self.resumed:
            found["resumed_at_steps"] = list(self.resumed)
        return found


class _Description(Part, frozen=True):
    """The second line of a checkpoint. columns: the curve, in the order of the record's file."""

    format: Annotated[int, Within(FORMAT, FORMAT)]
    cell: str
    versions: Mapping[str, str]
    point: int
    columns: list[tuple[str, list[Number | None]]]
    diverged: tuple[int, int] | None
    spent: Spent


def path_of(results: Path, cell: str, point: int) -> Path:
    """Return the file of a checkpoint."""
    return work_folder(results, cell) / "checkpoints" / f"{point:08}.msgpack"


def save(results: Path, cell: Cell, saved: Saved, spent: Spent) -> None:
    """Write a checkpoint; then delete all except the last two.

    Raises OSError: it cannot be written; earlier checkpoints are kept.
    """
    from flax import serialization

    arrays = {name: np.asarray(array) for name, array in saved.state.items()}
    state = serialization.msgpack_serialize(arrays)
    description = _Description(
        format=FORMAT,
        cell=cell.hash,
        versions=_versions(),
        point=saved.point,
        columns=list(saved.lane.columns.items()),
        diverged=saved.lane.diverged,
        spent=spent,
    )
    path = path_of(results, cell.hash, saved.point)
    write_atomically(path, sealed(as_read(msgspec.structs.asdict(description)), state))
    for point in checkpoint_points(results, cell.hash)[:-2]:
        path_of(results, cell.hash, point).unlink(missing_ok=True)


def sealed(description: Mapping[str, Json], state: bytes) -> bytes:
    """Return the content of a checkpoint's file, with its checksum."""
    content = canonical(description).encode() + b"\n" + state
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def load(results: Path, cell: Cell, point: int) -> tuple[Saved, Spent]:
    """Return the run's saved state of a point, and its cost.

    Raises Refused: it is damaged, or belongs to another run or other versions.
    """
    from flax import serialization

    try:
        digest, _, content = path_of(results, cell.hash, point).read_bytes().partition(b"\n")
    except OSError as error:
        raise Refused(f"it cannot be read: {error.strerror or error}") from None
    if digest != hashlib.sha256(content).hexdigest().encode():
        raise Refused("it is damaged: it fails its checksum")
    line, _, state = content.partition(b"\n")
    try:
        about = decode(_Description, parse_object(line))
    except Mismatch as why:
        raise Refused(f"it has another format: {why}") from None
    if (about.cell, about.point) != (cell.hash, point):
        raise Refused("it belongs to another run or point")
    if about.versions != _versions():
        others = about.versions.items() - _versions().items()
        raise Refused(f"other versions wrote it: {', '.join(f'{n} {v}' for n, v in others)}")
    lane = Lane(dict(about.columns), about.diverged)
    return Saved(point, lane, serialization.msgpack_restore(state)), about.spent


def newest(
    results: Path, cells: Sequence[Cell]
) -> tuple[list[tuple[Saved, Spent]] | None, list[str]]:
    """Return the last valid checkpoints of the runs at a common point, or None; and the errors."""
    refused: list[str] = []
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
    """Set aside the refused checkpoints beyond the point from which a run resumes."""
    for later in checkpoint_points(results, cell):
        if later > point:
            aside = results / "set-aside" / f"{cell}-checkpoint-{later:08}-{uuid.uuid4().hex[:8]}"
            aside.parent.mkdir(exist_ok=True)
            os.rename(path_of(results, cell, later), aside)


def _versions() -> dict[str, str]:
    import jax

    found = {name: v for name, v in provenance.versions().items() if name in DECISIVE}
    return found | {"device": jax.devices()[0].device_kind, "arithmetic": arithmetic()}


@dataclass(frozen=True)
class Snapshots:
    """The saved policies of a run: `count` evenly spaced ones, and the best. count 0: none."""

    results: Path
    cell: Cell
    count: int

    @property
    def folder(self) -> Path:
        """Return the folder of the policies during training."""
        return work_folder(self.results, self.cell.hash) / "policies"

    def wanted(self, point: int, lane: Lane) -> bool:
        """Return whether to save this point's policy, by the schedule or as the best so far."""
        if not self.count or lane.diverged:
            return False
        return point in self._schedule or self.best(lane) == lane.columns["step"][-1]

    def write(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Save the policy of a step (see `to_arrays`)."""
        data = io.BytesIO()
        dtypes = {name: str(array.dtype) for name, array in arrays.items()}
        about = canonical({"config": self.cell.config, "step": step, "dtypes": dtypes}).encode()
        # NumPy would pickle arrays of bfloat16; plain bytes are not pickled.
        plain = {n: a if a.dtype.isbuiltin else a.view(f"V{a.itemsize}") for n, a in arrays.items()}
        np.savez(data, allow_pickle=False, **plain | {ABOUT: np.frombuffer(about, np.uint8)})
        write_atomically(self.folder / f"{step}.npz", data.getvalue())

    def best(self, lane: Lane, among: Sequence[int] | None = None) -> int | None:
        """Return the first step with the highest score, among some steps or all; None: no score."""
        scores = lane.values(self.cell.ranked_by)
        steps = [step for step in scores if not among or step in among]
        return max(steps, key=scores.__getitem__, default=None)

    def prune(self, lane: Lane) -> None:
        """Delete former best policies."""
        keep = {self.cell.step_at(point) for point in self._schedule} | {self.best(lane)}
        for step, path in _files(self.folder).items():
            if step not in keep:
                path.unlink(missing_ok=True)

    def finish(self, lane: Lane) -> Policies:
        """Delete policies that the record does not keep; return the description of the others."""
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
