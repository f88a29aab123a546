# ruff: noqa: RUF001  # the formulas are in Greek
"""Probability ε of a random action, uniform over all actions, of a policy of Q values.

progress: scalar, share of the training that is done, 0 at the first iteration. place: [N], position
of each environment, from 0 at the first to 1 at the last. The output is ε [N].
"""

from __future__ import annotations

import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.rules import conflict_where
from variants.shapes import Array, Scalar, floats

AXIS = Axis(
    "exploration",
    summary="how often an action is random instead of the best by Q",
    inputs={"progress": floats(), "place": floats(3)},
    numbers={"epsilon_end": Number(0.05, 0.0, 1.0, "ε of exploration, the last one of linear")},
)


@AXIS.choice(
    "linear",
    formula=(
        "ε = a + (b - a)·min(1, p/f),  p the share of the training behind,\n"
        "a = epsilon_start,  b = epsilon_end,  f = epsilon_share"
    ),
    source="DQN (Mnih et al. 2015); PureJaxQL (EPS_DECAY), Rejax (exploration_fraction)",
    summary="falls in a straight line, then stays",
    numbers={
        "epsilon_start": Number(1.0, 0.0, 1.0, "ε of exploration=linear at the start"),
        "epsilon_share": Number(
            0.1, 1e-6, 1.0, "share of the training in which ε of exploration=linear falls"
        ),
    },
)
def linear(
    *,
    progress: Array,
    place: Array,
    epsilon_start: Scalar,
    epsilon_end: Scalar,
    epsilon_share: Scalar,
) -> Array:
    fallen = jnp.minimum(1.0, progress / epsilon_share)
    return jnp.full_like(place, epsilon_start + (epsilon_end - epsilon_start) * fallen)


@AXIS.choice(
    "constant",
    formula="ε = epsilon_end",
    source="Sutton & Barto 2018, section 2.2",
    summary="the same from first to last",
)
def constant(*, place: Array, epsilon_end: Scalar) -> Array:
    return jnp.full_like(place, epsilon_end)


@AXIS.choice(
    "ladder",
    formula="ε = b^(1 + αi/(N-1)) in environment i of N,  b = epsilon_end,  α = ladder_exponent",
    source="Ape-X (Horgan et al. 2018, https://arxiv.org/abs/1803.00933), b = 0.4, α = 7",
    summary="each environment has an ε of its own, the last hardly any, throughout",
    numbers={
        "ladder_exponent": Number(7.0, 0.0, 100.0, "α of exploration=ladder: how steep it is")
    },
)
def ladder(*, place: Array, epsilon_end: Scalar, ladder_exponent: Scalar) -> Array:
    return jnp.asarray(epsilon_end) ** (1.0 + ladder_exponent * place)


@conflict_where(
    "learning_rate_schedule={learning_rate_schedule} needs a policy of probabilities, and one "
    "of Q values has none: set learning_rate_schedule=linear_per_step"
)
def no_policy_has_no_divergence(*, learning_rate_schedule: str, exploration: str) -> bool:
    return "kl" in learning_rate_schedule


@conflict_where(
    "network_normalization={network_normalization} is for one of two networks, and a network "
    "of Q values is policy and critic at once: set network_normalization=both, or none"
)
def one_network_is_both(*, network_normalization: str, exploration: str) -> bool:
    return network_normalization not in ("none", "both")
