"""Presets: a library's arguments, our settings for them, and the file where each was read.

Each library has a file in this package with a `PRESET` or `PRESETS`; users call `register`. Presets
import neither trainers nor JAX.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ablations.errors import UserError, unknown

if TYPE_CHECKING:
    from ablations.core.decode import Json
    from ablations.tasks.task import Task

Arguments: TypeAlias = Mapping[str, Any]  # of a library, with its names and types
Read: TypeAlias = "tuple[Json, str]"  # a value, and the file in the library where it was read


class Argument(NamedTuple):
    """An argument with the meaning of one of our settings: its default, the setting, the file.

    The value None leaves the setting out.
    """

    default: Any
    setting: str
    file: str


FRESH = 64  # reset_pool of all libraries that draw a fresh reset for every episode
FRESH_IN_WORDS = (
    "Every episode starts from a fresh reset, as here on Gymnax's tasks; on others an environment "
    f"has {FRESH} of them, drawn from the seed, and takes them in turn."
)
RATE_IN_WORDS = (
    "Its learning rate, {}, is for models with billions of parameters; here the task's learning "
    "rate is used, or the one that `ablations tune` chose."
)


@dataclass(frozen=True)
class Preset:
    """A library's algorithm with its defaults.

    library: name, version and repository.
    arguments: of the library, by its names: a default, or an `Argument`.
    settings: arguments -> the other settings of `trainer`, each with the file where it was read.
    in_words: differences that no setting expresses, a sentence each.
    unexpressed: further arguments that have no setting: name -> their default and meaning.
    discrete: the preset for tasks with discrete actions; None: the same one.
    """

    name: str
    library: str
    arguments: Arguments
    settings: Callable[[Arguments], Mapping[str, Read]]
    in_words: tuple[str, ...]
    trainer: str = "ppo"
    discrete: Preset | None = None
    unexpressed: Mapping[str, tuple[Any, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Add the arguments without a setting to the others."""
        more = {name: default for name, (default, _) in self.unexpressed.items()}
        given, others = {**self.arguments, **more}, self.settings
        named = {name: of for name, of in given.items() if isinstance(of, Argument)}

        def settings(a: Arguments) -> dict[str, Read]:
            same = {of.setting: (a[n], of.file) for n, of in named.items() if a[n] is not None}
            return {**same, **others(a)}

        object.__setattr__(self, "arguments", given | {n: of.default for n, of in named.items()})
        object.__setattr__(self, "settings", settings)

    def on(self, task: Task) -> Preset:
        """Return the preset for a task. Raises UserError if it does not support its actions."""
        if not task.discrete:
            return self
        if self.discrete is None and "action_distribution" in self.values():
            others = ", ".join(name for name, preset in presets().items() if preset.discrete)
            raise UserError(
                f"preset '{self.name}' needs continuous actions, but those of '{task.name}' are "
                f"discrete: presets for both are {others} (select with --variants)"
            )
        return self.discrete or self

    def read(self, **arguments: Json) -> dict[str, Read]:
        """Return settings with their files, after changes of the library's arguments.

        Raises UserError for an unknown argument or an invalid value.
        """
        for name, value in arguments.items():
            if name not in self.arguments:
                raise unknown(f"argument of preset '{self.name}'", name, self.arguments)
            if isinstance(self.arguments[name], bool) and value not in (True, False):
                raise UserError(f"{name}={value!r} of preset '{self.name}': expected true or false")
            default, meaning = self.unexpressed.get(name, (value, ""))
            if value != default:
                raise UserError(
                    f"{name}={value} ({meaning}) has no setting here: leave it at {default}"
                )
        try:
            return dict(self.settings({**self.arguments, **arguments}))
        except (TypeError, ValueError, ArithmeticError):
            given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
            usual = ", ".join(f"{name}={self.arguments[name]!r}" for name in arguments)
            raise UserError(
                f"invalid {given} of preset '{self.name}': the library's defaults are {usual}"
            ) from None

    def values(self, **arguments: Json) -> dict[str, Json]:
        """Return settings after changes of the library's arguments."""
        return {name: value for name, (value, _) in self.read(**arguments).items()}


_REGISTERED: dict[str, Preset] = {}


def register(preset: Preset) -> Preset:
    """Make a preset available to all commands. Raises UserError if its name is taken."""
    if preset.name in presets():
        raise UserError(f"preset '{preset.name}' is registered twice: choose another name")
    _REGISTERED[preset.name] = preset
    return preset


def presets() -> dict[str, Preset]:
    """Return all presets by name."""
    package = importlib.import_module("ablations.presets")
    shipped: dict[str, Preset] = {}
    for name in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
        module = importlib.import_module(f"ablations.presets.{name}")
        own = getattr(module, "PRESETS", [module.PRESET] if hasattr(module, "PRESET") else [])
        shipped |= {preset.name: preset for preset in own}
    return {**shipped, **_REGISTERED}


def preset(name: str) -> Preset:
    """Return a preset by name; capitals and hyphens are accepted. Raises UserError."""
    known = presets()
    for spelling in (name, name.lower().replace("-", "_")):
        if spelling in known:
            return known[spelling]
    raise unknown("preset", name, known)
