"""Profiles: how much compute studies take. Those of a kind share it, and so share their cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

from ablations.studies.definition import Profile

if TYPE_CHECKING:
    from ablations.core.decode import Json
    from ablations.core.plan import Settings


def control(quick: Iterable[str], paper: Iterable[str], **settings: Json) -> dict[str, Profile]:
    """Return three profiles: `smoke` and `quick` run the variants `quick`, `paper` its grid.

    settings: what all variants of the study share.
    """
    quick = tuple(quick)
    return {
        "smoke": Profile(
            tasks=("fast",),
            seeds=3,
            steps=20_000,
            points=5,
            evaluations=1,
            evaluation_envs=4,
            variants=quick,
            settings=settings,
        ),
        **introduction(quick, **settings),
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


# The main job's: of what passed the exam of docs/evidence.md the cheapest, short but so long that
# other seeds pass too; results/reference/exam has the tables. halfcheetah is only truncated, after
# 1,000 steps; fast falls at first, and is truncated after 50.
_INTRODUCED: dict[str, Settings] = {
    "halfcheetah": {"backend": "spring", "steps": 204_800, "points": 50, "evaluation_envs": 8},
    "fast": {"steps": 15_360, "points": 15},
}
_INTRODUCED_OWN: dict[str, Settings] = {"halfcheetah": {"num_minibatches": 16, "discount": 0.99}}


def introduction(variants: Iterable[str], **settings: Json) -> dict[str, Profile]:
    """Return the profile `quick`: the main job's, which takes minutes on two cores.

    It has five evaluations, of which the last three are the score.

    settings: what all variants of the study share.
    """
    return {
        "quick": Profile(
            tasks=tuple(_INTRODUCED),
            seeds=5,
            points=35,
            variants=tuple(variants),
            settings=settings,
            task_settings=_INTRODUCED,
            own=_INTRODUCED_OWN,
            score="last",
        )
    }


CLAIMED = ("reacher", "inverted_double_pendulum", "hopper", "walker2d")  # the cheapest first
# 20 points of a few iterations of 2048 steps. How many is for the baseline alone to say: so many
# that its mean training curve gains a margin or less over the last fifth, and, where that leaves a
# choice, where its evaluations differ least between seeds. It is at each task's own learning rate,
# where it differed less between six seeds than at the other of
# 0.0003 and 0.001 (`run gae --profile claims --vary learning_rate=0.001,0.0003 --seeds 100-105`,
# then at up to twice these lengths). Reacher ends at Gymnasium's 50. The others are truncated
# early, so that the baseline both falls and is truncated, and levels off within reach.
_LENGTHS: dict[str, Settings] = {
    "reacher": {"steps": 20 * 3 * 2048, "episode_length": 50, "evaluation_envs": 64},
    "inverted_double_pendulum": {"steps": 20 * 12 * 2048, "episode_length": 100},
    "hopper": {"steps": 20 * 5 * 2048, "episode_length": 200},
    "walker2d": {"steps": 20 * 12 * 2048, "episode_length": 200},
}


def claims(
    variants: Iterable[str], tasks: Iterable[str] = CLAIMED, **settings: Json
) -> dict[str, Profile]:
    """Return the profile of published claims on control tasks.

    It has 20 seeds, and ten evaluations of 16 held-out episodes (reacher, whose are short: 64). One
    baseline serves all studies: the tasks' own settings. settings: what all variants of the
    study share.
    """
    return {
        "claims": Profile(
            tasks=tuple(tasks),
            seeds=20,
            evaluations=10,
            variants=tuple(variants),
            settings=settings,
            task_settings={task: _LENGTHS[task] for task in tasks},
        )
    }


# The tasks that passed the exam of docs/evidence.md, at the shortest third of a run with which they
# did; the table is results/reference/exam. halfcheetah is judged on few episodes, as its positional
# physics is slow and its baseline's seeds differ little.
JUDGED: dict[str, Settings] = {
    "walker2d": {
        "backend": "positional",
        "healthy_reward": 0.0,
        "entropy_coefficient": 1e-3,
        "steps": 440_320,
    },
    "ant": {"backend": "spring", "steps": 688_128},
    "halfcheetah": {
        "backend": "positional",
        "entropy_coefficient": 1e-3,
        "steps": 368_640,
        "evaluation_envs": 16,
    },
}
_OF_TASKS = ("backend", "healthy_reward", "steps", "evaluation_envs")
_BASE: dict[str, Json] = {
    "num_minibatches": 16,
    "learning_rate": 1e-3,
    "discount": 0.99,
}


def _of_tasks(settings: Settings, trained: bool) -> Settings:
    """Return the settings of a task, without those of the baseline where it is not trained."""
    return settings if trained else {n: v for n, v in settings.items() if n in _OF_TASKS}


def evidence(
    variants: Iterable[str],
    *,
    seeds: int,
    baseline_seeds: int | None = None,
    tasks: Iterable[str] = tuple(JUDGED),
    trained: bool = True,
    **settings: Json,
) -> dict[str, Profile]:
    """Return the profile of docs/evidence.md.

    It has ten evaluations of 64 episodes of 1,000 steps, of which the last three are the score.

    baseline_seeds: where the baseline, which serves all variants, has more than they. trained: with
    the baseline's settings; else with those of the tasks alone.
    """
    own = {task: _of_tasks(JUDGED[task], trained) for task in tasks}
    return {
        "evidence": Profile(
            tasks=tuple(tasks),
            seeds=seeds,
            points=20,
            evaluations=10,
            evaluation_envs=64,
            variants=tuple(variants),
            settings=_BASE | settings if trained else settings,
            task_settings=own,
            score="last",
            baseline_seeds=baseline_seeds,
        )
    }


class Judgement(TypedDict):
    """Fields of a `Study` that say how its variants are judged."""

    metric: str
    margin: float
    margin_in_metric: bool
    trainer: str


# Iterations after which GRPO passes the exam of docs/evidence.md on arithmetic, of a third, two
# thirds and the whole of 6,030; the table is in results/reference/exam.
LEARNED = 4000
BATCH = 64  # completions of an iteration of the language tasks: what a step of the curve counts
# How a language study judges: greedy accuracy changes only where the likeliest answer does, so that
# a policy which merely becomes surer of what it says gains nothing; see docs/language.md.
LANGUAGE_SCORE = Judgement(
    metric="evaluation/greedy_accuracy", margin=0.02, margin_in_metric=True, trainer="language"
)


def language(
    quick: Iterable[str],
    paper: Iterable[str],
    tasks: Iterable[str] = ("arithmetic", "arithmetic_scales"),
    paper_tasks: Iterable[str] = (
        "arithmetic",
        "arithmetic_signed",
        "arithmetic_scales",
        "arithmetic_noise",
        "addition",
        "mixture",
    ),
    iterations: int = 400,
    claims: Iterable[str] = (),
    judged: Iterable[str] = (),
    judged_rate: float = 3e-4,
    **settings: Json,
) -> dict[str, Profile]:
    """Return the profiles of a language study.

    `smoke` and `quick` run the variants `quick`, `paper` its grid; `claims` is `quick` with 20
    seeds and ten evaluations, of the variants that published claims are about. `evidence` is that
    of docs/evidence.md, of the variants `judged`.

    iterations: of 64 completions, in `quick`; `paper` trains five times as long. judged_rate: the
    learning rate of `evidence` where a variant has none of its own. settings: what all variants of
    the study share.
    """
    tasks = tuple(tasks)
    quick_one = Profile(
        tasks=tasks,
        seeds=5,
        steps=BATCH * iterations,
        points=20,
        evaluations=4,
        evaluation_envs=512,
        variants=tuple(quick),
        settings=settings,
    )
    in_full = replace(quick_one, seeds=20, evaluations=10, variants=tuple(claims))
    learned = replace(
        in_full,
        steps=BATCH * LEARNED,
        variants=tuple(judged),
        score="last",
        settings=settings | {"learning_rate": judged_rate},
    )
    return {
        "smoke": Profile(
            tasks=tasks[-1:],
            seeds=2,
            steps=BATCH * 20,
            points=4,
            evaluations=4,
            evaluation_envs=32,
            variants=tuple(quick),
            settings=settings
            | {"layers": 1, "width": 16, "heads": 2, "mlp_width": 16, "warm_start_steps": 20},
        ),
        "quick": quick_one,
        **({"claims": in_full} if in_full.variants else {}),
        **({"evidence": learned} if learned.variants else {}),
        "paper": Profile(
            tasks=tuple(paper_tasks),
            seeds=20,
            steps=BATCH * iterations * 5,
            points=50,
            evaluations=50,
            evaluation_envs=512,
            variants=tuple(paper),
            settings=settings,
        ),
    }
