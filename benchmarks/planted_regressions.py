"""A small PPO on `fast`, with and without planted bugs, to calibrate checks on trained curves.

All variants share one program except for the bug, and train in parallel under vmap. `curves(names,
seeds)` returns training returns `[seeds, points]`. A bug is a choice that is registered here, a
value outside a hyperparameter's bounds, or, for stale log-probabilities, another loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import variants
from ablations.tasks import task
from ablations.trainers import TracedConfig, trainer
from ablations.trainers.choices import fix
from ablations.trainers.control.ppo import PPO, SPEC, PPOState, Sample, compose
from ablations.trainers.control.rollouts import Rollout

TASK = "fast"
POINTS = 20
UPDATES_PER_POINT = 2
LANES = 128
STRUCTURE = {
    **{name: option.default for name, option in trainer("ppo").structure.items()},
    "num_envs": 16,
    "unroll_length": 16,
    "num_minibatches": 4,
    "epochs": 4,
    "policy_layers": [16, 16],
    "value_layers": [16, 16],
}
COMMON = {"learning_rate": 6e-3, "entropy_coefficient": 0.1}
UNITS = (30.0, 1.0, 0.03)  # of the observations, as far apart as millimetres and tonnes
STEPS = POINTS * UPDATES_PER_POINT * STRUCTURE["num_envs"] * STRUCTURE["unroll_length"]


@variants.axis("advantage").choice(
    "truncation_mask_dropped",
    formula="A_t = δ_t + γλ(1-d_t) A_{t+1}, also where an episode was truncated at t",
    source="planted",
    summary="GAE that runs on across a truncation into the next episode",
)
def truncation_mask_dropped(
    *, rewards: Any, values: Any, next_values: Any, termination: Any, truncation: Any,
    discount: Any, gae_lambda: Any,
) -> Any:  # fmt: skip
    return variants.axis("advantage")["standard"].fn(
        rewards=rewards,
        values=values,
        next_values=next_values,
        termination=termination,
        truncation=jnp.zeros_like(truncation),
        discount=discount,
        gae_lambda=gae_lambda,
    )


NUMBERS = trainer("ppo").known_numbers()
# name -> its settings: choices by name, hyperparameters beyond their bounds
PLANTED: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "truncation mask dropped": {"advantage": "truncation_mask_dropped"},
    "learning rate x4": {"learning_rate": 4 * COMMON["learning_rate"]},
    "value loss sign flipped": {"value_coefficient": -NUMBERS["value_coefficient"].default},
    "advantage normalisation off": {"advantage_statistics": "none"},
    "observation normaliser frozen": {"observation_normalization": "none"},
    "reward scale x100": {"reward_scale": 100.0},
    "entropy sign flipped": {"entropy_coefficient": -COMMON["entropy_coefficient"]},
    "old log-probabilities stale": {},
    "learning rate x0.3": {"learning_rate": 0.3 * COMMON["learning_rate"]},
}
STALE = "old log-probabilities stale"
DATA = ("advantage", "advantage_statistics", "observation_normalization")


def _in_odd_units(settings: Mapping[str, Any]) -> Any:
    """Return the task with differently scaled observations."""
    env = task(TASK).make(settings)

    class OddUnits:
        observation_size, action_size = env.observation_size, env.action_size

        def reset(self, key: jax.Array) -> Any:
            state = env.reset(key)
            return state.replace(obs=state.obs * jnp.array(UNITS))

        def step(self, state: Any, action: jax.Array) -> Any:
            state = env.step(state, action)
            return state.replace(obs=state.obs * jnp.array(UNITS))

    return OddUnits()


@dataclasses.dataclass(frozen=True)
class StaleLogProbabilities(PPO):
    """PPO with old log-probabilities from the policy of the previous iteration (`previous`)."""

    previous: Any = None

    def prepare(self, state: PPOState, rollout: Rollout[Sample], *rest: Any) -> Any:
        seen = self.normalized(state.normalizer, rollout.observation, state.acting)
        raw = self.networks.policy(self.previous, seen)
        log_prob = self.distribution.log_prob(raw, rollout.kept.x, rest[-1])
        stale = rollout._replace(kept=rollout.kept._replace(log_prob=log_prob))
        return super().prepare(state, stale, *rest)

    def chunk(self, state: Any, variant: TracedConfig) -> Any:
        variant = fix(variant, self.fixed)

        def body(carry: Any, _: None) -> Any:
            state, previous = carry
            after, metrics = dataclasses.replace(self, previous=previous).iteration(state, variant)
            return (after, state.parameters), metrics

        state, metrics = jax.lax.scan(body, state, length=self.updates_per_chunk)
        episodes = jnp.sum(metrics["training/episodes"])
        return state, {"training/return": jnp.sum(metrics["training/return"]) / episodes}

    def init(self, key: jax.Array, variant: TracedConfig) -> Any:
        state = super().init(key, variant)
        return state, state.parameters


def variant(name: str) -> TracedConfig:
    sets = {**COMMON, **PLANTED[name]}
    return TracedConfig(
        choices={
            axis: np.int32(variants.axis(axis).index(sets.get(axis, default)))
            for axis, default in SPEC.axes.items()
        },
        numbers={
            number: np.float32(sets.get(number, one.default)) for number, one in NUMBERS.items()
        },
        iterations=np.float32(POINTS * UPDATES_PER_POINT),
    )


@cache
def _program(stale: bool) -> Callable[..., Any]:
    """Return the program: `LANES` seeds and variants -> training returns `[LANES, POINTS]`."""
    one = dataclasses.replace(task(TASK), make=_in_odd_units)
    composed: PPO = compose(
        task=one,
        settings=one.settings,
        structure=STRUCTURE,
        updates_per_chunk=UPDATES_PER_POINT,
        choices={axis: choice for axis, choice in SPEC.axes.items() if axis not in DATA},
    )
    if stale:
        parts = {f.name: getattr(composed, f.name) for f in dataclasses.fields(composed)}
        composed = StaleLogProbabilities(**parts)

    def train(seed: Any, variant: TracedConfig) -> Any:
        state = composed.init(jax.random.key(seed), variant)

        def point(state: Any, _: None) -> Any:
            state, metrics = composed.chunk(state, variant)
            return state, metrics["training/return"]

        return jax.lax.scan(point, state, length=POINTS)[1]

    return jax.jit(jax.vmap(train))


def curves(names: Sequence[str], seeds: Sequence[int]) -> np.ndarray:
    """Return training returns `[n, POINTS]` of n bugs and seeds; NaN if no episode has ended.

    Either all names or none are `STALE`.
    """
    stale = names[0] == STALE
    rows = []
    for start in range(0, len(seeds), LANES):
        part = list(zip(names, seeds, strict=True))[start : start + LANES]
        padded = part + [part[-1]] * (LANES - len(part))
        data = jax.tree.map(lambda *x: np.stack(x), *(variant(name) for name, _ in padded))
        keys = np.array([seed for _, seed in padded], np.uint32)
        rows.append(np.asarray(_program(stale)(keys, data))[: len(part)])
    return np.concatenate(rows)
