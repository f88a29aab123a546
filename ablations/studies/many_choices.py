"""Fifteen choices, each made in half of 32 settings."""

from ablations.core.plan import Settings
from ablations.studies.definition import Study, fraction, register
from ablations.studies.profiles import claims, control

# Changes of the task's settings. Running statistics of values are missing: they do not work with
# advantages that are recomputed for every pass.
CHANGES: dict[str, Settings] = {
    "Huber's value loss": {"value_error": "huber"},
    "lambda 0.9": {"gae_lambda": 0.9},
    "advantages anew for every pass": {"advantage_timing": "epoch"},
    "raw observations": {"observation_normalization": "none"},
    "small last layer": {"policy_init_scale": 0.01},
    "no entropy bonus": {"entropy_coefficient": 0.0},
    "raw advantages": {"advantage_statistics": "none"},
    "symlog value targets": {"value_normalization": "symlog"},
    "single transitions": {"minibatch_unit": "transitions"},
    "gradient clip": {"gradient_clip": "global_norm"},
    "value clip": {"value_clip": "pessimistic"},
    "shared torso": {"torso": "shared"},
    "value coefficient 0.5": {"value_coefficient": 0.5},
    "Brax's GAE": {"advantage": "brax"},
    "falling learning rate": {"learning_rate_schedule": "linear"},
}
VARIANTS = fraction(CHANGES)

register(
    Study(
        name="many_choices",
        title="Many choices in one fractional factorial",
        claim="A choice can be judged by its mean effect over many settings of all the others.",
        claim_source="Andrychowicz et al. 2021, whose settings are random",
        baseline="baseline",
        variants=VARIANTS,
        margin=0.05,
        profiles=control(quick=VARIANTS, paper=VARIANTS)
        | claims(VARIANTS, ("reacher", "inverted_double_pendulum", "hopper")),
    )
)
