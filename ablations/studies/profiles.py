"""How much compute the control studies take. They share it, and so share their cells."""

from collections.abc import Iterable
from typing import Any

from ablations.studies.definition import Profile


def control(
    quick: Iterable[str], paper: Iterable[str], hopper_length: int = 200, **settings: Any
) -> dict[str, Profile]:
    """The three profiles: `smoke` and `quick` run the variants `quick`, `paper` runs its grid.

    settings: what all variants of the study share. `quick` needs both kinds of end: reacher never
    terminates and is truncated at every 50 steps; hopper falls at first, and reaches the truncation
    at `hopper_length` steps once it has learned. Each of 64 environments takes 122,880/64 = 1920
    steps: 38 truncations of reacher, and at most 1920/hopper_length of hopper.
    """
    return {
        "smoke": Profile(
            tasks=("fast",),
            seeds=3,
            steps=20_000,
            points=5,
            evaluations=1,
            evaluation_envs=4,
            variants=tuple(quick),
            settings=settings,
        ),
        "quick": Profile(
            tasks=("reacher", "hopper"),
            seeds=8,
            steps=122_880,
            evaluations=1,
            variants=tuple(quick),
            settings=settings,
            task_settings={
                "reacher": {"episode_length": 50},
                "hopper": {"episode_length": hopper_length},
            },
        ),
        "paper": Profile(
            tasks=("reacher", "hopper", "walker2d", "halfcheetah", "ant", "humanoid"),
            seeds=20,
            points=100,
            evaluations=20,
            evaluation_envs=64,
            variants=tuple(paper),
            settings=settings,
        ),
    }
