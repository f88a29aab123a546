"""What a compiled program is made of."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ablations.engine import worker
from ablations.engine.backends.compiled.program import (
    LARGE_BYTES,
    bytes_needed,
    pass_large_constants,
)
from ablations.engine.estimate import speeds
from ablations.engine.job import Cell, JobSpec, cells_of
from ablations.engine.plan import plan
from ablations.engine.prepare import needed
from ablations.engine.slurm.cluster import Cluster
from ablations.request import Request


@pytest.mark.parametrize("lanes", [1, 3])
def test_large_constants_are_passed_and_small_ones_compiled_in(lanes: int) -> None:
    """As the parameters of a model that every cell starts from."""
    rng = np.random.default_rng(0)
    large = rng.normal(size=LARGE_BYTES // 4 + 1)
    small = rng.normal(size=4)

    def init(key: Any, variant: Any) -> dict[str, Any]:
        return {
            "large": jnp.asarray(large),
            "small": variant["scale"] * small,
            "noise": jax.random.normal(key, (2,)),
        }

    lift = jax.vmap if lanes > 1 else lambda function: function
    keys = jax.random.split(jax.random.key(0), lanes)
    data = {"scale": np.arange(1.0, lanes + 1)}
    if lanes == 1:
        keys, data = keys[0], {"scale": data["scale"][0]}
    given, constants = pass_large_constants(init, (keys, data), lift)
    assert [one.nbytes for one in map(np.asarray, constants)] == [large.astype(np.float32).nbytes]
    lowered = jax.jit(given).lower(constants, keys, data)
    assert len(lowered.as_text()) < LARGE_BYTES / 10
    found, plain = lowered.compile()(constants, keys, data), jax.jit(lift(init))(keys, data)
    assert jax.tree.structure(found) == jax.tree.structure(plain)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(plain), strict=True):
        np.testing.assert_array_equal(one, other)


def test_without_large_constants_the_program_is_the_notebooks() -> None:
    def init(key: Any, variant: Any) -> Any:
        return jax.random.normal(key, (3,)) * variant

    key, data = jax.random.key(0), np.float32(2.0)
    given, constants = pass_large_constants(init, (key, data), lambda function: function)
    assert constants == []
    text = jax.jit(given).lower(constants, key, data).as_text()
    plain = jax.jit(init).lower(key, data).as_text()
    assert text.splitlines()[1:] == plain.splitlines()[1:]


def test_memory_is_what_a_function_holds_at_once() -> None:
    """A table of all sums, which cannot be fused away, between an input and the output over it."""

    def sums(x: Any) -> Any:
        return (x[:, None] * x[None]).cumsum(0).cumsum(1)[0, -1] + x

    size, table = 4 * 1000, 4 * 1000**2
    x = jax.ShapeDtypeStruct((1000,), jnp.float32)
    needed = bytes_needed(jax.jit(sums).lower(x).compile())
    assert table + 2 * size <= needed < 3 * table
    assert bytes_needed(jax.jit(sums, donate_argnums=0).lower(x).compile()) == needed - size


def test_studies_that_run_together_share_a_program_where_they_can() -> None:
    """A shared torso is compiled in; every other difference of the three is data."""
    studies = ("gae", "value_coefficient", "value_clipping")
    plans = [plan(Request(study, "quick", ("fast",))) for study in studies]
    alone = {cell.program for each in plans for cell in needed([each])}
    together = {cell.config["structure"]["torso"]: cell.program for cell in needed(plans)}
    assert len(alone) == 4
    assert len({cell.program for cell in needed(plans)}) == 2
    assert together["shared"] != together["separate"]
    assert {cell.hash for cell in needed(plans)} == {
        cell.hash for each in plans for cell in needed([each])
    }


# Runs of several compositions side by side in one program

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


def test_no_lane_of_an_accelerator_is_compiled_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []

    def program(cell: Cell, lanes: int, **_: object) -> SimpleNamespace:
        compiled.append(lanes)
        return SimpleNamespace(lanes=lanes, compile_seconds=0.0)

    monkeypatch.setattr("ablations.engine.backends.compiled.program.Program", program)
    for accelerator in (False, True):
        order = JobSpec("r", str(tmp_path), cells(), 1, 8, accelerator)
        worker.Worker(order, 0)._program_for(order.cells[0])
    assert compiled == [8, 2 * SEEDS]


def test_a_job_is_of_several_compositions() -> None:
    for gpus, lanes in ((0, 1), (1, 2 * SEEDS), (4, 2)):
        known = speeds(Path("nowhere"), cells(), accelerator=gpus > 0)
        found = Cluster(gpus=gpus).sized(cells(), known)
        assert (found.programs, found.jobs, found.lanes) == (1, 1, lanes)
