"""Measure the share of the physics' speed that remains when learning is added.

    pytest benchmarks/test_speed.py --benchmark-only -s
    python benchmarks/test_speed.py [hopper ant ...]

Both sides of a ratio alternate in one process on one core. CPU times hardly depend on other work of
the machine. The median ratio is printed. No test asserts a time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from ablations import make_trainer
from ablations.engine.machine import worker_environment
from ablations.errors import UserError

ROUNDS = 7
STRUCTURE = {"num_envs": 256, "unroll_length": 16, "num_minibatches": 8, "epochs": 4}
LANES = 4


def _physics(name: str, steps: int) -> Callable[[], None]:
    import jax

    from ablations.environments import adapted
    from ablations.tasks import task
    from ablations.trainers.control.environment import batched_step

    env = adapted(task(name).make(task(name).settings))
    num_envs = STRUCTURE["num_envs"]
    start = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), num_envs))
    shape = (steps, num_envs, env.actions.size)
    actions = jax.random.uniform(jax.random.key(1), shape, minval=-1.0, maxval=1.0)

    @jax.jit
    def simulate(state: Any) -> Any:
        def step(state: Any, action: Any) -> Any:
            return batched_step(env)(state, action)[0], None

        return jax.lax.scan(step, state, actions)[0]

    return lambda: jax.block_until_ready(simulate(start))


def _training(composed: Any, variant: Any, lanes: int = 0) -> Callable[[], None]:
    """Return a function that trains the next chunk of one run, or of `lanes` runs under vmap."""
    import jax
    import jax.numpy as jnp

    init, chunk, key = composed.init, composed.chunk, jax.random.key(0)
    if lanes:
        init, chunk = jax.vmap(init), jax.vmap(chunk)
        key = jax.random.split(key, lanes)
        variant = jax.tree.map(lambda x: jnp.repeat(jnp.asarray(x)[None], lanes, 0), variant)
    state = jax.jit(init)(key, variant)
    compiled = jax.jit(chunk, donate_argnums=0).lower(state, variant).compile()

    def run() -> None:
        nonlocal state
        state, _ = compiled(state, variant)
        jax.block_until_ready(state)

    return run


def _seconds(run: Callable[[], None]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def _alternate(one: Callable[[], None], other: Callable[[], None]) -> tuple[float, float, float]:
    """Return the median CPU seconds of both, and the median of one / other over the pairs."""
    one(), other()
    pairs = [(_seconds(one), _seconds(other)) for _ in range(ROUNDS)]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def measure(name: str) -> None:
    """Print training's share of the physics rate, and the speed of one run and of vmapped runs."""
    updates = 8
    steps = updates * STRUCTURE["unroll_length"]
    composed, variant = make_trainer(name, updates_per_chunk=updates, **STRUCTURE)
    one = _training(composed, variant)
    physics, training, share = _alternate(_physics(name, steps), one)
    total = steps * STRUCTURE["num_envs"]
    print(
        f"{name}: physics alone {total / physics:,.0f} steps/s, training {total / training:,.0f} "
        f"steps/s, share {share:.0%}",
        flush=True,
    )
    lanes, single, ratio = _alternate(_training(composed, variant, LANES), one)
    print(
        f"{name}: {LANES} runs under vmap {LANES * total / lanes:,.0f} steps/s, one run after "
        f"another {total / single:,.0f} steps/s, {ratio / LANES:.2f} times as fast",
        flush=True,
    )


@pytest.mark.benchmark(group="speed")
@pytest.mark.parametrize("name", ["hopper", "ant"])
def test_share_of_the_physics_rate(name: str, benchmark: Any) -> None:
    """Measure in a new process, which has one core and one XLA device, as a worker has."""
    command = [sys.executable, __file__, name]
    said = benchmark.pedantic(lambda: subprocess.check_output(command, text=True), rounds=1)
    print(said)
    benchmark.extra_info["measured"] = said.splitlines()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tasks", nargs="*", metavar="TASK", default=["hopper", "ant"])
    asked = parser.parse_args()
    os.environ |= worker_environment(accelerator=False)  # before JAX starts
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        for task_name in asked.tasks:
            measure(task_name)
    except UserError as error:
        parser.error(str(error))
