"""OpenRLHF's REINFORCE++ and REINFORCE++-baseline: `train_ppo_ray` with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablations.presets.definition import RATE_IN_WORDS, Preset, Read

CLI = "openrlhf/cli/train_ppo_ray.py"
LOSS = "openrlhf/models/loss.py"
EXPERIENCE = "openrlhf/trainer/ppo_utils/experience_maker.py"
SCRIPT = "examples/scripts/train_reinforce_baseline_hybrid_engine.sh"
TORCH_CLIP = "torch/nn/utils/clip_grad.py"
TORCH_ADAM = "torch/optim/adamw.py"

ARGUMENTS = {
    "advantage_estimator": "reinforce",
    "rollout_batch_size": 1024,
    "n_samples_per_prompt": 1,
    "train_batch_size": 128,
    "max_epochs": 1,
    "eps_clip": 0.2,
    "init_kl_coef": 0.01,
    "use_kl_loss": False,
    "kl_estimator": "k1",
    "reward_clip_range": 10.0,
    "entropy_loss_coef": 0.0,
    "max_norm": 1.0,
    "temperature": 1.0,
}
ESTIMATORS = {"reinforce": "batch", "reinforce_baseline": "per_prompt_baseline_batch"}


def settings(a: Mapping[str, Any]) -> dict[str, Read]:
    samples = a["rollout_batch_size"] * a["n_samples_per_prompt"]
    placement = f"loss_{a['kl_estimator']}" if a["use_kl_loss"] else "reward_k1"
    return {
        "prompts": (a["rollout_batch_size"], CLI),
        "samples_per_prompt": (a["n_samples_per_prompt"], CLI),
        "num_minibatches": (samples // a["train_batch_size"], CLI),
        "epochs": (a["max_epochs"], CLI),
        "critic": ("none", CLI),
        "prompt_advantage": (ESTIMATORS[a["advantage_estimator"]], EXPERIENCE),
        "advantage_clip": (a["reward_clip_range"], EXPERIENCE),
        "reward_transform": ("raw", EXPERIENCE),
        "kl_placement": (placement, EXPERIENCE),
        "kl_coefficient": (a["init_kl_coef"], CLI),
        "policy_loss": ("clip", LOSS),
        "clip_epsilon": (a["eps_clip"], CLI),
        "policy_loss_reduction": ("token_mean", LOSS),
        "entropy_coefficient": (a["entropy_loss_coef"], CLI),
        "temperature": (a["temperature"], CLI),
        "gradient_clip": ("global_norm", CLI),
        "max_gradient_norm": (a["max_norm"], CLI),
        "gradient_norm_epsilon": (1e-6, TORCH_CLIP),
        "learning_rate_schedule": ("constant", CLI),
        "adam_epsilon": (1e-8, TORCH_ADAM),
    }


IN_WORDS = (
    RATE_IN_WORDS.format("1e-6"),
    "Adam's betas are .9 and .95, here .9 and .999; the rate warms up over 3% of the run and "
    "follows a cosine to a tenth, here it is constant.",
    "The reward clip is of ±10 after the prompt's baseline, which is what advantage_clip is.",
)
LIBRARY = "OpenRLHF 3c3be623, github.com/OpenRLHF/OpenRLHF"

PRESETS = (
    Preset(
        name="openrlhf_reinforce_pp",
        library=f"{LIBRARY}: REINFORCE++ (advantage_estimator reinforce)",
        arguments=ARGUMENTS,
        settings=settings,
        in_words=IN_WORDS,
        trainer="language",
    ),
    Preset(
        name="openrlhf_reinforce_pp_baseline",
        library=f"{LIBRARY}: REINFORCE++-baseline, {SCRIPT}",
        arguments={
            **ARGUMENTS,
            "advantage_estimator": "reinforce_baseline",
            "rollout_batch_size": 128,
            "n_samples_per_prompt": 8,
            "train_batch_size": 1024,
            "init_kl_coef": 1e-5,
            "use_kl_loss": True,
            "kl_estimator": "k2",
        },
        settings=settings,
        in_words=(
            *IN_WORDS,
            "The script's rate is 5e-7. It also leaves out prompts whose samples are all right or "
            "all wrong and draws others for them (dynamic_filtering), and weighs tokens by the "
            "mismatch of its sampler (icepop): neither is here.",
        ),
        trainer="language",
    ),
)
