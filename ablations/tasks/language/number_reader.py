# ruff: noqa: RUF001  # a minus sign is meant
"""`answers.given_answer` as an automaton over characters, so that answers are checked inside a
compiled program: by NumPy's or Python's code a worker of one thread would wait for itself.

Characters are classes (`class_of`); a text is an array of them, with NOTHING where there is none. A
number is m·10^-s with the least s, m modulo 2^32: equal numbers are equal, and two others with less
than ten digits differ.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array

# 0 to 9 are the digits themselves.
DOT, COMMA, MINUS, PLUS, CURRENCY, HASH, SUBTRACTABLE, OTHER, NOTHING = range(10, 19)
MARK_LENGTH = 4
_CLASSES = {
    ".": DOT,
    ",": COMMA,
    "-": MINUS,
    "−": MINUS,
    "+": PLUS,
    "$": CURRENCY,
    "€": CURRENCY,
    "£": CURRENCY,
    "#": HASH,
    ")": SUBTRACTABLE,
    "]": SUBTRACTABLE,
    "%": SUBTRACTABLE,
    "_": SUBTRACTABLE,
}


def class_of(character: str) -> int:
    """What the automaton sees of a character."""
    if character in "0123456789":
        return int(character)
    return _CLASSES.get(character, SUBTRACTABLE if character.isalnum() else OTHER)


class Number(NamedTuple):
    """found: whether there is one; then its sign and m·10^-s. Zero is not negative."""

    found: Array
    negative: Array
    mantissa: Array
    scale: Array


class _State(NamedTuple):
    """previous: the class of the character before. hashes: how many '#' in a row, up to 4.
    marked, frozen: whether a mark came, and whether the first number after it is complete.
    sign, negative: whether a sign or a currency before stands for the next number, and its sign.
    run: digits of the run so far, up to 4; 0 outside of one. fraction: whether it is behind a dot.
    group, joined: whether the run follows a comma, and the number before that; it becomes one with
    a run of three. number: of the text so far. current: the one that is being read. power: of ten,
    by which the next digit but 0 of a fraction multiplies; zeros: those before it.
    """

    previous: Array
    hashes: Array
    marked: Array
    frozen: Array
    negative: Array
    run: Array
    fraction: Array
    group: Array
    value: Array
    joined: Number
    current: Number
    number: Number
    power: Array
    zeros: Array


def _pick(condition: Array, one: Number, other: Number) -> Number:
    return Number(*(jnp.where(condition, a, b) for a, b in zip(one, other, strict=True)))


def _step(s: _State, c: Array) -> _State:
    digit, was_digit = c < DOT, s.previous < DOT
    d = jnp.where(digit, c, 0).astype(jnp.uint32)
    false, zero = jnp.zeros((), bool), jnp.int32(0)

    # Runs of digits: a run goes on, starts behind a dot or a comma, or by itself.
    on = digit & was_digit
    starts = digit & ~was_digit
    behind_dot = starts & (s.previous == DOT)
    grouped = starts & (s.previous == COMMA) & s.group
    run = jnp.where(on, jnp.minimum(s.run + 1, 4), jnp.where(starts, 1, 0))
    fraction = jnp.where(on, s.fraction, behind_dot)
    group = jnp.where(on, s.group, grouped)
    value = jnp.where(on, s.value * 10 + d, d)

    # The number that is being read, if this is a digit.
    plain = Number(digit, jnp.where(on, s.current.negative, s.negative), value, zero)
    plain = plain._replace(negative=plain.negative & ~group)
    three = Number(digit, s.joined.negative, s.joined.mantissa * 1000 + value, zero)
    whole = _pick(group & (run == 3), three, plain)
    # Behind a dot `current` is the number before it, or 0 with the sign that stands.
    zeros = jnp.where(on, s.zeros, 0)
    power = jnp.where(on, s.power, 10).astype(jnp.uint32)
    part = Number(
        digit,
        s.current.negative,
        jnp.where(d > 0, s.current.mantissa * power + d, s.current.mantissa),
        jnp.where(d > 0, s.current.scale + zeros + 1, s.current.scale),
    )
    current = _pick(digit, _pick(fraction, part, whole), s.current)
    zeros, power = jnp.where(d > 0, 0, zeros + 1), jnp.where(d > 0, 10, power * 10)

    # After a mark the first number counts, else the last.
    fresh = starts & ~grouped & ~(behind_dot & s.current.found)
    frozen = s.frozen | (s.marked & s.number.found & fresh)
    broken = s.marked & group & (run != 3) & ~fraction
    known = _pick(broken, s.joined, current)
    number = _pick(digit & ~frozen, known, s.number)

    # What other characters mean for the next digit.
    comma = c == COMMA
    whole_run = was_digit & ~s.fraction
    can_group = comma & whole_run & jnp.where(s.group, s.run == 3, s.run <= 3)
    joined = _pick(can_group, s.current, s.joined)
    group = jnp.where(comma, can_group, group)
    dot = c == DOT
    nothing = Number(false, s.negative, jnp.uint32(0), zero)
    current = _pick(dot & ~whole_run, nothing, current)

    minus, sign = c == MINUS, (c == MINUS) | (c == PLUS)
    inner = s.previous == CURRENCY
    subtracts = was_digit | (s.previous == SUBTRACTABLE)
    of_sign = jnp.where(inner, s.negative | minus, minus & ~subtracts)
    signed = (s.previous == MINUS) | (s.previous == PLUS)
    negative = jnp.where(sign, of_sign, (c == CURRENCY) & signed & s.negative)
    negative = jnp.where(dot & ~whole_run, s.negative, negative)

    hashes = jnp.where(c == HASH, jnp.minimum(s.hashes + 1, MARK_LENGTH), 0)
    mark = hashes == MARK_LENGTH
    number = number._replace(found=number.found & ~mark)
    after = _State(
        previous=c,
        hashes=hashes,
        marked=s.marked | mark,
        frozen=frozen & ~mark,
        negative=negative,
        run=run,
        fraction=fraction,
        group=group,
        value=value,
        joined=joined,
        current=current,
        number=number,
        power=power,
        zeros=zeros,
    )
    return jax.tree.map(lambda new, old: jnp.where(c == NOTHING, old, new), after, s)


def read_number(classes: Array) -> Number:
    """The number that a text [C] of classes gives; leaves are scalars."""
    false, zero = jnp.zeros((), bool), jnp.int32(0)
    none = Number(false, false, jnp.uint32(0), zero)
    start = _State(
        previous=jnp.int32(OTHER),
        hashes=zero,
        marked=false,
        frozen=false,
        negative=false,
        run=zero,
        fraction=false,
        group=false,
        value=jnp.uint32(0),
        joined=none,
        current=none,
        number=none,
        power=jnp.uint32(10),
        zeros=zero,
    )
    end, _ = jax.lax.scan(lambda s, c: (_step(s, c), None), start, classes.astype(jnp.int32))
    negative = end.number.negative & (end.number.mantissa != 0)
    return end.number._replace(negative=negative)


def same_number(one: Number, other: Number) -> Array:
    """Whether both are found, and equal."""
    equal = [a == b for a, b in zip(one[1:], other[1:], strict=True)]
    return one.found & other.found & equal[0] & equal[1] & equal[2]


def as_number(answer: Fraction) -> Number:
    """A decimal number as the automaton reads it, in Python's numbers.

    Raises ValueError for one that has no end in decimals.
    """
    scale = 0
    while (abs(answer) * 10**scale).denominator != 1:
        scale += 1
        if scale > 20:
            raise ValueError(f"{answer} has no decimals that end")
    mantissa = int(abs(answer) * 10**scale) % 2**32
    import numpy as np

    return Number(np.bool_(True), np.bool_(answer < 0), np.uint32(mantissa), np.int32(scale))  # type: ignore[arg-type]
