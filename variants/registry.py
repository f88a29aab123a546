"""Design decisions (axes) and the ways to take them (choices).

A choice is one pure function and one decorator, in this package or in a user's own module:

    import variants

    @variants.axis("advantage").choice("mine", formula="A = r - V", source="...", summary="...")
    def mine(*, rewards, values, next_values, termination, truncation, discount, lambda_):
        ...

Registering checks it on abstract inputs (`jax.eval_shape`), so nothing is computed and no device
is touched.
"""

from __future__ import annotations

import difflib
import inspect
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from variants.agreement import differences, first_difference, shown, split_inputs

Function = TypeVar("Function", bound=Callable[..., Any])


class UnknownName(KeyError):
    """An axis or a choice that does not exist; the message names the nearest one that does."""

    def __init__(self, kind: str, name: object, known: Iterable[str], where: str = "") -> None:
        names = list(known)
        near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'? " if near else ""
        super().__init__(f"unknown {kind} '{name}'{where}: {hint}known: {', '.join(names)}")

    def __str__(self) -> str:  # KeyError would show the repr of its message
        return self.args[0]


class RegistrationError(ValueError):
    """A choice, axis or rule that does not fit; the message says where and how."""


@dataclass(frozen=True)
class Choice:
    """One way to take a design decision.

    formula: in Unicode mathematics, one or a few lines. source: who uses it, a link or a file.
    revision: bumped when the meaning changes; part of the hash of every result that rests on it.
    fn: the function, called with keywords only; None on a loop axis.
    """

    name: str
    formula: str
    source: str
    summary: str
    revision: int = 1
    fn: Callable[..., Any] | None = None


class Axis(Mapping[str, Choice]):
    """A design decision: an ordered mapping from the names of its choices to the choices.

    inputs: the keyword arguments of every choice, each with a stand-in for the registration check:
        `jax.ShapeDtypeStruct`s (or a pytree of them) for what is data, the value itself for what
        is static, such as a count or a function. Without inputs this is a *loop axis*: its choices
        have no function, and the trainer's loop acts on their names.
    init: on a *stateful* axis, init(**init_inputs) -> state: what its choices carry from one call
        to the next, of one structure for all of them. They are functions
        f(state, **inputs) -> (state, output), and apply takes the state too. init_inputs: what
        init is called with in the registration check, stand-ins as in inputs.
    specialise: compile one program per choice where a switch would make every lane pay for all.
    """

    def __init__(
        self,
        name: str,
        *,
        summary: str,
        inputs: Mapping[str, Any] | None = None,
        init: Callable[..., Any] | None = None,
        init_inputs: Mapping[str, Any] | None = None,
        specialise: bool = False,
    ) -> None:
        _require_identifier("axis", name)
        _require_text(f"axis '{name}'", summary=summary)
        if init is not None and inputs is None:
            raise RegistrationError(f"axis '{name}': a state needs functions, so give inputs too")
        self.name = name
        self.summary = summary
        self.inputs = None if inputs is None else MappingProxyType(dict(inputs))
        self.init: Any = init
        self.init_inputs = MappingProxyType(dict(init_inputs or {}))
        self.specialise = specialise
        self._state: tuple[Any, ...] = ()
        if init is not None:
            data, static = split_inputs(self.init_inputs)
            self._state = (jax.eval_shape(lambda data: init(**data, **static), data),)
        self._choices: dict[str, Choice] = {}
        self._defaults: dict[str, Any] = {}
        self._returns: Any = None

    def __repr__(self) -> str:
        return f"Axis({self.name!r}: {', '.join(self)})"

    # Two axes are never the same decision, whatever their choices.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __getitem__(self, name: str) -> Choice:
        try:
            return self._choices[name]
        except (KeyError, TypeError):
            raise UnknownName("choice", name, self, where=f" of axis '{self.name}'") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)

    @property
    def names(self) -> tuple[str, ...]:
        """The choices in the order of registration, which is that of their indices."""
        return tuple(self._choices)

    @property
    def loop(self) -> bool:
        """Whether the trainer's loop reads this axis, instead of calling a function."""
        return self.inputs is None

    def index(self, name: str) -> int:
        """What selects a choice in a running program. Never stored: it depends on plugins."""
        return self.names.index(self[name].name)

    def choice(
        self, name: str, *, formula: str, source: str, summary: str, revision: int = 1
    ) -> Callable[[Function], Function]:
        """Decorator: makes a function a choice of this axis and returns it unchanged.

        The function takes the keywords of `inputs`, all of them and no others, with the defaults
        of the choices before it; on a stateful axis `state` before them. One more argument with a
        default is refused too: nobody could set it, and a number that decides the result belongs
        into the axis' inputs. It returns the shapes and dtypes that the choices before it return,
        and a state of those that it took. Raises RegistrationError.
        """
        if self.inputs is None:
            raise RegistrationError(
                f"axis '{self.name}' is read by the trainer's loop and its choices have no "
                f"function: use declare('{name}', ...)"
            )
        described = self._describe(name, formula, source, summary, revision)

        def register_function(function: Function) -> Function:
            self._require_new(name)
            defaults = self._checked_defaults(name, function)
            returns = self._checked_returns(name, function)
            if not self._choices:
                self._defaults, self._returns = defaults, returns
            self._choices[name] = Choice(**described, fn=function)
            return function

        return register_function

    def declare(
        self, name: str, *, formula: str, source: str, summary: str, revision: int = 1
    ) -> Choice:
        """Names a choice of a loop axis. Only a trainer that knows the name can run it."""
        if self.inputs is not None:
            raise RegistrationError(
                f"axis '{self.name}' takes functions: use @axis.choice('{name}', ...) on one"
            )
        self._require_new(name)
        self._choices[name] = Choice(**self._describe(name, formula, source, summary, revision))
        return self._choices[name]

    def apply(self, choice: Any, *state: Any, **inputs: Any) -> Any:
        """What `choice` makes of the inputs; on a stateful axis of its state too: (state, output).

        choice: a name (picked when tracing), or an int scalar, traced or not, that
            `jax.lax.switch` looks up among all choices of the axis. Works under jit, vmap and
            grad; inputs may be functions or static.
        """
        if self.inputs is None:
            raise TypeError(
                f"axis '{self.name}' is read by the trainer's loop and has no function: use switch"
            )
        if len(state) != len(self._state):
            wanted = "its state before its inputs" if self._state else "keywords only"
            raise TypeError(f"axis '{self.name}' takes {wanted}: apply got {len(state)} states")
        missing = [n for n in self.inputs if n not in inputs and n not in self._defaults]
        if missing or not inputs.keys() <= self.inputs.keys():
            raise TypeError(
                f"axis '{self.name}' takes {', '.join(self.inputs)}: "
                + differences(missing, [n for n in inputs if n not in self.inputs])
            )
        branches = {
            n: partial(c.fn, **inputs) for n, c in self._choices.items() if c.fn is not None
        }
        return self.switch(choice, branches, *state)

    def switch(
        self, choice: Any, branches: Mapping[str, Callable[..., Any]], *operands: Any
    ) -> Any:
        """Calls the branch of `choice`, a name or an index as in `apply`: how a loop acts on it.

        branches: choice name -> function(*operands), one for every choice; for an index they must
            all return the same shapes.
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
        return jax.lax.switch(self._checked_index(choice), [branches[n] for n in self], *operands)

    def matches(self, choice: Any, *names: str) -> Any:
        """Whether `choice` is one of the names: a bool for a name, a bool scalar for an index."""
        indices = [self.index(name) for name in names]
        if isinstance(choice, str):
            return self.index(choice) in indices
        choice = self._checked_index(choice)
        return jnp.any(jnp.asarray([choice == index for index in indices]))

    def _checked_index(self, choice: Any) -> Any:
        dtype = getattr(choice, "dtype", None)
        whole = isinstance(choice, numbers.Integral) and not isinstance(choice, bool)
        if not whole and not (dtype is not None and jnp.issubdtype(dtype, jnp.integer)):
            kind = type(choice).__name__ if dtype is None else dtype
            raise TypeError(
                f"a choice of axis '{self.name}' is a name or an int scalar, not {kind}"
            )
        if jnp.ndim(choice) != 0:
            raise TypeError(
                f"a choice of axis '{self.name}' is one int, not an array of shape "
                f"{jnp.shape(choice)}: use jax.vmap for several"
            )
        # lax.switch clamps an index silently, so what can be seen is refused here.
        if not isinstance(choice, jax.core.Tracer) and not 0 <= int(choice) < len(self):
            raise IndexError(
                f"axis '{self.name}' has no choice {int(choice)}: "
                f"0 to {len(self) - 1} are {', '.join(self)}"
            )
        return choice

    def _describe(
        self, name: str, formula: str, source: str, summary: str, revision: int
    ) -> dict[str, Any]:
        _require_identifier(f"choice of axis '{self.name}'", name)
        self._require_new(name)
        where = f"choice '{name}' of axis '{self.name}'"
        _require_text(where, formula=formula, source=source, summary=summary)
        if not isinstance(revision, int) or isinstance(revision, bool) or revision < 1:
            raise RegistrationError(
                f"{where}: revision is a whole number from 1 upwards, not {revision!r}"
            )
        return {
            "name": name,
            "formula": formula,
            "source": source,
            "summary": summary,
            "revision": revision,
        }

    def _require_new(self, name: str) -> None:
        if name in self._choices:
            raise RegistrationError(
                f"choice '{name}' of axis '{self.name}' is registered twice: choose another name"
            )

    def _checked_defaults(self, name: str, function: Callable[..., Any]) -> dict[str, Any]:
        """The defaults of a function whose arguments are those of the axis."""
        assert self.inputs is not None
        where = f"choice '{name}' of axis '{self.name}'"
        parameters = inspect.signature(function).parameters
        open_ended = [
            str(p)
            for p in parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        if open_ended:
            raise RegistrationError(
                f"{where} must name its arguments as keywords ({', '.join(self.inputs)}), "
                f"without {', '.join(open_ended)}"
            )
        wanted = [*("state" for _ in self._state), *self.inputs]
        missing = [n for n in wanted if n not in parameters]
        extra = [n for n in parameters if n not in wanted]
        if missing or extra:
            others = f", as '{self.names[0]}' does" if self._choices else ""
            raise RegistrationError(
                f"{where} must take {', '.join(wanted)}{others}: " + differences(missing, extra)
            )
        defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
        if self._choices and defaults != self._defaults:
            raise RegistrationError(
                f"{where} disagrees with '{self.names[0]}': its defaults are {shown(defaults)}, "
                f"those of '{self.names[0]}' {shown(self._defaults)}"
            )
        return defaults

    def _checked_returns(self, name: str, function: Callable[..., Any]) -> Any:
        """The abstract outputs of a function, equal to those of the choices before it."""
        assert self.inputs is not None
        where = f"choice '{name}' of axis '{self.name}'"
        data, static = split_inputs(self.inputs)
        try:
            returns = jax.eval_shape(
                lambda state, data: function(*state, **data, **static), self._state, data
            )
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            raise RegistrationError(
                f"{where} cannot be traced on the axis' stand-in inputs: "
                f"{type(error).__name__}: {reason}"
            ) from error
        if self._state:
            if not isinstance(returns, tuple) or len(returns) != 2:
                raise RegistrationError(f"{where} must return a pair: its next state, its output")
            changed = first_difference(returns[0], self._state[0])
            if changed:
                raise RegistrationError(
                    f"{where} must return a state like the one it takes: it takes {changed[1]} "
                    f"and returns {changed[0]}"
                )
        if self._choices:
            difference = first_difference(returns, self._returns)
            if difference:
                got, expected = difference
                first = self.names[0]
                raise RegistrationError(
                    f"{where} disagrees with '{first}': it returns {got}, "
                    f"'{first}' returns {expected}"
                )
        return returns


def _require_identifier(kind: str, name: object) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise RegistrationError(f"{kind}: a name is an identifier such as 'done_cut', not {name!r}")


def _require_text(where: str, **texts: object) -> None:
    for name, text in texts.items():
        if not isinstance(text, str) or not text.strip():
            raise RegistrationError(f"{where} needs a {name}, in words")


# What is known

_AXES: dict[str, Axis] = {}
_RULES: list[Callable[..., str | None]] = []


def register(axis: Axis) -> Axis:
    """Makes an axis known to every command, and returns it."""
    if axis.name in _AXES:
        raise RegistrationError(f"axis '{axis.name}' is registered twice: choose another name")
    _AXES[axis.name] = axis
    return axis


def axes() -> Mapping[str, Axis]:
    """All axes by name, a read-only view."""
    return MappingProxyType(_AXES)


def axis(name: str) -> Axis:
    """The axis of that name. Raises UnknownName."""
    try:
        return _AXES[name]
    except (KeyError, TypeError):
        raise UnknownName("axis", name, _AXES) from None


def conflict(rule: Function) -> Function:
    """Decorator: a rule about combinations that make no sense.

    The parameters of the rule name what it looks at: axes, coefficients or other settings. It is
    asked, by keyword, about every variant that has all of them (or a default), and returns what is
    wrong, or None.
    """
    parameters = inspect.signature(rule).parameters.values()
    if any(p.kind not in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        raise RegistrationError(
            f"rule '{getattr(rule, '__name__', rule)}' must name what it looks at as its parameters"
        )
    _RULES.append(rule)
    return rule


def conflicts(variant: Mapping[str, Any]) -> list[str]:
    """What makes no sense in a variant, in words; [] when all is well.

    variant: axis name -> choice name. Values that are not strings are numbers and settings for the
        rules that look at them. Raises UnknownName for a choice, or for a string under a name that
        is no axis.
    """
    for name, value in variant.items():
        if name in _AXES or isinstance(value, str):
            axis(name)[value]
    found = []
    for rule in _RULES:
        parameters = inspect.signature(rule).parameters
        seen = {name: variant[name] for name in parameters if name in variant}
        if all(n in seen or p.default is not p.empty for n, p in parameters.items()):
            complaint = rule(**seen)
            if complaint:
                found.append(complaint)
    return found
