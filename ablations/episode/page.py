"""One or several synchronous episodes on one self-contained page.

The same episodes give the same bytes. The viewer library is in the page, compressed.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from ablations.episode.scene import Episode, Scene, view
from ablations.records import write_atomically
from ablations.templates import templates

HERE = Path(__file__).parent
VIEWER = "three.min.js"  # from npm's three@0.140.0, build/; its licence is in this folder
RESOLUTION = 1e-4  # of positions in metres, and of components of quaternions

ENDS = {
    "terminated": "ended by the task",
    "length": "ended at its time limit",
    "not finite": "ended because the physics gave numbers that are not finite",
}


@dataclass(frozen=True)
class Run(Episode):
    """One episode and its policy.

    Attributes:
        snapshot: "best", "last", or "" if the policy was selected by its step.
        step: environment steps of training before the policy was saved.
    """

    variant: str
    snapshot: str
    step: int
    scene: Scene

    @property
    def policy(self) -> str:
        """The policy in words."""
        return f"{self.snapshot}, step {self.step:,}" if self.snapshot else f"step {self.step:,}"

    @property
    def total(self) -> float:
        """The undiscounted return."""
        return float(np.sum(self.rewards, dtype=np.float64))


def write(path: Path, study: str, task: str, seed: int, runs: Sequence[Run]) -> None:
    """Write the page atomically."""
    write_atomically(path, render(study, task, seed, runs))


def render(study: str, task: str, seed: int, runs: Sequence[Run]) -> str:
    """Return the page as text, with the runs side by side."""
    data = json.dumps(
        _data(runs), separators=(",", ":"), allow_nan=False, default=np.ndarray.tolist
    )
    shared = HERE.parent / "report" / "page.css"
    return (
        templates(HERE)
        .get_template("episode.html.j2")
        .render(
            study=study,
            task=task,
            seed=seed,
            title=f"{study}: {', '.join(dict.fromkeys(run.variant for run in runs))} on {task}",
            runs=runs,
            ends=ENDS,
            steps=max(len(run.rewards) for run in runs),
            data=_compressed(data.encode()),
            frames=_compressed(b"".join(map(_packed, runs))),
            style=Markup(shared.read_text() + (HERE / "episode.css").read_text()),
            script=Markup((HERE / "stage.js").read_text() + (HERE / "episode.js").read_text()),
            library=_compressed((HERE / VIEWER).read_bytes()),
        )
    )


def _data(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the data of the page's script.

    Views share a radius, and a target if no camera follows its bodies.
    """
    views = [view(run.scene, run.positions) for run in runs]
    targets, radius = [view.targets for view in views], max(view.radius for view in views)
    if not any(view.follows for view in views):
        centers = np.array([target[0] for target in targets])
        middle = centers.mean(axis=0)
        radius += float(np.linalg.norm(centers - middle, axis=1).max())
        targets = [np.broadcast_to(middle, target.shape) for target in targets]
    return {
        "resolution": RESOLUTION,
        "timestep": runs[0].scene.timestep,
        "radius": radius,
        "elevation": views[0].elevation,
        "runs": [
            {
                "trees": run.scene.trees,
                "geoms": [asdict(geom) for geom in run.scene.geoms],
                "frames": len(run.positions),
                "targets": np.round(target, 3),
                "rewards": [float(f"{reward:.6g}") for reward in run.rewards],
                "end": run.end,
            }
            for run, target in zip(runs, targets, strict=True)
        ],
    }


def _packed(run: Run) -> bytes:
    """Pack int32 [B, 7, T + 1]: multiples of `RESOLUTION`, as differences in time."""
    frames = np.concatenate([run.positions, run.rotations], axis=-1, dtype=np.float64)
    steps = np.round(np.moveaxis(frames, 0, -1) / RESOLUTION).astype(np.int64)
    return np.diff(steps, axis=-1, prepend=0).astype("<i4").tobytes()


def _compressed(data: bytes) -> Markup:
    return Markup(base64.b64encode(gzip.compress(data, 9, mtime=0)).decode())
