"""Eleven details of PPO on discrete actions, each changed in half of 32 settings."""

from ablations.core.plan import Settings
from ablations.studies.definition import Study, fraction, register
from ablations.studies.few_actions import few_actions_of_ppo

# Changes of PureJaxRL's settings, which are the tasks' settings. Five columns are unused and serve
# as controls.
CHANGES: dict[str, Settings] = {
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
VARIANTS = fraction(CHANGES)

register(
    Study(
        name="what_matters_discrete",
        title="What matters in PPO on discrete actions",
        claim="A detail can be judged by its mean effect over many settings of all the others.",
        claim_source="Andrychowicz et al. 2021, whose actions are continuous",
        baseline="baseline",
        variants=VARIANTS,
        margin=0.05,
        metric="evaluation/return",
        profiles=few_actions_of_ppo(VARIANTS, seeds=16),
    )
)
