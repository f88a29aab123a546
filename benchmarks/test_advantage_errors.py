"""Bias and variance of advantage estimates, on tasks with a closed form of the truth.

    pytest benchmarks/test_advantage_errors.py

The coin is a task whose reward is the action. The policy's action has mean 0, so V = 0 and A = a
for any discount. The critic returns the constant c. With δ = a + γc - c, the estimate of GAE over T
steps is A + Σ_{0<t<T} (γλ)^t a_t - (1-γ) c Σ_{t<T} (γλ)^t.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from advantage_errors import LONGEST, advantage_errors, horizon

from ablations.tasks import Task
from ablations.trainers import TracedConfig
from ablations.trainers.control.ppo import SPEC, PPOState, compose
from variants.policy_std import MIN_STD

N, M, T, H = 64, 64, 8, 12
LENGTH = 1000
GAMMA, CRITIC = 0.9, 2.0
CHOICES = ("standard", "brax", "done_cut", "masked_truncation", "timeout_bonus")


def variant(**numbers: float) -> TracedConfig:
    task = {"name": "fast", "settings": {"reset_group_size": 2, "random_elapsed_steps": True}}
    return SPEC.data({"choices": {}, "numbers": numbers, "structure": {}, "task": task})


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Coin:
    """The environment's state; pipeline_state counts the steps since the reset."""

    pipeline_state: Any
    obs: Any
    reward: Any
    done: Any
    metrics: Any
    info: Any

    def replace(self, **fields: Any) -> Coin:
        return replace(self, **fields)


@dataclass(frozen=True)
class Environment:
    """Terminate after `last` steps, if set, with a NaN observation, as MuJoCo Playground does."""

    last: int
    observation_size: int = 1
    action_size: int = 1

    def reset(self, key: jax.Array) -> Coin:
        zero = jnp.zeros(())
        return Coin(jnp.int32(0), jnp.zeros(1), zero, zero, {}, {})

    def step(self, state: Coin, action: jax.Array) -> Coin:
        steps = state.pipeline_state + 1
        done = (steps == self.last).astype(jnp.float32)
        observation = jnp.where(done > 0, jnp.nan, jnp.zeros(1))
        return state.replace(pipeline_state=steps, obs=observation, reward=action[0], done=done)


@cache
def coin(last: int = 0) -> tuple[Any, PPOState]:
    """Return the jitted measurement, and a state in which the critic returns c."""
    task = Task("coin", "a coin", make=lambda settings: Environment(last), settings={})
    ppo = compose(
        task=task,
        settings={"episode_length": LENGTH, "random_elapsed_steps": False},
        structure={name: option.default for name, option in SPEC.structure.items()}
        | {"num_envs": N, "unroll_length": T, "policy_layers": [], "value_layers": []},
        updates_per_chunk=1,
    )
    state = jax.jit(ppo.init)(jax.random.key(0), variant())
    parameters = jax.tree.map(jnp.zeros_like, state.parameters)
    parameters["value"]["params"]["hidden_0"]["bias"] = jnp.full(1, CRITIC)
    measure = jax.jit(partial(advantage_errors, ppo, horizon=H, continuations=M))
    return measure, state._replace(learner=state.learner._replace(parameters=parameters))


@cache
def errors(gae_lambda: float, last: int = 0, clock: int = 0) -> dict[str, float]:
    """Return the measured errors; clock: steps before a truncation."""
    measure, state = coin(last)
    if clock:
        elapsed = jnp.full(N, LENGTH - clock, jnp.int32)
        state = state._replace(episodes=state.episodes._replace(elapsed=elapsed))
    one = variant(discount=GAMMA, gae_lambda=gae_lambda, reward_scale=1.0)
    found = measure(state, one, jax.random.key(1))
    return {name: float(value) for name, value in found.items()}


def variance_of_an_action() -> float:
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    return float(weights @ np.tanh((np.log(2.0) + MIN_STD) * nodes) ** 2 / weights.sum())


def later(factor: float) -> float:
    return sum(factor**t for t in range(1, T))


@pytest.mark.parametrize("gae_lambda", [0.0, 0.8, 1.0])
def test_bias_and_variance_are_those_of_the_closed_form(gae_lambda: float) -> None:
    found = errors(gae_lambda)
    bias = -(1 - GAMMA) * CRITIC * (1 + later(GAMMA * gae_lambda))
    variance = variance_of_an_action() * later((GAMMA * gae_lambda) ** 2)
    assert found["standard/bias"] == pytest.approx(bias, abs=0.08)
    assert found["standard/squared_bias"] == pytest.approx(bias**2, abs=0.12)
    assert found["standard/variance"] == pytest.approx(variance, rel=0.1, abs=1e-6)
    one_more_hop = GAMMA * sum((GAMMA * gae_lambda) ** t for t in range(T - 1))
    assert found["brax/bias"] == pytest.approx(-(1 - GAMMA) * CRITIC * (1 + one_more_hop), abs=0.08)


def test_one_extra_step_multiplies_the_variance_by_lambda_squared() -> None:
    """A_brax - δ = γ A⁺ is (A - δ)/λ, and δ has no variance here given the action."""
    found = errors(0.8)
    assert found["brax/variance"] / found["standard/variance"] == pytest.approx(
        1 / 0.8**2, rel=1e-4
    )


def test_extreme_lambdas() -> None:
    """At λ = 0 the estimate is δ, with the least variance; at 1 Brax's is GAE, with the most."""
    none, whole = errors(0.0), errors(1.0)
    assert none["standard/variance"] < 1e-10 < none["brax/variance"] < whole["standard/variance"]
    for what in ("bias", "squared_bias", "variance", "correlation"):
        assert whole[f"brax/{what}"] == pytest.approx(whole[f"standard/{what}"], abs=1e-4)
    # The estimate is A itself, plus a constant; the truth that it meets is Monte-Carlo.
    noise = variance_of_an_action() * sum(GAMMA ** (2 * t) for t in range(1, H)) / (M - 1)
    noise += variance_of_an_action() * sum(GAMMA ** (2 * t) for t in range(H)) / M
    expected = (1 / (1 + noise / variance_of_an_action())) ** 0.5
    assert none["standard/correlation"] == pytest.approx(expected, abs=0.05)
    assert none["standard/correlation"] > whole["standard/correlation"]


def test_truncation_is_judged_by_what_lies_beyond_it() -> None:
    """The clock truncates at the first step, and the truth has no clock."""
    found = errors(0.8, clock=1)
    assert found["standard/bias"] == pytest.approx(-(1 - GAMMA) * CRITIC, abs=0.08)
    assert found["done_cut/bias"] == pytest.approx(-CRITIC, abs=0.08)
    assert found["masked_truncation/variance"] == found["brax/variance"] == 0.0
    assert errors(0.8)["done_cut/bias"] == pytest.approx(errors(0.8)["standard/bias"], abs=1e-5)


def test_returns_end_with_the_episode() -> None:
    """The segment has the whole episode, so at λ = 1 the estimate is the return minus c."""
    found = errors(1.0, last=3)
    assert found["standard/bias"] == pytest.approx(-CRITIC, abs=0.08)
    variance = variance_of_an_action() * (GAMMA**2 + GAMMA**4)
    assert found["standard/variance"] == pytest.approx(variance, rel=0.1)


def test_every_choice_is_measured_at_the_same_places() -> None:
    found = errors(0.8)
    assert {name.partition("/")[0] for name in found} >= set(CHOICES)
    for choice in ("done_cut", "masked_truncation", "timeout_bonus"):
        for what in ("bias", "variance", "correlation"):
            assert found[f"{choice}/{what}"] == pytest.approx(found[f"standard/{what}"], abs=1e-5)


def test_horizon_leaves_little_weight_to_the_critic() -> None:
    assert 0.99 ** horizon(0.99, 32) <= 0.05 < 0.99 ** (horizon(0.99, 32) - 1)
    assert horizon(0.0, 32) == horizon(0.5, 32) == 32
    assert horizon(1.0, 32) == LONGEST


class Dice:
    """A task with Gymnax's interface whose reward is a standard normal of the step's key."""

    default_params = None

    def action_space(self, params: None) -> SimpleNamespace:
        return SimpleNamespace(n=2)

    def reset_env(self, key: jax.Array, params: None) -> tuple[jax.Array, jax.Array]:
        return jnp.zeros(1), jnp.int32(0)

    def step_env(self, key: jax.Array, state: jax.Array, action: jax.Array, params: None) -> Any:
        return jnp.zeros(1), state, jax.random.normal(key), jnp.bool_(False), {}


def test_continuations_of_one_state_are_random_each_by_itself() -> None:
    """Given state and action, the variance of the estimate is the environment's: 1."""
    dice = Task(
        "dice", "dice", make=lambda settings: Dice(), settings={}, discrete=True, fresh=True
    )
    ppo = compose(
        task=dice,
        settings={"episode_length": LENGTH, "random_elapsed_steps": False},
        structure={name: option.default for name, option in SPEC.structure.items()}
        | {"num_envs": N, "unroll_length": T, "policy_layers": [4], "value_layers": [4]},
        updates_per_chunk=1,
    )
    one = variant(discount=GAMMA, gae_lambda=0.0, reward_scale=1.0)
    state = jax.jit(ppo.init)(jax.random.key(0), one)
    measure = jax.jit(partial(advantage_errors, ppo, horizon=T, continuations=M))
    found = measure(state, one, jax.random.key(1))
    assert float(found["standard/variance"]) == pytest.approx(1.0, rel=0.1)
    assert float(found["standard/squared_bias"]) == pytest.approx(0.0, abs=0.1)
