# ruff: noqa: RUF001  # the formulas are in Greek
"""Whether running statistics standardise observations, and when they are updated: a loop axis.

With the statistics n, μ, σ so far, the networks get (o - μ) / σ.
"""

from variants.registry import Axis

AXIS = Axis(
    "observation_normalization",
    summary="standardising observations by running statistics, and when these are updated",
)

AXIS.declare(
    "none",
    formula="o",
    source="Stable-Baselines3's default, Brax's default (normalize_observations=False)",
    summary="observations as the environment gives them",
)
AXIS.declare(
    "before",
    formula="(o - μ)/σ,  μ and σ updated with the batch, then the gradient steps on it",
    source="Brax (brax/training/agents/ppo/train.py)",
    summary="trained on with newer statistics than it was collected with: the first ratio is not 1",
)
AXIS.declare(
    "after",
    formula="(o - μ)/σ,  the gradient steps on the batch, then μ and σ updated with it",
    source="CleanRL and SB3 to the same effect: they store what they collect as normalised then",
    summary="trained on with the statistics that it was collected with: the first ratio is 1",
)
