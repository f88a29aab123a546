"""Records whole updates of Brax's PPO, made by its own `train` on scripted environments.

    python -m venv env
    env/bin/pip install brax==0.14.2 jax==0.10.2 optax==0.2.8
    env/bin/python tests/golden/generate/brax_updates.py

writes tests/golden/updates/brax_update_{2,3}.json. Two minibatches of two environments, twice,
with explicit weights and statistics. Rollout, minibatches and losses are recorded by callbacks
around functions of Brax that `train` calls. Episodes end by an observation of NaN, as MuJoCo
Playground's do: Brax never sees it, since its wrapper resets first; the files have it as null.

    2  ADAPTIVE_KL with normalised observations: statistics are updated after the gradient steps
    3  normalised observations, updated before; with value and gradient clips
"""

from __future__ import annotations

import json
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
from brax.envs.base import Env, State
from brax.training import acting, gradients
from brax.training.acme import running_statistics
from brax.training.agents.ppo import networks, optimizer, train
from flax import linen

GOLDEN = Path(__file__).parents[1] / "updates"
N, T, O, A, B = 4, 8, 3, 2, 2  # noqa: E741  # environments, steps, observation, action, minibatch
LIMIT = 5
COMMON = {
    "unroll_length": T,
    "batch_size": B,
    "num_minibatches": N // B,
    "num_updates_per_batch": 2,
    "learning_rate": 0.02,
    "entropy_cost": 1e-2,
    "discounting": 0.97,
    "reward_scaling": 1.0,
    "gae_lambda": 0.95,
    "clipping_epsilon": 0.3,
    "normalize_observations": True,
}
ADAPTIVE = {
    "learning_rate_schedule": "ADAPTIVE_KL",
    "desired_kl": 0.01,
    "learning_rate_schedule_min_lr": 1e-3,
    "learning_rate_schedule_max_lr": 0.05,
}
CLIPS = {"clipping_epsilon_value": 0.2, "max_grad_norm": 0.5}
UPDATES = {2: ADAPTIVE, 3: CLIPS}


class Scripted(Env):
    """Observations, rewards and ends by the number of its steps, whatever is done in it."""

    observation_size = property(lambda self: O)
    action_size = property(lambda self: A)
    backend = property(lambda self: "scripted")

    def reset(self, rng: jax.Array) -> State:
        info = {"script": rng, "clock": jnp.int32(0), "true_next": jnp.zeros(O)}
        return State(
            jnp.zeros(()), self._observation(rng, 0), jnp.zeros(()), jnp.zeros(()), {}, info
        )

    def step(self, state: State, action: jax.Array) -> State:
        script, clock = state.info["script"], state.info["clock"] + 1
        ended = jax.random.uniform(jax.random.fold_in(script, 3 * clock + 1)) < 0.2
        observation = jnp.where(ended, jnp.nan, self._observation(script, clock))
        reward = jax.random.normal(jax.random.fold_in(script, 3 * clock + 2))
        info = {**state.info, "clock": clock, "true_next": observation}
        done = ended.astype(jnp.float32)
        return state.replace(obs=observation, reward=reward, done=done, info=info)

    def _observation(self, script: jax.Array, clock: Any) -> jax.Array:
        noise = jax.random.normal(jax.random.fold_in(script, 3 * clock), (O,))
        return jnp.array([1.0, -2.0, 0.5]) + jnp.array([1.0, 2.0, 0.3]) * noise


def recorded(arguments: dict[str, Any]) -> dict[str, Any]:
    """What one training step of Brax's `train` does: see the keys."""
    rollouts: list[Any] = []
    steps: list[dict[str, Any]] = []
    rates: list[float] = []
    params: list[Any] = []
    unroll, loss_and_grad = acting.generate_unroll, gradients.loss_and_pgrad
    adapted = optimizer.adaptive_kl_learning_rate

    def recording_unroll(*given: Any, extra_fields: Any = (), **named: Any) -> Any:
        state, data = unroll(*given, extra_fields=(*extra_fields, "true_next"), **named)
        jax.debug.callback(rollouts.append, data)
        return state, data

    def recording_gradients(*given: Any, **named: Any) -> Any:
        function = loss_and_grad(*given, **named)

        def h(params: Any, statistics: Any, data: Any, key: jax.Array) -> Any:
            (loss, metrics), gradient = function(params, statistics, data, key)
            seen = {
                "metrics": metrics,
                "norm": optax.tree.norm(gradient),
                "x": data.extras["policy_extras"]["raw_action"],
                "noise": jax.random.normal(key, (T, B, A)),
            }
            jax.debug.callback(steps.append, seen)
            return (loss, metrics), gradient

        return h

    def recording_rate(*given: Any, **named: Any) -> Any:
        state, rate = adapted(*given, **named)
        jax.debug.callback(lambda x: rates.append(float(x)), rate)
        return state, rate

    start = initial()
    with (
        mock.patch.object(acting, "generate_unroll", recording_unroll),
        mock.patch.object(gradients, "loss_and_pgrad", recording_gradients),
        mock.patch.object(optimizer, "adaptive_kl_learning_rate", recording_rate),
        # JAX 0.10 has it no more, and Brax 0.14.2 still calls it, here for one device.
        mock.patch.object(jax, "device_put_replicated", one_device, create=True),
    ):
        train.train(
            Scripted(),
            num_timesteps=N * T,
            num_envs=N,
            episode_length=LIMIT,
            num_evals=1,
            run_evals=False,
            network_factory=FACTORY,
            restore_params=start,
            policy_params_fn=lambda step, make, now: params.append(now),
            seed=3,
            **arguments,
        )
        jax.effects_barrier()
    rate = arguments["learning_rate"]
    return {
        "rollout": rollouts[0],
        "steps": steps,
        "rates": rates or [rate] * len(steps),
        "start": start,
        "end": params[-1],
    }


def one_device(tree: Any, devices: list[Any]) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x)[None], tree)


FACTORY = partial(
    networks.make_ppo_networks,
    policy_hidden_layer_sizes=(8, 8),
    value_hidden_layer_sizes=(8, 8),
    activation=linen.swish,
)


def initial() -> tuple[Any, Any, Any]:
    """Statistics of one batch of another stream, and weights that are no special case."""
    rng = np.random.default_rng(41)
    built = FACTORY(O, A, preprocess_observations_fn=running_statistics.normalize)
    shape = jax.ShapeDtypeStruct((O,), jnp.float32)
    statistics = running_statistics.update(
        running_statistics.init_state(shape),
        jnp.asarray(rng.normal([0.5, -1.0, 0.4], [1.5, 1.0, 0.4], (T, N, O)), jnp.float32),
    )

    def moved(network: Any, key: int) -> Any:
        parameters = network.init(jax.random.key(key))
        return jax.tree.map(
            lambda x: jnp.asarray(x + rng.normal(0, 0.2, x.shape), jnp.float32), parameters
        )

    return statistics, moved(built.policy_network, 0), moved(built.value_network, 1)


def layers(parameters: Any) -> list[dict[str, Any]]:
    return [
        {name: np.asarray(x, float).tolist() for name, x in parameters["params"][layer].items()}
        for layer in sorted(parameters["params"])
    ]


def statistics_of(state: Any) -> dict[str, Any]:
    count = float(state.count.lo)
    return {
        "mean": np.asarray(state.mean, float).tolist(),
        "variance": (np.asarray(state.summed_variance, float) / count).tolist(),
        "batches": count / (N * T),
    }


def listed(array: Any) -> Any:
    """Nested lists with null for NaN."""
    if np.ndim(array):
        return [listed(part) for part in array]
    return None if np.isnan(array) else float(array)


def described(arguments: dict[str, Any]) -> dict[str, Any]:
    """The file of one update."""
    made = recorded(arguments)
    data = made["rollout"]
    extras, ends = data.extras["policy_extras"], data.extras["state_extras"]
    x = np.asarray(extras["raw_action"])
    place = {x[:, n].tobytes(): n for n in range(N)}
    times = np.arange(T)[:, None] * N
    orders, steps = [], []
    for one, rate in zip(made["steps"], made["rates"], strict=True):
        segments = [place[np.ascontiguousarray(row).tobytes()] for row in np.asarray(one["x"])]
        orders.append((times + np.array(segments)).reshape(-1).tolist())
        losses = {
            "policy_loss": "policy_loss",
            "value_loss": "v_loss",
            "entropy_loss": "entropy_loss",
            "total": "total_loss",
            "kl_mean": "kl_mean",
        }
        numbers = {ours: float(one["metrics"][theirs]) for ours, theirs in losses.items()}
        numbers |= {"gradient_norm": float(one["norm"]), "learning_rate": rate}
        steps.append({**numbers, "entropy_noise": np.asarray(one["noise"], float).tolist()})
    truncation = np.asarray(ends["truncation"], float)
    minibatches = arguments["num_minibatches"]
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("brax", "jax", "optax"))
    return {
        "about": {
            "library": "Brax",
            "version": f"{versions}, on a CPU",
            "file": "google/brax: brax/training/agents/ppo/train.py, losses.py, optimizer.py",
            "made": "tests/golden/generate/brax_updates.py",
            "arrays": {
                "rollout": "[T,N,...] as the library collected it; next_observation is the true "
                "one, before any reset, null where the environment gave NaN",
                "rollout.action": "before tanh",
                "minibatches": "[epochs][minibatches][T*B] flat indices t*N+n (time, then segment)",
                "initial_statistics / final_statistics": "of observations; batches of T*N of them",
                "steps": "before each gradient step; value_loss and entropy_loss are weighted",
            },
        },
        "hyperparameters": {
            "num_envs": N,
            **arguments,
            "adam_epsilon": 1e-8,
            "adam_betas": [0.9, 0.999],
            "activation": "swish",
            "advantage_ddof": 0,
            "advantage_epsilon": 1e-8,
        },
        "initial_weights": {"policy": layers(made["start"][1]), "value": layers(made["start"][2])},
        "initial_statistics": statistics_of(made["start"][0]),
        "rollout": {
            "observation": listed(data.observation),
            "next_observation": listed(ends["true_next"]),
            "reward": listed(data.reward),
            "termination": listed((1 - np.asarray(data.discount)) * (1 - truncation)),
            "truncation": listed(truncation),
            "action": listed(x),
            "log_prob": listed(extras["log_prob"]),
        },
        "minibatches": [orders[i : i + minibatches] for i in range(0, len(orders), minibatches)],
        "steps": steps,
        "final_weights": {"policy": layers(made["end"][1]), "value": layers(made["end"][2])},
        "final_statistics": statistics_of(made["end"][0]),
    }


def main() -> None:
    for number, more in UPDATES.items():
        path = GOLDEN / f"brax_update_{number}.json"
        path.write_text(json.dumps(described(COMMON | more)) + "\n")


if __name__ == "__main__":
    main()
