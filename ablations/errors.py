"""Format messages for users: errors, numbers of things, spans of time."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ablations.core.decode import Json

NEAR = 0.6  # of two names that one may be a slip of the other; farther, a hint misleads
SHOWN = 24  # names that an error lists
# What the base install leaves out: extra -> the modules that come with it
EXTRAS = {
    "train": ("brax", "flax", "jax", "jaxlib", "mujoco", "optax"),
    "gymnax": ("gymnax",),
    "playground": ("mujoco_playground",),
    "slurm": ("submitit",),
    "tensorboard": ("tensorboard",),
}


class Note(UserWarning):
    """A line on how a command understood its input; no error."""


class UserError(Exception):
    """Bad input: the message says what is wrong and what would be right. Exit code 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Return the error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=NEAR)
    hint = f"did you mean '{near[0]}'? " if near else ""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return UserError(f"unknown {kind} '{name}': {hint}known: {', '.join(names[:SHOWN])}{more}")


def count(number: int, noun: str) -> str:
    """Word a number of things, such as "1 cell" or "1,200 cells"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Write "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def value_text(value: Json) -> str:
    """Write a value of a setting: a number to six digits, without zeros that say nothing."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def shortened(lines: Sequence[str], most: int, rest: str) -> list[str]:
    """Return the first lines, and in place of others one that counts them, where rest has {}."""
    left = len(lines) - most
    return [*lines[:most], *([rest.format(left)] if left > 0 else [])]


def duration(seconds: float) -> str:
    """Word a span of time, such as "40 s", "12 min" or "3.5 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def printable(text: str) -> str:
    """Escape characters of a text from a log or record that would control a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """Return a message as a single printable line."""
    return printable(text).replace("\n", "\\n").replace("\t", " ")


def missing_extra(error: ModuleNotFoundError) -> UserError | None:
    """Return the error for a module that an extra brings, or None for any other."""
    module = (error.name or "").partition(".")[0]
    return UserError(f"this needs {install}") if (install := _installing(module)) else None


def _installing(module: str) -> str | None:
    """Return a module with the command that installs it, or None for one that no extra brings."""
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    return extra and f"{module}: pip install 'rl-ablations[{extra}]'"


def lacking(module: str) -> str | None:
    """Return the need for a module of an extra that is not installed, None where it is there."""
    return None if find_spec(module) else _installing(module)
