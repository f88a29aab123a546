"""Tasks, and the table of those that are known. Importing this does not start JAX."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from ablations.errors import UserError, unknown

if TYPE_CHECKING:
    import numpy as np

    from ablations.core.decode import Json
    from ablations.core.plan import Settings
    from ablations.core.record import Task as TaskName

# As `ablations.environments.adapted` knows it, or `Problems`.
Environment: TypeAlias = Any


class EpisodeSettings(TypedDict, total=False):
    """The settings that every task with episodes has."""

    episode_length: int
    reset_group_size: int
    random_elapsed_steps: bool


@dataclass(frozen=True)
class Task:
    """One environment and the settings it is trained with.

    make: settings -> one unbatched copy of an environment, with the interface of Brax, of MuJoCo
        Playground, of Gymnax or of `ablations.environments`. Imports what it needs when called.
    settings: name -> default of everything that changes the environment: episode_length (steps
        until truncation), reset_group_size (so many neighbouring environments share one reset, and
        the randomness of their steps where those are random), backend...
    hyperparameters: trainer name -> {setting: value}, over the trainer's defaults.
    steps: environment steps of a full-length run (the `paper` profile).
    source: where the hyperparameters come from.
    data: name of a setting -> its value as an array, for settings that trainers are given as data
        (`Variant.task`) instead of having them compiled in. Tasks with the same `make` that differ
        in such settings alone share their programs; `make` does not read them.
    lacks: what `make` needs and this machine does not have, in words; None: nothing. It is asked
        before anything runs, and imports nothing that takes long.
    check: settings -> complaints in words, [] when the task can be made with them.
    neutral: setting -> value, of settings that joined later: the value under which the environment
        is what it was before. Configurations leave the setting out there, so that no result of
        before is renamed; `completed` puts it back.
    unpaid: settings -> reward per step that the usual settings pay on every step and these do not;
        trainers then record the return with it too, as usual_return.
    most: settings -> the highest return that the task's rules allow, None where none is known; an
        exam takes it for the best score and for the ceiling.
    discrete: actions are whole numbers, not vectors.
    image: observations are images, flattened.
    fresh: every episode starts from a reset of its own, not from one of a pool.
    speed: steps per second of one core with these settings, roughly: what an estimate assumes
        before anything like it has run.
    revision: bumped when the meaning of the task changes; part of every cell's hash.
    """

    name: str
    summary: str
    make: Callable[..., Environment]
    settings: Settings
    hyperparameters: Mapping[str, Settings] = field(default_factory=dict)
    steps: int = 1_000_000
    source: str = ""
    data: Mapping[str, Callable[..., np.ndarray | np.float32]] = field(default_factory=dict)
    lacks: Callable[[], str | None] = field(default=lambda: None)
    check: Callable[..., list[str]] = field(default=lambda settings: [])
    neutral: Settings = field(default_factory=dict)
    unpaid: Callable[..., float] = field(default=lambda settings: 0.0)
    most: Callable[..., float | None] = field(default=lambda settings: None)
    discrete: bool = False
    image: bool = False
    fresh: bool = False
    speed: float = 50_000.0
    revision: int = 1

    @property
    def form(self) -> str:
        """Its actions and observations in words, where they are no vectors."""
        actions = ["actions are whole numbers"] if self.discrete else []
        return "; ".join([*actions, *(["observations are images"] if self.image else [])])

    def require_installed(self) -> None:
        """Raise UserError where this machine lacks what the task needs."""
        if need := self.lacks():
            raise UserError(f"task '{self.name}' needs {need}")

    def made(self, settings: Settings | EpisodeSettings) -> Environment:
        """Return what `make` makes. Raises UserError where this machine lacks what it needs."""
        self.require_installed()
        return self.make(settings)

    def completed(self, settings: Settings) -> dict[str, Json]:
        """Return the settings of a configuration with those that it leaves out as neutral."""
        return {**self.neutral, **settings}

    def program(self, settings: Settings) -> TaskName:
        """Return what names the programs of the task with these settings."""
        name = f"{self.make.__module__}.{self.make.__qualname__}" if self.data else self.name
        compiled = {key: value for key, value in settings.items() if key not in self.data}
        return {"name": name, "revision": self.revision, "settings": compiled}


def check_episodes(settings: Settings) -> list[str]:
    """Return complaints about the settings that every task with episodes has; for `Task.check`."""
    return [
        f"{name}={count} is too small: at least 1"
        for name in ("episode_length", "reset_group_size")
        if isinstance(count := settings.get(name), int) and count < 1
    ]


GYMNASIUM = re.compile(r"([A-Z]\w+)-v\d+")  # how it names an environment
_TASKS: dict[str, Task] = {}


def register(task: Task) -> Task:
    """Make a task known to every command. Raise UserError for a name that is taken."""
    if task.name in _TASKS:
        raise UserError(f"task '{task.name}' is registered twice: choose another name")
    _TASKS[task.name] = task
    return task


def tasks() -> Mapping[str, Task]:
    """Return all tasks by name."""
    return dict(_TASKS)


def task(name: str) -> Task:
    """Return the task of that name. Raise UserError, which knows how Gymnasium spells ours."""
    if name in _TASKS:
        return _TASKS[name]
    if gymnasium := GYMNASIUM.fullmatch(name):
        words = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", gymnasium[1]).lower()
        near = [_TASKS[one] for one in (words, words.replace("_", "")) if one in _TASKS]
        if near and near[0].discrete:  # Gymnax's, of the same equations
            raise UserError(f"{name} of Gymnasium is '{near[0].name}' here")
        if near:
            raise UserError(f"{name} of Gymnasium is Brax's '{near[0].name}' here, other physics")
        raise UserError(
            f"{name} of Gymnasium is none of the tasks here (`ablations list tasks`); your own "
            f"training script can be a study: docs/any-trainer.md"
        )
    raise unknown("task", name, _TASKS)
