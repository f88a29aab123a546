"""A model of a folder on word problems of a file: the whole road, with a tiny checkpoint."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from qwen2 import write_checkpoint

from ablations import cli
from ablations.errors import UserError
from ablations.tasks import task
from ablations.trainers.language.settings import STRUCTURE, compose

ROOM = {"prompt_length": 40, "response_length": 12}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    write_checkpoint(folder / "tiny", shards=2)
    lines = [
        {"question": f"what is {a}+{b}?", "answer": f"{a}+{b}\n#### {sign}{a + b}"}
        for a, b, sign in ((1, 2, ""), (40, 2, ""), (3, 4, "-"), (1000, 200, ""))
    ]
    records = folder / "records.jsonl"
    records.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return {"model": str(folder / "tiny"), "records": str(records), "test_records": ""} | ROOM


@pytest.fixture(scope="module")
def language(settings):
    structure = {name: one.default for name, one in STRUCTURE.items()} | {"prompts": 3}
    return compose(
        task=task("word_problems"), settings=settings, structure=structure, updates_per_chunk=1
    )


def test_prompts_are_the_questions(language, settings):
    from ablations.trainers.language.pretrained import read_config, read_tokens

    problems = task("word_problems").make(settings)
    tokens = read_tokens(problems.model, read_config(problems.model))
    batch = language.problems.train(jax.random.key(0), jax.random.key(1), 3)
    texts = {tokens.decode(prompt) for prompt in np.asarray(batch.prompt)}
    # The tiny tokenizer knows no capital letters but Q and A.
    assert texts == {f"Question: what is {q}?\nAnswer:" for q in ("1+2", "40+2", "3+4")}
    held = language.problems.held_out(jax.random.key(0), 2)
    assert "1000+200" in tokens.decode(np.asarray(held.prompt)[0])


def test_answers_are_checked_up_to_the_end_token(language, settings):
    from ablations.trainers.language.pretrained import read_config, read_tokens

    problems = task("word_problems").make(settings)
    tokens = read_tokens(problems.model, read_config(problems.model))
    batch = language.problems.train(jax.random.key(3), jax.random.key(1), 3)
    answers = {"1+2": "3", "40+2": "42", "3+4": "-7"}
    asked = [tokens.decode(prompt).split("is ")[1].split("?")[0] for prompt in batch.prompt]
    rows = []
    for question in asked:
        right = answers[question]
        texts = (f"{right}.0.", f"1 #### {right}", f"{right} or 5", right)
        ids = [tokens.encode(text) for text in texts]
        ids[3] += [tokens.end, *tokens.encode("9")]
        rows.append([row + [tokens.pad] * (12 - len(row)) for row in ids])
    got = jax.jit(language.problems.correct)(batch, jnp.asarray(rows))
    np.testing.assert_array_equal(got, [[True, True, False, True]] * 3)


def test_the_study_runs_on_a_model(settings, tmp_path, capsys):
    chosen = [f"{name}={value}" for name, value in settings.items() if value != ""]
    arguments = (
        "run prompt_normalization --profile smoke --tasks word_problems --seeds 1 --steps 8 "
        "--variants grpo reinforce_pp --set prompts=2 points=2 evaluations=1 evaluation_envs=2"
    )
    code = cli.main([*arguments.split(), *chosen, "--results", str(tmp_path)])
    assert code == 0, capsys.readouterr().err
    cells = list((tmp_path / "cells").iterdir())
    assert len(cells) == 2
    for cell in cells:
        curve = pd.read_parquet(cell / "curve.parquet")
        assert curve["training/accuracy"].between(0, 1).all()
        assert np.all(np.isfinite(curve["loss/policy"]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": ""}, "task 'word_problems' needs model: set model=the folder of a model"),
        ({"records": ""}, "needs records: set records=a JSON-lines file"),
        ({"response_length": 1}, "response_length=1 is too small: at least 2"),
        ({"model": "/nowhere"}, "model=/nowhere is not the folder of a model: no config.json"),
        ({"records": "/nowhere"}, "/nowhere does not exist: it must hold one JSON object a line"),
    ],
)
def test_bad_settings_are_named_when_planning(settings, change, message):
    (complaint,) = task("word_problems").check(settings | change)
    assert message in complaint


def test_prompts_that_are_too_long_are_refused(settings):
    structure = {name: one.default for name, one in STRUCTURE.items()}
    with pytest.raises(UserError, match=r"the longest prompt has \d+ tokens: set prompt_length="):
        compose(
            task=task("word_problems"),
            settings=settings | {"prompt_length": 5},
            structure=structure,
            updates_per_chunk=1,
        )
