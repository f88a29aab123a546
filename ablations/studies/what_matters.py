"""Studies of many details at once: each is changed in half of the settings of a fraction."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ablations.core.plan import Settings
from ablations.studies.definition import Study, fraction
from ablations.studies.profiles import (
    JUDGED_ON_TWENTY,
    claims,
    control,
    evidence,
    few_actions_of_ppo,
)

CLAIM = "A detail can be judged by its mean effect over many settings of all the others."

# Continuous actions

# Changes of the profile's baseline. Advantages that are recomputed for every pass are missing: they
# do not work with running statistics of values.
CHANGES: dict[str, Settings] = {
    "a third of the learning rate": {"learning_rate": 3e-4},
    "lambda 0.9": {"gae_lambda": 0.9},
    "discount 0.97": {"discount": 0.97},
    "Brax's GAE": {"advantage": "brax"},
    "raw advantages": {"advantage_statistics": "none"},
    "clip range 0.1": {"clip_epsilon": 0.1},
    "Huber's value loss": {"value_error": "huber"},
    "value clip": {"value_clip": "pessimistic"},
    "value coefficient 1": {"value_coefficient": 1.0},
    "running statistics of values": {"value_normalization": "running"},
    "gradient clip": {"gradient_clip": "global_norm"},
    "shared torso": {"torso": "shared"},
    "no entropy bonus": {"entropy_coefficient": 0.0},
    "raw observations": {"observation_normalization": "none"},
    "rewards by the std of returns": {"reward_scaling": "running_return_std", "reward_scale": 1.0},
    "single transitions": {"minibatch_unit": "transitions"},
    "std as a parameter": {"policy_std": "exp_parameter"},
    "clipped normal": {"action_distribution": "normal"},
    "orthogonal weights": {"network_init": "orthogonal"},
    "small last layer": {"policy_init_scale": 0.01},
    "Adam's epsilon 1e-5": {"adam_epsilon": 1e-5},
    "swish": {"activation": "swish"},
    "falling learning rate": {"learning_rate_schedule": "linear"},
    "LayerNorm in the critic": {"network_normalization": "critic"},
}
VARIANTS = fraction(CHANGES)

WHAT_MATTERS = Study(
    name="what_matters",
    title="What matters in PPO",
    claim=CLAIM,
    claim_source="Andrychowicz et al. 2021, whose settings are random",
    baseline="baseline",
    variants=VARIANTS,
    metric="evaluation/return",
    profiles=control(quick=VARIANTS, paper=VARIANTS) | evidence(VARIANTS, seeds=8),
)

# Changes of the task's settings. Running statistics of values are missing: they do not work with
# advantages that are recomputed for every pass.
FIFTEEN: dict[str, Settings] = {
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
FIFTEEN_VARIANTS = fraction(FIFTEEN)

MANY_CHOICES = Study(
    name="many_choices",
    title="Many choices in one fractional factorial",
    claim="A choice can be judged by its mean effect over many settings of all the others.",
    claim_source="Andrychowicz et al. 2021, whose settings are random",
    baseline="baseline",
    variants=FIFTEEN_VARIANTS,
    profiles=control(quick=FIFTEEN_VARIANTS, paper=FIFTEEN_VARIANTS)
    | claims(FIFTEEN_VARIANTS, ("reacher", "inverted_double_pendulum", "hopper")),
)


# Discrete actions

# Changes of PureJaxRL's settings, which are the tasks' settings. Five columns are unused and serve
# as controls.
ELEVEN: dict[str, Settings] = {
    "lambda 0.9": {"gae_lambda": 0.9},
    "discount 0.97": {"discount": 0.97},
    "raw advantages": {"advantage_statistics": "none"},
    "clip range 0.1": {"clip_epsilon": 0.1},
    "no value clip": {"value_clip": "none"},
    "no gradient clip": {"gradient_clip": "none"},
    "shared torso": {"torso": "shared"},
    "no entropy bonus": {"entropy_coefficient": 0.0},
    "LeCun's weights": {"network_init": "lecun_normal"},
    "Adam's epsilon 1e-8": {"adam_epsilon": 1e-8},
    "LayerNorm in the critic": {"network_normalization": "critic"},
}
ELEVEN_VARIANTS = fraction(ELEVEN)

WHAT_MATTERS_DISCRETE = Study(
    name="what_matters_discrete",
    title="What matters in PPO on discrete actions",
    claim=CLAIM,
    claim_source="Andrychowicz et al. 2021, whose actions are continuous",
    baseline="baseline",
    variants=ELEVEN_VARIANTS,
    metric="evaluation/return",
    profiles=few_actions_of_ppo(ELEVEN_VARIANTS, seeds=16),
)

# Changes of PureJaxRL's settings, which are the tasks' settings. The 32 variants of
# `what_matters_discrete` leave five columns to estimate the error. The first 128 variants here left
# 42, which showed large three-factor interactions on acrobot; the further 128 halve these.
TWENTY_TWO: dict[str, Settings] = {
    **ELEVEN,
    "a third of the learning rate": {"learning_rate": 1e-3 / 3},
    "falling learning rate": {"learning_rate_schedule": "linear"},
    "timeouts bootstrap": {"advantage": "standard"},
    "Huber's value loss": {"value_error": "huber"},
    "value coefficient 1": {"value_coefficient": 1.0},
    "running statistics of values": {"value_normalization": "running"},
    "normalised observations": {"observation_normalization": "before"},
    "rewards by the std of returns": {"reward_scaling": "running_return_std"},
    "segments": {"minibatch_unit": "segments"},
    "large last layer": {"policy_init_scale": 1.0},
    "swish": {"activation": "swish"},
}
# At validated settings the tasks have different learning rates: this detail is relative to them.
THIRD = {"a third of the learning rate": {"learning_rate": "x1/3"}}


def _many(name: str, title: str, changes: Mapping[str, Settings], **profiles: Any) -> Study:
    """Return a study of 22 details in two fractions of 128, of which `quick` has the first."""
    variants = fraction(changes, size=128, doubled=True)
    made = few_actions_of_ppo(variants, **profiles)
    made["quick"] = replace(made["quick"], seeds=2, variants=tuple(variants)[:128])
    return Study(
        name=name,
        title=f"What matters in PPO on discrete actions, of 22 details{title}",
        claim=CLAIM,
        claim_source="Andrychowicz et al. 2021, whose actions are continuous",
        baseline="baseline",
        variants=variants,
        metric="evaluation/return",
        profiles=made,
    )


MANY_DETAILS_DISCRETE = _many("many_details_discrete", "", TWENTY_TWO, seeds=3)
MANY_DETAILS_VALIDATED = _many(
    "many_details_validated",
    " at validated settings",
    TWENTY_TWO | THIRD,
    seeds=(100, 101, 102),
    settings_of=JUDGED_ON_TWENTY,
)
