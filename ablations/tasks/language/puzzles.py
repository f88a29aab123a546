"""Problems in tokens with an exact checker: arithmetic, sorting, reversal, Countdown.

`Kind.draw` makes a prompt and one right answer from a random key; `Kind.correct` returns whether a
response solves the problem. Functions take one problem, without a batch dimension, and work under
jit and vmap.

A prompt of a kind has `PROMPT_LENGTH` tokens, padded on the left. An answer has `RESPONSE_LENGTH`
tokens, padded on the right after END. In a mixture they are as long as its longest.
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
SHORTEST, LONGEST = 3, 6  # lengths of the lists of digits to sort or reverse
SHORT = 4  # lists up to this length are easy
HIGHEST_TARGET = 99


class Problem(NamedTuple):
    """One problem, int32.

    prompt: [S].
    answer: a right response, [L].
    kind: the index of its kind in the mixture, a scalar.
    """

    prompt: Array
    answer: Array
    kind: Array


class Kind(NamedTuple):
    """A kind of problem.

    draw: key -> prompt, answer.
    correct: prompt, answer, response -> bool scalar.
    easy: prompt, answer -> bool scalar, whether a warm start may train on it.
    prompt_length, response_length: tokens of the longest prompt and answer, with END.
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
    """Return bool [..., L]: the tokens up to the first END, which is included."""
    ended = jnp.cumsum(response == END, axis=-1) - (response == END)
    return ended == 0


# Placing tokens


def _left_padded(tokens: Array, count: Array) -> Array:
    """Move the first `count` of tokens [PROMPT_LENGTH] to the right end."""
    source = jnp.arange(PROMPT_LENGTH) - (PROMPT_LENGTH - count)
    return jnp.where(source >= 0, tokens[jnp.maximum(source, 0)], PAD)


def _ended(tokens: Array, count: Array) -> Array:
    """Return the first `count` of tokens [n] as an answer: END after them, then padding."""
    position = jnp.arange(RESPONSE_LENGTH)
    padded = jnp.zeros(RESPONSE_LENGTH, jnp.int32).at[: tokens.shape[0]].set(tokens)
    return jnp.where(position < count, padded, jnp.where(position == count, END, PAD))


def _padded(response: Array) -> Array:
    return jnp.pad(response, (0, RESPONSE_LENGTH - response.shape[0]), constant_values=PAD)


def _equals_answer(prompt: Array, answer: Array, response: Array) -> Array:
    """Return whether the response is the answer up to END; later tokens do not count."""
    wanted = valid_tokens(answer)
    return jnp.all(jnp.where(wanted, response == answer, True))


# Kinds


def of_digits(symbol: int) -> Kind:
    """Return the kind a + b, a - b or a * b of two one-digit numbers.

    An answer with two digits is written from the last digit to the first, as by hand. Problems with
    an answer of one digit are easy.
    """
    operate = {PLUS: jnp.add, MINUS: jnp.subtract, TIMES: jnp.multiply}[symbol]

    def draw(key: Array) -> tuple[Array, Array]:
        a, b = jax.random.randint(key, (2,), 0, 10)
        shown = jnp.stack([ZERO + a, jnp.asarray(symbol), ZERO + b, jnp.asarray(EQUALS)])
        prompt = jnp.concatenate([jnp.full(PROMPT_LENGTH - 4, PAD), shown])
        value = operate(a, b)
        negative = value < 0
        first = jnp.where(negative, MINUS, ZERO + jnp.abs(value) % 10)
        second = ZERO + jnp.where(negative, -value, value // 10)
        count = jnp.where((value < 10) & ~negative, 1, 2)
        return prompt, _ended(jnp.stack([first, second]), count)

    def easy(prompt: Array, answer: Array) -> Array:
        return answer[1] == END

    return Kind(draw, _equals_answer, easy, 4, 3)


def addition(digits: int) -> Kind:
    """Return the kind a + b of two numbers with exactly `digits` digits each, 1 to 3.

    The answer is written from the last digit to the first, as it is computed by hand. Sums without
    a carry are easy.
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

    answer_of: digits [LONGEST], count -> tokens of the answer to the first `count` digits.
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
    """Compute a op b op c, products first. where: the function of NumPy or of JAX."""

    def operate(x: AnyArray, operator: AnyArray, y: AnyArray) -> AnyArray:
        return where(operator == PLUS, x + y, where(operator == MINUS, x - y, x * y))

    product_last = (second == TIMES) & (first != TIMES)
    return where(product_last, operate(a, first, b * c), operate(operate(a, first, b), second, c))


def countdown() -> Kind:
    """Make a target of 0 to 99 from three digits, each used once, with + - and *.

    "C473:19=" is solved by "4*3+7". Products are computed first. Every problem has a solution, and
    all solutions count. Problems whose stored answer has no product are easy.
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

    draw: key -> Problem, with prompt_length and response_length tokens.
    correct: problem, response [response_length] -> bool scalar.
    easy: problem -> bool scalar.
    """

    kinds: tuple[str, ...]
    draw: Callable[[Array], Problem]
    correct: Callable[[Problem, Array], Array]
    easy: Callable[[Problem], Array]
    prompt_length: int
    response_length: int


def mixture(names: Sequence[str]) -> Mixture:
    """Return the mixture of the named kinds."""
    kinds = [KINDS[name]() for name in names]
    prompt_length = max(kind.prompt_length for kind in kinds)
    response_length = max(kind.response_length for kind in kinds)

    def draw(key: Array) -> Problem:
        key_kind, key_problem = jax.random.split(key)
        index = jax.random.randint(key_kind, (), 0, len(kinds))
        # Draw all kinds and take one: under vmap a switch would do the same.
        drawn = [kind.draw(key_problem) for kind in kinds]
        prompts, answers = (jnp.stack(part).astype(jnp.int32) for part in zip(*drawn, strict=True))
        return Problem(prompts[index, -prompt_length:], answers[index, :response_length], index)

    def padded(problem: Problem) -> tuple[Array, Array]:
        """Return the prompt and the answer with the lengths of a kind."""
        left = jnp.full(PROMPT_LENGTH - prompt_length, PAD, jnp.int32)
        return jnp.concatenate([left, problem.prompt]), _padded(problem.answer)

    def correct(problem: Problem, response: Array) -> Array:
        prompt, answer = padded(problem)
        solved = [kind.correct(prompt, answer, _padded(response)) for kind in kinds]
        return jnp.stack(solved)[problem.kind]

    def easy(problem: Problem) -> Array:
        prompt, answer = padded(problem)
        return jnp.stack([kind.easy(prompt, answer) for kind in kinds])[problem.kind]

    return Mixture(tuple(names), draw, correct, easy, prompt_length, response_length)
