"""A task of whole actions as a user meets it: what works on it, and what says that it cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from ablations import find_run, load_policy
from ablations.cli import main

SMALL = ["--tasks", "cartpole", "--variants", "standard", "--seeds", "1", "--steps", "1024"]
SETS = ["--set", "num_envs=4", "unroll_length=32", "num_minibatches=2", "epochs=1"]
SETS += ["policy_layers=[8]", "value_layers=[8]", "discount=0.5", "gae_lambda=0.5"]


@pytest.fixture(scope="module")
def study(shells: Any) -> Any:
    shell = shells()
    shell("run", "gae", *SMALL, *SETS, "--workers", "1", plugin=False)
    return shell


@pytest.fixture(scope="module")
def cell(study: Any) -> Path:
    return find_run("gae", task="cartpole", results=study.results)


def test_its_table_and_its_policies(study: Any, cell: Path) -> None:
    table = json.loads(study("table", "gae", "--format", "json", plugin=False).stdout)
    assert [row["task"] for row in table["rows"]] == ["cartpole"]
    policy = load_policy(cell, "last")
    observations = np.random.default_rng(0).normal(0, 1, (50, 4)).astype(np.float32)
    mode = policy(observations)
    assert (mode.shape, mode.dtype) == ((50,), np.int32)
    draws = jax.vmap(lambda key: policy(observations[0], key))(
        jax.random.split(jax.random.key(0), 500)
    )
    assert set(np.unique(draws)) == {0, 1}


SOFTMAX = "actions of cartpole are whole numbers, drawn from a softmax of logits"
REFUSED = [
    # Choices for vectors.
    ("run gae --set action_distribution=normal", "--set action_distribution changes", SOFTMAX),
    ("run gae --vary policy_std=exp_parameter,softplus_head", "--vary policy_std changes", SOFTMAX),
    ("run gae --set initial_log_std=0.5", "--set initial_log_std changes nothing", SOFTMAX),
    ("sweep entropy_estimate=one_sample,closed_form", "--vary entropy_estimate changes", SOFTMAX),
    ("run what_matters", "action_distribution, which variants set, changes nothing", SOFTMAX),
    # Settings that cannot act.
    ("run gae --set learning_rate_schedule=adaptive_offset_kl", "rate_schedule=adaptive_exact"),
    ("run gae --set entropy_schedule=target", "entropy_target=-1 is below the entropy of any"),
    ("run gae --set reset_pool=4", "every episode of cartpole has a reset of its own"),
    ("run gae --set filters=8", "observations of cartpole are not images"),
    # Studies whose variants are not for it.
    (
        "run single_choices",
        "(as are last_layer_0.01, transitions, gradient_clip): there is nothing",
    ),
    ("run library_defaults", "preset 'brax' needs continuous actions"),
    ("run gae --base rsl_rl", "presets for both are cleanrl, purejaxrl, rejax, sb3"),
    ("run torchrl", "those of 'cartpole' are discrete"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[0])
def test_what_is_not_for_whole_actions_is_refused_in_a_line(
    case: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    command, *says = case
    assert main([*command.split(), "--tasks", "cartpole", "--dry-run"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert all(words in said for words in says)
