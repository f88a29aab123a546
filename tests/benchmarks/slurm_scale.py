"""Two thousand cells on a real Slurm: how long it takes to submit them and to ask for them.

    python tests/benchmarks/slurm_scale.py [--cells 2000]

One cell per job, the worst there is, on a one-node Slurm with MaxArraySize=1001. The jobs are held
back, so that the machine measures the driver and not the cells; then all are cancelled.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "sweep" / "slurm"))
from one_node import Cluster  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=2000)
    cells = parser.parse_args().cells
    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        folder = Path(name)
        (folder / "toy.py").write_text((ROOT / "tests" / "sweep" / "toy.py").read_text())
        (folder / "slurm").mkdir()
        cluster = Cluster(folder / "slurm", largest_array=1001).start()
        try:
            cluster.ask("scontrol", "update", "PartitionName=main", "State=DOWN")

            def timed(what: str, *arguments: str) -> str:
                command = [sys.executable, "-m", "ablations.cli", *arguments]
                started = time.monotonic()
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env=cluster.environment,
                    capture_output=True,
                    text=True,
                    check=True,
                )
                print(f"{what}: {time.monotonic() - started:.1f} s: {done.stdout.splitlines()[0]}")
                return done.stdout

            run = ("run", "toy", "--plugin", "toy", "--seeds", str(cells // 2))
            on_slurm = ("--cluster", "slurm", "--cpus", "1", "--job-minutes", "0")
            timed("plan alone", *run, *on_slurm, "--dry-run")
            submitted = timed("submit", *run, *on_slurm)
            print("\n".join(submitted.splitlines()[1:-1]))
            timed("status", "status")
            timed("submit again", *run, *on_slurm)
            timed("cancel", "cancel", "toy")
        finally:
            cluster.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
