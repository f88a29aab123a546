"""`ablations render`: from a run's saved policies to something to watch."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ablations.commands.rendering import MOST, chosen
from ablations.errors import UserError

ROLLING = '''
"""The cart of the task `fast`, with a body to see, for the toy trainer."""
from typing import Any, NamedTuple

import jax.numpy as jnp
import toy

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
        import mujoco

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
))


studies.register(studies.Study(
    name="rolling",
    trainer="toy",
    title="A cart to watch",
    claim="none",
    claim_source="this test",
    baseline="slow",
    variants={
        "slow": studies.Variant({"rate": 0.01}),
        "quick": studies.Variant({"rate": 0.02}),
    },
    margin=0.05,
    profiles={"quick": studies.Profile(tasks=("rolling", "fast"), seeds=1, steps=640)},
))
'''


PLUGIN = ("--plugin", "rolling")


@pytest.fixture(scope="module")
def shell(shells: Callable[[], Any]) -> Any:
    """A folder in which the study has run."""
    made = shells()
    (made.folder / "rolling.py").write_text(ROLLING)
    made("run", "rolling", "--quiet", "--cluster", "debug", *PLUGIN)
    return made


def test_saved_policies_become_a_page(shell: Any) -> None:
    done = shell(
        *("render", "rolling", "--task", "rolling", "--variant", "slow", "quick"),
        *("--snapshot", "last", "--length", "4", *PLUGIN),
    )
    results = shell.folder / "results"
    path = shell.folder / done.stdout.strip()
    assert path == results / "render" / "rolling" / "rolling-slow-quick-seed0.html"
    text = path.read_text()
    assert text.count("last, step ") >= 2
    assert "rolling / rolling / seed 0" in text
    assert "in 4 steps" in text


def test_they_become_a_film(shell: Any) -> None:
    """With whatever MuJoCo can draw with; else one line says what to install."""
    film = shell.folder / "film.gif"
    wanted = ("render", "rolling", "--task", "rolling", "--output", "film.gif", "--length", "6")
    # Not a fork: MuJoCo chooses what it draws with when it is imported.
    done = subprocess.run(
        shell.command(*wanted, *PLUGIN),
        cwd=shell.folder,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert "Traceback" not in done.stderr
    if done.returncode:
        assert "MuJoCo cannot draw without a screen here" in done.stderr
        assert "install libegl1 or libosmesa6" in done.stderr
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
    ],
)
def test_what_cannot_be_watched_is_said_in_one_line(arguments, line: str, shell: Any) -> None:
    said = shell("render", "rolling", *arguments, *PLUGIN, code=2).stderr
    assert line in said
    assert said.count("\n") == 1


def test_no_more_than_a_page_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = list(range(0, 500, 10))
    monkeypatch.setattr("ablations.loading.saved_steps", lambda cell: steps)
    cells = [Path("a"), Path("b")]
    with pytest.raises(
        UserError, match=f"100 episodes are too many for a page \\(at most {MOST}\\)"
    ):
        chosen(cells, ["all"])
    assert chosen(cells, ["best", "10", "best"]) == [["best", "10"]] * 2
