"""The GitHub Action and the workflow of the docs, their steps run here as a runner would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "docs" / "action"
OF_GITHUB = re.compile(r"actions/(checkout|setup-python)@v\d+")
TRAIN = """\
import argparse, random
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
print({shift} + random.Random(parser.parse_args().seed).gauss(0, 0.1))
"""


class Runner:
    """The part of a runner that these files need."""

    def __init__(self, folder: Path):
        self.folder, self.summary = folder, folder / "summary.md"
        self.outputs = folder / "outputs"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {
            **os.environ,
            "PATH": path,
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_OUTPUT": str(self.outputs),
            "GITHUB_ACTION_PATH": str(ACTION),
        }

    def shell(self, script: str, environment: dict[str, str], folder: Path) -> int:
        command = ["bash", "-e", "-o", "pipefail", "-c", script]
        everything = {**self.environment, **environment}
        return subprocess.run(command, cwd=folder, env=everything, check=False).returncode

    def action(self, given: dict[str, str]) -> int:
        about = yaml.safe_load((ACTION / "action.yml").read_text())
        known = about["inputs"]
        assert given.keys() <= known.keys()
        assert all(name in given or "default" in each for name, each in known.items())
        inputs = {name: given.get(name, each.get("default")) for name, each in known.items()}
        inputs["install"] = ""  # it is installed here
        assert about["runs"]["using"] == "composite"
        for step in about["runs"]["steps"]:
            filled = {n: filled_in(text, inputs) for n, text in step.get("env", {}).items()}
            folder = self.folder / filled_in(step.get("working-directory", "."), inputs)
            assert "${{" not in step["run"], "an input is a variable, never a part of a script"
            if code := self.shell(step["run"], filled, folder):
                return code
        return 0

    @property
    def exit_code(self) -> str:
        """What the action last put out."""
        lines = self.outputs.read_text().splitlines() if self.outputs.exists() else [""]
        return lines[-1].removeprefix("exit-code=")

    def job(self, workflow: str) -> int:
        """Run the steps up to the first that fails."""
        about = yaml.safe_load((ACTION / workflow).read_text())
        assert set(about["permissions"].items()) == {("contents", "read")}
        (job,) = about["jobs"].values()
        ended = 0
        for step in job["steps"]:
            if step.get("uses") == "./docs/action":
                ended = self.action(step["with"])
            else:
                assert OF_GITHUB.fullmatch(step["uses"])
            if ended:
                break
        return ended


def filled_in(text: str, inputs: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: inputs[found[1]], text)


@pytest.fixture
def runner(folder) -> Runner:
    folder.write("train.py", TRAIN.format(shift=1))
    return Runner(folder.path)


def test_the_pull_request_workflow_posts_the_looks(runner: Runner, folder) -> None:
    folder.write(".gitignore", "results/\nsummary.md\noutputs\n")
    folder.commit()
    folder.write("train.py", TRAIN.format(shift=0.2))
    folder.git("commit", "-qam", "after")
    assert runner.job("pull-request.yml") == 1
    posted = runner.summary.read_text().replace("\N{MINUS SIGN}", "-")
    assert "gate: fails, worse: result -0.8" in posted
    assert re.search(r"\| +8 \| +-0\.8.*\| worse", posted)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("check nope", "nope"),
        ("check 'open", "command: No closing quotation: check 'open"),
        ("", "command: it is empty"),
    ],
)
def test_bad_input_ends_with_2_and_says_why_in_the_summary(runner, command, says) -> None:
    assert runner.action({"command": command, "undecided": "false"}) == 2
    assert runner.exit_code == "2"
    assert says in runner.summary.read_text()


def test_undecided_fails_the_job_unless_it_need_not(runner: Runner) -> None:
    """A change that is missing in one of two runs is unstable, exit code 3."""
    (runner.folder / "t.sh").write_text('[ "$1$2" = 1 ] && exit 7\necho $(($1 % 3))\n')
    command = "gate --margin 1 --first-seeds 3 --most-seeds 3 --against x -- sh t.sh {seed}"
    assert runner.action({"command": command}) == 3
    assert runner.action({"command": command, "undecided": "false"}) == 0
