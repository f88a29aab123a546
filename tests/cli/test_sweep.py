"""`ablations sweep`, and the names that the field has for our settings."""

from __future__ import annotations

import csv
import io

import pytest

import ablations
from ablations import cli
from ablations.commands.running import sweep
from ablations.engine.plan import comparison_request, comparison_study, plan
from ablations.errors import Note, UserError
from ablations.records import Record, write_record
from ablations.request import Request
from ablations.trainers.values import FIELD_NAMES, in_our_names

QUICK = ("--quiet", "--cluster", "debug", "--seeds", "2", "--steps", "100")


def hashes(request: Request) -> dict[tuple[str, int], str]:
    """The cell of each value and seed."""
    return {(one.variant, one.seed): one.hash for one in plan(request).cells}


def test_a_setting_is_compared_without_a_study_file(shell) -> None:
    made = shell("sweep", "rate=0.1,0.2", "--tasks", "line", *QUICK, "--format", "csv").stdout
    rows = [*csv.DictReader(io.StringIO(made.strip().rpartition("\n\n")[2]))]
    assert [row["variant"] for row in rows] == ["rate=0.1", "rate=0.2"]
    again = shell("table", "sweep.rate", "--format", "csv").stdout
    assert again.strip() == made.strip().rpartition("\n\n")[2]
    assert len(shell.curves()) == 4


def test_the_same_from_python(tmp_path) -> None:
    levels, how = {"gae_lambda": [0.95, 0.9]}, {"tasks": "fast", "profile": "smoke", "seeds": 2}
    for cell in plan(comparison_request(levels, how)).cells:
        columns = {"step": [1, 2], "training/return": [0.0, float(cell.seed)]}
        write_record(tmp_path, Record(cell.hash, cell.config, "done"), columns)
    made = sweep(levels, results=tmp_path, quiet=True, **how)
    assert list(made["variant"]) == ["gae_lambda=0.95", "gae_lambda=0.9"]
    assert ablations.table("sweep.gae_lambda", results=tmp_path).equals(made)


def test_the_cells_are_those_of_any_other_study_at_the_same_settings() -> None:
    levels = {"gae_lambda": [0.95, 0.9]}
    same = {"profile": "smoke", "tasks": "fast"}
    mine = hashes(comparison_request(levels, same))
    assert mine == hashes(Request("single_choices", vary=levels, **same))


def test_libraries_are_compared_at_the_task_s_geometry() -> None:
    same = {"profile": "smoke", "tasks": "fast"}
    mine = hashes(comparison_request({"preset": ["cleanrl", "sb3"]}, same))
    theirs = hashes(Request("library_defaults", variants=("cleanrl", "sb3"), **same))
    assert {(f"preset={name}", seed): one for (name, seed), one in theirs.items()} == mine


@pytest.mark.parametrize(
    ("levels", "selection", "trainer"),
    [
        ({"advantage": ["standard", "brax"]}, {}, "ppo"),
        ({"prompt_advantage": ["batch", "per_prompt"]}, {}, "language"),
        ({"learning_rate": [1e-3, 1e-4]}, {}, "ppo"),
        ({"learning_rate": [1e-3, 1e-4]}, {"tasks": "arithmetic"}, "language"),
        ({"learning_rate": [1e-3, 1e-4]}, {"base": "verl_grpo"}, "language"),
        ({"preset": ["verl_grpo", "trl_grpo"]}, {}, "language"),
        ({"episode_length": [50, 100]}, {"tasks": "fast"}, "ppo"),
    ],
)
def test_the_trainer_is_the_one_that_has_the_setting(levels, selection, trainer) -> None:
    request = comparison_request(levels, selection)
    assert comparison_study(request).trainer == trainer


def test_steps_become_whole_iterations_and_names_of_presets_take_any_case(tmp_path, capsys) -> None:
    flags = ["--tasks", "fast", "--dry-run", "--results", str(tmp_path)]
    assert cli.main(["sweep", "SB3", "CleanRL", *flags]) == 0
    assert capsys.readouterr().err == ""
    assert cli.main(["run", "gae", "--steps", "1k", *flags]) == 0
    assert "steps on fast rounded from 1,000 to 1,024" in capsys.readouterr().err


def test_every_name_of_the_field_is_a_setting_of_a_trainer_that_has_another_name() -> None:
    from ablations.trainers import trainers

    every = {name for one in trainers().values() for name in one.settings}
    assert set(FIELD_NAMES.values()) <= every
    assert every.isdisjoint(FIELD_NAMES)


def test_a_trainer_s_own_name_means_itself() -> None:
    assert in_our_names({"lr": 1}, {"lr", "learning_rate"}) == {"lr": 1}
    with pytest.warns(Note, match="lr is learning_rate here"):
        assert in_our_names({"lr": 1}, {"learning_rate"}) == {"learning_rate": 1}
    assert in_our_names({"lr": 1}, {"momentum"}) == {"lr": 1}
    with pytest.raises(UserError, match="given twice"):
        in_our_names({"lr": 1, "learning_rate": 2}, {"learning_rate"})
