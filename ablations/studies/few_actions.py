"""Profiles of studies on tasks with a few actions, of PQN and of PPO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ablations.studies.definition import Profile

if TYPE_CHECKING:
    from ablations.core.decode import Json
    from ablations.core.plan import Settings

MINATAR = ("breakout", "asterix")
# What passed the exam of docs/evidence.md with PQN; the tables are in results/reference/exam.
# CartPole's run is the first two thirds of one of 122,880 steps, down to its epsilon.
JUDGED_PQN: dict[str, Settings] = {
    "cartpole": {"steps": 81_920, "epsilon_share": 0.3},
    "breakout": {"steps": 245_760},
}


def few_actions(quick: Iterable[str], paper: Iterable[str], **settings: Json) -> dict[str, Profile]:
    """Return four profiles: `smoke` and `quick` run the variants `quick`, the others `paper`.

    `paper` takes the steps of PureJaxQL's configurations, 500,000 of CartPole and 10 million of
    MinAtar; `quick` and `evidence` have the lengths of the exam, and the score of docs/evidence.md.
    settings: what all variants of the study share.
    """
    return {
        "smoke": Profile(
            tasks=("cartpole",),
            seeds=3,
            steps=20_480,
            points=5,
            evaluations=1,
            evaluation_envs=4,
            variants=tuple(quick),
            settings=settings,
        ),
        "quick": Profile(
            tasks=("cartpole",),
            seeds=8,
            variants=tuple(quick),
            settings=settings,
            task_settings=JUDGED_PQN,
            score="last",
        ),
        "paper": Profile(
            tasks=("cartpole", *MINATAR),
            seeds=20,
            points=100,
            evaluations=20,
            evaluation_envs=64,
            variants=tuple(paper),
            settings=settings,
        ),
        "evidence": Profile(
            tasks=tuple(JUDGED_PQN),
            seeds=16,
            points=20,
            evaluations=10,
            evaluation_envs=64,
            variants=tuple(paper),
            settings=settings,
            task_settings=JUDGED_PQN,
            score="last",
        ),
    }


# The tasks that passed the exam of docs/evidence.md with PPO, at the shortest length with which
# they did; the tables are in results/reference/exam. They are judged before they are solved. The
# rate is constant, as with a falling one seeds part too far; the rest is the tasks' own.
JUDGED: dict[str, Settings] = {
    "cartpole": {"steps": 51_200, "learning_rate": 1e-3},
    "acrobot": {"steps": 51_200, "learning_rate": 1e-3},
    "space_invaders": {"steps": 655_360, "learning_rate": 5e-3},
}
# On twenty seeds neither of the first two passes so: a quarter of cartpole's end at the ceiling,
# and some of acrobot's have learned nothing by then. So they do.
JUDGED_ON_TWENTY: dict[str, Settings] = {
    "cartpole": {"steps": 46_080, "learning_rate": 1e-3},
    "acrobot": {"steps": 102_400, "learning_rate": 3e-4},
}
_OF_PPO: dict[str, Json] = {"learning_rate_schedule": "constant"}


def few_actions_of_ppo(
    variants: Iterable[str],
    *,
    seeds: int | tuple[int, ...],
    judged: Mapping[str, Settings] = JUDGED,
) -> dict[str, Profile]:
    """Return four profiles of studies that train with PPO, all of them with the same variants.

    `quick` and `evidence` have the lengths of the exam; `evidence` has the score of
    docs/evidence.md, and takes space_invaders where it is named. `paper` takes the steps of
    PureJaxRL, 10 million of MinAtar.

    judged: the settings of tasks in `evidence`, by name.
    """
    every = tuple(variants)
    return {
        "smoke": Profile(
            tasks=("cartpole",),
            seeds=3,
            steps=5120,
            points=5,
            evaluations=1,
            evaluation_envs=4,
            variants=every,
            settings=_OF_PPO,
        ),
        "quick": Profile(
            tasks=("cartpole",),
            seeds=5,
            points=10,
            variants=every,
            settings=_OF_PPO,
            task_settings=JUDGED,
            score="last",
        ),
        "paper": Profile(
            tasks=("cartpole", "acrobot", *MINATAR),
            seeds=20,
            points=100,
            evaluations=20,
            evaluation_envs=64,
            variants=every,
        ),
        "evidence": Profile(
            tasks=("cartpole", "acrobot"),
            seeds=seeds,
            points=10,
            evaluations=10,
            evaluation_envs=64,
            variants=every,
            settings=_OF_PPO,
            task_settings=judged,
            score="last",
        ),
    }
