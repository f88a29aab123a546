"""Adam's β₁ and β₂ as settings of every trainer that takes its steps.

Options, not numbers: 1-β is computed in double precision and written into the program, where data
would round otherwise than before β could be set.
"""

from __future__ import annotations

from typing import TypedDict

from ablations.trainers.trainer import Option


class Betas(TypedDict):
    """The options of structure below."""

    adam_beta1: float
    adam_beta2: float


BETAS = {
    "adam_beta1": Option(
        0.9, "β₁ of Adam, how much of its mean gradient a step keeps", low=0.0, neutral=0.9
    ),
    "adam_beta2": Option(
        0.999, "β₂ of Adam, how much of its mean squared gradient a step keeps", low=0.0,
        neutral=0.999,
    ),
}  # fmt: skip


def complaints_of(structure: Betas) -> list[str]:
    """Return complaints about them, in words."""
    return [
        f"{name}={beta:g} must be below 1: at 1 nothing is learned"
        for name, beta in (
            ("adam_beta1", structure["adam_beta1"]),
            ("adam_beta2", structure["adam_beta2"]),
        )
        if beta >= 1
    ]
