# ruff: noqa: RUF001  # the formulas are in Greek
"""Targets of Q values where a time limit ended an episode: a loop axis."""

from variants.registry import Axis, register

AXIS = register(
    Axis("q_truncation", summary="what a Q value's target has behind the end of a time limit")
)

AXIS.declare(
    "bootstrap",
    formula="r + γ·max over a of Q(s', a),  s' the true next observation, before any reset",
    source="Pardo et al. 2018, https://arxiv.org/abs/1712.00378",
    summary="a time limit says nothing of what would have followed",
)
AXIS.declare(
    "terminal",
    formula="r",
    source="PureJaxQL (purejaxql/pqn_gymnax.py) and Rejax: their environments have one `done`",
    summary="as if nothing followed: short of the limit, the same state is worth more",
)
