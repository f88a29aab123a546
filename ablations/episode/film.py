"""Pictures of episodes side by side as one GIF or MP4."""

from __future__ import annotations

import io
import math
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ablations.episode.page import Run
from ablations.errors import UserError
from ablations.records import write_atomically

SIZE = (400, 300)  # pixels of one run's picture
RATE = 20  # pictures per second of episode, at most
COLUMNS = 4
# Of the bodies, red, green and blue in [0, 1]; the page's colours, in its order.
INKS = (
    (0.0, 0.45, 0.70),
    (0.84, 0.37, 0.0),
    (0.0, 0.62, 0.45),
    (0.80, 0.47, 0.65),
    (0.34, 0.71, 0.91),
    (0.5, 0.5, 0.5),
)


def places(runs: Sequence[Run]) -> list[int]:
    """Which of the frames become pictures; a run that is over by then shows its last."""
    longest = max(len(run.rewards) for run in runs)
    return [*range(0, longest, _every(runs)), longest]


def write(path: Path, runs: Sequence[Run], pictures: Sequence[Sequence[np.ndarray]]) -> None:
    """Writes a film, in real time, whole or not at all; what it is depends on the path's ending.

    pictures: for each run one uint8 [H, W, 3] at each of `places(runs)`, or fewer where it is over
    before. Raises UserError where nothing here can write MP4.
    """
    frames = _frames(runs, pictures)
    seconds = _every(runs) * runs[0].scene.timestep
    write_atomically(
        path, _gif(frames, seconds) if path.suffix == ".gif" else _mp4(frames, seconds)
    )


def ffmpeg() -> str:
    """The program that writes MP4. Raises UserError where there is none."""
    found = shutil.which("ffmpeg")
    if found is None:
        try:
            import imageio_ffmpeg

            found = imageio_ffmpeg.get_ffmpeg_exe()
        except (ImportError, RuntimeError):
            raise UserError(
                "MP4 needs ffmpeg: apt-get install ffmpeg or pip install imageio-ffmpeg; or render "
                "with --format gif"
            ) from None
    return str(found)


def _every(runs: Sequence[Run]) -> int:
    return max(1, math.ceil(1 / RATE / runs[0].scene.timestep - 1e-6))


def _frames(runs: Sequence[Run], pictures: Sequence[Sequence[np.ndarray]]) -> Iterator[Image.Image]:
    columns = min(len(runs), COLUMNS)
    rows = math.ceil(len(runs) / columns)
    width, height = SIZE
    font = ImageFont.load_default(15)
    returns = [np.concatenate([[0.0], np.cumsum(run.rewards, dtype=np.float64)]) for run in runs]
    for index, place in enumerate(places(runs)):
        frame = Image.new("RGB", (columns * width, rows * height), "white")
        pen = ImageDraw.Draw(frame)
        for one, run in enumerate(runs):
            x, y = one % columns * width, one // columns * height
            shown = pictures[one]
            frame.paste(Image.fromarray(shown[min(index, len(shown) - 1)]), (x, y))
            at = min(place, len(run.rewards))
            for text, down in (
                (f"{run.variant}, {run.policy}", 6),
                (f"step {at:,}  return {returns[one][at]:.4g}", height - 26),
            ):
                pen.text(
                    (x + 8, y + down), text, "#16191d", font, stroke_width=2, stroke_fill="white"
                )
        yield frame


def _gif(frames: Iterator[Image.Image], seconds: float) -> bytes:
    first, *rest = (frame.quantize(128, dither=Image.Dither.NONE) for frame in frames)
    file = io.BytesIO()
    milliseconds = max(20, round(seconds * 100) * 10)  # GIF counts in hundredths
    first.save(
        file, "GIF", save_all=True, append_images=rest, duration=milliseconds, loop=0, disposal=1
    )
    return file.getvalue()


def _mp4(frames: Iterator[Image.Image], seconds: float) -> bytes:
    program = ffmpeg()
    images = list(frames)
    width, height = images[0].size
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder) / "film.mp4"
        done = subprocess.run(
            [
                *(program, "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"),
                *("-s", f"{width}x{height}", "-r", f"{1 / seconds:.6f}", "-i", "-"),
                *("-pix_fmt", "yuv420p", "-movflags", "+faststart", str(film)),
            ],
            input=b"".join(image.tobytes() for image in images),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
            raise UserError(f"ffmpeg could not write the film ({said}): render with --format gif")
        return film.read_bytes()
