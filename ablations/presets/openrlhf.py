"""OpenRLHF's REINFORCE++ and REINFORCE++-baseline: `train_ppo_ray` with its defaults."""

from __future__ import annotations

from ablations.presets.arguments import UNBOUNDED, redefined, refused, setting, steps
from ablations.presets.definition import RATE_IN_WORDS, Argument, Arguments, Preset, Read

CLI = "openrlhf/cli/train_ppo_ray.py"
LOSS = "openrlhf/models/loss.py"
UTILS = "openrlhf/models/utils.py"
ACTOR = "openrlhf/trainer/ray/ppo_actor.py"
EXPERIENCE = "openrlhf/trainer/ppo_utils/experience_maker.py"
SCRIPT = "examples/scripts/train_reinforce_baseline_hybrid_engine.sh"
TORCH_CLIP = "torch/nn/utils/clip_grad.py"
TORCH_ADAM = "torch/optim/adamw.py"

ARGUMENTS = {
    "algo.advantage.estimator": "reinforce",
    "algo.advantage.no_std_norm": False,
    "rollout.batch_size": Argument(1024, "prompts", CLI),
    "rollout.n_samples_per_prompt": Argument(1, "samples_per_prompt", CLI),
    "train.batch_size": 128,
    "train.max_epochs": Argument(1, "epochs", CLI),
    "train.dynamic_batch_enable": False,
    "actor.policy_loss_type": "ppo",
    "actor.eps_clip": 0.2,
    "actor.eps_clip_low_high": None,
    "actor.dual_clip": Argument(None, "dual_clip", CLI),
    "algo.kl.init_coef": Argument(0.01, "kl_coefficient", CLI),
    "algo.kl.use_loss": False,
    "algo.kl.estimator": "k1",
    "reward.clip_range": (-10.0, 10.0),
    "actor.entropy_coef": None,
    "actor.max_norm": Argument(1.0, "max_gradient_norm", CLI),
    "actor.adam.eps": Argument(1e-8, "adam_epsilon", TORCH_ADAM),
    "rollout.temperature": Argument(1.0, "temperature", CLI),
}
UNEXPRESSED = {
    "algo.kl.target": (None, "a controller of the divergence's coefficient"),
    "reward.overlong_buffer_len": (None, "a penalty of overlong completions"),
    "reward.stop_properly_penalty_coef": (None, "a penalty of completions that were cut off"),
    "reward.normalize_enable": (False, "a running normalisation of a reward model's rewards"),
    "rollout.top_p": (1.0, "a truncated distribution to sample from"),
}
ESTIMATORS = {
    "reinforce": "batch",
    "reinforce_baseline": "per_prompt_baseline_batch",
    "rloo": "leave_one_out",
    "group_norm": "per_prompt",
    "dr_grpo": "per_prompt_mean",
}
LOSSES = {"ppo": "clip_higher", "gspo": "gspo"}
ESTIMATES = {"k1": "k1", "k2": "k2", "k3": "k3"}


def advantage(a: Arguments) -> dict[str, Read]:
    """Return the settings of the advantage."""
    choice = setting(a, "algo.advantage.estimator", ESTIMATORS)
    if a["algo.advantage.no_std_norm"] and choice in ("batch", "per_prompt_baseline_batch"):
        choice += "_mean"
    low, high = a["reward.clip_range"]
    if low != -high:
        raise refused(f"reward.clip_range={low} {high}", "use a range around 0, such as -10 10")
    read = {"prompt_advantage": (choice, EXPERIENCE), "advantage_clip": (high, EXPERIENCE)}
    return read | ({"prompt_epsilon": (1e-9, EXPERIENCE)} if choice == "per_prompt" else {})


def policy_loss(a: Arguments) -> dict[str, Read]:
    """Return the settings of the policy loss. Only PPO bounds the logarithm of the ratio."""
    low, high = a["actor.eps_clip_low_high"] or (a["actor.eps_clip"],) * 2
    choice = setting(a, "actor.policy_loss_type", LOSSES)
    read = {
        "clip_epsilon": (low, CLI),
        "clip_epsilon_high": (high, CLI),
        "log_ratio_clip": (20.0 if choice == "clip_higher" else UNBOUNDED, LOSS),
    }
    if choice == "gspo":
        if a["algo.kl.use_loss"] or a["actor.dual_clip"] or a["actor.entropy_coef"]:
            raise refused(
                "gspo with algo.kl.use_loss, actor.dual_clip or actor.entropy_coef, which it "
                "reduces over tokens and the policy loss over completions",
                "leave them out, or use actor.policy_loss_type=ppo",
            )
        return read | {
            "policy_loss": ("gspo", LOSS),
            "policy_loss_reduction": ("sequence_mean", LOSS),
        }
    read["policy_loss_reduction"] = ("token_mean", LOSS)
    bounds = "clip" if low == high else "clip_higher"
    dual = "" if a["actor.dual_clip"] is None else "dual_"
    return read | {"policy_loss": (f"{dual}{bounds}", LOSS)}


def divergence(a: Arguments) -> dict[str, Read]:
    """Return the settings of the divergence from the reference."""
    side = "loss" if a["algo.kl.use_loss"] else "reward"
    estimate = setting(a, "algo.kl.estimator", ESTIMATES)
    return {
        "kl_placement": (f"{side}_{estimate}", EXPERIENCE),
        "kl_clip": (10.0, UTILS),
        **({"kl_log_ratio_clip": (UNBOUNDED, UTILS)} if estimate == "k3" else {}),
    }


def settings(a: Arguments) -> dict[str, Read]:
    """Translate OpenRLHF's arguments to our settings."""
    samples = a["rollout.batch_size"] * a["rollout.n_samples_per_prompt"]
    shuffled = not a["train.dynamic_batch_enable"]
    return {
        "num_minibatches": (steps(samples, a["train.batch_size"], "train.batch_size"), CLI),
        "completion_unit": ("samples", ACTOR),
        "minibatch_order": ("redrawn" if shuffled else "kept", ACTOR),
        "critic": ("none", CLI),
        **advantage(a),
        "reward_transform": ("raw", EXPERIENCE),
        **divergence(a),
        **policy_loss(a),
        "entropy_coefficient": (a["actor.entropy_coef"] or 0.0, CLI),
        "gradient_clip": ("global_norm", CLI),
        "gradient_norm_epsilon": (1e-6, TORCH_CLIP),
        "learning_rate_schedule": ("constant", CLI),
    }


IN_WORDS = (
    RATE_IN_WORDS.format("1e-6"),
    "Adam's betas are .9 and .95, here .9 and .999; the rate warms up over 3% of the run and "
    "follows a cosine to a tenth, here it is constant.",
    "The reward clip is of ±10 after the prompt's baseline, which is what advantage_clip is.",
    "Arguments are those since 3c3be623, with dots: --actor.eps_clip was --eps_clip before. 0.11.2 "
    "on PyPI is newer code: algo.kl.unbiased_gradient, off as it comes, and k3's exponent is "
    "bounded by 10.",
)
LIBRARY = "OpenRLHF 3c3be623, github.com/OpenRLHF/OpenRLHF"

PRESETS = (
    Preset(
        name="openrlhf_reinforce_pp",
        library=f"{LIBRARY}: REINFORCE++ (algo.advantage.estimator reinforce)",
        arguments=ARGUMENTS,
        settings=settings,
        unexpressed=UNEXPRESSED,
        in_words=IN_WORDS,
        trainer="language",
    ),
    Preset(
        name="openrlhf_reinforce_pp_baseline",
        library=f"{LIBRARY}: REINFORCE++-baseline, {SCRIPT}",
        arguments=redefined(
            ARGUMENTS,
            {
                "algo.advantage.estimator": "reinforce_baseline",
                "rollout.batch_size": 128,
                "rollout.n_samples_per_prompt": 8,
                "train.batch_size": 1024,
                "train.dynamic_batch_enable": True,
                "algo.kl.init_coef": 1e-5,
                "algo.kl.use_loss": True,
                "algo.kl.estimator": "k2",
            },
        ),
        settings=settings,
        unexpressed=UNEXPRESSED,
        in_words=(
            *IN_WORDS,
            "The script's rate is 5e-7. It also leaves out prompts whose samples are all right or "
            "all wrong and draws others for them (dynamic_filtering), and weighs tokens by the "
            "mismatch of its sampler (icepop): neither is here.",
            "Where batches are sized by tokens (train.dynamic_batch_enable), as the script has it, "
            "nothing is shuffled.",
        ),
        trainer="language",
    ),
)
