"""Pictures of episodes side by side as one GIF."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ablations.episode.page import Run
from ablations.records import write_atomically

RATE = 20  # pictures per second of episode, at most
COLUMNS = 4
# Colours of bodies (red, green, blue in [0, 1]), in the order of the page.
INKS = (
    (0.0, 0.45, 0.70),
    (0.84, 0.37, 0.0),
    (0.0, 0.62, 0.45),
    (0.80, 0.47, 0.65),
    (0.34, 0.71, 0.91),
    (0.5, 0.5, 0.5),
)


def places(runs: Sequence[Run]) -> list[int]:
    """Return the frames that become pictures; a run that ends earlier shows its last frame."""
    longest = max(len(run.rewards) for run in runs)
    return [*range(0, longest, _every(runs)), longest]


def write(path: Path, runs: Sequence[Run], pictures: Sequence[Sequence[np.ndarray]]) -> None:
    """Write a GIF in real time, atomically.

    `pictures` has for each run a uint8 [H, W, 3] of the same size at each of `places(runs)`, or
    fewer if it ends earlier.
    """
    frames = _frames(runs, pictures)
    first, *rest = (frame.quantize(128, dither=Image.Dither.NONE) for frame in frames)
    seconds = _every(runs) * runs[0].scene.timestep
    duration = max(20, round(seconds * 100) * 10)  # GIF counts in hundredths
    file = io.BytesIO()
    first.save(
        file, "GIF", save_all=True, append_images=rest, duration=duration, loop=0, disposal=1
    )
    write_atomically(path, file.getvalue())


def _every(runs: Sequence[Run]) -> int:
    return max(1, math.ceil(1 / RATE / runs[0].scene.timestep - 1e-6))


def _frames(runs: Sequence[Run], pictures: Sequence[Sequence[np.ndarray]]) -> Iterator[Image.Image]:
    columns = min(len(runs), COLUMNS)
    rows = math.ceil(len(runs) / columns)
    height, width, _ = pictures[0][0].shape
    font = ImageFont.load_default(15)
    returns = [np.concatenate([[0.0], np.cumsum(run.rewards, dtype=np.float64)]) for run in runs]
    for index, place in enumerate(places(runs)):
        frame = Image.new("RGB", (columns * width, rows * height), "white")
        pen = ImageDraw.Draw(frame)
        for column, run in enumerate(runs):
            x, y = column % columns * width, column // columns * height
            shown = pictures[column]
            frame.paste(Image.fromarray(shown[min(index, len(shown) - 1)]), (x, y))
            at = min(place, len(run.rewards))
            for text, down in (
                (f"{run.variant}, {run.policy}", 6),
                (f"step {at:,}  return {returns[column][at]:.4g}", height - 26),
            ):
                pen.text(
                    (x + 8, y + down), text, "#16191d", font, stroke_width=2, stroke_fill="white"
                )
        yield frame
