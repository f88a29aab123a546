"""Revisions: what earlier code computed is said to be old, stays as it was, and is pooled with
nothing newer."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

import variants
from ablations import cli, tasks, until
from ablations.commands.selected import outdated
from ablations.engine.plan import on_seeds, plan
from ablations.engine.prepare import missing, prepare
from ablations.engine.stored import resolved
from ablations.io.archives import archive, restore
from ablations.records import Plan, Record, digest, read_plan, write_plan, write_record
from ablations.request import Request
from ablations.trainers.revisions import current, differences

FLAGS = ("gae", "--profile", "smoke", "--seeds", "3", "--variants", "standard", "brax")
COMMAND = "ablations run gae --profile smoke --variants standard brax --seeds 3"


def asked(**more: Any) -> Plan:
    return plan(Request("gae", "smoke", variants=("standard", "brax"), **{"seeds": 3, **more}))


def ran(results: Path, made: Plan, finals: float = 1.0) -> Plan:
    """The plan, stored and with a record of every cell."""
    write_plan(results, made)
    for cell in made.cells:
        better = (0.2 + 0.01 * cell.seed) * (1 + (cell.variant == "brax"))
        curve = finals * np.linspace(0, 1, 20) + better
        columns = {"step": np.arange(1, 21) * 100, "training/return": curve}
        write_record(results, Record(cell.hash, cell.config, "done"), columns, lasting=False)
    return made


def bump(monkeypatch: pytest.MonkeyPatch, what: str) -> str:
    """Raises a revision; returns how that is told."""
    if what == "choice":
        choices = variants.axis("advantage")._choices
        monkeypatch.setitem(choices, "brax", replace(choices["brax"], revision=7))
        return "advantage=brax is of revision 1, now 7"
    if what == "task":
        fast = tasks.task("fast")
        known = importlib.import_module("ablations.tasks.task")._TASKS
        monkeypatch.setitem(known, "fast", replace(fast, revision=7))
        return f"task 'fast' is of revision {fast.revision}, now 7"
    module = importlib.import_module("ablations.trainers.control.ppo")
    before = module.SPEC.revision
    monkeypatch.setattr(module, "SPEC", replace(module.SPEC, revision=7))
    return f"trainer 'ppo' is of revision {before}, now 7"


def test_revisions_are_known_without_the_registry() -> None:
    script = (
        "import sys\n"
        "from ablations.trainers.revisions import RAISED, current\n"
        "read = current()\n"
        "assert 'jax' not in sys.modules\n"
        "import variants\n"
        "known = {name: revision for name, revision in current().items() if name not in read}\n"
        "assert len(known) > 100 and set(known.values()) == {1}, known\n"
        "assert current().items() >= read.items(), set(read.items()) ^ set(current().items())\n"
        "assert set(RAISED.values()) == {2, 3}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("what", "old"), [("choice", 3), ("task", 6), ("trainer", 6)])
def test_old_cells_are_named_and_shown_as_they_were(
    what: str, old: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    ran(tmp_path, asked())
    csv = ("--format", "csv")
    read = (["table", *FLAGS], ["table", "gae"], ["status", "gae"], ["table", "gae", *csv])

    def printed(command: list[str]) -> tuple[str, str]:
        assert cli.main([*command, "--results", str(tmp_path)]) == 0
        return tuple(capsys.readouterr())

    before = [printed(command) for command in read]
    assert [err for _, err in before] == ["", "", "", ""]
    told = bump(monkeypatch, what)
    line = (
        f"ablations: gae: {old} of 6 runs are from earlier code ({told}) and shown as they were; "
        f"`{COMMAND}` trains them again\n"
    )
    assert [printed(command) for command in read] == [(out, line) for out, _ in before]
    out, _ = printed(["run", *FLAGS, "--dry-run"])
    assert f"gae: 6 runs: {6 - old} done, {old} to run" in out


def test_old_cells_of_a_study_file_are_shown_by_either_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (tmp_path / "mine.toml").write_text(
        '[study]\nname = "mine"\nbaseline = "a"\nseeds = 3\nmargin = 0.05\nsteps = 100\n'
        '[command]\nmetric = "training/return"\nrun = "echo {seed} {lr} {folder}"\n'
        'curve = "{folder}/log.csv"\ndepends = []\n'
        "[variants]\na = {lr = 0.1}\nb = {lr = 0.2}\n"
    )
    monkeypatch.chdir(tmp_path)
    (made,) = resolved(["mine.toml"], {})
    old = [{**cell.config, "trainer": {"name": "command", "revision": 1}} for cell in made.cells]
    cells = [
        structs.replace(cell, config=config, hash=digest(config))
        for cell, config in zip(made.cells, old, strict=True)
    ]
    ran(Path("results"), structs.replace(made, cells=tuple(cells)))
    for name in ("mine", "mine.toml"):
        assert cli.main(["status", name]) == 0
        shown = capsys.readouterr()
        assert "mine: 6 done" in shown.out
        assert "`ablations run mine.toml --profile quick` trains them again" in shown.err


@pytest.mark.parametrize("used", [[None], ["a"], ["a", "a"], ["a", "b"], ["b", "a", "a"]])
def test_cells_of_an_edited_plugin_are_named(
    used: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """used: the plugin's state, of the first seeds of the first variant."""
    made = asked()
    write_plan(tmp_path, made)
    for cell in made.cells:
        first = cell.variant == made.cells[0].variant and cell.seed < len(used)
        state = used[cell.seed] if first else None
        record = Record(cell.hash, cell.config, "done")
        made_by = {"plugins": {"mine": state}} if state else {}
        write_record(tmp_path, structs.replace(record, provenance=made_by), {"step": []})
    assert cli.main(["status", "gae", "--results", str(tmp_path)]) == 0
    line = "gae: plugin 'mine' was edited between runs: 1 of"
    assert (line in capsys.readouterr().err) == (len(set(used)) > 1)


def test_the_command_that_computes_again_has_the_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(tmp_path, made := asked())
    bump(monkeypatch, "choice")
    monkeypatch.setattr("ablations.plugins._loaded", {"mine": "digest"})
    assert f"`{COMMAND} --plugin mine` trains" in str(outdated(made, tmp_path))


def test_cells_that_never_ran_are_not_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = asked()
    write_plan(tmp_path, made)
    bump(monkeypatch, "choice")
    assert outdated(made, tmp_path) is None
    assert differences({"imported": {}, "task": {"name": "fast"}}, current()) == []


def test_nothing_pools_two_revisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Whatever reads a plan after `run` planned it anew reads no cell of before."""
    before = ran(tmp_path, asked(), finals=1000.0)
    archive([before], tmp_path, tmp_path / "kept")
    bump(monkeypatch, "trainer")
    now = asked()
    assert {cell.hash for cell in before.cells}.isdisjoint(cell.hash for cell in now.cells)
    prepare([now], tmp_path)  # as `run` begins
    assert len(missing([now], tmp_path)) == 6
    some = [cell for cell in now.cells if cell.seed < 2]
    ran(tmp_path, structs.replace(now, cells=tuple(some)))
    write_plan(tmp_path, now)

    def printed(*command: str) -> str:
        capsys.readouterr()
        assert cli.main([*command, "--results", str(tmp_path)]) == 0
        out, err = capsys.readouterr()
        assert "earlier code" not in err
        return str(out)

    def agree() -> None:
        rows = json.loads(printed("table", "gae", "--format", "json"))["rows"]
        assert [row["n"] for row in rows] == [2, 2]
        assert max(row["mean"] for row in rows) < 10
        printed("export", "gae", "--output", str(tmp_path / "all.csv"))
        assert (tmp_path / "all.csv").read_text().count(",done,") == 2 * 2 * 20
        assert "4 done, 2 missing" in printed("status", "gae").splitlines()[0]

    agree()
    (tmp_path / "kept").rename(tmp_path / "archive")
    restore(tmp_path)  # archives of before bring their cells, and no plan that ran here since
    agree()
    assert read_plan(tmp_path, "gae").cells == now.cells


def test_looks_go_on_with_cells_of_the_code_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = {"seeds": None, "until": "decided"}
    ran(tmp_path, asked(**looking), finals=1000.0)
    assert until.stage(asked(**looking), tmp_path).ended
    bump(monkeypatch, "choice")
    found = until.stage(asked(**looking), tmp_path)
    assert (found.stage, found.ended) == (0, False)


def test_other_seeds_of_a_plan_are_of_its_revisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, more = asked(), asked(seeds=range(3, 5))
    bump(monkeypatch, "choice")
    found = on_seeds(before, (3, 4))
    assert (found.cells, found.request, found.name) == (more.cells, more.request, more.name)
