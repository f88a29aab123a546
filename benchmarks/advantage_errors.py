"""Measure bias and variance of every choice of `advantage` while the baseline of `gae` trains.

    python benchmarks/advantage_errors.py [--tasks reacher hopper] [--seeds 4]

Measures after 10%, 50% and 100% of the training, in the states of the training environments. In
each state the policy draws one action. M continuations start with this action, and M more let the
policy draw each action. Each has its own noise.

Truth: A = Q(s, a) - V(s), the difference of the mean discounted returns of the two groups. Their
episodes end by termination only, because the bootstrapped value at a truncation estimates the
return without a time limit. The critic's value replaces the rewards after `horizon` steps.

Estimates: the first `unroll_length` steps of each continuation from (s, a) are a segment, with the
clock of the state. Each choice of `advantage` estimates the advantage of its first step. All
choices and the truth use the same continuations, so common noise cancels in a bias.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

import variants
from ablations import tasks
from ablations.engine.job import Cell, cells_of
from ablations.engine.machine import use_cache
from ablations.engine.plan import plan
from ablations.environments import State as Environment
from ablations.request import Request
from ablations.trainers.choices import apply, fix
from ablations.trainers.control.advantages import Experience
from ablations.trainers.control.environment import Episodes
from ablations.trainers.control.ppo import PPO, SPEC, PPOState, compose
from ablations.trainers.revisions import compose as composed
from ablations.trainers.trainer import Metrics, TracedConfig

STAGES = (0.1, 0.5, 1.0)
REMAINDER = 0.05
LONGEST = 1000
CONTINUATIONS = 16
FOREVER = 2**30


# Running episodes, the discount of the next reward, and the discounted return so far, [2NM]
Continuation: TypeAlias = tuple[Episodes, jax.Array, jax.Array]


def horizon(discount: float, unroll_length: int) -> int:
    """Return the steps after which the critic's value has at most the weight `REMAINDER`.

    The result is at least a segment and at most `LONGEST`.
    """
    steps = LONGEST
    if discount < 1:
        steps = math.ceil(math.log(REMAINDER) / math.log(discount)) if discount > 0 else 1
    return max(min(steps, LONGEST), unroll_length)


def advantage_errors(
    ppo: PPO,
    state: PPOState,
    variant: TracedConfig,
    key: jax.Array,
    *,
    horizon: int,
    continuations: int,
) -> Metrics:
    """Measure every choice of `advantage` at the N states of the environments.

    Values are in scaled reward (with the factor reward_scale only). For each choice:

    - bias: mean over states of E[estimate] - A.
    - squared_bias: mean over states of the squared bias, minus the noise of M continuations. It can
      be negative.
    - variance: mean over states of the estimate's variance, given state and action.
    - correlation: of an estimate with the A of the other continuations, over all states.
    """
    N, M, T = ppo.environments.num_envs, continuations, ppo.settings.unroll_length
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
    """Return environments with independent randomness, from copies of one environment."""

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
    # Leave out the continuation's own return, because the estimate contains it.
    others = (after_action.sum(1, keepdims=True) - after_action) / (M - 1)
    truth = others - after_state.mean(1, keepdims=True)
    return {
        "bias": bias.mean(),
        "squared_bias": (bias**2 - chance).mean(),
        "variance": estimate.var(1, ddof=1).mean(),
        "correlation": jnp.corrcoef(estimate.ravel(), truth.ravel())[0, 1],
    }


def measurements(cell: Cell) -> Iterator[tuple[int, dict[str, float]]]:
    """Train a run; yield the step and the errors after each stage."""
    config = SPEC.completed(cell.config)
    choices = {axis: config["choices"][axis]["name"] for axis in SPEC.axes}
    assert choices["reward_scaling"] == "constant", "else the unit of the errors changes"
    assert choices["observation_statistics"] != "per_environment", "which copies do not have"
    ppo = compose(
        task=tasks.task(cell.task),
        settings=config["task"]["settings"],
        structure=config["structure"],
        updates_per_chunk=config["run"]["updates_per_chunk"],
        choices={axis: one for axis, one in choices.items() if axis != "advantage"},
    )
    variant = composed(cell.config)[1](cell.config)
    steps = horizon(config["numbers"]["discount"], ppo.settings.unroll_length)
    measure = jax.jit(partial(advantage_errors, ppo, horizon=steps, continuations=CONTINUATIONS))
    init, chunk = jax.jit(ppo.init), jax.jit(ppo.chunk)
    key = jax.random.key(cell.seed)
    state = init(jax.random.split(key)[0], variant)
    for point in range(1, cell.points + 1):
        state, _ = chunk(state, variant)
        if point in {math.ceil(share * cell.points) for share in STAGES}:
            found = measure(state, variant, jax.random.fold_in(key, point))
            yield cell.step_at(point), {name: float(value) for name, value in found.items()}


def interval(values: np.ndarray) -> str:
    """Return a mean over seeds with Student's 95% interval."""
    mean, error = values.mean(), scipy.stats.sem(values)
    reach = error * scipy.stats.t.ppf(0.975, len(values) - 1)
    return f"{mean:.3f} [{mean - reach:.3f}, {mean + reach:.3f}]"


def ratio(numbers: np.ndarray, reference: np.ndarray) -> str:
    """Return the geometric mean of ratios paired by seed, with its interval."""
    logs = np.log(numbers / reference)
    reach = scipy.stats.sem(logs) * scipy.stats.t.ppf(0.975, len(logs) - 1)
    middle, low, high = np.exp([logs.mean(), logs.mean() - reach, logs.mean() + reach])
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


def rows(task: str, step: int, seeds: list[dict[str, float]]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each choice; the first choice trained the critic."""
    found = {name: np.array([one[name] for one in seeds]) for name in seeds[0]}
    names = [name.removesuffix("/bias") for name in found if name.endswith("/bias")]
    names.sort(key=lambda name: name != "standard")
    variance = {name: found[f"{name}/variance"] for name in names}
    rmse = {
        name: np.sqrt(np.maximum(found[f"{name}/squared_bias"], 0) + variance[name])
        for name in names
    }
    for name in names:
        yield (
            *(task, f"{step:,}", name, interval(found[f"{name}/bias"])),
            *(f"{np.sqrt(variance[name].mean()):.4f}", ratio(variance[name], variance[names[0]])),
            *(f"{np.sqrt(np.mean(rmse[name] ** 2)):.4f}", ratio(rmse[name], rmse[names[0]])),
            interval(found[f"{name}/correlation"]),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=["reacher", "hopper"])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=200_000)
    asked = parser.parse_args()
    use_cache()
    header = [
        "task",
        "step",
        "choice",
        "bias",
        "sd",
        "variance-ratio",
        "RMSE",
        "RMSE-ratio",
        "correlation",
    ]
    print(*header, sep=" | ")
    print(*("---" for _ in header), sep=" | ")
    for task in asked.tasks:
        request = Request(
            "gae", tasks=(task,), variants=("standard",), seeds=asked.seeds, steps=asked.steps
        )
        of_seeds = [list(measurements(cell)) for cell in cells_of(plan(request))]
        for stage in zip(*of_seeds, strict=True):
            for row in rows(task, stage[0][0], [found for _, found in stage]):
                print(*row, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
