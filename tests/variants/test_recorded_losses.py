"""The losses and gradients that TRL and verl computed, from the rewards on: every recorded file."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import variants

FOLDER = Path(__file__).parents[1] / "golden" / "updates"
FILES = sorted((*FOLDER.glob("trl_losses_*.json"), *FOLDER.glob("verl_losses_*.json")))
SCALES = {
    "group": "per_prompt",
    "batch": "per_prompt_mean_batch_std",
    "none": "per_prompt_mean",
}
REDUCTIONS = {
    "grpo": "sequence_mean",
    "bnpo": "token_mean",
    "dapo": "token_mean",
    "cispo": "token_mean",
    "dr_grpo": "constant_length",
    "token-mean": "token_mean",
    "seq-mean-token-mean": "sequence_mean",
    "seq-mean-token-sum": "sequence_sum",
    "seq-mean-token-sum-norm": "constant_length",
}
VERL = {
    "vanilla": "dual_clip_higher",
    "gspo": "gspo_token",
    "cispo": "cispo",
    "clip_cov": "clip_cov",
}


@cache
def recorded(path: Path) -> Any:
    return json.loads(path.read_text())


def cases() -> list[Any]:
    return [
        pytest.param(path, name, id=f"{path.stem}-{name}")
        for path in FILES
        for name in recorded(path).get("variants", recorded(path).get("losses"))
    ]


def test_both_libraries_are_there() -> None:
    assert {path.stem.partition("_")[0] for path in FILES} == {"trl", "verl"}


@pytest.mark.parametrize(("path", "name"), cases())
def test_loss_is_the_library_s(path: Path, name: str) -> None:
    file = recorded(path)
    batch = {n: jnp.asarray(x, jnp.float32) for n, x in file["batch"].items()}
    one = file["variants" if "variants" in file else "losses"][name]
    how = of_trl(one) if "variants" in file else of_verl(one, file["batch"])
    advantages = advantages_of(batch, *how["advantage"])
    wanted = np.asarray(one.get("advantages", file.get("advantages")))
    in_file = advantages[:, 0] if wanted.ndim == 1 else advantages
    close(in_file, wanted)

    mask = batch["mask"]

    def loss(log_prob: Any) -> Any:
        losses, _ = variants.axis("policy_loss").apply(
            how["policy_loss"],
            log_ratio=(log_prob - batch["old_log_prob"]) * mask,
            advantages=advantages,
            mask=mask,
            log_probs=log_prob * mask,
            numbers=how["numbers"],
            noise=how.get("noise", jnp.zeros),
        )
        kl = variants.axis("kl_placement").apply(
            "loss_k3",
            log_probs=log_prob,
            reference_log_probs=batch["reference_log_prob"],
            kl_coefficient=how.get("beta", 0.0),
        )
        return variants.axis("policy_loss_reduction").apply(
            how["reduction"], losses=losses + kl.loss, mask=mask, constant_length=how["length"]
        )

    found, gradient = jax.value_and_grad(loss)(batch["log_prob"])
    close(found, one["loss"])
    close(gradient, one["gradient"])


def of_trl(one: dict[str, Any]) -> dict[str, Any]:
    epsilon = 1e-4
    policy_loss, numbers = "clip_higher", {"clip_epsilon": one["epsilon"]}
    numbers["clip_epsilon_high"] = one["epsilon_high"]
    if one["importance_sampling_level"] == "sequence":
        policy_loss = "gspo"
    if one["loss_type"] == "cispo":
        policy_loss, numbers = "cispo_cap", {"ratio_cap": one["epsilon_high"]}
    return {
        "advantage": (SCALES[one["scale_rewards"]], epsilon),
        "policy_loss": policy_loss,
        "numbers": numbers,
        "reduction": REDUCTIONS[one["loss_type"]],
        "length": float(one["max_completion_length"]),
        "beta": one["beta"],
    }


def of_verl(one: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
    count, length = np.shape(batch["mask"])
    numbers = {
        "clip_epsilon": one["clip_ratio_low"],
        "clip_epsilon_high": one["clip_ratio_high"],
    }
    how: dict[str, Any] = {"noise": jnp.zeros}
    if one["loss_mode"] == "vanilla":
        numbers["dual_clip"] = one["clip_ratio_c"]
    if one["loss_mode"] == "clip_cov":
        numbers["clip_cov_ratio"] = one["clip_cov_ratio"]
        numbers["clip_cov_low"], numbers["clip_cov_high"] = one["clip_cov_lb"], one["clip_cov_ub"]
        turns = np.ones((count, length), np.float32)
        for turn, index in enumerate(one["permutation"]):
            turns[tuple(one["candidates"][index])] = turn / len(one["permutation"])
        how["noise"] = lambda shape: jnp.asarray(turns.reshape(shape))
    return how | {
        "advantage": ("per_prompt", 1e-6),
        "policy_loss": VERL[one["loss_mode"]],
        "numbers": numbers,
        "reduction": REDUCTIONS[one["loss_agg_mode"]],
        # verl's sum is not divided by the number of sequences.
        "length": length / count,
    }


def advantages_of(batch: Any, choice: str, epsilon: float) -> Any:
    """[B, L], from the rewards of groups of equal size, in any order."""
    group = np.asarray(batch["group"])
    order = np.argsort(group, kind="stable")
    prompts = len(set(group.tolist()))
    mask = batch["mask"][order].reshape(prompts, -1, batch["mask"].shape[1])
    found = variants.axis("prompt_advantage").apply(
        choice,
        rewards=batch["rewards"][order].reshape(prompts, -1),
        token_kl=jnp.zeros_like(mask),
        mask=mask,
        epsilon=epsilon,
    )
    return found.reshape(batch["mask"].shape)[np.argsort(order)]


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-5, atol=1e-6)
