"""The loss of one minibatch against what other libraries document theirs to be.

Each is stated here in NumPy from its documentation, in float64 and as a whole: policy, value and
entropy in one number. Ours, composed with the right choices and coefficients, gives that number,
and the gradient by what the networks put out, which is compared with central differences.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import alone

import variants
from ablations.trainers.control.advantages import standardised
from ablations.trainers.control.distribution import Normal
from ablations.trainers.control.networks import Networks
from ablations.trainers.control.ppo import Minibatch, ppo_loss
from variants.policy_std import MIN_STD

T, M, A = 3, 4, 2
GOLDEN = Path(__file__).parents[2] / "golden" / "torchrl_ppo.json"
KEY = jax.random.key(0)

# A network whose parameters are its outputs.
DISTRIBUTION = Normal(A)
OUTPUTS = Networks(
    init=lambda key: None,
    policy=lambda outputs, observation: outputs["raw"],
    value=lambda outputs, observation: outputs["value"],
    both=lambda outputs, observation: (outputs["raw"], outputs["value"]),
)

Arrays = dict[str, np.ndarray]


def case(seed: int) -> tuple[Arrays, Arrays]:
    """(outputs of the networks now, batch) in float64; ratios and values in and out of range."""
    rng = np.random.default_rng(seed)
    outputs = {"raw": rng.normal(size=(T, M, 2 * A)), "value": rng.normal(size=(T, M))}
    action = rng.normal(size=(T, M, A))
    batch = {
        "x": action,
        "raw": outputs["raw"],
        "log_prob": normal_log_prob(outputs["raw"], action) + 0.3 * rng.normal(size=(T, M)),
        "old_value": outputs["value"] + 0.3 * rng.normal(size=(T, M)),
        "target": outputs["value"] + rng.normal(size=(T, M)),
        "advantage": 3 * rng.normal(size=(T, M)) + 1,
    }
    return outputs, batch


def std_of(raw: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, raw[..., A:]) + MIN_STD


def normal_log_prob(raw: np.ndarray, action: np.ndarray) -> np.ndarray:
    std = std_of(raw)
    score = (action - raw[..., :A]) / std
    return np.sum(-0.5 * score**2 - np.log(std) - 0.5 * np.log(2 * np.pi), axis=-1)


def normal_entropy(raw: np.ndarray) -> np.ndarray:
    return np.sum(0.5 + 0.5 * np.log(2 * np.pi) + np.log(std_of(raw)), axis=-1)


def clamp(x: np.ndarray, low: float, high: float) -> np.ndarray:
    return np.minimum(np.maximum(x, low), high)


# What the libraries document. torch's std has ddof 1.


def cleanrl(outputs: Arrays, batch: Arrays) -> float:
    """ppo_continuous_action.py: clip_coef 0.2, clip_vloss, vf_coef 0.5, norm_adv per minibatch."""
    logratio = normal_log_prob(outputs["raw"], batch["x"]) - batch["log_prob"]
    ratio = np.exp(logratio)
    advantages = batch["advantage"]
    advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
    pg_loss = np.maximum(-advantages * ratio, -advantages * clamp(ratio, 0.8, 1.2)).mean()
    unclipped = (outputs["value"] - batch["target"]) ** 2
    moved = batch["old_value"] + clamp(outputs["value"] - batch["old_value"], -0.2, 0.2)
    v_loss = 0.5 * np.maximum(unclipped, (moved - batch["target"]) ** 2).mean()
    return pg_loss - 0.01 * normal_entropy(outputs["raw"]).mean() + 0.5 * v_loss


def stable_baselines3(outputs: Arrays, batch: Arrays, clip_range_vf: float | None = None) -> float:
    """PPO.train: clip_range 0.2, vf_coef 0.5, normalize_advantage."""
    advantages = batch["advantage"]
    advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
    ratio = np.exp(normal_log_prob(outputs["raw"], batch["x"]) - batch["log_prob"])
    policy_loss = -np.minimum(advantages * ratio, advantages * clamp(ratio, 0.8, 1.2)).mean()
    predicted = outputs["value"]
    if clip_range_vf is not None:
        moved = clamp(predicted - batch["old_value"], -clip_range_vf, clip_range_vf)
        predicted = batch["old_value"] + moved
    value_loss = np.mean((batch["target"] - predicted) ** 2)
    entropy_loss = -np.mean(normal_entropy(outputs["raw"]))
    return policy_loss + 0.01 * entropy_loss + 0.5 * value_loss


def stable_baselines3_clipped(outputs: Arrays, batch: Arrays) -> float:
    return stable_baselines3(outputs, batch, clip_range_vf=0.2)


def rsl_rl(outputs: Arrays, batch: Arrays) -> float:
    """PPO.update: value_loss_coef 1.0, use_clipped_value_loss; advantages normalised before."""
    ratio = np.exp(normal_log_prob(outputs["raw"], batch["x"]) - batch["log_prob"])
    surrogate = -batch["advantage"] * ratio
    surrogate_clipped = -batch["advantage"] * clamp(ratio, 0.8, 1.2)
    surrogate_loss = np.maximum(surrogate, surrogate_clipped).mean()
    value_clipped = batch["old_value"] + clamp(outputs["value"] - batch["old_value"], -0.2, 0.2)
    value_losses = (outputs["value"] - batch["target"]) ** 2
    value_losses_clipped = (value_clipped - batch["target"]) ** 2
    value_loss = np.maximum(value_losses, value_losses_clipped).mean()
    return surrogate_loss + 1.0 * value_loss - 0.01 * normal_entropy(outputs["raw"]).mean()


def torchrl(outputs: Arrays, batch: Arrays) -> float:
    """ClipPPOLoss: clip_value 0.2, critic_coeff 1.0 with smooth_l1, no entropy bonus."""
    return torchrl_loss(outputs, batch, clip_value=0.2, critic_coeff=1.0, smooth=True)


def torchrl_loss(
    outputs: Arrays, batch: Arrays, *, clip_value: float | None, critic_coeff: float, smooth: bool
) -> float:
    """Its objective and its critic's loss, clip_epsilon 0.2, advantages as they are."""
    ratio = np.exp(normal_log_prob(outputs["raw"], batch["x"]) - batch["log_prob"])
    gain = np.minimum(ratio * batch["advantage"], clamp(ratio, 0.8, 1.2) * batch["advantage"])

    def distance(value: np.ndarray) -> np.ndarray:
        error = np.abs(value - batch["target"])
        return np.where(error < 1, 0.5 * error**2, error - 0.5) if smooth else error**2

    losses = distance(outputs["value"])
    if clip_value is not None:
        moved = clamp(outputs["value"] - batch["old_value"], -clip_value, clip_value)
        losses = np.maximum(losses, distance(batch["old_value"] + moved))
    return -gain.mean() + critic_coeff * losses.mean()


TORCH = {
    "entropy_estimate": "closed_form",
    "entropy_coefficient": 0.01,
    "clip_epsilon": 0.2,
    "value_clip_range": 0.2,
    "ddof": 1,
}
COMPOSED = {
    cleanrl: {**TORCH, "value_clip": "pessimistic", "value_coefficient": 0.25},
    stable_baselines3: {**TORCH, "value_clip": "none", "value_coefficient": 0.5},
    stable_baselines3_clipped: {**TORCH, "value_clip": "replace", "value_coefficient": 0.5},
    rsl_rl: {
        **TORCH,
        "value_clip": "pessimistic",
        "value_coefficient": 1.0,
        "advantage_scope": "batch",
    },
    torchrl: {
        **TORCH,
        "advantage_statistics": "none",
        "entropy_coefficient": 0.0,
        "value_error": "smooth_l1",
        "value_clip": "pessimistic",
        "value_coefficient": 1.0,
    },
}


def minibatch(batch: Arrays) -> Minibatch:
    arrays = {name: jnp.asarray(array, jnp.float32) for name, array in batch.items()}
    group = jnp.zeros((T, M), jnp.int32)
    return Minibatch(observation=jnp.zeros((T, M, 1)), group=group, **arrays)


def our_loss(outputs: Arrays, part: Minibatch, **sets: Any) -> tuple[Any, Any, Any]:
    """The loss, its metrics and its gradient by the outputs."""
    now = {name: jnp.asarray(array, jnp.float32) for name, array in outputs.items()}
    (loss, metrics), gradient = jax.value_and_grad(ppo_loss, has_aux=True)(
        now, OUTPUTS, DISTRIBUTION, part, KEY, alone(**sets), 1
    )
    return loss, metrics, gradient


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("library", COMPOSED, ids=lambda library: library.__name__)
def test_composition_is_the_library(library: Callable[[Arrays, Arrays], float], seed: int) -> None:
    outputs, batch = case(seed)
    loss, _, gradient = our_loss(outputs, minibatch(batch), **COMPOSED[library])
    np.testing.assert_allclose(loss, library(outputs, batch), rtol=1e-5, atol=1e-5)
    for name, expected in slopes(lambda outputs: library(outputs, batch), outputs).items():
        np.testing.assert_allclose(gradient[name], expected, rtol=1e-4, atol=1e-5)


def slopes(loss: Callable[[Arrays], float], at: Arrays) -> Arrays:
    """The gradient of a loss by central differences."""
    found = {}
    for name, array in at.items():
        found[name] = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            step = np.zeros_like(array)
            step[place] = 1e-5
            ahead, behind = (loss(at | {name: array + s}) for s in (step, -step))
            found[name][place] = (ahead - behind) / 2e-5
    return found


def test_every_part_of_a_library_matters() -> None:
    """What is composed differently gives another loss: none of the parts is blind here."""
    outputs, batch = case(0)
    losses = [library(outputs, batch) for library in COMPOSED]
    assert min(abs(a - b) for i, a in enumerate(losses) for b in losses[:i]) > 1e-3
    for name, other in (
        ("ddof", 0),
        ("entropy_estimate", "one_sample"),
        ("value_clip", "replace"),
        ("advantage_scope", "batch"),
        ("clip_epsilon", 0.1),
    ):
        loss, _, _ = our_loss(outputs, minibatch(batch), **(COMPOSED[cleanrl] | {name: other}))
        assert abs(float(loss) - losses[0]) > 1e-4, name


def test_batch_statistics_are_those_of_rsl_rl() -> None:
    """RolloutStorage.compute_returns: over all T·N samples, torch's std."""
    advantage = case(2)[1]["advantage"]
    one = alone(**TORCH, advantage_scope="batch")
    group = jnp.zeros((T, M), jnp.int32)
    got = standardised("batch", jnp.asarray(advantage, jnp.float32), group, 1, one)
    expected = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


# TorchRL, by its own numbers


@pytest.mark.parametrize("number", [0, 1])
def test_metrics_are_those_of_torchrl(number: int) -> None:
    """ClipPPOLoss on a linear policy and critic: losses, and every diagnostic that it reports."""
    golden = json.loads(GOLDEN.read_text())["clip_ppo_loss"][number]
    settings, expected = golden["settings"], golden["outputs"]
    array = {
        name: np.asarray(numbers, np.float64)
        for name, numbers in golden.items()
        if isinstance(numbers, list)
    }
    mean = array["observation"] @ array["policy_weight"]
    # softplus(raw) + MIN_STD is the scale
    raw_std = np.full_like(mean, np.log(np.expm1(golden["scale"] - MIN_STD)))
    outputs = {
        "raw": np.concatenate([mean, raw_std], axis=-1)[None],
        "value": (array["observation"] @ array["value_weight"]).reshape(1, -1),
    }
    rows = {
        "observation": array["observation"],
        "x": array["action"],
        "raw": outputs["raw"][0],
        "log_prob": array["old_log_prob"],
        "old_value": array["old_value"],
        "advantage": array["advantage"],
        "target": array["value_target"],
    }
    clip = settings["clip_value"]
    _, metrics, gradient = our_loss(
        outputs,
        Minibatch(
            group=jnp.zeros((1, len(mean)), jnp.int32),
            **{name: jnp.asarray(x, jnp.float32)[None] for name, x in rows.items()},
        ),
        advantage_statistics="none",
        value_error="squared" if settings["loss_critic_type"] == "l2" else "smooth_l1",
        value_clip="none" if clip is None else "pessimistic",
        value_clip_range=0.2 if clip is None else clip,
        value_coefficient=settings["critic_coeff"],
        clip_epsilon=settings["clip_epsilon"],
        entropy_coefficient=0.0,
    )
    ours: dict[str, Any] = {
        "loss_objective": "loss/policy",
        "loss_critic": "loss/value",
        "clip_fraction": "policy/clip_fraction",
        "kl_approx": "policy/kl_k1",
        "ESS": "policy/effective_sample_size",
        "max_ratio": "policy/ratio_max",
        "mean_ratio": "policy/ratio_mean",
        "value_clip_fraction": "value/clip_fraction",
        "explained_variance": "value/explained_variance",
    }
    assert expected.keys() <= ours.keys()
    for name, number in expected.items():
        np.testing.assert_allclose(metrics[ours[name]], number, rtol=1e-5, atol=1e-6, err_msg=name)

    # Its gradient is that of a loss which gives its numbers.
    def stated(outputs: Arrays) -> float:
        return torchrl_loss(
            outputs,
            {name: x[None] for name, x in rows.items()},
            clip_value=clip,
            critic_coeff=settings["critic_coeff"],
            smooth=settings["loss_critic_type"] == "smooth_l1",
        )

    total = expected["loss_objective"] + expected["loss_critic"]
    np.testing.assert_allclose(stated(outputs), total, rtol=1e-5, atol=1e-6)
    for name, by_differences in slopes(stated, outputs).items():
        np.testing.assert_allclose(gradient[name], by_differences, rtol=1e-5, atol=1e-6)


# Rejax, run itself where it is installed


def test_arithmetic_is_that_of_rejax() -> None:
    """Its own functions, given a network whose parameters are its outputs: advantages and targets
    over terminations, and both gradients of a minibatch."""
    rejax = pytest.importorskip("rejax.algos.ppo")
    rng = np.random.default_rng(3)
    outputs, batch = case(3)
    now = {name: jnp.asarray(array, jnp.float32) for name, array in outputs.items()}
    part = minibatch(batch)
    done = jnp.asarray(rng.random((T, M)) < 0.3, jnp.float32)
    reward = jnp.asarray(rng.normal(size=(T, M)), jnp.float32)
    last_value = jnp.asarray(rng.normal(size=M), jnp.float32)
    seen = rejax.Trajectory(
        obs=part.observation,
        action=part.x,
        log_prob=part.log_prob,
        reward=reward,
        value=part.old_value,
        done=done,
    )

    def log_prob_entropy(raw: Any, *_: Any, method: str) -> tuple[Any, Any]:
        assert method == "log_prob_entropy"
        std = jax.nn.softplus(raw[..., A:]) + MIN_STD
        score = (part.x - raw[..., :A]) / std
        normal = -0.5 * score**2 - jnp.log(std) - 0.5 * jnp.log(2 * jnp.pi)
        entropy = 0.5 + 0.5 * jnp.log(2 * jnp.pi) + jnp.log(std)
        return normal.sum(-1), entropy.sum(-1)

    settings = SimpleNamespace(
        gamma=0.9,
        gae_lambda=0.8,
        clip_eps=0.2,
        vf_coef=0.5,
        ent_coef=0.01,
        actor=SimpleNamespace(apply=log_prob_entropy),
        critic=SimpleNamespace(apply=lambda value, observation: value),
    )
    advantages, targets = rejax.PPO.calculate_gae(settings, seen, last_value)
    ours = variants.axis("advantage").apply(
        "done_cut",
        rewards=reward,
        values=part.old_value,
        next_values=jnp.concatenate([part.old_value[1:], last_value[None]]),
        termination=done,
        truncation=jnp.zeros_like(done),
        discount=jnp.float32(0.9),
        gae_lambda=jnp.float32(0.8),
    )
    for mine, its in zip(ours, (advantages, targets), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-5, atol=1e-6)

    class Kept(dict[str, Any]):
        """A training state that keeps the gradient instead of applying it."""

        def replace(self, **fields: Any) -> Kept:
            return Kept(self | fields)

        def __getattr__(self, name: str) -> Any:
            return SimpleNamespace(params=self[name], apply_gradients=lambda grads: grads)

    settings.update_actor = partial(rejax.PPO.update_actor, settings)
    settings.update_critic = partial(rejax.PPO.update_critic, settings)
    theirs = rejax.PPO.update(
        settings,
        Kept(actor_ts=now["raw"], critic_ts=now["value"]),
        rejax.AdvantageMinibatch(seen, advantages, targets),
    )
    part = part._replace(advantage=advantages, target=targets)
    _, _, gradient = our_loss(outputs, part, **(COMPOSED[cleanrl] | {"ddof": 0}))
    np.testing.assert_allclose(gradient["raw"], theirs["actor_ts"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient["value"], theirs["critic_ts"], rtol=1e-5, atol=1e-6)
