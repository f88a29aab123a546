"""The reference value of value_clip: a loop axis."""

from variants.registry import Axis
from variants.rules import conflict_where, inert_where

AXIS = Axis("old_value", summary="the value from which value_clip measures")

AXIS.declare(
    "rollout",
    formula="V_old = V at rollout",
    source="OpenAI Baselines (ppo2), CleanRL, Stable-Baselines3, RSL-RL, Brax, PureJaxRL, Rejax",
    summary="the critic may move so far in a whole update",
)
AXIS.declare(
    "epoch",
    formula="V_old = V at the start of the epoch",
    source="TorchRL (sota-implementations/ppo/ppo_mujoco.py): GAE overwrites state_value",
    summary="the critic may move so far in each epoch",
)


@inert_where("value_clip=none measures from no old value", "old_value")
def nothing_measures_from_it(*, old_value: str, value_clip: str) -> bool:
    return value_clip == "none"


@inert_where("the first epoch starts with the critic of the rollout, and epochs=1", "old_value")
def the_first_epoch_starts_at_the_rollout(*, old_value: str, epochs: int) -> bool:
    return epochs == 1


@conflict_where(
    "old_value=epoch keeps the values that advantages are computed from at each epoch: set "
    "advantage_timing=epoch"
)
def a_refreshed_value_comes_with_its_advantages(*, old_value: str, advantage_timing: str) -> bool:
    return old_value == "epoch" and advantage_timing != "epoch"
