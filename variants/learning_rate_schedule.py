# ruff: noqa: RUF001  # the formulas are in Greek
"""The step size over training. A stateful axis, called before every gradient step.

All inputs and the output are scalars. learning_rate: α, the first rate. progress: p, the share of
the training that is done, 0 at the first iteration. step_progress: the same share counted in
gradient steps. approximate_kl: KL(π_old, π) on the minibatch before its step, estimated from its
actions. exact_kl: the same in closed form. offset_kl: the same with 10⁻⁵ inside its logarithm.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.rules import WHERE, conflict_where, inert, on_policy
from variants.shapes import Array, Scalar, floats


class Rate(NamedTuple):
    """current: float32 scalar, the rate of the last step; only adaptive choices change it."""

    current: Array


def init(*, learning_rate: Scalar) -> Rate:
    """Return the state before the first step."""
    return Rate(jnp.asarray(learning_rate, jnp.float32))


# The divergence of a policy from itself, computed with sums in another order.
ROUNDING = 1e-6

ADAPTIVE = {
    "desired_kl": Number(
        0.01, 1e-8, 1e3, "divergence per batch that learning_rate_schedule=adaptive_kl aims at"
    ),
    "learning_rate_low": Number(1e-5, 0.0, 1.0, "lowest rate of adaptive_kl"),
    "learning_rate_high": Number(1e-2, 0.0, 1.0, "highest rate of adaptive_kl"),
    "learning_rate_factor": Number(
        1.5, 1.0, 1e3, "f of adaptive_kl: by what the rate rises or falls in one step"
    ),
}


class Adaptive(NamedTuple):
    """The numbers of every adaptive choice."""

    desired_kl: Scalar
    learning_rate_low: Scalar
    learning_rate_high: Scalar
    learning_rate_factor: Scalar

    def changed(self, rate: Array, kl: Array) -> Array:
        """The rate after a step with this divergence."""
        slower = jnp.maximum(rate / self.learning_rate_factor, self.learning_rate_low)
        faster = jnp.minimum(rate * self.learning_rate_factor, self.learning_rate_high)
        return jnp.where(
            kl > 2 * self.desired_kl, slower, jnp.where(kl < self.desired_kl / 2, faster, rate)
        )


AXIS = Axis(
    "learning_rate_schedule",
    summary="the step size over training",
    init=init,
    init_inputs={"learning_rate": floats()},
    inputs={
        "learning_rate": floats(),
        "progress": floats(),
        "approximate_kl": floats(),
        "step_progress": floats(),
        "exact_kl": floats(),
        "offset_kl": floats(),
    },
    # For trainers without old distributions; a rule below refuses choices that read them.
    defaults={"exact_kl": jnp.nan, "offset_kl": jnp.nan},
)


@AXIS.choice(
    "constant",
    formula="α",
    source="Brax, Stable-Baselines3, TorchRL by default",
    summary="the same from first to last",
)
def constant(state: Rate, *, learning_rate: Array) -> tuple[Rate, Array]:
    return state, learning_rate


@AXIS.choice(
    "linear",
    formula="α(1 - p)",
    source="CleanRL (anneal_lr), OpenAI Baselines, PureJaxRL, TorchRL's MuJoCo recipe",
    summary="falls in a straight line to 0 at the end of training",
)
def linear(state: Rate, *, learning_rate: Array, progress: Array) -> tuple[Rate, Array]:
    return state, learning_rate * (1 - jnp.clip(progress, 0, 1))


@AXIS.choice(
    "linear_per_step",
    formula="α(1 - k/K),  k gradient steps done of K in all",
    source="TorchRL's MuJoCo recipe (sota-implementations/ppo/ppo_mujoco.py)",
    summary="linear, falling at every gradient step instead of once per batch",
)
def linear_per_step(
    state: Rate, *, learning_rate: Array, step_progress: Array
) -> tuple[Rate, Array]:
    return state, learning_rate * (1 - jnp.clip(step_progress, 0, 1))


@AXIS.choice(
    "cosine",
    formula="½α(1 + cos(πk/K)),  k gradient steps done of K in all",
    source=(
        "SGDR without restarts (Loshchilov & Hutter 2017, https://arxiv.org/abs/1608.03983); TRL "
        "and verl when set (cosine)"
    ),
    summary="stays high for long, falls fast in the middle, ends at 0 gently; at every step",
)
def cosine(state: Rate, *, learning_rate: Array, step_progress: Array) -> tuple[Rate, Array]:
    return state, 0.5 * learning_rate * (1 + jnp.cos(jnp.pi * jnp.clip(step_progress, 0, 1)))


@AXIS.choice(
    "adaptive_kl",
    pack=Adaptive,
    formula=(
        "from α on:  max(rate/f, low)  where KL > 2·desired_kl\n"
        "min(f·rate, high)  where KL < ½·desired_kl,  rate elsewhere"
    ),
    source="RSL-RL before 5.0.0, with these defaults, of an estimate for its closed form",
    summary="steps grow while the policy hardly moves, and shrink when it moves too far",
    revision=2,
    numbers=ADAPTIVE,
)
def adaptive_kl(state: Rate, adaptive: Adaptive, *, approximate_kl: Array) -> tuple[Rate, Array]:
    """Change the rate of the last step; α is the rate before the first.

    The rate rises on the first minibatch of a batch, where the divergence is 0 up to rounding. NaN
    leaves the rate unchanged.
    """
    rate = adaptive.changed(state.current, approximate_kl)
    return Rate(rate), rate


@AXIS.choice(
    "adaptive_exact_kl",
    pack=Adaptive,
    formula="adaptive_kl of KL(π_old, π) in closed form; a divergence of 0 changes nothing",
    source="RSL-RL since 5.0.0 (rsl_rl/algorithms/ppo.py, schedule='adaptive')",
    summary="adaptive_kl without noise; a batch's first step, where KL = 0, keeps the rate",
    numbers=ADAPTIVE,
)
def adaptive_exact_kl(state: Rate, adaptive: Adaptive, *, exact_kl: Array) -> tuple[Rate, Array]:
    changed = adaptive.changed(state.current, exact_kl)
    rate = jnp.where(exact_kl > ROUNDING, changed, state.current)
    return Rate(rate), rate


@AXIS.choice(
    "adaptive_offset_kl",
    pack=Adaptive,
    formula="adaptive_kl of Σ log(σ'/σ + 10⁻⁵) + (σ² + (μ - μ')²)/2σ'² - ½;  not above 0: as it is",
    source="Brax when set (ADAPTIVE_KL; training/distribution.py, agents/ppo/optimizer.py)",
    summary="adaptive_kl without noise; on a batch's first step KL is 10⁻⁵ a dimension: it grows",
    numbers=ADAPTIVE,
)
def adaptive_offset_kl(state: Rate, adaptive: Adaptive, *, offset_kl: Array) -> tuple[Rate, Array]:
    changed = adaptive.changed(state.current, offset_kl)
    rate = jnp.where(offset_kl > 0, changed, state.current)
    return Rate(rate), rate


@conflict_where(
    "learning_rate_schedule={learning_rate_schedule} needs the distributions of the policy "
    "that acted, of which the language trainer keeps the log densities of tokens alone: set "
    "learning_rate_schedule=adaptive_kl"
)
def tokens_keep_no_distribution(*, learning_rate_schedule: str, policy_loss_reduction: str) -> bool:
    return learning_rate_schedule in ("adaptive_exact_kl", "adaptive_offset_kl")


@conflict_where(
    "learning_rate_schedule=adaptive_offset_kl adds Brax's offset to a ratio of standard "
    "deviations, and a policy over whole actions has none: set "
    "learning_rate_schedule=adaptive_exact_kl"
)
def whole_actions_have_no_std(*, learning_rate_schedule: str, discrete: float = 0.0) -> bool:
    return learning_rate_schedule == "adaptive_offset_kl" and bool(discrete)


@inert
def the_divergence_is_zero(
    *,
    learning_rate_schedule: str,
    epochs: int,
    num_minibatches: int,
    observation_normalization: str = "none",
    mean_perturbation: str = "none",
) -> dict[str, str]:
    adaptive = {"adaptive_kl", "adaptive_exact_kl", "adaptive_offset_kl"}
    if mean_perturbation != "none":  # which an estimate from actions sees, a closed form does not
        adaptive.remove("adaptive_kl")
    if learning_rate_schedule not in adaptive or not on_policy(
        epochs, num_minibatches, observation_normalization
    ):
        return {}
    always = f"the divergence is always 0 {WHERE}, so {learning_rate_schedule} adapts to nothing"
    if learning_rate_schedule == "adaptive_exact_kl":
        return dict.fromkeys(["learning_rate_schedule", *ADAPTIVE], f"{always}: it stays")
    reason = f"{always}: it only rises"
    return dict.fromkeys(["learning_rate_schedule", "desired_kl", "learning_rate_low"], reason)
