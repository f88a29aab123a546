"""Measure the errors of advantage estimates at a moment of training.

The states are those in which the training environments are. In each, the policy draws one action;
M continuations play on from that state and action, and M more from the state alone, by the same
policy and each with noise of its own.

Truth: A = Q(s, a) - V(s), the mean discounted returns of the first and of the second M. Episodes
end in them only by termination: where the clock would truncate, they go on, for that is what a
value that is bootstrapped at a truncation stands for. After `horizon` steps the critic's value
stands for the rest.

Estimates: the first `unroll_length` steps of each continuation from (s, a) are a segment as the
trainer would have seen it, with the clock of the state; each choice of `advantage` estimates the
advantage of its first step. All choices see the same segments, and the truth is made of the same
continuations, so that their common noise cancels in a bias.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeAlias

import jax
import jax.numpy as jnp

import variants
from ablations.environments import State as Environment
from ablations.trainers.choices import apply, fix
from ablations.trainers.control.advantages import Experience
from ablations.trainers.control.environment import Episodes
from ablations.trainers.control.ppo import PPO, PPOState
from ablations.trainers.trainer import Metrics, Variant

REMAINDER = 0.05
LONGEST = 1000
CONTINUATIONS = 16
FOREVER = 2**30


# Episodes under way, the discount of what comes, and the discounted return so far, [2NM].
Continuation: TypeAlias = tuple[Episodes, jax.Array, jax.Array]


def horizon(discount: float, unroll_length: int) -> int:
    """Return the steps after which at most `REMAINDER` of the weight is left to the critic's value.

    They are at least a segment and at most `LONGEST`.
    """
    steps = LONGEST
    if discount < 1:
        steps = math.ceil(math.log(REMAINDER) / math.log(discount)) if discount > 0 else 1
    return max(min(steps, LONGEST), unroll_length)


def advantage_errors(
    ppo: PPO, state: PPOState, variant: Variant, key: jax.Array, *, horizon: int, continuations: int
) -> Metrics:
    """Measure every choice of `advantage` at the N states of the environments.

    The scalars are in units of scaled reward (the factor reward_scale alone):

    <choice>/bias: mean over states of E[estimate] - A.
    <choice>/squared_bias: mean over states of its square, without the part that M continuations
        leave to chance, so that it may fall below 0.
    <choice>/variance: mean over states of the estimate's variance, given state and action.
    <choice>/correlation: of an estimate with the A of the other continuations, over all.
    """
    N, M, T = ppo.environments.num_envs, continuations, ppo.unroll_length
    discount = variant.numbers["discount"]
    environments = replace(
        ppo.environments, num_envs=2 * N * M, episode_length=FOREVER, reset_group_size=1
    )
    key_first, key_later = jax.random.split(key)
    first = ppo.distribution.noise(key_first, (N, 2 * M))
    first = first.at[:, :M].set(first[:, :1])  # one action per state in the first M
    start = jax.tree.map(lambda x: jnp.repeat(x, 2 * M, axis=0), state.episodes)
    start = start._replace(state=_with_own_keys(start.state))
    variant = fix(variant, ppo.fixed)

    def seen_by_networks(observation: jax.Array) -> jax.Array:
        return ppo.normalized(state.normalizer, observation, state.acting)

    values = ppo.critic(state.own.value_targets)

    def critic(observation: jax.Array) -> jax.Array:
        return values.value(state.parameters, seen_by_networks(observation))

    def step(now: Continuation, t: jax.Array) -> tuple[Continuation, Experience]:
        episodes, weight, total = now
        noise = ppo.distribution.noise(jax.random.fold_in(key_later, t), (2 * N * M,))
        noise = jnp.where(t == 0, first.reshape(noise.shape), noise)
        observation, clock = episodes.observation, episodes.elapsed + 1
        raw = ppo.networks.policy(state.parameters, seen_by_networks(observation))
        action = ppo.distribution.sample(raw, noise, variant).action
        episodes, outcome = environments.step(episodes, action)
        reward = variant.numbers["reward_scale"] * outcome.reward
        ends = outcome.termination.astype(jnp.float32)
        total = total + weight * reward
        weight = weight * discount * (1 - ends)
        truncation = (clock >= ppo.environments.episode_length) & ~outcome.termination
        seen = Experience(
            observation, outcome.next_observation, reward, ends, truncation.astype(jnp.float32)
        )
        return (episodes, weight, total), seen

    ones = jnp.ones(2 * N * M)
    now, seen = jax.lax.scan(step, (start, ones, jnp.zeros_like(ones)), jnp.arange(T))
    now, _ = jax.lax.scan(
        lambda now, t: (step(now, t)[0], None), now, jnp.arange(T, max(horizon, T))
    )
    episodes, weight, total = now
    returns = (total + weight * critic(episodes.observation)).reshape(N, 2 * M)
    observation, next_observation, reward, termination, truncation = jax.tree.map(
        lambda x: x.reshape(T, N, 2 * M, *x.shape[2:])[:, :, :M].reshape(T, N * M, *x.shape[2:]),
        seen,
    )
    value, next_value = critic(observation), critic(next_observation)
    found: Metrics = {}
    for name in variants.axis("advantage").names:
        advantages, _ = apply(
            "advantage",
            variant._replace(choices={"advantage": name}),
            rewards=reward,
            values=value,
            next_values=next_value,
            termination=termination,
            truncation=truncation,
        )
        errors = _errors(advantages[0].reshape(N, M), returns[:, :M], returns[:, M:])
        found |= {f"{name}/{what}": number for what, number in errors.items()}
    return found


def _with_own_keys(state: Environment) -> Environment:
    """Return environments whose steps are random each by itself, where they were copies of one."""

    def own(x: jax.Array) -> jax.Array:
        if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return x
        return jax.vmap(jax.random.fold_in)(x, jnp.arange(len(x)))

    return state._replace(carried=jax.tree.map(own, state.carried))


def _errors(estimate: jax.Array, after_action: jax.Array, after_state: jax.Array) -> Metrics:
    """Return the errors of estimates [N, M].

    after_action, after_state: returns [N, M] of the same continuations from (s, a), and of others
    from s.
    """
    M = estimate.shape[1]
    gap = estimate - after_action
    bias = gap.mean(1) + after_state.mean(1)
    chance = (gap.var(1, ddof=1) + after_state.var(1, ddof=1)) / M
    # Without the continuation's own return, which the estimate is a part of.
    others = (after_action.sum(1, keepdims=True) - after_action) / (M - 1)
    truth = others - after_state.mean(1, keepdims=True)
    return {
        "bias": bias.mean(),
        "squared_bias": (bias**2 - chance).mean(),
        "variance": estimate.var(1, ddof=1).mean(),
        "correlation": jnp.corrcoef(estimate.ravel(), truth.ravel())[0, 1],
    }
