"""The pytest plugin in a project that is not ours, with a trainer that is not ours: NumPy alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Gradient ascent on the expected reward of a three-armed bandit: REINFORCE, in NumPy.
TRAINER = """
import numpy as np

MEANS = np.array([0.0, 0.5, 1.0])
RATE = 0.5

def train(seed, points=20):
    random = np.random.default_rng(seed)
    logits, returns = np.zeros(3), []
    for _ in range(points):
        chances = np.exp(logits - logits.max())
        chances /= chances.sum()
        arms = random.choice(3, 64, p=chances)
        rewards = MEANS[arms] + 0.3 * random.normal(size=64)
        returns.append(rewards.mean())
        advantages = rewards - rewards.mean()
        gradient = np.eye(3)[arms] - chances
        logits += RATE * (advantages[:, None] * gradient).mean(axis=0)
    return returns
"""
TESTS = """
import numpy as np
from trainer import train

def test_bandit_still_learns(learning_curve):
    learning_curve.check([train(seed) for seed in range(20)], name="bandit")

def test_asked_for_more(learning_curve):
    asked = []
    def more(seeds):
        asked.append(len(seeds))
        return np.array([train(seed) for seed in seeds])
    found = learning_curve.check(more, name="bandit-more", task="bandit", effect=0.1)
    print("asked", asked)

def test_something_else():
    pass
"""


class Project:
    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "tests").mkdir()
        self.write("trainer.py", TRAINER)
        self.write("tests/test_it.py", TESTS)
        self.write("pytest.ini", "[pytest]\npythonpath = .\n")

    def write(self, path: str, text: str) -> None:
        (self.folder / path).write_text(text)

    def pytest(self, *arguments: str, code: int = 0, ini: str = "") -> str:
        """Only our plugin (and xdist), and no way to import JAX or Brax."""
        self.write(
            "sitecustomize.py",
            "import sys\nsys.modules.update({n: None for n in ('jax', 'brax', 'flax', 'optax')})\n",
        )
        paths = [str(self.folder), str(ROOT)]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "ablations.regression.plugin", *arguments],
            cwd=self.folder,
            env=dict(os.environ)
            | {"PYTHONPATH": os.pathsep.join(paths), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "INTERNALERROR" not in done.stdout + done.stderr
        return done.stdout + done.stderr

    def plant(self, old: str, new: str) -> None:
        assert old in TRAINER
        self.write("trainer.py", TRAINER.replace(old, new))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("foreign"))
    project.pytest("--learning-curve-update", "--reason", "first version")
    return project


@pytest.fixture
def project(stored: Project, tmp_path: Path) -> Project:
    mine = Project(tmp_path)
    (tmp_path / "tests/learning_curves").mkdir()
    for path in (stored.folder / "tests/learning_curves").iterdir():
        (tmp_path / "tests/learning_curves" / path.name).write_bytes(path.read_bytes())
    return mine


def test_without_a_baseline_it_says_how_to_get_one(tmp_path: Path) -> None:
    said = Project(tmp_path).pytest(code=1)
    assert "no baseline 'bandit' in" in said
    assert "--learning-curve-update --reason" in said
    assert "Traceback" not in said


def test_an_unchanged_trainer_passes(project: Project) -> None:
    said = project.pytest("-rP")
    assert "bandit: identical, to the bit, on 20 seeds" in said
    assert "asked [4]" in said
    assert "3 passed" in said


def test_a_harmless_change_passes(project: Project) -> None:
    """Other random numbers, as after a refactor: nothing is identical, nothing is worse."""
    project.plant("default_rng(seed)", "default_rng([seed, 1])")
    said = project.pytest()
    assert "bandit is no worse: " in said
    assert "3 passed" in said


def test_a_planted_bug_fails_with_a_readable_message(project: Project) -> None:
    project.plant("RATE = 0.5", "RATE = 0.1")
    said = project.pytest("--learning-curve-figures", "figures", "-rP", code=1)
    assert "bandit got worse: " in said
    assert "of what the baseline learns" in said
    assert "2 failed, 1 passed" in said
    assert "Learning curves" in said
    assert "self._compare" not in said, "a traceback of ours helps nobody"
    drawn = [Path(path) for path in re.findall(r"figure: (\S+\.png)", said)]
    assert len(set(drawn)) == 2
    assert all(path.parent == project.folder / "figures" for path in drawn)
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in drawn)


def test_a_failure_is_drawn_without_being_asked(project: Project) -> None:
    project.plant("rewards - rewards.mean()", "rewards.mean() - rewards")
    said = project.pytest("-k", "still_learns", code=1)
    (drawn,) = set(re.findall(r"figure: (\S+\.png)", said))
    assert Path(drawn).exists()


def test_an_update_needs_a_reason_and_is_accepted(project: Project) -> None:
    project.plant("RATE = 0.5", "RATE = 0.1")
    said = project.pytest("--learning-curve-update", code=4)
    assert "--learning-curve-update needs --reason" in said
    said = project.pytest("--learning-curve-update", "--reason", "a gentler rate")
    assert "bandit: stored 20 seeds in tests/learning_curves/bandit.json: a gentler rate" in said
    one = json.loads((project.folder / "tests/learning_curves/bandit.json").read_text())
    assert [version["reason"] for version in one["history"]] == ["first version", "a gentler rate"]
    assert one["provenance"]["versions"]["numpy"]
    assert "identical" in project.pytest()


def test_it_works_under_xdist(project: Project) -> None:
    pytest.importorskip("xdist")
    project.plant("RATE = 0.5", "RATE = 0.1")
    said = project.pytest("-p", "xdist", "-n", "2", "--learning-curve-figures", "figures", code=1)
    assert "bandit got worse: " in said
    assert "2 failed, 1 passed" in said
    assert len(list((project.folder / "figures").glob("*.png"))) == 2
    project.pytest("-p", "xdist", "-n", "2", "--learning-curve-update", "--reason", "slower")
    assert "identical" in project.pytest()


BAD = {
    "other_steps": (
        "[train(s, 15) for s in range(8)]",
        "different steps: the baseline has 20 points up to step 20, these curves have 15",
    ),
    "few": ("[train(s + 50) for s in range(3)]", "too few seeds: 3 seeds against 20"),
    "nan": ("[train(s)[:-1] + [float('nan')] for s in range(8)]", "is nan at step 20"),
    "unequal": ("[train(s, 20 - s) for s in range(8)]", "unequal lengths"),
    "flat": ("train(0)", "curves are an array [seeds, points]"),
    "metric": ("[train(s) for s in range(8)], metric='loss'", "has another metric: 'return'"),
    "task": ("[train(s) for s in range(8)], task='cart'", "has another task: None"),
    "where": ("[train(s) for s in range(8)], name='a/b'", "letters, digits"),
    "newer": ("[train(s) for s in range(8)], name='newer'", "has format 9"),
    "damaged": ("[train(s) for s in range(8)], name='damaged'", "is damaged"),
    "cli": ("[train(s) for s in range(8)], name='cli'", "is a baseline of `ablations check`"),
}


def test_bad_input_is_one_line(project: Project) -> None:
    folder = project.folder / "tests/learning_curves"
    whole = json.loads((folder / "bandit.json").read_text())
    (folder / "newer.json").write_text(json.dumps(whole | {"format": 9}))
    (folder / "damaged.json").write_text("{")
    (folder / "cli.json").write_text(json.dumps(whole | {"curves": {}}))
    (folder / "cli.parquet").write_bytes((folder / "bandit.parquet").read_bytes())
    tests = ["from trainer import train\n"]
    for name, (arguments, _) in BAD.items():
        named = "" if "name=" in arguments else ", name='bandit'"
        tests.append(
            f"def test_{name}(learning_curve):\n    learning_curve.check({arguments}{named})\n"
        )
    project.write("tests/test_it.py", "\n".join(tests))
    said = project.pytest(code=1)
    assert f"{len(BAD)} failed" in said
    for name, (_, message) in BAD.items():
        part = said.partition(f"test_{name} __")[2].partition("\n___")[0]
        lines = [line for line in part.splitlines()[1:] if line.strip()]
        assert lines[0].startswith("learning_curve: "), name
        assert message in lines[0], lines[0]


def test_the_rate_can_be_that_of_the_whole_run(project: Project) -> None:
    project.write(
        "pytest.ini",
        "[pytest]\npythonpath = .\nlearning_curve_alpha_of = run\nlearning_curve_alpha = 0.02\n",
    )
    project.write(
        "tests/test_it.py",
        TESTS.replace('print("asked", asked)', "print('rate', found.terms.alpha)"),
    )
    assert "rate 0.01" in project.pytest("-rP")
    project.write("pytest.ini", "[pytest]\npythonpath = .\nlearning_curve_alpha = much\n")
    assert "learning_curve_alpha must be a number, not 'much'" in project.pytest(code=1)


def test_the_plugin_costs_nobody_anything_who_does_not_use_it(project: Project) -> None:
    script = (
        "import sys, ablations.regression.plugin\n"
        "heavy = {'jax', 'brax', 'numpy', 'scipy', 'pandas', 'matplotlib', 'pyarrow'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=dict(os.environ) | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_light_install_has_no_trainer_in_it() -> None:
    """What `pip install rl-ablations` pulls in: its requirements, theirs, and so on, by what is
    installed here."""
    from importlib.metadata import PackageNotFoundError, requires

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"learning_curve": "ablations.regression.plugin"}
    waiting, found = list(project["dependencies"]), set()
    while waiting:
        requirement = waiting.pop()
        if re.search(r";.*\bextra\b", requirement):
            continue
        name = re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")  # type: ignore[index]
        if name not in found:
            found.add(name)
            try:
                waiting += requires(name) or []
            except PackageNotFoundError:
                continue
    assert {"numpy", "pandas", "pyarrow", "python-dateutil"} <= found
    heavy = {"jax", "jaxlib", "brax", "flax", "optax", "orbax-checkpoint", "torch", "mujoco"}
    assert not heavy & found
