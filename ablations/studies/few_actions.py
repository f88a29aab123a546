"""Profiles of studies on tasks with a few actions, of PQN and of PPO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ablations.studies.definition import Profile

if TYPE_CHECKING:
    from ablations.core.decode import Json
    from ablations.core.plan import Settings

MINATAR = ("breakout", "asterix")


def few_actions(quick: Iterable[str], paper: Iterable[str], **settings: Json) -> dict[str, Profile]:
    """Return four profiles: `smoke` and `quick` run the variants `quick`, the others `paper`.

    `paper` and `evidence` take the steps of PureJaxQL's configurations, 500,000 of CartPole and 10
    million of MinAtar; `evidence` has the score of docs/evidence.md. settings: what all variants of
    the study share.
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
            steps=204_800,
            variants=tuple(quick),
            settings=settings,
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
            tasks=MINATAR,
            seeds=10,
            points=20,
            evaluations=10,
            evaluation_envs=64,
            variants=tuple(paper),
            settings=settings,
            score="last",
        ),
    }


# The tasks that passed the exam of docs/evidence.md with PPO, at the shortest third of a run with
# which they did; the table is results/reference/exam.
JUDGED: dict[str, Settings] = {
    "breakout": {"steps": 245_760},
    "acrobot": {"steps": 102_400},
}
# The tasks' own are PureJaxRL's, whose rate falls.
_OF_PPO: dict[str, Json] = {
    "learning_rate": 1e-3,
    "learning_rate_schedule": "constant",
}


def few_actions_of_ppo(variants: Iterable[str], *, seeds: int) -> dict[str, Profile]:
    """Return four profiles of studies that train with PPO, all of them with the same variants.

    `quick` and `evidence` have the lengths of the exam; `evidence` has the score of
    docs/evidence.md. `paper` takes the steps of PureJaxRL, 10 million of MinAtar.
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
            tasks=("acrobot",),
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
            settings=_OF_PPO,
        ),
        "evidence": Profile(
            tasks=tuple(JUDGED),
            seeds=seeds,
            points=10,
            evaluations=10,
            evaluation_envs=64,
            variants=every,
            settings=_OF_PPO,
            task_settings=JUDGED,
            score="last",
        ),
    }
