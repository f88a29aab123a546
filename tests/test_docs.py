"""Every file, script and command of the README and docs/, in order, as a reader types them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked
import pytest

from ablations.cli import parser

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TOP = sorted(DOCS.glob("*.md"))
PAGES = [ROOT / "README.md", *TOP, *sorted(DOCS.glob("*/*.md"))]
BRIEF = ("README", "evidence", "extending", "presets")  # train programs of their own, for few steps
# Programs of libraries take a minute each to compile: tests/presets and docs/presets.md train some,
# tests/cli/test_sweep.py and docs/getting-started.md compare. These are planned.
PLANNED = (
    "ablations sweep gae_lambda=0.9,0.95 --tasks fast --profile smoke",
    "ablations sweep lr=1e-3,3e-4 --tasks fast --profile smoke --base sb3",
    "ablations sweep sb3 cleanrl --tasks fast --profile smoke",
)
# What pages type: commands, functions and names. What these compute is for other tests.
TYPED = (
    *("ablations/*.py", "ablations/cli", "ablations/gate", "ablations/io"),
    *("ablations/presets", "ablations/regression", "ablations/studies"),
    *("ablations/tasks", "docs/examples"),
)
EXTENDING = ("extending", "environments", "getting-started")  # these register parts of their own
INSIDE = ("ablations/environments", "ablations/trainers", "variants")
EXECUTED = ("python", "toml", "console")  # `sh` is for what needs a cluster, a GPU or an hour


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT).with_suffix(""))


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of every fenced block that is executed."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [(language, text) for language, text in found if language in EXECUTED]


def test_the_readme_is_short_and_an_own_study_takes_twenty_lines() -> None:
    assert len(PAGES[0].read_text().splitlines()) <= 120
    (_, file), (_, commands) = blocks(PAGES[0])[:2]
    typed = [line for line in commands.splitlines() if line.startswith("$ ")]
    lines = [line for line in [*file.splitlines(), *typed] if line.strip()]
    assert len(lines) <= 22, "20 lines and the file's name"


def test_an_environment_and_a_distribution_take_sixty_lines() -> None:
    files = [text for _, text in blocks(DOCS / "extending.md")]
    for name in ("kite", "laplace"):
        (file,) = (text for text in files if text.startswith(f"# {name}.py\n"))
        assert len(file.splitlines()) < 60


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        path = (page.parent / target).resolve()
        if "://" not in target and path.parent != DOCS / "reference":  # made by docs/site/build.py
            assert path.exists(), target


def test_the_readme_names_every_page_and_every_page_the_readme() -> None:
    readme = PAGES[0].read_text()
    for page in TOP:
        assert f"(docs/{page.name})" in readme
        assert "(../README.md)" in page.read_text()
    for folder in {page.parent.name for page in PAGES[1:]} - {"docs"}:
        assert f"(docs/{folder}/index.md)" in readme


def _arguments(line: str) -> list[str]:
    if not line.startswith("ablations "):
        return ["sh", "-c", line]
    words = shlex.split(line, comments=True)
    return [*words, "--dry-run"] if shlex.join(words) in PLANNED else words


def test_commands_that_are_planned_are_shown() -> None:
    text = "".join(page.read_text() for page in PAGES)
    assert [line for line in PLANNED if f"$ {line}" not in text] == []


def test_commands_that_are_not_executed_are_commands() -> None:
    """Those of `sh` blocks, up to what a reader fills in."""
    lines = [
        re.sub(r" *\\\n *", " ", line)
        for page in PAGES
        for block in re.findall(r"^```(?:sh|bash)?\n(.*?)^```$", page.read_text(), re.M | re.S)
        for line in re.findall(r"^ablations (?:.*\\\n)*.*$", block, re.M)
    ]
    commands = [shlex.split(line, comments=True)[1:] for line in lines if "$" not in line]
    assert len(commands) > 40
    for command in commands:
        assert parser().parse_args(command), command


def _with_inputs(page: Path) -> Any:
    inputs = (f"{_name(page)}.md", *TYPED, *(INSIDE if page.stem in EXTENDING else ()))
    return pytest.param(page, marks=pytest.mark.inputs(*inputs), id=_name(page))


@pytest.mark.parametrize("page", [_with_inputs(page) for page in PAGES if blocks(page)])
def test_what_a_page_shows_works(page: Path, tmp_path: Path) -> None:
    environment = dict(os.environ)
    if page.stem not in BRIEF:
        environment = forked.with_shared_programs(environment)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    for language, text in blocks(page):
        if named := re.match(r"# (\w+\.(?:py|toml))\n", text):
            (tmp_path / named[1]).write_text(text)
            continue
        if language == "python":
            commands = [["python", "-c", text]]
        else:
            whole = re.sub(r" *\\\n *", " ", text)  # a line that ends in \ goes on in the next
            lines = [line[2:] for line in whole.splitlines() if line[:2] == "$ "]
            commands = [_arguments(line) for line in lines]
        for command in commands:
            if command[0] == "sh":
                done = subprocess.run(
                    command,
                    cwd=tmp_path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                )
            else:
                # One worker each: pages run beside each other, and a worker's start is what costs.
                done = forked.run(command, tmp_path, environment, one_core=True)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr


def test_an_installed_package_needs_no_flag(tmp_path: Path) -> None:
    """A plugin that declares the entry point group is known to every command."""
    page = ROOT / "docs" / "extending.md"
    (tmp_path / "mine.py").write_text(next(text for _, text in blocks(page) if "# mine.py" in text))
    described = tmp_path / "mine-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[ablations.plugins]\nmine = mine\n")
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [Path(sys.executable).parent / "ablations", "list", "axes"],
        env=dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "few_steps" in done.stdout
