"""Unit that is shuffled to cut T steps of N environments into minibatches: a loop axis."""

from variants.registry import Axis
from variants.rules import conflict, conflict_where

AXIS = Axis("minibatch_unit", summary="what stays together when a batch is cut into minibatches")

AXIS.declare(
    "segments",
    formula="a random N/m of the N environments, all T steps of each",
    source="Brax; OpenAI Baselines (ppo2) for recurrent policies",
    summary="whole segments: correlated samples, but advantages can be computed within",
)
AXIS.declare(
    "transitions",
    formula="a random T·N/m of the T·N steps",
    source="CleanRL, Stable-Baselines3, RSL-RL, PureJaxRL, TorchRL",
    summary="single steps, wherever they come from",
)


@conflict_where(
    "minibatch_unit=transitions cannot be had with advantage_timing=minibatch, which needs "
    "whole segments to compute advantages of: set minibatch_unit=segments, or "
    "advantage_timing=iteration or epoch"
)
def advantages_need_segments(*, minibatch_unit: str, advantage_timing: str) -> bool:
    return minibatch_unit == "transitions" and advantage_timing == "minibatch"


@conflict
def segments_are_cut_into_equal_parts(
    *, minibatch_unit: str, num_envs: int, num_minibatches: int
) -> str | None:
    if minibatch_unit == "segments" and num_envs % num_minibatches:
        return (
            f"num_envs={num_envs} is not divisible by num_minibatches={num_minibatches}: use "
            f"{_neighbours(num_envs, num_minibatches)}, or minibatch_unit=transitions"
        )
    return None


@conflict_where(
    "num_envs={num_envs} times unroll_length={unroll_length} is not divisible by "
    "num_minibatches={num_minibatches}: change one of them"
)
def transitions_are_cut_into_equal_parts(
    *, minibatch_unit: str, num_envs: int, unroll_length: int, num_minibatches: int
) -> bool:
    return minibatch_unit == "transitions" and num_envs * unroll_length % num_minibatches > 0


def _neighbours(number: int, divisor: int) -> str:
    below = number // divisor * divisor
    return f"{below} or {below + divisor}" if below else str(divisor)
