"""The most disputed single choices of PPO, on MuJoCo Playground's tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ablations.studies.definition import Profile, Study, Variant, register

if TYPE_CHECKING:
    from ablations.core.plan import Settings

CHOICES = {
    "baseline": Variant({}, summary="a timeout bootstraps, the value coefficient is Brax's 0.25"),
    "brax": Variant({"advantage": "brax"}, summary="Brax's GAE: one extra TD step"),
    "timeouts_as_ends": Variant(
        {"advantage": "done_cut"}, summary="a timeout counts as a termination"
    ),
    "value_clip": Variant(
        {"value_clip": "pessimistic"}, summary="the value loss is clipped, at a range of 0.2"
    ),
    "double_coefficient": Variant(
        {"value_coefficient": 0.5}, summary="twice the value coefficient: halved once, not twice"
    ),
    "shared": Variant({"torso": "shared"}, summary="one torso for policy and critic"),
    "shared_double_coefficient": Variant(
        {"torso": "shared", "value_coefficient": 0.5},
        versus="shared",
        summary="twice the value coefficient, where the torso is shared",
    ),
    "batch_statistics": Variant(
        {"advantage_scope": "batch"}, summary="advantages standardised over the whole batch"
    ),
    "raw_advantages": Variant({"advantage_statistics": "none"}, summary="advantages as they are"),
    "std_parameter": Variant(
        {"action_distribution": "normal", "policy_std": "exp_parameter"},
        summary="a normal distribution whose spread is a parameter, as CleanRL's",
    ),
}
# Tasks that passed validation, at the shortest length that passes (tables in
# results/reference/exam).
JUDGED: dict[str, Settings] = {
    "cartpole_swingup": {"steps": 1_011_840, "points": 31},
    "reacher_easy": {"steps": 359_040, "points": 17, "learning_rate": 3e-3},
}

register(
    Study(
        name="single_choices_playground",
        title="Single choices on MuJoCo Playground",
        claim=(
            "Brax's extra TD step, what a timeout is worth, the value coefficient, the value clip, "
            "the scope of advantage statistics and what the spread is made of are argued about; do "
            "they matter on MuJoCo Playground?"
        ),
        claim_source="results/questions.toml has a source for each",
        baseline="baseline",
        variants=CHOICES,
        margin=0.05,
        metric="evaluation/return",
        profiles={
            "smoke": Profile(
                tasks=("reacher_easy",),
                seeds=3,
                steps=20_480,
                points=5,
                evaluations=1,
                evaluation_envs=4,
                variants=tuple(CHOICES),
            ),
            "quick": Profile(
                tasks=("reacher_easy",),
                seeds=5,
                variants=tuple(CHOICES),
                task_settings=JUDGED,
                score="last",
            ),
            "paper": Profile(
                tasks=("cartpole_swingup", "cheetah_run", "walker_walk", "hopper_hop"),
                seeds=20,
                points=100,
                evaluations=20,
                evaluation_envs=64,
                variants=tuple(CHOICES),
            ),
            "evidence": Profile(
                tasks=tuple(JUDGED),
                seeds=40,
                evaluations=10,
                evaluation_envs=64,
                variants=tuple(CHOICES),
                task_settings=JUDGED,
                score="last",
            ),
        },
    )
)
