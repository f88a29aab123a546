"""TRL's GRPO, Dr. GRPO and RLOO: the defaults of its trainers' configurations, one process."""

from __future__ import annotations

from typing import Any

from ablations.presets.arguments import UNBOUNDED, refused, setting
from ablations.presets.definition import RATE_IN_WORDS, Argument, Arguments, Preset, Read

GRPO_CONFIG = "trl/trainer/grpo_config.py"
GRPO = "trl/trainer/grpo_trainer.py"
RLOO_CONFIG = "trl/trainer/rloo_config.py"
RLOO = "trl/trainer/rloo_trainer.py"
SHUFFLE = "trl/trainer/utils.py (shuffle_sequence_dict)"
ARGUMENTS_FILE = "transformers/training_args.py"
TORCH_CLIP = "torch/nn/utils/clip_grad.py"

SHARED: dict[str, Any] = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "steps_per_generation": None,
    "generation_batch_size": None,
    "num_iterations": Argument(1, "epochs", GRPO_CONFIG),
    "epsilon": 0.2,
    "epsilon_high": None,
    "temperature": Argument(1.0, "temperature", GRPO_CONFIG),
    "max_grad_norm": Argument(1.0, "max_gradient_norm", ARGUMENTS_FILE),
    "adam_epsilon": Argument(1e-8, "adam_epsilon", ARGUMENTS_FILE),
    "lr_scheduler_type": "linear",
}
GRPO_ARGUMENTS = {
    **SHARED,
    "num_generations": Argument(8, "samples_per_prompt", GRPO_CONFIG),
    "beta": 0.0,
    "use_bias_correction_kl": True,
    "delta": None,
    "sapo_temperature_pos": 1.0,
    "sapo_temperature_neg": 1.05,
    "loss_type": "dapo",
    "scale_rewards": "group",
    "importance_sampling_level": "token",
}
RLOO_ARGUMENTS = {
    **SHARED,
    "num_iterations": Argument(1, "epochs", RLOO_CONFIG),
    "temperature": Argument(1.0, "temperature", RLOO_CONFIG),
    "num_generations": Argument(2, "samples_per_prompt", RLOO_CONFIG),
    "beta": 0.05,
}
# Arguments without a setting
OF_BOTH = {
    "mask_truncated_completions": (False, "completions that were cut off teach nothing"),
    "sync_ref_model": (False, "the reference follows the policy"),
    "top_p": (1.0, "a truncated distribution to sample from"),
    "top_k": (0, "a truncated distribution to sample from"),
    "min_p": (None, "a truncated distribution to sample from"),
    "repetition_penalty": (1.0, "another distribution to sample from"),
    "use_vllm": (False, "another sampler, and the correction for its log-probabilities"),
}
OF_GRPO = OF_BOTH | {
    "multi_objective_aggregation": ("sum_then_normalize", "several rewards"),
    "entropy_coef": (
        0.0,
        "a mean over tokens whatever the loss_type; entropy_coefficient goes through "
        "policy_loss_reduction",
    ),
    "use_adaptive_entropy": (False, "a controller of the entropy's coefficient"),
    "top_entropy_quantile": (1.0, "a loss of the most uncertain tokens alone"),
    "off_policy_mask_threshold": (None, "bad completions far from the sampler teach nothing"),
}
OF_RLOO = OF_BOTH | {
    "normalize_advantages": (False, "advantages divided by their std + 1e-4"),
    "reward_clip_range": (None, "rewards clipped before the divergence is taken off"),
}

SCALES: dict[str | bool, str] = {
    "group": "per_prompt",
    True: "per_prompt",
    "batch": "per_prompt_mean_batch_std",
    "none": "per_prompt_mean",
    False: "per_prompt_mean",
}
REDUCTIONS = {
    "grpo": "sequence_mean",
    "dapo": "batch_token_mean",
    "bnpo": "token_mean",
    "cispo": "batch_token_mean",
    "dr_grpo": "constant_length",
    "luspo": "sequence_sum",
    "sapo": "sequence_mean",
}
LEVELS = {"token": "clip_higher", "sequence": "gspo"}
SCHEDULES = {"linear": "linear_per_step", "constant": "constant"}


def batch(a: Arguments) -> tuple[int, int]:
    """Return the completions of a batch, and Adam's steps per batch."""
    size, parts = a["per_device_train_batch_size"], a["gradient_accumulation_steps"]
    steps, total = a["steps_per_generation"], a["generation_batch_size"]
    if total is not None:
        if steps is not None:
            raise refused(
                f"steps_per_generation={steps} with generation_batch_size={total}", "give one"
            )
        if total % size:
            raise refused(
                f"generation_batch_size={total}", f"it is a multiple of {size}, the device's batch"
            )
        steps = total // size
    steps = parts if steps is None else steps
    if steps % parts:
        raise refused(
            f"a step of Adam over several batches (gradient_accumulation_steps={parts}, "
            f"steps_per_generation={steps})",
            "the first must divide the second",
        )
    if steps * size % a["num_generations"]:
        raise refused(
            f"a batch of {steps * size} completions with num_generations={a['num_generations']}",
            "the second must divide the first",
        )
    return steps * size, steps // parts


def shared(a: Arguments, config: str) -> dict[str, Read]:
    """Return the settings that GRPO and RLOO share."""
    samples, steps = batch(a)
    return {
        "prompts": (samples // a["num_generations"], config),
        "num_minibatches": (steps, config),
        "completion_unit": ("samples", SHUFFLE),
        "minibatch_order": ("reused", SHUFFLE),
        "critic": ("none", config),
        "advantage_clip": (1e6, config),
        "reward_transform": ("raw", config),
        "log_ratio_clip": (UNBOUNDED, config),
        "entropy_coefficient": (0.0, config),
        "gradient_clip": ("global_norm", ARGUMENTS_FILE),
        "gradient_norm_epsilon": (1e-6, TORCH_CLIP),
        "learning_rate_schedule": (setting(a, "lr_scheduler_type", SCHEDULES), ARGUMENTS_FILE),
    }


def highest(a: Arguments) -> float:
    """Return the upper ε of the ratio. With cispo it is the cap, whose default is below 1."""
    return float(a["epsilon"] if a["epsilon_high"] is None else a["epsilon_high"])


def clips(a: Arguments, config: str) -> dict[str, Read]:
    """Return the bounds of the ratio."""
    return {"clip_epsilon": (a["epsilon"], config), "clip_epsilon_high": (highest(a), config)}


def divergence(a: Arguments, placement: str, file: str, config: str) -> dict[str, Read]:
    """Return the settings of the divergence from the reference; with beta 0 there is none."""
    if not a["beta"]:
        return {"kl_placement": ("none", file)}
    return {
        "kl_placement": (placement, file),
        "kl_coefficient": (a["beta"], config),
        "kl_clip": (UNBOUNDED, file),
        "kl_log_ratio_clip": (UNBOUNDED, file),
    }


def policy_loss(a: Arguments) -> dict[str, Read]:
    """Return the settings of GRPO's policy loss."""
    clipped = setting(a, "importance_sampling_level", LEVELS)
    by_token = clipped == "clip_higher"
    if a["loss_type"] in ("cispo", "sapo"):
        if not by_token:
            raise refused(
                f"{a['loss_type']} with importance_sampling_level=sequence", "use token, or dapo"
            )
        if a["loss_type"] == "cispo":
            return {"policy_loss": ("cispo_cap", GRPO), "ratio_cap": (highest(a), GRPO_CONFIG)}
        return {
            "policy_loss": ("sapo", GRPO),
            "sapo_temperature": (a["sapo_temperature_pos"], GRPO_CONFIG),
            "sapo_temperature_negative": (a["sapo_temperature_neg"], GRPO_CONFIG),
        }
    if a["delta"] is None:
        return {"policy_loss": (clipped, GRPO)} | clips(a, GRPO_CONFIG)
    if not by_token or a["delta"] < 1 + highest(a):
        raise refused(
            f"delta={a['delta']}",
            f"use importance_sampling_level=token and a delta of 1 + {highest(a)} or more",
        )
    return {
        "policy_loss": ("dual_clip_higher", GRPO),
        "dual_clip": (a["delta"], GRPO_CONFIG),
    } | clips(a, GRPO_CONFIG)


def grpo(a: Arguments) -> dict[str, Read]:
    """Translate GRPOTrainer's arguments to our settings."""
    reduction = setting(a, "loss_type", REDUCTIONS)
    if a["loss_type"] == "bnpo" and a["gradient_accumulation_steps"] > 1:
        raise refused(
            "bnpo with gradient_accumulation_steps > 1, a divisor for each part of a step",
            "use 1, or dapo",
        )
    corrected = a["use_bias_correction_kl"]
    if a["beta"] and corrected and a["importance_sampling_level"] == "sequence":
        raise refused(
            "a divergence times the ratio of a sequence (beta with use_bias_correction_kl and "
            "importance_sampling_level=sequence)",
            "set use_bias_correction_kl=False, or importance_sampling_level=token",
        )
    advantage = setting(a, "scale_rewards", SCALES)
    placement = "loss_k3_corrected" if corrected else "loss_k3"
    read = shared(a, GRPO_CONFIG) | policy_loss(a) | divergence(a, placement, GRPO, GRPO_CONFIG)
    read |= {"prompt_advantage": (advantage, GRPO), "policy_loss_reduction": (reduction, GRPO)}
    if advantage != "per_prompt_mean":
        name = "prompt_epsilon" if advantage == "per_prompt" else "samples_epsilon"
        read[name] = (1e-4, GRPO)
    return read


def rloo(a: Arguments) -> dict[str, Read]:
    """Translate RLOOTrainer's arguments to our settings."""
    return {
        **shared(a, RLOO_CONFIG),
        **clips(a, RLOO_CONFIG),
        **divergence(a, "sample_k1", RLOO, RLOO_CONFIG),
        "prompt_advantage": ("leave_one_out", RLOO),
        "policy_loss": ("clip_sequence", RLOO),
        "policy_loss_reduction": ("sequence_mean", RLOO),
    }


IN_WORDS = (
    RATE_IN_WORDS.format("1e-6"),
    "A batch is of one process; with N of them there are N times as many prompts, and each "
    "shuffles its own completions.",
    "Its mean over completions counts those without a token (mask_truncated_completions makes "
    "them), here there are none. The loss vespo, more than one reward, and replacing the sampler "
    "by vLLM are not here.",
)
LIBRARY = "TRL 1.16.0 (PyPI), github.com/huggingface/trl"

PRESETS = (
    Preset(
        name="trl_grpo",
        library=f"{LIBRARY}: GRPOTrainer",
        arguments=GRPO_ARGUMENTS,
        settings=grpo,
        unexpressed=OF_GRPO,
        in_words=IN_WORDS,
        trainer="language",
    ),
    Preset(
        name="trl_dr_grpo",
        library=f"{LIBRARY}: GRPOTrainer with loss_type dr_grpo and scale_rewards none",
        arguments={**GRPO_ARGUMENTS, "loss_type": "dr_grpo", "scale_rewards": "none"},
        settings=grpo,
        unexpressed=OF_GRPO,
        in_words=IN_WORDS,
        trainer="language",
    ),
    Preset(
        name="trl_rloo",
        library=f"{LIBRARY}: RLOOTrainer",
        arguments=RLOO_ARGUMENTS,
        settings=rloo,
        unexpressed=OF_RLOO,
        in_words=IN_WORDS,
        trainer="language",
    ),
)
