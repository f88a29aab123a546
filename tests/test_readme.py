"""Every file, script and command of the README, in its order, as a reader would type them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def blocks() -> list[tuple[str, str]]:
    """(language, text) of every fenced block that is code."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    return [(language, text) for language, text in found if language in ("python", "console")]


def test_the_readme_has_what_this_test_runs() -> None:
    assert sum(language == "console" for language, _ in blocks()) >= 4
    assert sum(language == "python" for language, _ in blocks()) >= 4


def test_an_own_study_takes_twenty_lines() -> None:
    (_, file), (_, commands) = blocks()[:2]
    lines = [line for line in (file + commands).splitlines() if line.strip()]
    assert len(lines) <= 22, "20 lines and the file's name"


@pytest.mark.slow
def test_the_readme_works(tmp_path: Path) -> None:
    environment = dict(os.environ)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    said = ""
    for language, text in blocks():
        if named := re.match(r"# (\w+\.py)\n", text):
            (tmp_path / named[1]).write_text(text)
            continue
        if language == "python":
            commands = [[sys.executable, "-c", text]]
        else:
            commands = [["sh", "-c", line[2:]] for line in text.splitlines() if line[:2] == "$ "]
        for command in commands:
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr
            said += done.stdout
    assert "all 16 cells are done; nothing to run" in said
    assert (tmp_path / "results" / "figures" / "bowl_curves.svg").exists()


def test_an_installed_package_needs_no_flag(tmp_path: Path) -> None:
    """A plugin that declares the entry point group is known to every command."""
    (tmp_path / "mine.py").write_text(next(text for _, text in blocks() if "# mine.py" in text))
    described = tmp_path / "mine-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[ablations.plugins]\nmine = mine\n")
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "ablations.cli", "list", "axes"],
        env=dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "one_step" in done.stdout
