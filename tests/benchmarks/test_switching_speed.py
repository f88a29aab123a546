"""What it costs that every choice is data: the switched program against specialised ones.

    pytest tests/benchmarks/test_switching_speed.py --benchmark-only -s
    python tests/benchmarks/test_switching_speed.py [--lanes 4] [hopper fast ...]
    python tests/benchmarks/test_switching_speed.py --output results/reference/speed/switching.md

The specialised program has every choice written into it as a name, so that the compiler sees no
switch at all. The other one switches over all choices of all axes. Both run the defaults,
alternately, in one process on one core; times are CPU times. With lanes, both are vmapped: there a
switch runs all of its branches, and axes declared `specialise` are fixed in both, as the engine
does on an accelerator; `--axes` then tells what each axis adds by itself. Nothing is asserted.
`--output` measures both tasks as one lane and as 4, and writes the table.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pages import measured_on, write

from ablations.errors import UserError
from ablations.sweep.machine import worker_environment

ROUNDS = 9
LANES = 4
RUN_LIMIT, COMPILE_LIMIT = 1.05, 1.20


class Side:
    """One compiled chunk that goes on from where it ended; compile_seconds: CPU time."""

    def __init__(self, trainer: Any, variant: Any, fixed: Mapping[str, str], lanes: int) -> None:
        import jax
        import jax.numpy as jnp

        def with_names(data: Any) -> Any:
            return data._replace(choices={**data.choices, **fixed})

        def init(key: Any, data: Any) -> Any:
            return trainer.init(key, with_names(data))

        def chunk(state: Any, data: Any) -> Any:
            return trainer.chunk(state, with_names(data))

        key = jax.random.key(0)
        if lanes:
            init, chunk = jax.vmap(init), jax.vmap(chunk)
            key = jax.random.split(key, lanes)
            variant = jax.tree.map(lambda x: jnp.repeat(jnp.asarray(x)[None], lanes, 0), variant)
        self.variant = variant
        self.state = jax.jit(init)(key, variant)
        started = time.process_time()
        self.chunk = jax.jit(chunk, donate_argnums=0).lower(self.state, variant).compile()
        self.compile_seconds = time.process_time() - started

    def run(self) -> float:
        """CPU seconds of one chunk."""
        import jax

        started = time.process_time()
        self.state, _ = self.chunk(self.state, self.variant)
        jax.block_until_ready(self.state)
        return time.process_time() - started


def compare(one: Callable[[], Side], other: Callable[[], Side]) -> tuple[float, float]:
    """(run time, compile time) of one over other: medians of pairs, each compiled twice."""
    sides = [one(), other(), one(), other()]
    compiling = [side.compile_seconds for side in sides]
    pairs = [(sides[0].run(), sides[1].run()) for _ in range(ROUNDS + 1)][1:]
    return (
        statistics.median(a / b for a, b in pairs),
        min(compiling[0], compiling[2]) / min(compiling[1], compiling[3]),
    )


def measure(name: str, lanes: int, axes: bool) -> tuple[float, float]:
    """Prints and returns the switched program's time over that of the specialised one, running and
    compiling."""
    from test_speed import composed_trainer

    import variants
    from ablations.trainers import trainer

    composed, variant = composed_trainer(name, updates=8)
    names = dict(trainer("ppo").axes)
    always = {n: c for n, c in names.items() if lanes and variants.axis(n).specialise}

    def side(fixed: Mapping[str, str]) -> Callable[[], Side]:
        return lambda: Side(composed, variant, fixed, lanes)

    how = f"{name}, {lanes} lanes" if lanes else name
    whole = compare(side(always), side(names))
    print(
        f"{how}: all axes: runs {whole[0]:.3f}, compiles {whole[1]:.2f} times as long", flush=True
    )
    for axis in names if axes else ():
        if axis not in always:
            one = {n: c for n, c in names.items() if n != axis}
            run, compiling = compare(side(one), side(names))
            print(f"{how}: {axis:<26} runs {run:.3f}, compiles {compiling:.2f}", flush=True)
    return whole


def write_table(path: Path, tasks: list[str], machine: str) -> None:
    """Measures every task as one lane and as `LANES`, and writes what was found."""
    import variants
    from ablations.trainers import trainer

    axes = trainer("ppo").axes
    fixed = [name for name in axes if variants.axis(name).specialise]
    lines = [
        "The switched program's time over that of the specialised one: "
        f"`python tests/benchmarks/test_switching_speed.py {' '.join(tasks)} --output {path}`",
        "",
        machine,
        "",
        f"CPU time on one core, both in one process: running, the median of {ROUNDS} pairs; "
        f"compiling, the shorter of two each. All {len(axes)} axes of ppo are switched; in "
        f"{LANES} lanes, where a switch runs all of its branches, those declared `specialise` "
        f"({', '.join(fixed)}) are fixed in both, as the engine does there. The one switched "
        "program serves every variant; specialised programs are one for each. To hold: at most "
        f"{RUN_LIMIT:.2f} running and {COMPILE_LIMIT:.2f} compiling, or the axis is specialised.",
        "",
        "| task | lanes | running | compiling |",
        "|---|---|---|---|",
    ]
    for name in tasks:
        for lanes in (0, LANES):
            run, compiling = measure(name, lanes, axes=False)
            lines.append(f"| {name} | {lanes or 1} | {run:.3f} | {compiling:.2f} |")
            write(path, "\n".join(lines) + "\n")


@pytest.mark.benchmark(group="switching")
@pytest.mark.parametrize("lanes", ["0", "4"])
@pytest.mark.parametrize("name", ["fast", "hopper"])
def test_switched_against_specialised(name: str, lanes: str, benchmark: Any) -> None:
    """In a process of its own, as a worker: one core, one XLA device."""
    command = [sys.executable, __file__, "--lanes", lanes, name]
    said = benchmark.pedantic(lambda: subprocess.check_output(command, text=True), rounds=1)
    print(said)
    benchmark.extra_info["measured"] = said.splitlines()


if __name__ == "__main__":
    machine = measured_on()
    os.environ |= worker_environment(accelerator=False)  # before JAX starts
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lanes", type=int, default=0)
    parser.add_argument("--axes", action="store_true")
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--output", type=Path, help="write the table of all there")
    asked = parser.parse_args()
    asked.tasks = asked.tasks or ["fast", "hopper"]
    try:
        if asked.output:
            write_table(asked.output, asked.tasks, machine)
        else:
            for task_name in asked.tasks:
                measure(task_name, asked.lanes, asked.axes)
    except UserError as error:
        parser.error(str(error))
