"""Profiles of studies. Studies of a kind have the same profiles, and so share their runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypedDict

from ablations.studies.definition import Profile

if TYPE_CHECKING:
    from ablations.core.decode import Json
    from ablations.core.plan import Settings


LOCOMOTION = ("reacher", "hopper", "walker2d", "halfcheetah", "ant", "humanoid")
NOTHING: Settings = MappingProxyType({})


def profile(
    name: str,
    tasks: Iterable[str],
    variants: Iterable[str],
    seeds: int | tuple[int, ...],
    **more: Any,
) -> dict[str, Profile]:
    """Return a profile by its name; `more` are further fields of it."""
    return {name: Profile(tuple(tasks), seeds, variants=tuple(variants), **more)}


def judged(
    tasks: Iterable[str], variants: Iterable[str], seeds: int | tuple[int, ...], **more: Any
) -> dict[str, Profile]:
    """Return the profile `evidence`: ten evaluations of 64 episodes, scored by the last three."""
    scored: Any = {"evaluations": 10, "evaluation_envs": 64, "score": "last"}
    return profile("evidence", tasks, variants, seeds, **scored, **more)


def smoke(
    task: str, steps: int, variants: Iterable[str], settings: Settings = NOTHING
) -> dict[str, Profile]:
    """Return the profile `smoke`, which takes a minute, to see that everything runs."""
    few: Any = {"steps": steps, "points": 5, "evaluations": 1, "evaluation_envs": 4}
    return profile("smoke", (task,), variants, 3, settings=settings, **few)


def at_length(
    tasks: Iterable[str], variants: Iterable[str], settings: Settings = NOTHING
) -> dict[str, Profile]:
    """Return the profile `paper`, with the tasks' full lengths."""
    many: Any = {"points": 100, "evaluations": 20, "evaluation_envs": 64}
    return profile("paper", tasks, variants, 20, settings=settings, **many)


def control(quick: Iterable[str], paper: Iterable[str], **settings: Json) -> dict[str, Profile]:
    """Return three profiles: `smoke` and `quick` with the variants `quick`, and `paper`.

    All variants share `settings`.
    """
    quick = tuple(quick)
    return {
        **smoke("fast", 20_000, quick, settings),
        **introduction(quick, ("halfcheetah", "fast"), **settings),
        **at_length(LOCOMOTION, paper, settings),
    }


# walker2d and cartpole pass validation on twenty seeds at these settings (results/reference/exam).
# The other two are cheaper, and do not pass: some seeds of halfcheetah learn nothing.
_INTRODUCED: dict[str, Settings] = {
    "walker2d": {
        "backend": "positional",
        "healthy_reward": 0.0,
        "steps": 440_320,
        "points": 20,
        "evaluation_envs": 16,
    },
    "cartpole": {"steps": 46_080, "points": 10, "evaluation_envs": 64},
    "halfcheetah": {"backend": "spring", "steps": 204_800, "points": 50, "evaluation_envs": 8},
    "fast": {"steps": 15_360, "points": 15},
}
_INTRODUCED_OWN: dict[str, Settings] = {
    "walker2d": {"num_minibatches": 16, "discount": 0.99, "entropy_coefficient": 1e-3},
    "cartpole": {"learning_rate": 1e-3, "learning_rate_schedule": "constant"},
    "halfcheetah": {"num_minibatches": 16, "discount": 0.99},
}


def introduction(
    variants: Iterable[str], tasks: Iterable[str], **settings: Json
) -> dict[str, Profile]:
    """Return the profile `quick`, which takes minutes on two cores.

    The score is the mean of the last three of five evaluations. All variants share `settings`.
    """
    own: Any = {"task_settings": _INTRODUCED, "own": _INTRODUCED_OWN, "score": "last"}
    return profile("quick", tasks, variants, 5, points=35, settings=settings, **own)


CLAIMED = ("reacher", "inverted_double_pendulum", "hopper", "walker2d")  # the cheapest first
# 20 points of a few iterations of 2048 steps. Only the baseline decided their number: its mean
# training curve gains at most a margin over the last fifth, and its evaluations differ little
# between seeds. The learning rate is the task's, with which six seeds differed less than with the
# other of 0.0003 and 0.001 (`run gae --profile claims --vary learning_rate=0.001,0.0003 --seeds
# 100-105`, then up to twice these lengths). Reacher's episodes have Gymnasium's 50 steps. Other
# episodes are short, so that the baseline has both terminations and truncations.
_LENGTHS: dict[str, Settings] = {
    "reacher": {"steps": 20 * 3 * 2048, "episode_length": 50, "evaluation_envs": 64},
    "inverted_double_pendulum": {"steps": 20 * 12 * 2048, "episode_length": 100},
    "hopper": {"steps": 20 * 5 * 2048, "episode_length": 200},
    "walker2d": {"steps": 20 * 12 * 2048, "episode_length": 200},
}


def claims(
    variants: Iterable[str], tasks: Iterable[str] = CLAIMED, **settings: Json
) -> dict[str, Profile]:
    """Return the profile for published claims on control tasks.

    It has 20 seeds, and ten evaluations of 16 episodes (64 short ones on reacher). All studies
    share one baseline, the tasks' settings. All variants share `settings`.
    """
    lengths = {task: _LENGTHS[task] for task in tasks}
    fixed: Any = {"settings": settings, "task_settings": lengths}
    return profile("claims", tasks, variants, 20, evaluations=10, **fixed)


# Tasks that passed validation, at the shortest third of a run that passes (tables in
# results/reference/exam). halfcheetah has few evaluation episodes, as its physics is slow and its
# seeds differ little.
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
_BASE: dict[str, Json] = {"num_minibatches": 16, "learning_rate": 1e-3, "discount": 0.99}


def evidence(variants: Iterable[str], *, seeds: int, trained: bool = True) -> dict[str, Profile]:
    """Return the profile of docs/evidence.md.

    The score is the mean of the last three of ten evaluations of 64 episodes of 1,000 steps. With
    `trained`, runs have the baseline's hyperparameters; otherwise only settings of tasks.
    """
    of_tasks = {
        task: {n: value for n, value in settings.items() if trained or n in _OF_TASKS}
        for task, settings in JUDGED.items()
    }
    settings = _BASE if trained else NOTHING
    return judged(JUDGED, variants, seeds, settings=settings, task_settings=of_tasks)


# Discrete actions

MINATAR = ("breakout", "asterix")
# Tasks that passed validation with PQN (tables in results/reference/exam). CartPole's run is the
# first two thirds of a run of 122,880 steps, with its schedule of epsilon.
JUDGED_PQN: dict[str, Settings] = {
    "cartpole": {"steps": 81_920, "epsilon_share": 0.3},
    "breakout": {"steps": 245_760},
}


def few_actions(quick: Iterable[str], paper: Iterable[str]) -> dict[str, Profile]:
    """Return four profiles: `smoke` and `quick` with the variants `quick`, others with `paper`.

    `paper` has the steps of PureJaxQL's configurations, 500,000 for CartPole and 10 million for
    MinAtar; `quick` and `evidence` have validated lengths.
    """
    quick = tuple(quick)
    fixed: Any = {"task_settings": JUDGED_PQN}
    return {
        **smoke("cartpole", 20_480, quick),
        **profile("quick", ("cartpole",), quick, 8, score="last", **fixed),
        **at_length(("cartpole", *MINATAR), paper),
        **judged(JUDGED_PQN, paper, 16, **fixed),
    }


# Tasks that passed validation with PPO, at the shortest length that passes (tables in
# results/reference/exam). They are not solved at these lengths. The learning rate is constant, as a
# schedule increases the variance between seeds; other settings are the tasks'.
JUDGED_PPO: dict[str, Settings] = {
    "cartpole": {"steps": 51_200, "learning_rate": 1e-3},
    "acrobot": {"steps": 51_200, "learning_rate": 1e-3},
    "space_invaders": {"steps": 655_360, "learning_rate": 5e-3},
}
# On twenty seeds, the first two tasks fail there: a quarter of cartpole's seeds end at the ceiling,
# and some of acrobot's have learned nothing. They pass with these settings.
JUDGED_ON_TWENTY: dict[str, Settings] = {
    "cartpole": {"steps": 46_080, "learning_rate": 1e-3},
    "acrobot": {"steps": 102_400, "learning_rate": 3e-4},
}
_OF_PPO: dict[str, Json] = {"learning_rate_schedule": "constant"}


def few_actions_of_ppo(
    variants: Iterable[str],
    *,
    seeds: int | tuple[int, ...],
    settings_of: Mapping[str, Settings] = JUDGED_PPO,
) -> dict[str, Profile]:
    """Return four profiles of PPO studies, all with the same variants.

    `quick` and `evidence` have validated lengths; space_invaders can be selected in `evidence`.
    `paper` has PureJaxRL's steps, 10 million for MinAtar. `settings_of` has the settings of tasks
    in `evidence`, by name.
    """
    every = tuple(variants)
    fixed: Any = {"points": 10, "settings": _OF_PPO}
    own: Any = {"score": "last", "task_settings": JUDGED_PPO}
    return {
        **smoke("cartpole", 5120, every, _OF_PPO),
        **profile("quick", ("cartpole",), every, 5, **own, **fixed),
        **at_length(("cartpole", "acrobot", *MINATAR), every),
        **judged(("cartpole", "acrobot"), every, seeds, task_settings=settings_of, **fixed),
    }


# Language


class Judgement(TypedDict):
    """Fields of a `Study` about its metric, margin and trainer."""

    metric: str
    margin: float
    margin_in_metric: bool
    trainer: str


# Iterations after which GRPO passes validation on arithmetic (table in results/reference/exam).
LEARNED = 4000
BATCH = 64  # completions per iteration of the language tasks, the unit of their steps
# Greedy accuracy changes only with the most likely answer, so a policy does not gain by becoming
# more certain of its answers; see docs/language.md.
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
    ),
    iterations: int = 400,
    claims: Iterable[str] = (),
    judged: Iterable[str] = (),
    judged_rate: float = 3e-4,
) -> dict[str, Profile]:
    """Return the profiles of a language study.

    quick: variants of `smoke` and `quick`.
    paper: variants of `paper`.
    tasks: of all profiles except `paper`.
    paper_tasks: of `paper`.
    iterations: of 64 completions, in `quick` and `claims`; `paper` has five times as many.
    claims: variants of `claims`, which is `quick` with 20 seeds and ten evaluations.
    judged: variants of `evidence`, the profile of docs/evidence.md.
    judged_rate: learning rate of `evidence`, for variants without their own.
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
    )
    in_full = replace(quick_one, seeds=20, evaluations=10, variants=tuple(claims))
    learned = replace(
        in_full,
        steps=BATCH * LEARNED,
        variants=tuple(judged),
        score="last",
        settings={"learning_rate": judged_rate},
    )
    small = {"layers": 1, "width": 16, "heads": 2, "mlp_width": 16, "warm_start_steps": 20}
    brief: Any = {"seeds": 2, "steps": BATCH * 20, "points": 4, "evaluation_envs": 32}
    long: Any = {"steps": BATCH * iterations * 5, "points": 50, "evaluations": 50}
    return {
        "smoke": replace(quick_one, tasks=tasks[-1:], settings=small, **brief),
        "quick": quick_one,
        **({"claims": in_full} if in_full.variants else {}),
        **({"evidence": learned} if learned.variants else {}),
        **profile("paper", paper_tasks, paper, 20, evaluation_envs=512, **long),
    }
