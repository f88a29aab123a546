"""`ablations check`, as typed, on the toy trainer and on worse toys."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import forked
import pandas
import pytest

TOY = Path(__file__).parents[1] / "engine" / "toy.py"


class Shell:
    """`ablations` in a folder of its own, with a toy that can be edited between two commands."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.toy()

    def toy(self, old: str = "", new: str = "") -> None:
        text = TOY.read_text()
        assert old in text
        (self.folder / "toy.py").write_text(text.replace(old, new))

    def __call__(self, *arguments: str, code: int = 0) -> str:
        environment = dict(os.environ) | {"TOY_DEATHS": "nowhere"}
        done = forked.run(["ablations", *arguments, "--plugin", "toy"], self.folder, environment)
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        if code == 2:
            assert done.stderr.startswith("ablations: ")
            assert done.stderr.count("\n") == 1
            return done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    shell = Shell(tmp_path_factory.mktemp("check"))
    shell("run", "toy", "--variants", "up", "--seeds", "20", "--quiet")
    said = shell("check", "up", "--save", "toy")
    assert "1 curves of 20 seeds: first version" in said
    return shell


@pytest.fixture
def shell(saved: Shell, tmp_path: Path) -> Shell:
    """One of one's own, with the baseline and the records."""
    shutil.copytree(saved.folder / "results", tmp_path / "results")
    return Shell(tmp_path)


def described(shell: Shell) -> dict:
    return json.loads((shell.folder / "results/baselines/up/baseline.json").read_text())


def test_a_baseline_is_small_and_says_where_it_is_from(saved: Shell) -> None:
    files = sorted(path.name for path in (saved.folder / "results/baselines/up").iterdir())
    assert files == ["baseline.csv", "baseline.json"]
    one = described(saved)
    assert one["provenance"]["versions"]["jax"]
    assert "host" not in one["provenance"]
    assert one["curves"]["toy/line/up"]["seeds"] == 20
    frame = pandas.read_csv(saved.folder / "results/baselines/up/baseline.csv")
    assert (list(frame.columns), len(frame)) == (["curves", "seed", "step", "value"], 200)


def test_the_same_code_gives_the_same_bits(shell: Shell) -> None:
    said = shell("check", "up")
    assert "4 seeds" in said.splitlines()[0]
    assert "toy/line/up: identical bit for bit on 4 seeds" in said
    assert (shell.folder / "results/checks/up/up_curves.png").stat().st_size > 10_000
    # The records of today's code are not those that were there.
    assert len(list((shell.folder / "results/checks/up/records/cells").iterdir())) == 4


def test_worse_code_is_named_and_ends_with_code_1(shell: Shell) -> None:
    shell.toy("state.x + direction", "state.x - direction")
    said = shell("check", "up", "--format", "markdown", code=1)
    assert said.startswith("### up: 1 of 1 got worse")
    assert "toy/line/up got worse: " in said
    assert "| worse" in said
    assert "bits differ from step 20 on (seed 0); versions and device are the same" in said


def test_given_records_are_taken_as_they_are(shell: Shell) -> None:
    assert "identical bit for bit on 20 seeds" in shell("check", "up", "--records", "results")
    assert not (shell.folder / "results/checks/up/records").exists()
    shell("run", "toy", "--variants", "down", "--seeds", "6", "--quiet")
    assert "has toy/line/up, but the last plan" in shell(
        "check", "up", "--records", "results", code=2
    )


def test_other_settings_are_not_compared(shell: Shell) -> None:
    shell.toy("steps=200, points=10", "steps=400, points=10")
    assert "run.updates_per_chunk is 4, but 2 in" in shell("check", "up", code=2)


BAD = {
    "check down": "no baseline 'down' in 'results/baselines/down'; existing baselines: up",
    "check up down --save toy": "--save takes one BASELINE",
    "check up --reason x": "--reason goes with --save",
    "check up --alpha 0": "--alpha must be between 0 and 0.5",
    "check up --effect -1": "--effect must be above 0",
    "check up --seeds 2": "too few seeds: 2 seeds against 20 of the baseline",
    "check ../up --save toy": "letters, digits",
}


def test_bad_input(shell: Shell) -> None:
    for words, says in BAD.items():
        assert says in shell(*words.split(), code=2), words
    path, text = shell.folder / "results/baselines/up/baseline.json", described(shell)
    path.write_text(json.dumps(text | {"format": 3}))
    newer = shell("check", "up", code=2)
    assert "has format 3, but this version reads format 2: upgrade" in newer
    path.write_text(json.dumps(text | {"sha256": "0"}))
    assert "'baseline.csv' does not match the checksum" in shell("check", "up", code=2)
    shell("run", "toy", "--variants", "up", "--seeds", "3", "--quiet")
    few = shell("check", "few", "--save", "toy", code=2)
    assert "a baseline of 3 seeds is too small" in few
