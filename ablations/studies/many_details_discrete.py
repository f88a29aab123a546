"""Twenty-two details of PPO on discrete actions, each changed in half of 256 settings."""

from dataclasses import replace

from ablations.core.plan import Settings
from ablations.studies.definition import Study, fraction, register
from ablations.studies.few_actions import few_actions_of_ppo
from ablations.studies.what_matters_discrete import CHANGES as ELEVEN

# Changes of PureJaxRL's settings, which are the tasks' settings. The 32 variants of
# `what_matters_discrete` leave five columns to estimate the error. The first 128 variants here left
# 42, which showed large three-factor interactions on acrobot; the further 128 halve these.
CHANGES: dict[str, Settings] = {
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
VARIANTS = fraction(CHANGES, size=128, doubled=True)
_PROFILES = few_actions_of_ppo(VARIANTS, seeds=3)
_PROFILES["quick"] = replace(  # the first half, which takes minutes
    _PROFILES["quick"], seeds=2, variants=tuple(VARIANTS)[:128]
)

register(
    Study(
        name="many_details_discrete",
        title="What matters in PPO on discrete actions, of 22 details",
        claim="A detail can be judged by its mean effect over many settings of all the others.",
        claim_source="Andrychowicz et al. 2021, whose actions are continuous",
        baseline="baseline",
        variants=VARIANTS,
        margin=0.05,
        metric="evaluation/return",
        profiles=_PROFILES,
    )
)
