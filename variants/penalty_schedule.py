# the formulas are in Greek
"""Schedule of β, the coefficient of policy_loss=kl_penalty, from batch to batch: a structural axis.

All are scalars. penalty: β of the last update, at first penalty_coefficient. divergence: the mean
KL(π_old, π) over its batch in closed form, after the update. The output is β of the next update.
"""

from __future__ import annotations

import jax.numpy as jnp

from variants.registry import Axis, Number
from variants.rules import WHERE, inert_where, on_policy
from variants.shapes import Array, Scalar, floats

# Without a lower bound, repeated halving would reach 0 for good.
LOW, HIGH = 1e-6, 1e6

AXIS = Axis(
    "penalty_schedule",
    summary="how the price of leaving the old policy follows the divergence",
    inputs={"penalty": floats(), "divergence": floats()},
    structural=True,
)


@AXIS.choice(
    "constant",
    formula="β",
    source="Schulman et al. 2017, table 1 (fixed KL)",
    summary="the same price from first to last",
)
def constant(*, penalty: Array) -> Array:
    return penalty


@AXIS.choice(
    "adaptive_kl",
    formula=(
        "β/2 where KL < penalty_kl/1.5,  2β where KL > 1.5·penalty_kl,  β elsewhere,\n"
        "within 10⁻⁶ to 10⁶"
    ),
    source="Schulman et al. 2017, https://arxiv.org/abs/1707.06347, section 4",
    summary="leaving the old policy gets dearer where an update moved too far, cheaper where not",
    numbers={
        "penalty_kl": Number(
            0.01, 1e-8, 1e3, "divergence per batch that penalty_schedule=adaptive_kl aims at"
        )
    },
)
def adaptive_kl(*, penalty: Array, divergence: Array, penalty_kl: Scalar) -> Array:
    """A divergence of NaN leaves β unchanged."""
    doubled = jnp.where(divergence > 1.5 * penalty_kl, 2.0 * penalty, penalty)
    changed = jnp.where(divergence < penalty_kl / 1.5, 0.5 * penalty, doubled)
    return jnp.clip(changed, LOW, HIGH)


@inert_where(
    "policy_loss={policy_loss} has no price of leaving the old policy",
    "penalty_schedule",
    "penalty_kl",
)
def nothing_has_that_price(*, penalty_schedule: str, policy_loss: str) -> bool:
    return penalty_schedule != "constant" and policy_loss != "kl_penalty"


@inert_where(
    f"the policy ratio is always 1 {WHERE}, where a divergence has no gradient",
    "penalty_schedule",
    "penalty_kl",
)
def the_price_has_no_gradient(
    *,
    penalty_schedule: str,
    epochs: int,
    num_minibatches: int,
    observation_normalization: str = "none",
    mean_perturbation: str = "none",
) -> bool:
    return penalty_schedule != "constant" and on_policy(
        epochs, num_minibatches, observation_normalization, mean_perturbation
    )
