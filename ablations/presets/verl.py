"""verl's GRPO: the defaults of its actor, with what its GRPO examples set."""

from __future__ import annotations

from ablations.presets.arguments import UNBOUNDED, setting, steps
from ablations.presets.definition import RATE_IN_WORDS, Argument, Arguments, Preset, Read

ACTOR = "verl/trainer/config/actor/actor.yaml"
ALGOS = "verl/trainer/ppo/core_algos.py"
TRAINER = "verl/trainer/ppo/ray_trainer.py"
SCRIPT = "examples/grpo_trainer/run_qwen2-7b.sh"
ROLLOUT = "verl/trainer/config/rollout/rollout.yaml"
TORCH_CLIP = "torch/nn/utils/clip_grad.py"
TORCH_ADAM = "torch/optim/adamw.py"

ARGUMENTS = {
    "train_batch_size": Argument(1024, "prompts", SCRIPT),
    "rollout_n": Argument(5, "samples_per_prompt", SCRIPT),
    "ppo_mini_batch_size": 256,
    "ppo_epochs": Argument(1, "epochs", ACTOR),
    "shuffle": False,
    "norm_adv_by_std_in_grpo": True,
    "clip_ratio": 0.2,
    "clip_ratio_low": 0.2,
    "clip_ratio_high": 0.2,
    "clip_ratio_c": Argument(3.0, "dual_clip", ACTOR),
    "loss_agg_mode": "token-mean",
    "use_kl_loss": True,
    "kl_loss_coef": 0.001,
    "kl_loss_type": "low_var_kl",
    "entropy_coeff": Argument(0.0, "entropy_coefficient", SCRIPT),
    "grad_clip": Argument(1.0, "max_gradient_norm", ACTOR),
    "temperature": Argument(1.0, "temperature", ROLLOUT),
}
UNEXPRESSED = {
    "loss_mode": (
        "vanilla",
        "another policy loss; policy_loss has those of gspo, cispo, clip_cov and sapo",
    ),
    "loss_scale_factor": (
        None,
        "another constant under seq-mean-token-sum-norm than the longest length",
    ),
    "use_kl_in_reward": (False, "a divergence in the reward, with a controller of its coefficient"),
}
REDUCTIONS = {
    "token-mean": "token_mean",
    "seq-mean-token-mean": "sequence_mean",
    "seq-mean-token-sum": "sequence_sum",
    "seq-mean-token-sum-norm": "constant_length",
}
DIVERGENCES = {
    "low_var_kl": "loss_k3",
    "k3": "loss_k3",
    "mse": "loss_k2",
    "k2": "loss_k2",
    "kl": "loss_k1",
    "k1": "loss_k1",
}


def divergence(a: Arguments) -> dict[str, Read]:
    """Return the settings of the divergence from the reference; only k3 is bounded."""
    if not a["use_kl_loss"]:
        return {"kl_placement": ("none", SCRIPT)}
    placement = setting(a, "kl_loss_type", DIVERGENCES)
    read = {"kl_placement": (placement, SCRIPT), "kl_coefficient": (a["kl_loss_coef"], SCRIPT)}
    if placement != "loss_k3":
        return read | {"kl_clip": (UNBOUNDED, ALGOS)}
    return read | {"kl_clip": (10.0, ALGOS), "kl_log_ratio_clip": (20.0, ALGOS)}


def settings(a: Arguments) -> dict[str, Read]:
    """Translate verl's arguments to our settings."""
    scaled = a["norm_adv_by_std_in_grpo"]
    low, high = (
        a["clip_ratio"] if a[name] is None else a[name]
        for name in ("clip_ratio_low", "clip_ratio_high")
    )
    return {
        "num_minibatches": (
            steps(a["train_batch_size"], a["ppo_mini_batch_size"], "ppo_mini_batch_size"),
            SCRIPT,
        ),
        "completion_unit": ("samples" if a["shuffle"] else "prompts", TRAINER),
        "minibatch_order": ("redrawn" if a["shuffle"] else "kept", ACTOR),
        "critic": ("none", SCRIPT),
        "prompt_advantage": ("per_prompt" if scaled else "per_prompt_mean", ALGOS),
        **({"prompt_epsilon": (1e-6, ALGOS)} if scaled else {}),
        "advantage_clip": (1e6, ALGOS),
        "reward_transform": ("raw", ALGOS),
        **divergence(a),
        "policy_loss": ("dual_clip_higher", ALGOS),
        "log_ratio_clip": (20.0, ALGOS),
        "clip_epsilon": (low, ACTOR),
        "clip_epsilon_high": (high, ACTOR),
        "policy_loss_reduction": (setting(a, "loss_agg_mode", REDUCTIONS), ACTOR),
        "gradient_clip": ("global_norm", ACTOR),
        "gradient_norm_epsilon": (1e-6, TORCH_CLIP),
        "learning_rate_schedule": ("constant", ACTOR),
        "adam_epsilon": (1e-8, TORCH_ADAM),
    }


PRESET = Preset(
    name="verl_grpo",
    library=(
        f"verl 0.9.1 (PyPI), github.com/volcengine/verl: GRPO, {SCRIPT} (of b178a3cd, where "
        f"seq-mean-token-sum-norm is not divided by the number of completions)"
    ),
    arguments=ARGUMENTS,
    unexpressed=UNEXPRESSED,
    settings=settings,
    in_words=(
        RATE_IN_WORDS.format("1e-6"),
        "AdamW's weight decay is .01, here there is none.",
        "Nothing is shuffled, but with several processes trainer.balance_batch deals completions "
        "out by length, across prompts and minibatches; on one it would sort them by length. Here "
        "a batch keeps its order.",
        "clip_ratio does nothing while clip_ratio_low and clip_ratio_high are set, as they are.",
        "A KL controller, the penalty in the reward (use_kl_in_reward) and overlong masking are "
        "off in that script and not here.",
    ),
    trainer="language",
)
