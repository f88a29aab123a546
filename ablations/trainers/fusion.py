"""Keep XLA from fusing an array into the loops that read it."""

from __future__ import annotations

from typing import Any

import jax


def materialized(arrays: Any) -> Any:
    """The same arrays, which XLA on a CPU computes once, given the flags of `worker_environment`
    in ablations/sweep/machine.py.

    XLA fuses operations into loops, and an array that several loops read is computed in each. It
    fuses nothing across this barrier; without those flags it drops the barrier before it fuses.
    """
    return jax.lax.optimization_barrier(arrays) if jax.default_backend() == "cpu" else arrays
