# ruff: noqa: RUF001  # the formulas are in Greek
"""Random displacement of the policy's means in an update: a structural axis.

Shapes: mean and noise are [B, A]; noise is uniform in [0, 1), new at every gradient step. The
output is the mean for densities and entropies of that step. Acting does not use it.
"""

from __future__ import annotations

from variants.registry import Axis, Number
from variants.shapes import Array, Scalar, floats, require_equal_shapes

AXIS = Axis(
    "mean_perturbation",
    summary="whether an update sees the policy's means displaced at random",
    inputs={"mean": floats(6, 2), "noise": floats(6, 2)},
    structural=True,
)


@AXIS.choice(
    "none", formula="μ", source="every library's PPO", summary="the policy is scored as it is"
)
def none(*, mean: Array) -> Array:
    return mean


@AXIS.choice(
    "uniform",
    formula="μ + z,  z uniform in [-α, α],  α = perturbation_width",
    source=(
        "Robust Policy Optimization (Rahman & Xue 2022, https://arxiv.org/abs/2212.07536); CleanRL "
        "(cleanrl/rpo_continuous_action.py, rpo_alpha)"
    ),
    summary="RPO: an action is scored by a policy nearby, so that the std does not collapse",
    numbers={
        "perturbation_width": Number(
            0.5, 0.0, 1e3, "α of mean_perturbation=uniform, in units of x before any tanh"
        )
    },
)
def uniform(*, mean: Array, noise: Array, perturbation_width: Scalar) -> Array:
    require_equal_shapes(mean=mean, noise=noise)
    return mean + perturbation_width * (2 * noise - 1)
