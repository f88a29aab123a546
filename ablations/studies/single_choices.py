"""Single choices that "What Matters in On-Policy RL" recommends or advises against."""

from ablations.studies.definition import Study, Variant, register
from ablations.studies.profiles import claims, control, evidence

CHOICES = {
    "baseline": Variant({}, summary="the task's own settings"),
    "huber": Variant({"value_error": "huber"}, summary="Huber's value loss instead of squared"),
    "lambda_0.9": Variant({"gae_lambda": 0.9}, summary="0.9 instead of 0.95"),
    "recomputed": Variant(
        {"advantage_timing": "epoch"}, summary="advantages anew before every pass"
    ),
    "raw_observations": Variant(
        {"observation_normalization": "none"}, summary="observations as they are"
    ),
    "last_layer_0.01": Variant(
        {"policy_init_scale": 0.01}, summary="a small last layer of the policy"
    ),
    "no_entropy": Variant({"entropy_coefficient": 0.0}, summary="without the entropy bonus"),
    "raw_advantages": Variant({"advantage_statistics": "none"}, summary="advantages as they are"),
    "normalised_values": Variant(
        {"value_normalization": "running"}, summary="the critic learns standardised targets"
    ),
    "transitions": Variant(
        {"minibatch_unit": "transitions"}, summary="single steps are shuffled, not segments"
    ),
    "gradient_clip": Variant({"gradient_clip": "global_norm"}, summary="at a norm of 0.5"),
    "percentile": Variant(
        {"advantage_statistics": "none", "advantage_scaling": "percentile"},
        versus="raw_advantages",
        summary="advantages scaled down by percentiles of the returns",
    ),
    "symlog_targets": Variant(
        {"value_normalization": "symlog"}, summary="the critic learns symlog targets"
    ),
}

register(
    Study(
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
        margin=0.05,
        profiles=control(quick=CHOICES, paper=CHOICES)
        | claims(CHOICES, ("reacher", "inverted_double_pendulum", "hopper"))
        | evidence(CHOICES, seeds=40),
    )
)
