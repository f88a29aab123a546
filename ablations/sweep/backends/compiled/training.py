"""Train cells side by side in one program, from their last checkpoint to their end."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ablations.core.record import Provenance
from ablations.sweep.cell import Cell
from ablations.sweep.checkpoints import (
    Checkpoint,
    Spent,
    as_provenance,
    discard_after,
    newest,
    save,
)
from ablations.sweep.claims import Claim
from ablations.sweep.lane import Ended, Lane, TrainingFailed
from ablations.sweep.order import Keeping
from ablations.sweep.snapshots import Snapshots
from ablations.trainers.leaves import Mismatch

if TYPE_CHECKING:
    from ablations.sweep.backends.compiled.program import Program


class Training:
    """A block of cells, at its last checkpoint or at its beginning."""

    def __init__(
        self, program: Program, cells: Sequence[Cell], results: Path, keeping: Keeping
    ) -> None:
        """Load the last checkpoint that all cells have, or start at the beginning."""
        self.cells = cells
        self.results = results
        self.keeping = keeping
        found, refused = newest(results, cells)
        try:
            self.block = program.start(
                cells, [checkpoint.saved for checkpoint in found] if found else None
            )
        except Mismatch as why:
            refused.append(f"checkpoints of {cells[0].hash} are refused: {why}")
            found, self.block = None, program.start(cells)
        for cell in cells:
            discard_after(results, cell.hash, self.block.point)
        self._spent = (
            [checkpoint.spent for checkpoint in found] if found else [Spent() for _ in cells]
        )
        if found:
            step = self.block.step
            self._spent = [
                replace(checkpoint, resumed=(*checkpoint.resumed, step))
                for checkpoint in self._spent
            ]
        self._notify(refused, resumed=found is not None)
        self.snapshots = [Snapshots(results, cell, keeping.snapshots) for cell in cells]
        self._first_step = self._saved_step = self.block.step
        self._began = self._saved_at = time.monotonic()

    def _notify(self, refused: Sequence[str], *, resumed: bool) -> None:
        for line in refused:
            print(f"notice: {line}", flush=True)
        if resumed or refused:
            where = f"go on at step {self.block.step:,}" if resumed else "start at the beginning"
            print(f"notice: {', '.join(cell.hash for cell in self.cells)} {where}", flush=True)

    def run(self, claims: Sequence[Claim], stopping: Callable[[], bool]) -> None:
        """Run to the end of the block; see `RunningBatch`."""
        steps = self.cells[0].steps
        for claim in claims:
            claim.start = self.block.step
        while not self.block.finished:
            try:
                self.block.advance()
            except Exception as error:
                traceback.print_exc()
                raise TrainingFailed(error) from error
            self._keep_policies()
            for cell, lane, claim in zip(self.cells, self.block.lanes, claims, strict=True):
                score = lane.columns.get(cell.metric, [None])[-1]
                claim.beat("training", self.block.step, steps, self.rate, score)
            stop = stopping()
            if stop or self._checkpoint_is_due():
                self._save()
            if stop:
                raise SystemExit(143)

    def lane(self, index: int) -> Lane:
        """Return the curve of a cell so far."""
        return self.block.lanes[index]

    def ended(self, index: int) -> Ended:
        """Return how a cell ended, with the policies that it kept."""
        lane, snapshots = self.lane(index), self.snapshots[index]
        kept = snapshots.finish(lane)
        if lane.diverged is None:
            return Ended(lane.columns, policies=kept, folder=snapshots.folder)
        first, last = lane.diverged
        reason = f"parameters were no longer finite between steps {first} and {last}"
        return Ended(lane.columns, "diverged", reason, last, kept, snapshots.folder)

    @property
    def seconds(self) -> float:
        """Return the seconds of training in this process."""
        return max(time.monotonic() - self._began, 1e-9)

    @property
    def rate(self) -> float:
        """Return the steps per second of each cell, in this process."""
        return (self.block.step - self._first_step) / self.seconds

    def cost(self, index: int) -> Provenance:
        """Return the speed of the cells in this process, and the cost of one over all processes."""
        rate = round(self.rate * len(self.cells))
        return {"steps_per_second": rate, **as_provenance(self._spent[index], self.seconds)}

    def _keep_policies(self) -> None:
        for index, snapshots in enumerate(self.snapshots):
            if snapshots.wanted(self.block.point, self.lane(index)):
                snapshots.write(self.block.step, self.block.policy(index))

    def _checkpoint_is_due(self) -> bool:
        """Return whether a checkpoint is due; the end needs none, as the record is next."""
        if self.block.finished:
            return False
        minutes, steps = self.keeping.minutes, self.keeping.steps
        by_time = minutes and time.monotonic() - self._saved_at >= 60 * minutes
        by_steps = steps and self.block.step - self._saved_step >= steps
        return bool(by_time or by_steps)

    def _save(self) -> None:
        for index, snapshots in enumerate(self.snapshots):
            spent, lane = self._spent[index], self.lane(index)
            snapshots.flush()
            so_far = replace(spent, seconds=spent.seconds + self.seconds)
            checkpoint = Checkpoint(self.block.saved(index), so_far, snapshots.score(lane))
            after = save(self.results, self.cells[index], checkpoint, self.keeping.checkpoints)
            # seconds are those of earlier processes; this one's are added when they are told
            self._spent[index] = replace(after, seconds=spent.seconds)
            snapshots.prune(lane)
        self._saved_at, self._saved_step = time.monotonic(), self.block.step
