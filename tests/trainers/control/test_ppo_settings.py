"""What PPO refuses, in words that say what would fit."""

from __future__ import annotations

from typing import Any

import pytest

import variants
from ablations.trainers.control.ppo import SPEC
from ablations.trainers.control.rollouts import check, iteration_steps

SETTINGS = {"episode_length": 10, "reset_group_size": 1}


def complaints(settings: dict[str, Any] | None = None, **structure: Any) -> list[str]:
    defaults = {name: option.default for name, option in SPEC.structure.items()}
    return check(structure=defaults | structure, settings=SETTINGS | (settings or {}))


def test_defaults_fit_together() -> None:
    assert complaints() == []
    assert variants.conflicts(SPEC.axes) == []


@pytest.mark.parametrize(
    ("structure", "settings", "complaint"),
    [
        (
            {"num_envs": 32},
            {"reset_group_size": 5},
            "num_envs=32 is not divisible by reset_group_size=5: use 30 or 35",
        ),
        ({}, {"episode_length": 0}, "episode_length=0 is too small: at least 1"),
    ],
)
def test_complaints(structure: dict[str, Any], settings: dict[str, Any], complaint: str) -> None:
    assert complaints(settings, **structure) == [complaint]


@pytest.mark.parametrize(
    ("counts", "complaint"),
    [
        (
            {"num_envs": 100, "num_minibatches": 8},
            "num_envs=100 is not divisible by num_minibatches=8: use 96 or 104, or "
            "minibatch_unit=transitions",
        ),
        (
            {"num_envs": 4, "num_minibatches": 8},
            "num_envs=4 is not divisible by num_minibatches=8: use 8, or "
            "minibatch_unit=transitions",
        ),
        (
            {"num_envs": 3, "num_minibatches": 8, "minibatch_unit": "transitions"},
            "num_envs=3 times unroll_length=4 is not divisible by num_minibatches=8: change one "
            "of them",
        ),
        ({"num_envs": 1, "num_minibatches": 2, "minibatch_unit": "transitions"}, None),
    ],
)
def test_minibatches_are_equal_parts(counts: dict[str, Any], complaint: str | None) -> None:
    found = variants.conflicts(SPEC.axes | {"unroll_length": 4} | counts)
    assert found == ([] if complaint is None else [complaint])


def test_iteration_steps() -> None:
    assert iteration_steps({"num_envs": 7, "unroll_length": 5}) == 35
