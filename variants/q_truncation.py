# ruff: noqa: RUF001  # the formulas are in Greek
"""The target of a Q value at a step that a time limit ended: a loop axis."""

from variants.registry import Axis

AXIS = Axis("q_truncation", summary="the target of a Q value at the end of a time limit")

AXIS.declare(
    "bootstrap",
    formula="r + γ·max over a of Q(s', a),  s' the true next observation, before any reset",
    source="Pardo et al. 2018, https://arxiv.org/abs/1712.00378",
    summary="the episode would have continued beyond the time limit",
)
AXIS.declare(
    "terminal",
    formula="r",
    source="PureJaxQL (purejaxql/pqn_gymnax.py) and Rejax: their environments have one `done`",
    summary="as if the episode had terminated: states near the limit lose value",
)
