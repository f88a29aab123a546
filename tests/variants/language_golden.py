"""What OpenRLHF, verl and TRL computed (tests/golden/01 to 06), in the form of our axes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from oracles import golden

CASES = (
    "01_binary_uneven",
    "02_reward_scale_mix",
    "03b_all_equal_batch",
    "04_single_sample_groups",
    "06_single_token_total",
)
GOLDEN_TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}

OPENRLHF = {
    "reinforce": "batch",
    "reinforce_baseline": "per_prompt_baseline_batch",
    "rloo": "leave_one_out",
    "group_norm": "per_prompt",
    "dr_grpo": "per_prompt_mean",
}
TRL_SCALES = {
    "group": "per_prompt",
    "batch": "per_prompt_mean_batch_std",
    "none": "per_prompt_mean",
}
# Not ours: a length-weighted baseline, a scale by the share of right answers; GAE and the losses
# are other axes'.
OTHERS = ("opo", "gpg", "gae", "_compute_loss", "PolicyLoss", "policy_loss", "approx_kl")


class Expected(NamedTuple):
    """One output of a framework, and how to ask our axis for it.

    output: [P, K, L], or [P, K] where it is one number per sample.
    added: what is added to the variance of the tokens, where ours bounds it from below.
    """

    name: str
    choice: str
    inputs: dict[str, Any]
    output: np.ndarray
    mask: np.ndarray
    added: float


def inputs_of_case(case: str) -> dict[str, np.ndarray]:
    """rewards [P, K]; mask and all tokens' numbers [P, K, L]."""
    inputs = golden(case)["inputs"]
    K = inputs["n_per_group"]
    P = len(inputs["rewards"]) // K
    arrays = {n: np.asarray(x, np.float64) for n, x in inputs.items() if isinstance(x, list)}
    return {n: x.reshape(P, K, *x.shape[1:]) for n, x in arrays.items()}


def expected_advantages(case: str) -> Iterator[Expected]:
    """All outputs that are one of our choices."""
    given = inputs_of_case(case)
    K = given["rewards"].shape[1]
    mask, kl = given["response_mask"], given["kl_k1_old_vs_ref"]
    summed_kl = (mask * kl).sum(-1)
    for output in golden(case)["outputs"]:
        framework, function, settings = (output[n] for n in ("framework", "function", "settings"))
        if isinstance(output["output"], dict):
            assert output["output"]["raises"], "verl refuses a single token, we return 0"
            continue
        if any(name in function for name in OTHERS) or settings.get("estimator") == "gae":
            continue
        inputs: dict[str, Any] = {"kl_coefficient": settings.get("kl_coef", 0.0)}
        rewards = given["rewards"]
        if framework == "openrlhf":
            choice = OPENRLHF[settings["estimator"]]
            if settings["no_std_norm"] and choice in ("batch", "per_prompt_baseline_batch"):
                choice += "_mean"
            inputs["advantage_clip"] = settings["reward_clip_range"][1]
        elif framework == "trl" and "scale_rewards" in settings:
            choice = TRL_SCALES[settings["scale_rewards"]]
            inputs["epsilon"] = 1e-4
        elif framework == "trl":
            # RLOOTrainer takes the summed KL off the rewards before it compares them.
            rewards = rewards - settings["beta"] * summed_kl
            choice = "leave_one_out"
            if settings["normalize_advantages"]:
                choice = "per_prompt_baseline_batch_samples"
                # std over samples of b·K/(K-1), + 1e-4.
                inputs |= {"ddof": 1, "epsilon": 1e-4 * (K - 1) / K}
        elif "grpo" in function:
            choice = "per_prompt" if settings["norm_adv_by_std_in_grpo"] else "per_prompt_mean"
            inputs["epsilon"] = settings["epsilon"]
        elif "rloo" in function:
            choice = "leave_one_out"
        else:
            assert "reinforce_plus_plus" in function
            if settings.get("gamma", 1.0) != 1:
                continue  # our returns to go are not discounted
            choice = "batch"
            inputs["ddof"] = 1
            if "baseline" in function:
                # verl sums the KL into the reward before the baseline.
                choice = "per_prompt_baseline_batch"
                last = mask.cumsum(-1) == mask.sum(-1, keepdims=True)
                last &= mask > 0
                paid = last * rewards[..., None] - settings["kl_coef"] * mask * kl
                rewards = paid.astype(np.float32).sum(-1)
                inputs["kl_coefficient"] = 0.0
        if K == 1 and framework == "verl" and choice not in ("batch",):
            continue  # verl's baseline of a single sample is 0, ours is the sample itself
        inputs |= {"rewards": rewards, "token_kl": kl, "mask": mask}
        numbers = np.asarray(output["output"], np.float64)
        if np.any(np.isnan(numbers)):
            assert K == 1, "OpenRLHF's NaN for a single sample: we return 0"
            numbers = np.zeros_like(numbers)
        yield Expected(
            name=f"{case}: {framework} {function} {settings}",
            choice=choice,
            inputs={n: jnp.asarray(x, jnp.float32) for n, x in inputs.items()},
            output=numbers.reshape(*rewards.shape, *numbers.shape[1:]),
            mask=mask,
            added=1e-8 if "reinforce_plus_plus" in function else 0.0,
        )
