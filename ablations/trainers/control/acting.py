"""Acting: a policy's parameters, the statistics of its observations, the numbers that both need.

`rollout` acts and moves those statistics along.

fixed: axis -> the choice that is compiled in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypedDict

import jax
import jax.numpy as jnp

import variants
from ablations.trainers.choices import matches, where
from ablations.trainers.control import normalizer as statistics
from ablations.trainers.control.distribution import Distribution
from ablations.trainers.control.environment import Environments, Episodes, Outcome
from ablations.trainers.control.networks import Networks
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.trainer import Scalar, Tree, Variant
from variants.observation_statistics import PER_BATCH

# A policy's actions depend on these and on no other choice.
ACTING = ("action_distribution", "policy_std", "observation_scaling")


class Policy(TypedDict):
    """All that acting needs. parameters: of the networks. numbers: as `numbers` returns them."""

    parameters: Tree
    normalizer: Normalizer
    numbers: dict[str, jax.Array]


def numbers(
    fixed: Mapping[str, str], variant: Variant, axes: Sequence[str] = ACTING
) -> dict[str, jax.Array]:
    """Return the numbers of these axes, and "normalized", 0 where observations are not."""
    read = [n for axis in axes for n in variants.axis(axis)[fixed[axis]].numbers]
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


class Steps(NamedTuple):
    """T steps of N environments, leaves [T, N, ...].

    observation: what the policy saw, not normalised. kept: what `choose` says beside its action.
    seen, next_seen: the observation and the true next one as they were normalised at that very
        step; None where statistics are those of whole batches.
    """

    observation: jax.Array
    kept: Tree
    outcome: Outcome
    seen: jax.Array | None = None
    next_seen: jax.Array | None = None


def rollout(
    environments: Environments,
    fixed: Mapping[str, str],
    now: tuple[Episodes, Normalizer],
    choose: Callable[[jax.Array, Tree], tuple[jax.Array, Tree]],
    noise: Tree,
    numbers: Mapping[str, jax.Array],
    forgetting: Scalar,
) -> tuple[Episodes, Normalizer, Steps]:
    """Take T steps of all environments.

    choose(observation, noise) -> (action, what is kept): of normalised observations [N, O].
    noise: [T, ...]. numbers: those of `numbers`. forgetting: observation_forgetting.
    """
    choice = fixed["observation_statistics"]

    def step(
        now: tuple[Episodes, Normalizer], noise: Tree
    ) -> tuple[tuple[Episodes, Normalizer], Steps]:
        episodes, normalizer = now
        observation = episodes.observation
        seen = normalized(fixed, normalizer, observation, numbers)
        action, kept = choose(seen, noise)
        episodes, outcome = environments.step(episodes, action)
        taken = Steps(observation, kept, outcome)
        if choice != PER_BATCH:
            final, normalizer = statistics.step(
                choice,
                normalizer,
                outcome.next_observation,
                episodes.observation,
                outcome.termination | outcome.truncation,
                forgetting,
            )
            next_seen = normalized(fixed, final, outcome.next_observation, numbers)
            taken = taken._replace(seen=seen, next_seen=next_seen)
        return (episodes, normalizer), taken

    (episodes, normalizer), steps = jax.lax.scan(step, now, noise)
    return episodes, normalizer, steps


def batch_statistics(
    fixed: Mapping[str, str], normalizer: Normalizer, observation: jax.Array, variant: Variant
) -> tuple[Normalizer, Normalizer]:
    """Return the statistics that normalise a batch to be trained on, and those after it.

    observation: [T, N, O], those of the batch. With "before", as in Brax, a batch is trained on
    with other inputs than the policy acted on.
    """
    axis = "observation_normalization"
    updated = normalizer
    if fixed["observation_statistics"] == PER_BATCH:
        updated = statistics.update(normalizer, observation)
    return (
        where(matches(axis, variant, "before"), updated, normalizer),
        where(matches(axis, variant, "none"), normalizer, updated),
    )


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
