# ruff: noqa: RUF001  # the formulas are in Greek
"""The rule of a gradient step: a loop axis, structural because the states differ.

g is the gradient after gradient_clip, d the direction of the step -learning_rate·d.
"""

from variants.registry import Axis, Number
from variants.rules import inert_where

AXIS = Axis("optimizer", summary="how a gradient becomes a step", structural=True)

AXIS.declare(
    "adam",
    formula=(
        "m ← β₁m + (1-β₁)g,  v ← β₂v + (1-β₂)g²\n"
        "d = (m/(1-β₁ᵗ)) / (√(v/(1-β₂ᵗ)) + ε),  t: steps so far, this one included,\n"
        "β₁ = adam_beta1,  β₂ = adam_beta2,  ε = adam_epsilon"
    ),
    source="Kingma & Ba 2015; every library here",
    summary="the size of a step hardly depends on the size of the gradient",
)
AXIS.declare(
    "adamw",
    formula="d = d of adam + w·θ,  w = weight_decay, of all parameters θ of both networks",
    source=(
        "Loshchilov & Hutter 2019, https://arxiv.org/abs/1711.05101; PyTorch's AdamW (its default "
        "of w), optax.adamw; verl's and TRL's optimiser"
    ),
    summary="weights shrink by a fixed share, independently of the gradient",
    numbers={
        "weight_decay": Number(0.01, 0.0, 1e3, "w of optimizer=adamw, a share per unit of the rate")
    },
)
AXIS.declare(
    "radam",
    formula=(
        "d of adam times √((ρ-4)(ρ-2)ρ∞ / ((ρ∞-4)(ρ∞-2)ρ)) where ρ ≥ 5,  m/(1-β₁ᵗ) elsewhere;\n"
        "ρ∞ = 2/(1-β₂) - 1,  ρ = ρ∞ - 2tβ₂ᵗ/(1-β₂ᵗ)"
    ),
    source="Liu et al. 2020, https://arxiv.org/abs/1908.03265; optax.radam, so PureJaxQL",
    summary="adam with short first steps, a built-in warm-up",
)
AXIS.declare(
    "sgd",
    formula="d = g",
    source="a control: here a factor on a loss is a factor on its step",
    summary="plain gradient descent, without momentum; wants a learning rate of its own",
)

OF_ADAM = ("adam_epsilon", "adam_beta1", "adam_beta2", "optimizer_reset")


@inert_where("optimizer={optimizer} has no moments", *OF_ADAM)
def plain_descent_has_no_moments(*, optimizer: str) -> bool:
    return optimizer == "sgd"
