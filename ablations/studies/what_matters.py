"""Twenty-four details of PPO, each changed in half of 64 settings."""

from ablations.core.plan import Settings
from ablations.studies.definition import Study, fraction, register
from ablations.studies.profiles import control, evidence

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

register(
    Study(
        name="what_matters",
        title="What matters in PPO",
        claim="A detail can be judged by its mean effect over many settings of all the others.",
        claim_source="Andrychowicz et al. 2021, whose settings are random",
        baseline="baseline",
        variants=VARIANTS,
        margin=0.05,
        metric="evaluation/return",
        profiles=control(quick=VARIANTS, paper=VARIANTS) | evidence(VARIANTS, seeds=8),
    )
)
