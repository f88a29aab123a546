"""Pull of the weights towards 0 or their initial values: a structural loop axis.

θ: all parameters of both networks. θ₀: the initial parameters. The pull is added to the gradient
before gradient_clip and the optimiser.
"""

from variants.registry import Axis, Number

AXIS = Axis("weight_regularization", summary="where the weights are pulled", structural=True)

WEIGHT_L2 = Number(1e-4, 0.0, 1e3, "c of weight_regularization, factor on a squared distance")

AXIS.declare(
    "none",
    formula="loss",
    source="every library's default",
    summary="the weights go where the loss takes them",
)
AXIS.declare(
    "to_zero",
    formula="loss + c ‖θ‖²,  c = weight_l2",
    source="one of the regularisers of Andrychowicz et al. 2021 and of Kumar et al. 2023",
    summary="L2: the weights stay small",
    numbers={"weight_l2": WEIGHT_L2},
)
AXIS.declare(
    "to_initial",
    formula="loss + c ‖θ - θ₀‖²,  c = weight_l2",
    source="L2 Init (Kumar et al. 2023, arXiv 2308.11958)",
    summary="the weights stay near their start, which keeps the network plastic",
    numbers={"weight_l2": WEIGHT_L2},
)
