"""What must hold of `ablations.trainers.loss`, as a function of the module, for its mutants too."""

from __future__ import annotations

import math
import warnings
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import alone, only, program, variant

from ablations.trainers.control.advantages import Experience, estimate
from ablations.trainers.control.distribution import mean_and_std
from ablations.trainers.control.ppo import PPO
from ablations.trainers.optimizer import Learner
from ablations.trainers.trainer import TracedConfig

SETS = {
    "advantage": "brax",
    "advantage_timing": "minibatch",
    "discount": 0.95,
    "gae_lambda": 0.9,
    "reward_scale": 3.0,
    "clip_epsilon": 0.1,
    "entropy_coefficient": 0.02,
    "value_coefficient": 0.25,
}
KEY = jax.random.key(11)


@cache
def rolled_out() -> tuple[PPO, Learner, Any, Experience, Any]:
    """(program, learner, rollout, experience, batch): a learner that has moved on since the
    rollout.
    """
    ppo = program(activation="swish", unroll_length=16, fixed=only())
    state = jax.jit(ppo.init)(jax.random.key(0), variant())
    carts = state.episodes.state
    runaway = carts.physics | {
        "velocity": carts.physics["velocity"].at[:3].set(jnp.array([2.0, 3.0, -4.0]))
    }
    state = state._replace(
        episodes=state.episodes._replace(
            state=carts._replace(physics=runaway), elapsed=jnp.arange(8)
        )
    )
    *_, rollout = jax.jit(lambda state, key: ppo.rollout(state, key, alone()))(
        state, jax.random.key(1)
    )
    experience, batch = jax.jit(
        lambda state, rollout: ppo.prepare(
            state, rollout, 3.0 * rollout.outcome.reward, state.normalizer, alone(**SETS)
        )
    )(state, rollout)
    moved = jax.tree.map(
        lambda x: x + 0.05 * jax.random.normal(jax.random.key(x.size), x.shape), state.parameters
    )
    assert bool(rollout.outcome.truncation.any())
    assert bool(rollout.outcome.termination.any())
    return ppo, state.learner._replace(parameters=moved), rollout, experience, batch


@cache
def brax_loss(clip_range: float | None) -> tuple[Any, Any, Any]:
    """Brax's loss, its parts and its gradient for the same data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from brax.training import types
        from brax.training.agents.ppo import losses, networks

    _, learner, rollout, experience, batch = rolled_out()
    nets = networks.make_ppo_networks(
        experience.observation.shape[-1],
        rollout.kept.x.shape[-1],
        policy_hidden_layer_sizes=(16, 16),
        value_hidden_layer_sizes=(16, 16),
    )
    outcome = rollout.outcome
    # The policy of the rollout, as Brax keeps it; only its distance from the new one rests on this.
    raw = jnp.concatenate([rollout.kept.x, jnp.zeros_like(rollout.kept.x)], -1)
    slope = 2.0 * (jnp.log(2.0) - rollout.kept.x - jax.nn.softplus(-2.0 * rollout.kept.x))
    data = types.Transition(
        observation=experience.observation,
        action=jnp.tanh(rollout.kept.x),
        reward=outcome.reward,
        discount=1.0 - (outcome.termination | outcome.truncation).astype(jnp.float32),
        next_observation=experience.next_observation,
        extras={
            "state_extras": {"truncation": experience.truncation},
            "policy_extras": {
                "raw_action": rollout.kept.x,
                "log_prob": rollout.kept.log_prob - slope.sum(-1),
                "value": batch.old_value,
                "distribution_params": raw,
            },
        },
    )
    parameters = losses.PPONetworkParams(**learner.parameters)
    loss = partial(
        losses.compute_ppo_loss,
        rng=KEY,
        ppo_network=nets,
        entropy_cost=SETS["entropy_coefficient"],
        discounting=SETS["discount"],
        reward_scaling=SETS["reward_scale"],
        gae_lambda=SETS["gae_lambda"],
        clipping_epsilon=SETS["clip_epsilon"],
        vf_coefficient=0.5,
        clipping_epsilon_value=clip_range,
    )
    (total, parts), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(
        parameters, None, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), data)
    )
    return total, parts, {"policy": gradient.policy, "value": gradient.value}


@cache
def estimated() -> tuple[Any, Any]:
    """Advantages and value targets by the critic as it is now, by the choices of `SETS`."""
    ppo, learner, _, experience, _ = rolled_out()

    def now(experience: Experience) -> tuple[Any, Any]:
        value = ppo.networks.value(learner.parameters, experience.observation)
        next_value = ppo.networks.value(learner.parameters, experience.next_observation)
        return estimate(experience, value, next_value, alone(**SETS))

    return jax.jit(now)(experience)


def our_loss(module: Any, one: TracedConfig, distribution: Any = None) -> tuple[Any, Any, Any]:
    """The loss of the whole batch as one minibatch, with advantages by the critic as it is now."""
    ppo, learner, _, _, batch = rolled_out()
    advantage, target = estimated()
    batch = batch._replace(advantage=advantage, target=target)

    def loss(parameters: Any, batch: Any) -> Any:
        return module.ppo_loss(
            parameters,
            ppo.networks,
            distribution or ppo.distribution,
            batch,
            KEY,
            one,
            ppo.environments.num_groups,
        )

    (total, parts), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(
        learner.parameters, batch
    )
    return total, parts, gradient


def check_brax(module: Any, clip_range: float | None, distribution: Any = None) -> None:
    """Loss, its parts and its gradient are Brax's, to 1e-5."""
    clip = (
        {} if clip_range is None else {"value_clip": "pessimistic", "value_clip_range": clip_range}
    )
    total, parts, gradient = our_loss(module, alone(**SETS, **clip), distribution)
    brax_total, brax_parts, brax_gradient = brax_loss(clip_range)
    pairs = [
        (total, brax_total),
        (parts["loss/policy"], brax_parts["policy_loss"]),
        (parts["loss/value"], brax_parts["v_loss"]),
        (parts["loss/entropy"], brax_parts["entropy_loss"]),
    ]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert jax.tree.structure(gradient) == jax.tree.structure(brax_gradient)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), gradient, brax_gradient
    )


def check_samples(normal: Any) -> None:
    """What is drawn has the mean and the std of the network's outputs."""
    raw = jnp.broadcast_to(jnp.array([0.3, -1.0]), (4000, 2))
    samples = normal.sample(raw, normal.noise(KEY, (4000,)), alone())
    std = np.log1p(np.exp(-1.0)) + 0.001
    assert float(np.mean(samples.x)) == pytest.approx(0.3, abs=4 * std / math.sqrt(4000))
    assert float(np.std(samples.x)) == pytest.approx(std, rel=0.05)


def check_metrics(module: Any) -> None:
    """The diagnostics by their definitions, in NumPy."""
    one = alone(**SETS, value_clip="pessimistic", value_clip_range=0.05)
    ppo, learner, rollout, _, batch = rolled_out()
    _, parts, _ = our_loss(module, one)
    raw, value = ppo.networks.both(learner.parameters, batch.observation)
    mean, std = map(np.asarray, mean_and_std(raw, alone()))
    x = np.asarray(rollout.kept.x)
    new = (-0.5 * ((x - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)).sum(-1)
    log_ratio = new - np.asarray(rollout.kept.log_prob)
    ratio = np.exp(log_ratio)
    target = np.asarray(estimated()[1])
    moved = np.abs(np.asarray(value) - np.asarray(batch.old_value))
    expected = {
        "policy/clip_fraction": np.mean(np.abs(ratio - 1) > 0.1),
        "policy/approximate_kl": np.mean(ratio - 1 - log_ratio),
        "policy/kl_k1": -np.mean(log_ratio),
        "policy/ratio_mean": np.mean(ratio),
        "policy/ratio_max": np.max(ratio),
        "policy/effective_sample_size": ratio.sum() ** 2 / np.sum(ratio**2) / ratio.size,
        "value/clip_fraction": np.mean(moved > 0.05),
        "value/explained_variance": 1 - np.var(target - np.asarray(value)) / np.var(target),
        "loss/total": sum(parts[name] for name in ("loss/policy", "loss/value", "loss/entropy")),
        "policy/entropy": -parts["loss/entropy"] / 0.02,
    }
    for name, number in expected.items():
        np.testing.assert_allclose(parts[name], number, rtol=1e-4, atol=1e-6, err_msg=name)
    silent = our_loss(module, alone(**SETS | {"policy_loss": "kl_penalty"}))[1]
    for name in ("policy/clip_fraction", "value/clip_fraction"):
        assert np.isnan(silent[name])
    assert 0 < expected["policy/clip_fraction"] < 1
    assert 0 < expected["value/clip_fraction"] < 1
