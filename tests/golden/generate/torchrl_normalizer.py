"""Records how TorchRL's MuJoCo recipe normalises a stream of observations.

    python -m venv env
    env/bin/pip install torch==2.13.0 torchrl==0.14.1 tensordict==0.14.3 numpy
    env/bin/python tests/golden/generate/torchrl_normalizer.py

writes tests/golden/updates/torchrl_normalizer.json: the transforms that the recipe's own function
appends, around an environment whose outputs are scripted, stepped as its collector steps it. The
recipe is the one that torchrl's wheel ships (sota-implementations/ppo/utils_mujoco.py).
"""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchrl
from tensordict import TensorDict
from torchrl.data import Binary, Composite, Unbounded
from torchrl.envs import EnvBase

GOLDEN = Path(__file__).parents[1] / "updates"
RECIPE = Path(torchrl.__file__).parents[1] / "sota-implementations" / "ppo" / "utils_mujoco.py"
STEPS, FEATURES = 60, 3
ENDS = {7: "termination", 19: "truncation", 20: "termination", 44: "truncation"}


def stream() -> dict[str, np.ndarray]:
    """Observations of three features: of mean 20 and std 5, nearly constant, and with outliers that
    the recipe clips; [S+1, 1, O], final ones [S, 1, O], episode ends [S, 1]."""
    rng = np.random.default_rng(41)
    scale = [5.0, 0.02, 1.0]
    observation = rng.normal([20.0, -3.0, 0.0], scale, (STEPS + 1, 1, FEATURES))
    observation[::13, 0, 2] *= 40.0
    final = observation[1:].copy()
    ends = {name: np.zeros((STEPS, 1)) for name in ("termination", "truncation")}
    for t, name in ENDS.items():
        final[t] = rng.normal([35.0, -3.0, 2.0], scale)
        ends[name][t] = 1.0
    return {"observation": observation, "final_observation": final, **ends}


class Scripted(EnvBase):
    """One environment that plays a stream back, whatever is done in it, in double precision as
    Gymnasium's MuJoCo has it."""

    def __init__(self, played: dict[str, np.ndarray]) -> None:
        super().__init__(device="cpu", batch_size=[])
        self.played, self.t = played, 0
        self.observation_spec = Composite(observation=Unbounded((FEATURES,), dtype=torch.float64))
        self.action_spec = Unbounded((1,))
        self.reward_spec = Unbounded((1,))
        self.full_done_spec = Composite(
            {name: Binary(1, dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        )

    def _tensors(self, observation: Any, terminated: Any, truncated: Any) -> dict[str, Any]:
        ends = {"terminated": bool(terminated), "truncated": bool(truncated)}
        ends["done"] = ends["terminated"] or ends["truncated"]
        tensors = {name: torch.tensor([value]) for name, value in ends.items()}
        return tensors | {"observation": torch.tensor(observation)}

    def _reset(self, tensordict: Any, **_: Any) -> TensorDict:
        return TensorDict(self._tensors(self.played["observation"][self.t, 0], 0, 0), [])

    def _step(self, tensordict: Any) -> TensorDict:
        t, self.t = self.t, self.t + 1
        ends = (self.played[name][t, 0] for name in ("termination", "truncation"))
        tensors = self._tensors(self.played["final_observation"][t, 0], *ends)
        return TensorDict(tensors | {"reward": torch.zeros(1)}, [])

    def _set_seed(self, seed: int | None) -> None:
        pass


def main() -> None:
    warnings.simplefilter("ignore")
    spec = importlib.util.spec_from_file_location("utils_mujoco", RECIPE)
    recipe = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = recipe
    spec.loader.exec_module(recipe)

    played = stream()
    env = recipe._add_ppo_transforms(
        Scripted(played),
        normalize_observation=True,
        vecnorm_stats=None,
        max_episode_steps=None,
    )
    now = env.reset()
    seen, finals = [now["observation"]], []
    for _ in range(STEPS):
        taken, now = env.step_and_maybe_reset(now.set("action", torch.zeros(1)))
        finals.append(taken["next", "observation"])
        seen.append(now["observation"])
    (norm,) = [one for one in env.transform if type(one).__name__ == "VecNorm"]
    sums = {name: norm._td[f"observation_{name}"] for name in ("sum", "ssq", "count")}
    versions = {name: metadata.version(name) for name in ("torchrl", "tensordict", "torch")}
    written = {
        "about": {
            "library": "TorchRL",
            "version": ", ".join(f"{name} {version}" for name, version in versions.items()),
            "file": (
                "pytorch/rl: sota-implementations/ppo/utils_mujoco.py, "
                "torchrl/envs/transforms/_normalization.py (VecNorm)"
            ),
            "made": "tests/golden/generate/torchrl_normalizer.py",
            "arrays": {
                "stream.observation": "[S+1,N,O] of the reset, then of each step, after any reset",
                "stream.final_observation": "[S,N,O] the true next one, before any reset",
                "outputs": "the same, as normalised and clipped",
                "final": "VecNorm's decayed sums after the last step",
            },
        },
        "hyperparameters": {"decay": norm.decay, "eps": norm.eps, "clip": 10.0},
        "stream": {name: array.tolist() for name, array in played.items()},
        "outputs": {
            "observation": torch.stack(seen)[:, None].tolist(),
            "final_observation": torch.stack(finals)[:, None].tolist(),
        },
        "final": {name: value.tolist() for name, value in sums.items()},
    }
    (GOLDEN / "torchrl_normalizer.json").write_text(json.dumps(written, indent=None) + "\n")


if __name__ == "__main__":
    main()
