"""The critic: outputs of its network, and the values that they stand for by value_normalization."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

import variants
from ablations.trainers.control import normalizer as statistics
from ablations.trainers.control.networks import layers_of
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.trainer import Tree

Array = jax.Array


def start(choice: str) -> Normalizer | None:
    """Return the statistics of no value targets; None where a choice reads none."""
    reads = "mean" in variants.axis("value_normalization")[choice].inputs
    return statistics.empty(1) if reads else None


class Critic(NamedTuple):
    """A value network, and the statistics that its outputs are scaled by.

    network: (parameters, normalised observations [..., O]) -> outputs [...].
    choice: of value_normalization. seen: statistics of the value targets so far, as `start` has
        them.
    """

    network: Callable[[Tree, Array], Array]
    choice: str
    seen: Normalizer | None

    def value(self, parameters: Tree, observation: Array) -> Array:
        """Return values [...] of observations [..., O], in units of scaled reward."""
        return self.meant(self.network(parameters, observation))

    def meant(self, output: Array) -> Array:
        """Return the values that outputs of the network stand for."""
        return self._map(output, inverse=True)

    def output(self, value: Array) -> Array:
        """Return what the network would have to answer for these values."""
        return self._map(value, inverse=False)

    def after(self, targets: Array, parameters: Tree) -> tuple[Critic, Tree]:
        """Return the critic whose statistics have seen these targets [T, N] too, and parameters.

        With "popart" those are changed so that they answer the same values as before.
        """
        if self.seen is None:
            return self, parameters
        critic = self._replace(seen=statistics.update(self.seen, targets[..., None]))
        if self.choice != "popart":
            return critic, parameters

        # Both maps are affine, so two values say what becomes of the last layer.
        def moved(output: Array) -> Array:
            return critic.output(self._map(output, inverse=True))

        shift = moved(jnp.zeros(1))
        factor = moved(jnp.ones(1)) - shift
        layers = parameters["value"]["params"]
        last = f"hidden_{layers_of(parameters['value']) - 1}"
        layer = layers[last]
        rescaled = {"kernel": layer["kernel"] * factor, "bias": layer["bias"] * factor + shift}
        value = {**parameters["value"], "params": {**layers, last: rescaled}}
        return critic, {**parameters, "value": value}

    def _map(self, x: Array, *, inverse: bool) -> Array:
        mean, variance = (
            (0.0, 1.0) if self.seen is None else (self.seen.mean[0], self.seen.spread[0])
        )
        mapped: Array = variants.axis("value_normalization").apply(
            self.choice, x=x, inverse=inverse, mean=mean, variance=variance
        )
        return mapped
