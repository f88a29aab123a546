"""Language tasks: what is drawn and how it is judged, against plain Python on the decoded text."""

from __future__ import annotations

import ast
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ablations.tasks import task
from ablations.tasks.language import problems as language
from ablations.tasks.language import puzzles
from ablations.tasks.language.puzzles import (
    END,
    PAD,
    RESPONSE_LENGTH,
    VOCABULARY,
    Problems,
    decode,
    reward,
)

COUNT = 300


def encode(text: str) -> list[int]:
    """The tokens of a text such as "12+3="."""
    return [VOCABULARY.index(symbol) for symbol in text]


@cache
def drawn(kind: str) -> tuple[puzzles.Problem, list[tuple[str, str]]]:
    """Many problems of a kind, as arrays and as (prompt, answer) in text."""
    keys = jax.random.split(jax.random.key(0), COUNT)
    problems = jax.device_get(jax.jit(jax.vmap(Problems((kind,)).draw))(keys))
    texts = list(zip(map(decode, problems.prompt), map(decode, problems.answer), strict=True))
    return problems, texts


def judged(kind: str, problems: puzzles.Problem, responses: list[list[int]]) -> list[bool]:
    correct = Problems((kind,)).correct(problems, jnp.asarray(responses, jnp.int32)[:, None])
    return correct[:, 0].tolist()


def padded(text: str, length: int, end: bool = True) -> list[int]:
    tokens = (encode(text) + [END] * end)[:length]
    return tokens + [PAD] * (length - len(tokens))


def solved(kind: str, prompt: str, response: str) -> bool:
    """The oracle: reads the prompt as a person would."""
    assert prompt[-1] == "="
    if kind in ("sum", "difference", "product"):
        value = eval(compile(ast.parse(prompt[:-1], mode="eval"), "", "eval"))
        return response == (f"-{-value}" if value < 0 else str(value)[::-1])
    if kind.startswith("addition"):
        a, b = prompt[:-1].split("+")
        assert {len(a), len(b)} == {int(kind[-1])}
        return response == str(int(a) + int(b))[::-1]
    return prompt[0] == "R" and response == prompt[1:-1][::-1]


def test_tokens_and_text_are_the_same() -> None:
    assert decode(encode("12+3=")) == "12+3="
    assert decode(padded("40", RESPONSE_LENGTH)) == "40"
    assert len(set(puzzles.VOCABULARY)) == len(puzzles.VOCABULARY)
    assert set(language.KINDS) == set(puzzles.KINDS)


@pytest.mark.parametrize("kind", language.KINDS)
def test_prompts_are_padded_left_and_answers_right(kind: str) -> None:
    problems, texts = drawn(kind)
    for (prompt, answer), tokens, end in zip(texts, problems.prompt, problems.answer, strict=True):
        assert tokens.tolist() == [PAD] * (len(tokens) - len(prompt)) + encode(prompt)
        assert end.tolist() == padded(answer, len(end))
    assert len({prompt for prompt, _ in texts}) > COUNT / 5
    # No longer than the longest needs.
    assert (problems.prompt[:, 0] != PAD).any()
    assert max(len(answer) for _, answer in texts) == problems.answer.shape[1] - 1


@pytest.mark.parametrize("kind", language.KINDS)
def test_the_answer_is_right_and_so_judged(kind: str) -> None:
    problems, texts = drawn(kind)
    assert all(solved(kind, *text) for text in texts)
    assert all(judged(kind, problems, problems.answer.tolist()))


@pytest.mark.parametrize("kind", language.KINDS)
def test_what_comes_after_the_end_does_not_count_and_no_end_is_wrong(kind: str) -> None:
    problems, texts = drawn(kind)
    noise = np.random.default_rng(0).integers(0, len(puzzles.VOCABULARY), problems.answer.shape)
    written = np.asarray(puzzles.valid_tokens(problems.answer))
    assert all(judged(kind, problems, np.where(written, problems.answer, noise).tolist()))
    endless = [padded(answer, problems.answer.shape[1], end=False) for _, answer in texts]
    assert not any(judged(kind, problems, endless))


@pytest.mark.parametrize("kind", language.KINDS)
def test_one_changed_token_is_judged_as_the_oracle_does(kind: str) -> None:
    problems, texts = drawn(kind)
    rng = np.random.default_rng(1)
    changed = problems.answer.copy()
    place = rng.integers(0, [len(answer) + 1 for _, answer in texts])
    changed[np.arange(COUNT), place] = rng.integers(0, len(puzzles.VOCABULARY), COUNT)
    for index, verdict in enumerate(judged(kind, problems, changed.tolist())):
        tokens = changed[index].tolist()
        whole = END in tokens and PAD not in tokens[: tokens.index(END)]
        assert verdict == (whole and solved(kind, texts[index][0], decode(tokens)))


def test_valid_tokens_end_with_the_first_end() -> None:
    response = jnp.array([[2, END, 3, END], [END, 2, 2, 2], [2, 3, 4, 5], [2, 3, 4, END]])
    wanted = [[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]]
    assert puzzles.valid_tokens(response).astype(int).tolist() == wanted


# Tasks


def make(name: str, **sets):
    return task(name).make({**task(name).settings, **sets})


def test_kinds_of_a_mixture_are_equally_likely() -> None:
    kinds = make("arithmetic").held_out(jax.random.key(0), 900).kind
    assert np.bincount(kinds, minlength=3).tolist() == pytest.approx([300] * 3, abs=60)


def paid(name: str, correct: jax.Array, kind: jax.Array, key: jax.Array | None = None) -> jax.Array:
    one = task(name)
    pay = {name: as_array(one.settings[name]) for name, as_array in one.data.items()}
    return reward(correct, kind, pay, key)


def test_rewards_are_what_the_task_says() -> None:
    correct = jnp.array([[True, False], [False, True], [True, True]])
    kind = jnp.array([0, 1, 2])
    assert paid("arithmetic", correct, kind).tolist() == [[1, 0], [0, 1], [1, 1]]
    assert paid("arithmetic_signed", correct, kind).tolist() == [[1, -1], [-1, 1], [1, 1]]
    scaled = paid("arithmetic_scales", correct, kind)
    np.testing.assert_allclose(scaled, [[10, 0], [0, 1], [0.1, 0.1]])
    right = jnp.ones((40, 100), bool)
    noisy = paid("arithmetic_noise", right, jnp.zeros(40, jnp.int32), jax.random.key(0)) - 1
    assert abs(float(jnp.mean(noisy))) < 1e-3
    assert float(jnp.std(noisy)) == pytest.approx(0.01, rel=0.05)


def test_tasks_that_pay_differently_share_their_programs() -> None:
    def program(name: str, **sets: str) -> dict[str, object]:
        one = task(name)
        return one.program({**one.settings, **sets})

    same = ["arithmetic", "arithmetic_scales", "arithmetic_noise", "arithmetic_signed"]
    assert all(program(name) == program("arithmetic") for name in same)
    assert program("arithmetic_few") != program("arithmetic")
    assert program("arithmetic", kinds="sum,sum,sum") != program("arithmetic")
    assert program("addition") != program("arithmetic")


def test_a_small_training_set_is_used_up_before_it_repeats_and_held_out_is_new() -> None:
    few = make("addition_few", train_prompts=8)
    run = jax.random.key(3)
    whole = few.train_set(run).prompt.tolist()
    batch = few.train(jax.random.key(5), run, 16).prompt.tolist()
    assert sorted(batch[:8]) == sorted(batch[8:]) == sorted(whole)
    assert few.train_set(jax.random.key(4)).prompt.tolist() != whole
    held_out = few.held_out(jax.random.key(0), 500)
    new = few.is_new(held_out, run).tolist()
    assert new == [float(prompt not in whole) for prompt in held_out.prompt.tolist()]
    assert 0 < sum(new) < 500
    assert make("addition").is_new(held_out, run).tolist() == [1.0] * 500


@pytest.mark.parametrize(
    ("sets", "complaint"),
    [
        ({"kinds": "addition1,sums"}, "names 'sums', which is not one of sum, "),
        ({"reward_scales": "1,2"}, "reward_scales=1,2 must be one finite number per kind: 3"),
        ({"reward_noise": -1.0}, "reward_noise=-1.0 is negative"),
        ({"reward_wrong": 1.0}, "reward_wrong=1.0 must be less than reward_right=1.0"),
    ],
)
def test_settings_that_make_no_sense_are_named(sets, complaint: str) -> None:
    complaints = task("addition").check({**task("addition").settings, **sets})
    assert any(complaint in one for one in complaints), complaints
