"""Checks of a choice at registration, on abstract inputs: nothing is computed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import jax

from variants.shapes import Tree, floats

if TYPE_CHECKING:
    from variants.registry import Axis, Choice

# Arguments of `Axis.apply`, and the first argument of stateful choices.
RESERVED = ("choice", "state", "numbers")


class RegistrationError(ValueError):
    """An invalid choice, axis, number or rule."""


def require_names(where: str, kind: str, names: Iterable[str], taken: Collection[str] = ()) -> None:
    """Raise RegistrationError for names that are not identifiers, reserved or taken."""
    for name in names:
        if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
            raise RegistrationError(
                f"{where}: {kind} is an identifier such as 'done_cut' and not reserved "
                f"({', '.join(RESERVED)}), not {name!r}"
            )
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
    first = parameters[0] if parameters else None
    if stateful and (first is None or first.name != "state" or first.kind is first.KEYWORD_ONLY):
        raise RegistrationError(f"{where} must take its state first: (state, *, ...)")
    parameters = parameters[stateful:]
    if others := [str(p) for p in parameters if p.kind is not p.KEYWORD_ONLY]:
        raise RegistrationError(
            f"{where} must name its arguments as keywords, after a *, without {', '.join(others)}"
        )
    if unknown := [p.name for p in parameters if p.name not in offered]:
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


def require_same_returns(axis: Axis, one: Choice) -> None:
    """Raise RegistrationError for a choice whose shapes differ from those of the first choice.

    Choices of a structural axis may differ. On a stateful axis, a choice also returns a state like
    the one it takes.
    """
    where = f"choice '{one.name}' of axis '{axis.name}'"
    numbers = dict.fromkeys([*axis.known_numbers, *one.numbers], floats())
    stand_ins = {**(axis.inputs or {}), **numbers}
    state = () if axis.init is None else (_traced(axis.init, (), axis.init_inputs),)
    first = next(iter(axis.values()), one)
    try:
        returns, expected = (
            _traced(each.fn, state, {n: stand_ins[n] for n in (*each.inputs, *each.numbers)})
            for each in (one, one if axis.structural else first)
        )
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise RegistrationError(
            f"{where} cannot be traced on the axis' stand-in inputs: "
            f"{type(error).__name__}: {reason}"
        ) from error
    if state and (not isinstance(returns, tuple) or len(returns) != 2):
        raise RegistrationError(f"{where} must return a pair: its next state, its output")
    if state and (changed := first_difference(returns[0], state[0])):
        raise RegistrationError(
            f"{where} must return a state like the one it takes: it takes {changed[1]} "
            f"and returns {changed[0]}"
        )
    if difference := first_difference(returns, expected):
        raise RegistrationError(
            f"{where} disagrees with '{first.name}': it returns {difference[0]}, "
            f"'{first.name}' returns {difference[1]}"
        )


def _traced(function: Tree, state: tuple[Tree, ...], inputs: Mapping[str, Tree]) -> Tree:
    """Return the shapes and dtypes of a result; inputs that are not abstract are static."""

    def is_abstract(value: Tree) -> bool:
        leaves = jax.tree.leaves(value)
        return bool(leaves) and all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)

    data = {name: value for name, value in inputs.items() if is_abstract(value)}
    static = {name: value for name, value in inputs.items() if name not in data}
    return jax.eval_shape(lambda state, data: function(*state, **data, **static), state, data)


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
