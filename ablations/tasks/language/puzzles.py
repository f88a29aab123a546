"""Problems in tokens that have an exact checker: arithmetic, sorting, reversal, Countdown.

A problem is a function of its random key: `draw` makes its prompt and one right answer, `correct`
says whether a response solves it. All shapes are those of one problem; everything works under jit
and vmap.

The prompts of a kind are `PROMPT_LENGTH` tokens, padded on the left; its answers `RESPONSE_LENGTH`
tokens, padded on the right after their END. A mixture's are as long as its longest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array
AnyArray = TypeVar("AnyArray", jax.Array, np.ndarray)

PROMPT_LENGTH = 8
RESPONSE_LENGTH = 8
VOCABULARY = ("", "END", *"0123456789+-*=:SRC")
PAD, END = 0, 1
ZERO = VOCABULARY.index("0")
PLUS, MINUS, TIMES, EQUALS, COLON, SORT, REVERSE, COUNTDOWN = (
    VOCABULARY.index(symbol) for symbol in "+-*=:SRC"
)
SHORTEST, LONGEST = 3, 6  # lists of digits to be sorted or reversed
SHORT = 4  # of which so long ones are easy
HIGHEST_TARGET = 99


class Problem(NamedTuple):
    """One problem, int32.

    prompt: [S]. answer: [L], a right response. kind: scalar, which of a mixture's kinds of problem
        it is.
    """

    prompt: Array
    answer: Array
    kind: Array


class Kind(NamedTuple):
    """A kind of problem.

    draw(key) -> (prompt, answer). correct(prompt, answer, response) -> bool scalar.
    easy(prompt, answer) -> bool scalar: one that a warm start is taught. prompt_length,
    response_length: of its longest prompt and answer, in tokens, END included.
    """

    draw: Callable[[Array], tuple[Array, Array]]
    correct: Callable[[Array, Array, Array], Array]
    easy: Callable[[Array, Array], Array]
    prompt_length: int = PROMPT_LENGTH
    response_length: int = RESPONSE_LENGTH


def decode(tokens: Sequence[int]) -> str:
    """Return the text of tokens up to END, without padding."""
    ids = [int(token) for token in tokens]
    ids = ids[: ids.index(END)] if END in ids else ids
    return "".join(VOCABULARY[token] for token in ids)


def valid_tokens(response: Array) -> Array:
    """Return bool [..., L]: the tokens that were really written, up to and with the first END."""
    ended = jnp.cumsum(response == END, axis=-1) - (response == END)
    return ended == 0


# Placing tokens


def _left_padded(tokens: Array, count: Array) -> Array:
    """Move the first `count` of tokens [PROMPT_LENGTH] to the right end."""
    place = jnp.arange(PROMPT_LENGTH) - (PROMPT_LENGTH - count)
    return jnp.where(place >= 0, tokens[jnp.maximum(place, 0)], PAD)


def _ended(tokens: Array, count: Array) -> Array:
    """Return the first `count` of tokens [n] as an answer: END after them, then padding."""
    place = jnp.arange(RESPONSE_LENGTH)
    padded = jnp.zeros(RESPONSE_LENGTH, jnp.int32).at[: tokens.shape[0]].set(tokens)
    return jnp.where(place < count, padded, jnp.where(place == count, END, PAD))


def _padded(response: Array) -> Array:
    """Pad a response to the length of the longest of any kind."""
    return jnp.pad(response, (0, RESPONSE_LENGTH - response.shape[0]), constant_values=PAD)


def _equals_answer(prompt: Array, answer: Array, response: Array) -> Array:
    """Return whether the response is the answer up to its END; what comes after does not count."""
    wanted = valid_tokens(answer)
    return jnp.all(jnp.where(wanted, response == answer, True))


# Kinds


def of_digits(symbol: int) -> Kind:
    """Return the kind of a + b, a - b or a * b of two digits.

    A sum or product of two digits is written from its last to its first, as by hand. Easy are those
    whose answer is one digit.
    """
    operate = {PLUS: jnp.add, MINUS: jnp.subtract, TIMES: jnp.multiply}[symbol]

    def draw(key: Array) -> tuple[Array, Array]:
        a, b = jax.random.randint(key, (2,), 0, 10)
        shown = jnp.stack([ZERO + a, jnp.asarray(symbol), ZERO + b, jnp.asarray(EQUALS)])
        prompt = jnp.concatenate([jnp.full(PROMPT_LENGTH - 4, PAD), shown])
        value = operate(a, b)
        one, below = jnp.abs(value) < 10, value < 0
        first = jnp.where(below, MINUS, ZERO + jnp.abs(value) % 10)
        second = ZERO + jnp.where(below, -value, value // 10)
        count = jnp.where(one & ~below, 1, 2)
        return prompt, _ended(jnp.stack([first, second]), count)

    def easy(prompt: Array, answer: Array) -> Array:
        return answer[1] == END

    return Kind(draw, _equals_answer, easy, 4, 3)


def addition(digits: int) -> Kind:
    """Return the kind of a + b of two numbers with exactly `digits` digits each, 1 to 3.

    The answer is written from its last digit to its first, the order in which it is computed by
    hand. Easy are those without a carry.
    """

    def draw(key: Array) -> tuple[Array, Array]:
        low = 10 ** (digits - 1) if digits > 1 else 0
        a, b = jax.random.randint(key, (2,), low, 10**digits)
        powers = 10 ** jnp.arange(digits - 1, -1, -1)
        prompt = jnp.concatenate(
            [
                jnp.full(PROMPT_LENGTH - 2 * digits - 2, PAD),
                ZERO + a // powers % 10,
                jnp.array([PLUS]),
                ZERO + b // powers % 10,
                jnp.array([EQUALS]),
            ]
        )
        total = a + b
        count = digits + (total >= 10**digits)
        return prompt, _ended(ZERO + total // 10 ** jnp.arange(digits + 1) % 10, count)

    def easy(prompt: Array, answer: Array) -> Array:
        first = prompt[PROMPT_LENGTH - 2 * digits - 2 : PROMPT_LENGTH - digits - 2] - ZERO
        second = prompt[PROMPT_LENGTH - digits - 1 : PROMPT_LENGTH - 1] - ZERO
        return jnp.all(first + second < 10)

    return Kind(draw, _equals_answer, easy, 2 * digits + 2, digits + 2)


def _list_of_digits(
    symbol: int, answer_of: Callable[[Array, Array], Array]
) -> Callable[[Array], tuple[Array, Array]]:
    """Return `Kind.draw` for prompts of a symbol, `SHORTEST` to `LONGEST` digits and "=".

    answer_of(digits [LONGEST], count): the answer's tokens; digits from count on are not there.
    """

    def draw(key: Array) -> tuple[Array, Array]:
        key_count, key_digits = jax.random.split(key)
        count = jax.random.randint(key_count, (), SHORTEST, LONGEST + 1)
        digits = ZERO + jax.random.randint(key_digits, (LONGEST,), 0, 10)
        tokens = jnp.concatenate([jnp.array([symbol]), digits, jnp.array([EQUALS])])
        tokens = tokens.at[count + 1].set(EQUALS)
        return _left_padded(tokens, count + 2), _ended(answer_of(digits, count), count)

    return draw


def _sorted(digits: Array, count: Array) -> Array:
    return jnp.sort(jnp.where(jnp.arange(LONGEST) < count, digits, len(VOCABULARY)))


def _reversed(digits: Array, count: Array) -> Array:
    return digits[(count - 1 - jnp.arange(LONGEST)) % LONGEST]


def _is_short(prompt: Array, answer: Array) -> Array:
    """Return whether a list has at most `SHORT` digits."""
    return jnp.sum(answer != PAD) - 1 <= SHORT


def _countdown_table() -> np.ndarray:
    """Return all a, op, b, op, c of digits 1 to 9 with a value of 0 to 99, int32 [n, 6]."""
    operators = (PLUS, MINUS, TIMES)
    a, first, b, second, c = (
        grid.ravel()
        for grid in np.meshgrid(
            np.arange(1, 10), operators, np.arange(1, 10), operators, np.arange(1, 10)
        )
    )
    value = np.asarray(_value(a, first, b, second, c, np.where))
    table = np.stack([a, first, b, second, c, value], axis=1).astype(np.int32)
    return table[(value >= 0) & (value <= HIGHEST_TARGET)]


def _value(
    a: AnyArray,
    first: AnyArray,
    b: AnyArray,
    second: AnyArray,
    c: AnyArray,
    where: Callable[..., AnyArray],
) -> AnyArray:
    """Compute a op b op c, a product before sums and differences. where: NumPy's or JAX's."""

    def operate(x: AnyArray, operator: AnyArray, y: AnyArray) -> AnyArray:
        return where(operator == PLUS, x + y, where(operator == MINUS, x - y, x * y))

    product_last = (second == TIMES) & (first != TIMES)
    return where(product_last, operate(a, first, b * c), operate(operate(a, first, b), second, c))


def countdown() -> Kind:
    """Make a target of 0 to 99 from three digits, each used once, with + - and *.

    "C473:19=" is solved by "4*3+7". A product binds first. Every problem has a solution, and any
    counts. Easy are those that were made without a product.
    """
    table = _countdown_table()

    def draw(key: Array) -> tuple[Array, Array]:
        key_row, key_order = jax.random.split(key)
        row = jnp.asarray(table)[jax.random.randint(key_row, (), 0, len(table))]
        a, first, b, second, c, target = row
        numbers = jax.random.permutation(key_order, jnp.stack([a, b, c]))
        two = target >= 10
        tens_units = jnp.stack([target // 10, target % 10])
        shown = jnp.where(two, tens_units, tens_units[::-1])
        tokens = jnp.concatenate(
            [jnp.array([COUNTDOWN]), ZERO + numbers, jnp.array([COLON]), ZERO + shown]
        )
        tokens = jnp.append(tokens, EQUALS)
        tokens = jnp.where(two, tokens, tokens.at[6].set(EQUALS))
        answer = jnp.stack([ZERO + a, first, ZERO + b, second, ZERO + c])
        return _left_padded(tokens, 7 + two), _ended(answer, jnp.array(5))

    def correct(prompt: Array, answer: Array, response: Array) -> Array:
        # Left padding moves a prompt with a one-digit target by one.
        short = prompt[0] == PAD
        tokens = jnp.where(short, jnp.roll(prompt, -1), prompt)
        numbers = tokens[1:4] - ZERO
        tens, units = tokens[5] - ZERO, tokens[6] - ZERO
        target = jnp.where(short, tens, 10 * tens + units)
        used, operators = response[:5:2] - ZERO, response[1:4:2]
        well_formed = (
            jnp.all((used >= 1) & (used <= 9))
            & jnp.all((operators == PLUS) | (operators == MINUS) | (operators == TIMES))
            & (response[5] == END)
        )
        value = _value(used[0], operators[0], used[1], operators[1], used[2], jnp.where)
        return well_formed & jnp.all(jnp.sort(used) == jnp.sort(numbers)) & (value == target)

    def easy(prompt: Array, answer: Array) -> Array:
        return jnp.all(answer != TIMES)

    return Kind(draw, correct, easy, 8, 6)


KINDS: dict[str, Callable[[], Kind]] = {
    "sum": lambda: of_digits(PLUS),
    "difference": lambda: of_digits(MINUS),
    "product": lambda: of_digits(TIMES),
    "addition1": lambda: addition(1),
    "addition2": lambda: addition(2),
    "addition3": lambda: addition(3),
    "sorting": lambda: Kind(_list_of_digits(SORT, _sorted), _equals_answer, _is_short, 8, 7),
    "reversal": lambda: Kind(_list_of_digits(REVERSE, _reversed), _equals_answer, _is_short, 8, 7),
    "countdown": countdown,
}


class Mixture(NamedTuple):
    """Several kinds of problem, equally likely.

    draw(key) -> Problem, of prompt_length and response_length tokens. correct(problem, response of
    so many tokens) -> bool scalar. easy(problem) -> bool scalar.
    """

    kinds: tuple[str, ...]
    draw: Callable[[Array], Problem]
    correct: Callable[[Problem, Array], Array]
    easy: Callable[[Problem], Array]
    prompt_length: int
    response_length: int


def mixture(names: Sequence[str]) -> Mixture:
    """Return the mixture of kinds that are named."""
    kinds = [KINDS[name]() for name in names]
    prompt_length = max(kind.prompt_length for kind in kinds)
    response_length = max(kind.response_length for kind in kinds)

    def draw(key: Array) -> Problem:
        key_kind, key_problem = jax.random.split(key)
        kind = jax.random.randint(key_kind, (), 0, len(kinds))
        # All kinds are drawn and one is taken: under vmap a switch would do the same.
        drawn = [one.draw(key_problem) for one in kinds]
        prompts, answers = (jnp.stack(part).astype(jnp.int32) for part in zip(*drawn, strict=True))
        return Problem(prompts[kind, -prompt_length:], answers[kind, :response_length], kind)

    def whole(problem: Problem) -> tuple[Array, Array]:
        """Return the prompt and the answer as their kind has them."""
        left = jnp.full(PROMPT_LENGTH - prompt_length, PAD, jnp.int32)
        return jnp.concatenate([left, problem.prompt]), _padded(problem.answer)

    def correct(problem: Problem, response: Array) -> Array:
        asked, response = whole(problem), _padded(response)
        found = [one.correct(*asked, response) for one in kinds]
        return jnp.stack(found)[problem.kind]

    def easy(problem: Problem) -> Array:
        asked = whole(problem)
        found = [one.easy(*asked) for one in kinds]
        return jnp.stack(found)[problem.kind]

    return Mixture(tuple(names), draw, correct, easy, prompt_length, response_length)
