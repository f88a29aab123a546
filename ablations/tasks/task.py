"""Tasks and their registry. Imports no JAX."""

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

# An environment that `ablations.environments.adapted` accepts, or `Problems`.
Environment: TypeAlias = Any


class EpisodeSettings(TypedDict, total=False):
    """Settings of all tasks with episodes."""

    episode_length: int
    reset_group_size: int
    random_elapsed_steps: bool


@dataclass(frozen=True)
class Task:
    """One environment and the settings for training in it.

    Attributes:
        make: settings -> one unbatched environment, with the interface of Brax, MuJoCo Playground,
            Gymnax or `ablations.environments`. It imports its libraries when called.
        settings: name -> default of everything that changes the environment: episode_length (steps
            until truncation), reset_group_size (number of neighbouring environments that share a
            reset and the randomness of their steps), backend, ...
        hyperparameters: trainer -> {setting: value}; they replace the trainer's defaults.
        steps: environment steps of a full-length run (the `paper` profile).
        source: of the hyperparameters.
        data: setting -> its value as an array, for settings that a trainer gets as data
            (`Variant.task`) and `make` does not read. Tasks with the same `make` that differ only
            in these share their programs.
        lacks: returns what `make` needs and this machine does not have, in words, or None. It is
            called before anything runs, so it must be fast.
        check: settings -> problems in words; [] if there are none.
        neutral: compatible defaults of settings that were added later: with them, the environment
            is as before. Configurations omit them to keep their hashes; `completed` adds them.
        unpaid: settings -> reward per step that the default settings pay and these do not. Trainers
            also record the return with it, as usual_return.
        most: settings -> the highest possible return, or None if unknown. `validate` uses it as the
            best score and the ceiling.
        discrete: actions are whole numbers, not vectors.
        image: observations are flattened images.
        fresh: every episode starts from a new reset, not from a pool of resets.
        speed: approximate steps per second on one core, for estimates before any run.
        revision: increased when the meaning of the task changes; part of the hash of its runs.
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
        """Its actions and observations in words, if they are not vectors."""
        actions = ["actions are whole numbers"] if self.discrete else []
        return "; ".join([*actions, *(["observations are images"] if self.image else [])])

    def require_installed(self) -> None:
        """Raise UserError if this machine lacks something that the task needs."""
        if need := self.lacks():
            raise UserError(f"task '{self.name}' needs {need}")

    def made(self, settings: Settings | EpisodeSettings) -> Environment:
        """Return a new environment. Raises UserError if this machine lacks something for it."""
        self.require_installed()
        return self.make(settings)

    def completed(self, settings: Settings) -> dict[str, Json]:
        """Return the settings of a configuration with the compatible defaults that it omits."""
        return {**self.neutral, **settings}

    def program(self, settings: Settings) -> TaskName:
        """Return the part of a program's name that the task and its settings decide."""
        name = f"{self.make.__module__}.{self.make.__qualname__}" if self.data else self.name
        compiled = {key: value for key, value in settings.items() if key not in self.data}
        return {"name": name, "revision": self.revision, "settings": compiled}


def check_episodes(settings: Settings) -> list[str]:
    """Return problems of `EpisodeSettings`, for `Task.check`."""
    return [
        f"{name}={count} is too small: at least 1"
        for name in ("episode_length", "reset_group_size")
        if isinstance(count := settings.get(name), int) and count < 1
    ]


GYMNASIUM = re.compile(r"([A-Z]\w+)-v\d+")  # the form of Gymnasium's names
_TASKS: dict[str, Task] = {}


def register(task: Task) -> Task:
    """Make a task available to all commands. Raises UserError if its name is taken."""
    if task.name in _TASKS:
        raise UserError(f"task '{task.name}' is registered twice: choose another name")
    _TASKS[task.name] = task
    return task


def tasks() -> Mapping[str, Task]:
    """Return all tasks by name."""
    return dict(_TASKS)


def task(name: str) -> Task:
    """Return a task by name. Raises UserError, with our name for a name of Gymnasium."""
    if name in _TASKS:
        return _TASKS[name]
    if gymnasium := GYMNASIUM.fullmatch(name):
        words = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", gymnasium[1]).lower()
        similar = [_TASKS[x] for x in (words, words.replace("_", "")) if x in _TASKS]
        if similar:  # Gymnax's tasks have the same equations
            physics = "" if similar[0].discrete else ", with Brax's physics"
            raise UserError(f"the name of Gymnasium's {name} is '{similar[0].name}' here{physics}")
        raise UserError(
            f"Gymnasium's {name} is not among the tasks (`ablations list tasks`); your own "
            f"training script can be a study: docs/any-trainer.md"
        )
    raise unknown("task", name, _TASKS)
