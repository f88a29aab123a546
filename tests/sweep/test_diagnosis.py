"""`ablations diagnose` as a user meets it."""

from __future__ import annotations

import json
import signal
import time

import pytest

from ablations.sweep.claims import read_heartbeat

# The smallest programs, and two workers' worth of seeds
SMALL = ["--profile", "smoke", "--seeds", "2", "--steps", "512"]
SETS = ["--set", "num_envs=8", "unroll_length=8", "policy_layers=[4]", "value_layers=[4]"]
NUMBERS = ["discount=0.5", "gae_lambda=0.5"]


def test_measures_once_and_says_it_again(shell) -> None:
    asked = ["diagnose", "gae", *SMALL, *SETS, *NUMBERS, "--workers", "1", "--format", "json"]
    first = shell(*asked, plugin=False)
    announced = first.stderr.splitlines()[0]
    assert announced.startswith("diagnosis of gae: 2 cells on 1 task (fast): 0 done, 2 to run")
    assert "1 program to compile; 1 worker of 1 lane" in announced
    assert "2/2 cells" in first.stderr
    table = json.loads(first.stdout)
    choices = {row["choice"] for row in table["rows"]}
    assert {"standard", "brax", "done_cut", "masked_truncation", "timeout_bonus"} <= choices
    assert len({row["step"] for row in table["rows"]}) == 3
    for row in table["rows"]:
        assert row["n"] == 2
        assert row["sd"] > 0
        assert row["rmse"] >= row["sd"]
        assert row["bias_low"] < row["bias"] < row["bias_high"]
        if row["choice"] == "standard":
            assert row["variance_ratio"] == row["rmse_ratio"] == 1
    kept = {path: path.stat().st_mtime_ns for path in shell.results.glob("diagnoses/cells/*/*")}
    assert len(kept) == 4
    again = shell(*asked, plugin=False)
    assert again.stderr == "diagnosis of gae: all 2 cells are done; nothing to run\n"
    assert again.stdout == first.stdout
    assert {p: p.stat().st_mtime_ns for p in shell.results.glob("diagnoses/cells/*/*")} == kept
    assert not list(shell.results.glob("diagnoses/work/orders/*"))


def test_it_goes_on_where_it_was_stopped_with_the_same_numbers(shells) -> None:
    stopped, undisturbed = shells(), shells()
    long = ["--steps", "800", "--set", "points=40"]
    asked = ["diagnose", "toy_measured", "--seeds", "2", "--workers", "1", *long]
    process = stopped.start(*asked)
    kept = stopped.results / "diagnoses"
    deadline = time.monotonic() + 1500
    while not any(
        (beat := read_heartbeat(kept, path.parent.name)) and beat.step
        for path in kept.glob("work/*/heartbeat.json")
    ):
        assert time.monotonic() < deadline, "nothing trains"
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=1500)
    stopped.hurry()
    undisturbed.hurry()
    assert process.returncode == 130
    assert list(kept.glob("work/*/checkpoints/0*"))
    again = stopped(*asked)
    assert "go on at step" in again.stderr
    assert again.stdout == undisturbed(*asked).stdout
    assert not list(kept.glob("work/*/checkpoints"))
    assert not list(stopped.results.glob("cells/*")), "they are no cells of the study"


def test_a_trainer_without_a_diagnosis_is_named(shell) -> None:
    said = shell("diagnose", "toy", code=2).stderr
    assert said.startswith("ablations: trainer 'toy' of study 'toy' has no diagnosis")
    assert len(said.splitlines()) == 1


def test_rewards_of_a_moving_scale_are_refused(shell) -> None:
    said = shell(
        "diagnose", "gae", *SMALL, "--set", "reward_scaling=running_return_std", code=2
    ).stderr
    assert "reward_scaling=constant" in said.splitlines()[-1]
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nothing"], "study"),
        (["gae", "--tasks", "nowhere"], "task"),
        (["gae", "--workers", "0"], "at least 1"),
        (["gae", "--format", "png"], "unknown --format: 'png'"),
    ],
)
def test_bad_input_is_one_line(shell, arguments: list[str], complaint: str) -> None:
    said = shell("diagnose", *arguments, code=2).stderr
    assert complaint in said
    assert len(said.splitlines()) == 1
