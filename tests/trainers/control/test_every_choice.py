"""Every choice of every axis trains, in one program, and is heard by it."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import compiled, only, program, same_bits, train, variant

import variants
from ablations.trainers.control.ppo import SPEC

UPDATES, CHUNKS, LONG = 14, 2, 7  # long: with --all
STRUCTURE = {"num_envs": 32, "unroll_length": 16, "num_minibatches": 4, "epochs": 2}

CHOICES = [
    (axis, choice)
    for axis in SPEC.axes
    if not variants.axis(axis).structural
    for choice in variants.axis(axis)
]
# All choices of the axes that are compiled in, in as few programs as they fit into: a column each;
# further to the right the default.
PROGRAMS = """
action_distribution normal tanh_normal_inverted normal_unclipped \
    tanh_normal_inverted tanh_normal_inverted tanh_normal_inverted beta
policy_std exp_parameter exp_head clamped_parameter \
    shifted_softplus_head clamped_exp_parameter gsde softplus_head
observation_statistics per_step per_environment per_step_after_first per_step_forgetting
observation_scaling epsilon epsilon_clipped std_epsilon floored_std_clipped symlog epsilon
kl_stop minibatch epoch
value_normalization running popart symlog
critic_head hl_gauss quantiles two_hot
learning_rate_warmup linear
entropy_schedule linear target constant constant constant constant target
mean_perturbation uniform
penalty_schedule constant adaptive_kl
value_target shared shared own_lambda
advantage_scaling percentile symlog
network_normalization critic both policy
optimizer sgd adam adamw radam
optimizer_reset none batch batch_moments
weight_regularization to_zero to_initial
"""
ROWS = {axis: choices for axis, *choices in map(str.split, PROGRAMS.strip().splitlines())}
COMPILED_IN = [
    {axis: (choices + 7 * [SPEC.axes[axis]])[program] for axis, choices in ROWS.items()}
    for program in range(7)
]
# Numbers at which a choice has something to do on this task.
SETS: dict[str, dict[str, Any]] = {
    "dual_clip": {"dual_clip": 1.01, "learning_rate": 3e-3},
    "global_norm": {"max_gradient_norm": 0.1},
    "element_wise": {"max_gradient_norm": 0.01},
    "per_network": {"max_gradient_norm": 0.1},
    "huber": {"error_scale": 0.5},
    "pessimistic": {"value_clip_range": 0.02},
    "replace": {"value_clip_range": 0.02},
}


@cache
def default_parameters(chunks: int) -> Any:
    return train(variant(), updates=UPDATES, chunks=chunks, **STRUCTURE)[0].parameters


@pytest.mark.parametrize(("axis", "choice"), CHOICES, ids=lambda name: name)
def test_every_choice_trains(axis: str, choice: str, run_all: bool) -> None:
    """14,000 steps without a NaN (50,000 with --all), all in one compiled program, and other
    parameters than those of the default. A choice without a range has no clip fraction.
    """
    chunks = LONG if run_all else CHUNKS
    sets = {axis: choice, **SETS.get(choice, {})}
    if (axis, choice) == ("old_value", "epoch"):
        sets |= {"value_clip": "pessimistic", "advantage_timing": "epoch"}
    if choice.startswith("vtrace"):
        sets |= {"advantage_timing": "minibatch"}
    one = variant(**sets)._replace(iterations=np.float32(UPDATES * chunks))
    init, chunk = compiled(updates=UPDATES, **STRUCTURE)
    state = init(jax.random.key(0), one)
    chosen = {**SPEC.axes, **sets}
    silent = {
        "policy/clip_fraction": chosen["policy_loss"] in ("none", "kl_penalty", "sapo"),
        "value/clip_fraction": chosen["value_clip"] == "none",
    }
    for _ in range(chunks):
        state, metrics = chunk(state, one)
        for name, value in metrics.items():
            assert np.isfinite(value) != silent.get(name, False), f"{name} = {value}"
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state.parameters))
    assert chunk._cache_size() == 1
    if choice not in ALIKE:
        assert same_bits(state.parameters, default_parameters(chunks)) == (
            choice == SPEC.axes[axis]
        )


# Where no std is near its floor, and where only the value of an estimate differs, not its gradient.
ALIKE = ("all_floored", "negative_log_density")


def test_every_structural_choice_is_compiled_in_somewhere() -> None:
    for axis, default in SPEC.axes.items():
        if variants.axis(axis).structural:
            assert {default, *(one[axis] for one in COMPILED_IN)} == set(variants.axis(axis))


@pytest.mark.parametrize("choices", COMPILED_IN, ids=lambda one: one["observation_scaling"])
def test_structural_choices_train(choices: dict[str, str]) -> None:
    """Some steps without a NaN, and the saved policy acts within its bounds."""
    small = {"fixed": (*only(*choices), *choices.items()), "episode_length": 12}
    state, metrics = train(variant(target_kl=1e-3, learning_rate=3e-3), chunks=5, **small)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state.parameters))
    assert np.isfinite(metrics["loss/total"])
    ppo = program(**small)
    observation = jax.random.normal(jax.random.key(1), (4, 5, state.normalizer.mean.shape[-1]))
    action = ppo.act(ppo.policy(state), observation)
    bound = np.inf if choices["action_distribution"] == "normal_unclipped" else 1.0
    assert action.shape[:2] == (4, 5)
    assert float(jnp.max(jnp.abs(action))) <= bound


def test_one_environment_in_many_minibatches() -> None:
    """What segments cannot be cut into, transitions can: CleanRL's geometry, small."""
    structure: dict[str, Any] = {
        "num_envs": 2,
        "unroll_length": 16,
        "num_minibatches": 8,
        "epochs": 2,
        "fixed": only("minibatch_unit"),
    }
    _, metrics = train(variant(minibatch_unit="transitions"), chunks=2, **structure)
    assert np.isfinite(metrics["loss/total"])
