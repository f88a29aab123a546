# ruff: noqa: RUF001  # the formulas are in Greek
"""The last layer of the critic, and its loss: a structural axis.

Shapes: outputs [..., K] of the last layer; targets [...] in units of value_normalization. The
result is the value and the loss of each sample, both [...]. value_range R bounds the bins.
value_coefficient multiplies the mean loss; only the loss of `scalar` is a squared error.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.registry import Axis, Number, axis
from variants.rules import conflict_where, inert
from variants.shapes import Array, Scalar, floats

_OPTIONS = ("value_outputs", "value_range")
_OF_BINS = ("hl_gauss", "two_hot")

AXIS = Axis(
    "critic_head",
    summary="what the critic's last layer answers, and how it learns a target",
    inputs={"outputs": floats(6, 5), "targets": floats(6), "value_range": 10.0},
    structural=True,
)


class Answer(NamedTuple):
    """value, loss: [...]."""

    value: Array
    loss: Array


def _cross_entropy(outputs: Array, shares: Array, centres: Array) -> Answer:
    """Return Σ p·z and -Σ q log p, with p the softmax of outputs [..., K] and shares q [..., K]."""
    value = jnp.sum(jax.nn.softmax(outputs) * centres, axis=-1)
    return Answer(value, -jnp.sum(shares * jax.nn.log_softmax(outputs), axis=-1))


@AXIS.choice(
    "scalar",
    formula="V = o,  of one output;  its loss is value_error under value_clip",
    source="every library's default of PPO",
    summary="one number, by regression",
)
def scalar(*, outputs: Array, targets: Array) -> Answer:
    """Return the output and its squared error; trainers use value_error instead of that."""
    return Answer(outputs[..., 0], jnp.square(outputs[..., 0] - targets))


@AXIS.choice(
    "quantiles",
    formula=(
        "V = mean of K outputs q;  loss = mean of |τ - 1[e < 0]|·huber(e),  e = target - q,\n"
        "τ = (i + ½)/K,  huber: ½e² where |e| ≤ κ, κ(|e| - ½κ) elsewhere;  κ = quantile_scale"
    ),
    source=(
        "QR-DQN (Dabney et al. 2018, https://arxiv.org/abs/1710.10044); Brax when set "
        "(use_distributional_critic, K = 32), whose targets are A + V of its advantages"
    ),
    summary="quantiles of the return, of which the value is the mean",
    numbers={"quantile_scale": Number(1.0, 1e-6, 1e6, "κ of critic_head=quantiles")},
)
def quantiles(*, outputs: Array, targets: Array, quantile_scale: Scalar) -> Answer:
    count = outputs.shape[-1]
    middle = (jnp.arange(count) + 0.5) / count
    error = targets[..., None] - outputs
    near = jnp.minimum(jnp.abs(error), quantile_scale)
    huber = 0.5 * jnp.square(near) + quantile_scale * (jnp.abs(error) - near)
    loss = jnp.mean(jnp.abs(middle - (error < 0)) * huber, axis=-1)
    return Answer(jnp.mean(outputs, axis=-1), loss)


@AXIS.choice(
    "hl_gauss",
    formula=(
        "V = Σ p·z,  p = softmax of K outputs, z the middles of K bins from -R to R\n"
        "loss = -Σ q·log p,  q the mass of normal(target, (s·2R/K)²) in each bin\n"
        "R = value_range,  s = value_smoothing"
    ),
    source="HL-Gauss (Imani & White 2018; Farebrother et al. 2024, https://arxiv.org/abs/2403.03950)",
    summary="a target is a smooth histogram, learned by classification; beyond ±R it counts as R",
    numbers={
        "value_smoothing": Number(
            0.75, 1e-3, 1e3, "s of critic_head=hl_gauss: σ of a target in widths of a bin"
        )
    },
)
def hl_gauss(
    *, outputs: Array, targets: Array, value_range: float, value_smoothing: Scalar
) -> Answer:
    """The normal around the target is cut at both ends and scaled to a sum of 1."""
    edges = jnp.linspace(-value_range, value_range, outputs.shape[-1] + 1)
    std = value_smoothing * 2.0 * value_range / outputs.shape[-1]
    centre = jnp.clip(targets, -value_range, value_range)[..., None]
    below = jax.scipy.special.erf((edges - centre) / (jnp.sqrt(2.0) * std))
    shares = jnp.diff(below, axis=-1) / (below[..., -1:] - below[..., :1])
    return _cross_entropy(outputs, shares, 0.5 * (edges[1:] + edges[:-1]))


@AXIS.choice(
    "two_hot",
    formula=(
        "V = Σ p·z,  p = softmax of K outputs, z from -R to R in equal steps,  R = value_range\n"
        "loss = -Σ q·log p,  q on the two z around the target, whose mean it is"
    ),
    source=(
        "MuZero (Schrittwieser et al. 2020, appendix F), DreamerV3 (Hafner et al. 2023, beside "
        "value_normalization=symlog)"
    ),
    summary="as hl_gauss, without the smoothing: each target lies on two neighbours",
)
def two_hot(*, outputs: Array, targets: Array, value_range: float) -> Answer:
    centres = jnp.linspace(-value_range, value_range, outputs.shape[-1])
    width = 2.0 * value_range / (outputs.shape[-1] - 1)
    centre = jnp.clip(targets, -value_range, value_range)[..., None]
    shares = jnp.maximum(1.0 - jnp.abs(centres - centre) / width, 0.0)
    return _cross_entropy(outputs, shares, centres)


@conflict_where(
    "value_clip={value_clip} moves one number, and critic_head={critic_head} answers a "
    "distribution: set value_clip=none"
)
def a_distribution_is_not_clipped(*, critic_head: str, value_clip: str) -> bool:
    return critic_head != "scalar" and value_clip != "none"


@conflict_where(
    "value_normalization=popart rescales values in the last layer, and "
    "critic_head={critic_head} has bins there: set value_normalization=running"
)
def bins_are_not_rescaled(*, critic_head: str, value_normalization: str) -> bool:
    return critic_head in _OF_BINS and value_normalization == "popart"


@inert
def a_scalar_has_one_output(*, critic_head: str) -> dict[str, str]:
    unread = _OPTIONS if critic_head == "scalar" else _OPTIONS[1:]
    if critic_head in _OF_BINS:
        return {}
    return dict.fromkeys(unread, f"critic_head={critic_head} has no bins")


@inert
def a_distribution_has_a_loss_of_its_own(*, critic_head: str) -> dict[str, str]:
    if critic_head == "scalar":
        return {}
    names = ["value_error", *axis("value_error").known_numbers]
    return dict.fromkeys(names, f"critic_head={critic_head} has a loss of its own")
