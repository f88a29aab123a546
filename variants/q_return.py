# ruff: noqa: RUF001  # the formulas are in Greek
"""Return in the target of a Q value: how many rewards are added before a maximum of Q.

Shapes: rewards, termination, truncation and the output are [T, N] (time, parallel environments). In
the formulas, at each time t:

    d, z   1.0 if this step terminated the episode, or truncated it by a time limit, else 0.0
    V'     max over a of Q(s', a), of the true next observation s', before any reset
    S'     max over a of Q at the observation that the policy sees next: after an end, the reset's
    γ, λ   discount, q_lambda
    X⁺     X at time t+1; X⁻ at t-1
    G      the target

next_values, seen_values and greedy are functions without arguments, called only by choices that
read them. They return V', S', and whether Q would take the same action, each [T, N]. V' may be NaN
where d = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.advantage import DISCOUNT
from variants.registry import Axis, Number
from variants.rules import inert_where
from variants.shapes import Array, Scalar, floats, require_equal_shapes

Values = Callable[[], Array]


AXIS = Axis(
    "q_return",
    summary="how far rewards are added up in the target of a Q value",
    inputs={
        "rewards": floats(5, 3),
        "termination": floats(5, 3),
        "truncation": floats(5, 3),
        "next_values": lambda: 0.0,
        "seen_values": lambda: 0.0,
        "greedy": lambda: True,
    },
    numbers={
        "discount": DISCOUNT,
        "q_lambda": Number(0.65, 0.0, 1.0, "λ of q_return: 0 adds one reward, 1 all there are"),
    },
)


class Steps(NamedTuple):
    """Inputs that every choice reads: arrays [T, N], the function of V', and scalars."""

    rewards: Array
    termination: Array
    truncation: Array
    next_values: Values
    discount: Scalar
    q_lambda: Scalar

    def ahead(self) -> Array:
        """Return V' [T, N]. Raise ValueError for arrays of different shapes."""
        require_equal_shapes(
            rewards=self.rewards, termination=self.termination, truncation=self.truncation
        )
        return jnp.broadcast_to(self.next_values(), self.rewards.shape)


def _backwards(steps: Steps, ahead: Array, going: Array, kept: Array | None = None) -> Array:
    """G = r + γ·going·((1-κ)·ahead + κG⁺) from the last step to the first; all [T, N].

    κ is `kept`, by default λ. After the last step G⁺ is `ahead`.
    """
    kept = jnp.full_like(steps.rewards, steps.q_lambda) if kept is None else kept
    ahead = jnp.where(going > 0, ahead, 0.0)  # it may be NaN after a termination

    def step(later: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        reward, value, goes, share = now
        target = reward + steps.discount * goes * (value + share * (later - value))
        return target, target

    _, targets = jax.lax.scan(step, ahead[-1], (steps.rewards, ahead, going, kept), reverse=True)
    return jnp.asarray(targets)


def _bootstrapped(steps: Steps, kept: Array) -> Array:
    """G with V' behind every step, and κ = kept, or 0 where a truncation ends the sum."""
    return _backwards(steps, steps.ahead(), 1 - steps.termination, kept * (1 - steps.truncation))


@AXIS.choice(
    "peng",
    pack=Steps,
    formula=(
        "G = r + γ(1-d)·((1-λ)V' + λG⁺),  γ(1-d)V' behind r where z = 1 and after the last step"
    ),
    source=(
        "Peng & Williams 1994; PQN as its paper has it (Gallici et al. 2025, "
        "https://arxiv.org/abs/2407.04811)"
    ),
    summary="rewards of all actions, mixed with the maximum at each step",
)
def peng(steps: Steps) -> Array:
    return _bootstrapped(steps, jnp.full_like(steps.rewards, steps.q_lambda))


@AXIS.choice(
    "watkins",
    pack=Steps,
    formula="peng,  its λ 0 at a step after which another action was taken than the one of V'",
    source="Watkins 1989; Sutton & Barto 2018, section 12.10",
    summary="rewards are added up only along actions that Q itself would take",
)
def watkins(steps: Steps, *, greedy: Values) -> Array:
    """Cut Peng's sum before the first action that explores; the last step always bootstraps."""
    followed = jnp.broadcast_to(greedy(), steps.rewards.shape).astype(steps.rewards.dtype)
    kept = steps.q_lambda * jnp.concatenate([followed[1:], jnp.ones_like(followed[:1])])
    return _bootstrapped(steps, kept)


def _twice_the_last(ahead: Array, ended: Array) -> Array:
    """Copy the last row of `ahead` [T, N], 0 where an episode ended, to the last but one."""
    last = jnp.where(ended[-1:] > 0, 0.0, ahead[-1:])
    return jnp.concatenate([ahead[:-2], last, ahead[-1:]])[-len(ahead) :]


@AXIS.choice(
    "purejaxql",
    pack=Steps,
    formula=(
        "peng with d = 1 where z = 1;  at the last step but one of a rollout its V' is that of the "
        "last, V'⁺(1-d⁺)"
    ),
    source=(
        "the code of PQN's authors (purejaxql/pqn_gymnax.py and pqn_minatar.py at 47af6d7, "
        "_get_target), which starts its loop with one value for two steps"
    ),
    summary="a time limit counts as a termination; a slip at one step of each rollout",
)
def purejaxql(steps: Steps) -> Array:
    ended = jnp.maximum(steps.termination, steps.truncation)
    return _backwards(steps, _twice_the_last(steps.ahead(), ended), 1 - ended)


@AXIS.choice(
    "rejax",
    pack=Steps,
    formula=(
        "peng with d = 1 where z = 1;  at every step its V' is S'⁺, one step late, at the last but "
        "one V'⁺(1-d⁺), at the last V'"
    ),
    source="Rejax 0.1.3 (src/rejax/algos/pqn.py, calculate_targets)",
    summary="the maximum comes from one step later, even after a reset",
)
def rejax(steps: Steps, *, seen_values: Values) -> Array:
    ended = jnp.maximum(steps.termination, steps.truncation)
    seen, last = jnp.broadcast_to(seen_values(), ended.shape), steps.ahead()
    late = jnp.concatenate([seen[1:-1], seen[:1], last[-1:]])[-len(seen) :]
    return _backwards(steps, _twice_the_last(late, ended), 1 - ended)


@inert_where("q_return={q_return} treats every end as a termination", "q_truncation")
def libraries_take_time_limits_for_ends(*, q_return: str, q_truncation: str) -> bool:
    return q_return in ("purejaxql", "rejax")
