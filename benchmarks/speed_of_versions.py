"""Compare the training speed of this checkout with another commit.

    python benchmarks/speed_of_versions.py [COMMIT] [TASK] [--their-flags='--xla_...']

Each version has one process on one core. They train chunks in turns, so other work of the machine
affects both equally. Prints the median ratio of CPU times with a 95% interval (inversion of the
sign test). The exit code is 1 if the whole interval says slower by more than 5%.

--their-flags are the XLA_FLAGS of the other commit. "ours" in them means the flags of workers, and
'' means XLA's defaults. `HEAD hopper --their-flags=''` measures the cost of our flags.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 31
SLOWER = 1.05

WORKER = """
import os, sys, time
from ablations.engine.machine import worker_environment
os.environ |= worker_environment(accelerator=False)
if len(sys.argv) > 2:
    ours = os.environ.get("XLA_FLAGS", "")
    flags = [ours if flag == "ours" else flag for flag in sys.argv[2].split()]
    os.environ["XLA_FLAGS"] = " ".join(flags)
import jax
from ablations import make_trainer
from ablations.tasks import task

of = next(iter(task(sys.argv[1]).hyperparameters))
trainer, variant = make_trainer(sys.argv[1], trainer=of, updates_per_chunk=4)
start = [trainer.start(0)] if trainer.start else []
state = jax.jit(trainer.init)(jax.random.key(0), variant, *start)
chunk = jax.jit(trainer.chunk, donate_argnums=0)
state, _ = jax.block_until_ready(chunk(state, variant))
print("ready", flush=True)
for _ in sys.stdin:
    started = time.process_time()
    state, _ = jax.block_until_ready(chunk(state, variant))
    print(time.process_time() - started, flush=True)
"""


def start(checkout: Path, task: str, flags: str | None = None) -> subprocess.Popen[str]:
    """Start a process that trains a chunk with a checkout's code for each line of input.

    flags: XLA_FLAGS instead of a worker's, as in --their-flags.
    """
    environment = dict(os.environ) | {"PYTHONPATH": str(checkout), "JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, task, *([] if flags is None else [flags])],
        cwd=checkout,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        sys.exit(f"the code in '{checkout}' does not train {task}")
    return process


def turn(process: subprocess.Popen[str]) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """Return the median and its 95% interval from order statistics, exact for any distribution."""
    ordered, n = sorted(values), len(values)
    tail, drop = 0.0, 0
    while tail + math.comb(n, drop) / 2**n <= 0.025:
        tail += math.comb(n, drop) / 2**n
        drop += 1
    drop = max(drop, 1)
    return ordered[n // 2], ordered[drop - 1], ordered[n - drop]


def measure(
    commit: str, task: str, flags: str | None = None, rounds: int = ROUNDS
) -> tuple[float, float, float]:
    """Return the median of (CPU time now / then) over the rounds, and its interval.

    flags: XLA_FLAGS of the other commit, as in `start`.
    """
    with tempfile.TemporaryDirectory() as folder:
        then = Path(folder) / "then"
        git = ["git", "-C", str(ROOT), "worktree"]
        add = [*git, "add", "--detach", str(then), commit]
        made = subprocess.run(add, capture_output=True, text=True, check=False)
        if made.returncode:
            sys.exit(made.stderr.strip())
        processes = []
        try:
            processes = [start(ROOT, task), start(then, task, flags)]
            ratios = []
            for place in range(rounds):
                order = processes if place % 2 else processes[::-1]
                seconds = {id(process): turn(process) for process in order}
                ratios.append(seconds[id(processes[0])] / seconds[id(processes[1])])
        finally:
            for process in processes:
                process.communicate()
            subprocess.run([*git, "remove", "--force", str(then)], check=True, capture_output=True)
    return median_interval(ratios)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commit", nargs="?", default="HEAD")
    parser.add_argument("task", nargs="?", default="fast")
    parser.add_argument("--their-flags", metavar="XLA_FLAGS", help="XLA_FLAGS of the other commit")
    asked = parser.parse_args()
    ratio, least, most = measure(asked.commit, asked.task, asked.their_flags)
    other = asked.commit
    if asked.their_flags is not None:
        other += f" with XLA_FLAGS='{asked.their_flags}'"
    print(
        f"{asked.task}: {ratio:.3f} times the CPU time of {other}, "
        f"95% interval [{least:.3f}, {most:.3f}]"
    )
    sys.exit(least > SLOWER)
