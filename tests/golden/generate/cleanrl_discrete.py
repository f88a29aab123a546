"""Records a whole update of CleanRL's PPO on whole actions, by its own script.

    git clone https://github.com/vwxyzjn/cleanrl && git -C cleanrl checkout fe8d8a0
    python -m venv env
    env/bin/pip install torch==2.13.0 gymnasium==1.4.0 numpy
    env/bin/python tests/golden/generate/cleanrl_discrete.py cleanrl

writes tests/golden/updates/cleanrl_discrete_update_1.json. The script runs as a program for its
first and only iteration, with a hidden width of 8 for 64; its command line and its logger are
replaced.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import gymnasium
import numpy as np
import torch
from whole_actions import WIDTH, A, N, O, T, initial, script, write

ARGUMENTS = {
    "num_envs": N,
    "num_steps": T,
    "num_minibatches": 2,
    "update_epochs": 2,
    "learning_rate": 0.02,
    "anneal_lr": True,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "norm_adv": True,
    "clip_coef": 0.2,
    "clip_vloss": True,
    "ent_coef": 0.01,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
}


class Scripted:
    """SyncVectorEnv's interface, with the next episode's first observation where one ended."""

    single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (O,), np.float32)
    single_action_space = gymnasium.spaces.Discrete(A)

    def __init__(self) -> None:
        rollout = self.rollout = script()
        self.seen = [*rollout["observation"], rollout["last_observation"]]
        self.count = 0

    def reset(self, seed: int) -> Any:
        return self.seen[0], {}

    def step(self, actions: Any) -> Any:
        t, self.count = self.count, self.count + 1
        ends = (self.rollout[name][t] > 0 for name in ("termination", "truncation"))
        return self.seen[self.count], self.rollout["reward"][t], *ends, {}

    def close(self) -> None:
        pass


def weights(parameters: list[Any]) -> dict[str, Any]:
    """Those of Agent, which has the critic first; torch keeps kernels transposed."""
    pairs = [
        {"kernel": kernel.detach().numpy().T, "bias": bias.detach().numpy()}
        for kernel, bias in zip(parameters[::2], parameters[1::2], strict=True)
    ]
    return {"value": pairs[:3], "policy": pairs[3:]}


def main() -> None:
    torch.set_num_threads(1)
    path = Path(sys.argv[1]) / "cleanrl" / "ppo.py"
    text = path.read_text()
    narrow = text.replace("64)", f"{WIDTH})").replace("(64,", f"({WIDTH},")
    assert "64" not in narrow
    run = {**ARGUMENTS, "total_timesteps": N * T, "cuda": False}
    logger = SimpleNamespace(**dict.fromkeys(("add_text", "add_scalar", "close"), lambda *_: None))
    for name in ("tyro", "torch.utils.tensorboard"):
        sys.modules[name] = ModuleType(name)
    sys.modules["tyro"].cli = lambda made: made(**run)
    sys.modules["torch.utils.tensorboard"].SummaryWriter = lambda folder: logger

    environments, orders, steps, start = Scripted(), [], [], initial()
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = str(path)
    names = vars(module)
    adam, shuffle = torch.optim.Adam, np.random.shuffle
    clip = torch.nn.utils.clip_grad_norm_

    def starting(parameters: Any, **given: Any) -> Any:
        parameters = list(parameters)
        layers = [*start["value"], *start["policy"]]
        with torch.no_grad():
            for kernel, bias, layer in zip(parameters[::2], parameters[1::2], layers, strict=True):
                kernel.copy_(torch.tensor(layer["kernel"].T))
                bias.copy_(torch.tensor(layer["bias"]))
        return adam(parameters, **given)

    def shuffling(order: np.ndarray) -> None:
        shuffle(order)
        orders.append(order.copy())

    def clipping(parameters: Any, bound: float) -> Any:
        norm = clip(parameters, bound)
        steps.append(
            {
                "policy_loss": names["pg_loss"].item(),
                "value_loss": names["v_loss"].item(),
                "entropy": names["entropy_loss"].item(),
                "total": names["loss"].item(),
                "approx_kl": names["approx_kl"].item(),
                "clip_fraction": names["clipfracs"][-1],
                "gradient_norm": norm.item(),
                "learning_rate": names["optimizer"].param_groups[0]["lr"],
            }
        )
        return norm

    with (
        mock.patch.object(gymnasium.vector, "SyncVectorEnv", return_value=environments),
        mock.patch.object(torch.optim, "Adam", starting),
        mock.patch.object(np.random, "shuffle", shuffling),
        mock.patch.object(torch.nn.utils, "clip_grad_norm_", clipping),
    ):
        exec(compile(narrow, path, "exec"), names)
    assert environments.count == T
    write(
        "cleanrl",
        about={
            "library": "CleanRL",
            "version": "commit fe8d8a03c41a7ef5b523e2e354bd01c363e786bb",
            "file": "vwxyzjn/cleanrl: cleanrl/ppo.py",
            "environment_library": f"gymnasium {gymnasium.__version__}, torch {torch.__version__} "
            "on a CPU, one thread",
            "made": "tests/golden/generate/cleanrl_discrete.py",
            "steps": "value_loss is half the mean of the larger square; the total has vf_coef "
            "times it; gradient_norm is over all parameters, before clipping",
        },
        hyperparameters={
            **ARGUMENTS,
            "num_iterations": 1,
            "activation": "tanh",
            "adam_epsilon": 1e-5,
            "advantage_ddof": 1,
            "advantage_epsilon": 1e-8,
        },
        rollout={
            **environments.rollout,
            "action": names["actions"].numpy(),
            "log_prob": names["logprobs"].numpy(),
        },
        minibatches=orders,
        steps=steps,
        final=weights(list(names["agent"].parameters())),
    )


if __name__ == "__main__":
    main()
