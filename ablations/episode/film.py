"""Pictures of episodes side by side as one GIF."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ablations.episode.page import Run
from ablations.records import write_atomically

Ink: TypeAlias = tuple[float, float, float]
RATE = 20  # pictures per second of episode, at most
COLUMNS = 4
# Colours of bodies (red, green, blue in [0, 1]), in the order of the page.
INKS: tuple[Ink, ...] = (
    (0.0, 0.45, 0.70),
    (0.84, 0.37, 0.0),
    (0.0, 0.62, 0.45),
    (0.80, 0.47, 0.65),
    (0.34, 0.71, 0.91),
    (0.5, 0.5, 0.5),
)


def places(run: Run) -> list[int]:
    """Return the frames of a run that become pictures, the last one included."""
    return [*range(0, len(run.rewards), _every(run)), len(run.rewards)]


def write(path: Path, runs: Sequence[Run], pictures: Sequence[Sequence[np.ndarray]]) -> None:
    """Write a GIF in real time, atomically. A run that ends earlier shows its last picture.

    `pictures` has for each run a uint8 [H, W, 3] of the same size at each of its `places`.
    """
    frames = _frames(runs, pictures)
    first, *rest = (frame.quantize(128, dither=Image.Dither.NONE) for frame in frames)
    seconds = _every(runs[0]) * runs[0].scene.timestep
    duration = max(20, round(seconds * 100) * 10)  # GIF counts in hundredths
    file = io.BytesIO()
    first.save(
        file, "GIF", save_all=True, append_images=rest, duration=duration, loop=0, disposal=1
    )
    write_atomically(path, file.getvalue())


def _every(run: Run) -> int:
    return max(1, math.ceil(1 / RATE / run.scene.timestep - 1e-6))


def _frames(runs: Sequence[Run], pictures: Sequence[Sequence[np.ndarray]]) -> Iterator[Image.Image]:
    columns = min(len(runs), COLUMNS)
    rows = math.ceil(len(runs) / columns)
    height, width, _ = pictures[0][0].shape
    font = ImageFont.load_default(15)
    for index in range(max(map(len, pictures))):
        frame = Image.new("RGB", (columns * width, rows * height), "white")
        pen = ImageDraw.Draw(frame)
        for column, (run, shown) in enumerate(zip(runs, pictures, strict=True)):
            x, y = column % columns * width, column // columns * height
            now = min(index, len(shown) - 1)
            at = places(run)[now]
            frame.paste(Image.fromarray(shown[now]), (x, y))
            total = np.sum(run.rewards[:at], dtype=np.float64)
            texts = (f"{run.variant}, {run.policy}", f"step {at:,}  return {total:.4g}")
            for text, down in zip(texts, (6, height - 26), strict=True):
                where = (x + 8, y + down)
                pen.text(where, text, "#16191d", font, stroke_width=2, stroke_fill="white")
        yield frame
