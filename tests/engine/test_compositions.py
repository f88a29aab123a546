"""Cells of several compositions run side by side in one program. Compiles nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ablations.engine import worker
from ablations.engine.estimate import sized, speeds
from ablations.engine.job import Cell, JobSpec, cells_of
from ablations.engine.plan import plan
from ablations.engine.slurm.cluster import Cluster
from ablations.request import Request

SEEDS, LANES = 3, 4


def cells() -> tuple[Cell, ...]:
    return cells_of(plan(Request("gae", "smoke", seeds=SEEDS, variants=("standard", "brax"))))


@pytest.mark.parametrize("accelerator", [False, True])
def test_a_block_is_of_several_compositions(accelerator: bool, tmp_path: Path) -> None:
    order = JobSpec("r", str(tmp_path), cells(), 1, LANES, accelerator)
    one = worker.Worker(order, 0)
    sizes = []
    while block := one._claim_block():
        sizes.append(len(block))
    one.release()
    assert sizes == [LANES, 2 * SEEDS - LANES]


@pytest.mark.parametrize(("devices", "lanes"), [(1, 6), (4, 8)])
def test_no_lane_of_an_accelerator_is_compiled_for_nobody(
    devices: int, lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []

    def program(cell: Cell, lanes: int, **_: object) -> SimpleNamespace:
        compiled.append(lanes)
        return SimpleNamespace(lanes=lanes, compile_seconds=0.0)

    monkeypatch.setattr("ablations.engine.backends.compiled.program.Program", program)
    monkeypatch.setattr("jax.devices", lambda: [None] * devices)
    for accelerator in (False, True):
        order = JobSpec("r", str(tmp_path), cells(), 1, 8, accelerator)
        worker.Worker(order, 0)._program_for(order.cells[0])
    assert compiled == [8, lanes]


def test_a_job_is_of_several_compositions() -> None:
    for gpus, lanes in ((0, 1), (1, 2 * SEEDS), (4, 2 * SEEDS + 2)):
        cluster = Cluster(gpus=gpus)
        known = speeds(Path("nowhere"), cells(), accelerator=gpus > 0)
        found = sized(cells(), cluster.resources, known)
        assert [len({cell.variant for cell in mine}) for mine, _ in found.programs] == [2]
        assert (found.jobs, found.lanes) == (1, lanes)
