"""Records whole updates of TorchRL's PPO, by the networks and the loop of its MuJoCo recipe.

    python -m venv env
    env/bin/pip install torch==2.13.0 torchrl==0.14.1 tensordict==0.14.3 numpy
    env/bin/python tests/golden/generate/torchrl_updates.py

writes tests/golden/updates/torchrl_update_{2,3}.json: the recipe's own function builds the networks
(hidden width 8 for 64), the actor acts on scripted observations, then GAE before each epoch, replay
buffer and sampler, ClipPPOLoss, Adam and its annealing follow in the order of the recipe's main.

    2  normalize_advantage off, with entropy
    3  clip_value, by the smooth L1 error
"""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from functools import partial
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
import torchrl
from tensordict import TensorDict
from torchrl.data import (
    Bounded,
    Composite,
    LazyTensorStorage,
    TensorDictReplayBuffer,
    Unbounded,
)
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.objectives import ClipPPOLoss, group_optimizers
from torchrl.objectives.value.advantages import GAE

GOLDEN = Path(__file__).parents[1] / "updates"
RECIPE = Path(torchrl.__file__).parents[1] / "sota-implementations" / "ppo" / "utils_mujoco.py"
N, T, OBSERVATION, ACTION = 4, 8, 3, 2
COMMON = {
    "frames_per_env": T,
    "mini_batch_size": 16,
    "ppo_epochs": 2,
    "learning_rate": 0.02,
    "anneal_lr": True,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_epsilon": 0.2,
    "clip_value": None,
    "loss_critic_type": "l2",
    "critic_coeff": 0.25,
    "entropy_coeff": 0.0,
    "normalize_advantage": True,
}
UPDATES = {
    2: {"normalize_advantage": False, "entropy_coeff": 0.01},
    3: {"clip_value": True, "loss_critic_type": "smooth_l1"},
}
STEPS_IN_ALL = 40


def networks(rng: np.random.Generator) -> tuple[Any, Any]:
    """Actor and critic by the recipe's function, with weights that are no special case."""
    spec = importlib.util.spec_from_file_location("utils_mujoco", RECIPE)
    recipe = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = recipe
    spec.loader.exec_module(recipe)
    narrow, action = recipe.MLP, Bounded(-1.0, 1.0, (ACTION,))
    env = SimpleNamespace(
        observation_spec=Composite(observation=Unbounded((OBSERVATION,))),
        action_spec_unbatched=action,
        full_action_spec_unbatched=Composite(action=action),
    )
    with mock.patch.object(recipe, "MLP", lambda **given: narrow(**{**given, "num_cells": [8, 8]})):
        actor, critic = recipe.make_ppo_models_state(env, torch.device("cpu"))
    with torch.no_grad():
        for parameter in [*actor.parameters(), *critic.parameters()]:
            parameter += torch.tensor(rng.normal(0, 0.3, parameter.shape), dtype=torch.float32)
        # Near ±1 an action has lost what was drawn, and scores differ by rounding.
        spread_of(actor).sub_(1.0)
    return actor, critic


def layers(module: Any) -> list[dict[str, Any]]:
    linear = [one for one in module.modules() if isinstance(one, torch.nn.Linear)]
    return [{"kernel": one.weight.T.tolist(), "bias": one.bias.tolist()} for one in linear]


def spread_of(actor: Any) -> Any:
    (spread,) = [p for name, p in actor.named_parameters() if "state_independent_scale" in name]
    return spread


def weights(actor: Any, critic: Any) -> dict[str, Any]:
    return {"policy": layers(actor), "value": layers(critic), "log_std": spread_of(actor).tolist()}


def collected(actor: Any, rng: np.random.Generator) -> TensorDict:
    """[N, T] steps of scripted environments, with the actor's own actions."""
    shape = (N, T)
    observation = torch.tensor(rng.normal(0, 1, (N, T + 1, OBSERVATION)), dtype=torch.float32)
    termination, truncation = (torch.tensor(rng.random((*shape, 1)) < 0.15) for _ in range(2))
    truncation &= ~termination
    done = termination | truncation
    other = torch.tensor(rng.normal(0, 1, (*shape, OBSERVATION)), dtype=torch.float32)
    data = TensorDict({"observation": observation[:, :-1]}, shape)
    with torch.no_grad():
        data = actor(data)
    following = {
        "observation": torch.where(done, other, observation[:, 1:]),
        "reward": torch.tensor(rng.normal(0, 1, (*shape, 1)), dtype=torch.float32),
        "done": done,
        "terminated": termination,
        "truncated": truncation,
    }
    return data.set("next", TensorDict(following, shape))


def time_major(array: Any) -> list[Any]:
    """[N, T, ...] as lists [T, N, ...], an axis of one number dropped."""
    array = array.detach().float().transpose(0, 1)
    return (array[..., 0] if array.ndim == 3 and array.shape[-1] == 1 else array).tolist()


def described(a: dict[str, Any], seed: int) -> dict[str, Any]:
    """The file of one update."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    actor, critic = networks(rng)
    before = weights(actor, critic)
    data = collected(actor, rng)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(N * T),
        sampler=SamplerWithoutReplacement(),
        batch_size=a["mini_batch_size"],
    )
    gae = GAE(gamma=a["gamma"], lmbda=a["gae_lambda"], value_network=critic, average_gae=False)
    loss_module = ClipPPOLoss(
        actor_network=actor,
        critic_network=critic,
        clip_epsilon=a["clip_epsilon"],
        loss_critic_type=a["loss_critic_type"],
        entropy_coeff=a["entropy_coeff"],
        critic_coeff=a["critic_coeff"],
        normalize_advantage=a["normalize_advantage"],
        clip_value=a["clip_value"],
    )
    adam = partial(torch.optim.Adam, lr=a["learning_rate"], eps=1e-5)
    optim = group_optimizers(adam(actor.parameters()), adam(critic.parameters()))
    normal, noises = torch.distributions.normal._standard_normal, []

    def recording_normal(*given: Any, **named: Any) -> torch.Tensor:
        noises.append(normal(*given, **named))
        return noises[-1]

    orders, steps = [], []
    for _ in range(a["ppo_epochs"]):
        with torch.no_grad():
            data = gae(data)
        buffer.extend(data.reshape(-1))
        for batch in buffer:
            rate = a["learning_rate"] * (1 - len(steps) / STEPS_IN_ALL)
            for group in optim.param_groups:
                group["lr"] = rate
            optim.zero_grad(set_to_none=True)
            noises.clear()
            with mock.patch.object(
                torch.distributions.normal, "_standard_normal", recording_normal
            ):
                loss = loss_module(batch)
            total = loss["loss_critic"] + loss["loss_objective"] + loss["loss_entropy"]
            total.backward()
            gradients = [p.grad for group in optim.param_groups for p in group["params"]]
            norm = torch.linalg.vector_norm(torch.cat([one.reshape(-1) for one in gradients]))
            optim.step()
            index = batch["index"].reshape(-1).numpy()
            orders.append((index % T * N + index // T).tolist())
            named = ("loss_objective", "loss_critic", "loss_entropy", "entropy", "clip_fraction")
            steps.append(
                {
                    **{name: loss[name].item() for name in (*named, "kl_approx")},
                    "total": total.item(),
                    "gradient_norm": norm.item(),
                    "learning_rate": rate,
                    "entropy_noise": noises[-1].reshape(-1, ACTION).tolist(),
                }
            )
    minibatches = N * T // a["mini_batch_size"]
    versions = {name: metadata.version(name) for name in ("torchrl", "tensordict", "torch")}
    following = data["next"]
    return {
        "about": {
            "library": "TorchRL",
            "version": ", ".join(f"{name} {version}" for name, version in versions.items()),
            "file": "pytorch/rl: sota-implementations/ppo, torchrl/objectives/ppo.py",
            "made": "tests/golden/generate/torchrl_updates.py",
            "arrays": {
                "rollout": "[T,N,...]; action after tanh",
                "minibatches": "[epochs][minibatches][B] flat indices t*N+n",
                "steps": "before each gradient step; losses are weighted",
            },
        },
        "hyperparameters": {
            "num_envs": N,
            **a,
            "total_network_updates": STEPS_IN_ALL,
            "max_grad_norm": None,
            "adam_epsilon": 1e-5,
            "adam_betas": [0.9, 0.999],
            "activation": "tanh",
            "advantage_ddof": 1,
            "advantage_min_std": 1e-6,
        },
        "initial_weights": before,
        "rollout": {
            "observation": time_major(data["observation"]),
            "next_observation": time_major(following["observation"]),
            "reward": time_major(following["reward"]),
            "termination": time_major(following["terminated"]),
            "truncation": time_major(following["truncated"]),
            "action": time_major(data["action"]),
            "log_prob": time_major(data["action_log_prob"]),
        },
        "minibatches": [orders[i : i + minibatches] for i in range(0, len(orders), minibatches)],
        "steps": steps,
        "final_weights": weights(actor, critic),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for number, more in UPDATES.items():
        path = GOLDEN / f"torchrl_update_{number}.json"
        path.write_text(json.dumps(described(COMMON | more, seed=10 + number)) + "\n")


if __name__ == "__main__":
    main()
