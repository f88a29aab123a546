"""What it costs to save state: `python benchmarks/checkpoint_cost.py [--task hopper]`.

One cell of `gae` at `quick`, in one process. A checkpoint of it is written and loaded ten times;
the share of a minute that one takes is what checkpoints every minute cost. The cell is trained with
and without saved policies, in turns. Prints sizes, medians of times, and what 500 such cells leave
on disk.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from ablations.records import Record, write_record
from ablations.request import Request
from ablations.sweep import checkpoints
from ablations.sweep.backends.compiled.program import Program
from ablations.sweep.cell import cells_of
from ablations.sweep.checkpoints import Checkpoint, Spent
from ablations.sweep.plan import plan
from ablations.sweep.snapshots import Snapshots

REPEATS = 10
TURNS = 5


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description="What it costs to save state.")
    parser.add_argument("--task", default="hopper")
    task = parser.parse_args().task
    (cell,) = cells_of(plan(Request("gae", tasks=(task,), variants=("standard",), seeds=1)))
    program = Program(cell)
    with tempfile.TemporaryDirectory() as root:
        results = Path(root)

        def train(count: int) -> tuple[float, Snapshots]:
            snapshots = Snapshots(results, cell, count)
            started = time.monotonic()
            block = program.start([cell])
            while not block.finished:
                block.advance()
                if snapshots.wanted(block.point, block.lanes[0]):
                    snapshots.write(block.step, block.policy(0))
            seconds = time.monotonic() - started
            trained.append(block)
            return seconds, snapshots

        trained: list = []
        train(0)
        ratios, seconds = [], []
        for _ in range(TURNS):
            without, _ = train(0)
            with_policies, snapshots = train(4)
            ratios.append(with_policies / without)
            seconds.append(without)
        block = trained[-1]
        record = Record(cell.hash, cell.config, "done", policies=snapshots.finish(block.lanes[0]))
        write_record(results, record, block.lanes[0].columns, snapshots.folder)
        left = size(results / "cells" / cell.hash)

        saved = Checkpoint(block.saved(0), Spent())
        spent = checkpoints.save(results, cell, saved)
        writing, reading = [], []
        for _ in range(REPEATS):
            started = time.monotonic()
            checkpoints.save(results, cell, Checkpoint(block.saved(0), Spent()))
            writing.append(time.monotonic() - started)
            started = time.monotonic()
            checkpoints.load(results, cell, block.point)
            reading.append(time.monotonic() - started)
    write, read = statistics.median(writing), statistics.median(reading)
    print(
        f"{task}: a checkpoint is {spent.bytes / 1e6:.2f} MB, written in {write:.3f} s and loaded "
        f"in {read:.3f} s; one a minute costs {write / 60:.2%}, and "
        f"{spent.saving_seconds - write:.1f} s the first time.\n"
        f"A cell of {statistics.median(seconds):.2f} s takes {statistics.median(ratios):.3f} times "
        f"as long with {len(record.policies['files'])} saved policies. It leaves "
        f"{left / 1e3:.0f} kB, 500 of them {500 * left / 1e6:.0f} MB."
    )


if __name__ == "__main__":
    main()
