"""Studies whose trainer is a command of a few lines, in a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from walk import SCRIPT, STUDY

from ablations.engine import local
from ablations.engine.local import Outcome
from ablations.engine.stored import resolved
from ablations.records import Plan, Record, read_curve, usable_record


class Folder:
    """A folder with a study file, and what running it leaves."""

    def __init__(self, path: Path):
        self.path = path
        self.results = path / "results"

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def git(self, *words: str) -> None:
        who = ("-c", "user.name=me", "-c", "user.email=me@here")
        subprocess.run(["git", *who, *words], cwd=self.path, check=True, capture_output=True)

    def commit(self, *names: str) -> None:
        """Commits files, or all that there are, to a new repository."""
        for words in (["init", "-q"], ["add", *(names or ".")], ["commit", "-qm", "first"]):
            self.git(*words)

    def study(self, *edits: tuple[str, str], name: str = "walk.toml", text: str = STUDY) -> str:
        """Writes the study file, with some of its text replaced; its name."""
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        self.write(name, text)
        return name

    def script(self, body: str, *edits: tuple[str, str]) -> str:
        """A study of one variant and one seed whose command is a shell script."""
        self.write("walk.sh", f"out=$1 seed=$2\n{body}\n")
        one = (("fast = {drift = 12}\n", ""), ("seeds = 3", "seeds = 1"))
        return self.study(*one, *edits)

    def run(self, *studies: str, **selection: Any) -> Outcome:
        """In this process."""
        how = {n: selection.pop(n) for n in ("threads", "workers") if n in selection}
        fresh, plans = selection.pop("fresh", False), self.plans(*studies, **selection)
        return local.ThisProcess(quiet=True, **how).run(plans, self.results, fresh=fresh)

    def plans(self, *studies: str, **selection: Any) -> list[Plan]:
        return resolved(studies or ["walk.toml"], selection)

    def records(self, plan: Plan) -> dict[tuple[str, int], Record]:
        found = {}
        for cell, record in ((c, usable_record(self.results, c.hash)) for c in plan.cells):
            assert record is not None
            found[cell.variant, cell.seed] = record
        return found

    def curve(self, record: Record) -> Mapping[str, list[Any]]:
        return read_curve(self.results, record)

    def failure(self, *studies: str, **selection: Any) -> Record:
        """The record of the only cell, which failed."""
        outcome = self.run(*studies, **selection)
        ((_, record),) = outcome.failed
        return record


@pytest.fixture
def folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Folder:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    one = Folder(tmp_path)
    one.write("walk.sh", SCRIPT)
    one.study()
    return one


@pytest.fixture
def base_install(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process in which nothing of the extras can be imported."""
    site = tmp_path_factory.mktemp("site")
    left_out = ("jax", "flax", "optax", "brax")
    (site / "sitecustomize.py").write_text(
        f"import sys\nfor name in {left_out}:\n    sys.modules[name] = None\n"
    )
    paths = [str(site), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    found = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    found["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{found['PATH']}"
    return found
