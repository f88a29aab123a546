"""Pictures of Gymnax's environments, drawn by Gymnax."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np
from PIL import Image, ImageOps

from ablations.environments.gymnax import GymnaxEnvironment
from ablations.errors import UserError
from ablations.trainers import Tree

CELL = 30  # pixels of a cell of a grid
SECONDS = 0.05  # duration of a step; a step of a game on a grid lasts twice as long

Draw = Callable[[Tree], np.ndarray]


def timestep(env: GymnaxEnvironment) -> float:
    """Return the duration of a step in seconds."""
    return SECONDS if env.observations.image is None else 2 * SECONDS


def pictures(
    env: GymnaxEnvironment, states: Tree, places: Sequence[int], size: tuple[int, int]
) -> Iterator[np.ndarray]:
    """Yield uint8 [H, W, 3] for each of the places (indices of states).

    Args:
        env: the environment.
        states: Gymnax's states, with leaves [T + 1, ...].
        places: indices from 0 to T.
        size: width and height in pixels; a picture of other proportions is padded.

    Raises UserError for an environment that Gymnax does not draw.
    """
    draw = _drawn_by_gymnax(env)
    for place in places:
        picture = Image.fromarray(draw(jax.tree.map(lambda leaf, k=place: leaf[k], states)))
        yield np.asarray(ImageOps.pad(picture, size, color="white"))


def _drawn_by_gymnax(env: GymnaxEnvironment) -> Draw:
    name = getattr(env.env, "name", type(env.env).__name__)
    try:
        from gymnax.visualize.vis_gym import SUPPORTED_GYM_ENVS

        if name in SUPPORTED_GYM_ENVS:
            return _classic(env, name)
        if name.endswith("-MinAtar"):
            return _grid(env)
    except ImportError as error:
        raise UserError(
            f"Gymnax needs {error.name} to draw: pip install 'rl-ablations[gymnax]'"
        ) from None
    raise UserError(f"Gymnax draws classic control and MinAtar, but not '{name}'")


def _classic(env: GymnaxEnvironment, name: str) -> Draw:
    # Without these, SDL looks for a screen and a sound card.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    import gymnasium
    import pygame  # noqa: F401  # raises ImportError here, not at the first picture
    from gymnax.visualize.vis_gym import get_gym_state, set_gym_params

    theirs = gymnasium.make(name, render_mode="rgb_array")
    theirs.reset()
    drawn: Tree = theirs.unwrapped
    set_gym_params(drawn, name, env.params)

    def draw(state: Tree) -> np.ndarray:
        drawn.state = get_gym_state(state, name)
        return np.asarray(theirs.render())

    return draw


def _grid(env: GymnaxEnvironment) -> Draw:
    """Return a function that draws MinAtar: each cell has the colour of its last channel."""
    from gymnax.visualize.vis_minatar import init_minatar
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()

    def draw(state: Tree) -> np.ndarray:
        axes.clear()
        cells = init_minatar(axes, env.env, state, env.params)
        colors = cells.to_rgba(cells.get_array(), bytes=True)[..., :3]
        return np.kron(colors, np.ones((CELL, CELL, 1), np.uint8))

    return draw
