"""What the critic stands for, statistics that forget, Brax's divergence: against plain loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import alone
from jax import tree

import variants
from ablations.trainers.control import normalizer as statistics
from ablations.trainers.control.distribution import Normal
from ablations.trainers.control.networks import Critic, Head, Outputs, make_networks
from ablations.trainers.control.ppo import Minibatch, ppo_loss
from ablations.trainers.spec import trainer

BATCHES = [np.random.default_rng(i).normal(3 * i, 1 + i, (4, 5)) for i in range(3)]


def first(choice: str) -> tuple[Critic, dict]:
    networks = make_networks(3, Outputs(2), (4,), (4, 4))
    return Critic(networks.value, choice, Critic.start(choice)), networks.init(jax.random.key(0))


def close(one, other, tolerance=1e-5) -> None:
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("choice", ["running", "popart"])
def test_targets_seen_are_those_of_all_batches(choice: str) -> None:
    critic, parameters = first(choice)
    for i, targets in enumerate(BATCHES):
        critic, parameters = critic.after(jnp.asarray(targets, jnp.float32), parameters)
        seen = np.concatenate([x.ravel() for x in BATCHES[: i + 1]])
        close(critic.output(jnp.float32(7.0)), (7.0 - seen.mean()) / seen.std(), 1e-4)


def test_popart_changes_no_value_and_running_no_parameter() -> None:
    observation = jax.random.normal(jax.random.key(1), (6, 3))
    for choice in ("running", "popart"):
        critic, parameters = first(choice)
        for targets in BATCHES:
            before = critic.value(parameters, observation)
            after, moved = critic.after(jnp.asarray(targets, jnp.float32), parameters)
            same = bool(np.allclose(before, after.value(moved, observation), rtol=1e-4, atol=1e-4))
            assert same == (choice == "popart")
            kept = tree.all(tree.map(np.array_equal, parameters, moved))
            assert kept == (choice == "running")
            assert tree.all(tree.map(np.array_equal, parameters["policy"], moved["policy"]))
            critic, parameters = after, moved


@pytest.mark.parametrize("choice", ["none", "symlog"])
def test_without_statistics_nothing_is_carried(choice: str) -> None:
    critic, parameters = first(choice)
    assert critic.of_targets is None
    after, same = critic.after(jnp.ones((4, 5)), parameters)
    assert after is critic
    assert same is parameters
    assert set(variants.axis("value_normalization")) == {"running", "popart", "none", "symlog"}


# Statistics that forget


class VecNorm:
    """TorchRL's sums, in double precision."""

    def __init__(self, forgetting: float, size: int) -> None:
        self.decay, self.count = 1 - forgetting, 0.0
        self.sum, self.squares = np.zeros(size), np.zeros(size)

    def take_in(self, observations: np.ndarray) -> None:
        if len(observations):
            self.count = self.decay * self.count + len(observations)
            self.sum = self.decay * self.sum + observations.sum(0)
            self.squares = self.decay * self.squares + (observations**2).sum(0)

    @property
    def mean(self) -> np.ndarray:
        return self.sum / self.count

    @property
    def variance(self) -> np.ndarray:
        return self.squares / self.count - self.mean**2


def test_forgetting_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    forgetting, N = 0.01, 3
    start = rng.normal(2, 3, (N, 2))
    state = statistics.start("per_step_forgetting", jnp.asarray(start), forgetting)
    expected = VecNorm(forgetting, 2)
    step = jax.jit(statistics.step, static_argnums=0)
    expected.take_in(start)
    for t in range(40):
        close(state.mean, expected.mean, 1e-4)
        close(state.variance, expected.variance, 1e-3)
        final, reset = rng.normal(2, 3, (N, 2)), rng.normal(-4, 1, (N, 2))
        done = rng.random(N) < (0.3 if t else 0.0)
        following = np.where(done[:, None], reset, final)
        before, state = step(
            "per_step_forgetting",
            state,
            jnp.asarray(final),
            jnp.asarray(following),
            jnp.asarray(done),
            forgetting,
        )
        expected.take_in(final)
        close(before.mean, expected.mean, 1e-4)
        expected.take_in(reset[done])
    close(state.batches, expected.count)


def test_forgetting_starts_at_the_variance_of_what_it_saw() -> None:
    """Not at a second moment: a mean of 20 would hide a std of 5."""
    observations = np.random.default_rng(1).normal(20, 5, (61, 1, 1))
    state = statistics.start("per_step_forgetting", jnp.asarray(observations[0]), 1e-5)
    no = jnp.zeros(1, bool)
    for t, one in enumerate(observations[1:], start=2):
        _, state = statistics.step("per_step_forgetting", state, one, one, no, 1e-5)
        if t in (2, 11, 61):
            close(jnp.sqrt(state.spread), observations[:t].std(0)[0], 1e-3)


def test_forgetting_keeps_a_small_spread_beside_a_large_mean() -> None:
    """1 - 0.99999 has three digits in single precision, and E[o²] - μ² none at all here."""
    observation = jnp.asarray([[1e4], [1e4 + 1]])
    state = statistics.start("per_step_forgetting", observation, jnp.float32(1e-5))
    close(state.mean, [1e4 + 0.5])
    close(state.variance, [0.25], 1e-4)


@pytest.mark.parametrize("kind", ["per_environment", "per_step_forgetting"])
def test_final_observation_of_no_number_is_not_taken_in(kind: str) -> None:
    rng = np.random.default_rng(2)
    first, final, reset = (jnp.asarray(rng.normal(1, 2, (3, 2)), jnp.float32) for _ in range(3))
    done = jnp.asarray([True, False, False])
    following = jnp.where(done[:, None], reset, final)
    state = statistics.start(kind, first, 0.01)
    before, after = statistics.step(kind, state, final.at[0, 1].set(jnp.nan), following, done, 0.01)
    assert tree.all(tree.map(lambda x: bool(jnp.isfinite(x).all()), (before, after)))
    if kind == "per_environment":
        assert bool((before.mean[0] == state.mean[0]).all())
        others, _ = statistics.step(kind, state, final, following, done, 0.01)
        assert bool((before.mean[1:] == others.mean[1:]).all())
    else:
        expected = VecNorm(0.01, 2)
        for batch in (first, final[1:], reset[:1]):
            expected.take_in(np.asarray(batch, float))
        close(after.mean, expected.mean)
        close(after.variance, expected.variance)


# Brax's divergence


def test_offset_divergence_is_brax_s() -> None:
    from brax.training.distribution import _NormalDistribution

    one = alone(action_distribution="tanh_normal", policy_std="softplus_head")
    old, new = jax.random.normal(jax.random.key(2), (2, 7, 6))

    def theirs(raw):
        mean, std = jnp.split(raw, 2, axis=-1)
        return _NormalDistribution(mean, jax.nn.softplus(std) + 0.001)

    expected = jnp.mean(theirs(new).kl_divergence(theirs(old)))
    close(Normal(2, False).kl(old, new, one, 1e-5), expected)
    same = float(Normal(2, False).kl(old, old, one, 1e-5))
    assert same == pytest.approx(3e-5, rel=0.05)
    assert float(Normal(2, False).kl(old, old, one)) == pytest.approx(0.0, abs=1e-6)


HEADS = [Head(choice, 5, 3.0) for choice in ("hl_gauss", "two_hot", "quantiles")]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.choice)
def test_a_head_is_valued_and_learned_by_its_axis(head: Head) -> None:
    networks = make_networks(3, Outputs(2), (4,), (4, 4), head=head)
    parameters = networks.init(jax.random.key(0))
    observation = 3.0 * jax.random.normal(jax.random.key(1), (2, 6, 3))
    raw, outputs = networks.both(parameters, observation)
    assert outputs.shape == (2, 6, 5)
    target = jnp.linspace(-4.0, 4.0, 12).reshape(2, 6)
    axis = variants.axis("critic_head")
    expected = axis.apply(head.choice, outputs=outputs, targets=target, value_range=3.0)
    close(networks.value(parameters, observation), expected.value)
    zeros = jnp.zeros((2, 6))
    batch = Minibatch(
        observation, raw, raw[..., :1], zeros, zeros, zeros, target, zeros.astype(int)
    )
    one = alone(critic_head=head.choice, value_coefficient=0.7)
    _, metrics = ppo_loss(parameters, networks, Normal(1, False), batch, jax.random.key(2), one, 1)
    close(metrics["loss/value"], 0.7 * np.mean(expected.loss))
    left = np.var(target - expected.value) / np.var(target)
    close(metrics["value/explained_variance"], 1 - left)


def test_what_does_not_fit_a_distribution_is_named() -> None:
    ppo, head = dict(trainer("ppo").axes), {"critic_head": "hl_gauss"}
    for more, advice in (
        ({"value_clip": "replace"}, "set value_clip=none"),
        ({"value_normalization": "popart"}, "set value_normalization=running"),
    ):
        (complaint,) = variants.conflicts(ppo | head | more)
        assert advice in complaint
    quantiles = ppo | {"critic_head": "quantiles"}
    assert not variants.conflicts(quantiles | {"value_normalization": "popart"})
    assert {"value_error", "error_scale", "value_range"} <= variants.inert_settings(
        quantiles
    ).keys()
    found = variants.inert_settings(ppo)
    assert {"value_outputs", "value_range"} <= found.keys()
    assert "value_error" not in found
    assert not {"value_outputs", "value_range"} & variants.inert_settings(ppo | head).keys()
