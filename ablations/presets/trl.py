"""TRL's GRPO, Dr. GRPO and RLOO: the defaults of its trainers' configurations, on one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablations.presets.definition import RATE_IN_WORDS, Preset, Read

GRPO_CONFIG = "trl/trainer/grpo_config.py"
GRPO = "trl/trainer/grpo_trainer.py"
RLOO_CONFIG = "trl/trainer/rloo_config.py"
RLOO = "trl/trainer/rloo_trainer.py"
ARGUMENTS_FILE = "transformers/training_args.py"
TORCH_CLIP = "torch/nn/utils/clip_grad.py"

SHARED = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "steps_per_generation": 1,
    "num_iterations": 1,
    "epsilon": 0.2,
    "temperature": 1.0,
    "max_grad_norm": 1.0,
    "adam_epsilon": 1e-8,
    "lr_scheduler_type": "linear",
}
GRPO_ARGUMENTS = {
    **SHARED,
    "num_generations": 8,
    "beta": 0.0,
    "epsilon_high": None,
    "loss_type": "dapo",
    "scale_rewards": "group",
    "importance_sampling_level": "token",
}
RLOO_ARGUMENTS = {**SHARED, "num_generations": 2, "beta": 0.05}

SCALES = {
    "group": "per_prompt",
    "batch": "per_prompt_mean_batch_std",
    "none": "per_prompt_mean",
}
REDUCTIONS = {
    "grpo": "sequence_mean",
    "dapo": "token_mean",
    "bnpo": "token_mean",
    "cispo": "token_mean",
    "dr_grpo": "constant_length",
}
SCHEDULES = {"linear": "linear_per_step", "constant": "constant"}


def shared(a: Mapping[str, Any], config: str) -> dict[str, Read]:
    """What both trainers take from the configuration of all trainers."""
    samples = a["per_device_train_batch_size"] * a["steps_per_generation"]
    return {
        "prompts": (samples // a["num_generations"], config),
        "samples_per_prompt": (a["num_generations"], config),
        "num_minibatches": (a["steps_per_generation"] // a["gradient_accumulation_steps"], config),
        "epochs": (a["num_iterations"], config),
        "critic": ("none", config),
        "advantage_clip": (1e6, config),
        "reward_transform": ("raw", config),
        "entropy_coefficient": (0.0, config),
        "temperature": (a["temperature"], config),
        "gradient_clip": ("global_norm", ARGUMENTS_FILE),
        "max_gradient_norm": (a["max_grad_norm"], ARGUMENTS_FILE),
        "gradient_norm_epsilon": (1e-6, TORCH_CLIP),
        "learning_rate_schedule": (SCHEDULES[a["lr_scheduler_type"]], ARGUMENTS_FILE),
        "adam_epsilon": (a["adam_epsilon"], ARGUMENTS_FILE),
    }


def grpo(a: Mapping[str, Any]) -> dict[str, Read]:
    high = a["epsilon"] if a["epsilon_high"] is None else a["epsilon_high"]
    advantage = SCALES[a["scale_rewards"]]
    read = shared(a, GRPO_CONFIG) | {
        "prompt_advantage": (advantage, GRPO),
        "policy_loss_reduction": (REDUCTIONS[a["loss_type"]], GRPO),
        "kl_placement": ("loss_k3" if a["beta"] else "none", GRPO),
    }
    if a["beta"]:
        read["kl_coefficient"] = (a["beta"], GRPO_CONFIG)
    if advantage != "per_prompt_mean":
        name = "prompt_epsilon" if advantage == "per_prompt" else "samples_epsilon"
        read[name] = (1e-4, GRPO)
    if a["loss_type"] == "cispo":
        return read | {"policy_loss": ("cispo_cap", GRPO), "ratio_cap": (high, GRPO_CONFIG)}
    by_token = a["importance_sampling_level"] == "token"
    return read | {
        "policy_loss": ("clip_higher" if by_token else "gspo", GRPO),
        "clip_epsilon": (a["epsilon"], GRPO_CONFIG),
        "clip_epsilon_high": (high, GRPO_CONFIG),
    }


def rloo(a: Mapping[str, Any]) -> dict[str, Read]:
    return shared(a, RLOO_CONFIG) | {
        "prompt_advantage": ("leave_one_out", RLOO),
        "kl_placement": ("sample_k1" if a["beta"] else "none", RLOO),
        **({"kl_coefficient": (a["beta"], RLOO_CONFIG)} if a["beta"] else {}),
        "policy_loss": ("clip", RLOO),
        "clip_epsilon": (a["epsilon"], RLOO_CONFIG),
        "policy_loss_reduction": ("sequence_sum", RLOO),
    }


IN_WORDS = (
    RATE_IN_WORDS.format("1e-6"),
    "A batch is of one process; with N of them there are N times as many prompts.",
    "Masking completions that were cut off (mask_truncated_completions) is off by default and not "
    "here; nor is the correction for vLLM's own log-probabilities.",
)
LIBRARY = "TRL 1.16.0 (f2cd5771), github.com/huggingface/trl"

PRESETS = (
    Preset(
        name="trl_grpo",
        library=f"{LIBRARY}: GRPOTrainer",
        arguments=GRPO_ARGUMENTS,
        settings=grpo,
        in_words=IN_WORDS,
        trainer="language",
    ),
    Preset(
        name="trl_dr_grpo",
        library=f"{LIBRARY}: GRPOTrainer with loss_type dr_grpo and scale_rewards none",
        arguments={**GRPO_ARGUMENTS, "loss_type": "dr_grpo", "scale_rewards": "none"},
        settings=grpo,
        in_words=IN_WORDS,
        trainer="language",
    ),
    Preset(
        name="trl_rloo",
        library=f"{LIBRARY}: RLOOTrainer",
        arguments=RLOO_ARGUMENTS,
        settings=rloo,
        in_words=(
            *IN_WORDS,
            "The ratio is that of the whole completion, the sum of its tokens' log ratios; here it "
            "is each token's. At one step per batch, the default, all ratios are 1.",
        ),
        trainer="language",
    ),
)
