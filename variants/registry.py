"""Axes (components), their choices, and the numbers that choices read.

A choice is a pure function with a decorator, in this package or in a user's module. Its signature
names the inputs and numbers that it reads, and `numbers` declares its own:

    import variants

    @variants.axis("value_error").choice(
        "log_cosh",
        formula="β·log cosh(e/β)",
        source="...",
        summary="...",
        numbers={"softness": variants.Number(1.0, 1e-6, 1e6, "β of value_error=log_cosh")},
    )
    def log_cosh(*, values, targets, softness):
        ...

Registration checks a user's choice on abstract inputs (`jax.eval_shape`) and uses no device. The
tests check the choices of this package by `Axis.check`, since tracing them takes a second.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import NotRequired, TypeAlias, TypedDict, TypeVar, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from variants.checks import (
    RegistrationError,
    arguments_read,
    require_names,
    require_same_returns,
    unpacked,
)
from variants.shapes import Tree

Function = TypeVar("Function", bound=Callable[..., Tree])
Result = TypeVar("Result")
NameOrIndex: TypeAlias = str | int | np.integer | jax.Array  # of a choice


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
        for kind, value in (("neutral value", self.neutral), ("default", self.default)):
            if value is not None and not self.low <= value <= self.high:
                raise RegistrationError(
                    f"a number's {kind} lies within its bounds: {value} is not within "
                    f"{self.low} to {self.high} ({self.summary})"
                )


class About(TypedDict):
    """The keywords that describe a `Choice`."""

    formula: str
    source: str
    summary: str
    revision: NotRequired[int]
    numbers: NotRequired[Mapping[str, Number]]


@dataclass(frozen=True)
class Choice:
    """One choice of an axis.

    formula: Unicode mathematics, one or a few lines.
    source: papers and libraries that use it, with a link or a file.
    revision: raised when the meaning changes; part of the hash of a run.
    numbers: the numbers that it reads, of the axis and its own.
    inputs: the inputs of the axis that it reads.
    fn: the function, called with keywords only; None on a loop axis.
    """

    name: str
    axis: Axis = field(repr=False, compare=False)
    formula: str
    source: str
    summary: str
    revision: int = 1
    numbers: Mapping[str, Number] = field(default_factory=dict, hash=False)
    inputs: tuple[str, ...] = ()
    fn: Callable[..., Tree] | None = None

    def __call__(self, *state: Tree, **given: Tree) -> Tree:
        """Apply the choice. It works under jit, vmap and grad.

            advantages, targets = variants.axis("advantage")["brax"](rewards=..., values=..., ...)

        state: the state of a stateful axis. given: inputs and numbers of the axis by keyword;
        numbers have defaults. Raises TypeError for a missing or an unknown name.
        """
        return self.axis.apply(self.name, *state, **given)


@dataclass(eq=False, repr=False)
class Axis(Mapping[str, Choice]):
    """A component: an ordered mapping from the names of its choices to the choices.

    inputs: the inputs that choices may read, each with a stand-in for the registration check. A
        stand-in is a pytree of `jax.ShapeDtypeStruct` for data, or the value of a static input such
        as a count or a function. Without inputs it is a *loop axis*: its choices have no function,
        and the trainer's loop reads their names.
    numbers: scalars that choices may read, with defaults and bounds.
    defaults: of optional inputs.
    init: init(**init_inputs) -> state, of a *stateful* axis. Its choices are functions
        f(state, *, ...) -> (state, output) with one structure of the state.
    init_inputs: arguments of init in the registration check, with stand-ins as in inputs.
    structural: compile one program per choice, because the choices differ in shapes or cannot be
        traced together. A structural choice is selected by name only.
    """

    name: str
    summary: str = field(kw_only=True)
    inputs: Mapping[str, Tree] | None = field(default=None, kw_only=True)
    numbers: Mapping[str, Number] = field(default_factory=dict, kw_only=True)
    defaults: Mapping[str, Tree] = field(default_factory=dict, kw_only=True)
    init: Tree = field(default=None, kw_only=True)
    init_inputs: Mapping[str, Tree] = field(default_factory=dict, kw_only=True)
    structural: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        """Raise RegistrationError for invalid names."""
        where = f"axis '{self.name}'"
        require_names(where, "the name", [self.name])
        require_names(where, "input", self.inputs or ())
        require_names(where, "number", self.numbers, self.inputs or ())
        if self.inputs is not None:
            self.inputs = MappingProxyType(dict(self.inputs))
        self.numbers = MappingProxyType(dict(self.numbers))
        self._choices: dict[str, Choice] = {}
        self._known_numbers = dict(self.numbers)

    def __repr__(self) -> str:
        """Return the names of the axis and of its choices."""
        return f"Axis({self.name!r}: {', '.join(self)})"

    # Two axes with equal choices are different axes.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __getitem__(self, name: str) -> Choice:
        """Return the choice of that name. Raise UnknownName."""
        try:
            return self._choices[name]
        except (KeyError, TypeError):
            raise UnknownName("choice", name, self, where=f" of axis '{self.name}'") from None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the choices in the order of registration."""
        return iter(self._choices)

    def __len__(self) -> int:
        """Return how many choices there are."""
        return len(self._choices)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the choices in the order of registration, the order of their indices."""
        return tuple(self._choices)

    @property
    def known_numbers(self) -> Mapping[str, Number]:
        """All numbers of the axis and of its choices."""
        return MappingProxyType(self._known_numbers)

    @property
    def loop(self) -> bool:
        """Whether the trainer's loop reads the choice's name instead of calling a function."""
        return self.inputs is None

    def index(self, name: str) -> int:
        """Return the index of a choice in this process. Never store it: plugins change it."""
        return self.names.index(self[name].name)

    def choice(
        self, name: str, *, pack: type[tuple[Tree, ...]] | None = None, **about: Unpack[About]
    ) -> Callable[[Function], Function]:
        """Return a decorator that registers a function as a choice and returns it unchanged.

        The function takes keywords, after a *: the inputs and numbers of the axis that it reads,
        and its own `numbers`. On a stateful axis it takes `state` first. It returns the same shapes
        and dtypes as the other choices, and a state like the one it took.

        about: formula, source, summary, revision and numbers, as in `Choice`.
        pack: a NamedTuple of inputs and numbers, which the function takes as one argument before
            its keywords. Raises RegistrationError.
        """
        if self.inputs is None:
            raise RegistrationError(
                f"axis '{self.name}' is read by the trainer's loop and its choices have no "
                f"function: use declare('{name}', ...)"
            )
        inputs, described = self.inputs, self._described(name, about)

        def register_function(function: Function) -> Function:
            self._require_new(name)
            function.__doc__ = function.__doc__ or described.formula
            takes = function if pack is None else unpacked(function, pack, self.init is not None)
            known = {**self.numbers, **described.numbers}
            reads = arguments_read(
                f"choice '{name}' of axis '{self.name}'",
                takes,
                stateful=self.init is not None,
                offered=[*inputs, *known],
                defaults={**self.defaults, **{n: one.default for n, one in known.items()}},
            )
            one = replace(
                described,
                inputs=tuple(n for n in reads if n in inputs),
                numbers=MappingProxyType({n: known[n] for n in reads if n in known}),
                fn=takes,
            )
            if not function.__module__.startswith(f"{__package__}."):
                require_same_returns(self, one)
            self._add(described, one)
            return function

        return register_function

    def check(self) -> None:
        """Trace every choice on the stand-ins.

        Raises RegistrationError if tracing fails, or the shapes differ from the first choice's.
        """
        for one in self._choices.values():
            if one.fn is not None:
                require_same_returns(self, one)

    def declare(self, name: str, **about: Unpack[About]) -> Choice:
        """Register a choice of a loop axis: a trainer reads its name and its numbers."""
        if self.inputs is not None:
            raise RegistrationError(
                f"axis '{self.name}' takes functions: use @axis.choice('{name}', ...) on one"
            )
        described = self._described(name, about)
        self._add(described, described)
        return described

    def apply(
        self,
        choice: NameOrIndex,
        /,
        *state: Tree,
        numbers: Mapping[str, ArrayLike] | None = None,
        **inputs: Tree,
    ) -> Tree:
        """Apply a choice, under jit, vmap and grad too; a stateful axis returns (state, output).

        choice: a name, selected during tracing, or an integer scalar for `jax.lax.switch` over all
            choices.
        state: the state of a stateful axis.
        numbers: values of `known_numbers`, traced or not; the others have their defaults. They may
            also be among the inputs.
        inputs: arrays, functions or static values by keyword. Raises TypeError for unknown names,
            and for missing names that the choice reads.
        """
        if self.inputs is None:
            raise TypeError(
                f"axis '{self.name}' is read by the trainer's loop and has no function: use switch"
            )
        if len(state) != (self.init is not None):
            wanted = "its state before its inputs" if self.init else "keywords only"
            raise TypeError(f"axis '{self.name}' takes {wanted}: apply got {len(state)} states")
        known = {n: one.default for n, one in self._known_numbers.items()}
        values = {**self.defaults, **known, **inputs, **(numbers or {})}
        chosen = [self[choice]] if isinstance(choice, str) else [*self.values()]
        needed = {n for one in chosen for n in one.inputs}
        wrong = {
            "missing": [n for n in self.inputs if n in needed and n not in values],
            "unknown": [n for n in values if n not in self.inputs and n not in known],
        }
        if any(wrong.values()):
            raise TypeError(
                f"axis '{self.name}' takes {', '.join([*self.inputs, *known])}: "
                + "; ".join(f"{kind} {', '.join(n)}" for kind, n in wrong.items() if n)
            )
        branches: dict[str, Tree] = {}
        for one in chosen:
            function: Tree = one.fn
            read = {n: values[n] for n in (*one.inputs, *one.numbers)}
            branches[one.name] = partial(function, **read)
        return self.switch(choice, branches, *state)

    def switch(
        self, choice: NameOrIndex, branches: Mapping[str, Callable[..., Result]], *operands: Tree
    ) -> Result:
        """Call the branch of a choice, given by name or index as in `apply`.

        branches: choice name -> function(*operands). An index needs a branch for every choice, and
            all must return the same shapes. Raises ValueError for a missing branch.
        """
        needed = [self[choice].name] if isinstance(choice, str) else self.names
        if missing := [name for name in needed if name not in branches]:
            raise ValueError(
                f"choice '{missing[0]}' of axis '{self.name}' is not handled here: known are "
                f"{', '.join(branches)}"
            )
        if isinstance(choice, str):
            return branches[choice](*operands)
        self._require_index(choice)
        result: Result = jax.lax.switch(choice, [branches[name] for name in self], *operands)
        return result

    def matches(self, choice: NameOrIndex, *names: str) -> bool | jax.Array:
        """Return whether a choice is among the names: a bool, or a bool scalar for an index."""
        indices = [self.index(name) for name in names]
        if isinstance(choice, str):
            return self.index(choice) in indices
        self._require_index(choice)
        return jnp.any(jnp.asarray([choice == one for one in indices]))

    def _require_index(self, choice: int | np.integer | jax.Array) -> None:
        """Raise TypeError for a structural axis, or IndexError: `lax.switch` would clamp it."""
        if self.structural:
            raise TypeError(
                f"a choice of axis '{self.name}' is compiled in: give its name, not an index"
            )
        known = np.ndim(choice) == 0 and not isinstance(choice, jax.core.Tracer)
        if known and not 0 <= choice < len(self):
            raise IndexError(
                f"axis '{self.name}' has no choice {choice}: 0 to {len(self) - 1} are "
                f"{', '.join(self)}"
            )

    def _described(self, name: str, about: About) -> Choice:
        """Return a choice with its own numbers. Raise RegistrationError for a conflict."""
        where = f"choice '{name}' of axis '{self.name}'"
        require_names(where, "the name", [name])
        self._require_new(name)
        described = Choice(name, self, **about)
        require_names(where, "number", described.numbers, self.inputs or ())
        for number, one in described.numbers.items():
            known = self._known_numbers.get(number, one)
            if known != one:
                raise RegistrationError(
                    f"{where} brings {number} as {one}, which the axis knows as {known}: "
                    f"give it another name, or the same default, bounds and summary"
                )
        return described

    def _require_new(self, name: str) -> None:
        if name in self._choices:
            raise RegistrationError(
                f"choice '{name}' of axis '{self.name}' is registered twice: choose another name"
            )

    def _add(self, described: Choice, one: Choice) -> None:
        """Add a choice, with the numbers that it brings."""
        self._known_numbers.update(described.numbers)
        self._choices[one.name] = one


_AXES: dict[str, Axis] = {}


def register(axis: Axis) -> Axis:
    """Register an axis for all commands and return it. Raise RegistrationError for a known name."""
    if axis.name in _AXES:
        raise RegistrationError(f"axis '{axis.name}' is registered twice: choose another name")
    _AXES[axis.name] = axis
    return axis


def axes() -> Mapping[str, Axis]:
    """Return all axes by name, a read-only view."""
    return MappingProxyType(_AXES)


def axis(name: str) -> Axis:
    """Return the axis of that name. Raise UnknownName."""
    try:
        return _AXES[name]
    except (KeyError, TypeError):
        raise UnknownName("axis", name, _AXES) from None
