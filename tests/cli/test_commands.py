"""What each command does with its own flags."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ablations.cli import app, commands, main
from ablations.commands.selected import folder_flag


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


def test_the_help_of_all_commands_imports_no_command() -> None:
    script = (
        "import sys; from ablations.cli import main\n"
        "main(sys.argv[1:])\n"
        "print(*sorted(name for name in sys.modules if name.startswith('ablations.commands.')))"
    )
    for words, loaded in (("--help", ""), ("--version", ""), ("clean --help", "watching")):
        command = [sys.executable, "-c", script, *words.split()]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        last = done.stdout.splitlines()[-1]
        assert ("ablations.commands.watching" in last) == bool(loaded)
        assert "ablations.commands.running" not in last


def test_each_choice_says_which_numbers_it_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert not main(["list", "axes"])
    said = capsys.readouterr().out
    assert "clip_epsilon=0.2 (0 to 10), clip_epsilon_high=0.28 (0 to 10)" in said
    assert not main(["list", "axes", "--format", "json"])
    choices = json.loads(capsys.readouterr().out)["policy_loss"]["choices"]
    number = choices["clip_higher"]["numbers"]["clip_epsilon_high"]
    assert (number["default"], number["from"], number["to"]) == (0.28, 0, 10)
    assert "clip_epsilon_high" not in choices["clip"]["numbers"]


def test_tables_of_several_kinds_lie_side_by_side(shell) -> None:
    flags = ("--vary", "rate=0.1,0.5", "width=1,2", "--seeds", "2")
    shell("run", "toy", *flags, "--quiet", "--cluster", "debug")
    for kind in ("comparison", "effects"):
        shell("table", "toy", *flags, "--kind", kind, "--output", "tables")
    names = {path.name for path in (shell.folder / "tables").iterdir()}
    assert names == {"toy.md", "toy_effects.md"}


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


def test_a_variant_at_another_setting_is_shown(done) -> None:
    shown = done("show", "toy/down", "--set", "rate=0.25", "width=3", "--steps", "400").stdout
    assert re.search(r"^    rate +0.25$", shown, re.MULTILINE)
    assert re.search(r"^    width +3$", shown, re.MULTILINE)
    assert "differs from up in" in shown
    varied = done("show", "toy/rate=0.5", "--vary", "rate=0.1,0.5").stdout
    assert "differs from rate=0.1 in\n    rate = 0.5\n" in varied


def test_a_cell_is_shown_as_it_is(done) -> None:
    cell = json.loads(done("status", "toy", "--format", "json").stdout)[0]["hash"]
    assert done("show", cell[:8]).stdout.startswith(f"cell {cell}: done")
    line = done("show", cell[:8], "--set", "rate=1", code=2).stderr
    assert "a cell is what it is" in line


def test_a_folder_that_cannot_be_made(done) -> None:
    line = done("figure", "toy", "--output", "/dev/null/x", code=2).stderr
    assert "cannot make the folder '/dev/null/x'" in line


def test_a_reader_that_leaves_early_is_no_error(done) -> None:
    command = " ".join(done.command("list", "axes", "--format", "json"))
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

    monkeypatch.setattr("os.access", lambda *_: False)
    for function, line in (
        (full, "cannot write to 'results'"),
        (closed, "cannot read '"),
        (stale, "cannot read or write in 'results': Stale file handle"),
    ):
        monkeypatch.setattr("ablations.commands.watching.waste", function)
        assert main(["clean"]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"ablations: {line}")
        assert said.count("\n") == 1


MINE = """
import variants


@variants.axis("advantage").choice(
    "tilted",
    formula="A = tilt·(r - V)",
    source="here",
    summary="a number of its own",
    numbers={"tilt": variants.Number(0.5, 0.0, 1.0, "how much of it")},
)
def tilted(*, rewards, values, tilt):
    advantages = tilt * (rewards - values)
    return advantages, advantages + values
"""


def test_every_command_knows_the_number_of_an_own_choice(shell) -> None:
    """From one function in one module; docs/extending.md runs and tables such a one."""
    (shell.folder / "mine.py").write_text(MINE)
    flags = ("--profile", "smoke", "--plugin", "mine")
    assert "tilt=0.5 (0 to 1)" in shell("list", "axes", "--plugin", "mine").stdout
    own = ("--set", "advantage=tilted")
    shown = [
        shell("show", "advantage_normalization/none", *flags, *own, *more).stdout
        for more in ((), ("tilt=0.25",))
    ]
    assert re.search(r"tilt +0\.5\n", shown[0])
    assert re.search(r"tilt +0\.25\n", shown[1])
    assert "gae_lambda" not in shown[0]
    for wrong, line in (
        ((*own, "tilt=2"), "tilt=2 is out of range: it goes from 0 to 1"),
        (("--set", "tilt=0.25"), "--set tilt changes nothing in 'advantage_normalization'"),
        ((*own, "gae_lambda=0.9"), "--set gae_lambda changes nothing in 'advantage_normalization'"),
    ):
        said = shell("show", "advantage_normalization", *flags, *wrong, code=2).stderr
        assert line in said
        assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("folder", "flag"),
    [("results", ""), ("my runs", " --results 'my runs'"), ("/r", " --results /r")],
)
def test_a_hint_names_another_results_folder(folder, flag) -> None:
    assert folder_flag(folder) == flag
