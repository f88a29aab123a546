"""What the records of updates on whole actions have in common: scripted environments, and the file.

Outputs of the environments do not depend on the actions. An episode ends by termination or, where
it does not, after LIMIT steps by truncation.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parents[1] / "updates"
N, T, O, A, WIDTH, LIMIT = 4, 8, 3, 3, 8, 5  # noqa: E741  # environments, steps, sizes
CENTRE, SPREAD = (1.0, -2.0, 0.5), (1.0, 2.0, 0.3)
ARRAYS = {
    "rollout.observation": "[T,N,O] what the policy saw at each step",
    "rollout.next_observation": "[T,N,O] the true next observation, before any reset",
    "rollout.last_observation": "[N,O] what the policy would see at step T (after any reset)",
    "rollout.action": "[T,N] whole numbers",
    "rollout.log_prob": "[T,N] their log probability, by the library, with the initial weights",
    "minibatches": "[epochs][minibatches][B] which samples, as flat indices t*N+n",
    "weights": "policy and value: three layers, kernel [inputs,outputs] and bias [outputs]",
    "steps": "one entry per gradient step, in order, before that step is taken",
}

OF_A_LATER_UPDATE = {"initial_adam": "the steps taken before, and the moments that they left"}


def layers(rng: np.random.Generator, outputs: int) -> list[dict[str, Any]]:
    """Weights that are no special case."""
    sizes = [(O, WIDTH), (WIDTH, WIDTH), (WIDTH, outputs)]
    return [
        {
            "kernel": rng.normal(0, 1 / np.sqrt(inputs), (inputs, size)).astype(np.float32),
            "bias": rng.normal(0, 0.2, size).astype(np.float32),
        }
        for inputs, size in sizes
    ]


def initial() -> dict[str, Any]:
    rng = np.random.default_rng(41)
    return {"policy": layers(rng, A), "value": layers(rng, 1)}


def script() -> dict[str, np.ndarray]:
    """The rollout that NumPy environments play: see ARRAYS, with "clock" for what they know."""
    rng = np.random.default_rng(42)
    observations = rng.normal(CENTRE, SPREAD, (T + 1, N, O)).astype(np.float32)
    termination = rng.random((T, N)) < 0.2
    truncation, clock = np.zeros((T, N), bool), np.zeros(N, int)
    for t in range(T):
        clock += 1
        truncation[t] = (clock == LIMIT) & ~termination[t]
        clock = np.where(termination[t] | truncation[t], 0, clock)
    done = (termination | truncation)[..., None]
    others = rng.normal(CENTRE, SPREAD, (T, N, O)).astype(np.float32)
    return {
        "observation": observations[:-1],
        "next_observation": np.where(done, others, observations[1:]),
        "last_observation": observations[-1],
        "reward": rng.normal(0, 1, (T, N)).astype(np.float32),
        "termination": termination.astype(np.float32),
        "truncation": truncation.astype(np.float32),
    }


def listed(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: listed(x) for name, x in tree.items()}
    if isinstance(tree, list | tuple):
        return [listed(x) for x in tree]
    return np.asarray(tree).tolist() if np.ndim(tree) else float(tree)


def write(
    library: str,
    *,
    about: dict[str, str],
    hyperparameters: dict[str, Any],
    rollout: dict[str, Any],
    minibatches: list[Any],
    steps: list[dict[str, float]],
    final: dict[str, Any],
    number: int = 1,
    start: dict[str, Any] | None = None,
) -> None:
    """Write tests/golden/updates/<library>_discrete_update_<number>.json.

    minibatches: a permutation of all samples for each epoch. start: initial_weights and
        initial_adam of a later update.
    """
    count = len(steps) // len(minibatches)
    path = GOLDEN / f"{library}_discrete_update_{number}.json"
    file = {
        "about": {**about, "arrays": ARRAYS | (OF_A_LATER_UPDATE if start else {})},
        "hyperparameters": {**hyperparameters, "adam_betas": [0.9, 0.999]},
        **listed(start or {"initial_weights": initial()}),
        "rollout": listed(rollout),
        "minibatches": [np.reshape(one, (count, -1)).tolist() for one in minibatches],
        "steps": listed(steps),
        "final_weights": listed(final),
    }
    path.write_text(json.dumps(file) + "\n")
