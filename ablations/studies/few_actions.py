"""Profiles of studies that train with PQN, on tasks with a few actions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ablations.studies.definition import Profile

if TYPE_CHECKING:
    from ablations.core.decode import Json

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
