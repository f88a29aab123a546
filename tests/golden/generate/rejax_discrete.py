"""Records a whole update of rejax's PPO on whole actions, by its own `train_iteration`.

    python -m venv env
    env/bin/pip install rejax==0.1.3 gymnax==1.0.1 jax==0.10.2 optax==0.2.8
    env/bin/python tests/golden/generate/rejax_discrete.py

writes tests/golden/updates/rejax_discrete_update_1.json. Operations run one by one, so that
permutations and gradients can be recorded.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import rejax.algos.ppo as theirs
from whole_actions import WIDTH, N, T, initial, write
from whole_actions_in_jax import Scripted

ARGUMENTS = {
    "num_envs": N,
    "num_steps": T,
    "num_minibatches": 2,
    "num_epochs": 2,
    "learning_rate": 0.02,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_eps": 0.2,
    "vf_coef": 0.5,
    "ent_coef": 0.01,
}


def dense(layer: dict[str, Any]) -> dict[str, Any]:
    return {name: jnp.asarray(x) for name, x in layer.items()}


def parameters() -> tuple[Any, Any]:
    """By the names of DiscretePolicy and VNetwork."""
    start = initial()
    first, second, last = map(dense, start["policy"])
    actor = {"features": {"Dense_0": first, "Dense_1": second}, "action_logits": last}
    critic = {f"Dense_{i}": dense(layer) for i, layer in enumerate(start["value"])}
    return {"params": actor}, {"params": critic}


def main() -> None:
    algorithm = theirs.PPO.create(
        env=Scripted(),
        agent_kwargs={"hidden_layer_sizes": (WIDTH, WIDTH), "activation": "swish"},
        **ARGUMENTS,
    )
    actor, critic = parameters()
    state = algorithm.init_state(jax.random.PRNGKey(3))
    shapes = [jax.tree.map(jnp.shape, x) for x in (state.actor_ts.params, state.critic_ts.params)]
    assert shapes == [jax.tree.map(jnp.shape, x) for x in (actor, critic)]
    state = state.replace(
        actor_ts=state.actor_ts.replace(params=actor),
        critic_ts=state.critic_ts.replace(params=critic),
    )

    infos: list[Any] = []
    rollouts: list[Any] = []
    orders: list[Any] = []
    gradients: list[tuple[float, float]] = []
    collect, grad, permutation = theirs.PPO.collect_trajectories, jax.grad, jax.random.permutation

    def collecting(self: Any, ts: Any) -> Any:
        ts, trajectories = collect(self, ts)
        rollouts.append((trajectories, ts.last_obs))
        return ts, trajectories

    def differentiating(loss: Any) -> Any:
        def at(params: Any) -> Any:
            found = grad(loss)(params)
            gradients.append((float(loss(params)), float(optax.global_norm(found))))
            return found

        return at

    def permuting(*given: Any) -> Any:
        orders.append(permutation(*given))
        return orders[-1]

    stepping = jax.vmap(algorithm.env.step, in_axes=(0, 0, 0, None))

    def recorded_step(self: Any) -> Any:
        def step(*given: Any) -> Any:
            found = stepping(*given)
            infos.append(found[-1])
            return found

        return step

    with (
        jax.disable_jit(),
        mock.patch.object(theirs.PPO, "collect_trajectories", collecting),
        mock.patch.object(theirs.PPO, "vmap_step", property(recorded_step)),
        mock.patch.object(jax, "grad", differentiating),
        mock.patch.object(jax.random, "permutation", permuting),
    ):
        after = algorithm.train_iteration(state)
    ((trajectories, last),) = rollouts
    info = {name: np.stack([np.asarray(one[name]) for one in infos]) for name in infos[0]}
    steps = [
        {
            "policy_total": policy,
            "value_total": value,
            "gradient_norm_policy": policy_norm,
            "gradient_norm_value": value_norm,
        }
        for (policy, policy_norm), (value, value_norm) in zip(
            gradients[::2], gradients[1::2], strict=True
        )
    ]
    actor, critic = after.actor_ts.params["params"], after.critic_ts.params["params"]
    hidden = actor["features"]
    versions = ", ".join(f"{n} {metadata.version(n)}" for n in ("rejax", "jax", "optax", "distrax"))
    write(
        "rejax",
        about={
            "library": "rejax",
            "version": f"{versions}, on a CPU",
            "file": "keraJLi/rejax: src/rejax/algos/ppo.py, networks.py",
            "made": "tests/golden/generate/rejax_discrete.py",
            "steps": "policy_total: surrogate minus ent_coef times entropy, value_total: vf_coef "
            "times half the mean of the larger square, each with a gradient of its own",
        },
        hyperparameters={
            **ARGUMENTS,
            "activation": "swish",
            "adam_epsilon": 1e-8,
            "advantage_ddof": 0,
            "advantage_epsilon": 1e-8,
        },
        rollout={
            **info,
            "observation": trajectories.obs,
            "last_observation": last,
            "log_prob": trajectories.log_prob,
        },
        minibatches=orders,
        steps=steps,
        final={
            "policy": [hidden["Dense_0"], hidden["Dense_1"], actor["action_logits"]],
            "value": [critic[f"Dense_{i}"] for i in range(3)],
        },
    )


if __name__ == "__main__":
    main()
