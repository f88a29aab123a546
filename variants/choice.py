"""A choice as the registry describes it, and the numbers that it reads."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from variants.checks import RegistrationError, differences, require_text

if TYPE_CHECKING:
    from variants.registry import Axis
    from variants.shapes import Tree


class UnknownName(KeyError):
    """An axis or a choice that does not exist; the message names the nearest one that does."""

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "") -> None:
        """Say what kind of name is unknown, where, and what is known there."""
        names = list(known)
        near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'? " if near else ""
        super().__init__(f"unknown {kind} '{name}'{where}: {hint}known: {', '.join(names)}")

    def __str__(self) -> str:
        """Return the message, of which KeyError would show the repr."""
        return str(self.args[0])


@dataclass(frozen=True)
class Number:
    """A number that choices read: its default, its bounds (both included) and its meaning.

    neutral: of a number that joined later, the value under which a program does what it did before.
        Configurations leave it out there, so that no result of before is renamed.
    """

    default: float
    low: float
    high: float
    summary: str
    neutral: float | None = None

    def __post_init__(self) -> None:
        """Raise RegistrationError for a value outside the bounds."""
        require_text("a number", summary=self.summary)
        if self.neutral is not None and not self.low <= self.neutral <= self.high:
            raise RegistrationError(
                f"a number's neutral value lies within its bounds: {self.neutral} is not within "
                f"{self.low} to {self.high} ({self.summary})"
            )
        if not self.low <= self.default <= self.high:
            raise RegistrationError(
                f"a number's default lies within its bounds: {self.default} is not within "
                f"{self.low} to {self.high} ({self.summary})"
            )


@dataclass(frozen=True)
class Choice:
    """One way to take a design decision.

    formula: in Unicode mathematics, one or a few lines. source: who uses it, a link or a file.
    revision: bumped when the meaning changes; part of the hash of every result that rests on it.
    inputs: those of the axis that it reads. numbers: those that it reads, the axis' and its own.
    fn: the function, called with keywords only; None on a loop axis.
    axis: the axis that has it.
    """

    name: str
    formula: str
    source: str
    summary: str
    revision: int = 1
    inputs: tuple[str, ...] = ()
    numbers: Mapping[str, Number] = field(default_factory=dict, hash=False)
    fn: Callable[..., Tree] | None = None
    axis: Axis | None = field(default=None, repr=False, compare=False)

    def __call__(self, *state: Tree, **given: Tree) -> Tree:
        """Apply the choice, under jit, vmap and grad too.

            advantages, targets = variants.axis("advantage")["brax"](rewards=..., values=..., ...)

        given: inputs and numbers by keyword, those of other choices of the axis too. Numbers have
        their defaults. state: on a stateful axis, before them. Raises TypeError for what is missing
        or unknown.
        """
        if self.fn is None or self.axis is None or self.axis.inputs is None:
            raise TypeError(
                f"choice '{self.name}' has no function: a trainer's loop reads its name"
            )
        known = {n: number.default for n, number in self.axis.known_numbers.items()}
        values = {**self.axis.defaults, **known, **given}
        reads = (*self.inputs, *self.numbers)
        missing = [n for n in reads if n not in values]
        unknown = [n for n in given if n not in self.axis.inputs and n not in known]
        if missing or unknown:
            raise TypeError(
                f"choice '{self.name}' of axis '{self.axis.name}' reads {', '.join(reads)}: "
                + differences(missing, unknown)
            )
        return self.fn(*state, **{n: values[n] for n in reads})
