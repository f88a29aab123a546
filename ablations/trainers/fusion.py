"""What XLA computes on its own, instead of once more wherever it is used."""

from __future__ import annotations

from typing import Any

import jax


def materialized(arrays: Any) -> Any:
    """The same arrays, on a CPU written to memory before what follows reads them.

    XLA fuses a function's operations into loops, and what several loops need, each computes for
    itself. Nothing is fused across these arrays, given the flags of `worker_environment` in
    ablations/sweep/machine.py; without them XLA drops this before it fuses.
    """
    return jax.lax.optimization_barrier(arrays) if jax.default_backend() == "cpu" else arrays
