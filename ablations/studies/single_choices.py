"""Single choices of PPO, on Brax's tasks, on discrete actions and on MuJoCo Playground."""

from ablations.core.plan import Settings
from ablations.studies.definition import Study, Variant
from ablations.studies.profiles import (
    JUDGED_ON_TWENTY,
    at_length,
    claims,
    control,
    evidence,
    few_actions_of_ppo,
    judged,
    profile,
    smoke,
)

# Choices that several of these studies have
SHARED = {
    "shared": Variant({"torso": "shared"}, summary="one torso for policy and critic"),
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

# What "What Matters in On-Policy RL" recommends or advises against
CHOICES = {
    "baseline": Variant({}, summary="the task's own settings"),
    "huber": Variant({"value_error": "huber"}, summary="Huber's value loss instead of squared"),
    "lambda_0.9": Variant({"gae_lambda": 0.9}, summary="0.9 instead of 0.95"),
    "recomputed": SHARED["recomputed"],
    "raw_observations": Variant(
        {"observation_normalization": "none"}, summary="observations as they are"
    ),
    "last_layer_0.01": Variant(
        {"policy_init_scale": 0.01}, summary="a small last layer of the policy"
    ),
    "no_entropy": Variant({"entropy_coefficient": 0.0}, summary="without the entropy bonus"),
    "raw_advantages": SHARED["raw_advantages"],
    "normalised_values": Variant(
        {"value_normalization": "running"}, summary="the critic learns standardised targets"
    ),
    "transitions": Variant(
        {"minibatch_unit": "transitions"}, summary="single steps are shuffled, not segments"
    ),
    "gradient_clip": Variant({"gradient_clip": "global_norm"}, summary="at a norm of 0.5"),
    "percentile": SHARED["percentile"],
    "symlog_targets": SHARED["symlog_targets"],
}

SINGLE_CHOICES = Study(
    name="single_choices",
    title="Single choices",
    claim=(
        "Huber's loss is worse than the squared one; 0.9 is a good lambda; advantages should "
        "be recomputed per pass; observations normalised; the policy's last layer small; "
        "regularisers, normalised advantages and values matter little."
    ),
    claim_source="Andrychowicz et al. 2021; Adkins et al. 2024 of the last two",
    baseline="baseline",
    variants=CHOICES,
    profiles=control(quick=CHOICES, paper=CHOICES)
    | claims(CHOICES, ("reacher", "inverted_double_pendulum", "hopper"))
    | evidence(CHOICES, seeds=40),
)

# The most disputed first
DISCRETE = {
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
    "shared": SHARED["shared"],
    "shared_half_coefficient": Variant(
        {"torso": "shared", "value_coefficient": 0.125},
        versus="shared",
        summary="half of the value coefficient, where the torso is shared",
    ),
    "batch_statistics": SHARED["batch_statistics"],
    "raw_advantages": SHARED["raw_advantages"],
    "percentile": SHARED["percentile"],
    "recomputed": SHARED["recomputed"],
    "symlog_targets": SHARED["symlog_targets"],
}

SINGLE_CHOICES_DISCRETE = Study(
    name="single_choices_discrete",
    title="Single choices on discrete actions",
    claim=(
        "Brax's extra TD step, what a timeout is worth, the value coefficient, the value clip "
        "and the scope of advantage statistics are argued about; do they matter?"
    ),
    claim_source="results/questions.toml has a source for each",
    baseline="baseline",
    variants=DISCRETE,
    metric="evaluation/return",
    profiles=few_actions_of_ppo(DISCRETE, seeds=40, settings_of=JUDGED_ON_TWENTY),
)

PLAYGROUND = {
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
    "shared": SHARED["shared"],
    "shared_double_coefficient": Variant(
        {"torso": "shared", "value_coefficient": 0.5},
        versus="shared",
        summary="twice the value coefficient, where the torso is shared",
    ),
    "batch_statistics": SHARED["batch_statistics"],
    "raw_advantages": SHARED["raw_advantages"],
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

SINGLE_CHOICES_PLAYGROUND = Study(
    name="single_choices_playground",
    title="Single choices on MuJoCo Playground",
    claim=(
        "Brax's extra TD step, what a timeout is worth, the value coefficient, the value clip, "
        "the scope of advantage statistics and what the spread is made of are argued about; do "
        "they matter on MuJoCo Playground?"
    ),
    claim_source="results/questions.toml has a source for each",
    baseline="baseline",
    variants=PLAYGROUND,
    metric="evaluation/return",
    profiles={
        **smoke("reacher_easy", 20_480, PLAYGROUND),
        **profile("quick", ("reacher_easy",), PLAYGROUND, 5, task_settings=JUDGED, score="last"),
        **at_length(("cartpole_swingup", "cheetah_run", "walker_walk", "hopper_hop"), PLAYGROUND),
        **judged(JUDGED, PLAYGROUND, 40, task_settings=JUDGED),
    },
)
