# ruff: noqa: RUF001  # the formulas are in Greek
"""The target of a Q value: how far rewards are added up before a maximum of Q stands for the rest.

Shapes: rewards, termination, truncation and the output are [T, N] (time, parallel environments). In
the formulas, at each time t:

    d, z   1.0 where this step terminated, or truncated (by a time limit), the episode; else 0.0
    V'     max over a of Q(s', a), of the true next observation s', before any auto-reset
    S'     the same of what the policy sees next, which after an end is the reset
    γ, λ   discount, q_lambda
    X⁺     X at time t+1; X⁻ at t-1
    G      the target

next_values, seen_values and greedy are functions of nothing that return V', S', and where the
action taken is the one that the same Q would take, each [T, N]: only a choice that reads one has it
computed. V' is not read where d = 1, and may be NaN there.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from variants.advantage import DISCOUNT
from variants.choice import Number
from variants.registry import Axis, register
from variants.rules import inert_where
from variants.shapes import require_equal_shapes

Array = jax.Array
Values = Callable[[], Array]

_STEPS = jax.ShapeDtypeStruct((5, 3), jnp.float32)


def _nothing() -> float:
    """Return the value of a state after which no reward comes."""
    return 0.0


def _always() -> bool:
    """Return that Q would take the action."""
    return True


AXIS = register(
    Axis(
        "q_return",
        summary="how far rewards are added up in the target of a Q value",
        inputs={
            "rewards": _STEPS,
            "termination": _STEPS,
            "truncation": _STEPS,
            "next_values": _nothing,
            "seen_values": _nothing,
            "greedy": _always,
        },
        numbers={
            "discount": DISCOUNT,
            "q_lambda": Number(0.65, 0.0, 1.0, "λ of q_return: 0 adds one reward, 1 all there are"),
        },
    )
)


def _backwards(
    rewards: Array, ahead: Array, going: Array, kept: Array, discount: Array | float
) -> Array:
    """G = r + γ·going·((1-κ)·ahead + κG⁺) from the last step to the first, where κ is `kept`.

    All [T, N]; after the last step G⁺ is `ahead`, as nothing more was seen.
    """
    ahead = jnp.where(going > 0, ahead, 0.0)  # which may be NaN where nothing follows

    def step(later: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        reward, value, goes, share = now
        target = reward + discount * goes * (value + share * (later - value))
        return target, target

    _, targets = jax.lax.scan(step, ahead[-1], (rewards, ahead, going, kept), reverse=True)
    return jnp.asarray(targets)


def _bootstrapped(
    rewards: Array,
    termination: Array,
    truncation: Array,
    next_values: Values,
    discount: Array | float,
    kept: Array,
) -> Array:
    """G with V' behind every step, and κ = kept but where a truncation ends the sum."""
    require_equal_shapes(rewards=rewards, termination=termination, truncation=truncation)
    ahead = jnp.broadcast_to(next_values(), rewards.shape)
    return _backwards(rewards, ahead, 1 - termination, kept * (1 - truncation), discount)


@AXIS.choice(
    "peng",
    formula=(
        "G = r + γ(1-d)·((1-λ)V' + λG⁺),  γ(1-d)V' behind r where z = 1 and after the last step"
    ),
    source=(
        "Peng & Williams 1994; PQN as its paper has it (Gallici et al. 2025, "
        "https://arxiv.org/abs/2407.04811)"
    ),
    summary="rewards of whatever was done, mixed with the maximum at each step",
)
def peng(
    *,
    rewards: Array,
    termination: Array,
    truncation: Array,
    next_values: Values,
    discount: Array | float,
    q_lambda: Array | float,
) -> Array:
    """r + γ(1-d)((1-λ)V' + λG⁺)."""
    kept = jnp.full_like(rewards, q_lambda)
    return _bootstrapped(rewards, termination, truncation, next_values, discount, kept)


@AXIS.choice(
    "watkins",
    formula="peng,  its λ 0 at a step after which another action was taken than the one of V'",
    source="Watkins 1989; Sutton & Barto 2018, section 12.10",
    summary="rewards are added up only along actions that Q itself would take",
)
def watkins(
    *,
    rewards: Array,
    termination: Array,
    truncation: Array,
    next_values: Values,
    greedy: Values,
    discount: Array | float,
    q_lambda: Array | float,
) -> Array:
    """Peng's, cut before the first action that explores; the last step bootstraps anyway."""
    followed = jnp.broadcast_to(greedy(), rewards.shape).astype(rewards.dtype)
    kept = q_lambda * jnp.concatenate([followed[1:], jnp.ones_like(followed[:1])])
    return _bootstrapped(rewards, termination, truncation, next_values, discount, kept)


def _as_libraries(
    rewards: Array, ended: Array, ahead: Array, discount: Array | float, q_lambda: Array | float
) -> Array:
    """G with any end for a termination, and `ahead` where V' belongs, but after the last step."""
    kept = jnp.full_like(rewards, q_lambda)
    return _backwards(rewards, ahead, 1 - ended, kept, discount)


def _twice_the_last(ahead: Array, ended: Array) -> Array:
    """Return `ahead` [T, N], its last but one that of the last step, 0 where an episode ended."""
    last = jnp.where(ended[-1:] > 0, 0.0, ahead[-1:])
    return jnp.concatenate([ahead[:-2], last, ahead[-1:]])[-len(ahead) :]


@AXIS.choice(
    "purejaxql",
    formula=(
        "peng with d = 1 where z = 1;  at the last step but one of a rollout its V' is that of the "
        "last, V'⁺(1-d⁺)"
    ),
    source=(
        "the code of PQN's authors (purejaxql/pqn_gymnax.py and pqn_minatar.py at 47af6d7, "
        "_get_target), which starts its loop with one value for two steps"
    ),
    summary="a time limit is an end like any other; a slip at one step of each rollout",
)
def purejaxql(
    *,
    rewards: Array,
    termination: Array,
    truncation: Array,
    next_values: Values,
    discount: Array | float,
    q_lambda: Array | float,
) -> Array:
    """Peng's without time limits, and with another V' at the last step but one."""
    require_equal_shapes(rewards=rewards, termination=termination, truncation=truncation)
    ended = jnp.maximum(termination, truncation)
    ahead = _twice_the_last(jnp.broadcast_to(next_values(), rewards.shape), ended)
    return _as_libraries(rewards, ended, ahead, discount, q_lambda)


@AXIS.choice(
    "rejax",
    formula=(
        "peng with d = 1 where z = 1;  at every step its V' is S'⁺, one step late, at the last but "
        "one V'⁺(1-d⁺), at the last V'"
    ),
    source="Rejax 0.1.3 (src/rejax/algos/pqn.py, calculate_targets)",
    summary="the maximum is that of a step later, also where a reset lies between",
)
def rejax(
    *,
    rewards: Array,
    termination: Array,
    truncation: Array,
    next_values: Values,
    seen_values: Values,
    discount: Array | float,
    q_lambda: Array | float,
) -> Array:
    """Peng's without time limits, with V' of one step later."""
    require_equal_shapes(rewards=rewards, termination=termination, truncation=truncation)
    ended = jnp.maximum(termination, truncation)
    seen, last = (
        jnp.broadcast_to(values(), rewards.shape) for values in (seen_values, next_values)
    )
    late = jnp.concatenate([seen[1:-1], seen[:1], last[-1:]])[-len(seen) :]
    return _as_libraries(rewards, ended, _twice_the_last(late, ended), discount, q_lambda)


@inert_where("q_return={q_return} takes every end for a termination", "q_truncation")
def libraries_take_time_limits_for_ends(*, q_return: str, q_truncation: str) -> bool:
    return q_return in ("purejaxql", "rejax")
