"""Keep XLA from fusing an array into the loops that read it."""

from __future__ import annotations

from typing import TypeVar

import jax

Arrays = TypeVar("Arrays")


def materialized(arrays: Arrays) -> Arrays:
    """Return the same arrays, which XLA on a CPU then computes once.

    It does so given the flags of `worker_environment` in ablations/sweep/machine.py.

    XLA fuses operations into loops, and an array that several loops read is computed in each. It
    fuses nothing across this barrier; without those flags it drops the barrier before it fuses.
    """
    if jax.default_backend() != "cpu":
        return arrays
    barred: Arrays = jax.lax.optimization_barrier(arrays)
    return barred
