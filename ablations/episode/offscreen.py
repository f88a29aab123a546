"""Pictures of an environment's bodies, drawn by MuJoCo without a screen."""

from __future__ import annotations

import copy
import ctypes.util
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ablations.episode.scene import Geom, Scene, view
from ablations.errors import UserError

if TYPE_CHECKING:
    import mujoco

AZIMUTH = 118.0  # degrees, as MuJoCo counts them: the page's first view


def choose_gl() -> None:
    """Have MuJoCo draw with EGL or OSMesa where there is no screen and nobody chose.

    MuJoCo reads it once: to be called before anything imports it. Raises UserError where neither is
    installed, or for no such choice.
    """
    if sys.platform == "linux" and not {"MUJOCO_GL", "DISPLAY"} & os.environ.keys():
        libraries = [name for name in ("EGL", "OSMesa") if ctypes.util.find_library(name)]
        if not libraries:
            raise _missing("neither EGL nor OSMesa is installed")
        os.environ["MUJOCO_GL"] = libraries[0].lower()
    try:
        import mujoco  # noqa: F401
    except RuntimeError as error:
        raise _missing(str(error)) from None


def pictures(
    model: mujoco.MjModel,
    scene: Scene,
    positions: np.ndarray,
    rotations: np.ndarray,
    places: Sequence[int],
    size: tuple[int, int],
    ink: tuple[float, float, float],
) -> Iterator[np.ndarray]:
    """Yield uint8 [H, W, 3] for each of the places along T + 1 frames, as the page draws them.

    model: the mujoco.MjModel that the scene was read from. positions [T + 1, B, 3] in metres,
    rotations [T + 1, B, 4] as quaternions with w first. size: width and height in pixels.
    ink: colour in [0, 1] of the bodies that the model gives none.
    Raises UserError where MuJoCo finds nothing to draw with.
    """
    import mujoco

    width, height = size
    model = _plain(model, scene, ink)
    # Drawn by a CPU as a rule: no larger than asked for, and shadows of a sensible size.
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    model.vis.quality.shadowsize, model.vis.quality.offsamples = 2048, 2
    try:
        renderer = mujoco.Renderer(model, height, width)
    # What a missing library looks like depends on the backend: PyOpenGL fails on an attribute.
    except (ImportError, AttributeError, OSError, RuntimeError, mujoco.FatalError) as error:
        raise _missing(str(error).partition("\n")[0]) from None
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    moving = [geom for geom in scene.geoms if geom.body >= 0]
    shown = view(scene, positions)
    camera = mujoco.MjvCamera()
    camera.azimuth, camera.elevation = AZIMUTH, -shown.elevation
    camera.distance = 1.1 * shown.radius / np.sin(np.radians(model.vis.global_.fovy / 2))
    try:
        for place in places:
            for geom in moving:
                _put(data, geom, positions[place], rotations[place])
            camera.lookat[:] = shown.targets[place]
            renderer.update_scene(data, camera)
            yield renderer.render()
    finally:
        renderer.close()


def _put(data: mujoco.MjData, geom: Geom, positions: np.ndarray, rotations: np.ndarray) -> None:
    """Put a geom where its body is. MuJoCo draws from these two alone."""
    import mujoco

    body = rotations[geom.body].astype(np.float64)
    turned, rotation, matrix = np.zeros(3), np.zeros(4), np.zeros(9)
    mujoco.mju_rotVecQuat(turned, np.array(geom.position), body)
    mujoco.mju_mulQuat(rotation, body, np.array(geom.rotation))
    mujoco.mju_quat2Mat(matrix, rotation)
    data.geom_xpos[geom.index] = positions[geom.body] + turned
    data.geom_xmat[geom.index] = matrix


def _plain(model: mujoco.MjModel, scene: Scene, ink: Sequence[float]) -> mujoco.MjModel:
    """Return a copy of the model with bright floors, the bodies in ink, no mirrors."""
    model = copy.deepcopy(model)
    model.mat_reflectance[:] = 0
    model.tex_data[:] = 150 + model.tex_data // 6
    for geom in scene.geoms:
        if geom.kind == "plane":
            model.geom_rgba[geom.index] = (0.62, 0.64, 0.68, 1) if geom.color else (1, 1, 1, 1)
        elif geom.color is None:
            model.geom_matid[geom.index] = -1
            own = ink if geom.body >= 0 and scene.trees[geom.body] == 0 else (0.55, 0.58, 0.63)
            model.geom_rgba[geom.index] = (*own, 1)
    model.vis.headlight.ambient[:] = 0.25
    return model


def _missing(what: str) -> UserError:
    return UserError(
        f"MuJoCo cannot draw without a screen here ({what}): apt-get install libegl1 or libosmesa6 "
        f"and set MUJOCO_GL=egl or osmesa; or render with --format html"
    )
