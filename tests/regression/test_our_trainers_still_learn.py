"""Our own PPO against the baseline in results/baselines: the same bits, on whatever processor has
AVX2, or else a curve that is no worse (at most 7 seeds of 20,000 steps on `fast`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ablations.engine.machine import PORTABLE, worker_environment

BASELINE = Path(__file__).parents[2] / "results" / "baselines" / "fast"


@pytest.mark.inputs("ablations", "variants", "results/baselines")
def test_ppo_still_learns(tmp_path: Path) -> None:
    environment = dict(os.environ)
    for ours in ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS"):  # it has the bits that users have
        environment.pop(ours, None)
    portable = PORTABLE in worker_environment(accelerator=False).get("XLA_FLAGS", "")
    said = "identical bit for bit" if portable else "detects with 95%"
    command = [sys.executable, "-m", "ablations.cli", "check", str(BASELINE), "--effect", "0.25"]
    done = subprocess.run(
        [*command, "--results", str(tmp_path / "results")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert said in done.stdout
