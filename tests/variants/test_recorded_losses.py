"""The losses and gradients that TRL and verl computed, from the rewards on, are those of their
presets: every recorded file."""

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
from ablations.presets import preset

FOLDER = Path(__file__).parents[1] / "golden" / "updates"
FILES = sorted((*FOLDER.glob("trl_losses_*.json"), *FOLDER.glob("verl_losses_*.json")))
# Policy losses that verl's preset does not take, and what they read of the configuration.
VERL = {
    "gspo": ("gspo_token", {}),
    "cispo": ("cispo", {}),
    "clip_cov": (
        "clip_cov",
        {
            "clip_cov_ratio": "clip_cov_ratio",
            "clip_cov_low": "clip_cov_lb",
            "clip_cov_high": "clip_cov_ub",
        },
    ),
    "sapo": ("sapo", {"sapo_temperature": "tau_pos", "sapo_temperature_negative": "tau_neg"}),
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
    one = file["variants" if "variants" in file else "losses"][name]
    settings = of_trl(one) if "variants" in file else of_verl(one)
    batch = {n: jnp.asarray(x, jnp.float32) for n, x in file["batch"].items()}
    advantages = advantages_of(batch, settings)
    wanted = np.asarray(one.get("advantages", file.get("advantages")))
    close(advantages[:, 0] if wanted.ndim == 1 else advantages, wanted)

    old_log_prob = batch["log_prob" if one.get("on_policy") else "old_log_prob"]
    given = {
        "advantages": advantages,
        "old_log_prob": old_log_prob,
        "length": length(file, one),
        "step_tokens": step_tokens(one),
        "noise": noise(one, batch["mask"].shape),
    }
    found, gradient = jax.value_and_grad(loss)(batch["log_prob"], batch, settings, **given)
    close(found, one["loss"])
    close(gradient, one["gradient"])


def loss(
    log_prob: Any,
    batch: dict[str, Any],
    settings: dict[str, Any],
    *,
    advantages: Any,
    old_log_prob: Any,
    length: float,
    step_tokens: Any,
    noise: Any,
) -> Any:
    """What language_loss makes of log-probabilities."""
    mask = batch["mask"]
    log_ratio = (log_prob - old_log_prob) * mask
    bound = settings["log_ratio_clip"]
    losses, _ = choose(
        "policy_loss",
        settings,
        log_ratio=jnp.clip(log_ratio, -bound, bound),
        advantages=advantages,
        mask=mask,
        log_probs=log_prob * mask,
        noise=noise,
    )
    kl = choose(
        "kl_placement",
        settings,
        log_probs=log_prob,
        reference_log_probs=batch["reference_log_prob"],
        log_ratio=log_ratio,
    )
    return choose(
        "policy_loss_reduction",
        settings,
        losses=losses + kl.loss,
        mask=mask,
        constant_length=length,
        step_tokens=step_tokens,
    )


def choose(axis: str, settings: dict[str, Any], **inputs: Any) -> Any:
    known = variants.axis(axis)
    numbers = {name: settings[name] for name in known.known_numbers if name in settings}
    return known.apply(settings[axis], numbers=numbers, **inputs)


def of_trl(one: dict[str, Any]) -> dict[str, Any]:
    """The preset's, at the arguments that the case names."""
    arguments = preset("trl_grpo").arguments
    return preset("trl_grpo").values(**{n: x for n, x in one.items() if n in arguments})


def of_verl(one: dict[str, Any]) -> dict[str, Any]:
    arguments = preset("verl_grpo").arguments.keys() - {"loss_mode"}
    settings = preset("verl_grpo").values(**{n: x for n, x in one.items() if n in arguments})
    if "kl_loss_coef" not in one:
        settings |= {"kl_placement": "none"}
    if one["loss_mode"] == "vanilla":
        return settings
    name, numbers = VERL[one["loss_mode"]]
    settings["log_ratio_clip"] = 1e30 if one["loss_mode"] == "gspo" else 20.0
    return settings | {"policy_loss": name} | {ours: one[its] for ours, its in numbers.items()}


def length(file: dict[str, Any], one: dict[str, Any]) -> float:
    """What a Dr. GRPO loss divides by, beside the number of sequences."""
    if "max_completion_length" in one:
        return float(one["max_completion_length"])
    count, longest = np.shape(file["batch"]["mask"])
    # Before 0.9 verl's was not divided by the number of sequences.
    return longest if file["about"]["version"].startswith("verl 0.9") else longest / count


def step_tokens(one: dict[str, Any]) -> float | None:
    """TRL's num_items_in_batch over the steps of the batch, where the case is one of several."""
    if one.get("num_items_in_batch") is None:
        return None
    return one["num_items_in_batch"] / (
        one["steps_per_generation"] / one["gradient_accumulation_steps"]
    )


def noise(one: dict[str, Any], shape: tuple[int, ...]) -> Any:
    """Of clip_cov: the recorded turns of its candidates."""
    turns = np.ones(shape, np.float32)
    for turn, index in enumerate(one.get("permutation", ())):
        turns[tuple(one["candidates"][index])] = turn / len(one["permutation"])
    return lambda shape: jnp.asarray(turns.reshape(shape))


def advantages_of(batch: Any, settings: dict[str, Any]) -> Any:
    """[B, L], from the rewards of groups of equal size, in any order."""
    group = np.asarray(batch["group"])
    order = np.argsort(group, kind="stable")
    prompts = len(set(group.tolist()))
    mask = batch["mask"][order].reshape(prompts, -1, batch["mask"].shape[1])
    found = choose(
        "prompt_advantage",
        settings,
        rewards=batch["rewards"][order].reshape(prompts, -1),
        token_kl=jnp.zeros_like(mask),
        mask=mask,
    )
    return found.reshape(batch["mask"].shape)[np.argsort(order)]


def test_rloo_s_loss_is_the_library_s() -> None:
    """Its ratio is that of the whole completion."""
    file = recorded(FOLDER / "trl_rloo_1.json")
    batch = {n: jnp.asarray(x, jnp.float32) for n, x in file["batch"].items()}
    settings = preset("trl_rloo").values(
        beta=0.0, epsilon=file["epsilon"], epsilon_high=file["epsilon_high"]
    )
    advantages = jnp.asarray(file["advantages"])[:, None] * batch["mask"]
    given = {"advantages": advantages, "old_log_prob": batch["old_log_prob"]}
    unread = {"length": 1.0, "step_tokens": None, "noise": jnp.zeros}
    found, gradient = jax.value_and_grad(loss)(
        batch["log_prob"], batch, settings, **given, **unread
    )
    close(found, file["loss"])
    close(gradient, file["gradient"])


@pytest.mark.parametrize(
    ("file", "name", "change"),
    [
        ("trl_losses_2", "beta", {"kl_placement": "loss_k3"}),
        ("trl_losses_2", "beta, on policy", {"kl_placement": "loss_k3"}),
        ("trl_losses_2", "half a batch", {"policy_loss_reduction": "token_mean"}),
        ("trl_losses_2", "two-sided", {"policy_loss": "clip_higher"}),
        ("trl_losses_2", "cispo without epsilon_high", {"ratio_cap": 1.2}),
        ("verl_losses_2", "clamped ratios", {"log_ratio_clip": 1e30}),
        ("verl_losses_2", "low_var_kl", {"kl_log_ratio_clip": 1e30}),
        ("verl_losses_2", "low_var_kl", {"kl_clip": 1e30}),
        ("verl_losses_2", "mse", {"kl_clip": 10.0}),
        ("verl_losses_2", "clip_ratio beside its parts", {"clip_epsilon": 0.5}),
    ],
)
def test_another_setting_is_another_loss(
    file: str, name: str, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mapping = of_trl if file.startswith("trl") else of_verl
    monkeypatch.setitem(globals(), mapping.__name__, lambda one: mapping(one) | change)
    with pytest.raises(AssertionError):
        test_loss_is_the_library_s(FOLDER / f"{file}.json", name)


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-5, atol=1e-6)
