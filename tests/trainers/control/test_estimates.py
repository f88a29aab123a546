"""What estimates are given: ratios of the policy as it is now, and a λ of the critic's own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import alone, program

import variants
from ablations.trainers.control.advantages import Estimate, Experience, estimate
from ablations.trainers.control.ppo import Minibatch
from ablations.trainers.spec import trainer
from variants.advantage import WITHIN_EPISODES

T, N = 8, 4
RNG = np.random.default_rng(0)


def normal(*shape: int) -> jax.Array:
    return jnp.asarray(RNG.normal(size=shape), jnp.float32)


def ends(share: float) -> jax.Array:
    return jnp.asarray(RNG.random((T, N)) < share, jnp.float32)


def steps() -> tuple[Experience, Minibatch, Any]:
    """Random steps, as a batch too, and the parameters of a policy that they are not of."""
    ppo = program()
    parameters = ppo.networks.init(jax.random.key(0))
    size = parameters["policy"]["params"]["hidden_0"]["kernel"].shape[0]
    outputs = parameters["policy"]["params"]["hidden_2"]["bias"].shape[0]
    seen, ahead = normal(T, N, size), normal(T, N, size)
    experience = Experience(seen, ahead, normal(T, N), ends(0.1), ends(0.1))
    zeros = jnp.zeros((T, N))
    batch = Minibatch(
        observation=seen,
        raw=normal(T, N, outputs),
        x=normal(T, N, outputs // 2),
        log_prob=normal(T, N) - 1,
        old_value=zeros,
        advantage=zeros,
        target=zeros,
        group=zeros.astype(jnp.int32),
    )
    return experience, batch, parameters


@pytest.mark.parametrize("timing", ["epoch", "minibatch"])
def test_vtrace_is_given_the_ratios_of_the_policy_now(timing: str) -> None:
    experience, batch, parameters = steps()
    ppo, one = program(), alone(advantage="vtrace", advantage_timing=timing)
    estimator = ppo.estimator(ppo.critic(None), parameters, one, batch)
    nothing = Estimate(batch.advantage, batch.target)
    output = ppo.networks.value(parameters, batch.observation)
    if timing == "epoch":
        _, found = estimator.at_epoch(experience, batch.old_value, nothing)
    else:
        found = estimator.at_minibatch(lambda: experience, nothing, output)

    mean, spread = jnp.split(ppo.networks.policy(parameters, batch.observation), 2, axis=-1)
    std = jax.nn.softplus(spread) + 0.001
    density = -0.5 * ((batch.x - mean) / std) ** 2 - jnp.log(std) - 0.5 * np.log(2 * np.pi)
    ratio = jnp.sum(density, axis=-1) - batch.log_prob
    inputs = {
        "rewards": experience.reward,
        "values": output,
        "next_values": ppo.networks.value(parameters, experience.next_observation),
        "termination": experience.termination,
        "truncation": experience.truncation,
    }
    numbers = {name: one.numbers[name] for name in ("discount", "gae_lambda")}
    vtrace = variants.axis("advantage")["vtrace"].fn
    expected = vtrace(**inputs, **numbers, log_ratio=lambda: ratio, vtrace_rho=1.0, vtrace_c=1.0)
    for one_array, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one_array, other, rtol=1e-4, atol=1e-4)
    unmoved = vtrace(**inputs, **numbers, log_ratio=lambda: 0.0, vtrace_rho=1.0, vtrace_c=1.0)
    assert not np.allclose(found.advantage, unmoved[0], atol=0.05)


def test_targets_with_a_lambda_of_their_own() -> None:
    experience, value, ahead = steps()[0], normal(T, N), normal(T, N)
    shared = {x: estimate(experience, value, ahead, alone(gae_lambda=x)) for x in (0.7, 1.0)}
    sets = {"gae_lambda": 0.7, "target_lambda": 1.0}
    found = estimate(experience, value, ahead, alone(value_target="own_lambda", **sets))
    np.testing.assert_array_equal(found.advantage, shared[0.7].advantage)
    np.testing.assert_array_equal(found.target, shared[1.0].target)
    assert not np.allclose(shared[1.0].target, shared[0.7].target, atol=0.1)
    assert variants.inert_settings({"value_target": "own_lambda", "advantage": "n_step"})
    assert not variants.inert_settings({"value_target": "own_lambda", "advantage": "brax"})


@pytest.mark.parametrize(
    ("sets", "complaint"),
    [
        ({"advantage": "vtrace"}, "set advantage_timing=epoch or minibatch"),
        ({"advantage": "vtrace", "advantage_timing": "epoch"}, None),
        (
            {"advantage": "n_step", "bootstrap_steps": 2.5},
            "bootstrap_steps=2.5 is no whole number: use 2 or 3",
        ),
        ({"advantage": "n_step", "bootstrap_steps": 3}, None),
    ],
)
def test_what_multistep_advantages_need(sets: dict[str, Any], complaint: str | None) -> None:
    found = variants.conflicts(dict(trainer("ppo").axes) | sets)
    assert (complaint in found[0]) if complaint else not found


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"advantage_timing": "epoch", "epochs": 1}, {"vtrace_rho", "vtrace_c"}),
        ({"advantage_timing": "epoch", "epochs": 2}, set()),
        ({"advantage_timing": "minibatch", "epochs": 1}, set()),
        ({"advantage_timing": "epoch", "epochs": 1, "vtrace_c": 0.5}, {"vtrace_rho"}),
    ],
)
def test_bounds_that_no_ratio_reaches(more: dict[str, Any], names: set[str]) -> None:
    found = variants.inert_settings({"advantage": "vtrace", "num_minibatches": 4, **more})
    assert set(found) == names


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
