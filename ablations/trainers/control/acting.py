"""Acting: a policy's parameters, the statistics of its observations, the numbers that both need.

fixed: axis -> the choice that is compiled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import jax
import jax.numpy as jnp

import variants
from ablations.trainers.choices import matches
from ablations.trainers.control.distribution import Distribution
from ablations.trainers.control.networks import Networks
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.trainer import Tree, Variant

# A policy's actions depend on these and on no other choice.
ACTING = ("action_distribution", "policy_std", "observation_scaling")


class Policy(TypedDict):
    """All that acting needs. parameters: of the networks. numbers: as `numbers` returns them."""

    parameters: Tree
    normalizer: Normalizer
    numbers: dict[str, jax.Array]


def numbers(fixed: Mapping[str, str], variant: Variant) -> dict[str, jax.Array]:
    """Return the numbers of `ACTING`, and "normalized", 0 where observations are not."""
    read = [n for axis in ACTING for n in variants.axis(axis)[fixed[axis]].numbers]
    found = {name: jnp.asarray(variant.numbers[name]) for name in read}
    # Statistics that have seen nothing leave an observation as it is, but for an epsilon.
    if fixed["observation_scaling"] != "bounded_std":
        none = matches("observation_normalization", variant, "none")
        found["normalized"] = 1.0 - jnp.asarray(none, jnp.float32)
    return found


def normalized(
    fixed: Mapping[str, str],
    normalizer: Normalizer,
    observation: jax.Array,
    acting: Mapping[str, jax.Array],
) -> jax.Array:
    """Normalize observations [..., O] for the networks; acting: the `numbers`."""
    axis = variants.axis("observation_scaling")
    choice = axis[fixed[axis.name]]
    scaled: jax.Array = axis.apply(
        choice.name,
        observation=observation,
        mean=normalizer.mean,
        variance=normalizer.spread,
        numbers={name: acting[name] for name in choice.numbers},
    )
    if "normalized" in acting:
        scaled = jnp.where(acting["normalized"] > 0, scaled, observation)
    return scaled


def act(
    fixed: Mapping[str, str],
    networks: Networks,
    distribution: Distribution,
    policy: Policy,
    observation: jax.Array,
    key: jax.Array | None = None,
) -> jax.Array:
    """Return actions on observations [..., O] as the environment gives them.

    They are the mode of the policy, or a sample with a key.
    """
    chosen = Variant(choices={axis: fixed[axis] for axis in ACTING}, numbers=policy["numbers"])
    seen = normalized(fixed, policy["normalizer"], observation, policy["numbers"])
    raw = networks.policy(policy["parameters"], seen)
    if key is None:
        return distribution.mode(raw, chosen)
    return distribution.sample(raw, distribution.noise(key, raw.shape[:-1]), chosen).action
