"""What the engine's programs cost beside one with every choice written in.

    pytest benchmarks/test_switching_speed.py --benchmark-only -s
    python benchmarks/test_switching_speed.py [--lanes 4] [hopper fast ...]
    python benchmarks/test_switching_speed.py --output results/reference/speed/switching.md

The specialised program has every choice as a name, so that the compiler sees no switch at all. In
one lane the engine's program is that of a CPU, which switches over all choices of all axes; in more
it is that of an accelerator, whose lanes are the seeds of one composition. Both run a task's
defaults, alternately, in one process on one core; times are CPU times. Nothing is asserted.
`--output` measures both tasks as one lane and as 4, and writes the table.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pages import measured_on, write

from ablations.errors import UserError
from ablations.sweep.machine import worker_environment

ROUNDS = 9
LANES = 4
UPDATES = 8
LIMIT = 1.05


def cells(name: str, lanes: int, updates: int = UPDATES, **sets: Any) -> list[Any]:
    """A cell for each lane: seeds of a task's defaults and of what is set over them, in chunks of
    so many updates."""
    from ablations.sweep.cell import Cell
    from ablations.tasks import task
    from ablations.trainers import trainer

    definition, one = trainer("ppo"), task(name)
    varied = None if lanes == 1 else ()  # all axes; or none, as in a plan of one composition
    config = definition.resolve(one, {**one.hyperparameters["ppo"], **sets})
    run = {
        "points": 10_000,
        "updates_per_chunk": updates,
        "iteration_steps": definition.iteration_steps(config["structure"]),
        "evaluations": 0,
        "evaluation_envs": 0,
    }
    return [
        Cell(
            "speed",
            name,
            "defaults",
            seed,
            f"{seed}",
            {**config, "run": run, "seed": seed},
            varied=varied,
        )
        for seed in range(lanes)
    ]


class Engine:
    """A block of cells as a worker trains it; compile_seconds: CPU time of all its functions."""

    def __init__(self, cells: Sequence[Any]) -> None:
        from ablations.sweep.backends.compiled.program import Program

        started = time.process_time()
        program = Program(cells[0], lanes=len(cells), accelerator=len(cells) > 1)
        self.compile_seconds = time.process_time() - started
        self.block = program.start(cells)

    def run(self) -> float:
        """CPU seconds of one chunk."""
        started = time.process_time()
        self.block.advance()
        return time.process_time() - started


class Specialised:
    """The same cells in a program of their choices, written as a user would."""

    def __init__(self, cells: Sequence[Any]) -> None:
        import jax
        import numpy as np

        from ablations.trainers.composed import compose

        config = cells[0].config
        names = {axis: choice["name"] for axis, choice in config["choices"].items()}
        trainer, as_data = compose(config, tuple(names))

        def chunk(state: Any, data: Any) -> Any:
            return trainer.chunk(state, data._replace(choices=names))

        def init(key: Any, data: Any) -> Any:
            return trainer.init(key, data._replace(choices=names))

        keys = jax.vmap(jax.random.key)(np.arange(len(cells), dtype=np.uint32))
        data = jax.tree.map(lambda *x: np.stack(x), *[as_data(cell.config) for cell in cells])
        data = data._replace(choices={})
        if len(cells) == 1:
            keys, data = jax.tree.map(lambda x: x[0], (keys, data))
        else:
            init, chunk = jax.vmap(init), jax.vmap(chunk)
        started = time.process_time()
        init = jax.jit(init).lower(keys, data).compile()
        self.state, self.data = init(keys, data), data
        self.chunk = jax.jit(chunk, donate_argnums=0).lower(self.state, data).compile()
        self.compile_seconds = time.process_time() - started

    def run(self) -> float:
        """CPU seconds of one chunk, its metrics fetched."""
        import jax

        started = time.process_time()
        self.state, metrics = self.chunk(self.state, self.data)
        jax.device_get(metrics)
        jax.block_until_ready(self.state)
        return time.process_time() - started


def compare(one: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """(run time, compile time) of one over other, the first the median of pairs."""
    sides = [one(), other()]
    pairs = [(sides[0].run(), sides[1].run()) for _ in range(ROUNDS + 1)][1:]
    running = statistics.median(a / b for a, b in pairs)
    return running, sides[0].compile_seconds / sides[1].compile_seconds


def measure(name: str, lanes: int) -> tuple[float, float]:
    """Prints and returns the engine's time over that of the specialised program, running and
    compiling."""
    block = cells(name, lanes)
    run, compiling = compare(lambda: Engine(block), lambda: Specialised(block))
    print(f"{name}, lanes {lanes}: runs {run:.3f}, compiles {compiling:.2f} times as long")
    return run, compiling


def write_table(path: Path, tasks: list[str], machine: str) -> None:
    """Measures every task as one lane and as `LANES`, and writes the table."""
    lines = [
        "The engine's program over one with every choice written in: "
        f"`python benchmarks/test_switching_speed.py {' '.join(tasks)} --output {path}`",
        "",
        machine,
        "",
        f"CPU time on one core, both in one process: running, the median of {ROUNDS} pairs of "
        f"chunks of {UPDATES} updates; compiling, once each, `init` and the chunk. One lane is the "
        "program of a CPU, which serves every variant of a study with its choices as data. "
        f"{LANES} lanes are the program of an accelerator, here on the CPU: seeds of one "
        f"composition. There running is to take at most {LIMIT:.2f} times as long.",
        "",
        "| task | lanes | running | compiling |",
        "|---|---|---|---|",
    ]
    for name in tasks:
        for lanes in (1, LANES):
            run, compiling = measure(name, lanes)
            lines.append(f"| {name} | {lanes} | {run:.3f} | {compiling:.2f} |")
            write(path, "\n".join(lines) + "\n")


@pytest.mark.benchmark(group="switching")
@pytest.mark.parametrize("lanes", ["1", "4"])
@pytest.mark.parametrize("name", ["fast", "hopper"])
def test_engine_against_specialised(name: str, lanes: str, benchmark: Any) -> None:
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
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--output", type=Path, help="write the table of all there")
    asked = parser.parse_args()
    asked.tasks = asked.tasks or ["fast", "hopper"]
    try:
        if asked.output:
            write_table(asked.output, asked.tasks, machine)
        else:
            for task_name in asked.tasks:
                measure(task_name, asked.lanes)
    except UserError as error:
        parser.error(str(error))
