"""Lite PPO: two techniques for PPO without a critic, in ROLL, the framework of its paper."""

from __future__ import annotations

from ablations.presets.arguments import UNBOUNDED, setting
from ablations.presets.definition import RATE_IN_WORDS, Argument, Arguments, Preset, Read

PAPER = "Liu et al. 2025, arXiv 2508.08221"
PAGE = "docs_roll/docs/User Guides/Algorithms/LitePPO.md"
CONFIG = "roll/configs/base_config.py"
FUNCTIONALS = "roll/utils/functionals.py"
WORKER = "roll/pipeline/base_worker.py"
ACTOR = "roll/pipeline/rlvr/actor_worker.py"
TORCH_CLIP = "torch/nn/utils/clip_grad.py"
TORCH_ADAM = "torch/optim/adamw.py"

ARGUMENTS = {
    "rollout_batch_size": Argument(512, "prompts", PAGE),
    "num_return_sequences_in_group": Argument(8, "samples_per_prompt", PAGE),
    "ppo_epochs": Argument(1, "epochs", PAGE),
    "pg_clip": Argument(0.2, "clip_epsilon", PAGE),
    "dual_clip_loss": True,
    "whiten_advantages": True,
    "advantage_clip": 2.0,
    "loss_agg_mode": "seq-mean-token-mean",
    "use_kl_loss": True,
    "kl_loss_coef": 0.001,
    "entropy_loss_coef": Argument(0.0, "entropy_coefficient", CONFIG),
    "max_grad_norm": Argument(1.0, "max_gradient_norm", CONFIG),
}
REDUCTIONS = {
    "token-mean": "token_mean",
    "seq-mean-token-mean": "sequence_mean",
    "seq-mean-token-sum": "sequence_sum",
}


def policy_loss(a: Arguments) -> dict[str, Read]:
    """Return the settings of the policy loss."""
    if not a["dual_clip_loss"]:
        return {"policy_loss": ("clip", ACTOR)}
    return {"policy_loss": ("dual_clip", ACTOR), "dual_clip": (1 + 2 * a["pg_clip"], ACTOR)}


def divergence(a: Arguments) -> dict[str, Read]:
    """Return the settings of the divergence from the reference."""
    if not a["use_kl_loss"]:
        return {"kl_placement": ("none", PAGE)}
    return {
        "kl_placement": ("loss_k3", ACTOR),
        "kl_coefficient": (a["kl_loss_coef"], PAGE),
        "kl_clip": (10.0, FUNCTIONALS),
        "kl_log_ratio_clip": (UNBOUNDED, FUNCTIONALS),
    }


def settings(a: Arguments) -> dict[str, Read]:
    """Translate Lite PPO's arguments to our settings."""
    whitened = "_whitened" if a["whiten_advantages"] else ""
    clip = 1e6 if a["advantage_clip"] is None else a["advantage_clip"]
    return {
        "num_minibatches": (1, PAPER),
        "completion_unit": ("samples", WORKER),
        "minibatch_order": ("redrawn", WORKER),
        "critic": ("none", PAPER),
        "prompt_advantage": (f"per_prompt_mean_batch_std{whitened}", FUNCTIONALS),
        "samples_epsilon": (1e-6, f"{FUNCTIONALS} (reward_norm)"),
        "advantage_clip": (clip, PAGE),
        "reward_transform": ("raw", PAGE),
        **divergence(a),
        **policy_loss(a),
        "log_ratio_clip": (UNBOUNDED, ACTOR),
        "policy_loss_reduction": (setting(a, "loss_agg_mode", REDUCTIONS), PAGE),
        "temperature": (1.0, PAPER),
        "gradient_clip": ("global_norm", CONFIG),
        "gradient_norm_epsilon": (1e-6, TORCH_CLIP),
        "learning_rate_schedule": ("constant", PAPER),
        "adam_epsilon": (1e-8, TORCH_ADAM),
    }


PRESET = Preset(
    name="lite_ppo",
    library=(
        f"Lite PPO ({PAPER}) in ROLL 8eb27cc, github.com/alibaba/ROLL, as its page on it has it"
    ),
    arguments=ARGUMENTS,
    settings=settings,
    in_words=(
        RATE_IN_WORDS.format("1e-6"),
        "The page has adv_estimator gae, with a critic, and num_return_sequences_in_group 1, which "
        "leaves no group to take the mean of: the paper's method has no critic, and 8 samples are "
        "second hand, as is the temperature.",
        "The paper argues for two techniques, the prompt's mean with the batch's std, and the mean "
        "over tokens (loss_agg_mode=token-mean). The page names both and sets seq-mean-token-mean, "
        "which is what runs, whitening, which undoes the batch's std, and a divergence of .001.",
        "Whitening draws on tokens, so the completions of a prompt that are all right or all wrong "
        "teach something.",
    ),
    trainer="language",
)
