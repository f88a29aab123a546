"""`ablations render`: from a run's saved policies to something to watch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from ablations.records import read_plan
from ablations.rendering import LONGEST_NAME, MOST, _chosen, _default_path

ROLLING = '''
"""The cart of the task `fast`, with a body to see, and a study of it."""
from typing import Any, NamedTuple

import jax.numpy as jnp
import mujoco

from ablations import studies, tasks

MODEL = """<mujoco><worldbody><light pos="0 0 3"/><geom type="plane" size="5 5 1"/>
<body name="ball" pos="0 0 .1"><joint type="slide" axis="1 0 0"/><geom size=".1"/></body>
</worldbody></mujoco>"""


class Pose(NamedTuple):
    pos: Any
    rot: Any


class Physics(NamedTuple):
    cart: Any
    x: Pose


class Rolling:
    observation_size, action_size, dt = 3, 1, 0.1

    def __init__(self, cart):
        self.cart, self.mj_model = cart, mujoco.MjModel.from_xml_string(MODEL)

    def with_body(self, state):
        place = jnp.stack([state.pipeline_state["position"], 0.0, 0.1])
        pose = Pose(place[None], jnp.array([[1.0, 0.0, 0.0, 0.0]]))
        return state.replace(pipeline_state=Physics(state.pipeline_state, pose))

    def reset(self, key):
        return self.with_body(self.cart.reset(key))

    def step(self, state, action):
        before = state.replace(pipeline_state=state.pipeline_state.cart)
        return self.with_body(self.cart.step(before, action))


fast = tasks.task("fast")
tasks.register(tasks.Task(
    name="rolling",
    summary="a cart that one can see",
    make=lambda settings: Rolling(fast.make(settings)),
    settings=fast.settings,
    hyperparameters=fast.hyperparameters,
))
studies.register(studies.Study(
    name="rolling",
    title="A cart to watch",
    claim="none",
    claim_source="this test",
    baseline="none",
    variants={
        "none": studies.Variant({"entropy_coefficient": 0.0}),
        "some": studies.Variant({"entropy_coefficient": 0.01}),
    },
    margin=0.05,
    profiles={"quick": studies.Profile(tasks=("rolling", "fast"), seeds=1, steps=4096)},
))
'''


class Shell:
    def __init__(self, folder: Path):
        self.folder = folder

    def __call__(self, *arguments: str, code: int = 0, **environment: str) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "ablations.cli", *arguments, "--plugin", "rolling"],
            cwd=self.folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout, done.stderr


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A folder in which the study has run."""
    folder = tmp_path_factory.mktemp("rolling")
    (folder / "rolling.py").write_text(ROLLING)
    made = Shell(folder)
    made("run", "rolling", "--quiet", "--cluster", "debug")
    return made


def test_saved_policies_become_a_page_that_the_report_links_to(shell: Shell) -> None:
    said, _ = shell(
        *("render", "rolling", "--task", "rolling", "--variant", "none", "some"),
        *("--steps", "best", "all", "--length", "9"),
    )
    results = shell.folder / "results"
    cells = {
        cell["variant"]: cell["hash"]
        for cell in read_plan(results, "rolling").cells
        if cell["task"] == "rolling"
    }
    name = f"rolling-none-some-seed0-{cells['none']}-{cells['some']}.html"
    path = shell.folder / said.strip()
    assert path == results / "renders" / "rolling" / name
    text = path.read_text()
    assert text.count("best, step ") >= 2
    assert "rolling / rolling / seed 0" in text
    assert "in 9 steps" in text

    again = path.read_bytes()
    shell(
        *("render", "rolling", "--task", "rolling", "--variant", "none", "some"),
        *("--steps", "best", "all", "--length", "9"),
    )
    assert path.read_bytes() == again, "the same policies give the same page"

    shell("report", "rolling")
    page = (results / "report" / "index.html").read_text()
    assert page.count(f'href="../renders/rolling/{name}"') == 2


def test_they_become_a_film(shell: Shell) -> None:
    """With whatever MuJoCo can draw with here; in one line what to install where there is nothing."""
    film = shell.folder / "film.gif"
    wanted = ("render", "rolling", "--task", "rolling", "--output", "film.gif", "--length", "6")
    try:
        shell(*wanted)
    except AssertionError as error:
        assert "MuJoCo cannot draw without a screen here" in str(error)
        assert "apt-get install libegl1 or libosmesa6" in str(error)
        pytest.skip("MuJoCo has nothing to draw with: apt-get install libegl1")
    with Image.open(film) as image:
        assert image.n_frames > 2
        first = image.convert("RGB").tobytes()
        image.seek(image.n_frames - 1)
        assert image.convert("RGB").tobytes() != first


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--task", "fast"), "task 'fast' has no bodies to draw"),
        ((), "ran on several tasks (rolling, fast): name one"),
        (("--task", "rolling", "--variant", "nine"), "unknown variant"),
        (("--task", "rolling", "--steps", "soon"), "none of best, last, all or a step"),
        (("--task", "rolling", "--steps", "7"), "no policy of step 7"),
        (("--task", "rolling", "--format", "mp4", "--output", "a.gif"), "--format says mp4"),
        (("--task", "rolling", "--format", "gif"), "invalid value for environment variable"),
    ],
)
def test_what_cannot_be_watched_is_said_in_one_line(
    arguments: tuple[str, ...], line: str, shell: Shell
) -> None:
    _, said = shell("render", "rolling", *arguments, code=2, MUJOCO_GL="nothing")
    assert line in said
    assert said.count("\n") == 1


def test_no_more_than_a_page_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = list(range(0, 500, 10))
    monkeypatch.setattr("ablations.sweep.policies.saved_steps", lambda cell: steps)
    cells = [Path("a"), Path("b")]
    chosen, notes = _chosen(cells, ["all"])
    assert [len(one) for one in chosen] == [MOST // 2] * 2
    assert (chosen[0][0], chosen[0][-1]) == (steps[0], steps[-1])
    assert len(notes) == 2


def test_a_files_name_is_safe_and_short() -> None:
    cells = [Path(f"{i:016x}") for i in range(MOST)]
    path = _default_path(Path("r"), "../gae", "a/b", ["x y" * 40] * MOST, 0, cells, "html")
    assert path.parent.parent == Path("r/renders")
    assert len(path.name) <= LONGEST_NAME
    assert all(cell.name in path.name for cell in cells)
