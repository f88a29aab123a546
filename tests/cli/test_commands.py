"""What each command does with its own flags."""

from __future__ import annotations

import errno
import json
import re
import subprocess
from pathlib import Path

import pytest

from ablations.cli import app, commands, main


@pytest.fixture(scope="module")
def done(shells):
    """A shell in which the toy has run, changed by no test."""
    shell = shells()
    shell("run", "toy", "--seeds", "2", "--quiet", "--cluster", "debug")
    return shell


@pytest.mark.parametrize("name", commands())
def test_the_help_of_a_command_fits_a_screen(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    screen = capsys.readouterr().out
    assert screen.startswith(f"Usage: ablations {name}")
    assert screen.count("\n") <= 40
    assert max(map(len, screen.splitlines())) <= 80


@pytest.mark.parametrize("name", commands())
def test_every_flag_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help-all"]) == 0
    screen = capsys.readouterr().out
    shown = set(re.findall(r"^  (--[\w-]+)(?: \S+)?(?:\n {20,}| +)\S", screen, re.MULTILINE))
    arguments = app(name, rare=True).assemble_argument_collection()
    flags = {flag for each in arguments for flag in each.names if each.parse}
    assert {flag for flag in flags if flag.startswith("--")} == shown


def test_each_choice_says_which_numbers_it_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert not main(["show", "policy_loss"])
    assert "clip_epsilon_high=0.28 (0 to 10)" in capsys.readouterr().out


def test_a_dry_run_tells_what_fresh_would_compute_again(done) -> None:
    assert "4 done, 0 to run" in done("run", "toy", "--seeds", "2", "--dry-run").stdout
    before = done.curves()
    said = done("run", "toy", "--seeds", "2", "--dry-run", "--fresh").stdout
    assert "0 done, 4 to run" in said
    assert done.curves() == before
    assert not (done.results / "set-aside").exists()


def test_run_repeats_what_failed_with_an_error(shell) -> None:
    (shell.folder / "deaths").write_text("3")  # the third takes the cell with it
    flags = ("toy_deadly", "--seeds", "1", "--workers", "1", "--variants", "deadly")
    assert "its worker died 3 times" in shell("run", *flags, code=1).stderr
    assert "1 of 1 runs done, 0 failed" in shell("run", *flags).stdout


def test_a_cell_is_shown_as_it_is(done) -> None:
    cell = json.loads(done("status", "toy", "--format", "json").stdout)[0]["hash"]
    assert done("show", cell[:8]).stdout.startswith(f"run {cell}: done")
    line = done("show", cell[:8], "--set", "rate=1", code=2).stderr
    assert "a selection is for studies" in line


def test_a_reader_that_leaves_early_is_no_error(done) -> None:
    command = " ".join(done.command("list", "axes"))
    piped = subprocess.run(
        ["bash", "-c", f"{command} | true; echo ${{PIPESTATUS[0]}}"],
        cwd=done.folder,
        env=done.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert piped.stdout == "0\n"
    assert not piped.stderr


def test_records_that_may_not_be_written_are_said_to_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Root may read and write everything, so the error is made."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def closed(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    def stale(*_: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    for function, line in (
        (full, "cannot use 'results': No space left"),
        (closed, "cannot use '/"),
        (stale, "cannot use 'results': Stale file handle"),
    ):
        monkeypatch.setattr("ablations.commands.watching.waste", function)
        assert main(["clean"]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"ablations: {line}")
        assert said.count("\n") == 1
