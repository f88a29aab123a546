"""How fast Adam forgets, as a setting of every trainer that takes its steps.

Options, not numbers: 1-β is computed in double precision and written into the program, where data
would round otherwise than before β could be set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablations.trainers.trainer import Option

BETAS = {
    "adam_beta1": Option(
        0.9, "β₁ of Adam, how much of its mean gradient a step keeps", low=0.0, neutral=0.9
    ),
    "adam_beta2": Option(
        0.999, "β₂ of Adam, how much of its mean squared gradient a step keeps", low=0.0,
        neutral=0.999,
    ),
}  # fmt: skip


def complaints_of(structure: Mapping[str, Any]) -> list[str]:
    """What is wrong with them, in words."""
    return [
        f"{name}={structure[name]:g} must be below 1: at 1 nothing is learned"
        for name in BETAS
        if structure[name] >= 1
    ]
