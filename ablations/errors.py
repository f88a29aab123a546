"""Messages for users: errors, counts, durations."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ablations.core.decode import Json

NEAR = 0.6  # smallest similarity of two names for the hint "did you mean"
SHOWN = 24  # names that an error lists
# Extras of the package -> the modules that they install
EXTRAS = {
    "train": ("brax", "flax", "jax", "jaxlib", "mujoco", "optax"),
    "gymnax": ("gymnax",),
    "playground": ("mujoco_playground",),
    "slurm": ("submitit",),
    "tensorboard": ("tensorboard",),
}


class Note(UserWarning):
    """A warning about how a command understood its input."""


class UserError(Exception):
    """Invalid input (exit code 2). The message says what is wrong and what is expected."""


def unknown(
    kind: str, name: str, known: Iterable[str], *, of: str = "", listing: str = ""
) -> UserError:
    """Return the error for a name that does not exist: the nearest one that does, else all.

    of: what lacks the name. listing: the command that lists all names, instead of these.
    """
    names = sorted(known)
    problem = f"{of} has no {kind} '{name}'" if of else f"unknown {kind} '{name}'"
    if near := difflib.get_close_matches(name, names, n=1, cutoff=NEAR):
        return UserError(f"{problem}: did you mean '{near[0]}'?")
    if listing:
        return UserError(f"{problem}: `{listing}` names them")
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return UserError(
        f"{problem}{'; it has' if of else ': known:'} {', '.join(names[:SHOWN])}{more}"
    )


def count(number: int, noun: str) -> str:
    """Write a count: "1 run" or "1,200 runs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Write "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def spans(numbers: Iterable[int]) -> list[list[int]]:
    """Return the first and the last of each group of consecutive whole numbers."""
    ends: list[list[int]] = []
    for number in sorted(numbers):
        if ends and number == ends[-1][1] + 1:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    return ends


def value_text(value: Json) -> str:
    """Write the value of a setting; a real number has up to six digits."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def shortened(lines: Sequence[str], most: int, rest: str) -> list[str]:
    """Return the first lines and, if there are more, `rest` with their number for {}."""
    left = len(lines) - most
    return [*lines[:most], *([rest.format(left)] if left > 0 else [])]


def duration(seconds: float) -> str:
    """Write a duration: "40 s", "12 min" or "3.5 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def printable(text: str) -> str:
    """Escape control characters, for text from logs and records in a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """Return a message as a single printable line."""
    return printable(text).replace("\n", "\\n").replace("\t", " ")


def missing_extra(error: ModuleNotFoundError) -> UserError | None:
    """Return the error for a missing module of an extra, or None for another module."""
    module = (error.name or "").partition(".")[0]
    return UserError(f"this needs {install}") if (install := _installing(module)) else None


def _installing(module: str) -> str | None:
    """Return a module and the command that installs its extra, or None without an extra."""
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    return extra and f"{module}: pip install 'rl-ablations[{extra}]'"


def lacking(module: str) -> str | None:
    """Return how to install a missing module of an extra, or None if it is installed."""
    return None if find_spec(module) else _installing(module)
