"""`ablations check`, as typed, on the toy trainer and on worse toys."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
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


def test_a_check_names_the_step_at_which_bits_first_differ(shell: Shell) -> None:
    shell.toy(", jnp.nan, x)", ", jnp.nan, jnp.where(state.updates < 9, x, x + 0.001))")
    said = shell("check", "up", "--effect", "2")
    assert "toy/line/up passes, equivalent" in said
    # By step 100 at the latest; another program may round differently before.
    (step,) = re.findall(r"bits differ from step (\d+) on \(seed 0\); versions and device", said)
    assert int(step) in range(20, 101, 20)


def test_given_records_are_taken_as_they_are(shell: Shell) -> None:
    assert "identical bit for bit on 20 seeds" in shell("check", "up", "--records", "results")
    assert not (shell.folder / "results/checks/up/records").exists()
    shell("run", "toy", "--variants", "down", "--seeds", "6", "--quiet")
    assert "has toy/line/up, but the last plan" in shell(
        "check", "up", "--records", "results", code=2
    )


def test_a_run_that_becomes_nan_is_a_regression(shell: Shell) -> None:
    shell.toy("jnp.where(state.updates + 1 == c", "jnp.where(state.updates + 1 == 7 + 0 * c")
    assert "4 diverged" in shell("check", "up", code=1)


def test_an_update_needs_a_reason_and_keeps_it(shell: Shell) -> None:
    assert "give a reason for the update" in shell("check", "up", "--save", "toy", code=2)
    shell("check", "up", "--save", "toy", "--reason", "the line is  longer")
    reasons = [one["reason"] for one in described(shell)["history"]]
    assert reasons == ["first version", "the line is longer"]


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


SCRIPT = """\
import sys; from ablations.errors import EXTRAS; from ablations.cli import main
sys.modules.update({name: None for names in EXTRAS.values() for name in names})
sys.exit(main(sys.argv[1:]))
"""


def test_the_base_install_has_tables_and_checks_and_says_what_else_needs(saved: Shell) -> None:
    """In place of an environment without the extras: none of their modules can be imported."""

    def light(*words: str, code: int = 0) -> str:
        command = [sys.executable, "-c", SCRIPT, *words]
        done = subprocess.run(
            command, cwd=saved.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.stderr.count("\n") <= 1
        return done.stdout + done.stderr

    assert "line" in light("table", "toy")
    said = light("check", "up", "--records", "results")
    assert "identical bit for bit on 20 seeds" in said
    assert "figure: " in said
    light("figure", "toy")
    light("report")
    assert "pip install 'rl-ablations[train]'" in light("run", "gae", code=2)
