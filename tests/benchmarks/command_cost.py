"""What the engine adds to a command: seconds of a cell beyond the process that it starts.

    python tests/benchmarks/command_cost.py [CELLS]

Runs cells of `sh -c "echo 1"` in this process, as one worker does, and prints the median over cells
of the time between two starts minus the command's own, and the CPU time of this process per cell.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ablations.records import read_results
from ablations.sweep import local
from ablations.sweep.planned import resolved

STUDY = """\
[study]
name = "cost"
[command]
run = "sh echo.sh {{seed}} {{x}}"
curve = "stdout"
metric = "result"
[variants]
a = {{x = 1}}
b = {{x = 2}}
[profiles.few]
seeds = 1
[profiles.many]
seeds = {seeds}
"""


def main() -> None:
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    folder = Path(tempfile.mkdtemp())
    os.chdir(folder)
    Path("echo.sh").write_text("echo $1$2\n")
    Path("cost.toml").write_text(STUDY.format(seeds=1 + cells // 2))
    results = folder / "results"
    with contextlib.redirect_stdout(io.StringIO()):
        for profile in ("few", "many"):  # the first imports what the others need
            plans = resolved(["cost.toml"], {"profile": profile})
            cpu = time.process_time()
            local.ThisProcess(quiet=True).run(plans, results)
            cpu = time.process_time() - cpu
    made = [r.provenance for _, r in read_results(results, plans[0]) if r is not None]
    made.sort(key=lambda one: one["started"])
    starts = np.array([one["started"] for one in made])[2:]
    own = np.array([one["seconds"] for one in made])[2:-1]
    beyond = np.diff(starts) - own
    print(f"{len(made) - 2} cells; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"beyond the command: median {1e3 * np.median(beyond):.1f} ms")
    print(f"CPU time of the engine: {1e3 * cpu / (len(made) - 2):.1f} ms per cell")


if __name__ == "__main__":
    main()
