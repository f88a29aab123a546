"""Compare the bits of runs on this processor with another processor or another C library.

    apt-get install qemu-user
    python benchmarks/portable_bits.py [--cpu EPYC-Rome Haswell] [--tasks hopper ...]
        [--training hopper ...] [--studies gae ...] [--libc FOLDER ...]

- Physics of a task: twelve steps with random actions in 64 environments, some minutes.
- Training: PPO's init and two iterations of 64 environments x 32 steps, ten minutes for a task.
- Studies: every study's smoke profile with one seed, at most an hour for all.

Each runs natively and under qemu-user, at about a fifteenth of the speed; the times are for one
processor. Prints which items have equal bits and which differ, and exits with 1 if any differ.
`--cpu`, `--tasks`, `--training` or `--studies` without a name skips that part. --libc is the folder
of an unpacked libc6 package (`dpkg-deb --extract libc6_2.41-12_amd64.deb FOLDER`).
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet
from pages import measured_on

from ablations.engine.machine import worker_environment
from ablations.errors import count

STUDIES = (
    "gae",
    "value_coefficient",
    "value_clipping",
    "advantage_normalization",
    "prompt_normalization",
)
# A run whose workers use another Python
RUN = """
import sys
from ablations.cli import main
sys.executable = sys.argv.pop(1)
sys.exit(main(sys.argv[1:]))
"""

TASKS = ("inverted_double_pendulum", "reacher", "hopper", "walker2d", "halfcheetah", "ant")
# Print a hash of an environment's states after twelve steps
PHYSICS = """
import hashlib, sys
import jax, jax.numpy as jnp
from ablations.environments import adapted
from ablations.tasks import task
from ablations.trainers.control.environment import batched_step
one = task(sys.argv[1])
env = adapted(one.make(one.settings))
def run(keys):
    def step(state, key):
        action = jax.random.uniform(key, (64, env.actions.size), minval=-1, maxval=1)
        state, step = batched_step(env)(state, action)
        return state, (state.observation, step.reward)
    return jax.lax.scan(step, jax.vmap(env.reset)(keys[:64]), keys[64:])[1]
seen = jax.jit(run)(jax.random.split(jax.random.key(0), 76))
print(hashlib.sha256(b"".join(jax.device_get(one).tobytes() for one in seen)).hexdigest())
"""

# Print a hash of a trainer's state after two iterations
TRAINING = """
import hashlib, sys
import jax
from ablations import make_trainer
from ablations.trainers.leaves import to_arrays
trainer, variant = make_trainer(
    sys.argv[1], updates_per_chunk=2, num_envs=64, unroll_length=32, num_minibatches=4, epochs=4
)
state = jax.jit(trainer.init)(jax.random.key(0), variant)
state, _ = jax.jit(trainer.chunk)(state, variant)
arrays = to_arrays(state)
print(hashlib.sha256(b"".join(arrays[name].tobytes() for name in sorted(arrays))).hexdigest())
"""


def emulated(cpu: str, folder: Path) -> Path:
    """Return a Python that qemu runs on this processor."""
    qemu = shutil.which("qemu-x86_64") or sys.exit("qemu-x86_64 is missing: install qemu-user")
    path = folder / f"python-{cpu}"
    python = Path(sys.executable).resolve()
    path.write_text(f'#!/bin/sh\nexec {qemu} -cpu {cpu} {python} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def with_libc(unpacked: Path, folder: Path) -> tuple[str, Path]:
    """Return the name of an unpacked C library, and a Python that uses it."""
    library = next(unpacked.resolve().rglob("libc.so.6"), None)
    if library is None:
        sys.exit(f"'{unpacked}' has no libc.so.6: unpack the package libc6 there")
    loader = library.parent / "ld-linux-x86-64.so.2"
    path = folder / f"python-libc-{len(list(folder.iterdir()))}"
    python = Path(sys.executable).resolve()
    others = [python.parent.parent / "lib", "/usr/lib/x86_64-linux-gnu"]
    places = ":".join(map(str, [library.parent, *others]))
    command = shlex.join(map(str, [loader, "--library-path", places, python]))
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    ask = "import os; print(os.confstr('CS_GNU_LIBC_VERSION'))"
    return subprocess.check_output([str(path), "-c", ask], text=True).strip(), path


def surroundings(environment: dict[str, str]) -> dict[str, str]:
    """Return variables that give a Python of `emulated` or `with_libc` the virtual environment."""
    path = os.pathsep.join(filter(None, sys.path))
    return environment | {"PYTHONPATH": path, "QEMU_LOG_FILENAME": os.devnull}


def said(python: Path, script: str, task: str) -> str:
    """Return the hash that a script prints for a task, with the flags of a worker."""
    done = subprocess.run(
        [str(python), "-c", script, task],
        env=surroundings(worker_environment(accelerator=False)),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{task} with {python.name} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout.split()[-1]


def curves(python: Path, results: Path, studies: Sequence[str]) -> dict[str, bytes]:
    """Run the studies; return the bytes of each run's curve by its hash."""
    command = ["run", *studies, "--profile", "smoke", "--seeds", "1", "--results", str(results)]
    command += ["--keep-policies", "0", "--checkpoint-minutes", "0", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(python), *command], env=surroundings(dict(os.environ))
    )
    if done.returncode:
        sys.exit(f"the run with {python.name} ended with {done.returncode}")
    return {
        path.parent.name: b"".join(column.to_numpy().tobytes() for column in table.columns)
        for path in sorted(results.glob("cells/[!.]*/curve.parquet"))
        for table in [pyarrow.parquet.ParquetFile(path).read()]
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--cpu", nargs="*", default=["EPYC-Rome", "Haswell"])
    options.add_argument("--tasks", nargs="*", default=list(TASKS))
    options.add_argument("--training", nargs="*", default=["hopper"], metavar="TASK")
    options.add_argument("--studies", nargs="*", default=list(STUDIES))
    options.add_argument(
        "--libc", nargs="*", action="extend", type=Path, default=[], metavar="FOLDER"
    )
    asked = options.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def bits(python: Path, cpu: str) -> dict[str, str | bytes]:
            found: dict[str, str | bytes] = {}
            for part, script, tasks in parts:
                found |= {f"{part} on {task}": said(python, script, task) for task in tasks}
            return found | (curves(python, folder / cpu, asked.studies) if asked.studies else {})

        parts = [("physics", PHYSICS, asked.tasks), ("training", TRAINING, asked.training)]
        others = [(cpu, emulated(cpu, folder)) for cpu in asked.cpu]
        others += [with_libc(unpacked, folder) for unpacked in asked.libc]
        here = bits(Path(sys.executable), "here")
        counts = [f"{part} on {count(len(tasks), 'task')}" for part, _, tasks in parts]
        cells = len(here) - sum(len(tasks) for *_, tasks in parts)
        print(f"{', '.join(counts)} and {count(cells, 'cell')} of studies.")
        print(f"{measured_on()} {os.confstr('CS_GNU_LIBC_VERSION')}", flush=True)
        for where, python in others:
            there = bits(python, python.name)
            other = sorted(name for name in here if there.get(name) != here[name])
            lines = [f"{where}: {len(here) - len(other)} of {len(here)} have the same bits"]
            print(*lines, *(f"    {name} differs" for name in other), sep="\n", flush=True)
            wrong += len(other)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
