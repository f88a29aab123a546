"""Measure the engine's own time per run, and its reading commands, for 1,000 to 100,000 runs.

    python benchmarks/scale.py [RUNS ...] [--write]

The trainer is synthetic, a random walk of ten points that takes well under a millisecond (see
`SYNTHETIC`), so only the engine is measured. Times are the CPU seconds of a command with all of its
processes, so other work on the machine does not count. Memory is the peak of the largest process.
The start (imports, compilation) is measured with few runs and subtracted before dividing by the
number of runs. --write writes results/reference/scale.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "results" / "reference" / "scale.md"
VARIANTS = 20
MANY = 20_000  # beyond, a worker trains 64 runs in parallel, and `report` is not measured
FEW = 1000  # up to here the measurement is repeated, because the start is a large part of it
COMMANDS = {
    "status": ("status",),
    "table": ("table", "synthetic"),
    "export csv": ("export", "synthetic", "--output", "runs.csv"),
    "report": ("report",),
    "run again": ("run", "synthetic", "--plugin", "synthetic", "--quiet"),
}
SYNTHETIC = """\
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ablations import studies, tasks, trainers

def make(*, task, settings, structure, updates_per_chunk, evaluation_envs, choices):
    def init(key, variant):
        return jax.random.normal(key), key

    def chunk(state, variant):
        x, key = state
        key, draw = jax.random.split(key)
        x = x + variant.numbers["drift"] + jax.random.normal(draw)
        return (x, key), {"training/return": x, "training/length": jnp.abs(x)}

    return trainers.Trainer(init, chunk, chunk, lambda state: {"x": state[0]}, 10)

@dataclass(frozen=True)
class Settings:
    drift: float = trainers.number(0.0, 0.0, 1.0, "how far in an update")


trainers.register(trainers.TrainerSpec(
    name="synthetic",
    summary="a random walk",
    hyperparameters=Settings,
    make=make,
    iteration_steps=lambda structure: 10,
))
tasks.register(
    tasks.Task(name="line", summary="a line", make=lambda settings: None, settings={}, steps=100)
)
studies.register(studies.Study(
    name="synthetic",
    title="Random walks",
    claim="",
    claim_source="",
    baseline="drift00",
    variants={f"drift{k:02}": studies.Variant({"drift": k / 100}) for k in range(20)},
    margin=0.05,
    trainer="synthetic",
    profiles={"quick": studies.Profile(
        tasks=("line",), seeds=1, steps=100, points=10, evaluations=0, evaluation_envs=1
    )},
))
"""


@dataclass(frozen=True)
class Cost:
    """Cost of a command: CPU seconds, wall seconds and peak memory in MB."""

    cpu: float
    wall: float
    megabytes: float


def ablations(folder: Path, *arguments: str) -> Cost:
    """Run a command in a folder; raise RuntimeError if it fails."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(folder)}
    started = time.monotonic()
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "ablations.cli", *arguments],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
        )
        _, code, used = os.wait4(process.pid, 0)
    if code:
        raise RuntimeError(f"{arguments}: {(folder / 'output.txt').read_text()[-2000:]}")
    cpu = used.ru_utime + used.ru_stime
    return Cost(cpu, time.monotonic() - started, used.ru_maxrss / 1024)


def begun(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "synthetic.py").write_text(SYNTHETIC)
    return folder


def run(folder: Path, runs: int) -> Cost:
    seeds = str(runs // VARIANTS)
    how = ("--plugin", "synthetic", "--workers", "2", "--keep-policies", "0", "--quiet")
    how += ("--lanes", "64") if runs > MANY else ()
    return ablations(begun(folder), "run", "synthetic", "--seeds", seeds, *how)


def read(folder: Path, runs: int) -> dict[str, Cost]:
    costs = {}
    for what, arguments in COMMANDS.items():
        seeds = ("--seeds", str(runs // VARIANTS)) if what == "run again" else ()
        if what != "report" or runs < MANY:
            costs[what] = ablations(folder, *arguments, *seeds)
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="*", type=int, default=[1000, 5000, 20_000, 100_000])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        folder = Path(name) / "work"
        beginning = statistics.median(run(folder, VARIANTS).cpu for _ in range(3))
        print(f"start of a command: {beginning:.1f} CPU s", flush=True)
        for runs in options.runs:
            made = [run(folder, runs) for _ in range(3 if runs <= FEW else 1)]
            middle = sorted(made, key=lambda cost: cost.cpu)[len(made) // 2]
            rows.append(row(runs, beginning, {"run": middle, **read(folder, runs)}))
            print(rows[-1], flush=True)
    page = "\n".join([*head(beginning), *rows]) + "\n"
    print(page)
    if options.write:
        PAGE.write_text(page)


def head(beginning: float) -> list[str]:
    names = ["runs", "run: ms each", "run: MB"]
    names += [f"{what}: {unit}" for what in COMMANDS for unit in ("s", "MB")]
    return [
        "# Many runs",
        "",
        "`python benchmarks/scale.py --write` measures the CPU time of all processes of a command "
        "and",
        "the peak memory of the largest. The trainer is synthetic: 20 variants, curves of ten "
        "points,",
        "two workers, no saved policies. The milliseconds of `run` do not contain its start",
        f"({beginning:.1f} s for imports and compilation in three processes). Above {MANY:,} "
        "runs, each",
        "worker trains 64 runs in parallel.",
        "",
        f"| {' | '.join(names)} |",
        f"|{'---:|' * len(names)}",
    ]


def row(runs: int, beginning: float, costs: dict[str, Cost]) -> str:
    made = costs["run"]
    per_run = 1000 * (made.cpu - beginning) / (runs - VARIANTS)
    fields = [f"{runs:,}", f"{per_run:.2f}", f"{made.megabytes:,.0f}"]
    for what in COMMANDS:
        cost = costs.get(what)
        fields += [f"{cost.cpu:.1f}", f"{cost.megabytes:,.0f}"] if cost else ["", ""]
    return f"| {' | '.join(fields)} |"


if __name__ == "__main__":
    main()
