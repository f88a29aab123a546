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
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from variants.checks import (
    RegistrationError,
    arguments_read,
    differences,
    require_free_names,
    require_identifier,
    require_index,
    require_same_returns,
    require_text,
    unpacked,
)
from variants.shapes import Tree, floats

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
    required: required(output) -> arrays, a function that uses a choice's output as a trainer does.
        The registration check compares its results instead of the outputs.
    structural: compile one program per choice, because the choices differ in shapes or cannot be
        traced together. A structural choice is selected by name only.
    """

    def __init__(  # noqa: PLR0913  # an axis names all that it is
        self,
        name: str,
        *,
        summary: str,
        inputs: Mapping[str, Tree] | None = None,
        numbers: Mapping[str, Number] | None = None,
        defaults: Mapping[str, Tree] | None = None,
        init: Callable[..., Tree] | None = None,
        init_inputs: Mapping[str, Tree] | None = None,
        required: Callable[[Tree], Tree] | None = None,
        structural: bool = False,
    ) -> None:
        """Raise RegistrationError for invalid names or missing inputs."""
        require_identifier("axis", name)
        where = f"axis '{name}'"
        require_text(where, summary=summary)
        if inputs is None and (init is not None or numbers or defaults):
            what = "a state needs" if init is not None else "numbers and defaults need"
            raise RegistrationError(f"{where}: {what} functions, so give inputs too")
        require_free_names(where, "input", inputs or {}, ())
        require_free_names(where, "number", numbers or {}, inputs or {})
        unknown = [n for n in defaults or {} if n not in (inputs or {})]
        if unknown:
            raise RegistrationError(f"{where}: defaults of no input: {', '.join(unknown)}")
        self.name = name
        self.summary = summary
        self.inputs = None if inputs is None else MappingProxyType(dict(inputs))
        self.numbers = MappingProxyType(dict(numbers or {}))
        self.defaults = MappingProxyType(dict(defaults or {}))
        self.init: Tree = init
        self.init_inputs = MappingProxyType(dict(init_inputs or {}))
        self.required = required
        self.structural = structural
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
        self,
        name: str,
        *,
        formula: str,
        source: str,
        summary: str,
        revision: int = 1,
        numbers: Mapping[str, Number] | None = None,
        pack: type[tuple[Tree, ...]] | None = None,
    ) -> Callable[[Function], Function]:
        """Return a decorator that registers a function as a choice and returns it unchanged.

        The function takes keywords, after a *: the inputs and numbers of the axis that it reads,
        and its own `numbers`. On a stateful axis it takes `state` first. It returns the same shapes
        and dtypes as the other choices, and a state like the one it took.

        pack: a NamedTuple of inputs and numbers, which the function takes as one argument before
            its keywords. Raises RegistrationError.
        """
        if self.inputs is None:
            raise RegistrationError(
                f"axis '{self.name}' is read by the trainer's loop and its choices have no "
                f"function: use declare('{name}', ...)"
            )
        inputs = self.inputs
        described = self._describe(name, formula, source, summary, revision, numbers or {})
        own = described.numbers

        def register_function(function: Function) -> Function:
            self._require_new(name)
            function.__doc__ = function.__doc__ or formula
            takes = function if pack is None else unpacked(function, pack, self.init is not None)
            where = f"choice '{name}' of axis '{self.name}'"
            known = {**self.numbers, **own}
            offered = {**inputs, **dict.fromkeys(known, floats())}
            reads = arguments_read(
                where,
                takes,
                stateful=self.init is not None,
                offered=offered,
                defaults={**self.defaults, **{n: one.default for n, one in known.items()}},
            )
            unread = [n for n in own if n not in reads]
            if unread:
                raise RegistrationError(
                    f"{where} brings {', '.join(unread)} and does not take it as an argument"
                )
            one = replace(
                described,
                inputs=tuple(n for n in reads if n in inputs),
                numbers=MappingProxyType({n: known[n] for n in reads if n in known}),
                fn=takes,
            )
            if not function.__module__.startswith(f"{__package__}."):
                self._check(one)
            self._known_numbers.update(own)
            self._choices[name] = one
            return function

        return register_function

    def check(self) -> None:
        """Trace every choice on the stand-ins.

        Raises RegistrationError if tracing fails, or the shapes differ from the first choice's.
        """
        for one in self._choices.values():
            if one.fn is not None:
                self._check(one)

    def _check(self, one: Choice) -> None:
        apart = self.structural and self.required is None
        first = one if apart else next(iter(self._choices.values()), one)
        if self.required is not None:
            one, first = (replace(x, fn=_then(self.required, x.fn)) for x in (one, first))
        stand_ins = dict(self.inputs or {}) | dict.fromkeys(self._known_numbers, floats())
        stand_ins |= dict.fromkeys(one.numbers, floats())
        require_same_returns(self.name, one, first, stand_ins, self.init, self.init_inputs)

    def declare(
        self,
        name: str,
        *,
        formula: str,
        source: str,
        summary: str,
        revision: int = 1,
        numbers: Mapping[str, Number] | None = None,
    ) -> Choice:
        """Register a choice of a loop axis: a trainer reads its name and its numbers."""
        if self.inputs is not None:
            raise RegistrationError(
                f"axis '{self.name}' takes functions: use @axis.choice('{name}', ...) on one"
            )
        described = self._describe(name, formula, source, summary, revision, numbers or {})
        self._known_numbers.update(described.numbers)
        self._choices[name] = described
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
        inputs: arrays, functions or static values by keyword. Raises TypeError for missing,
            unknown or repeated names.
        """
        if self.inputs is None:
            raise TypeError(
                f"axis '{self.name}' is read by the trainer's loop and has no function: use switch"
            )
        if len(state) != (self.init is not None):
            wanted = "its state before its inputs" if self.init else "keywords only"
            raise TypeError(f"axis '{self.name}' takes {wanted}: apply got {len(state)} states")
        numbers = numbers or {}
        twice = [name for name in numbers if name in inputs]
        if twice:
            raise TypeError(f"axis '{self.name}' was given twice: {', '.join(twice)}")
        known = self._known_numbers
        missing = [n for n in self.inputs if n not in inputs and n not in self.defaults]
        unknown = [n for n in inputs if n not in self.inputs and n not in known]
        unknown += [n for n in numbers if n not in known]
        if missing or unknown:
            raise TypeError(
                f"axis '{self.name}' takes {', '.join([*self.inputs, *known])}: "
                + differences(missing, unknown)
            )
        defaults = {**self.defaults, **{n: one.default for n, one in known.items()}}
        given = {**defaults, **inputs, **numbers}
        branches = {
            one.name: partial(one.fn, **{n: given[n] for n in (*one.inputs, *one.numbers)})
            for one in self._choices.values()
            if one.fn is not None
        }
        return self.switch(choice, branches, *state)

    def switch(
        self, choice: NameOrIndex, branches: Mapping[str, Callable[..., Result]], *operands: Tree
    ) -> Result:
        """Call the branch of a choice, given by name or index as in `apply`.

        branches: choice name -> function(*operands). An index needs a branch for every choice, and
            all must return the same shapes. Raises ValueError for a missing branch.
        """
        if isinstance(choice, str):
            name = self[choice].name
            if name not in branches:
                raise ValueError(
                    f"choice '{name}' of axis '{self.name}' is not handled here: "
                    f"known are {', '.join(branches)}"
                )
            return branches[name](*operands)
        if set(branches) != set(self):
            missing, unknown = set(self) - set(branches), set(branches) - set(self)
            raise ValueError(
                f"axis '{self.name}' has the choices {', '.join(self)}: "
                + differences(sorted(missing), sorted(unknown))
            )
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
        if self.structural:
            raise TypeError(
                f"a choice of axis '{self.name}' is compiled in: give its name, not an index"
            )
        require_index(self.name, self.names, choice)

    def _describe(
        self,
        name: str,
        formula: str,
        source: str,
        summary: str,
        revision: int,
        numbers: Mapping[str, Number],
    ) -> Choice:
        """Return a choice with its own numbers. Raise RegistrationError for a conflict."""
        require_identifier(f"choice of axis '{self.name}'", name)
        self._require_new(name)
        where = f"choice '{name}' of axis '{self.name}'"
        require_text(where, formula=formula, source=source, summary=summary)
        require_free_names(where, "number", numbers, self.inputs or {})
        for number, one in numbers.items():
            if not isinstance(one, Number):
                raise RegistrationError(f"{where}: {number} is a variants.Number, not {one!r}")
            known = self._known_numbers.get(number, one)
            if known != one:
                raise RegistrationError(
                    f"{where} brings {number} as {one}, which the axis knows as {known}: "
                    f"give it another name, or the same default, bounds and summary"
                )
        own = MappingProxyType(dict(numbers))
        return Choice(name, formula, source, summary, revision, numbers=own, axis=self)

    def _require_new(self, name: str) -> None:
        if name in self._choices:
            raise RegistrationError(
                f"choice '{name}' of axis '{self.name}' is registered twice: choose another name"
            )


def _then(required: Callable[[Tree], Tree], function: Tree) -> Callable[..., Tree]:
    return lambda **inputs: required(function(**inputs))


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
