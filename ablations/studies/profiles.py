"""How much compute studies take. Those of a kind share it, and so share their cells."""

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


BATCH = 64  # completions of an iteration of the language tasks: what a step of the curve counts
# How a language study judges: greedy accuracy changes only where the likeliest answer does, so that
# a policy which merely becomes surer of what it says gains nothing; see docs/language.md.
LANGUAGE_SCORE: dict[str, Any] = {
    "metric": "evaluation/greedy_accuracy",
    "margin": 0.02,
    "margin_in_metric": True,
    "trainer": "language",
}


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
    **settings: Any,
) -> dict[str, Profile]:
    """The three profiles of a language study: `smoke` and `quick` run the variants `quick`, `paper`
    its grid.

    iterations: of 64 completions, in `quick`; `paper` trains five times as long. settings: what all
    variants of the study share.
    """
    tasks = tuple(tasks)
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
        "quick": Profile(
            tasks=tasks,
            seeds=8,
            steps=BATCH * iterations,
            points=20,
            evaluations=10,
            evaluation_envs=512,
            variants=tuple(quick),
            settings=settings,
        ),
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
