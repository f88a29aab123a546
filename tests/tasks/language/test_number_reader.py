"""The automaton reads what `answers.given_answer` does, from any text."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ablations.tasks.language.answers import given_answer
from ablations.tasks.language.number_reader import (
    NOTHING,
    as_number,
    class_of,
    read_number,
    same_number,
)

LENGTH = 24
read = jax.jit(read_number)


def read_text(text: str):
    classes = [class_of(character) for character in text]
    return read(jnp.asarray(classes + [NOTHING] * (LENGTH - len(classes)), jnp.int32))


PIECES = ["1", "20", "345", "0", "00", "6789", ".", ",", "-", "+", "$", " ", "a", ")", "%", "####"]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(PIECES), max_size=9).map(lambda p: "".join(p)[:LENGTH]))
@example("1,234,5678")
@example("1,234,567.50")
@example("#### 1,23 4")
@example("#### 1,234 5")
@example("5 #### 6 #### x")
@example("$-.50 -$-5")
@example("1.2.3,456")
@example("-0.00")
def test_automaton_equals_the_expression(text):
    wanted, got = given_answer(text), read_text(text)
    assert bool(got.found) == (wanted is not None), (text, wanted, got)
    if wanted is not None:
        assert bool(same_number(got, as_number(wanted))), (text, wanted, got)
        assert not bool(same_number(got, as_number(wanted + Fraction(1, 4))))


def test_what_is_nothing_is_not_read():
    classes = [class_of(character) for character in "a-12.5 #### $1,200"]
    rng = np.random.default_rng(0)
    spread = np.full(2 * LENGTH, NOTHING)
    spread[np.sort(rng.choice(2 * LENGTH, len(classes), replace=False))] = classes
    assert bool(same_number(read_number(jnp.asarray(spread)), as_number(Fraction(1200))))


def test_no_number_is_equal_to_none():
    nothing = read_text("no")
    assert not bool(same_number(nothing, nothing))
    with pytest.raises(ValueError, match="1/3 has no decimals that end"):
        as_number(Fraction(1, 3))
