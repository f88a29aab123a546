"""run_all.sh sets up what is missing, or says why it cannot. Nothing is installed: the programs it
calls are scripts of a few lines."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "run_all.sh"
TOOLS = (
    *("bash", "sh", "cat", "df", "dirname", "env", "mktemp", "rm", "sha256sum", "tail"),
    *("mkdir", "touch", "printf"),
)
LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt)"
# A Python that makes no environment until apt has installed something
PYTHON = """\
case "$*" in
  "-m venv .venv") [ -e installed ] && mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  "-m pip "*) shift 2; {settings} {python} -m pip "$@" ;;
esac
"""
NO_INDEX = {
    "PIP_CONFIG_FILE": "/dev/null",
    "PIP_FIND_LINKS": "nowhere",  # of which pip warns
    **dict.fromkeys(("PIP_NO_INDEX", "PIP_DRY_RUN", "PIP_IGNORE_INSTALLED"), "1"),
}
APT = """\
[ $1 = update ] && {{ {update}; }}
[ $1 = install ] && {{ {install}; touch installed; }}
exit 0
"""


class Machine:
    """A folder with the script, whose PATH has programs of its own and few others."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.programs = folder / "programs"
        self.programs.mkdir()
        shutil.copy(SCRIPT, folder)
        for name in ("requirements-test.lock", "pyproject.toml"):
            (folder / name).write_text("")
        shutil.copy(SCRIPT.with_name("requirements-tools.lock"), folder)
        for tool in (*TOOLS, "cp"):
            (self.programs / tool).symlink_to(str(shutil.which(tool)))
        self.program("id", "echo 0")
        settings = " ".join(f"{name}={value}" for name, value in NO_INDEX.items())
        self.program("python3", PYTHON.format(settings=settings, python=sys.executable))
        self.apt()

    def program(self, name: str, text: str) -> None:
        (self.programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.programs / name).chmod(0o755)

    def apt(self, update: str = ":", install: str = ":") -> None:
        self.program("apt-get", APT.format(update=update, install=install))

    def __call__(self) -> str:
        """What the script says until pip ends it, for which there is no index."""
        done = subprocess.run(
            ["bash", "run_all.sh", "test"],
            cwd=self.folder,
            env={"PATH": str(self.programs)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode
        return done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_last_line_of_apt_is_shown(machine: Machine) -> None:
    machine.apt(
        install="echo 'Reading package lists'; echo 'W: a' >&2; echo 'E: no such' >&2; exit 100"
    )
    said = machine()
    assert said.endswith(
        "E: no such\nrun_all.sh: '"
        + str(machine.programs / "python3")
        + " -m venv' does not work: "
        "apt-get install python3-venv\n"
    )


@pytest.mark.parametrize("command", ["update", "install"])
def test_waits_while_another_process_has_the_lock(machine: Machine, command: str) -> None:
    """That lets go of it in the second pause."""
    machine.apt(**{command: f"[ -e free ] || {{ echo '{LOCKED}' >&2; exit 100; }}"})
    machine.program("sleep", "[ -e once ] && touch free; touch once")
    said = machine()
    assert said.count("Waiting for another process") == 1
    assert "Could not get lock" not in said
    assert (machine.folder / "installed").exists()


def test_pip_says_what_is_wrong_and_nothing_of_settings(machine: Machine) -> None:
    said = machine()
    assert "ERROR: No matching distribution found for editables" in said
    assert "WARNING" not in said


def _locked(name: str) -> dict[str, str]:
    """Package -> version, of those that a file locks; each has a hash."""
    whole = SCRIPT.with_name(name).read_text().replace("\\\n", " ")
    lines = [line.split() for line in whole.splitlines() if re.match(r"[\w.-]+==", line)]
    assert all(any(word.startswith("--hash=sha256:") for word in line) for line in lines)
    return dict(line[0].split("==") for line in lines)


def test_what_is_installed_is_locked_by_its_hash_and_no_more_than_is_needed() -> None:
    tests, studies = _locked("requirements-test.lock"), _locked("requirements.lock")
    assert studies.items() <= tests.items()
    assert not {"tfp-nightly", "rlax", "pytest"} & studies.keys()
    tools = _locked("requirements-tools.lock")
    assert {name: tests[name] for name in tools.keys() & tests.keys()}.items() <= tools.items()
    asked = tomllib.loads(SCRIPT.with_name("pyproject.toml").read_text())["build-system"]
    assert asked["requires"] == [f"hatchling=={tools['hatchling']}"]
    assert "uv" in tools
    script = SCRIPT.read_text()
    for line in script.splitlines():
        if "pip install" in line and "--editable" not in line:
            assert "--require-hashes" in line
