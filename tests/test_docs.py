"""The README and docs/: what six pages show runs as a reader types it; other blocks are valid."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import forked
import pytest
import yaml

from ablations.cli import app, main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.glob("*.md"))]
ANSWERS = [ROOT / "results" / "README.md", *sorted((ROOT / "results" / "details").glob("*.md"))]
# The blocks `console`, `python` and `toml` of these run. Elsewhere they are only parsed.
EXECUTED = ("first-ablation", "own-runs", "any-trainer", "gate", "learning-curves", "extending")
TRAINING = ("first-ablation", "extending")
# What pages type: commands, functions and names. What these compute is for other tests.
TYPED = (
    *("ablations/*.py", "ablations/commands", "ablations/gate", "ablations/io"),
    *("ablations/presets", "ablations/regression", "ablations/studies", "ablations/tasks"),
)
INSIDE = ("ablations/environments", "ablations/trainers", "variants")
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?(ablations .*(?:\\\n.*)*)$", re.MULTILINE)
INLINE = re.compile(r"`(ablations [^`]*--[^`]*)`")
FILE = re.compile(r"(?<![\w-])(?:ablations|benchmarks|tests|variants)/[\w/.]+\w")
NAMED = re.compile(r"# (\w+\.(?:py|toml))\n")


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


def joined(text: str) -> str:
    """Return text in which a line that ends in a backslash continues in the next."""
    return re.sub(r" *\\\n *", " ", text)


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_pages_are_few_and_the_readme_is_short_and_names_each() -> None:
    readme = README.read_text()
    assert len(readme.splitlines()) <= 100
    assert len(PAGES) <= 20
    assert sum(len(page.read_text().splitlines()) for page in PAGES[1:]) <= 2000
    assert [page.name for page in PAGES[1:] if f"(docs/{page.name})" not in readme] == []


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "benchmarks" / "README.md", *ANSWERS], ids=lambda p: p.stem
)
def test_links_and_files_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert "://" in target or (page.parent / target).resolve().exists(), target
    for name in FILE.findall(page.read_text()):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_blocks_are_valid(page: Path) -> None:
    inline = ("sh", "\n".join(INLINE.findall(page.read_text())))
    for language, text in [*blocks(page), inline]:
        if language in ("python", "py"):
            compile(text, str(page), "exec")
        elif language == "toml":
            tomllib.loads(text)
        elif language == "yaml":
            yaml.safe_load(text)
        elif language in ("sh", "console"):
            for line in COMMAND.findall(joined(text)):
                words = shlex.split(line.split(" && ")[0], comments=True)
                if "$" not in line:
                    quiet = {"exit_on_error": False, "print_error": False}
                    assert app(words[1]).parse_args(words[2:], **quiet), line
            if language == "sh":
                assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0


def test_workers_of_other_schedulers_are_commands() -> None:
    sky, job = (yaml.safe_load(t) for name, t in blocks(DOCS / "cluster.md") if name == "yaml")
    (pbs,) = (text for _, text in blocks(DOCS / "cluster.md") if text.startswith("#!/bin/bash"))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert job["spec"]["completionMode"] == "Indexed"
    assert {v["name"] for v in container["volumeMounts"]} == {
        v["name"] for v in job["spec"]["template"]["spec"]["volumes"]
    }
    for words in (sky["run"].split(), container["command"], pbs.splitlines()[-1].split()):
        assert words[:2] == ["ablations", "work"]
        assert app("work").parse_args(words[2:], exit_on_error=False, print_error=False)


def _page(name: str) -> Any:
    page = DOCS / f"{name}.md"
    inputs = (f"docs/{name}.md", "docs/examples", *TYPED, *(INSIDE if name in TRAINING else ()))
    return pytest.param(page, marks=pytest.mark.inputs(*inputs), id=name)


@pytest.mark.parametrize("page", [_page(name) for name in EXECUTED])
def test_what_a_page_shows_works(page: Path, tmp_path: Path) -> None:
    """A block `output` is what the commands before it print."""
    environment = forked.with_shared_programs(dict(os.environ)) | {"COLUMNS": "100"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    if page.stem == "extending":
        shutil.copytree(DOCS / "examples" / "extend", tmp_path, dirs_exist_ok=True)
    printed = ""
    for language, text in blocks(page):
        commands: list[list[str]] = []
        if named := NAMED.match(text):
            (tmp_path / named[1]).write_text(text)
        elif language == "python":
            commands = [["python", "-c", text]]
        elif language == "console":
            lines = [line[2:] for line in joined(text).splitlines() if line.startswith("$ ")]
            commands = [shlex.split(line, comments=True) for line in lines]
            printed = ""
        elif language == "output":
            assert squeezed(text) in squeezed(printed)
        for command in commands:
            done = (
                # One worker each: pages run beside each other, and a worker's start is what costs.
                forked.run(command, tmp_path, environment, one_core=True)
                if command[0] == "ablations" or command[:2] == ["python", "-c"]
                else subprocess.run(
                    command, cwd=tmp_path, env=environment, capture_output=True, text=True
                )
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr
            printed += done.stdout


@pytest.mark.inputs("README.md", *TYPED, "ablations/tables", "results/archive", "variants")
def test_the_table_of_the_readme_is_printed_and_its_component_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    (shown,) = (text for language, text in blocks(README) if language == "console")
    command, _, table = joined(shown).partition("\n")
    assert main(shlex.split(command)[2:]) == 0
    assert squeezed(table) in squeezed(capsys.readouterr().out)
    (component,) = (text for language, text in blocks(README) if language == "python")
    exec(component, namespace := {})
    assert namespace["advantages"].shape == (128, 16)


@pytest.mark.parametrize("page", [README, DOCS / "language.md"], ids=lambda p: p.stem)
def test_every_effect_is_on_the_page_of_its_answer(page: Path) -> None:
    rows = re.findall(r"^\|.*details/.*$", page.read_text(), re.MULTILINE)
    for row in rows:
        names = re.findall(r"/details/(\w+)\.md", row)
        effects = re.findall(r"[+-][\d.]+% \[[^]]+\]", row.replace("*", ""))
        for name, effect in zip(names * (len(effects) // len(names)), effects, strict=True):
            answer = ROOT / "results" / "details" / f"{name}.md"
            assert effect in squeezed(answer.read_text()), row
    assert len(rows) > 5


def test_an_installed_package_needs_no_flag(tmp_path: Path) -> None:
    """A plugin that declares the entry point group is known to every command."""
    (mine,) = (t for _, t in blocks(DOCS / "extending.md") if t.startswith("# mine.py"))
    (tmp_path / "mine.py").write_text(mine)
    described = tmp_path / "mine-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[ablations.plugins]\nmine = mine\n")
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [Path(sys.executable).parent / "ablations", "show", "advantage"],
        env=dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "few_steps" in done.stdout
