"""The pytest plugin in a project that is not ours, with a trainer that is not ours: NumPy alone."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import forked
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
def test_bandit_still_learns(learning_curve):
    learning_curve.check([train(seed) for seed in range(20)], name="bandit")

def test_asked_for_more(learning_curve):
    asked = []
    def more(seeds):
        asked.append(len(seeds))
        return np.array([train(seed) for seed in seeds])
    found = learning_curve.check(more, name="bandit-more", effect=0.1)
    print("asked", asked)

def test_something_else():
    pass
"""
UPDATE = "--learning-curve-update"
CURVES = "[train(seed) for seed in range(20)]"


class Project:
    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "tests").mkdir()
        self.write("trainer.py", TRAINER)
        self.write("pytest.ini", "[pytest]\npythonpath = .\n")
        self.test(TESTS)

    def write(self, path: str, text: str) -> None:
        (self.folder / path).write_text(text)

    def pytest(self, *arguments: str, code: int = 0, alone: bool = False) -> str:
        """Only our plugin (and xdist). alone: in a new process that cannot import JAX or Brax."""
        words = ["-p", "ablations.regression.plugin", *arguments]
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        if alone:
            block = "import sys\nsys.modules |= dict.fromkeys(('jax', 'brax', 'flax', 'optax'))\n"
            self.write("sitecustomize.py", block)
            environment["PYTHONPATH"] = os.pathsep.join([str(self.folder), str(ROOT)])
            command = [sys.executable, "-m", "pytest", *words]
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True
            )
        else:
            program = f"import pytest, sys; sys.exit(pytest.main({words!r}))"
            done = forked.run(["python", "-c", program], self.folder, environment)
        said = done.stdout + done.stderr
        assert done.returncode == code, f"exit {done.returncode}\n{said}"
        assert "INTERNALERROR" not in said
        return said

    def test(self, text: str) -> None:
        """What tests/test_it.py is from now on."""
        self.write("tests/test_it.py", f"import numpy as np\nfrom trainer import train\n\n{text}")

    def plant(self, old: str, new: str) -> None:
        assert old in TRAINER
        self.write("trainer.py", TRAINER.replace(old, new))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("foreign"))
    said = project.pytest(code=1)
    assert "no baseline 'bandit' in" in said
    assert "store these curves with `pytest --learning-curve-update`" in said
    assert "Traceback" not in said
    project.pytest(UPDATE)
    return project


@pytest.fixture
def project(stored: Project, tmp_path: Path) -> Project:
    mine = Project(tmp_path)
    (tmp_path / "tests/learning_curves").mkdir()
    for path in (stored.folder / "tests/learning_curves").iterdir():
        (tmp_path / "tests/learning_curves" / path.name).write_bytes(path.read_bytes())
    return mine


def test_an_unchanged_trainer_passes(project: Project) -> None:
    project.write("other.py", "def pytest_addoption(parser):\n    parser.addoption('--reason')\n")
    said = project.pytest("-rP", "-p", "other", "--reason", "theirs")
    assert "bandit: identical bit for bit on 20 seeds" in said
    assert "asked [4]" in said
    assert "3 passed" in said


def test_a_harmless_change_passes_and_loads_little(project: Project) -> None:
    """Other random numbers, as after a refactor: nothing is identical, nothing is worse."""
    project.plant("default_rng(seed)", "default_rng([seed, 1])")
    heavy = "{'pandas', 'matplotlib', 'seaborn', 'jinja2', 'rich'}"
    loaded = "\ndef test_last():\n    import sys\n    assert not {} & set(sys.modules)\n"
    project.test(TESTS + loaded.format(heavy))
    said = project.pytest(alone=True)
    assert "bandit passes, " in said
    assert "4 passed" in said


def test_a_planted_bug_fails_with_a_readable_message(project: Project) -> None:
    project.plant("RATE = 0.5", "RATE = 0.1")
    said = project.pytest("--learning-curve-figures", "figures", "-rP", code=1)
    assert "bandit got worse: " in said
    assert "2 failed, 1 passed" in said
    assert re.search(r"\| (final performance|area under the curve) .* worse +\|", said)
    assert "self._report" not in said, "a traceback of ours helps nobody"
    drawn = {Path(path) for path in re.findall(r"figure: (\S+\.png)", said)}
    assert len(drawn) == 2
    assert all(path.parent == project.folder / "figures" for path in drawn)
    (drawn,) = set(re.findall(r"figure: (\S+\.png)", project.pytest("-k", "still", code=1)))
    assert Path(drawn).name == "test_it.test_bandit_still_learns_bandit.png"
    assert Path(drawn).read_bytes()[:4] == b"\x89PNG", "a failure is drawn without being asked"


def test_an_update_says_what_changes(project: Project) -> None:
    project.plant("RATE = 0.5", "RATE = 0.1")
    project.test(
        f"def test_it(learning_curve):\n    found = learning_curve.check({CURVES}, name='bandit')\n"
        "    print('found', found.verdict, found.rows[0].difference, len(found.now))\n"
    )
    said = project.pytest(UPDATE, "-rP")
    said = " ".join(said.split())
    assert "bandit: stored 20 seeds in tests/learning_curves/bandit.json; compared" in said
    assert "compared with the previous version: bandit got worse: " in said
    assert "found equivalent 0.0 20" in said
    assert "identical" in project.pytest()


def test_it_works_under_xdist(project: Project) -> None:
    pytest.importorskip("xdist")
    project.plant("RATE = 0.5", "RATE = 0.1")
    parallel = ("-p", "xdist", "-n", "2")
    said = project.pytest(*parallel, "--learning-curve-figures", "figures", code=1)
    assert "bandit got worse: " in said
    assert "2 failed, 1 passed" in said
    assert len(list((project.folder / "figures").glob("*.png"))) == 2
    project.pytest(*parallel, UPDATE)
    assert "identical" in project.pytest()


EIGHT = "[train(s) for s in range(8)]"
BAD = {
    "few": ("[train(s + 50) for s in range(3)]", "too few seeds: 3 seeds against 20"),
    "nan": ("[train(s)[:-1] + [float('nan')] for s in range(8)]", "is nan at step 20"),
    "metric": (f"{EIGHT}, metric='loss'", "has another metric: 'return'"),
    "twice": (f"{EIGHT}, name='few'", "the name 'few' is used by tests/test_it.py::test_few"),
    "again": (
        f"{EIGHT}, name='bandit')\n    learning_curve.check({EIGHT}, name='bandit'",
        "the name 'bandit' is used earlier in this test",
    ),
    "cli": (f"{EIGHT}, name='cli'", "is a baseline of `ablations check`"),
}


def test_bad_input_is_one_line(project: Project) -> None:
    folder = project.folder / "tests/learning_curves"
    whole = json.loads((folder / "bandit.json").read_text())
    empty = hashlib.sha256(b"curves,seed,step,value\n").hexdigest()
    (folder / "cli.json").write_text(json.dumps(whole | {"curves": {}, "sha256": empty}))
    (folder / "cli.csv").write_text("curves,seed,step,value\n")
    tests = []
    for name, (arguments, _) in BAD.items():
        named = "" if "name=" in arguments else f", name='{name}'"
        for suffix in ("json", "csv") if named else ():
            copied = (folder / f"bandit.{suffix}").read_bytes()
            (folder / f"{name}.{suffix}").write_bytes(copied)
        tests.append(
            f"def test_{name}(learning_curve):\n    learning_curve.check({arguments}{named})\n"
        )
    project.test("\n".join(tests))
    said = project.pytest(code=1)
    assert f"{len(BAD)} failed" in said
    for name, (_, message) in BAD.items():
        part = said.partition(f"test_{name} __")[2].partition("\n___")[0]
        lines = [line for line in part.splitlines()[1:] if line.strip()]
        assert lines[0].startswith("learning_curve: "), name
        assert message in lines[0], lines[0]


def test_the_plugin_costs_nobody_anything_who_does_not_use_it() -> None:
    script = (
        "import sys, ablations.regression.plugin\n"
        "heavy = {'jax', 'brax', 'numpy', 'scipy', 'pandas', 'matplotlib', 'pyarrow'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_name_is_the_tests_own_unless_it_is_given(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.test(
        "import pytest\n"
        "class TestBandit:\n"
        "    @pytest.mark.parametrize('rate', [0.5, 'a/b'])\n"
        f"    def test_it(self, learning_curve, rate):\n        learning_curve.check({CURVES})\n"
    )
    said = project.pytest(UPDATE)
    names = ["test_it.TestBandit.test_it_0.5", "test_it.TestBandit.test_it_a_b"]
    files = sorted(path.name for path in (tmp_path / "tests/learning_curves").iterdir())
    assert files == sorted(f"{n}.{suffix}" for n in names for suffix in ("csv", "json"))
    assert f"{names[0]}: stored 20 seeds" in said
    assert project.pytest().count("identical bit for bit") == 2
