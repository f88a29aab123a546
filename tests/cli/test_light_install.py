"""`pip install rl-ablations` alone: all but JAX's trainers works without JAX."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import walk

ROOT = Path(__file__).parents[2]
LEFT_OUT = ("jax", "jaxlib", "flax", "optax", "brax", "mujoco", "submitit", "tensorboard")
DRY = "--tasks hopper --profile smoke --dry-run"

# command -> its exit code, and a part of what it prints
COMMANDS = {
    "list": (0, "gae: Advantage estimation"),
    "list components": (0, "one-step advantage"),
    "list tasks": (0, "halfcheetah: run forward"),
    "show gae": (0, "baseline  standard"),
    "show advantage": (0, "a component of ppo, language"),
    "show done_cut": (0, "a choice of advantage"),
    "show brax --against cleanrl": (0, "num_envs"),
    "show breakout": (0, "actions are whole numbers; observations are images"),
    f"run gae {DRY}": (0, "15 runs: 0 done, 15 to run"),
    f"sweep gae_lambda=0.9,0.95 {DRY}": (0, "to run"),
    f"explain brax cleanrl {DRY}": (0, "details, switched in a random order per seed"),
    f"run gae {DRY} --cluster slurm time=60": (2, "not on the PATH: sbatch"),
    "table gae --tasks hopper --profile smoke": (0, "There is no finished comparison yet"),
    "run gae --tasks hopper --profile smoke": (2, "pip install 'rl-ablations[train]'"),
    "run gae --script --cluster slurm": (2, "not on the PATH: sbatch"),
    "import events --study mine": (2, "pip install 'rl-ablations[tensorboard]'"),
    "figure gae --tasks hopper --profile smoke": (0, ".svg"),
    "report gae --tasks hopper --profile smoke": (0, "index.html"),
    "run gae --vary gae_lambda=0.9,2": (2, "out of range: it goes from 0 to 1"),
    "run walk.toml --seeds 6 --workers 2": (0, "0 done, 12 to run; 2 workers"),
    "table walk": (0, "1 comparison inconclusive"),
    "status walk.toml": (0, "walk: 12 done"),
    "show walk.toml/fast": (0, "drift = 12"),
    "figure walk --kind curves": (0, "walk_curves.svg"),
    "check b --save walk": (0, "b: 2 curves of 6 seeds"),
    "check b --seeds 8": (0, "identical"),
    "run walk.toml --until decided --most-seeds 8": (0, "decided"),
}
PROGRAM = """
import contextlib, io, json, sys
from ablations.cli import app, commands, main

for name in commands():
    app(name)  # imports its module
answers = []
for command in json.load(sys.stdin):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(command.split())
    answers.append((code, out.getvalue()))
assert not any(name in sys.modules and sys.modules[name] for name in %r)
json.dump(answers, sys.stdout)
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, tuple[int, str]]:
    """All in one process without what the extras bring, and without Slurm."""
    folder = tmp_path_factory.mktemp("light")
    block = f"import sys\nfor name in {LEFT_OUT}:\n    sys.modules[name] = None\n"
    (folder / "sitecustomize.py").write_text(block)
    for name, text in walk.FILES.items():
        (folder / name).write_text(text)
    (folder / "bin").mkdir()
    (folder / "bin" / "sh").symlink_to("/bin/sh")
    (folder / "events").mkdir()
    (folder / "events" / "events.out.tfevents.1.host").touch()
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "PATH": str(folder / "bin"),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM % (LEFT_OUT,)],
        cwd=folder,
        env=environment,
        input=json.dumps(list(COMMANDS)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(COMMANDS, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_light_install_does_what_it_says(command: str, answers) -> None:
    code, part = COMMANDS[command]
    assert answers[command][0] == code, answers[command][1]
    assert part in answers[command][1]
    if code == 2:
        assert answers[command][1].count("\n") == 1
