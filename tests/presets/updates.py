"""A library's recorded update, learned from by the trainer that its preset composes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax

import variants
from ablations.environments import Box, Discrete
from ablations.presets import Preset, preset
from ablations.tasks import Task, task
from ablations.trainers import losses, optimizer, trainer
from ablations.trainers.choices import fix
from ablations.trainers.control import distribution as distributions
from ablations.trainers.control import normalizer as statistics
from ablations.trainers.control.environment import Environments, Outcome
from ablations.trainers.control.networks import SPREAD, make_networks
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.control.ppo import PPO, Carried, PPOState, Sample, Settings
from ablations.trainers.control.rollouts import Draws, Rollout, State

# A task of either kind of actions; what it sets is none of an update.
OF_VECTORS, OF_WHOLE_ACTIONS = "fast", "cartpole"
GOLDEN = Path(__file__).parents[1] / "golden" / "updates"

# What a file says beside the library's arguments: facts of the run, and what the library fixes.
OF_THE_RUN = {"num_iterations", "iteration", "total_network_updates", "TOTAL_TIMESTEPS"}
OF_THE_RUN |= {"updates_in_all", "min_std"}
FIXED = {
    "adam_epsilon": "adam_epsilon",
    "advantage_ddof": "ddof",
    "advantage_epsilon": "epsilon",
    "advantage_min_std": "advantage_std_low",
}
# The file's rollout is what the learner saw: whatever wrappers do was done before.
AS_SEEN = {
    "observation_normalization": "none",
    "observation_statistics": "per_batch",
    "observation_scaling": "bounded_std",
    "reward_scaling": "constant",
}


@dataclass(frozen=True)
class Update:
    """steps: metric -> one number per gradient step. weights: as the file has them. statistics: of
    observations, after it."""

    steps: dict[str, np.ndarray]
    weights: dict[str, Any]
    statistics: Normalizer


def files(kind: str, presets: Any) -> list[Path]:
    """The recorded files of a kind, such as "update", of the libraries that have a preset."""
    return [
        path
        for path in sorted(GOLDEN.glob("*.json"))
        for name in presets
        if path.stem.startswith((f"{name}_{kind}", f"{name}_discrete_{kind}"))
    ]


def stem_of(path: Path) -> str:
    """The library, with _discrete behind where actions are whole numbers."""
    return path.stem.rpartition("_update")[0] or path.stem.rpartition("_normalizer")[0]


def library_of(path: Path) -> str:
    return stem_of(path).removesuffix("_discrete")


def task_of(path: Path) -> Task:
    return task(OF_WHOLE_ACTIONS if stem_of(path).endswith("_discrete") else OF_VECTORS)


def preset_of(path: Path) -> Preset:
    return preset(library_of(path)).on(task_of(path))


def settings_of(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The preset's settings with the file's arguments, and the facts of the run."""
    file = json.loads(path.read_text())
    one = preset_of(path)
    given = dict(file["hyperparameters"])
    assert given.pop("adam_betas") == [0.9, 0.999]
    fixed = {name: given.pop(name) for name in FIXED if name in given}
    run = {name: given.pop(name) for name in OF_THE_RUN if name in given}
    if "num_envs" in given and "num_envs" not in one.arguments:
        run["num_envs"] = given.pop("num_envs")
    run["num_envs"] = np.shape(file["rollout"]["reward"])[1]
    values = one.values(**given)
    for name, value in fixed.items():
        if FIXED[name] in values:
            assert values[FIXED[name]] == value, f"the library fixes {name}={value}"
    if values["observation_statistics"] != "per_batch":
        values |= AS_SEEN
    layers = [len(layer["bias"]) for layer in file["initial_weights"]["policy"][:-1]]
    values |= {"policy_layers": layers, "value_layers": layers, "num_envs": run["num_envs"]}
    return values, run


@cache
def learner(
    sizes: tuple[tuple[str, int], ...],
    layers: tuple[tuple[str, tuple[int, ...]], ...],
    activation: str,
    fixed: tuple[tuple[str, str], ...],
) -> tuple[PPO, Any]:
    """PPO of these sizes with some choices compiled in, and its update as a compiled function of
    (state, rollout, draws, noise of the entropy estimate, variant)."""
    size, choices = dict(sizes), dict(fixed)
    actions = Discrete(size["logits"]) if "logits" in size else Box(size["action"])
    distribution = distributions.distribution_of(actions, choices)
    environments = Environments(SimpleNamespace(), size["num_envs"], 1000)
    ppo = PPO(
        environments=environments,
        evaluation_environments=environments,
        networks=make_networks(
            size["observation"], distribution.outputs, activation=activation, **dict(layers)
        ),
        distribution=distribution,
        settings=Settings(
            **{name: size[name] for name in ("unroll_length", "num_minibatches", "epochs")}
        ),
        updates_per_chunk=1,
        fixed=choices,
    )

    def learn(
        state: PPOState, given: Rollout[Sample], draws: Draws, noise: Any, variant: Any
    ) -> Any:
        with mock.patch.object(distributions, "entropy_noise", lambda key, shape: noise[key]):
            return ppo.learn(state, given, draws, fix(variant, choices))

    return ppo, jax.jit(learn)


def first_statistics(file: dict[str, Any]) -> Normalizer:
    """Those of observations that the update starts from."""
    if "initial_statistics" not in file:
        return statistics.empty(np.shape(file["rollout"]["observation"])[-1])
    given = file["initial_statistics"]
    mean, variance = (jnp.asarray(given[name], jnp.float32) for name in ("mean", "variance"))
    return Normalizer(mean, variance, jnp.uint32(given["batches"]))


def true_next(rollout: dict[str, Any]) -> np.ndarray:
    """[T, N, O]: of a library that never sees it, what followed, after any reset."""
    if "next_observation" not in rollout:
        return np.concatenate([rollout["observation"][1:], [rollout["last_observation"]]])
    return np.asarray(rollout["next_observation"], np.float32)


def learned(
    path: Path,
    as_data: frozenset[str] = frozenset(),
    change: Callable[[dict[str, Any]], None] | None = None,
    **changes: Any,
) -> Update:
    """What the preset's trainer makes of the recorded rollout, with some settings changed.

    as_data: axes whose choice is data, as a program that serves several of their choices has it.
    change: of the file's rollout, in place.
    """
    file = json.loads(path.read_text())
    values, run = settings_of(path)
    values |= changes
    definition = trainer("ppo")
    config = definition.resolve(task_of(path), values)
    structure, rollout = config["structure"], file["rollout"]
    if change:
        change(rollout)
    T, N = np.shape(rollout["reward"])
    assert (structure["unroll_length"], structure["num_envs"]) == (T, N)
    choices = {axis: choice["name"] for axis, choice in config["choices"].items()}
    choices = {axis: choices.get(axis, default) for axis, default in definition.axes.items()}
    whole = task_of(path).discrete
    A = len(file["initial_weights"]["policy"][-1]["bias"]) if whole else width(rollout["action"])
    sizes = {name: structure[name] for name in ("unroll_length", "num_envs", "num_minibatches")}
    sizes |= {"epochs": structure["epochs"], "logits" if whole else "action": A}
    sizes |= {"observation": width(rollout["observation"])}
    ppo, learn = learner(
        tuple(sizes.items()),
        tuple((name, tuple(structure[name])) for name in ("policy_layers", "value_layers")),
        structure["activation"],
        tuple((axis, name) for axis, name in choices.items() if axis not in as_data),
    )
    variant = definition.data(config)
    variant = variant._replace(iterations=np.float32(iterations(run, structure)))

    start = first_spread(config["numbers"])
    parameters = to_parameters(file["initial_weights"], start)
    learner_before = optimizer.start(parameters, variant)
    if "initial_adam" in file:
        adam = file["initial_adam"]
        mu, nu = (to_parameters(adam[name], 0.0) for name in ("mu", "nu"))
        moments = optax.ScaleByAdamState(jnp.int32(adam["count"]), mu, nu)
        learner_before = learner_before._replace(optimizer=moments)
    state = State(
        learner=learner_before,
        reward_scaling=variants.axis("reward_scaling").init(num_envs=N),
        normalizer=first_statistics(file),
        acting=ppo.acting(variant),
        episodes=None,
        key=None,
        iteration=jnp.uint32(run.get("iteration", 1) - 1),
        own=Carried(
            advantage_scaling=variants.axis("advantage_scaling").init(),
            value_targets=None,
            coefficients=losses.scheduled(choices, variant),
        ),
    )
    array = {n: jnp.asarray(np.asarray(x, np.float32)) for n, x in rollout.items()}
    x, slope = np.asarray(rollout["action"]), np.zeros((T, N))
    if not whole:
        x, slope = drawn_before(choices["action_distribution"], x)
    seen = ppo.normalized(state.normalizer, array["observation"], state.acting)
    given = Rollout(
        observation=array["observation"],
        kept=Sample(
            raw=ppo.networks.policy(parameters, seen),
            x=jnp.asarray(x, jnp.int32 if whole else jnp.float32),
            log_prob=jnp.asarray(np.asarray(rollout["log_prob"]) + slope, jnp.float32),
        ),
        outcome=Outcome(
            reward=array["reward"],
            termination=array["termination"] > 0,
            truncation=array["truncation"] > 0,
            next_observation=jnp.asarray(true_next(rollout), jnp.float32),
            finished=array["truncation"] > 0,
            length=jnp.zeros((T, N), jnp.int32),
            reward_sum=array["reward"],
        ),
        last_observation=jnp.asarray(true_next(rollout)[-1], jnp.float32),
    )
    order = np.asarray(file["minibatches"], np.int32)
    rows = T if choices["minibatch_unit"] == "segments" else 1
    steps = order.shape[0] * order.shape[1]
    draws = Draws(
        order=jnp.asarray(order.reshape(*order.shape[:2], rows, -1)),
        key=jnp.arange(steps).reshape(order.shape[:2]),
    )
    noise = [
        np.reshape(one.get("entropy_noise", np.zeros((order.shape[2], A))), (-1, A))
        for one in file["steps"]
    ]
    state, metrics = learn(state, given, draws, np.array(noise, np.float32), variant)
    return Update(
        steps={name: np.asarray(x).reshape(-1) for name, x in metrics.items()},
        weights=from_parameters(state.parameters, file["initial_weights"], start),
        statistics=state.normalizer,
    )


def width(array: Any) -> int:
    return np.shape(array)[-1]


def iterations(run: dict[str, Any], structure: dict[str, Any]) -> float:
    """How many iterations the whole run has."""
    if "total_network_updates" in run:
        return run["total_network_updates"] / structure["epochs"] / structure["num_minibatches"]
    return run.get("num_iterations", run.get("updates_in_all", np.inf))


def drawn_before(distribution: str, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x of the recorded action, and the log slope that the library's log density has and ours has
    not. Brax records x itself."""
    if not distribution.startswith("tanh"):
        return action, np.zeros(action.shape[:-1])
    x = np.arctanh(action) if distribution.endswith("inverted") else action
    return x, np.sum(2 * (math.log(2) - x - np.logaddexp(0, -2 * x)), axis=-1)


def first_spread(numbers: dict[str, float]) -> float:
    return numbers.get("initial_log_std", numbers.get("initial_std", 0.0))


def to_parameters(weights: dict[str, Any], start: float) -> dict[str, Any]:
    parameters = {
        net: {
            "params": {
                f"hidden_{i}": {n: jnp.asarray(x, jnp.float32) for n, x in layer.items()}
                for i, layer in enumerate(weights[net])
            }
        }
        for net in ("policy", "value")
    }
    for name in ("log_std", "std"):
        if name in weights:
            spread = np.asarray(weights[name]) - start
            parameters["policy"]["params"][SPREAD] = jnp.asarray(spread, jnp.float32)
    return parameters


def from_parameters(parameters: Any, like: dict[str, Any], start: float) -> dict[str, Any]:
    weights: dict[str, Any] = {
        net: [
            {n: np.asarray(parameters[net]["params"][f"hidden_{i}"][n]) for n in layer}
            for i, layer in enumerate(like[net])
        ]
        for net in ("policy", "value")
    }
    for name in ("log_std", "std"):
        if name in like:
            weights[name] = np.asarray(parameters["policy"]["params"][SPREAD]) + start
    return weights


def recorded_steps(path: Path) -> dict[str, np.ndarray]:
    """What the library said of its gradient steps, by our names and in our units."""
    file = json.loads(path.read_text())
    given = file["hyperparameters"]
    coefficient = {
        "cleanrl": given.get("vf_coef"),
        "sb3": given.get("vf_coef"),
        "purejaxrl": given.get("VF_COEF"),
        "rsl_rl": given.get("value_loss_coef"),
    }.get(library_of(path), 1.0)
    names = {
        "policy_loss": "loss/policy",
        "loss_objective": "loss/policy",
        "policy_loss_numpy": "loss/policy",
        "value_loss": "loss/value",
        "loss_critic": "loss/value",
        "value_total": "loss/value",
        "entropy_loss": "loss/entropy",
        "loss_entropy": "loss/entropy",
        "entropy": "policy/entropy",
        "entropy_numpy": "policy/entropy",
        "total": "loss/total",
        "clip_fraction": "policy/clip_fraction",
        "approx_kl": "policy/approximate_kl",
        "kl_k1": "policy/kl_k1",
        "kl_approx": "policy/kl_k1",
        "kl": "policy/exact_kl",
        "max_ratio": "policy/ratio_max",
        "mean_ratio": "policy/ratio_mean",
        "explained_variance": "value/explained_variance",
        "gradient_norm": "gradient/norm",
        "learning_rate": "training/learning_rate",
    }
    found = {}
    for theirs, ours in names.items():
        if theirs in file["steps"][0]:
            found[ours] = np.array([one[theirs] for one in file["steps"]])
            if theirs == "value_loss":
                found[ours] = found[ours] * coefficient
    if "gradient/norm" not in found:
        parts = [[s[f"gradient_norm_{n}"] for n in ("policy", "value")] for s in file["steps"]]
        found["gradient/norm"] = np.linalg.norm(parts, axis=1)
    return found
