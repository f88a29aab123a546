"""Problems in tokens with one right answer: arithmetic, and lists of digits to write backwards.

`Problems` draws them and checks responses; `reward` pays for them.

`Kind.draw` makes a prompt and its right answer from a random key. Functions take one problem,
without a batch dimension, and work under jit and vmap.

A prompt of a kind has `PROMPT_LENGTH` tokens, padded on the left. An answer has `RESPONSE_LENGTH`
tokens, padded on the right after END. Of several kinds they are as long as the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array

PROMPT_LENGTH = 8
RESPONSE_LENGTH = 8
# The last symbols but R are not used. Without them, runs would differ from the published ones.
VOCABULARY = ("", "END", *"0123456789+-*=:SRC")
PAD, END = 0, 1
ZERO = VOCABULARY.index("0")
PLUS, MINUS, TIMES, EQUALS, REVERSE = map(VOCABULARY.index, "+-*=R")
SHORTEST, LONGEST = 3, 6  # lengths of the lists of digits to reverse
SHORT = 4  # lists up to this length are easy


class Problem(NamedTuple):
    """One problem, int32.

    prompt: [S].
    answer: a right response, [L].
    kind: the index of its kind in `Problems.kinds`, a scalar.
    """

    prompt: Array
    answer: Array
    kind: Array


class Kind(NamedTuple):
    """A kind of problem.

    draw: key -> prompt, answer.
    easy: prompt, answer -> bool scalar, whether a warm start may train on it.
    prompt_length, response_length: tokens of the longest prompt and answer, with END.
    """

    draw: Callable[[Array], tuple[Array, Array]]
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

    return Kind(draw, easy, 4, 3)


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

    return Kind(draw, easy, 2 * digits + 2, digits + 2)


def reversal() -> Kind:
    """Return the kind of writing `SHORTEST` to `LONGEST` digits backwards. Short lists are easy."""

    def draw(key: Array) -> tuple[Array, Array]:
        key_count, key_digits = jax.random.split(key)
        count = jax.random.randint(key_count, (), SHORTEST, LONGEST + 1)
        digits = ZERO + jax.random.randint(key_digits, (LONGEST,), 0, 10)
        tokens = jnp.concatenate([jnp.array([REVERSE]), digits, jnp.array([EQUALS])])
        tokens = tokens.at[count + 1].set(EQUALS)
        answer = digits[(count - 1 - jnp.arange(LONGEST)) % LONGEST]
        return _left_padded(tokens, count + 2), _ended(answer, count)

    def easy(prompt: Array, answer: Array) -> Array:
        return jnp.sum(answer != PAD) - 1 <= SHORT

    return Kind(draw, easy, 8, 7)


KINDS: dict[str, Callable[[], Kind]] = {
    "sum": lambda: of_digits(PLUS),
    "difference": lambda: of_digits(MINUS),
    "product": lambda: of_digits(TIMES),
    "addition1": lambda: addition(1),
    "addition2": lambda: addition(2),
    "addition3": lambda: addition(3),
    "reversal": reversal,
}


# The environment

TRAIN_SET = 0x5E7  # folded into the seed's key for a fixed training set


@dataclass(frozen=True)
class Problems:
    """Draws problems of several kinds, equally likely, and checks responses.

    train_prompts: the number of prompts in the training set; 0: all prompts are new.
    """

    kinds: tuple[str, ...]
    train_prompts: int = 0

    @cached_property
    def _kinds(self) -> list[Kind]:
        return [KINDS[name]() for name in self.kinds]

    @property
    def prompt_length(self) -> int:
        """Tokens of the longest prompt."""
        return max(kind.prompt_length for kind in self._kinds)

    @property
    def response_length(self) -> int:
        """Tokens of the longest answer, with END."""
        return max(kind.response_length for kind in self._kinds)

    def draw(self, key: Array) -> Problem:
        """Draw one problem, with prompt_length and response_length tokens."""
        key_kind, key_problem = jax.random.split(key)
        index = jax.random.randint(key_kind, (), 0, len(self.kinds))
        # Draw all kinds and take one: under vmap a switch would do the same.
        drawn = [kind.draw(key_problem) for kind in self._kinds]
        prompts, answers = (jnp.stack(part).astype(jnp.int32) for part in zip(*drawn, strict=True))
        return Problem(
            prompts[index, -self.prompt_length :], answers[index, : self.response_length], index
        )

    def easy(self, problem: Problem) -> Array:
        """Return whether a warm start may train on a problem, a bool scalar."""
        left = jnp.full(PROMPT_LENGTH - self.prompt_length, PAD, jnp.int32)
        right = jnp.full(RESPONSE_LENGTH - self.response_length, PAD, jnp.int32)
        prompt = jnp.concatenate([left, problem.prompt])
        answer = jnp.concatenate([problem.answer, right])
        return jnp.stack([kind.easy(prompt, answer) for kind in self._kinds])[problem.kind]

    def train(self, key: jax.Array, set_key: jax.Array, count: int) -> Problem:
        """Draw a batch of training problems, leaves [count, ...].

        With a training set, a problem repeats only after all others were drawn.

        key: changes with every batch.
        set_key: the key of the run, which decides its training set.
        """
        if not self.train_prompts:
            return self.held_out(key, count)
        order = jnp.resize(jax.random.permutation(key, self.train_prompts), (count,))
        known = self.train_set(set_key)
        return type(known)(*(leaf[order] for leaf in known))

    def train_set(self, set_key: jax.Array) -> Problem:
        """Draw all problems of the training set, leaves [train_prompts, ...]."""
        return self.held_out(jax.random.fold_in(set_key, TRAIN_SET), self.train_prompts)

    def held_out(self, key: jax.Array, count: int) -> Problem:
        """Draw new problems, leaves [count, ...]."""
        return jax.vmap(self.draw)(jax.random.split(key, count))

    def is_new(self, problems: Problem, set_key: jax.Array) -> jax.Array:
        """Return float32 [P]: 0 for problems in the training set, 1 for the others."""
        if not self.train_prompts:
            return jnp.ones(problems.prompt.shape[0])
        known = self.train_set(set_key).prompt
        same = jnp.all(problems.prompt[:, None] == known[None], axis=-1)
        return 1.0 - jnp.any(same, axis=-1).astype(jnp.float32)

    def correct(self, problems: Problem, responses: jax.Array) -> jax.Array:
        """Return bool [P, K]: which of the responses [P, K, L] are the answer of problems [P].

        Tokens after the first END do not count.
        """
        answer = problems.answer[:, None]
        return jnp.all((responses == answer) | ~valid_tokens(answer), axis=-1)


def reward(
    correct: jax.Array, kind: jax.Array, pay: Mapping[str, jax.Array], key: jax.Array | None
) -> jax.Array:
    """Return the rewards of completions, float32 [P, K].

    A completion gets `reward_right` or `reward_wrong`, times the scale of its problem's kind, plus
    normal noise with standard deviation `reward_noise`. There is no noise without a key.

    correct: bool [P, K].
    kind: the problems' kinds, int32 [P].
    pay: the settings; `reward_scales` is [kinds].
    """
    paid = jnp.where(correct, pay["reward_right"], pay["reward_wrong"])
    paid = paid * pay["reward_scales"][kind][:, None]
    if key is None:
        return paid
    return paid + pay["reward_noise"] * jax.random.normal(key, paid.shape)
