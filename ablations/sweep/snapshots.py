"""Save policies of a running cell.

    results/work/<hash>/policies/<step>.npz     the arrays that `Trainer.policy` keeps, by path

They move to results/cells/<hash> with the cell's record. A file says itself what it is (its
configuration is in it), so that it can be taken elsewhere. No pickle.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ablations.core.record import Policies
from ablations.records import canonical, flush_to_disc, write_atomically
from ablations.sweep.cell import Cell
from ablations.sweep.claims import work_folder

if TYPE_CHECKING:
    from ablations.sweep.lane import Lane

ABOUT = "about"  # the entry beside the arrays: JSON as UTF-8 bytes


@dataclass(frozen=True)
class Snapshots:
    """The policies of a running cell that are kept: evenly spaced ones, and the best.

    count: how many evenly spaced; 0: nothing is kept.
    """

    results: Path
    cell: Cell
    count: int

    @property
    def folder(self) -> Path:
        """Return the folder of the policies while the cell runs."""
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
