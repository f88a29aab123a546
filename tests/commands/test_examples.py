"""docs/examples: each study plans cleanly where none of its packages is installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ablations.cli import main

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
MOST_LINES = 30


@pytest.mark.parametrize("study", sorted(EXAMPLES.glob("*/*.toml")), ids=lambda s: s.parent.name)
def test_an_example_is_short_and_its_study_plans(study: Path, tmp_path, monkeypatch, capsys):
    interpreters = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", interpreters)  # `python` is named so in an environment alone
    assert main(["run", str(study), "--dry-run", "--results", str(tmp_path / "results")]) == 0
    assert ": 0 done, " in capsys.readouterr().out
    for script in study.parent.glob("*.py"):
        assert len(script.read_text().splitlines()) <= MOST_LINES, script
    for line in (study.parent / "requirements.txt").read_text().splitlines():
        assert "==" in line, "what is not pinned is not in the hash"
