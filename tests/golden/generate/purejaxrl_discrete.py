"""Records whole updates of PureJaxRL's PPO on whole actions, by its own script.

    git clone https://github.com/luchris429/purejaxrl && git -C purejaxrl checkout 31756b1
    python -m venv env
    env/bin/pip install gymnax==1.0.1 distrax==0.1.9 jax==0.10.2 optax==0.2.8 flax==0.12.8
    env/bin/python tests/golden/generate/purejaxrl_discrete.py purejaxrl

writes tests/golden/updates/purejaxrl_discrete_update_1.json, by `make_train` for one update, and
purejaxrl_discrete_update_2.json, the second of three: its learning rate has fallen, and Adam's
moments are those that the first left. A hidden width is 8 for 64. Operations run one by one, so
that permutations and losses can be recorded.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
from whole_actions import WIDTH, N, T, initial, write
from whole_actions_in_jax import Scripted

ARGUMENTS = {
    "LR": 0.02,
    "NUM_ENVS": N,
    "NUM_STEPS": T,
    "UPDATE_EPOCHS": 2,
    "NUM_MINIBATCHES": 2,
    "GAMMA": 0.99,
    "GAE_LAMBDA": 0.95,
    "CLIP_EPS": 0.2,
    "ENT_COEF": 0.01,
    "VF_COEF": 0.5,
    "MAX_GRAD_NORM": 0.5,
    "ACTIVATION": "tanh",
    "ANNEAL_LR": True,
}
LAYERS = {"policy": range(3), "value": range(3, 6)}  # of its Dense_0 to Dense_5


def script_of(folder: Path) -> dict[str, Any]:
    """The names of its module, without the environments that it also imports."""
    for name in ("brax", "brax.envs", "brax.envs.wrappers", "navix"):
        sys.modules[name] = ModuleType(name)
    sys.modules["brax"].envs = sys.modules["brax.envs"]
    training = ModuleType("brax.envs.wrappers.training")
    training.EpisodeWrapper = training.AutoResetWrapper = object
    sys.modules["brax.envs.wrappers.training"] = training
    sys.path.insert(0, str(folder))
    text = (folder / "ppo.py").read_text()
    assert text.count("64, kernel_init") == 4
    module = sys.modules["theirs"] = ModuleType("theirs")
    exec(text.replace("64, kernel_init", f"{WIDTH}, kernel_init"), vars(module))
    return vars(module)


def weights_of(tree: Any) -> dict[str, Any]:
    return {net: [tree["params"][f"Dense_{i}"] for i in places] for net, places in LAYERS.items()}


def start_of(state: Any) -> dict[str, Any]:
    """Weights and moments of a train state."""
    adam = next(
        part
        for part in jax.tree.leaves(state.opt_state, is_leaf=lambda x: hasattr(x, "mu"))
        if hasattr(part, "mu")
    )
    moments = {"count": adam.count, "mu": weights_of(adam.mu), "nu": weights_of(adam.nu)}
    return {"initial_weights": weights_of(state.params), "initial_adam": moments}


def main() -> None:
    theirs = script_of(Path(sys.argv[1]) / "purejaxrl")
    record(theirs, number=1, of=1)
    record(theirs, number=2, of=3)


def record(theirs: dict[str, Any], number: int, of: int) -> None:
    """Write the record of one of so many updates."""
    start = initial()
    parameters = {
        "params": {
            f"Dense_{place}": {name: jnp.asarray(x) for name, x in layer.items()}
            for net, places in LAYERS.items()
            for place, layer in zip(places, start[net], strict=True)
        }
    }
    transitions: list[Any] = []
    rollouts: list[Any] = []
    states: list[Any] = []  # after each gradient step
    orders: list[Any] = []
    steps: list[dict[str, float]] = []
    value_and_grad, permutation = jax.value_and_grad, jax.random.permutation
    plain, apply_gradients = theirs["Transition"], theirs["TrainState"].apply_gradients

    class Transition(plain):
        def __new__(cls, *fields: Any) -> Any:
            made = super().__new__(cls, *fields)
            transitions.append(made)
            return made

    def differentiating(loss: Any, has_aux: bool) -> Any:
        def at(params: Any, *given: Any) -> Any:
            (total, parts), gradient = value_and_grad(loss, has_aux=has_aux)(params, *given)
            value_loss, policy_loss, entropy = parts
            steps.append(
                {
                    "policy_loss": policy_loss,
                    "value_loss": value_loss,
                    "entropy": entropy,
                    "total": total,
                    "gradient_norm": optax.global_norm(gradient),
                }
            )
            return (total, parts), gradient

        return at

    def permuting(*given: Any) -> Any:
        if len(orders) % ARGUMENTS["UPDATE_EPOCHS"] == 0:  # the first epoch of an update
            rollouts.append(next(x for x in reversed(transitions) if jnp.shape(x.done) == (T, N)))
        orders.append(permutation(*given))
        return orders[-1]

    def applying(self: Any, **given: Any) -> Any:
        states.append(apply_gradients(self, **given))
        return states[-1]

    def make(name: str) -> Any:
        return Scripted(), None

    theirs["ActorCritic"].init = lambda self, *given: parameters
    run = {**ARGUMENTS, "TOTAL_TIMESTEPS": of * N * T, "ENV_NAME": "scripted"}
    with (
        jax.disable_jit(),
        mock.patch.dict(theirs, {"Transition": Transition}),
        mock.patch.object(theirs["gymnax"], "make", make),
        mock.patch.object(theirs["TrainState"], "apply_gradients", applying),
        mock.patch.object(jax, "value_and_grad", differentiating),
        mock.patch.object(jax.random, "permutation", permuting),
    ):
        out = theirs["make_train"](run)(jax.random.PRNGKey(3))
    last = rollouts[number].obs[0] if number < of else out["runner_state"][2]
    rollout, before = rollouts[number - 1], number - 1
    names = ("next_observation", "reward", "termination", "truncation", "action")
    epochs = ARGUMENTS["UPDATE_EPOCHS"]
    count = epochs * ARGUMENTS["NUM_MINIBATCHES"]
    assert len(states) == of * count
    versions = ", ".join(f"{n} {metadata.version(n)}" for n in ("jax", "optax", "distrax", "flax"))
    write(
        "purejaxrl",
        about={
            "library": "PureJaxRL",
            "version": "commit 31756b197773a52db763fdbe6d635e4b46522a73",
            "file": "luchris429/purejaxrl: purejaxrl/ppo.py",
            "environment_library": f"{versions}, on a CPU",
            "made": "tests/golden/generate/purejaxrl_discrete.py",
            "steps": "value_loss is half the mean of the larger square; the total has VF_COEF "
            "times it; gradient_norm is over all parameters, before clipping",
        },
        hyperparameters={
            **ARGUMENTS,
            "TOTAL_TIMESTEPS": of * N * T,
            "num_iterations": of,
            **({"iteration": number} if before else {}),
            "adam_epsilon": 1e-5,
            "advantage_ddof": 0,
            "advantage_epsilon": 1e-8,
        },
        rollout={
            **{name: rollout.info[name] for name in names},
            "observation": rollout.obs,
            "last_observation": last,
            "log_prob": rollout.log_prob,
        },
        minibatches=orders[before * epochs : number * epochs],
        steps=steps[before * count : number * count],
        final=weights_of(states[number * count - 1].params),
        number=number,
        start=start_of(states[before * count - 1]) if before else None,
    )
    assert np.shape(orders[0]) == (N * T,)


if __name__ == "__main__":
    main()
