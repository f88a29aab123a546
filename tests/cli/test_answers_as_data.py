"""The names and the errors of Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import ablations
from ablations.cli import main
from ablations.errors import UserError


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


def test_dir_names_what_is_public() -> None:
    assert {name for name in dir(ablations) if not name.startswith("_")} == set(ablations.__all__)
    for name in ablations.__all__:
        assert getattr(ablations, name).__doc__, name


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ablations.table(3), "study takes a study or several"),
        (lambda: ablations.run("gae", steps="1M"), "steps must be a whole number, not '1M'"),
        (lambda: ablations.table("gae", tasks=3), "tasks must be a name or several names, not 3"),
        (lambda: ablations.run("gae", set=3), "set must be a mapping of settings, not 3"),
        (lambda: ablations.run("gae", tasks=[3]), "unknown task '3'"),
    ],
)
def test_a_wrong_type_is_refused_with_what_is_wanted(call, says: str, study: Path) -> None:
    with pytest.raises(UserError) as error:
        call()
    assert says in str(error.value)
    assert "\n" not in str(error.value)
