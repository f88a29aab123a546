"""Steady chunks of ours, composed as Brax's trainer, against Brax's trainer, in turns.

    python benchmarks/brax_steady.py [TASK:NETWORKS ...] [--against COMMIT] [--rounds 15]

A process for each side, with one thread each; both train a chunk of as many steps when its turn
comes, and CPU times are compared, so that other work on the machine disturbs little. Ours is the
program of a CPU worker with its flags, in the composition and with the arguments of peers.py;
Brax's `ppo.train` has XLA's defaults, and on MuJoCo Playground's tasks that library's wrapper.
--against: our code of another commit as a third side. Prints
medians of Brax's CPU time, or that commit's, over ours with their 95% intervals, and how many steps
each takes in a second of it. peers.py has whole studies, by the clock.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import peers
from test_speed_of_versions import ROOT, median_interval, turn

PAIRS = ("hopper:brax", "hopper:small", "ant:small")
UPDATES = 4
SEEDS = 10_000  # of Brax's chunks, more than anybody asks for


def told(seconds: float | None = None) -> bool:
    """Says that a chunk has ended, and waits for the next turn; False: there is none."""
    print("ready" if seconds is None else seconds, flush=True)
    return bool(sys.stdin.readline())


def train_ours(task: str, networks: str) -> None:
    """Chunks of the program that a worker runs on a CPU."""
    from ablations.sweep.machine import worker_environment

    os.environ |= worker_environment(accelerator=False)  # before JAX starts
    import jax

    from ablations.presets import preset
    from ablations.tasks import task as task_of
    from ablations.trainers import trainer
    from ablations.trainers.composed import compose

    _, changed = peers.settings_as("brax", {"networks": networks})
    definition = trainer("ppo")
    config = definition.resolve(task_of(task), {**preset("brax").values(), **changed})
    config["run"] = {"updates_per_chunk": UPDATES, "evaluation_envs": 1}
    composed, as_data = compose(config, definition.compiled_in(config))
    variant = as_data(config)
    state = jax.jit(composed.init)(jax.random.key(0), variant)
    chunk = jax.jit(composed.chunk, donate_argnums=0)
    state, _ = jax.block_until_ready(chunk(state, variant))
    more = told()
    while more:
        started = time.process_time()
        state, _ = jax.block_until_ready(chunk(state, variant))
        more = told(time.process_time() - started)


def environment_of(task: str, **settings: Any) -> dict[str, Any]:
    """An environment with some of its settings changed, and how Brax's trainer is to wrap it, as
    arguments of that."""
    from ablations.tasks import task as task_of

    environment = task_of(task).make({**task_of(task).settings, **settings})
    if not hasattr(environment, "mjx_model"):
        return {"environment": environment}
    from mujoco_playground import wrapper

    return {"environment": environment, "wrap_env_fn": wrapper.wrap_for_brax_training}


def train_brax(task: str, networks: str) -> None:
    """The parts of a run that lie between its calls of `policy_params_fn`, after the first."""
    import jax
    from brax.training.agents.ppo import networks as networks_of_brax
    from brax.training.agents.ppo import train

    if not hasattr(jax, "device_put_replicated"):
        jax.device_put_replicated = peers.stand_in_for_device_put_replicated
    policy, value, activation = peers.NETWORKS[networks]
    marks: list[float] = []

    def mark(*_: Any) -> None:
        marks.append(time.process_time())
        if len(marks) > 1:  # after the first part, which is compiled
            if not told(marks[-1] - marks[-2] if len(marks) > 2 else None):
                os._exit(0)
            marks[-1] = time.process_time()

    train.train(
        **environment_of(task),
        num_timesteps=UPDATES * peers.ITERATION * SEEDS,
        num_evals=SEEDS + 1,
        run_evals=False,
        policy_params_fn=mark,
        episode_length=peers.EPISODE_LENGTH,
        num_envs=peers.NUM_ENVS,
        network_factory=functools.partial(
            networks_of_brax.make_ppo_networks,
            policy_hidden_layer_sizes=tuple(policy),
            value_hidden_layer_sizes=tuple(value),
            activation=getattr(jax.nn, activation),
        ),
        **peers.ARGUMENTS["brax"],
    )


SIDES = {"ours": train_ours, "brax": train_brax}


def start(side: str, pair: str, checkout: Path) -> subprocess.Popen[str]:
    """A process that trains a chunk for each line it is sent; not yet ready."""
    code = f"{checkout}{os.pathsep}{Path(__file__).parent}"
    one_thread = {"JAX_PLATFORMS": "cpu", "NPROC": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, __file__, pair, "--side", side],
        env={**os.environ, **one_thread, "PYTHONPATH": code},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def measure(pair: str, sides: Sequence[tuple[str, Path]], rounds: int) -> list[list[float]]:
    """CPU seconds of each side's chunks."""
    processes = [start(side, pair, checkout) for side, checkout in sides]
    seconds: list[list[float]] = [[] for _ in processes]
    try:
        for process in processes:
            assert process.stdout is not None
            if not any(line.strip() == "ready" for line in process.stdout):
                sys.exit(f"{pair} does not train")
        for number in range(rounds):
            order = range(len(processes))
            for index in order if number % 2 else reversed(order):
                seconds[index].append(turn(processes[index]))
    finally:
        for process in processes:
            process.communicate()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pairs", nargs="*", metavar="TASK:NETWORKS")
    parser.add_argument("--against", metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        SIDES[asked.side](*asked.pairs[0].split(":"))
        return
    sides, names = [("ours", ROOT), ("brax", ROOT)], ["Brax's trainer"]
    with ExitStack() as stack:
        if asked.against:
            then = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "then"
            git = ["git", "-C", str(ROOT), "worktree"]
            subprocess.run(
                [*git, "add", "--detach", str(then), asked.against], check=True, capture_output=True
            )
            stack.callback(subprocess.run, [*git, "remove", "--force", str(then)], check=True)
            sides, names = [*sides, ("ours", then)], [*names, f"commit {asked.against}"]
        print("| task | networks | beside | its CPU time over ours | our steps/s | its steps/s |")
        print("|---|---|---|---|---|---|")
        for pair in asked.pairs or PAIRS:
            ours, *others = measure(pair, sides, asked.rounds)
            for name, theirs in zip(names, others, strict=True):
                middle, low, high = median_interval(
                    [b / a for a, b in zip(ours, theirs, strict=True)]
                )
                task, networks = pair.split(":")
                row = f"{middle:.2f} [{low:.2f}, {high:.2f}]"
                rates = [
                    f"{UPDATES * peers.ITERATION / statistics.median(seconds):,.0f}"
                    for seconds in (ours, theirs)
                ]
                print(f"| {task} | {networks} | {name} | {row} | {' | '.join(rates)} |", flush=True)


if __name__ == "__main__":
    main()
