"""The value that a value clip measures from: a loop axis."""

from variants.registry import Axis, register
from variants.rules import conflict, inert

AXIS = register(
    Axis("old_value", summary="whose value is the old one that value_clip measures from")
)

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


@inert
def nothing_measures_from_it(*, old_value: str, value_clip: str) -> dict[str, str]:
    if value_clip != "none":
        return {}
    return {"old_value": "value_clip=none measures from no old value"}


@inert
def the_first_epoch_starts_at_the_rollout(*, old_value: str, epochs: int) -> dict[str, str]:
    if epochs > 1:
        return {}
    return {"old_value": "the first epoch starts with the critic of the rollout, and epochs=1"}


@conflict
def a_refreshed_value_comes_with_its_advantages(
    *, old_value: str, advantage_timing: str
) -> str | None:
    if old_value == "epoch" and advantage_timing != "epoch":
        return (
            "old_value=epoch keeps the values that advantages are computed from at each epoch: "
            "set advantage_timing=epoch"
        )
    return None
