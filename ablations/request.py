"""Define requests: a study and a selection, for every command and for Python."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Any, SupportsIndex

from ablations.errors import UserError, unknown
from ablations.parameters import MOST_SEEDS, Selection, ranges, seeds_of

if TYPE_CHECKING:
    from ablations.core.decode import Json
    from ablations.core.plan import Flags, Settings
    from ablations.studies import Study

PROFILE = "quick"
FIRST_LOOK = 8
MOST_LOOKED = 64
GEOMETRIES = ("common", "own")
_IF_GIVEN = ("base", "geometry", "explain", "together")  # they change the names of plans
_FLAGS = ("profile", "tasks", "variants", "seeds", "until", "most_seeds", "steps", "set", "vary")
_TYPES: Mapping[str, tuple[Any, str]] = {
    **dict.fromkeys(("profile", "until", "base", "geometry"), (str, "a text")),
    **dict.fromkeys(("tasks", "variants"), (Iterable, "a name or several names")),
    "most_seeds": (SupportsIndex, "a whole number"),
    **dict.fromkeys(("set", "vary"), (Mapping, "a mapping of settings")),
}


def selects(selection: Selection | Flags) -> bool:
    """Return whether a selection has any value besides None."""
    return any(value is not None for value in selection.values())


@dataclass(frozen=True)
class Request:
    """A study and its selection. None: as in the study's profile.

    explain: the two presets or variants of an explanation. together: settings that an explanation
    switches together. brought: studies of study files.

    Values of a `Selection` or a stored plan are converted to the annotated types. Raises UserError
    for invalid values.
    """

    study: str
    profile: str = PROFILE
    tasks: tuple[str, ...] | None = None
    variants: tuple[str, ...] | None = None
    seeds: tuple[int, ...] | None = None
    until: str | None = None
    most_seeds: int | None = None
    steps: int | None = None
    set: Settings = field(default_factory=dict)
    vary: Mapping[str, tuple[Json, ...]] = field(default_factory=dict)
    base: str | None = None
    geometry: str | None = None
    explain: tuple[str, str] | None = None
    together: tuple[tuple[str, ...], ...] = ()
    brought: tuple[Study, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        """Convert and check each field."""
        for name, (kind, words) in _TYPES.items():
            if not isinstance(value := getattr(self, name), (kind, NoneType)):
                raise UserError(f"{name} must be {words}, not {value!r:.60}")
        held = {
            "tasks": _names(self.tasks),
            "variants": _names(self.variants),
            "seeds": None if self.seeds is None else seeds_of(self.seeds),
            "most_seeds": _most_seeds(self.until, self.most_seeds, self.seeds),
            "set": {str(name): _plain(name, value) for name, value in self.set.items()},
            "vary": {str(name): _levels(name, values) for name, values in self.vary.items()},
            "explain": None if self.explain is None else (self.explain[0], self.explain[1]),
            "together": tuple(map(tuple, self.together)),
        }
        if self.geometry not in (None, *GEOMETRIES):
            raise unknown("geometry", self.geometry, GEOMETRIES)
        for name, value in held.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(
        cls, study: str, selection: Selection | Flags, brought: tuple[Study, ...] = ()
    ) -> Request:
        """Return the request of a selection or of a stored plan; None is omitted."""
        given: dict[str, Any] = {n: value for n, value in selection.items() if value is not None}
        return cls(study, **given, brought=brought)

    def flags(self) -> Flags:
        """Return the request as plain data, whose digest is the name of its plan."""
        values = vars(self) | {"seeds": self.seeds and _spelled(self.seeds)}
        flags: Any = {n: _plain(n, values[n]) for n in (*_FLAGS, *filter(values.get, _IF_GIVEN))}
        return flags  # type: ignore[no-any-return]

    def command(self) -> str:
        """Return the shell command of the request."""
        words = ["ablations", "run", self.study]
        for flag, value in self.flags().items():
            if value in (None, {}) or flag in ("explain", "together"):
                continue
            words.append(f"--{flag.replace('_', '-')}")
            if flag == "set":
                words += [f"{name}={level_text(one)}" for name, one in self.set.items()]
            elif flag == "vary":
                words += [f"{n}={','.join(map(level_text, of))}" for n, of in self.vary.items()]
            elif isinstance(value, list):
                words += [ranges(value)] if flag == "seeds" else value
            else:
                words.append(str(value))
        return shlex.join(words)


def _most_seeds(
    until: str | None, most: int | None, seeds: int | str | Iterable[int] | None
) -> int | None:
    """Return the number of seeds of the last stage; None without --until."""
    if until is None:
        if most is not None:
            raise UserError("--most-seeds is for --until decided; set a fixed number by --seeds")
        return None
    if until != "decided":
        raise unknown("end of --until", until, ["decided"])
    if seeds is not None:
        raise UserError(
            "--until decided chooses the seeds itself: omit --seeds, and limit them by --most-seeds"
        )
    if most is None:
        return MOST_LOOKED
    if not FIRST_LOOK <= most <= MOST_SEEDS:
        raise UserError(
            f"most seeds must be from {FIRST_LOOK} (the first stage) to {MOST_SEEDS}, not {most}"
        )
    return most


def _spelled(seeds: tuple[int, ...]) -> int | str | list[int]:
    """Write seeds as `seeds_of` reads them, in the shortest way."""
    if seeds == tuple(range(len(seeds))):
        return len(seeds)
    if seeds == tuple(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}-{seeds[-1]}"
    return list(seeds)


def _names(asked: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if asked is None:
        return None
    return (asked,) if isinstance(asked, str) else tuple(map(str, asked))


def _levels(name: str, levels: Json) -> tuple[Json, ...]:
    """Read the values of a varied setting: at least two, each once."""
    values = _plain(name, levels)
    if not isinstance(values, list) or len(values) < 2:
        raise UserError(
            f"to vary {name}, give two values or more, such as {name}=a,b; use --set for one value"
        )
    if len(set(map(level_text, values))) < len(values):
        raise UserError(f"to vary {name}, give each value once: {level_text(values)}")
    return tuple(values)


def level_text(value: Json) -> str:
    """Write a value as a user types it."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _plain(name: str, value: Json) -> Json:
    """Return a value as plain JSON, also for tuples and arrays."""

    def listed(value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else list(value)

    try:
        plain: Json = json.loads(json.dumps(value, default=listed, allow_nan=False))
    except (TypeError, ValueError):
        raise UserError(
            f"{name} must be a finite number, a text, true, false or a list, not {value!r}"
        ) from None
    return plain
