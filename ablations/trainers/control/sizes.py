"""Sizes of every trainer of control tasks, and what does not fit together of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired

from ablations.tasks.task import EpisodeSettings, Task
from ablations.trainers.rates import Betas, complaints_of


class Sizes(Betas):
    """Options of every trainer of control tasks.

    filters: of images. reset_pool: where resets are not fresh.
    """

    num_envs: int
    unroll_length: int
    num_minibatches: int
    epochs: int
    activation: str
    filters: NotRequired[int]
    reset_pool: NotRequired[int]


def unread_on(task: Task) -> dict[str, str]:
    """Return the options that no trainer reads on a task, and why: of pools and of images."""
    found: dict[str, str] = {}
    if task.fresh:
        found["reset_pool"] = f"every episode of {task.name} starts from a reset of its own"
    if not task.image:
        found["filters"] = f"observations of {task.name} are no images"
    return found


def compiles(structure: Sizes) -> tuple[str, ...]:
    """Return axes whose choice is compiled in: segments without equal parts cannot be traced."""
    return ("minibatch_unit",) if structure["num_envs"] % structure["num_minibatches"] else ()


def iteration_steps(structure: Sizes) -> int:
    """Return the environment steps of one iteration."""
    return structure["num_envs"] * structure["unroll_length"]


def check(
    *, structure: Sizes, settings: EpisodeSettings, numbers: Mapping[str, float] | None = None
) -> list[str]:
    """Return complaints about settings that do not fit together, in words."""
    complaints = complaints_of(structure)
    num_envs = structure["num_envs"]
    group_size = settings.get("reset_group_size", 1)
    if num_envs % group_size:
        complaints.append(
            f"num_envs={num_envs} is not divisible by reset_group_size={group_size}: "
            f"use {_neighbours(num_envs, group_size)}"
        )
    if "episode_length" not in settings:
        complaints.append(
            "the task has no setting episode_length, at which episodes are truncated: choose a "
            "task of control (`ablations list tasks`), or give yours that setting"
        )
    elif settings["episode_length"] < 1:
        complaints.append(f"episode_length={settings['episode_length']} is too small: at least 1")
    return complaints


def _neighbours(number: int, divisor: int) -> str:
    below = number // divisor * divisor
    return f"{below} or {below + divisor}" if below else str(divisor)
