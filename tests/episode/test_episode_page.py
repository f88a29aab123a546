"""An episode's page: what is in it, and that it moves in a browser without network."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import complaints, requests

from ablations.episode import page as episode
from ablations.episode.scene import Geom, Scene

NASTY = '<script>alert("x")</script>&</script><img src=x onerror=alert(1)>'
UPRIGHT = (1.0, 0.0, 0.0, 0.0)


def scene() -> Scene:
    """A ball with an arm, a marker of its own, and every kind of geom."""
    kinds = ("capsule", "ellipsoid", "cylinder", "box")
    mesh = Geom(
        0,
        "mesh",
        (0.2, 0.2, 0.2),
        (0.0, 0.0, 0.4),
        UPRIGHT,
        None,
        vertices=0.2 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]]),
        faces=np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]),
    )
    return Scene(
        trees=(0, 1),
        geoms=(
            Geom(-1, "plane", (0.0, 0.0, 1.0), (0.0, 0.0, 0.0), UPRIGHT, None),
            Geom(0, "sphere", (0.3, 0.0, 0.0), (0.0, 0.0, 0.0), UPRIGHT, None),
            *(
                Geom(0, kind, (0.1, 0.2, 0.1), (0.2 * i, 0.2, 0.3), UPRIGHT, None)
                for i, kind in enumerate(kinds)
            ),
            Geom(1, "sphere", (0.1, 0.0, 0.0), (0.0, 0.0, 0.0), UPRIGHT, (1.0, 0.0, 0.0, 0.5)),
            mesh,
        ),
        timestep=0.05,
    )


def run(variant: str = "standard", steps: int = 60, **fields: Any) -> episode.Run:
    """A ball that rolls along x, in front of a marker that stays."""
    t = np.arange(steps + 1) / 20
    ball = np.stack([t, 0 * t, 0.3 + 0 * t], axis=-1)
    turn = np.stack([np.cos(t), 0 * t, np.sin(t), 0 * t], axis=-1)
    still = np.broadcast_to([0.5, 1.0, 0.1], ball.shape)
    flat = np.broadcast_to(UPRIGHT, turn.shape)
    given = {
        "variant": variant,
        "snapshot": "best",
        "step": 4096,
        "scene": scene(),
        "positions": np.stack([ball, still], axis=1).astype(np.float32),
        "rotations": np.stack([turn, flat], axis=1).astype(np.float32),
        "rewards": np.sin(t[1:]).astype(np.float32),
        "end": "terminated",
    }
    return episode.Run(**given | fields)


def unpacked(page: str, name: str) -> bytes:
    text = re.search(rf'id="{name}">([^<]*)<', page)
    assert text is not None
    return gzip.decompress(base64.b64decode(text[1]))


def test_the_frames_come_back_to_a_tenth_of_a_millimetre() -> None:
    runs = [run(), run("brax", steps=25)]
    page = episode.render("gae", "ball", 0, runs)
    raw, told = unpacked(page, "frames"), json.loads(unpacked(page, "data"))
    for one, about in zip(runs, told["runs"], strict=True):
        shape = (2, 7, about["frames"])
        size = 4 * int(np.prod(shape))
        differences, raw = np.frombuffer(raw[:size], "<i4").reshape(shape), raw[size:]
        values = np.cumsum(differences, axis=-1) * told["resolution"]
        frames = np.moveaxis(values, -1, 0)
        np.testing.assert_allclose(frames[..., :3], one.positions, atol=0.51e-4)
        np.testing.assert_allclose(frames[..., 3:], one.rotations, atol=0.51e-4)
        np.testing.assert_allclose(about["rewards"], one.rewards, rtol=1e-5)
    assert raw == b""


# In a browser

BROWSER = pytest.mark.inputs("ablations/episode", "tests/browser.py")

# After the frame that draws what was asked for
PIXELS = """
const done = arguments[0];
const pixels = () => [...document.querySelectorAll('canvas')].map((one) => one.toDataURL());
requestAnimationFrame(() => requestAnimationFrame(() => done(pixels())));
"""
READY = "return document.body.classList.contains('playing') || !!document.querySelector('.line[d]')"


def wait(page: Any, script: str) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(page, 600, 0.1).until(lambda one: one.execute_script(script))


def at_step(page: Any, step: int) -> list[str]:
    """The pixels of all views once they show a step."""
    page.execute_script(
        "const time = document.getElementById('time'); time.value = arguments[0];"
        "time.dispatchEvent(new Event('input'));",
        step,
    )
    wait(page, f"return document.getElementById('clock').textContent.startsWith('{step} ')")
    return page.execute_async_script(PIXELS)


def own(messages: list[str]) -> list[str]:
    """Without what the software renderer says of its speed."""
    return [one for one in messages if "GL Driver Message (OpenGL, Performance" not in one]


@BROWSER
def test_it_moves_in_a_browser_without_network(tmp_path: Path, desktop) -> None:
    path = tmp_path / "episode.html"
    episode.write(path, f"gae {NASTY}", "ball", 0, [run(NASTY), run("brax", steps=20)])
    desktop.set_window_size(800, 600)  # software draws each pixel
    desktop.get(f"{path.as_uri()}#step=0")
    wait(desktop, READY)
    first, later = at_step(desktop, 2), at_step(desktop, 40)
    assert len(first) == len(later) == 2
    assert first[0] != later[0]
    assert first[0] != first[1], "each in its own colour"
    assert at_step(desktop, 2) == first, "the same step looks the same"

    read = "return [...document.querySelectorAll('[data-is=step]')].map((e) => e.textContent)"
    at_step(desktop, 40)
    assert desktop.execute_script(read) == ["40", "20"], "in step, the shorter one waits at its end"
    over = desktop.execute_script(
        "return [...document.querySelectorAll('.over')].map((one) => one.hidden)"
    )
    assert over == [True, False]

    assert own(complaints(desktop)) == []
    assert requests(desktop) == [path.as_uri()]
    assert desktop.execute_script("return document.querySelectorAll('main script').length") == 0
    assert desktop.execute_script("return document.getElementById('problem').hidden")


@BROWSER
def test_keys_and_pointer_move_the_clock_and_the_camera(tmp_path: Path, desktop) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    path = tmp_path / "episode.html"
    episode.write(path, "gae", "ball", 0, [run()])
    clock = "return document.getElementById('clock').textContent.split(' ')[0]"
    desktop.set_window_size(800, 600)  # software draws each pixel
    desktop.get(f"{path.as_uri()}#step=10")
    wait(desktop, READY)
    body = desktop.find_element(By.TAG_NAME, "body")
    for keys, step in (
        (Keys.ARROW_RIGHT, "11"),
        (Keys.ARROW_LEFT, "10"),
        (Keys.SHIFT + Keys.ARROW_RIGHT, "20"),
        (Keys.END, "60"),
        (Keys.HOME, "0"),
    ):
        body.send_keys(keys)
        wait(desktop, f"{clock} === '{step}'")
    body.send_keys(" ")
    wait(desktop, "return document.body.classList.contains('playing')")
    wait(desktop, f"{clock} !== '0'")
    body.send_keys(" ")
    wait(desktop, "return !document.body.classList.contains('playing')")

    before = at_step(desktop, 10)
    canvas = desktop.find_element(By.TAG_NAME, "canvas")
    ActionChains(desktop).drag_and_drop_by_offset(canvas, 120, 40).perform()
    turned = at_step(desktop, 10)
    assert turned != before
    ActionChains(desktop).double_click(canvas).perform()
    assert at_step(desktop, 10) == before
    canvas.send_keys("+")
    assert at_step(desktop, 10) != before
    canvas.send_keys("0")
    assert at_step(desktop, 10) == before


@BROWSER
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_phone_in_both_themes(theme: str, tmp_path: Path, phone) -> None:
    path = tmp_path / "episode.html"
    episode.write(path, "gae", "inverted_double_pendulum", 0, [run(f"v{i}") for i in range(3)])
    phone.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": theme}]},
    )
    phone.get(f"{path.as_uri()}#step=5")
    wait(phone, READY)
    width, player, height = phone.execute_script(
        "return [document.documentElement.scrollWidth, "
        "document.getElementById('player').getBoundingClientRect().bottom, innerHeight]"
    )
    assert width <= 390
    assert player <= height
    ground = phone.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == (theme == "dark")
    at_step(phone, 6)
    assert own(complaints(phone)) == []


@BROWSER
def test_it_can_be_read_by_a_screen_reader(tmp_path: Path, desktop) -> None:
    axe = pytest.importorskip("axe_core_python.selenium")
    path = tmp_path / "episode.html"
    episode.write(path, "gae", "ball", 0, [run(), run("brax")])
    desktop.get(f"{path.as_uri()}#step=5")
    wait(desktop, READY)
    found = axe.Axe().run(desktop)["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
