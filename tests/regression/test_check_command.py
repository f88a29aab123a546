"""`ablations check`, as typed, on the toy trainer and on worse toys."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import pandas
import pytest


@pytest.fixture(scope="module")
def saved(shells: Callable[[], Any]) -> Any:
    shell = shells()
    shell("run", "toy", "--variants", "up", "--seeds", "20", "--quiet")
    said = shell("check", "up", "--save", "toy").stdout
    assert "1 curve of 20 seeds\n24 seeds are recommended" in said
    return shell


@pytest.fixture
def shell(shells: Callable[[], Any], saved: Any) -> Any:
    """One of one's own, with the baseline and the records."""
    mine = shells()
    shutil.copytree(saved.results, mine.results)
    mine.environment = saved.environment
    return mine


def edit(shell: Any, old: str, new: str) -> None:
    path = shell.folder / "toy.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def refused(shell: Any, words: str) -> str:
    line = shell(*words.split(), code=2).stderr
    assert line.startswith("ablations: ")
    assert line.count("\n") == 1
    return line


def described(shell: Any) -> dict:
    return json.loads((shell.folder / "results/baselines/up/baseline.json").read_text())


def test_a_baseline_is_small_and_says_where_it_is_from(saved: Any) -> None:
    files = sorted(path.name for path in (saved.folder / "results/baselines/up").iterdir())
    assert files == ["baseline.csv", "baseline.json"]
    one = described(saved)
    assert one["provenance"]["versions"]["jax"]
    assert "host" not in one["provenance"]
    assert one["curves"]["toy/line/up"]["seeds"] == 20
    frame = pandas.read_csv(saved.folder / "results/baselines/up/baseline.csv")
    assert (list(frame.columns), len(frame)) == (["curves", "seed", "step", "value"], 200)


def test_the_same_code_gives_the_same_bits(shell: Any) -> None:
    said = shell("check", "up").stdout
    assert "4 seeds" in said.splitlines()[0]
    assert "toy/line/up: identical bit for bit on 4 seeds" in said
    assert (shell.folder / "results/checks/up/up_curves.png").stat().st_size > 10_000
    # The records of today's code are not those that were there.
    assert len(list((shell.folder / "results/checks/up/records/cells").iterdir())) == 4


def test_worse_code_is_named_and_ends_with_code_1(shell: Any) -> None:
    edit(shell, "state.x + direction", "state.x - direction")
    said = shell("check", "up", "--format", "markdown", code=1).stdout
    assert said.startswith("### up: 1 of 1 got worse")
    assert "toy/line/up got worse: " in said
    assert "| worse" in said
    assert "bits differ from step 20 on (seed 0)" in said


def test_given_records_are_taken_as_they_are(shell: Any) -> None:
    said = shell("check", "up", "--records", "results").stdout
    assert "identical bit for bit on 20 seeds" in said
    assert not (shell.folder / "results/checks/up/records").exists()
    shell("run", "toy", "--variants", "down", "--seeds", "6", "--quiet")
    assert "has toy/line/up, but the last plan" in refused(shell, "check up --records results")


def test_other_settings_are_not_compared(shell: Any) -> None:
    edit(shell, "steps=200, points=10", "steps=400, points=10")
    assert "run.updates_per_chunk is 4, but 2 in" in refused(shell, "check up")


BAD = {
    "check down": "no baseline 'down' in 'results/baselines/down'; existing baselines: up",
    "check up down --save toy": "--save takes one BASELINE",
    "check up --alpha 0": '"0.0" for --alpha. Must be > 0',
    "check up --effect -1": "for --effect. Must be > 0",
    "check up --seeds 2": "too few seeds: 2 seeds against 20 of the baseline",
    "check ../up --save toy": "letters, digits",
}


def test_bad_input(shell: Any) -> None:
    for words, says in BAD.items():
        assert says in refused(shell, words), words
    path, text = shell.folder / "results/baselines/up/baseline.json", described(shell)
    path.write_text(json.dumps(text | {"format": 3}))
    assert "has format 3, but this version reads format 2: upgrade" in refused(shell, "check up")
    path.write_text(json.dumps(text | {"sha256": "0"}))
    assert "'baseline.csv' does not match the checksum" in refused(shell, "check up")
    shell("run", "toy", "--variants", "up", "--seeds", "3", "--quiet")
    assert "a baseline of 3 seeds is too small" in refused(shell, "check few --save toy")
