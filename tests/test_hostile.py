"""A results folder made to hurt executes nothing, leads nowhere, and loses nothing of a user's."""

from __future__ import annotations

from pathlib import Path

import hostile_folder
import mutated_files
import pytest
import sandbox

COMMANDS = (
    *("table walk", "table named odd0 odd1 odd2 odd3 odd4 odd5 odd6 odd7", "status"),
    *("table walk --format html", "table odd0 --format latex", "table named --seeds 2"),
    *("table escaping", "table elsewhere", "table linked", "table zero", "table pipe"),
    *("table round", "table deep", "table newer", "status walk", "status walk --seeds 2"),
    *("report walk odd2", "figure odd0 --format svg", "export walk odd4"),
    *("export walk --format archive", "clean", "show walk", "show 0123456789abcdef"),
    *("render walk", "clean walk", "status walk --cancel"),
    *("check b --records results", "import runs.csv --study ../../escaped", "clean --yes"),
    *("run walk.toml --dry-run", "table walk --results outside", "table ../../outside"),
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    sandbox.preload()
    folder = sandbox.build(tmp_path_factory.mktemp("hostile") / "in" / "in")
    return folder, hostile_folder.plant(folder)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_made_to_hurt_does_not(hostile: tuple[Path, list[Path]], command: str) -> None:
    folder, precious = hostile
    outcome = sandbox.run(folder, command.split())
    assert not outcome.harm
    assert all(path.read_bytes() == b"precious" for path in precious)
    assert not any(folder.parent.rglob("escaped"))
    assert "\x1b" not in outcome.out + outcome.err
    assert outcome.code in (0, 1, 2)


def test_what_cannot_be_read_is_named_and_the_rest_answers(hostile) -> None:
    folder, _ = hostile
    outcome = sandbox.run(folder, ["status"])
    assert outcome.code == 0
    for name in ("plans/deep", "plans/newer", "plans/pipe", "plans/zero", "plans/escaping"):
        (line,) = [one for one in outcome.err.splitlines() if f"results/{name}/" in one]
        assert line.startswith("ablations: left out: the plan '")
    assert "a newer version of rl-ablations wrote it" in outcome.err


def test_mutated_files_harm_nobody(tmp_path: Path, run_all: bool) -> None:
    sandbox.preload()
    base = sandbox.build(tmp_path / "base")
    count = 200 if run_all else 50
    done = list(mutated_files.mutations(base, seed=1, count=count))
    assert len(done) == count
    assert not [(one.number, one.command, one.outcome) for one in done if one.outcome.harm]
    assert {one.outcome.word for one in done} == {"answered", "left out", "refused"}
