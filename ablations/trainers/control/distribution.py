# ruff: noqa: D102  # `Distribution` documents the methods
"""The policy's distribution over actions, from the raw outputs of its network.

`Normal` combines policy_std, action_distribution and entropy_estimate. `Parametric` uses a choice
of action_distribution that reads the outputs. `Categorical` reads no component.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

import variants
import variants.action_distribution
from ablations.environments import Actions, Box, Discrete
from ablations.tasks.task import Task
from ablations.trainers.choices import apply, switch
from ablations.trainers.control.networks import Outputs
from ablations.trainers.trainer import Array, TracedConfig
from variants.action_distribution import Drawn

BRAX_KL_OFFSET = 1e-5


class Sample(NamedTuple):
    """A draw x [..., A] or [...], its action, and the log density or probability [...] of x."""

    x: Array
    action: Array
    log_prob: Array


class Distribution(Protocol):
    """A distribution over actions, by raw outputs [..., R] of the policy's network.

    dimensions: numbers per action. Noise is drawn before a rollout, so that all variants of a seed
    have the same noise.
    """

    dimensions: int

    @property
    def outputs(self) -> Outputs:
        """The R outputs of the policy's network."""

    def noise(self, key: Array, shape: tuple[int, ...]) -> Array:
        """Draw the noise [*shape, ...] of actions [*shape]."""

    def sample(self, raw: Array, noise: Array, variant: TracedConfig) -> Sample:
        """Return an action by raw [..., R] and its noise."""

    def mode(self, raw: Array, variant: TracedConfig) -> Array:
        """Return the action without exploration."""

    def log_prob(self, raw: Array, x: Array, variant: TracedConfig) -> Array:
        """Return the log density [...] of an x."""

    def perturbed(self, raw: Array, key: Array, variant: TracedConfig) -> Array:
        """Return raw for the loss, by default unchanged."""
        return raw

    def entropy(self, raw: Array, key: Array, variant: TracedConfig) -> Array:
        """Return the entropy [B] of the bonus; key: for the noise of an estimate."""

    def kl(self, old: Array, new: Array, variant: TracedConfig, offset: float = 0.0) -> Array:
        """Return the mean of KL(old, new), a scalar; offset: added in the logarithm, as in Brax."""


def mean_and_std(raw: Array, variant: TracedConfig) -> tuple[Array, Array]:
    """Return mean and std [..., A] of the normal distribution of x, by raw [..., 2A]."""
    mean, spread = jnp.split(raw, 2, axis=-1)
    std = apply("policy_std", variant, head=spread, parameter=spread, feature_variance=spread)
    return mean, std


def drawn(mean: Array, std: Array, x: Array, variant: TracedConfig) -> Drawn:
    """Return the action of x [..., A], and the log density of x."""
    result: Drawn = apply("action_distribution", variant, mean=mean, std=std, x=x)
    return result


def entropy_noise(key: Array, shape: tuple[int, ...]) -> Array:
    """Draw standard normal noise, for one estimate of the entropy."""
    return jax.random.normal(key, shape)


@dataclass(frozen=True)
class Normal(Distribution):
    """x = μ + σ·noise in each dimension; raw: means, then the input of policy_std.

    spread: the name of that input.
    """

    dimensions: int
    spread: str = "head"

    @property
    def outputs(self) -> Outputs:
        made_of = {
            "parameter": (self.dimensions, self.dimensions),
            "feature_variance": (self.dimensions, 0, self.dimensions),
        }
        return Outputs(*made_of.get(self.spread, (2 * self.dimensions,)))

    def noise(self, key: Array, shape: tuple[int, ...]) -> Array:
        return jax.random.normal(key, (*shape, self.dimensions))

    def sample(self, raw: Array, noise: Array, variant: TracedConfig) -> Sample:
        mean, std = mean_and_std(raw, variant)
        x = mean + std * noise
        action, log_prob, _ = drawn(mean, std, x, variant)
        return Sample(x, action, log_prob)

    def mode(self, raw: Array, variant: TracedConfig) -> Array:
        mean, std = mean_and_std(raw, variant)
        return drawn(mean, std, mean, variant).action

    def log_prob(self, raw: Array, x: Array, variant: TracedConfig) -> Array:
        return drawn(*mean_and_std(raw, variant), x, variant).log_prob

    def perturbed(self, raw: Array, key: Array, variant: TracedConfig) -> Array:
        def displaced() -> Array:
            mean, spread = jnp.split(raw, 2, axis=-1)
            noise = jax.random.uniform(jax.random.fold_in(key, 2), mean.shape)
            mean = apply("mean_perturbation", variant, mean=mean, noise=noise)
            return jnp.concatenate([mean, spread], axis=-1)

        return switch("mean_perturbation", variant, {"none": lambda: raw, "uniform": displaced})

    def entropy(self, raw: Array, key: Array, variant: TracedConfig) -> Array:
        mean, std = (x.reshape(-1, x.shape[-1]) for x in mean_and_std(raw, variant))
        estimate: Array = apply(
            "entropy_estimate",
            variant,
            mean=mean,
            std=std,
            noise=_noise_where_read(key, mean.shape, variant),
            log_slope=lambda x: drawn(mean, std, x, variant).log_slope,
        )
        return estimate

    def kl(self, old: Array, new: Array, variant: TracedConfig, offset: float = 0.0) -> Array:
        """Mean of Σ log(σ'/σ + offset) + (σ² + (μ - μ')²)/2σ'² - ½, a scalar."""
        old_mean, old_std = mean_and_std(old, variant)
        mean, std = mean_and_std(new, variant)
        moved = jnp.square(old_std) + jnp.square(old_mean - mean)
        each = jnp.log(std / old_std + offset) + moved / (2.0 * jnp.square(std)) - 0.5
        return jnp.mean(jnp.sum(each, axis=-1))


def _noise_where_read(key: Array, shape: tuple[int, ...], variant: TracedConfig) -> Array:
    """Draw the noise of an entropy estimate; zeros for a choice that reads none."""
    axis = variants.axis("entropy_estimate")
    branches = {
        name: (lambda: entropy_noise(key, shape))
        if "noise" in choice.inputs
        else (lambda: jnp.zeros(shape))
        for name, choice in axis.items()
    }
    return switch(axis.name, variant, branches)


@dataclass(frozen=True)
class Parametric(Distribution):
    """Vectors of numbers, by a choice of action_distribution that reads the outputs.

    The network has two outputs per number. The noise is a random key per action.
    """

    dimensions: int

    @property
    def outputs(self) -> Outputs:
        return Outputs(2 * self.dimensions)

    def noise(self, key: Array, shape: tuple[int, ...]) -> Array:
        return jax.random.split(key, shape)

    def sample(self, raw: Array, noise: Array, variant: TracedConfig) -> Sample:
        def draw(raw: Array, key: Array) -> Array:
            return _by_choice(raw, variant).sample(key)

        for _ in noise.shape:
            draw = jax.vmap(draw)
        made, x = _by_choice(raw, variant), draw(raw, noise)
        return Sample(x, made.action(x), made.log_prob(x))

    def mode(self, raw: Array, variant: TracedConfig) -> Array:
        made = _by_choice(raw, variant)
        return made.action(made.mode())

    def log_prob(self, raw: Array, x: Array, variant: TracedConfig) -> Array:
        return _by_choice(raw, variant).log_prob(x)

    def entropy(self, raw: Array, key: Array, variant: TracedConfig) -> Array:
        return _by_choice(raw, variant).entropy().reshape(-1)

    def kl(self, old: Array, new: Array, variant: TracedConfig, offset: float = 0.0) -> Array:
        """Mean of KL(old, new), a scalar; the offset is ignored."""
        return jnp.mean(_by_choice(old, variant).kl(_by_choice(new, variant)))


def _by_choice(raw: Array, variant: TracedConfig) -> variants.action_distribution.Distribution:
    """Return the distribution of outputs [..., 2A] by action_distribution."""
    made: variants.action_distribution.Distribution = apply(
        "action_distribution", variant, outputs=raw
    )
    return made


@dataclass(frozen=True)
class Categorical(Distribution):
    """One of `count` actions by logits [..., count]; x is its index, int32 [...].

    π(a) = softmax(logits)[a]. The draw is argmax(logits + g) with Gumbel noise g (Maddison et al.
    2014), which does not depend on the policy.
    """

    count: int
    dimensions: int = 1

    @property
    def outputs(self) -> Outputs:
        return Outputs(self.count)

    def noise(self, key: Array, shape: tuple[int, ...]) -> Array:
        return jax.random.gumbel(key, (*shape, self.count))

    def sample(self, raw: Array, noise: Array, variant: TracedConfig) -> Sample:
        action = self.mode(raw + noise, variant)
        return Sample(action, action, self.log_prob(raw, action, variant))

    def mode(self, raw: Array, variant: TracedConfig) -> Array:
        return jnp.argmax(raw, axis=-1).astype(jnp.int32)

    def log_prob(self, raw: Array, x: Array, variant: TracedConfig) -> Array:
        # A sum instead of a gather, whose gradient would be a scatter.
        chosen = jax.nn.one_hot(x, self.count, dtype=raw.dtype)
        return jnp.sum(jax.nn.log_softmax(raw) * chosen, axis=-1)

    def entropy(self, raw: Array, key: Array, variant: TracedConfig) -> Array:
        log_probs = jax.nn.log_softmax(raw.reshape(-1, self.count))
        return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)

    def kl(self, old: Array, new: Array, variant: TracedConfig, offset: float = 0.0) -> Array:
        """Mean of Σ π log(π/π'), a scalar; the offset is ignored."""
        old_log, new_log = jax.nn.log_softmax(old), jax.nn.log_softmax(new)
        return jnp.mean(jnp.sum(jnp.exp(old_log) * (old_log - new_log), axis=-1))


def brax_kl(distribution: Distribution, old: Array, new: Array, variant: TracedConfig) -> Array:
    """Return Brax's divergence, a scalar, if learning_rate_schedule reads it, else NaN.

    In a branch of its own it costs other choices nothing and does not change their rounding.
    """
    axis = "learning_rate_schedule"
    branches = dict.fromkeys(variants.axis(axis), lambda: jnp.asarray(jnp.nan, jnp.float32))
    branches["adaptive_offset_kl"] = lambda: distribution.kl(old, new, variant, BRAX_KL_OFFSET)
    return switch(axis, variant, branches)


def unshaped(task: Task, choice: str) -> dict[str, str]:
    """Return the axes without an effect on a task's actions; choice: of action_distribution."""
    of_normals = ("entropy_estimate", "mean_perturbation", "policy_std")
    if task.discrete:
        return dict.fromkeys(
            ("action_distribution", *of_normals),
            f"actions of {task.name} are whole numbers, drawn from a softmax of logits",
        )
    if "outputs" in variants.axis("action_distribution")[choice].inputs:
        return dict.fromkeys(of_normals, f"action_distribution={choice} has no normal to shape")
    return {}


def distribution_of(actions: Actions, fixed: Mapping[str, str]) -> Distribution:
    """Return the distribution over these actions; fixed: axis -> compiled-in choice."""
    if isinstance(actions, Discrete):
        return Categorical(actions.choices)
    assert isinstance(actions, Box)
    if "outputs" in variants.axis("action_distribution")[fixed["action_distribution"]].inputs:
        return Parametric(actions.size)
    std = variants.axis("policy_std")[fixed["policy_std"]]
    (spread,) = std.inputs
    return Normal(actions.size, spread)
