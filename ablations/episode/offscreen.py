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

AZIMUTH = 118.0  # degrees in MuJoCo's convention: the first view of the page


def choose_gl() -> None:
    """Make MuJoCo draw with EGL or OSMesa if there is no screen and MUJOCO_GL is not set.

    Call it before MuJoCo is imported. Raises UserError if neither is installed, or if MUJOCO_GL has
    an invalid value.
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
    """Yield uint8 [H, W, 3] for each of the places (indices of frames), as on the page.

    Args:
        model: the mujoco.MjModel of the scene.
        scene: the shapes.
        positions: [T + 1, B, 3] in metres.
        rotations: [T + 1, B, 4], quaternions with w first.
        places: indices from 0 to T.
        size: width and height in pixels.
        ink: colour in [0, 1] of bodies without a colour.

    Raises UserError if MuJoCo cannot draw.
    """
    import mujoco

    width, height = size
    model = _plain(model, scene, ink)
    # Usually a CPU draws: avoid larger buffers and fine shadows.
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    model.vis.quality.shadowsize, model.vis.quality.offsamples = 2048, 2
    try:
        renderer = mujoco.Renderer(model, height, width)
    # The error of a missing library depends on the backend; PyOpenGL raises AttributeError.
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
    """Move a geom to its body. MuJoCo draws from its position and matrix only."""
    import mujoco

    body = rotations[geom.body].astype(np.float64)
    turned, rotation, matrix = np.zeros(3), np.zeros(4), np.zeros(9)
    mujoco.mju_rotVecQuat(turned, np.array(geom.position), body)
    mujoco.mju_mulQuat(rotation, body, np.array(geom.rotation))
    mujoco.mju_quat2Mat(matrix, rotation)
    data.geom_xpos[geom.index] = positions[geom.body] + turned
    data.geom_xmat[geom.index] = matrix


def _plain(model: mujoco.MjModel, scene: Scene, ink: Sequence[float]) -> mujoco.MjModel:
    """Return a copy of the model with bright floors, coloured bodies and no mirrors."""
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
        f"MuJoCo cannot draw without a screen here ({what}): install libegl1 or libosmesa6 and set "
        f"MUJOCO_GL=egl or osmesa, or use --format html"
    )
