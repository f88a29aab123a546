"""Single choices of PPO on discrete actions, the most disputed first."""

from ablations.studies.definition import Study, Variant, register
from ablations.studies.few_actions import JUDGED_ON_TWENTY, few_actions_of_ppo

CHOICES = {
    "baseline": Variant({}, summary="PureJaxRL's settings: a timeout counts as a termination"),
    "bootstrapped": Variant({"advantage": "standard"}, summary="a timeout bootstraps from V(s')"),
    "brax": Variant(
        {"advantage": "brax"},
        versus="bootstrapped",
        summary="Brax's GAE: one extra TD step, truncated steps masked",
    ),
    "masked": Variant(
        {"advantage": "masked_truncation"},
        versus="bootstrapped",
        summary="truncated steps masked, otherwise GAE",
    ),
    "own_value": Variant(
        {"advantage": "timeout_bonus"},
        versus="bootstrapped",
        summary="a timeout is paid the value of its own observation, V(s)",
    ),
    "no_value_clip": Variant({"value_clip": "none"}, summary="the value loss is not clipped"),
    "half_coefficient": Variant(
        {"value_coefficient": 0.125}, summary="half of the value coefficient"
    ),
    "shared": Variant({"torso": "shared"}, summary="one torso for policy and critic"),
    "shared_half_coefficient": Variant(
        {"torso": "shared", "value_coefficient": 0.125},
        versus="shared",
        summary="half of the value coefficient, where the torso is shared",
    ),
    "batch_statistics": Variant(
        {"advantage_scope": "batch"}, summary="advantages standardised over the whole batch"
    ),
    "raw_advantages": Variant({"advantage_statistics": "none"}, summary="advantages as they are"),
    "percentile": Variant(
        {"advantage_statistics": "none", "advantage_scaling": "percentile"},
        versus="raw_advantages",
        summary="advantages scaled down by percentiles of the returns",
    ),
    "recomputed": Variant(
        {"advantage_timing": "epoch"}, summary="advantages anew before every pass"
    ),
    "symlog_targets": Variant(
        {"value_normalization": "symlog"}, summary="the critic learns symlog targets"
    ),
}

register(
    Study(
        name="single_choices_discrete",
        title="Single choices on discrete actions",
        claim=(
            "Brax's extra TD step, what a timeout is worth, the value coefficient, the value clip "
            "and the scope of advantage statistics are argued about; do they matter?"
        ),
        claim_source="results/questions.toml has a source for each",
        baseline="baseline",
        variants=CHOICES,
        margin=0.05,
        metric="evaluation/return",
        profiles=few_actions_of_ppo(CHOICES, seeds=40, judged=JUDGED_ON_TWENTY),
    )
)
