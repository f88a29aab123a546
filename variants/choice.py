"""A choice of an axis, and the numbers that choices read."""

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
    """An axis or a choice that does not exist; the message suggests the nearest name."""

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "") -> None:
        """List the known names of a kind, at a place such as " of axis 'advantage'"."""
        names = list(known)
        near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'? " if near else ""
        super().__init__(f"unknown {kind} '{name}'{where}: {hint}known: {', '.join(names)}")

    def __str__(self) -> str:
        """Return the message; KeyError would return its repr."""
        return str(self.args[0])


@dataclass(frozen=True)
class Number:
    """A hyperparameter of choices: its default, its inclusive bounds and its meaning.

    neutral: the compatible default of a number that was added later. At this value a program does
        what it did before, and configurations leave the number out, so that hashes stay the same.
    """

    default: float
    low: float
    high: float
    summary: str
    neutral: float | None = None

    def __post_init__(self) -> None:
        """Raise RegistrationError for a value outside the bounds."""
        require_text("a number", summary=self.summary)
        for kind, value in (("neutral value", self.neutral), ("default", self.default)):
            if value is not None and not self.low <= value <= self.high:
                raise RegistrationError(
                    f"a number's {kind} lies within its bounds: {value} is not within "
                    f"{self.low} to {self.high} ({self.summary})"
                )


@dataclass(frozen=True)
class Choice:
    """One choice of an axis.

    formula: Unicode mathematics, one or a few lines.
    source: papers and libraries that use it, with a link or a file.
    revision: raised when the meaning changes; part of the hash of a run.
    inputs: the inputs of the axis that it reads.
    numbers: the numbers that it reads, of the axis and its own.
    fn: the function, called with keywords only; None on a loop axis.
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
        """Apply the choice. It works under jit, vmap and grad.

            advantages, targets = variants.axis("advantage")["brax"](rewards=..., values=..., ...)

        state: the state of a stateful axis. given: inputs and numbers of the axis by keyword;
        numbers have defaults. Raises TypeError for a missing or an unknown name.
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
