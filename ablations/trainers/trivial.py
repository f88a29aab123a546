"""Policies that learn nothing, evaluated as those that do: what a score of a task has to beat.

The evaluation is the trainer's own, with its environments or prompts, its counts and its keys: a
cell of the seed, points and evaluations of another has the very resets of that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

from ablations.core.plan import Settings
from ablations.trainers.definition import Definition
from ablations.trainers.trainer import Option, Program, Trainer, Tree

if TYPE_CHECKING:
    pass

POLICIES = ("zero", "uniform")


class Structure(TypedDict):
    """The options of `DEFINITION`."""

    policy: str


def make(**program: Unpack[Program[Tree, Structure]]) -> Trainer:
    """Return the policy in the form that the engine runs; its chunks do nothing."""
    from ablations.trainers import untrained

    if "kinds" in program["settings"]:
        return untrained.writer(**program)
    return untrained.actor(**program)


def check(*, structure: Structure, settings: Settings, numbers: Settings) -> list[str]:
    """Return complaints about settings that do not fit together, in words."""
    if "kinds" in settings and structure["policy"] != "uniform":
        return [f"policy={structure['policy']} writes no tokens: use policy=uniform"]
    if "kinds" not in settings and "episode_length" not in settings:
        return ["the task has neither episodes nor prompts, so nothing is known of its policies"]
    return []


DEFINITION = Definition(
    name="trivial",
    summary="policies that learn nothing, evaluated as all others: zero or random actions, tokens",
    axes={},
    numbers={},
    structure={
        "policy": Option(
            "zero",
            "what is done whatever is seen: nothing, or uniformly random actions or tokens",
            POLICIES,
        )
    },
    make=make,
    iteration_steps=lambda structure: 1,
    check=check,
)
