"""Episodes side by side as one GIF, drawn by MuJoCo without a screen."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scipy.spatial.transform import Rotation

from ablations.episode.page import Run
from ablations.episode.scene import view
from ablations.errors import UserError
from ablations.records import write_atomically

if TYPE_CHECKING:
    import mujoco

RATE = 20  # pictures per second of episode, at most
COLUMNS = 4
SIZE = (400, 300)  # pixels of one run
AZIMUTH = 118.0  # degrees in MuJoCo's convention: the first view of the page
# The error of a missing library depends on the backend; PyOpenGL raises AttributeError.
_MISSING = (ImportError, AttributeError, OSError, RuntimeError)


def choose_gl() -> None:
    """Make MuJoCo draw with EGL if there is no screen. Call it before MuJoCo is imported.

    Raises UserError if EGL, or what MUJOCO_GL names, is not installed.
    """
    if sys.platform == "linux" and not {"MUJOCO_GL", "DISPLAY"} & os.environ.keys():
        os.environ["MUJOCO_GL"] = "egl"
    try:
        import mujoco  # noqa: F401
    except _MISSING as error:
        raise _missing(str(error)) from None


def write(path: Path, runs: Sequence[Run], models: Sequence[mujoco.MjModel]) -> None:
    """Write a GIF in real time, atomically. A run that ends earlier shows its last picture.

    Raises UserError if MuJoCo cannot draw.
    """
    timestep = runs[0].scene.timestep
    every = max(1, math.ceil(1 / RATE / timestep - 1e-6))
    films = [[*_pictures(*each, every)] for each in zip(runs, models, strict=True)]
    columns = min(len(runs), COLUMNS)
    width, height = SIZE
    frames = []
    for index in range(max(map(len, films))):
        frame = Image.new("RGB", (columns * width, -(-len(runs) // columns) * height), "white")
        for place, film in enumerate(films):
            at = (place % columns * width, place // columns * height)
            frame.paste(film[min(index, len(film) - 1)], at)
        frames.append(frame.quantize(128, dither=Image.Dither.NONE))
    duration = max(20, round(every * timestep * 100) * 10)  # GIF counts in hundredths
    file = io.BytesIO()
    frames[0].save(
        file, "GIF", save_all=True, append_images=frames[1:], duration=duration, loop=0, disposal=1
    )
    write_atomically(path, file.getvalue())


def _pictures(run: Run, model: mujoco.MjModel, every: int) -> Iterator[Image.Image]:
    """Yield pictures of a run with its name, step and return; the last frame is one of them."""
    import mujoco

    width, height = SIZE
    try:
        renderer = mujoco.Renderer(model, height, width)
    except (*_MISSING, mujoco.FatalError) as error:
        raise _missing(str(error).partition("\n")[0]) from None
    data, font = mujoco.MjData(model), ImageFont.load_default(15)
    mujoco.mj_forward(model, data)
    shown = view(run.scene, run.positions)
    camera = mujoco.MjvCamera()
    camera.azimuth, camera.elevation = AZIMUTH, -shown.elevation
    camera.distance = 1.1 * shown.radius / np.sin(np.radians(model.vis.global_.fovy / 2))
    moving = np.flatnonzero(model.geom_bodyid)
    bodies, fixed = model.geom_bodyid[moving] - 1, _rotation(model.geom_quat[moving])
    for step in (*range(0, len(run.rewards), every), len(run.rewards)):
        # MuJoCo draws a geom from its position and matrix only.
        turned = _rotation(run.rotations[step, bodies])
        offsets = turned.apply(model.geom_pos[moving])
        data.geom_xpos[moving] = run.positions[step, bodies] + offsets
        data.geom_xmat[moving] = (turned * fixed).as_matrix().reshape(-1, 9)
        camera.lookat[:] = shown.targets[step]
        renderer.update_scene(data, camera)
        picture = Image.fromarray(renderer.render())
        total = np.sum(run.rewards[:step], dtype=np.float64)
        texts = f"{run.variant}, {run.policy}", f"step {step:,}  return {total:.4g}"
        for text, down in zip(texts, (6, height - 26), strict=True):
            where = (8, down)
            ImageDraw.Draw(picture).text(
                where, text, "#16191d", font, stroke_width=2, stroke_fill="white"
            )
        yield picture
    renderer.close()


def _rotation(quaternions: np.ndarray) -> Rotation:
    return Rotation.from_quat(np.roll(quaternions, -1, axis=-1))  # w last


def _missing(what: str) -> UserError:
    return UserError(
        f"MuJoCo cannot draw without a screen here ({what}): install libegl1 or libosmesa6 and set "
        f"MUJOCO_GL=egl or osmesa, or use --format html"
    )
