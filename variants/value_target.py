"""λ of the critic's targets: a structural loop axis.

A choice of advantage returns A and the target with one λ, gae_lambda. With a λ of its own for the
target, the estimate is made twice.
"""

from variants.registry import Axis, Number, axis
from variants.rules import inert_where

AXIS = Axis(
    "value_target", summary="whether the critic's targets have a λ of their own", structural=True
)

AXIS.declare(
    "shared",
    formula="A, target of one estimate, by gae_lambda",
    source="every library's default of PPO",
    summary="the critic learns from what advantages are estimated with",
)
AXIS.declare(
    "own_lambda",
    formula="A of an estimate by gae_lambda, target of one by target_lambda",
    source=(
        "TD(λ) beside GAE: VC-PPO (Yuan et al. 2025, arXiv 2503.01491, decoupled GAE) and VAPO "
        "(arXiv 2504.05118), with λ = 1 for the critic"
    ),
    summary="a bias and a variance of the targets of their own",
    numbers={
        "target_lambda": Number(
            1.0, 0.0, 1.0, "λ of value_target=own_lambda; 1: Monte-Carlo returns"
        )
    },
)


@inert_where("advantage={advantage} has no λ", "value_target", "target_lambda")
def an_estimate_without_lambda(*, value_target: str, advantage: str) -> bool:
    return value_target != "shared" and "gae_lambda" not in axis("advantage")[advantage].numbers
