"""Is this checkout slower than another commit? Training chunks of both, measured in turns.

    python tests/benchmarks/test_speed_of_versions.py [COMMIT] [TASK]
    SPEED_AGAINST=main pytest tests/benchmarks/test_speed_of_versions.py --benchmark-only

One process per version, on one core; each trains a chunk when its turn comes, so what else the
machine does meets both alike. Prints the median ratio of CPU times with the 95% interval of the
sign test's inversion, and exits with 1 where the whole interval says slower by more than 5%.
Says nothing about learning.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 31
SLOWER = 1.05

WORKER = """
import os, sys, time
from ablations.sweep.machine import worker_environment
os.environ |= worker_environment(accelerator=False)
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


def start(checkout: Path, task: str) -> subprocess.Popen[str]:
    """A process that trains a chunk with the code of a checkout for each line it is sent."""
    environment = dict(os.environ) | {"PYTHONPATH": str(checkout), "JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, task],
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
    """CPU seconds of one chunk."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """The median and its 95% interval: order statistics, exact for any distribution."""
    ordered, n = sorted(values), len(values)
    tail, drop = 0.0, 0
    while tail + math.comb(n, drop) / 2**n <= 0.025:
        tail += math.comb(n, drop) / 2**n
        drop += 1
    drop = max(drop, 1)
    return ordered[n // 2], ordered[drop - 1], ordered[n - drop]


def measure(commit: str, task: str, rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Median of (CPU time now / then) over the rounds, and its interval."""
    with tempfile.TemporaryDirectory() as folder:
        then = Path(folder) / "then"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run(
            [*git, "add", "--detach", str(then), commit], check=True, capture_output=True
        )
        processes = []
        try:
            processes = [start(ROOT, task), start(then, task)]
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


@pytest.mark.benchmark(group="versions")
@pytest.mark.skipif("SPEED_AGAINST" not in os.environ, reason="SPEED_AGAINST names a commit")
def test_speed_against_another_commit(benchmark: Any) -> None:
    commit = os.environ.get("SPEED_AGAINST", "HEAD")
    middle, low, high = benchmark.pedantic(lambda: measure(commit, "fast"), rounds=1)
    benchmark.extra_info |= {"against": commit, "ratio": middle, "low": low, "high": high}
    assert low <= SLOWER, f"{middle:.3f} [{low:.3f}, {high:.3f}] times the CPU time of {commit}"


if __name__ == "__main__":
    against = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    on = sys.argv[2] if len(sys.argv) > 2 else "fast"
    ratio, least, most = measure(against, on)
    print(
        f"{on}: {ratio:.3f} times the CPU time of {against}, 95% interval [{least:.3f}, {most:.3f}]"
    )
    sys.exit(least > SLOWER)
