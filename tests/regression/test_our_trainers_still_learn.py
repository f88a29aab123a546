"""Our own PPO against the baseline in results/baselines, with a small budget: at most 7 seeds of
20,000 steps on `fast`, 4 where it still gives the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BASELINE = Path(__file__).parents[2] / "results" / "baselines" / "fast"


def test_ppo_still_learns(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ablations.cli", "check", str(BASELINE)]
    environment = dict(os.environ)
    environment.pop("JAX_DISABLE_MOST_OPTIMIZATIONS", None)  # it has the bits of what users run
    done = subprocess.run(
        [*command, "--effect", "0.25", "--results", str(tmp_path / "results")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "caught with 95%: a loss of 7.51 (25% of what the baseline learns)" in done.stdout
