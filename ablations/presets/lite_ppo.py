"""Lite PPO: two techniques over a PPO without a critic, as its paper describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablations.presets.definition import RATE_IN_WORDS, Preset, Read

PAPER = "Liu et al. 2025, arXiv 2508.08221"
TORCH_CLIP = "torch/nn/utils/clip_grad.py"
TORCH_ADAM = "torch/optim/adamw.py"

ARGUMENTS = {
    "prompts": 128,
    "num_return_sequences_in_group": 8,
    "ppo_epochs": 1,
    "pg_clip": 0.2,
}


def settings(a: Mapping[str, Any]) -> dict[str, Read]:
    return {
        "prompts": (a["prompts"], PAPER),
        "samples_per_prompt": (a["num_return_sequences_in_group"], PAPER),
        "num_minibatches": (1, PAPER),
        "epochs": (a["ppo_epochs"], PAPER),
        "critic": ("none", PAPER),
        "prompt_advantage": ("per_prompt_mean_batch_std", PAPER),
        "samples_epsilon": (1e-4, "trl/trainer/grpo_trainer.py (scale_rewards batch)"),
        "advantage_clip": (1e6, PAPER),
        "reward_transform": ("raw", PAPER),
        "kl_placement": ("none", PAPER),
        "policy_loss": ("clip", PAPER),
        "clip_epsilon": (a["pg_clip"], PAPER),
        "policy_loss_reduction": ("token_mean", PAPER),
        "entropy_coefficient": (0.0, PAPER),
        "temperature": (1.0, PAPER),
        "gradient_clip": ("global_norm", PAPER),
        "max_gradient_norm": (1.0, PAPER),
        "gradient_norm_epsilon": (1e-6, TORCH_CLIP),
        "learning_rate_schedule": ("constant", PAPER),
        "adam_epsilon": (1e-8, TORCH_ADAM),
    }


PRESET = Preset(
    name="lite_ppo",
    library=f"Lite PPO ({PAPER})",
    arguments=ARGUMENTS,
    settings=settings,
    in_words=(
        RATE_IN_WORDS.format("1e-6"),
        "What the paper is about are the advantage and the token mean. Its code was not read: the "
        "sizes of the batch, the clips and the temperature are second hand, and what it says "
        "nothing of is as in PPO. ROLL's page on Lite PPO has a divergence in the loss of .001, "
        "which is not part of what the paper argues for.",
    ),
    trainer="language",
)
