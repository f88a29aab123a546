"""`jax.vmap` with the batch as the last axis of every array, instead of the first.

A step of rigid-body physics works on arrays of a few numbers, such as [links, 3]. With a leading
batch axis, [N, links, 3], compiled loops run over three numbers at a time, and small products are
separate calls. With a trailing axis, [links, 3, N], all loops run over the N environments and fuse.
This is much faster on a CPU (benchmarks/README.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.typing import ArrayLike

from ablations.trainers.products import materialized
from ablations.trainers.trainer import Array, Tree

Result = TypeVar("Result")

# Arc tangent, arc sine and arc cosine in float32. XLA on a CPU calls the C library for each number,
# and its last bits changed with glibc 2.41. These functions vectorize, with the same bits on every
# x86 processor with AVX2, given the flags of `worker_environment` in ablations/engine/machine.py.
# Their derivatives are not supported.

# atan(t) = t + t z q(z) with z = t²; q on [0, 1], highest power first, by reweighted least squares;
# the relative error is at most 2e-9.
_Q = np.array(
    [
        -0.0017539302,
        0.010726945,
        -0.030804602,
        0.057552110,
        -0.083773158,
        0.10942031,
        -0.14261933,
        0.19998266,
        -0.33333284,
    ],
    np.float32,
)


def arctan2(y: Array, x: Array) -> Array:
    """Angle of the point (x, y) in radians, float32, within 2 units in the last place.

    Subnormal numbers count as 0, as everywhere in XLA's code.
    """
    across, up = jnp.abs(x), jnp.abs(y)
    least, most = jnp.minimum(across, up), jnp.maximum(across, up)
    ratio = least / jnp.where(most == 0, 1, most)
    ratio = jnp.where(jnp.isinf(least), 1, ratio)
    square = ratio * ratio
    angle = ratio + ratio * (square * jnp.polyval(_Q, square, unroll=_Q.size))
    angle = jnp.where(up > across, np.float32(np.pi / 2) - angle, angle)
    angle = jnp.where(jnp.signbit(x), np.float32(np.pi) - angle, angle)
    return jnp.copysign(angle, y)


def arctan(x: Array) -> Array:
    """Angle whose tangent is x, in radians."""
    return arctan2(x, jnp.ones_like(x))


def arcsin(x: Array) -> Array:
    """Angle whose sine is x, in radians; not a number beyond 1."""
    return arctan2(x, jnp.sqrt((1 - x) * (1 + x)))


def arccos(x: Array) -> Array:
    """Angle whose cosine is x, in radians; not a number beyond 1."""
    return arctan2(jnp.sqrt((1 - x) * (1 + x)), x)


class Value(NamedTuple):
    """An array, and whether its last axis is the batch."""

    array: Array
    batched: bool


# Element-wise operations; operands of rank 0 and axes of size 1 are broadcast.
_ELEMENTWISE = str.split(
    """
    abs acos acosh add and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy
    cos cosh div eq erf erf_inv exp exp2 expm1 floor ge gt integer_pow is_finite le log log1p
    logistic lt max min mul ne neg not or pow rem round rsqrt select_n sign sin sinh sqrt square
    stop_gradient sub tan tanh xor
    """
)
_OWN: dict[str, Callable[..., Array]] = {
    "acos": arccos,
    "asin": arcsin,
    "atan": arctan,
    "atan2": arctan2,
}
# Operations whose parameters count axes from the front.
_FROM_THE_FRONT = str.split(
    """
    argmax argmin concatenate cumlogsumexp cummax cummin cumprod cumsum reduce_and reduce_max
    reduce_min reduce_or reduce_prod reduce_sum rev sort split squeeze stack
    """
)
_CALLS = {
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "jit": "jaxpr",
    "remat2": "jaxpr",
}


def vmap_trailing(function: Callable[..., Result]) -> Callable[..., Result]:
    """Vectorize like `jax.vmap(function)`: arguments and results are pytrees of arrays [N, ...].

    The results equal those of `jax.vmap` up to the order of sums in products and, in float32, the
    last bits of arc tangents. `jax.vmap` batches operations without a rule. Not supported: rules of
    `jax.custom_jvp` and `jax.custom_vjp`, `jax.checkpoint`, weak types of results, derivatives of
    arc tangents, `jax.shard_map`. Raises ValueError unless all arrays have one N.
    """

    def batched(*arguments: Tree) -> Result:
        leaves, structure = jax.tree.flatten(arguments)
        sizes = {jnp.shape(x)[:1] for x in leaves}
        if len(sizes) != 1 or () in sizes:
            raise ValueError(
                f"vmap_trailing: every array has a batch as its first axis, got {sizes}"
            )
        single = [
            jax.ShapeDtypeStruct(x.shape[1:], x.dtype, weak_type=getattr(x, "weak_type", False))
            for x in leaves
        ]
        program, result = jax.make_jaxpr(function, return_shape=True)(
            *jax.tree.unflatten(structure, single)
        )
        size = leaves[0].shape[0]
        values = _run(program, [Value(jnp.moveaxis(x, 0, -1), True) for x in leaves], size)
        arrays = [jnp.moveaxis(_trailing(value, size), -1, 0) for value in values]
        unflattened: Result = jax.tree.unflatten(jax.tree.structure(result), arrays)
        return unflattened

    return batched


def _run(program: ClosedJaxpr | Jaxpr, values: Sequence[Value], size: int) -> list[Value]:
    """Evaluate a jaxpr."""
    jaxpr = _open(program)
    consts = [Value(x, False) for x in getattr(program, "consts", ())]
    known: dict[Var, Value] = dict(
        zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *values], strict=True)
    )

    def read(variable: Var | Literal) -> Value:
        if isinstance(variable, Literal):
            constant: Tree = np.asarray(variable.val, _shaped(variable).dtype)
            return Value(constant, False)
        return known[variable]

    for equation in jaxpr.eqns:
        with equation.ctx.manager:
            found = _apply(equation, [read(variable) for variable in equation.invars], size)
        known.update(zip(equation.outvars, found, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _apply(equation: JaxprEqn, values: list[Value], size: int) -> list[Value]:
    """Evaluate one operation."""
    name = equation.primitive.name
    if name in _CALLS:
        return _run(equation.params[_CALLS[name]], values, size)
    if not any(value.batched for value in values):
        return [Value(x, False) for x in _bind(equation, *[value.array for value in values])]
    if name == "scan":
        return _scan(equation, values, size)
    if name in _ELEMENTWISE:
        found = _elementwise(equation, values, size)
    elif name in _FROM_THE_FRONT:
        found = _bind(equation, *[_trailing(value, size) for value in values])
        found = materialized(found) if _stacks(equation) else found
    elif (rule := _RULES.get(name)) and rule.holds(equation, values):
        operands = [_trailing(x, size) for x in values]
        operands[rule.unbatched] = [x.array for x in values[rule.unbatched]]
        found = [rule.apply(equation, size, *operands)]
    else:
        found = _by_vmap(equation, values, size)
    return [Value(x, True) for x in found]


def _stacks(equation: JaxprEqn) -> bool:
    """Return whether an operation stacks single numbers, such as the components of a vector.

    Fused into later operations, it would select the operand per element, which does not vectorize.
    """
    name, operands = equation.primitive.name, [_shaped(one).shape for one in equation.invars]
    if name == "concatenate":
        return all(shape[equation.params["dimension"]] == 1 for shape in operands)
    return name == "stack"


def _shaped(variable: Var | Literal) -> Tree:
    """Return shape and dtype of a variable, without the batch."""
    return variable.aval


def _bind(equation: JaxprEqn, *arrays: ArrayLike, **changed: Tree) -> list[Array]:
    found = equation.primitive.bind(*arrays, **{**equation.params, **changed})
    return found if equation.primitive.multiple_results else [found]


def _trailing(value: Value, size: int, shape: tuple[int, ...] | None = None) -> Array:
    """Return the array with the batch, broadcast to a shape (without the batch)."""
    array = jnp.asarray(value.array)
    own = array.shape[:-1] if value.batched else array.shape
    shape = own if shape is None else shape
    if value.batched and own == shape:
        return array
    axes = tuple(range(len(shape))) if own else ()
    return lax.broadcast_in_dim(
        array, (*shape, size), (*axes, len(shape)) if value.batched else axes
    )


def _by_vmap(equation: JaxprEqn, values: list[Value], size: int) -> list[Array]:
    """Apply the rule of `jax.vmap`, which mostly moves the batch to the front and back."""
    return jax.vmap(
        lambda *arrays: _bind(equation, *arrays),
        in_axes=[-1 if value.batched else None for value in values],
        out_axes=-1,
        axis_size=size,
    )(*[value.array for value in values])


def _elementwise(equation: JaxprEqn, values: list[Value], size: int) -> list[Array]:
    out = _shaped(equation.outvars[0])
    arrays = [_trailing(value, size, out.shape) for value in values]
    if out.dtype == jnp.float32 and (own := _OWN.get(equation.primitive.name)):
        return [own(*arrays)]
    return _bind(equation, *arrays)


def _open(program: ClosedJaxpr | Jaxpr) -> Jaxpr:
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def _as_many_axes(outside: Sequence[Var | Literal], inside: Sequence[Var | Literal]) -> int:
    """Count the variables that have as many axes outside of a loop as in it."""
    pairs = zip(outside, inside, strict=True)
    return sum(len(_shaped(out).shape) == len(_shaped(inner).shape) for out, inner in pairs)


def _scan(equation: JaxprEqn, values: list[Value], size: int) -> list[Value]:
    params = equation.params
    # Scanned and stacked arrays have one axis more outside the loop. The parameters that count them
    # differ between releases of JAX.
    inner = _open(params["jaxpr"])
    last = _as_many_axes(equation.invars, inner.invars)
    first = last - _as_many_axes(equation.outvars, inner.outvars)
    fixed, start, rows = values[:first], values[first:last], values[last:]
    batched = [x.batched for x in start]
    returned: list[bool] = []

    def as_carried(carry: Sequence[Value]) -> list[Array]:
        return [
            _trailing(x, size) if yes else x.array for x, yes in zip(carry, batched, strict=True)
        ]

    def step(carry: list[Array], row: list[Array]) -> tuple[list[Array], list[Array]]:
        nonlocal returned
        inside = [*map(Value, carry, batched), *map(Value, row, [x.batched for x in rows])]
        found = _run(params["jaxpr"], [*fixed, *inside], size)
        returned = [x.batched for x in found]
        return as_carried(found[: len(start)]), [x.array for x in found[len(start) :]]

    arrays = [x.array for x in rows]
    one = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in arrays]
    while True:  # until the set of batched carries is stable
        jax.eval_shape(step, as_carried(start), one)
        grown = [yes or new for yes, new in zip(batched, returned, strict=False)]
        if grown == batched:
            break
        batched = grown
    options = {name: params[name] for name in ("length", "reverse", "unroll")}
    carry, out = lax.scan(step, as_carried(start), arrays, **options)
    return list(map(Value, [*carry, *out], [*batched, *returned[len(start) :]]))


def _broadcast(equation: JaxprEqn, size: int, array: Array) -> Array:
    shape, axes = equation.params["shape"], equation.params["broadcast_dimensions"]
    return lax.broadcast_in_dim(array, (*shape, size), (*axes, len(shape)))


def _reshape(equation: JaxprEqn, size: int, array: Array) -> Array:
    return lax.reshape(array, (*equation.params["new_sizes"], size))


def _transpose(equation: JaxprEqn, size: int, array: Array) -> Array:
    return lax.transpose(array, (*equation.params["permutation"], array.ndim - 1))


def _tile(equation: JaxprEqn, size: int, array: Array) -> Array:
    return _bind(equation, array, reps=(*equation.params["reps"], 1))[0]


def _slice(equation: JaxprEqn, size: int, array: Array) -> Array:
    params = equation.params
    strides = params["strides"] or (1,) * (array.ndim - 1)
    starts, limits = (*params["start_indices"], 0), (*params["limit_indices"], size)
    return lax.slice(array, starts, limits, (*strides, 1))


def _pad(equation: JaxprEqn, size: int, array: Array, value: Array) -> Array:
    return lax.pad(array, value, (*equation.params["padding_config"], (0, 0, 0)))


def _gather(equation: JaxprEqn, size: int, array: Array, indices: Array) -> Array:
    params, behind = equation.params, _shaped(equation.outvars[0]).ndim
    numbers = params["dimension_numbers"]
    numbers = numbers._replace(offset_dims=(*numbers.offset_dims, behind))
    sizes = (*params["slice_sizes"], size)
    return _bind(equation, array, indices, dimension_numbers=numbers, slice_sizes=sizes)[0]


def _scatter(equation: JaxprEqn, size: int, *operands: Array) -> Array:
    numbers = equation.params["dimension_numbers"]
    windows = (*numbers.update_window_dims, operands[2].ndim - 1)
    numbers = numbers._replace(update_window_dims=windows)
    return _bind(equation, *operands, dimension_numbers=numbers)[0]


def _of_whole_floats(equation: JaxprEqn) -> bool:
    """Return False for integers and half floats, whose sums have another dtype."""
    return _shaped(equation.outvars[0]).dtype in (jnp.float32, jnp.float64)


def _dot_general(equation: JaxprEqn, size: int, left: Array, right: Array) -> Array:
    """Sum products of elements, which fuses with neighbouring operations."""
    (left_sum, right_sum), (left_batch, right_batch) = equation.params["dimension_numbers"]
    dtype = _shaped(equation.outvars[0]).dtype

    def rest(array: Array, *taken: Sequence[int]) -> list[int]:
        return [axis for axis in range(array.ndim - 1) if axis not in sum(map(tuple, taken), ())]

    left_rest, right_rest = rest(left, left_sum, left_batch), rest(right, right_sum, right_batch)
    # [*batch, *left_rest, *right_rest, *summed, N]
    left = jnp.transpose(left, (*left_batch, *left_rest, *left_sum, left.ndim - 1))
    left = jnp.expand_dims(
        left, [len(left_batch) + len(left_rest) + i for i in range(len(right_rest))]
    )
    right = jnp.transpose(right, (*right_batch, *right_rest, *right_sum, right.ndim - 1))
    right = jnp.expand_dims(right, [len(right_batch) + i for i in range(len(left_rest))])
    product = left.astype(dtype) * right.astype(dtype)
    return product.sum(tuple(range(product.ndim - 1 - len(left_sum), product.ndim - 1)))


class Rule(NamedTuple):
    """The rule of an operation for arrays with a trailing batch axis.

    unbatched: operands that must not have a batch, mostly indices. only: a further condition.
    """

    apply: Callable[..., Array]
    unbatched: slice = slice(0)
    only: Callable[[JaxprEqn], bool] = lambda equation: True

    def holds(self, equation: JaxprEqn, values: Sequence[Value]) -> bool:
        """Return whether the rule applies to an operation on these values."""
        return not any(x.batched for x in values[self.unbatched]) and self.only(equation)


_RULES = {
    "broadcast_in_dim": Rule(_broadcast),
    "dot_general": Rule(_dot_general, only=_of_whole_floats),
    "gather": Rule(_gather, slice(1, 2)),
    "pad": Rule(_pad, slice(1, 2)),
    "reshape": Rule(_reshape, only=lambda one: one.params["dimensions"] is None),
    "scatter": Rule(_scatter, slice(1, 2)),
    "scatter-add": Rule(_scatter, slice(1, 2)),
    "scatter-mul": Rule(_scatter, slice(1, 2)),
    "slice": Rule(_slice),
    "tile": Rule(_tile),
    "transpose": Rule(_transpose),
}
