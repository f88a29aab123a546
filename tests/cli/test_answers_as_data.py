"""Answers for programs: `--json`, and the signatures and errors of Python."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import ablations
from ablations.cli import main, parser
from ablations.errors import UserError

# What prints neither a table nor a list: a description, a path, a run, a report with an exit code.
WITHOUT = {
    *("run", "show", "check"),
    *("figure", "report", "render", "export", "import"),
}


def test_every_command_that_prints_a_table_or_a_list_prints_it_as_json() -> None:
    without = {
        command.prog.removeprefix("ablations ")
        for command in list(parser().every())[1:]
        if not any("--json" in action.option_strings for action in command._actions)
    }
    assert without == WITHOUT


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an imported study of two runs."""
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{run},{seed},{step},{step * (1 + (run == 'b')) + seed}"
        for run in "ab"
        for seed in range(5)
        for step in range(1, 21)
    ]
    (tmp_path / "runs.csv").write_text("\n".join(["run,seed,step,return", *rows]))
    assert main(["import", "runs.csv", "--study", "mine"]) == 0
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "table mine",
        "table mine --kind efficiency",
        "status mine",
        "list runs",
        "list studies",
        "clean",
        "clean mine",
    ],
)
def test_stdout_is_one_document(study: Path, capsys, command: str) -> None:
    capsys.readouterr()
    assert main([*command.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) is not None


def test_data_of_a_list_of_what_goes_away(study: Path, capsys) -> None:
    capsys.readouterr()
    main(["clean", "mine", "--json"])
    listed = json.loads(capsys.readouterr().out)
    assert all(Path(path).exists() for path in listed)
    main(["clean", "mine", "--json", "--yes"])
    assert json.loads(capsys.readouterr().out) == listed
    assert not any(Path(path).exists() for path in listed)


def test_figures_are_chosen_by_kind(study: Path, capsys) -> None:
    capsys.readouterr()
    assert main(["figure", "mine", "--kind", "differences", "--format", "svg"]) == 0
    assert [Path(line).name for line in capsys.readouterr().out.split()] == ["mine_differences.svg"]
    assert main(["figure", "mine", "--kind", "efects"]) == 2
    assert "unknown figure 'efects': did you mean 'effects'?" in capsys.readouterr().err


VERBS = ("run", "vary", "explain", "status", "curves", "table", "figure", "page")


def test_signatures_name_the_selection_and_dir_names_the_verbs() -> None:
    for verb in VERBS:
        named = inspect.signature(getattr(ablations, verb)).parameters
        assert set(ablations.Selection.__annotations__) <= set(named), verb
        assert all(p.kind is not p.VAR_KEYWORD for p in named.values())
    assert {name for name in dir(ablations) if not name.startswith("_")} == set(ablations.__all__)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ablations.table(3), "study takes a study or several"),
        (lambda: ablations.table(None), "study takes a study or several"),
        (lambda: ablations.curves(["gae", 3]), "study takes a study or several"),
        (lambda: ablations.table("gae", tasks=3), 'tasks takes a task or several: "hopper"'),
        (lambda: ablations.table("gae", task="hopper"), "did you mean 'tasks'?"),
        (lambda: ablations.table("gae", seeds=2.5), "seeds must be a count"),
        (lambda: ablations.run("gae", steps="1M"), "steps must be a whole number, not '1M'"),
        (lambda: ablations.table("gae", set="lr=3"), 'set takes settings by name: {"learning_'),
        (lambda: ablations.run("gae", vary={"discount": 0.9}), "vary takes settings with their"),
        (lambda: ablations.table("gae", results=3), "results takes a folder, not 3"),
        (lambda: ablations.table("gae", profile=3), 'profile takes "smoke"'),
        (lambda: ablations.vary("gae_lambda"), "levels takes settings with their values"),
        (lambda: ablations.run("gae", workers="two"), "workers takes a number of processes"),
        (lambda: ablations.run("gae", workers=0), "workers takes a number of processes"),
        (lambda: ablations.run("gae", until=True), 'until takes "decided"'),
        (lambda: ablations.run("gae", base=3), "base takes a preset"),
        (lambda: ablations.make_trainer(3), 'task takes a task, such as "hopper"'),
        (lambda: ablations.table("mine", kind="efects"), "unknown table 'efects': did you mean"),
    ],
)
def test_a_wrong_type_is_told_what_is_wanted(call, says: str, study: Path) -> None:
    with pytest.raises(UserError) as error:
        call()
    assert says in str(error.value)
    assert "\n" not in str(error.value)
