"""Records a whole update of Stable-Baselines3's PPO on whole actions, by its own `learn`.

    python -m venv env
    env/bin/pip install torch==2.13.0 stable-baselines3==2.9.2 gymnasium==1.4.0 numpy
    env/bin/python tests/golden/generate/sb3_discrete.py

writes tests/golden/updates/sb3_discrete_update_1.json: PPO('MlpPolicy') with a hidden width of 8
learns for one iteration.
"""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Any
from unittest import mock

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv
from whole_actions import WIDTH, A, N, O, T, initial, script, write

ARGUMENTS = {
    "n_steps": T,
    "batch_size": N * T // 2,
    "n_epochs": 2,
    "learning_rate": 0.02,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "clip_range_vf": None,
    "normalize_advantage": True,
    "ent_coef": 0.01,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
}


class Scripted(VecEnv):
    """The next episode's first observation where one ended, and the last one in its info."""

    def __init__(self) -> None:
        box = gymnasium.spaces.Box(-np.inf, np.inf, (O,), np.float32)
        super().__init__(N, box, gymnasium.spaces.Discrete(A))
        self.rollout = script()
        self.seen = [*self.rollout["observation"], self.rollout["last_observation"]]
        self.actions: list[np.ndarray] = []

    def reset(self) -> Any:
        return self.seen[0].copy()

    def step_async(self, actions: np.ndarray) -> None:
        self.actions.append(actions)

    def step_wait(self) -> Any:
        t, rollout = len(self.actions) - 1, self.rollout
        truncation = rollout["truncation"][t] > 0
        done = (rollout["termination"][t] > 0) | truncation
        infos: list[dict[str, Any]] = [{} for _ in range(N)]
        for n in np.flatnonzero(done):
            last = rollout["next_observation"][t, n]
            infos[n] = {"terminal_observation": last, "TimeLimit.truncated": bool(truncation[n])}
        return self.seen[t + 1].copy(), rollout["reward"][t].copy(), done, infos

    def close(self) -> None:
        pass

    def get_attr(self, name: str, indices: Any = None) -> list[Any]:
        return [None] * N

    def set_attr(self, *given: Any) -> None:
        pass

    def env_method(self, *given: Any, **named: Any) -> list[Any]:
        return [None] * N

    def env_is_wrapped(self, *given: Any) -> list[bool]:
        return [False] * N


def linear(policy: Any) -> dict[str, list[Any]]:
    """Its layers, first to last."""
    hidden = policy.mlp_extractor
    return {
        "policy": [hidden.policy_net[0], hidden.policy_net[2], policy.action_net],
        "value": [hidden.value_net[0], hidden.value_net[2], policy.value_net],
    }


def main() -> None:
    torch.set_num_threads(1)
    environments = Scripted()
    model = PPO("MlpPolicy", environments, policy_kwargs={"net_arch": [WIDTH, WIDTH]}, **ARGUMENTS)
    for name, layers in linear(model.policy).items():
        for layer, start in zip(layers, initial()[name], strict=True):
            with torch.no_grad():
                layer.weight.copy_(torch.tensor(start["kernel"].T))
                layer.bias.copy_(torch.tensor(start["bias"]))

    orders: list[np.ndarray] = []
    steps: list[dict[str, float]] = []
    log_probs: list[np.ndarray] = []
    train, permutation, clip = PPO.train, np.random.permutation, torch.nn.utils.clip_grad_norm_

    def training(self: PPO) -> None:
        log_probs.append(self.rollout_buffer.log_probs.copy())  # [T, N] until it is flattened
        train(self)

    def permuting(size: int) -> np.ndarray:
        found = permutation(size)
        n, t = np.divmod(found, T)  # it flattens by environment
        orders.append(t * N + n)
        return found

    def clipping(parameters: Any, bound: float) -> Any:
        norm = clip(parameters, bound)
        at = sys._getframe(1).f_locals
        names = ("policy_loss", "value_loss", "entropy_loss")
        steps.append({name: at[name].item() for name in names})
        steps[-1] |= {
            "entropy": -steps[-1].pop("entropy_loss"),
            "total": at["loss"].item(),
            "approx_kl": float(at["approx_kl_div"]),
            "clip_fraction": at["clip_fraction"],
            "gradient_norm": norm.item(),
        }
        return norm

    with (
        mock.patch.object(PPO, "train", training),
        mock.patch.object(np.random, "permutation", permuting),
        mock.patch.object(torch.nn.utils, "clip_grad_norm_", clipping),
    ):
        model.learn(N * T)
    names = ("stable-baselines3", "torch", "gymnasium")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in names)
    write(
        "sb3",
        about={
            "library": "Stable-Baselines3",
            "version": f"{versions}, on a CPU, one thread",
            "file": "DLR-RM/stable-baselines3: stable_baselines3/ppo/ppo.py, "
            "common/on_policy_algorithm.py, common/distributions.py",
            "made": "tests/golden/generate/sb3_discrete.py",
            "steps": "value_loss is the mean square without a half; the total has vf_coef times "
            "it; gradient_norm is over all parameters, before clipping",
        },
        hyperparameters={
            "n_envs": N,
            **ARGUMENTS,
            "activation": "tanh",
            "adam_epsilon": 1e-5,
            "advantage_ddof": 1,
            "advantage_epsilon": 1e-8,
        },
        rollout={
            **environments.rollout,
            "action": np.stack(environments.actions),
            "log_prob": log_probs[0],
        },
        minibatches=orders,
        steps=steps,
        final={
            name: [
                {
                    "kernel": layer.weight.detach().numpy().T,
                    "bias": layer.bias.detach().numpy(),
                }
                for layer in layers
            ]
            for name, layers in linear(model.policy).items()
        },
    )


if __name__ == "__main__":
    main()
