"""Each preset learns from a rollout exactly what its library learned from it (tests/golden/updates:
made by the libraries' own code), and what is not the library's is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import updates
from updates import Update, files, library_of, preset_of, recorded_steps, stem_of

from ablations.presets import presets
from ablations.trainers.control.ppo import SPEC

UPDATES = files("update", presets())


MUTATIONS = {
    "brax": [{"advantage_timing": "iteration"}, {"clip_epsilon": 0.2}, {"ddof": 1.0}],
    "cleanrl": [{"ddof": 0.0}, {"adam_epsilon": 1e-8}, {"value_clip": "none"}],
    "sb3": [{"ddof": 0.0}, {"advantage": "done_cut"}, {"max_gradient_norm": 0.51}],
    "rsl_rl": [
        {"gradient_clip": "global_norm"},
        {"advantage": "done_cut"},
        {"advantage_scope": "minibatch"},
        {"learning_rate_schedule": "constant"},
    ],
    "torchrl": [{"advantage_timing": "iteration"}, {"learning_rate_schedule": "linear"}],
    "purejaxrl": [{"ddof": 1.0}, {"value_coefficient": 0.5}],
    "rejax": [{"entropy_coefficient": 0.0}, {"adam_epsilon": 1e-5}],
    "cleanrl_discrete": [{"ddof": 0.0}, {"entropy_coefficient": 0.0}, {"value_clip": "none"}],
    "sb3_discrete": [{"ddof": 0.0}, {"advantage": "done_cut"}, {"max_gradient_norm": 0.51}],
    "purejaxrl_discrete": [{"ddof": 1.0}, {"value_coefficient": 0.5}],
    "rejax_discrete": [{"entropy_coefficient": 0.0}, {"adam_epsilon": 1e-5}],
    # of one file alone
    "brax_update_2": [{"observation_normalization": "before"}],
    "brax_update_3": [{"observation_normalization": "after"}],
    "purejaxrl_discrete_update_2": [{"learning_rate_schedule": "constant"}, {"ddof": 1.0}],
}


def learned(path: Path, change: Any = None, **changes: Any) -> Update:
    """All updates of a library in one program: the axes of its mutations are data."""
    all_of_it = [*MUTATIONS.get(stem_of(path), []), *MUTATIONS.get(path.stem, [])]
    changed = {name for one in all_of_it for name in one}
    return updates.learned(path, frozenset(changed & SPEC.axes.keys()), change, **changes)


def differences(update: Any, path: Any) -> dict[str, float]:
    """By how many tolerances the worst loss of the first step, of the later ones, and the worst
    final weight are off."""
    found = {"first step": 0.0, "later steps": 0.0, "weights": 0.0}
    for name, theirs in recorded_steps(path).items():
        off = np.abs(update.steps[name] - theirs)
        found["first step"] = max(found["first step"], off[0] / (1e-6 + 1e-5 * abs(theirs[0])))
        # They follow weights that are already off by rounding.
        later = off[1:] / (1e-4 + 1e-3 * np.abs(theirs[1:]))
        found["later steps"] = max(found["later steps"], later.max())
    final = json.loads(path.read_text())["final_weights"]
    for ours, theirs in zip(
        jax.tree.leaves({n: update.weights[n] for n in final}),
        jax.tree.leaves(final, is_leaf=lambda x: isinstance(x, list) and not has_dicts(x)),
        strict=True,
    ):
        off = np.abs(ours - np.array(theirs)) / (5e-6 + 5e-5 * np.abs(theirs))
        found["weights"] = max(found["weights"], off.max())
    return found


def final_statistics_off(update: Update, path: Path) -> float:
    """By how many tolerances the statistics of observations after the update differ."""
    theirs = json.loads(path.read_text())["final_statistics"]
    assert update.statistics.batches == theirs["batches"]
    return max(
        float(np.max(np.abs(getattr(update.statistics, name) - x) / (1e-6 + 1e-5 * np.abs(x))))
        for name, x in ((name, np.array(theirs[name])) for name in ("mean", "variance"))
    )


def has_dicts(x: list[Any]) -> bool:
    return isinstance(x[0], dict)


def test_every_library_has_an_update():
    ppo = {name: one for name, one in presets().items() if one.trainer == "ppo"}
    of_both = {f"{name}_discrete" for name, one in ppo.items() if one.discrete}
    assert {stem_of(path) for path in UPDATES} >= ppo.keys() | of_both


@pytest.mark.parametrize("path", UPDATES, ids=lambda path: path.stem)
def test_update_is_the_library_s(path):
    update = learned(path)
    found = differences(update, path)
    if "final_statistics" in json.loads(path.read_text()):
        found["statistics"] = final_statistics_off(update, path)
    assert max(found.values()) <= 1, found


@pytest.mark.parametrize("path", UPDATES, ids=lambda path: path.stem)
def test_terminal_observation_is_not_read(path):
    """It may be NaN, and is in MuJoCo Playground; where a truncation is a termination to a library,
    what was truncated is as little read."""

    def poison(rollout: dict[str, Any]) -> None:
        ends = np.array(rollout["termination"]) > 0
        if preset_of(path).values()["advantage"] != "standard":
            ends |= np.array(rollout["truncation"]) > 0
        assert ends.any()
        rollout["next_observation"] = np.where(ends[..., None], np.nan, updates.true_next(rollout))

    found = differences(learned(path, change=poison), path)
    assert max(found.values()) <= 1, found


@pytest.mark.parametrize("library", ["cleanrl", "purejaxrl", "brax"])
def test_rollouts_of_libraries_that_never_see_the_true_next_observation(library):
    path = next(one for one in UPDATES if library_of(one) == library)
    found = differences(learned(path, change=lambda rollout: rollout.pop("next_observation")), path)
    assert max(found.values()) <= 1, found


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (path, change)
        for path in UPDATES
        for change in MUTATIONS.get(stem_of(path) if path.stem.endswith("_1") else path.stem, [])
    ],
    ids=lambda x: getattr(x, "stem", str(x)),
)
def test_another_detail_is_another_update(path, change):
    found = differences(learned(path, **change), path)
    assert max(found.values()) > 2, found
