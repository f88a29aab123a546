"""Are a cell's bits the same on another processor? Smoke cells here, and on emulated ones.

    apt-get install qemu-user
    python tests/benchmarks/portable_bits.py [--cpu EPYC-Rome Haswell] [--studies gae ...]

Every study runs its smoke profile with one seed, natively and then with workers under qemu-user,
which runs JAX at about a fifteenth of the speed: up to an hour for each processor. Prints how many
cells have the same curve, bit for bit, and names the others; exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet

from ablations.sweep.machine import processor

STUDIES = (
    "gae",
    "value_coefficient",
    "value_clipping",
    "advantage_normalization",
    "prompt_normalization",
)
# The command of a run whose workers are started by another Python.
RUN = """
import sys
from ablations.cli import main
sys.executable = sys.argv.pop(1)
sys.exit(main(sys.argv[1:]))
"""


def emulated(cpu: str, folder: Path) -> Path:
    """A Python that runs under qemu as a program of that processor."""
    qemu = shutil.which("qemu-x86_64") or sys.exit("qemu-x86_64 is missing: install qemu-user")
    path = folder / f"python-{cpu}"
    python = Path(sys.executable).resolve()
    path.write_text(f'#!/bin/sh\nexec {qemu} -cpu {cpu} {python} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def curves(python: Path, results: Path, studies: Sequence[str]) -> dict[str, bytes]:
    """Runs the studies and returns the bits of every cell's curve by its hash."""
    # The resolved Python knows nothing of the virtual environment.
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment |= {"QEMU_LOG_FILENAME": os.devnull}
    command = ["run", *studies, "--profile", "smoke", "--seeds", "1", "--results", str(results)]
    command += ["--keep-policies", "0", "--checkpoint-minutes", "0", "--quiet"]
    done = subprocess.run([sys.executable, "-c", RUN, str(python), *command], env=environment)
    if done.returncode:
        sys.exit(f"the run with {python.name} ended with {done.returncode}")
    return {
        path.parent.name: b"".join(column.to_numpy().tobytes() for column in table.columns)
        for path in sorted(results.glob("cells/[!.]*/curve.parquet"))
        for table in [pyarrow.parquet.ParquetFile(path).read()]
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--cpu", nargs="+", default=["EPYC-Rome", "Haswell"])
    options.add_argument("--studies", nargs="+", default=list(STUDIES))
    asked = options.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        here = curves(Path(sys.executable), folder / "here", asked.studies)
        print(f"{len(here)} cells here, on {processor()}", flush=True)
        for cpu in asked.cpu:
            there = curves(emulated(cpu, folder), folder / cpu, asked.studies)
            other = sorted(cell for cell in here if there.get(cell) != here[cell])
            print(f"{cpu}: {len(here) - len(other)} of {len(here)} cells have the same bits")
            print(*(f"    {cell} differs" for cell in other), sep="\n", flush=True)
            wrong += len(other)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
