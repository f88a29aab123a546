"""A gradient step, the same for every trainer: by Adam, unless another rule is compiled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

import variants
from ablations.trainers.choices import apply
from ablations.trainers.spec import number, static
from ablations.trainers.trainer import Array, Metrics, Scalar, TracedConfig, Tree


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """Hyperparameters of the optimiser, in every trainer.

    β₁ and β₂ are static, so that 1-β is rounded from double precision, as before β was a setting.
    """

    adam_epsilon: float = number(
        1e-8, 0.0, 1.0,
        "added to Adam's denominator; at 0, a gradient that stays exactly 0 gives NaN",
    )  # fmt: skip
    adam_beta1: float = static(
        0.9, "β₁ of Adam, how much of its mean gradient a step keeps", low=0.0, neutral=0.9
    )
    adam_beta2: float = static(
        0.999, "β₂ of Adam, how much of its mean squared gradient a step keeps", low=0.0,
        neutral=0.999,
    )  # fmt: skip


def complaints_of(structure: Mapping[str, Any]) -> list[str]:
    """Return complaints about the optimiser's static settings."""
    return [
        f"{name}={structure[name]:g} must be below 1: at 1 nothing is learned"
        for name in ("adam_beta1", "adam_beta2")
        if structure[name] >= 1
    ]


class Rule(NamedTuple):
    """The compiled part of a gradient step: choices of the axes in `OF_RULES`, β₁ and β₂."""

    optimizer: str = "adam"
    reset: str = "none"
    regularization: str = "none"
    beta1: float = 0.9
    beta2: float = 0.999
    warmup: str = "none"


ADAM = Rule()
OF_RULES = {
    "optimizer": "optimizer",
    "reset": "optimizer_reset",
    "regularization": "weight_regularization",
    "warmup": "learning_rate_warmup",
}


def rule_of(settings: StepSettings, fixed: Mapping[str, str]) -> Rule:
    """Return the rule of some settings; fixed: axis -> compiled-in choice."""
    chosen = {name: fixed[axis] for name, axis in OF_RULES.items() if axis in fixed}
    return Rule(beta1=settings.adam_beta1, beta2=settings.adam_beta2, **chosen)


class Learner(NamedTuple):
    """The state of gradient descent.

    schedule: state of learning_rate_schedule. began: int32, steps before this batch; None if Adam
    is not reset. initial: the initial parameters; None if no regularisation reads them.
    """

    parameters: Tree
    optimizer: optax.ScaleByAdamState | optax.ScaleByScheduleState
    schedule: Tree
    began: Array | None = None
    initial: Tree = None


def start(parameters: Tree, variant: TracedConfig, rule: Rule = ADAM) -> Learner:
    """Return the learner before the first step."""
    plain = optax.ScaleByScheduleState(jnp.int32(0))  # only counts
    return Learner(
        parameters=parameters,
        optimizer=plain if rule.optimizer == "sgd" else optax.scale_by_adam().init(parameters),
        schedule=variants.axis("learning_rate_schedule").init(
            learning_rate=variant.numbers["learning_rate"]
        ),
        # A copy, since a compiled chunk overwrites each array of its input once.
        initial=jax.tree.map(jnp.copy, parameters) if rule.regularization == "to_initial" else None,
    )


def begin(learner: Learner, rule: Rule) -> Learner:
    """Return the learner before its first step on a new batch."""
    adam = learner.optimizer
    if rule.reset == "none" or not isinstance(adam, optax.ScaleByAdamState):
        return learner
    if rule.reset == "batch_moments":
        adam = adam._replace(
            mu=jax.tree.map(jnp.zeros_like, adam.mu), nu=jax.tree.map(jnp.zeros_like, adam.nu)
        )
    return learner._replace(optimizer=adam, began=adam.count)


def end(learner: Learner) -> Learner:
    """Return the learner after its last step on a batch."""
    return learner._replace(began=None)


class Divergence(NamedTuple):
    """Divergences of the policy from the policy that acted, scalars for the schedule.

    exact, offset: NaN if the trainer does not compute them.
    """

    approximate: Array
    exact: Array | float = jnp.nan
    offset: Array | float = jnp.nan


def descend(
    learner: Learner,
    gradient: Tree,
    *,
    divergence: Divergence,
    progress: Array,
    steps: int,
    variant: TracedConfig,
    factors: Mapping[str, Scalar] | None = None,
    rule: Rule = ADAM,
) -> tuple[Learner, Metrics]:
    """Return the learner after one step, and metrics: norm of the gradient, learning rate.

    progress: share of the run that is done. steps: gradient steps per iteration. factors: outermost
        entry of the parameters -> factor on its learning rate.
    """
    taken = learner.optimizer.count.astype(jnp.float32)
    norm = optax.tree.norm(gradient)
    gradient = _pulled(gradient, learner, rule, variant)
    gradient = apply("gradient_clip", variant, gradients=gradient)
    direction, optimizer = _direction(gradient, learner, rule, variant)
    total = variant.iterations * steps
    shares = {"progress": progress, "step_progress": taken / total}
    if rule.warmup != "none":
        factor, *rest = apply("learning_rate_warmup", variant, taken=taken, total=total, **shares)
        shares = dict(zip(shares, rest, strict=True))
    schedule, rate = apply(
        "learning_rate_schedule",
        variant,
        learner.schedule,
        learning_rate=variant.numbers["learning_rate"],
        **shares,
        approximate_kl=divergence.approximate,
        exact_kl=divergence.exact,
        offset_kl=divergence.offset,
    )
    if rule.warmup != "none":
        rate = factor * rate
    if factors:
        direction = {
            name: jax.tree.map(lambda d, f=factors[name]: f * d, part) if name in factors else part
            for name, part in direction.items()
        }
    parameters = jax.tree.map(lambda p, d: p - rate * d, learner.parameters, direction)
    learner = learner._replace(parameters=parameters, optimizer=optimizer, schedule=schedule)
    return learner, {"gradient/norm": norm, "training/learning_rate": rate}


def _pulled(gradient: Tree, learner: Learner, rule: Rule, variant: TracedConfig) -> Tree:
    """Add the gradient of c ‖θ‖² or c ‖θ - θ₀‖², by weight_regularization."""
    if rule.regularization == "none":
        return gradient
    twice, pulled = 2.0 * variant.numbers["weight_l2"], learner.parameters
    if rule.regularization == "to_initial":
        pulled = jax.tree.map(jnp.subtract, pulled, learner.initial)
    return jax.tree.map(lambda g, w: g + twice * w, gradient, pulled)


def _direction(
    gradient: Tree, learner: Learner, rule: Rule, variant: TracedConfig
) -> tuple[Tree, optax.ScaleByAdamState | optax.ScaleByScheduleState]:
    """Return the direction of a step without its learning rate, and the next state."""
    state, began = learner.optimizer, learner.began
    if rule.optimizer == "sgd":
        return gradient, state._replace(count=optax.safe_increment(state.count))
    rescaled = optax.scale_by_radam if rule.optimizer == "radam" else optax.scale_by_adam
    adam = rescaled(rule.beta1, rule.beta2, eps=variant.numbers["adam_epsilon"])
    if began is not None:
        state = state._replace(count=state.count - began)
    direction, after = adam.update(gradient, state)
    if rule.optimizer == "adamw":
        decay = variant.numbers["weight_decay"]
        direction = jax.tree.map(lambda d, w: d + decay * w, direction, learner.parameters)
    return direction, after if began is None else after._replace(count=after.count + began)
