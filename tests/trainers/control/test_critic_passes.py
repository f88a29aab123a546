"""How often the critic looks at a batch: never for values that nothing reads, nor twice for the
same ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import program, variant

import variants
from ablations.trainers.control.ppo import SPEC
from variants.advantage import WITHIN_EPISODES

# 8 steps of 8 environments, in 2 minibatches: rows of observations.
BATCH, MINIBATCH, LAST_OF_BATCH, LAST_OF_MINIBATCH = 64, 32, 8, 4
LEARNING = ("both", MINIBATCH)


def looks(**choices: str) -> set[tuple[str, int]]:
    """(function of the networks, rows of observations) of all calls for values in an iteration."""
    ppo, seen = program(), set()

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(parameters: Any, observation: jax.Array) -> Any:
            seen.add((name, observation[..., 0].size))
            return function(parameters, observation)

        return noted

    networks = ppo.networks._replace(
        value=noting("value", ppo.networks.value), both=noting("both", ppo.networks.both)
    )
    one = variant()._replace(choices={**SPEC.axes, **choices})
    state = jax.eval_shape(ppo.init, jax.random.key(0), one._replace(choices=variant().choices))
    jax.eval_shape(lambda state: replace(ppo, networks=networks).iteration(state, one), state)
    return seen


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        (
            {"advantage": "brax", "advantage_timing": "minibatch"},
            {("value", LAST_OF_MINIBATCH)},
        ),
        (
            {"advantage": "standard", "advantage_timing": "minibatch"},
            {("value", MINIBATCH)},
        ),
        (
            {
                "advantage": "brax",
                "advantage_timing": "minibatch",
                "value_clip": "pessimistic",
            },
            {("value", BATCH), ("value", LAST_OF_MINIBATCH)},
        ),
        (
            {"advantage": "done_cut", "advantage_timing": "iteration"},
            {("value", BATCH), ("value", LAST_OF_BATCH)},
        ),
        (
            {
                "advantage": "masked_truncation",
                "advantage_timing": "epoch",
                "old_value": "epoch",
                "value_clip": "replace",
            },
            {("value", BATCH), ("value", LAST_OF_BATCH)},
        ),
    ],
    ids=lambda case: "-".join(case.values()) if isinstance(case, dict) else "",
)
def test_the_critic_looks_only_at_what_is_read(
    choices: dict[str, str], expected: set[tuple[str, int]]
) -> None:
    assert looks(**choices) == expected | {LEARNING}


@pytest.mark.parametrize("choice", variants.axis("advantage"))
def test_values_beyond_an_end_are_read_where_a_choice_says_so(choice: str) -> None:
    rng = np.random.default_rng(3)
    values, ends = rng.normal(size=(13, 6)), rng.random((12, 6))
    termination, truncation = ends < 0.2, ends > 0.8
    done = termination | truncation
    beyond = {
        name: np.where(done, there, values[1:])
        for name, there in (("reset", values[1:]), ("other", rng.normal(size=(12, 6))))
    }
    steps = {
        "rewards": rng.normal(size=(12, 6)),
        "values": values[:-1],
        "termination": termination,
        "truncation": truncation,
    }
    steps = {name: jnp.asarray(x, jnp.float32) for name, x in steps.items()}
    axis = variants.axis("advantage")
    one, other = (
        axis.apply(choice, next_values=jnp.asarray(x, jnp.float32), **steps)
        for x in beyond.values()
    )
    alike = all(map(np.array_equal, one, other))
    assert alike == (choice in WITHIN_EPISODES)
