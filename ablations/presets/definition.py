"""Presets: a library's own arguments, the settings that they stand for, where each was read.

A preset imports no trainer and starts no JAX. Those of a library are one file of this package that
has a `PRESET` or `PRESETS`, or of anyone's who calls `register`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ablations.errors import UserError, unknown

if TYPE_CHECKING:
    from ablations.core.decode import Json
    from ablations.tasks.task import Task

Arguments: TypeAlias = Mapping[str, Any]  # of a library, by its own names and of its own types
# A value, and the file of the library's repository in which it was read.
Read: TypeAlias = "tuple[Json, str]"

# reset_pool of a library that draws a fresh reset for every episode: one number for all of them, so
# that two of them do not differ in it.
FRESH = 64
FRESH_IN_WORDS = (
    "Every episode starts from a fresh reset, as here on Gymnax's tasks; on others an environment "
    f"has {FRESH} of them, drawn from the seed, and takes them in turn."
)
# Of presets of language models.
RATE_IN_WORDS = (
    "Its learning rate, {}, is for models of billions of parameters: here it is that of the task, "
    "or what `ablations tune` found."
)


@dataclass(frozen=True)
class Preset:
    """A library's PPO, or what it trains language models by.

    library: its name, version, and the repository of its files. arguments: those that the library
        takes, by its own names, with its own defaults.
    settings(arguments) -> name of a setting of `trainer` -> (value, file): what they are here, and
        what the library fixes without an argument.
    in_words: what no setting here expresses, a sentence each.
    discrete: what it is on tasks whose actions are whole numbers, where it has something for both
        kinds; None: it has one set of settings.
    """

    name: str
    library: str
    arguments: Arguments
    settings: Callable[[Arguments], Mapping[str, Read]]
    in_words: tuple[str, ...]
    trainer: str = "ppo"
    discrete: Preset | None = None

    def on(self, task: Task) -> Preset:
        """Return what it is on a task. Raises UserError where it has nothing for its actions."""
        if not task.discrete:
            return self
        if self.discrete is None and "action_distribution" in self.settings(self.arguments):
            others = ", ".join(name for name, one in presets().items() if one.discrete)
            raise UserError(
                f"preset '{self.name}' is for actions that are vectors, and those of '{task.name}' "
                f"are whole numbers: presets for both are {others} (--variants chooses)"
            )
        return self.discrete or self

    def read(self, **arguments: Json) -> dict[str, Read]:
        """Return settings and where each was read, with some of the library's arguments changed.

        Raises UserError for an argument that the library does not have, or of a value that is none.
        """
        for name, value in arguments.items():
            if name not in self.arguments:
                raise unknown(f"argument of preset '{self.name}'", name, self.arguments)
            if isinstance(self.arguments[name], bool) and value not in (True, False):
                raise UserError(
                    f"preset '{self.name}' takes {name}=true or {name}=false, and not {value!r}"
                )
        try:
            return dict(self.settings({**self.arguments, **arguments}))
        except (TypeError, ValueError, ArithmeticError):
            given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
            usual = ", ".join(f"{name}={self.arguments[name]!r}" for name in arguments)
            raise UserError(
                f"preset '{self.name}' cannot take {given}: the library's own are {usual}"
            ) from None

    def values(self, **arguments: Json) -> dict[str, Json]:
        """Return settings, with some of the library's arguments changed."""
        return {name: value for name, (value, _) in self.read(**arguments).items()}


_REGISTERED: dict[str, Preset] = {}


def register(one: Preset) -> Preset:
    """Make a preset of one's own known to every command."""
    if one.name in presets():
        raise UserError(f"preset '{one.name}' is registered twice: choose another name")
    _REGISTERED[one.name] = one
    return one


def presets() -> dict[str, Preset]:
    """Return all presets by name."""
    package = importlib.import_module("ablations.presets")
    modules = sorted(m.name for m in pkgutil.iter_modules(package.__path__))
    found: dict[str, Preset] = {}
    for name in modules:
        module = importlib.import_module(f"ablations.presets.{name}")
        of_module = getattr(module, "PRESETS", [module.PRESET] if hasattr(module, "PRESET") else [])
        found |= {one.name: one for one in of_module}
    return {**found, **_REGISTERED}


def preset(name: str) -> Preset:
    """Return the preset of that name. Raises UserError."""
    known = presets()
    if name not in known:
        spelled = [one for one in known if one == name.lower().replace("-", "_")]
        if not spelled:
            raise unknown("preset", name, known)
        return known[spelled[0]]
    return known[name]
