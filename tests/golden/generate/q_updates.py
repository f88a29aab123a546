"""Records whole updates of two PQNs: that of its authors, PureJaxQL, and Rejax's.

    git clone https://github.com/mttga/purejaxql && git -C purejaxql checkout 47af6d7
    python -m venv env
    env/bin/pip install rejax==0.1.3 gymnax==0.0.9
    env/bin/python tests/golden/generate/q_updates.py purejaxql/purejaxql/pqn_gymnax.py

writes tests/golden/q_updates/{purejaxql,rejax_pqn}.json. Both train on CartPole by their own
code, uncompiled, so that what goes through their loops can be kept: two iterations in a row, each
with its rollout, its minibatches, the targets, and the weights and the loss after it. Networks have
8 units a layer, and epsilon is high, so that episodes end within a rollout.

What PureJaxQL's script imports beside JAX (hydra, wandb, ...) is of its command line alone and is
left out.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

GOLDEN = Path(__file__).parents[1] / "q_updates"
N, T, MINIBATCHES, EPOCHS, WIDTH = 4, 24, 3, 2, 8
ITERATIONS, DECAY = 2, 4


def listed(x: Any) -> Any:
    """Arrays as lists, 9 digits of each number: float32 is read back as it was."""
    if isinstance(x, dict):
        return {name: listed(one) for name, one in x.items()}
    x = np.asarray(x)
    if x.dtype.kind in "iub":
        return x.astype(int).tolist()
    return json.loads(json.dumps(np.vectorize(lambda one: float(f"{one:.9g}"))(x).tolist()))


def layers(params: dict[str, Any]) -> list[dict[str, Any]]:
    """Dense layers in their order, each with the scale and bias of the norm behind it."""
    dense = [params[f"Dense_{i}"] for i in range(3)]
    norms = [params[f"LayerNorm_{i}"] for i in range(2)]
    found = [dict(one) for one in dense]
    for layer, norm in zip(found, norms, strict=False):
        layer |= {"norm_scale": norm["scale"], "norm_bias": norm["bias"]}
    return listed({str(i): one for i, one in enumerate(found)})


def write(name: str, arguments: Any, iterations: list[dict[str, Any]], in_all: float) -> None:
    """in_all: the iterations of the whole run, over which rates fall."""
    file = {"hyperparameters": arguments, "in_all": in_all, "iterations": iterations}
    path = GOLDEN / f"{name}.json"
    path.write_text(json.dumps(file) + "\n")
    ends = [int(np.sum(one["rollout"]["termination"])) for one in iterations]
    print(f"{path.name}: {path.stat().st_size} bytes, episodes that end: {ends}")


# PureJaxQL


def purejaxql(script: Path) -> None:
    for name in ("hydra", "omegaconf", "safetensors", "safetensors.flax", "wandb"):
        sys.modules[name] = mock.MagicMock()
    sys.modules["hydra"].main = lambda **_: lambda function: function
    spec = importlib.util.spec_from_file_location("pqn_gymnax", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    arguments = {
        "NUM_ENVS": N,
        "NUM_STEPS": T,
        "NUM_MINIBATCHES": MINIBATCHES,
        "NUM_EPOCHS": EPOCHS,
        "HIDDEN_SIZE": WIDTH,
        "LR": 0.02,
        "MAX_GRAD_NORM": 0.5,
        "EPS_FINISH": 0.5,
        "LAMBDA": 0.8,
    }
    usual = {
        "EPS_START": 1.0, "EPS_DECAY": 0.2, "NUM_LAYERS": 2, "NORM_TYPE": "layer_norm",
        "LR_LINEAR_DECAY": True, "REW_SCALE": 0.1, "GAMMA": 0.99,
    }  # fmt: skip
    config = usual | arguments | {
        "ENV_NAME": "CartPole-v1",
        "TOTAL_TIMESTEPS": N * T * ITERATIONS,
        "TOTAL_TIMESTEPS_DECAY": N * T * DECAY,
        "WANDB_MODE": "disabled",
    }  # fmt: skip
    kept, scan, permutation = Kept(), jax.lax.scan, jax.random.permutation

    def looped(body: Callable[..., Any], carry: Any, xs: Any, *more: Any, **options: Any) -> Any:
        name = body.__name__
        if name == "_update_step":
            kept.weights(carry[0].params)
        carry, ys = scan(body, carry, xs, *more, **options)
        if name == "_step_env":
            kept.rollout(ys[0])
        elif name == "_get_target":
            # Without the last one, which its loop starts from.
            kept.targets(ys)
        elif name == "_learn_epoch":
            kept.learned(carry[0].params, ys[0])
        return carry, ys

    def shuffled(key: Any, x: Any) -> Any:
        kept.order(permutation(key, jnp.arange(len(x))))
        return permutation(key, x)

    with (
        jax.disable_jit(),
        mock.patch.object(jax.lax, "scan", looped),
        mock.patch.object(jax.random, "permutation", shuffled),
    ):
        module.make_train(config)(jax.random.split(jax.random.PRNGKey(3), 1)[0])
    write("purejaxql", arguments, kept.iterations, DECAY)


class Kept:
    """What goes through PureJaxQL's loops, iteration by iteration."""

    def __init__(self) -> None:
        self.iterations: list[dict[str, Any]] = []
        self._weights: Any = None

    def weights(self, params: Any) -> None:
        self._weights = layers(params)

    def rollout(self, transitions: Any) -> None:
        self._transitions, self._orders = transitions, []

    def targets(self, targets: Any) -> None:
        self._targets = targets

    def order(self, order: Any) -> None:
        # Every leaf of the transitions and the targets is shuffled by one key.
        if not self._orders or not np.array_equal(self._orders[-1], order):
            self._orders.append(np.asarray(order))

    def learned(self, params: Any, losses: Any) -> None:
        t = self._transitions
        self.iterations.append(
            {
                "weights": self._weights,
                "rollout": listed(
                    {
                        "observation": t.obs,
                        "action": t.action,
                        # As the environment paid it: REW_SCALE is a setting here.
                        "reward": np.round(np.asarray(t.reward) / 0.1, 6),
                        "termination": t.done,
                        "last_observation": t.next_obs[-1],
                    }
                ),
                "targets": listed(self._targets),
                "minibatches": listed(np.stack(self._orders).reshape(EPOCHS, MINIBATCHES, -1)),
                "losses": listed(losses),
                "weights_after": layers(params),
            }
        )
        self._weights = layers(params)


# Rejax


def rejax() -> None:
    from rejax.algos.pqn import PQN

    arguments = {
        "num_envs": N,
        "num_steps": T,
        "num_minibatches": MINIBATCHES,
        "num_epochs": EPOCHS,
        "learning_rate": 0.02,
        "td_lambda": 0.8,
        "max_grad_norm": 0.05,
    }
    algorithm = PQN.create(env="CartPole-v1", **arguments)
    # Its own network, but for the width, which has no argument.
    algorithm = algorithm.replace(agent=algorithm.agent.clone(hidden_layer_sizes=(WIDTH, WIDTH)))
    state, iterations = algorithm.init_state(jax.random.PRNGKey(5)), []

    def weights(state: Any) -> Any:
        return layers(state.q_ts.params["params"])

    for _ in range(ITERATIONS):
        before = weights(state)
        state, trajectory = algorithm.collect_trajectories(state, 0.5)
        last = algorithm.agent.apply(state.q_ts.params, state.last_obs).max(axis=1)
        last = jnp.where(state.last_done, 0, last)
        targets = algorithm.calculate_targets(trajectory, last)
        orders = []
        for _ in range(EPOCHS):
            rng, key = jax.random.split(state.rng)
            state = state.replace(rng=rng)
            orders.append(jax.random.permutation(key, N * T))
            parts = algorithm.shuffle_and_split((trajectory, targets), key)
            for i in range(MINIBATCHES):
                one, aims = jax.tree.map(lambda x, i=i: x[i], parts)
                part = SimpleNamespace(trajectories=one, targets=aims)
                state = algorithm.update(state, part)
        iterations.append(
            {
                "weights": before,
                "rollout": listed(
                    {
                        "observation": trajectory.obs,
                        "action": trajectory.action,
                        "reward": trajectory.reward,
                        "termination": trajectory.done,
                        "last_observation": state.last_obs,
                    }
                ),
                "targets": listed(targets),
                "minibatches": listed(np.stack(orders).reshape(EPOCHS, MINIBATCHES, -1)),
                "weights_after": weights(state),
            }
        )
    write("rejax_pqn", arguments, iterations, DECAY)


if __name__ == "__main__":
    rejax()
    purejaxql(Path(sys.argv[1]))
