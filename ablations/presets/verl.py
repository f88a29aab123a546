"""verl's GRPO: the defaults of its actor, with what its GRPO examples set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablations.presets.definition import RATE_IN_WORDS, Preset, Read

ACTOR = "verl/trainer/config/actor/actor.yaml"
ALGOS = "verl/trainer/ppo/core_algos.py"
SCRIPT = "examples/grpo_trainer/run_qwen2-7b.sh"
ROLLOUT = "verl/trainer/config/rollout/rollout.yaml"
TORCH_CLIP = "torch/nn/utils/clip_grad.py"
TORCH_ADAM = "torch/optim/adamw.py"

ARGUMENTS = {
    "train_batch_size": 1024,
    "rollout_n": 5,
    "ppo_mini_batch_size": 256,
    "ppo_epochs": 1,
    "norm_adv_by_std_in_grpo": True,
    "clip_ratio": 0.2,
    "clip_ratio_c": 3.0,
    "loss_agg_mode": "token-mean",
    "use_kl_loss": True,
    "kl_loss_coef": 0.001,
    "entropy_coeff": 0.0,
    "grad_clip": 1.0,
    "temperature": 1.0,
}
REDUCTIONS = {
    "token-mean": "token_mean",
    "seq-mean-token-mean": "sequence_mean",
    "seq-mean-token-sum": "sequence_sum",
}


def settings(a: Mapping[str, Any]) -> dict[str, Read]:
    scaled = a["norm_adv_by_std_in_grpo"]
    return {
        "prompts": (a["train_batch_size"], SCRIPT),
        "samples_per_prompt": (a["rollout_n"], SCRIPT),
        "num_minibatches": (a["train_batch_size"] // a["ppo_mini_batch_size"], SCRIPT),
        "epochs": (a["ppo_epochs"], ACTOR),
        "critic": ("none", SCRIPT),
        "prompt_advantage": ("per_prompt" if scaled else "per_prompt_mean", ALGOS),
        **({"prompt_epsilon": (1e-6, ALGOS)} if scaled else {}),
        "advantage_clip": (1e6, ALGOS),
        "reward_transform": ("raw", ALGOS),
        "kl_placement": ("loss_k3" if a["use_kl_loss"] else "none", SCRIPT),
        **({"kl_coefficient": (a["kl_loss_coef"], SCRIPT)} if a["use_kl_loss"] else {}),
        "policy_loss": ("dual_clip_higher", ALGOS),
        "clip_epsilon": (a["clip_ratio"], ACTOR),
        "clip_epsilon_high": (a["clip_ratio"], ACTOR),
        "dual_clip": (a["clip_ratio_c"], ACTOR),
        "policy_loss_reduction": (REDUCTIONS[a["loss_agg_mode"]], ACTOR),
        "entropy_coefficient": (a["entropy_coeff"], SCRIPT),
        "temperature": (a["temperature"], ROLLOUT),
        "gradient_clip": ("global_norm", ACTOR),
        "max_gradient_norm": (a["grad_clip"], ACTOR),
        "gradient_norm_epsilon": (1e-6, TORCH_CLIP),
        "learning_rate_schedule": ("constant", ACTOR),
        "adam_epsilon": (1e-8, TORCH_ADAM),
    }


PRESET = Preset(
    name="verl_grpo",
    library=f"verl b178a3cd, github.com/volcengine/verl: GRPO, {SCRIPT}",
    arguments=ARGUMENTS,
    settings=settings,
    in_words=(
        RATE_IN_WORDS.format("1e-6"),
        "AdamW's weight decay is .01, here there is none.",
        "A KL controller, the penalty in the reward (use_kl_in_reward) and overlong masking are "
        "off in that script and not here.",
    ),
    trainer="language",
)
