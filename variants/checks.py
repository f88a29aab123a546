"""Checks of a choice at registration, on abstract inputs: nothing is computed."""

from __future__ import annotations

import inspect
import numbers as numerical
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from variants.shapes import Tree

if TYPE_CHECKING:
    from variants.registry import Choice

# Arguments of `Axis.apply`, and the first argument of stateful choices.
RESERVED = ("choice", "state", "numbers")


class RegistrationError(ValueError):
    """An invalid choice, axis, number or rule."""


def require_identifier(kind: str, name: str) -> None:
    """Raise RegistrationError unless the name is an identifier."""
    if not isinstance(name, str) or not name.isidentifier():
        raise RegistrationError(f"{kind}: a name is an identifier such as 'done_cut', not {name!r}")


def require_text(where: str, **texts: str) -> None:
    """Raise RegistrationError for a description that is missing."""
    for name, text in texts.items():
        if not isinstance(text, str) or not text.strip():
            raise RegistrationError(f"{where} needs a {name}, in words")


def require_free_names(
    where: str, kind: str, names: Collection[str], taken: Collection[str]
) -> None:
    """Raise RegistrationError for names that are not identifiers, reserved or taken."""
    for name in names:
        require_identifier(f"{kind} of {where}", name)
        if name in RESERVED:
            raise RegistrationError(f"{where}: the registry reserves '{name}'; rename the {kind}")
        if name in taken:
            raise RegistrationError(
                f"{where}: {kind} '{name}' is the name of an input of the axis: choose another"
            )


def unpacked(function: Callable[..., Tree], pack: Tree, stateful: bool) -> Callable[..., Tree]:
    """Return a function of keywords that calls a function of a NamedTuple of some of them.

    pack: the NamedTuple, the first argument, or the second one after a state.
    """

    def fn(*state: Tree, **given: Tree) -> Tree:
        packed = pack(**{name: given.pop(name) for name in pack._fields})
        return function(*state, packed, **given)

    parameters = list(inspect.signature(function).parameters.values())
    parameters[stateful : stateful + 1] = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in pack._fields
    ]
    fn.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    fn.__module__ = function.__module__
    return fn


def arguments_read(
    where: str,
    function: Callable[..., Tree],
    *,
    stateful: bool,
    offered: Collection[str],
    defaults: Mapping[str, Tree],
) -> tuple[str, ...]:
    """Return the names of a function's keyword arguments: the inputs and numbers that it reads.

    offered: all inputs and numbers that it may name. defaults: default values on the axis. Raises
    RegistrationError, also for a default in the signature that differs from the axis' default,
    since `Axis.apply` passes every argument.
    """
    parameters = list(inspect.signature(function).parameters.values())
    if stateful:
        first = parameters[0] if parameters else None
        if first is None or first.name != "state" or first.kind is first.KEYWORD_ONLY:
            raise RegistrationError(f"{where} must take its state first: (state, *, ...)")
        parameters = parameters[1:]
    others = [str(p) for p in parameters if p.kind is not p.KEYWORD_ONLY]
    if others:
        raise RegistrationError(
            f"{where} must name its arguments as keywords, after a *, without {', '.join(others)}"
        )
    unknown = [p.name for p in parameters if p.name not in offered]
    if unknown:
        raise RegistrationError(
            f"{where} asks for {', '.join(unknown)}, which the axis does not offer: it offers "
            f"{', '.join(offered)}; a number of its own comes with numbers="
        )
    for p in parameters:
        if p.default is not p.empty and (p.name not in defaults or defaults[p.name] != p.default):
            axis = f"is {defaults[p.name]!r}" if p.name in defaults else "does not exist"
            raise RegistrationError(
                f"{where} says {p.name}={p.default!r}, whose default on the axis {axis}"
            )
    return tuple(p.name for p in parameters)


def require_same_returns(
    axis: str,
    one: Choice,
    first: Choice,
    stand_ins: Mapping[str, Tree],
    init: Callable[..., Tree] | None,
    init_inputs: Mapping[str, Tree],
) -> None:
    """Raise RegistrationError for a choice whose shapes differ from those of the first choice.

    stand_ins: the abstract inputs of both. init, init_inputs: of a stateful axis, whose choices
        also return a state like the one they take.
    """
    state: tuple[Tree, ...] = ()
    if init is not None:
        data, static = split_inputs(init_inputs)
        state = (jax.eval_shape(lambda data: init(**data, **static), data),)
    where = f"choice '{one.name}' of axis '{axis}'"
    returns = _returns(where, one, state, stand_ins)
    difference = first is not one and first_difference(
        returns, _returns(where, first, state, stand_ins)
    )
    if difference:
        raise RegistrationError(
            f"{where} disagrees with '{first.name}': it returns {difference[0]}, "
            f"'{first.name}' returns {difference[1]}"
        )


def _returns(
    where: str, one: Choice, state: tuple[Tree, ...], stand_ins: Mapping[str, Tree]
) -> Tree:
    """Return the shapes and dtypes of a choice's output."""
    function: Tree = one.fn
    data, static = split_inputs({name: stand_ins[name] for name in (*one.inputs, *one.numbers)})
    try:
        returns = jax.eval_shape(
            lambda state, data: function(*state, **data, **static), state, data
        )
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise RegistrationError(
            f"{where} cannot be traced on the axis' stand-in inputs: "
            f"{type(error).__name__}: {reason}"
        ) from error
    if state:
        if not isinstance(returns, tuple) or len(returns) != 2:
            raise RegistrationError(f"{where} must return a pair: its next state, its output")
        changed = first_difference(returns[0], state[0])
        if changed:
            raise RegistrationError(
                f"{where} must return a state like the one it takes: it takes {changed[1]} "
                f"and returns {changed[0]}"
            )
    return returns


def require_index(axis: str, choices: Sequence[str], choice: int | np.integer | jax.Array) -> None:
    """Raise TypeError or IndexError unless `choice` is the index of a choice."""
    dtype = getattr(choice, "dtype", None)
    whole = isinstance(choice, numerical.Integral) and not isinstance(choice, bool)
    if not whole and not (dtype is not None and jnp.issubdtype(dtype, jnp.integer)):
        kind = type(choice).__name__ if dtype is None else dtype
        raise TypeError(f"a choice of axis '{axis}' is a name or an int scalar, not {kind}")
    if jnp.ndim(choice) != 0:
        raise TypeError(
            f"a choice of axis '{axis}' is one int, not an array of shape "
            f"{jnp.shape(choice)}: use jax.vmap for several"
        )
    # lax.switch clamps an index silently.
    if not isinstance(choice, jax.core.Tracer) and not 0 <= int(choice) < len(choices):
        raise IndexError(
            f"axis '{axis}' has no choice {int(choice)}: "
            f"0 to {len(choices) - 1} are {', '.join(choices)}"
        )


def is_abstract(value: Tree) -> bool:
    """Return whether all leaves of a pytree are `jax.ShapeDtypeStruct`."""
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)


def split_inputs(inputs: Mapping[str, Tree]) -> tuple[dict[str, Tree], dict[str, Tree]]:
    """Return the abstract inputs, which stand for data, and the static inputs."""
    data = {name: value for name, value in inputs.items() if is_abstract(value)}
    return data, {name: value for name, value in inputs.items() if name not in data}


def first_difference(got: Tree, expected: Tree) -> tuple[str, str] | None:
    """Describe the first difference of two abstract pytrees, or return None."""
    if repr(jax.tree.structure(got)) != repr(jax.tree.structure(expected)):
        return _tree(got), _tree(expected)
    pairs = zip(jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected), strict=True)
    for (path, one), other in pairs:
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            place = f" at {jax.tree_util.keystr(path)}" if path else ""
            return _array(one) + place, _array(other)
    return None


def _tree(value: Tree) -> str:
    return str(jax.tree.map(_array, value)).replace("'", "")


def _array(value: jax.ShapeDtypeStruct) -> str:
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"


def differences(missing: Iterable[str], unknown: Iterable[str]) -> str:
    """List missing and unknown names for a message."""
    parts = {"missing": ", ".join(missing), "unknown": ", ".join(unknown)}
    return "; ".join(f"{kind} {names}" for kind, names in parts.items() if names)
