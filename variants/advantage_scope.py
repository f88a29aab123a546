"""The samples over which advantage_statistics computes mean and std: a loop axis."""

from variants.registry import Axis
from variants.rules import conflict_where

AXIS = Axis("advantage_scope", summary="the samples that advantage statistics are taken over")

AXIS.declare(
    "minibatch",
    formula="statistics of A over the samples of one minibatch",
    source="Brax, CleanRL, Stable-Baselines3, OpenAI Baselines, PureJaxRL",
    summary="each minibatch by itself, at every gradient step",
)
AXIS.declare(
    "batch",
    formula="statistics of A over all T·N samples of the iteration",
    source="RSL-RL (rollout_storage.py), Stoix",
    summary="the whole batch, when its advantages are computed",
)


@conflict_where(
    "advantage_scope=batch cannot be had with advantage_timing=minibatch, which computes "
    "advantages one minibatch at a time: set advantage_scope=minibatch, or "
    "advantage_timing=iteration or epoch"
)
def batch_statistics_need_a_batch(*, advantage_scope: str, advantage_timing: str) -> bool:
    return advantage_scope == "batch" and advantage_timing == "minibatch"
