"""Observations and rewards are normalised, step by step, as each library's own wrappers did
(tests/golden/updates/*_normalizer.json)."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from updates import files, library_of

import variants
from ablations.presets import preset, presets
from ablations.trainers.control import normalizer as statistics

STREAMS = files("normalizer", presets())
# What turns a library's normalisation on.
ON = {
    "brax": {"normalize_observations": True},
    "cleanrl": {},
    "purejaxrl": {"NORMALIZE_ENV": True},
    "rejax": {"normalize_observations": True, "normalize_rewards": True},
    "rsl_rl": {"obs_normalization": True},
    "sb3": {"norm_obs": True, "norm_reward": True},
    "torchrl": {},
}
WHOLE_BATCHES = ("brax", "rsl_rl")


def values_of(path: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The preset's settings with its normalisation on, and the file."""
    file = json.loads(path.read_text())
    library = library_of(path)
    given = dict(file["hyperparameters"])
    arguments = dict(ON[library])
    for name in ("clip_obs", "clip_reward", "gamma", "epsilon", "GAMMA"):
        if name in given and name in preset(library).arguments:
            arguments[name] = given[name]
    values = preset(library).values(**arguments)
    if "gamma" in given or "reward_normalization_discount" in given:
        values["discount"] = given.get("gamma", given.get("reward_normalization_discount"))
    if "epsilon" in given:
        name = "observation_std_epsilon" if library == "rsl_rl" else "observation_epsilon"
        assert values[name] == given["epsilon"]
    if library == "torchrl":
        assert values["observation_forgetting"] == pytest.approx(1 - given["decay"])
        assert values["observation_std_low"] == pytest.approx(given["eps"] ** 0.5)
        assert values["observation_clip"] == given["clip"]
    return values, file


def scaled(values: dict[str, Any], normalizer: Any, observation: Any) -> np.ndarray:
    axis = variants.axis("observation_scaling")
    choice = axis[values["observation_scaling"]]
    return np.asarray(
        axis.apply(
            choice.name,
            observation=observation,
            mean=normalizer.mean,
            variance=normalizer.spread,
            numbers={name: values[name] for name in choice.numbers},
        )
    )


def off(ours: Any, theirs: Any) -> float:
    theirs = np.asarray(theirs)
    return float(np.max(np.abs(np.asarray(ours) - theirs) / (1e-6 + 1e-5 * np.abs(theirs))))


def observations_off(values: dict[str, Any], file: dict[str, Any], path: Any) -> float:
    """By how many tolerances the worst observation differs."""
    given = {n: jnp.asarray(x, float) for n, x in file["stream"].items()}
    outputs = file["outputs"]
    worst = 0.0
    if library_of(path) in WHOLE_BATCHES:
        T = file["hyperparameters"]["steps_per_rollout"]
        normalizer = statistics.empty(given["observation"].shape[-1])
        for i, after in enumerate(file["after"]):
            part = slice(i * T, (i + 1) * T)
            batch = given["observation"][part]
            seen = outputs.get("in_rollout", outputs.get("observation"))[part]
            worst = max(worst, off(scaled(values, normalizer, batch), seen))
            normalizer = statistics.update(normalizer, batch)
            worst = max(worst, off(normalizer.mean, after["mean"]))
            worst = max(worst, off(np.sqrt(normalizer.spread), after["std"]))
            if values["observation_normalization"] == "before":
                again = scaled(values, normalizer, batch)
                worst = max(worst, off(again, outputs["in_update"][part]))
        return worst
    kind = values["observation_statistics"]
    normalizer = statistics.start(kind, given["observation"][0], 1e-5)
    step = jax.jit(statistics.step, static_argnums=0)
    for t, true_next in enumerate(given["final_observation"]):
        seen = scaled(values, normalizer, given["observation"][t])
        worst = max(worst, off(seen, outputs["observation"][t]))
        done = (given["termination"][t] > 0) | (given["truncation"][t] > 0)
        following = given["observation"][t + 1]
        final, normalizer = step(kind, normalizer, true_next, following, done, 1e-5)
        if "final_observation" in outputs:
            seen = scaled(values, final, true_next)
            worst = max(worst, off(seen, outputs["final_observation"][t]))
    return max(
        worst, off(scaled(values, normalizer, given["observation"][-1]), outputs["observation"][-1])
    )


def rewards_off(values: dict[str, Any], file: dict[str, Any]) -> float:
    stream = {n: jnp.asarray(x, float) for n, x in file["stream"].items()}
    axis = variants.axis("reward_scaling")
    choice = axis[values["reward_scaling"]]
    state = axis.init(num_envs=stream["reward"].shape[1])
    _, rewards = axis.apply(
        choice.name,
        state,
        rewards=stream["reward"],
        termination=stream["termination"],
        truncation=stream["truncation"],
        numbers={name: values[name] for name in choice.numbers},
    )
    return off(rewards, file["outputs"]["reward"])


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_stream_is_the_library_s(path):
    values, file = values_of(path)
    # TorchRL counts in single precision, which moves a mean by 1e-6 of itself within 60 steps.
    counted = {"torchrl": 10}.get(library_of(path), 1)
    with jax.enable_x64(True):
        assert observations_off(values, file, path) <= counted
    # An environment's first observation is its own mean but for 1e-4 of it: single precision, in
    # which CleanRL does not compute, keeps three digits of the difference.
    kept = {"cleanrl": 5}.get(library_of(path), counted)
    assert observations_off(values, file, path) <= kept
    if "reward" in file["outputs"]:
        assert rewards_off(values, file) <= 1


MUTATIONS = {
    "brax": [{"observation_scaling": "std_epsilon", "observation_std_epsilon": 0.01}],
    "cleanrl": [
        {"observation_statistics": "per_step"},
        {"observation_epsilon": 1e-2},
        {"observation_clip": 1.0},
    ],
    "sb3": [{"observation_statistics": "per_environment"}, {"observation_clip": 1.0}],
    "purejaxrl": [{"observation_statistics": "per_step_after_first"}],
    "rejax": [{"observation_statistics": "per_step"}],
    "rsl_rl": [{"observation_std_epsilon": 1e-3}],
    "torchrl": [
        {"observation_std_low": 0.01},
        {"observation_clip": 1.0},
        {"observation_statistics": "per_step"},
    ],
}


@pytest.mark.parametrize(
    ("path", "change"),
    [(path, change) for path in STREAMS for change in MUTATIONS.get(library_of(path), [])],
    ids=lambda x: getattr(x, "stem", str(x)),
)
def test_another_normalisation_is_noticed(path, change):
    values, file = values_of(path)
    assert observations_off(values | change, file, path) > 10


WITH_REWARDS = [path for path in STREAMS if "reward" in values_of(path)[1]["outputs"]]


@pytest.mark.parametrize("path", WITH_REWARDS, ids=lambda path: path.stem)
def test_another_scale_of_rewards_is_noticed(path):
    values, file = values_of(path)
    for choice in variants.axis("reward_scaling"):
        if choice != values["reward_scaling"]:
            changed = values | {"reward_scaling": choice, "reward_clip": 10.0}
            assert rewards_off(changed, file) > 10, choice
