# ruff: noqa: D102  # `Distribution` documents the methods
"""The policy's distribution over actions, by the raw outputs of its network.

`Normal` is what the axes policy_std, action_distribution and entropy_estimate make of it,
`Parametric` what a choice of action_distribution alone does; `Categorical` has nothing to choose.
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
from ablations.trainers.trainer import TracedConfig
from variants.action_distribution import Drawn

BRAX_KL_OFFSET = 1e-5


class Sample(NamedTuple):
    """An action of the policy, as the learner keeps it and as the environment gets it.

    x: [..., A] or [...], what was drawn and is scored later. action: what became of it.
    log_prob: [...], the log density of x, or the log probability.
    """

    x: jax.Array
    action: jax.Array
    log_prob: jax.Array


class Distribution(Protocol):
    """A distribution over actions, by raw outputs [..., R] of the policy's network.

    Randomness is drawn ahead of a rollout, so that one seed gives every variant the same.
    """

    @property
    def outputs(self) -> Outputs:
        """The R outputs that the policy's network has."""

    @property
    def dimensions(self) -> int:
        """The numbers that an action has."""

    def noise(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Draw the noise of so many actions: [*shape, ...]."""

    def sample(self, raw: jax.Array, noise: jax.Array, variant: TracedConfig) -> Sample:
        """Return an action by raw [..., R] and noise [..., ...]."""

    def mode(self, raw: jax.Array, variant: TracedConfig) -> jax.Array:
        """Return the action that the policy takes where it does not explore."""

    def log_prob(self, raw: jax.Array, x: jax.Array, variant: TracedConfig) -> jax.Array:
        """Return the log density [...] of an x."""

    def perturbed(self, raw: jax.Array, key: jax.Array, variant: TracedConfig) -> jax.Array:
        """Return raw as the loss scores it: as it is, where no mean is displaced at random."""
        return raw

    def entropy(self, raw: jax.Array, key: jax.Array, variant: TracedConfig) -> jax.Array:
        """Return the entropy that the policy is rewarded for, [B]; key: of an estimate's noise."""

    def kl(
        self, old: jax.Array, new: jax.Array, variant: TracedConfig, offset: float = 0.0
    ) -> jax.Array:
        """Return the mean of KL(old, new), a scalar; offset: that of Brax's, in its logarithm."""


def mean_and_std(raw: jax.Array, variant: TracedConfig) -> tuple[jax.Array, jax.Array]:
    """Return mean and std [..., A] of the normal that x is drawn from, by a network's [..., 2A]."""
    mean, spread = jnp.split(raw, 2, axis=-1)
    std = apply("policy_std", variant, head=spread, parameter=spread, feature_variance=spread)
    return mean, std


def drawn(mean: jax.Array, std: jax.Array, x: jax.Array, variant: TracedConfig) -> Drawn:
    """Return what becomes of x [..., A]: the action, and the log density of x."""
    result: Drawn = apply("action_distribution", variant, mean=mean, std=std, x=x)
    return result


def entropy_noise(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Draw standard normal noise, for one estimate of the entropy."""
    return jax.random.normal(key, shape)


@dataclass(frozen=True)
class Normal(Distribution):
    """x = μ + σ·noise in each of `size` dimensions, raw: means, then what policy_std makes σ of.

    spread: the input of policy_std that the second half of raw is.
    """

    size: int
    spread: str = "head"

    @property
    def outputs(self) -> Outputs:
        made_of = {
            "parameter": (self.size, self.size),
            "feature_variance": (self.size, 0, self.size),
        }
        return Outputs(*made_of.get(self.spread, (2 * self.size,)))

    @property
    def dimensions(self) -> int:
        return self.size

    def noise(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return jax.random.normal(key, (*shape, self.size))

    def sample(self, raw: jax.Array, noise: jax.Array, variant: TracedConfig) -> Sample:
        mean, std = mean_and_std(raw, variant)
        x = mean + std * noise
        action, log_prob, _ = drawn(mean, std, x, variant)
        return Sample(x, action, log_prob)

    def mode(self, raw: jax.Array, variant: TracedConfig) -> jax.Array:
        mean, std = mean_and_std(raw, variant)
        return drawn(mean, std, mean, variant).action

    def log_prob(self, raw: jax.Array, x: jax.Array, variant: TracedConfig) -> jax.Array:
        return drawn(*mean_and_std(raw, variant), x, variant).log_prob

    def perturbed(self, raw: jax.Array, key: jax.Array, variant: TracedConfig) -> jax.Array:
        def displaced() -> jax.Array:
            mean, spread = jnp.split(raw, 2, axis=-1)
            noise = jax.random.uniform(jax.random.fold_in(key, 2), mean.shape)
            mean = apply("mean_perturbation", variant, mean=mean, noise=noise)
            return jnp.concatenate([mean, spread], axis=-1)

        return switch("mean_perturbation", variant, {"none": lambda: raw, "uniform": displaced})

    def entropy(self, raw: jax.Array, key: jax.Array, variant: TracedConfig) -> jax.Array:
        mean, std = (x.reshape(-1, x.shape[-1]) for x in mean_and_std(raw, variant))
        estimate: jax.Array = apply(
            "entropy_estimate",
            variant,
            mean=mean,
            std=std,
            noise=_noise_where_read(key, mean.shape, variant),
            log_slope=lambda x: drawn(mean, std, x, variant).log_slope,
        )
        return estimate

    def kl(
        self, old: jax.Array, new: jax.Array, variant: TracedConfig, offset: float = 0.0
    ) -> jax.Array:
        """Mean of KL(old, new) in closed form, a scalar; both raw [..., 2A].

        Σ log(σ'/σ + offset) + (σ² + (μ - μ')²)/2σ'² - ½, of x: what becomes of it changes no
        divergence.
        """
        old_mean, old_std = mean_and_std(old, variant)
        mean, std = mean_and_std(new, variant)
        moved = jnp.square(old_std) + jnp.square(old_mean - mean)
        each = jnp.log(std / old_std + offset) + moved / (2.0 * jnp.square(std)) - 0.5
        return jnp.mean(jnp.sum(each, axis=-1))


def _noise_where_read(key: jax.Array, shape: tuple[int, ...], variant: TracedConfig) -> jax.Array:
    """Draw the noise of an entropy estimate that reads some; zeros elsewhere."""
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
    """Vectors of `size` numbers, by a choice of action_distribution that reads the outputs.

    Two outputs for each number. Noise is a key for each action, which any distribution can draw by.
    """

    size: int

    @property
    def outputs(self) -> Outputs:
        return Outputs(2 * self.size)

    @property
    def dimensions(self) -> int:
        return self.size

    def noise(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return jax.random.split(key, shape)

    def sample(self, raw: jax.Array, noise: jax.Array, variant: TracedConfig) -> Sample:
        def draw(raw: jax.Array, key: jax.Array) -> jax.Array:
            return _by_choice(raw, variant).sample(key)

        for _ in noise.shape:
            draw = jax.vmap(draw)
        made, x = _by_choice(raw, variant), draw(raw, noise)
        return Sample(x, made.action(x), made.log_prob(x))

    def mode(self, raw: jax.Array, variant: TracedConfig) -> jax.Array:
        made = _by_choice(raw, variant)
        return made.action(made.mode())

    def log_prob(self, raw: jax.Array, x: jax.Array, variant: TracedConfig) -> jax.Array:
        return _by_choice(raw, variant).log_prob(x)

    def entropy(self, raw: jax.Array, key: jax.Array, variant: TracedConfig) -> jax.Array:
        return _by_choice(raw, variant).entropy().reshape(-1)

    def kl(
        self, old: jax.Array, new: jax.Array, variant: TracedConfig, offset: float = 0.0
    ) -> jax.Array:
        """Mean of KL(old, new), a scalar, whatever the offset: Brax's policies are normal."""
        return jnp.mean(_by_choice(old, variant).kl(_by_choice(new, variant)))


def _by_choice(raw: jax.Array, variant: TracedConfig) -> variants.action_distribution.Distribution:
    """Return the distribution that a choice of action_distribution makes of outputs [..., 2A]."""
    made: variants.action_distribution.Distribution = apply(
        "action_distribution", variant, outputs=raw
    )
    return made


@dataclass(frozen=True)
class Categorical(Distribution):
    """One of `count` actions, by their logits [..., count]: x is its number, int32 [...].

    π(a) = softmax(logits)[a]; a = argmax(logits + g), g of Gumbel's distribution (Maddison et al.
    2014), so that the noise does not depend on the policy.
    """

    count: int
    dimensions: int = 1

    @property
    def outputs(self) -> Outputs:
        return Outputs(self.count)

    def noise(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return jax.random.gumbel(key, (*shape, self.count))

    def sample(self, raw: jax.Array, noise: jax.Array, variant: TracedConfig) -> Sample:
        action = self.mode(raw + noise, variant)
        return Sample(action, action, self.log_prob(raw, action, variant))

    def mode(self, raw: jax.Array, variant: TracedConfig) -> jax.Array:
        return jnp.argmax(raw, axis=-1).astype(jnp.int32)

    def log_prob(self, raw: jax.Array, x: jax.Array, variant: TracedConfig) -> jax.Array:
        # A sum over all instead of a gather: its gradient is one, too, and not a scatter
        chosen = jax.nn.one_hot(x, self.count, dtype=raw.dtype)
        return jnp.sum(jax.nn.log_softmax(raw) * chosen, axis=-1)

    def entropy(self, raw: jax.Array, key: jax.Array, variant: TracedConfig) -> jax.Array:
        log_probs = jax.nn.log_softmax(raw.reshape(-1, self.count))
        return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)

    def kl(
        self, old: jax.Array, new: jax.Array, variant: TracedConfig, offset: float = 0.0
    ) -> jax.Array:
        """Mean of Σ π log(π/π'), a scalar, whatever the offset: Brax has no categorical policy."""
        old_log, new_log = jax.nn.log_softmax(old), jax.nn.log_softmax(new)
        return jnp.mean(jnp.sum(jnp.exp(old_log) * (old_log - new_log), axis=-1))


def brax_kl(
    distribution: Distribution, old: jax.Array, new: jax.Array, variant: TracedConfig
) -> jax.Array:
    """Return Brax's divergence where learning_rate_schedule reads it, else NaN; a scalar.

    A branch of its own: elsewhere it costs nothing, and does not change how other divergences are
    rounded.
    """
    axis = "learning_rate_schedule"
    branches = dict.fromkeys(variants.axis(axis), lambda: jnp.asarray(jnp.nan, jnp.float32))
    branches["adaptive_offset_kl"] = lambda: distribution.kl(old, new, variant, BRAX_KL_OFFSET)
    return switch(axis, variant, branches)


def unshaped(task: Task, choice: str) -> dict[str, str]:
    """Return the axes that shape no action on a task, and why; choice: of action_distribution."""
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
    """Return the distribution over these actions; fixed: axis -> the choice that is compiled in."""
    if isinstance(actions, Discrete):
        return Categorical(actions.choices)
    assert isinstance(actions, Box)
    if "outputs" in variants.axis("action_distribution")[fixed["action_distribution"]].inputs:
        return Parametric(actions.size)
    std = variants.axis("policy_std")[fixed["policy_std"]]
    (spread,) = std.inputs
    return Normal(actions.size, spread)
