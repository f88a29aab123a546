# ruff: noqa: RUF001  # the formulas are in Greek
"""Layer normalisation of hidden layers: a structural loop axis.

x [H] is the output of a hidden layer before its activation; mean and variance are over H. γ [H] and
β [H] are learned, from 1 and 0. Output layers are not normalised. Every choice but none normalises
a shared torso.
"""

from variants.registry import Axis

AXIS = Axis(
    "network_normalization", summary="which network normalises its hidden layers", structural=True
)

_FORMULA = "activation(γ·(x - mean(x))/√(var(x) + 10⁻⁶) + β)  "

AXIS.declare(
    "none",
    formula="activation(x)",
    source="every library's default of PPO",
    summary="hidden layers as they are",
)
AXIS.declare(
    "critic",
    formula=_FORMULA + "in the critic",
    source="RLPD (Ball et al. 2023, arXiv 2302.02948; rlpd/networks/mlp.py), of its critics",
    summary="LayerNorm before every activation of the critic",
)
AXIS.declare(
    "policy",
    formula=_FORMULA + "in the policy",
    source="Ba et al. 2016 (arXiv 1607.06450), in one of the two networks",
    summary="LayerNorm before every activation of the policy",
)
AXIS.declare(
    "both",
    formula=_FORMULA + "in both networks",
    source="Ba et al. 2016; PQN (Gallici et al. 2024, arXiv 2407.04811), of its network",
    summary="LayerNorm before every activation",
)
