"""What each command does with its own flags."""

from __future__ import annotations

import errno
import re
import subprocess
import sys

import pytest

from ablations.cli import app, commands, main


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


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m ablations.cli list components | true; echo ${{PIPESTATUS[0]}}"
    piped = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (piped.stdout, piped.stderr) == ("0\n", "")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, "No space left"), "cannot use the results folder: No space left"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "cannot use '/x'"),
        (
            OSError(errno.ESTALE, "Stale file handle"),
            "cannot use the results folder: Stale file handle",
        ),
    ],
)
def test_records_that_may_not_be_written_are_said_to_be(error, line, monkeypatch, capsys) -> None:
    """Root may read and write everything, so the error is made."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("ablations.commands.watching.waste", fail)
    assert main(["clean"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"ablations: {line}")
    assert said.count("\n") == 1
