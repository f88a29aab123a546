"""Measure the time of a command to its first step, with a cold and a warm cache of programs.

    python benchmarks/first_step.py [TASK ...]        # default: fast hopper

One worker trains one chunk of one run in an empty results folder: once cold, then three times warm.
CPU and wall seconds include the whole command and its worker.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = ("run", "gae", "--variants", "standard", "--seeds", "1", "--workers", "1", "--quiet")
SHORT = ("--profile", "smoke", "--evaluations", "0", "--keep-policies", "0", "--set", "points=1")


def seconds(task: str, cache: str) -> tuple[float, float]:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ablations.cli", *COMMAND, *SHORT, "--tasks", task]
        environment = dict(os.environ) | {"JAX_COMPILATION_CACHE_DIR": cache}
        results = str(Path(folder) / "results")
        command += ["--steps", "1", "--results", results]
        if code := subprocess.run(command, env=environment, check=False).returncode:
            sys.exit(code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.monotonic() - started


def main(tasks: list[str]) -> None:
    print("| task | cache of programs | CPU seconds | wall seconds |\n|---|---|---|---|")
    for task in tasks:
        with tempfile.TemporaryDirectory() as cache:
            for name, times in (("cold", 1), ("warm", 3)):
                measured = [seconds(task, cache) for _ in range(times)]
                cpu, wall = (statistics.median(column) for column in zip(*measured, strict=True))
                print(f"| {task} | {name} | {cpu:.1f} | {wall:.1f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tasks", nargs="*", metavar="TASK", default=["fast", "hopper"])
    main(parser.parse_args().tasks)
