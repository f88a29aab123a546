"""How often `ablations check` is wrong, and what it catches, on curves of really trained seeds.

python tests/benchmarks/learning_curve_checks.py train    # 10 CPU minutes
    python tests/benchmarks/learning_curve_checks.py report   # into results/reference
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

POOL = Path("results/learning_curve_checks.npz")
CHECKS = 200
OLD, NEW = 20, 12  # seeds of a baseline; of a check, at most
PLANTED_SEEDS = 480


def pool() -> dict[str, np.ndarray]:
    """name -> curves `[seeds, points]` that are trained so far."""
    return dict(np.load(POOL)) if POOL.exists() else {}


def train() -> None:
    """Every seed is trained once; 200 baselines and their null checks share none."""
    sys.path.insert(0, str(Path(__file__).parent))
    from planted_regressions import LANES, PLANTED, curves

    for name in PLANTED:
        wanted = CHECKS * (OLD + NEW) if name == "none" else PLANTED_SEEDS
        first = 1_000_000 * list(PLANTED).index(name)
        while len(have := pool().get(name, np.zeros((0, 0)))) < wanted:
            started = time.process_time()
            count = min(5 * LANES, wanted - len(have))
            seeds = range(first + len(have), first + len(have) + count)
            fresh = curves([name] * count, seeds).astype(np.float32)
            whole = np.concatenate([have, fresh]) if len(have) else fresh
            POOL.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(POOL, **{**pool(), name: whole})
            seconds = (time.process_time() - started) / count
            print(f"{name}: {len(whole)} of {wanted}, {1e3 * seconds:.0f} ms each", flush=True)


if __name__ == "__main__":
    os.environ |= {"NPROC": "1", "JAX_PLATFORMS": "cpu"}  # before JAX starts
    train()
