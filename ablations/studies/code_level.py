"""Does PPO's clip matter, or the other optimisations in its code?"""

from ablations.core.plan import Settings
from ablations.studies.definition import Study, Variant
from ablations.studies.profiles import claims, control

# The optimisations of openai/baselines besides the clip, as far as there are settings for them.
# All variants have tanh networks and the same learning rate.
WITH: Settings = {
    "value_clip": "pessimistic",
    "reward_scaling": "running_return_std",
    "reward_scale": 1.0,
    "network_init": "orthogonal",
    "policy_init_scale": 0.01,
    "learning_rate_schedule": "linear",
    "observation_normalization": "after",
    "observation_scaling": "epsilon_clipped",
    "gradient_clip": "global_norm",
}
WITHOUT: Settings = {
    "value_clip": "none",
    "reward_scaling": "constant",
    "reward_scale": 1.0,
    "network_init": "lecun_uniform",
    "policy_init_scale": 1.0,
    "learning_rate_schedule": "constant",
    "observation_normalization": "none",
    "gradient_clip": "none",
}
VARIANTS = {
    "ppo": Variant({**WITH, "policy_loss": "clip"}, summary="clip and all optimisations"),
    "ppo_m": Variant({**WITHOUT, "policy_loss": "clip"}, summary="the clip alone: PPO-M"),
    "ppo_no_clip": Variant(
        {**WITH, "policy_loss": "none"}, summary="all optimisations, without the clip"
    ),
    "plain": Variant({**WITHOUT, "policy_loss": "none"}, summary="neither"),
}

STUDY = Study(
    name="code_level",
    title="Code-level optimisations and the clip",
    claim=(
        "Most of what PPO gains comes from its code-level optimisations, not from clipping the "
        "policy ratio."
    ),
    claim_source="Engstrom et al. 2020 (Implementation Matters in Deep Policy Gradients)",
    baseline="ppo",
    variants=VARIANTS,
    profiles=control(quick=VARIANTS, paper=VARIANTS) | claims(VARIANTS),
)
