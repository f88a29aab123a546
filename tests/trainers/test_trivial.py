"""Policies that learn nothing: evaluated as all others are, against plain loops."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ablations.engine.job import cells_of
from ablations.engine.plan import plan
from ablations.errors import UserError
from ablations.request import Request
from ablations.tasks import Task, task
from ablations.trainers import trainer
from ablations.trainers.untrained import make

LENGTH, COUNT = 30, 6
SETTINGS = {**task("fast").settings, "episode_length": LENGTH}


def scores(of: Task, policy: str, settings: Any = SETTINGS, count: int = COUNT) -> dict[str, float]:
    """The evaluation with key 7."""
    composed = make(
        task=of,
        settings=settings,
        structure={"policy": policy},
        updates_per_chunk=5,
        evaluation_envs=count,
        choices={},
    )
    variant = trainer("trivial").data(trainer("trivial").resolve(of, {"policy": policy}))
    state = composed.init(jax.random.key(0), variant)
    state, metrics = composed.chunk(state, variant)
    assert [*metrics] == ["training/return"]
    assert math.isnan(metrics["training/return"])
    found = jax.jit(composed.evaluate)(state, variant, jax.random.key(7))
    return {name: float(value) for name, value in found.items()}


def test_doing_nothing_is_a_plain_loop_over_the_resets_of_an_evaluation() -> None:
    env = task("fast").make(SETTINGS)
    step = jax.jit(env.step)
    returns, lengths = [], []
    for key in jax.random.split(jax.random.split(jax.random.key(7))[0], COUNT):
        state, total, length = env.reset(key), 0.0, 0
        while length < LENGTH and not state.done:
            state = step(state, jnp.zeros(1))
            total, length = total + float(state.reward), length + 1
        returns.append(total)
        lengths.append(length)
    found = scores(task("fast"), "zero")
    assert found["evaluation/return"] == pytest.approx(np.mean(returns), rel=1e-5)
    assert found["evaluation/return_std"] == pytest.approx(np.std(returns), rel=1e-4)
    assert found["evaluation/length"] == pytest.approx(np.mean(lengths))


class Echo:
    """An endless cart that pays what is done."""

    def __init__(self) -> None:
        self.cart = task("fast").make({})
        self.reset, self.action_size = self.cart.reset, self.cart.action_size

    def step(self, state: Any, action: Any) -> Any:
        after = self.cart.step(state, action)
        return after.replace(reward=action[0], done=jnp.zeros_like(after.done))


def test_random_actions_are_uniform_and_new_at_every_step_of_every_episode() -> None:
    """Sums of T of them have mean 0 and variance T/3."""
    echo = replace(task("fast"), make=lambda settings: Echo())
    settings, count = {**SETTINGS, "episode_length": 100}, 1000
    found = scores(echo, "uniform", settings, count)
    spread = math.sqrt(100 / 3)
    assert found["evaluation/length"] == pytest.approx(100)
    assert abs(found["evaluation/return"]) < 4 * spread / math.sqrt(count)
    assert found["evaluation/return_std"] == pytest.approx(spread, rel=0.1)
    assert scores(echo, "zero", settings, count)["evaluation/return_std"] == 0.0


def test_random_tokens_are_all_alike() -> None:
    """The entropy of a token is log of the vocabulary."""
    from ablations.tasks.language import puzzles

    addition = task("addition")
    found = scores(addition, "uniform", addition.settings, 64)
    assert found["evaluation/entropy"] == pytest.approx(math.log(len(puzzles.VOCABULARY)), rel=1e-4)
    assert found["evaluation/accuracy"] < 0.1
    with pytest.raises(UserError, match="policy=zero writes no tokens"):
        trainer("trivial").resolve(addition, {"policy": "zero"})


def test_they_are_planned_where_the_trained_ones_are_evaluated() -> None:
    """At the same points, so with the same keys; and no setting of a trainer is in their cells."""
    changes: dict[str, Any] = {"steps": 8192, "seeds": 1, "set": {"evaluations": 2, "points": 2}}
    trained = cells_of(plan(Request("gae", "smoke", **changes)))[0]
    trivial = cells_of(plan(Request("trivial_policies", "smoke", **changes)))
    for cell in trivial:
        assert cell.measured == trained.measured
        assert cell.config["run"]["evaluation_envs"] == trained.config["run"]["evaluation_envs"]
        assert cell.config["choices"] == cell.config["numbers"] == {}
    assert [cell.config["structure"]["policy"] for cell in trivial] == ["zero", "uniform"]
