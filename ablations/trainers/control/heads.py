"""The head of the critic: what its last layer puts out, as the axis critic_head has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

import variants
from ablations.trainers.choices import apply
from ablations.trainers.trainer import Variant

Array = jax.Array


class Head(NamedTuple):
    """A choice of critic_head, with what it fixes of the network.

    size: outputs of the last layer. value_range: bins lie from minus that to that.
    """

    choice: str = "scalar"
    size: int = 1
    value_range: float = 10.0

    def outputs(self, layer: Array) -> Array:
        """Return what the critic answers by its last layer [..., K]: [...] where K is 1 number."""
        return layer[..., 0] if self.choice == "scalar" else layer

    def values(self, outputs: Array) -> Array:
        """Return the values [...] that are meant by `outputs`."""
        if self.choice == "scalar":
            return outputs
        answer = variants.axis("critic_head").apply(
            self.choice,
            outputs=outputs,
            targets=jnp.zeros(outputs.shape[:-1]),
            value_range=self.value_range,
        )
        values: Array = answer.value
        return values

    def error(self, outputs: Array, variant: Variant) -> Callable[..., Array] | None:
        """Return the loss of each sample as a function of flat targets; None: that of a number."""
        if self.choice == "scalar":
            return None

        def error(*, values: Array, targets: Array) -> Array:
            answer = apply(
                "critic_head",
                variant,
                outputs=outputs.reshape(-1, self.size),
                targets=targets,
                value_range=self.value_range,
            )
            losses: Array = answer.loss
            return losses

        return error


SCALAR = Head()
