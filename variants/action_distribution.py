# ruff: noqa: RUF001  # the formulas are in Greek
"""The distribution that the policy draws from, and how its draws become actions. A structural axis.

Shapes: mean, std and x are [..., A]; x is drawn, stored and scored.

Choices that read mean, std and x draw x ~ Normal(mean, std²) per dimension. They return `Drawn`:
the action [..., A] for the environment, the log density [...] of x, and log |da/dx| [..., A]. The
entropy of the action is the entropy of x plus the mean of log |da/dx|. The log density leaves the
slope out, because it cancels in the ratio of the new and the old policy.

A choice that reads the policy's outputs [..., 2A] returns a `Distribution`. policy_std,
entropy_estimate and mean_perturbation are then not read.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from variants.registry import Axis
from variants.shapes import Array, floats, require_equal_shapes


class Drawn(NamedTuple):
    """action, log_slope: [..., A]. log_prob: [...]."""

    action: Array
    log_prob: Array
    log_slope: Array


class Distribution(Protocol):
    """A distribution of x [..., A] with its parameters, a pytree of arrays [..., A]."""

    def sample(self, key: Array) -> Array:
        """Draw x [A], of parameters [A]."""

    def action(self, x: Array) -> Array:
        """Return the action [..., A] that the environment gets for x."""

    def mode(self) -> Array:
        """Return the x [..., A] of a policy that does not explore."""

    def log_prob(self, x: Array) -> Array:
        """Return the log density [...] of x."""

    def entropy(self) -> Array:
        """Return the entropy [...] that the policy is rewarded for."""

    def kl(self, other: Distribution) -> Array:
        """Return KL(self, other) [...] for another of the same kind."""


AXIS = Axis(
    "action_distribution",
    summary="what the policy draws, and how it becomes an action",
    inputs={"mean": floats(6, 2), "std": floats(6, 2), "x": floats(6, 2), "outputs": floats(6, 4)},
    defaults={"mean": None, "std": None, "x": None, "outputs": None},
    structural=True,
)


def normal_log_prob(mean: Array, std: Array, x: Array) -> Array:
    """Log density [...] of x [..., A] under Normal(mean, std²), summed over the dimensions."""
    normal = -0.5 * jnp.square((x - mean) / std) - 0.5 * jnp.log(2.0 * jnp.pi) - jnp.log(std)
    return jnp.sum(normal, axis=-1)


def log_tanh_slope(x: Array) -> Array:
    """log(1 - tanh²x) = 2(log 2 - x - log(1 + exp(-2x))), without cancellation; any shape."""
    return 2.0 * (math.log(2.0) - x - jax.nn.softplus(-2.0 * x))


@AXIS.choice(
    "tanh_normal",
    formula="a = tanh(x),  x ~ N(μ, σ²);  x is stored",
    source="Brax (brax/training/distribution.py); Haarnoja et al. 2018",
    summary="bounded actions; what is stored lies before the tanh, where nothing saturates",
)
def tanh_normal(*, mean: Array, std: Array, x: Array) -> Drawn:
    require_equal_shapes(mean=mean, x=x)
    return Drawn(jnp.tanh(x), normal_log_prob(mean, std, x), log_tanh_slope(x))


NEARLY_ONE = 1.0 - 1e-6


@AXIS.choice(
    "tanh_normal_inverted",
    formula=(
        "a = clip(tanh(x), -b, b),  x ~ N(μ, σ²),  b = 1 - 10⁻⁶\n"
        "a is stored, and scored at atanh(a)"
    ),
    source="TorchRL (torchrl/modules/distributions/continuous.py, TanhNormal)",
    summary="tanh_normal that keeps the action: where it saturates, x comes back rounded",
)
def tanh_normal_inverted(*, mean: Array, std: Array, x: Array) -> Drawn:
    """In float32, |atanh(a)| is at most 7.25."""
    action = jnp.clip(jnp.tanh(x), -NEARLY_ONE, NEARLY_ONE)
    return tanh_normal(mean=mean, std=std, x=jnp.arctanh(action))._replace(action=action)


@AXIS.choice(
    "normal",
    formula="a = clip(x, -1, 1),  x ~ N(μ, σ²);  x is stored",
    source="CleanRL, Stable-Baselines3, PureJaxRL, Rejax",
    summary="the environment clips; the policy ignores the bounds",
)
def normal(*, mean: Array, std: Array, x: Array) -> Drawn:
    require_equal_shapes(mean=mean, x=x)
    return Drawn(jnp.clip(x, -1.0, 1.0), normal_log_prob(mean, std, x), jnp.zeros_like(x))


@AXIS.choice(
    "normal_unclipped",
    formula="a = x,  x ~ N(μ, σ²)",
    source="RSL-RL, unless clip_actions is set",
    summary="the environment gets the draw itself, even outside its bounds",
)
def normal_unclipped(*, mean: Array, std: Array, x: Array) -> Drawn:
    return normal(mean=mean, std=std, x=x)._replace(action=x)


EDGE = 1e-6  # from 0 and 1, where log densities are infinite


class Beta(NamedTuple):
    """x ~ Beta(α, β) per dimension, and a = 2x - 1; alpha and beta: [..., A]."""

    alpha: Array
    beta: Array

    def sample(self, key: Array) -> Array:
        """x, at least `EDGE` away from 0 and 1."""
        return jnp.clip(jax.random.beta(key, self.alpha, self.beta), EDGE, 1.0 - EDGE)

    def action(self, x: Array) -> Array:
        """2x - 1."""
        return 2.0 * x - 1.0

    def mode(self) -> Array:
        """(α-1)/(α+β-2); ½ where all x are as likely."""
        above, below = self.alpha - 1.0, self.beta - 1.0
        flat = above + below <= 0.0
        return jnp.where(flat, 0.5, above / jnp.where(flat, 1.0, above + below))

    def log_prob(self, x: Array) -> Array:
        """Σ_a (α-1)·log x + (β-1)·log(1-x) - log B(α, β)."""
        require_equal_shapes(alpha=self.alpha, x=x)
        terms = (self.alpha - 1.0) * jnp.log(x) + (self.beta - 1.0) * jnp.log1p(-x)
        return jnp.sum(terms - jax.scipy.special.betaln(self.alpha, self.beta), axis=-1)

    def entropy(self) -> Array:
        """The entropy of the action: the entropy of x plus log 2, from da/dx = 2."""
        a, b = self
        psi = jax.scipy.special.digamma
        terms = (a + b - 2.0) * psi(a + b) - (a - 1.0) * psi(a) - (b - 1.0) * psi(b)
        return jnp.sum(jax.scipy.special.betaln(a, b) + terms + math.log(2.0), axis=-1)

    def kl(self, other: Beta) -> Array:
        """Σ_a log(B(α', β')/B(α, β)) + (α-α')ψ(α) + (β-β')ψ(β) + (α'-α+β'-β)ψ(α+β)."""
        (a, b), (c, d) = self, other
        psi, betaln = jax.scipy.special.digamma, jax.scipy.special.betaln
        terms = (a - c) * psi(a) + (b - d) * psi(b) + (c - a + d - b) * psi(a + b)
        return jnp.sum(betaln(c, d) - betaln(a, b) + terms, axis=-1)


@AXIS.choice(
    "beta",
    formula=(
        "a = 2x - 1,  x ~ Beta(α, β),  α = 1 + log(1 + exp(h₁)),  β = 1 + log(1 + exp(h₂));"
        "  x is stored\n"
        "entropy: Σ_a log 2B(α,β) - (α-1)ψ(α) - (β-1)ψ(β) + (α+β-2)ψ(α+β),  ψ = (log Γ)′"
    ),
    source="Chou, Maturana & Scherer 2017",
    summary="bounded by itself: nothing is clipped or saturates, and the density has one mode",
)
def beta(*, outputs: Array) -> Beta:
    """α and β are above 1, so that the density is 0 at both bounds."""
    alpha, beta = jnp.split(1.0 + jax.nn.softplus(outputs), 2, axis=-1)
    return Beta(alpha, beta)
