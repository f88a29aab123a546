"""The bodies of an environment as plain data, for an episode's page and pictures.

It works for environments with a MuJoCo model: Brax (`env.sys.mj_model`, bodies in
`state.pipeline_state.x`) and MuJoCo Playground (`env.mj_model`, bodies in `state.data`). It imports
neither JAX nor MuJoCo.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import uniform_filter1d

from ablations.errors import UserError
from ablations.tasks.task import Environment

if TYPE_CHECKING:
    import jax
    import mujoco

    from ablations.trainers import Tree

# mjtGeom. Height fields, skins and signed distance fields are not drawn.
_KINDS = {0: "plane", 2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder", 6: "box", 7: "mesh"}
_SHOWN_GROUPS = 3  # MuJoCo shows the groups 0 to 2; the others have collision shapes
# MuJoCo's default and the brown of Brax's models count as no colour.
_NO_COLOR = ((0.5, 0.5, 0.5, 1.0), (0.4, 0.33, 0.26, 1.0))
SMOOTH = 0.3  # the camera's path is averaged over this many seconds to either side
FLAT = 0.25  # bodies move in a plane below this ratio of height to width


@dataclass(frozen=True)
class Episode:
    """T steps from a reset, of B bodies.

    Attributes:
        positions: float32 [T + 1, B, 3] in metres.
        rotations: float32 [T + 1, B, 4], quaternions with w first.
        rewards: float32 [T].
        end: "terminated", "length" at the time limit, or "not finite" if the physics broke; then
            the frames before are kept.
    """

    positions: np.ndarray
    rotations: np.ndarray
    rewards: np.ndarray
    end: str


@dataclass(frozen=True)
class Geom:
    """One shape, fixed to a body. Lengths are in metres.

    Attributes:
        body: index among the scene's bodies, -1 for the world.
        kind: plane, sphere, capsule, ellipsoid, cylinder, box or mesh.
        size: MuJoCo's: radius; half-lengths along x, y, z; or radius and half-length along z.
        position: [3], in the body's frame.
        rotation: [4], quaternion with w first, in the body's frame.
        color: red, green, blue and opacity in [0, 1], or None.
        vertices, faces: [V, 3] and [F, 3] of a mesh, in the geom's frame.
    """

    body: int
    kind: str
    size: tuple[float, ...]
    position: tuple[float, ...]
    rotation: tuple[float, ...]
    color: tuple[float, ...] | None
    vertices: np.ndarray | None = None
    faces: np.ndarray | None = None


@dataclass(frozen=True)
class Scene:
    """Shapes and bodies of an environment, without their positions; z is up.

    Attributes:
        trees: the number of the kinematic tree of each of the B moving bodies, from 0.
        timestep: seconds between two steps of the environment.
    """

    trees: tuple[int, ...]
    geoms: tuple[Geom, ...]
    timestep: float


def scene(env: Environment, task: str) -> Scene:
    """Return the scene of an environment. Raises UserError if it has no bodies."""
    model = mujoco_model(env)
    if model is None:
        raise UserError(f"task '{task}' has no bodies to draw: its environment has no MuJoCo model")
    roots = [int(root) for root in model.body_rootid[1:]]
    order = list(dict.fromkeys(roots))
    return Scene(
        trees=tuple(order.index(root) for root in roots),
        geoms=tuple(
            _geom(model, index)
            for index in range(model.ngeom)
            if model.geom_group[index] < _SHOWN_GROUPS and _rgba(model, index)[3] > 0
            if int(model.geom_type[index]) in _KINDS
        ),
        timestep=float(env.dt),
    )


@dataclass(frozen=True)
class View:
    """The view of a camera.

    Attributes:
        targets: [T + 1, 3] in metres.
        radius: of the space around the target, in metres.
        follows: whether the targets move with the bodies.
        elevation: of the camera, in degrees.
    """

    targets: np.ndarray
    radius: float
    follows: bool
    elevation: float


def view(scene: Scene, positions: np.ndarray) -> View:
    """Return a view that has the first kinematic tree inside its radius in 90% of the frames.

    `positions` of bodies are [T + 1, B, 3]. The camera follows bodies that travel farther than
    their width, and looks from above at bodies that move in a plane.
    """
    middle = positions[:, np.array(scene.trees) == 0].mean(axis=1, dtype=np.float64)
    half = max(1, round(SMOOTH / scene.timestep))
    targets = uniform_filter1d(middle, 2 * half + 1, axis=0, mode="nearest")
    targets[:, 2] = np.median(middle[:, 2])
    size = np.linalg.norm(positions - targets[:, None], axis=-1).max()
    follows = bool(np.ptp(targets[:, :2], axis=0).max() >= size)
    if not follows:
        targets[:] = (targets.max(axis=0) + targets.min(axis=0)) / 2
    around = positions - targets[:, None]
    widths = np.ptp(around, axis=(0, 1))
    reach = max(float(np.linalg.norm(geom.size)) for geom in scene.geoms if geom.body >= 0)
    radius = float(np.percentile(np.linalg.norm(around, axis=-1).max(axis=1), 90)) + reach
    return View(targets, radius, follows, 52.0 if widths[2] < FLAT * max(widths[:2]) else 14.0)


def mujoco_model(env: Environment) -> mujoco.MjModel | None:
    """Return the environment's MuJoCo model, or None."""
    return getattr(getattr(env, "sys", env), "mj_model", None)


def poses(state: Tree) -> tuple[jax.Array, jax.Array]:
    """Return positions [B, 3] and rotations [B, 4] (quaternions, w first) of a state's bodies."""
    if hasattr(state, "pipeline_state"):
        return state.pipeline_state.x.pos, state.pipeline_state.x.rot
    return state.data.xpos[1:], state.data.xquat[1:]  # the first body is the world


def _rgba(model: mujoco.MjModel, index: int) -> tuple[float, ...]:
    """Return the colour as in MuJoCo: a geom's own colour precedes its material's."""
    own = _rounded(model.geom_rgba[index])
    material = int(model.geom_matid[index])
    return _rounded(model.mat_rgba[material]) if material >= 0 and own == _NO_COLOR[0] else own


def _geom(model: mujoco.MjModel, index: int) -> Geom:
    kind, rgba = _KINDS[int(model.geom_type[index])], _rgba(model, index)
    vertices = faces = None
    if kind == "mesh":
        mesh = int(model.geom_dataid[index])
        first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
        vertices = np.round(model.mesh_vert[first : first + count], 5)
        first, count = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
        faces = np.array(model.mesh_face[first : first + count])
    return Geom(
        body=int(model.geom_bodyid[index]) - 1,
        kind=kind,
        size=_rounded(model.geom_size[index]),
        position=_rounded(model.geom_pos[index]),
        rotation=_rounded(model.geom_quat[index]),
        color=None if rgba in _NO_COLOR else rgba,
        vertices=vertices,
        faces=faces,
    )


def _rounded(values: np.ndarray) -> tuple[float, ...]:
    return tuple(round(float(value), 5) for value in values)
