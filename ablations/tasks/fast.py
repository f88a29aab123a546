"""`fast`: hold a damped cart at a target. For tests and demonstrations; it has no physics engine.

    v′ = v + dt (gain·a - damping·v)         p′ = p + dt v′        reward = 1 - |p′ - target|

An episode terminates if the cart leaves the track, |p| > 1, and is truncated at `episode_length`.
Both happen to an untrained policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ablations.tasks.task import Task, check_episodes, register

if TYPE_CHECKING:
    from ablations.core.plan import Settings
    from ablations.tasks.cart import Cart


def _make(settings: Settings) -> Cart:
    from ablations.tasks.cart import Cart

    return Cart()


register(
    Task(
        name="fast",
        summary="hold a damped cart at a target; compiles in seconds, for tests",
        make=_make,
        settings={"episode_length": 50, "reset_group_size": 1, "random_elapsed_steps": True},
        hyperparameters={
            "ppo": {
                "num_envs": 32,
                "unroll_length": 16,
                "num_minibatches": 4,
                "learning_rate": 1e-3,
            }
        },
        steps=50_000,
        speed=120_000,
        source="own choice",
        check=check_episodes,
    )
)
