"""Scalars of TensorBoard event files, read by the library `tensorboard`.

A process that resumes from a checkpoint writes a new file and repeats steps; the new points replace
the old ones. Steps that go back within a file and files written at the same time are refused: there
may be two runs in one folder.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from ablations.core.decode import Json
from ablations.core.files import require_regular
from ablations.curve import is_cut
from ablations.errors import UserError, count, missing_extra
from ablations.io.formats import rows_of

STEP = "step"  # the name of the column of steps
Points: TypeAlias = list[tuple[int, float]]
_step = itemgetter(0)


@dataclass(frozen=True)
class Part:
    """A tag's points in one event file, which was written from `began` to `ended` (Unix times)."""

    source: str
    points: Points
    began: float = 0.0
    ended: float = 0.0


def parts(folder: Path, notes: list[str]) -> dict[str, list[Part]]:
    """Return each tag's points per event file of a folder, in the order of the file names.

    A file is read up to an incomplete record (it is being written) or a damaged one, which `notes`
    receives a message about. Raises UserError if the library is not installed.
    """
    tags: dict[str, list[Part]] = {}
    for path in sorted(path for path in folder.glob("*tfevents*") if path.is_file()):
        require_regular(path)
        points, times = _read(path, notes)
        for tag, own in points.items():
            part = Part(path.name, own, min(times, default=0.0), max(times, default=0.0))
            tags.setdefault(tag, []).append(part)
    return tags


def _read(path: Path, notes: list[str]) -> tuple[dict[str, Points], list[float]]:
    try:  # TensorBoard's public reader would import TensorFlow if it is installed
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.tensorflow_stub import pywrap_tensorflow
        from tensorboard.compat.tensorflow_stub.errors import OutOfRangeError
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
    points: dict[str, Points] = {}
    times: list[float] = []
    reader = pywrap_tensorflow.PyRecordReader_New(str(path))
    try:
        while True:
            reader.GetNext()
            event = Event.FromString(reader.record())
            times += [event.wall_time] if event.wall_time else []
            for tag, scalar in _scalars(event):
                points.setdefault(tag, []).append((event.step, scalar))
    except OutOfRangeError:
        pass
    except Exception as error:  # the libraries raise many kinds of errors
        if "truncated" not in str(error):
            where = f"'{path.parent.name}/{path.name}'"
            notes.append(f"{where} is damaged: only the part before the damage is read")
    return points, times


def _scalars(event: Any) -> Iterator[tuple[str, float]]:
    from tensorboard.compat.proto.types_pb2 import DT_DOUBLE, DT_FLOAT
    from tensorboard.util.tensor_util import make_ndarray

    for value in event.summary.value:
        if value.HasField("simple_value"):
            yield value.tag, float(value.simple_value)
        elif value.tensor.dtype in (DT_FLOAT, DT_DOUBLE):
            array = make_ndarray(value.tensor)
            if array.size == 1:
                yield value.tag, float(array.item())


def rows(tags: Mapping[str, list[Part]], judged: str, notes: list[str]) -> pd.DataFrame:
    """Return a row per step, or several rows if tags have several points at a step.

    A tag that `in_order` refuses is skipped with a message in `notes`. If it is the judged tag,
    UserError is raised.
    """
    values: dict[tuple[int, int], dict[str, Json]] = {}
    for tag, parts in tags.items():
        try:
            points = in_order(tag, parts, notes if tag == judged else [])
        except UserError as error:
            if tag == judged:
                raise
            notes.append(f"skipped: {error}")
            continue
        for step, same in itertools.groupby(points, _step):
            for nth, (_, value) in enumerate(same):
                row = values.setdefault((step, nth), {"": ""})
                row[tag] = value if value == value else "nan"
    places = sorted(values)
    frame = rows_of({row: values[place] for row, place in enumerate(places, 1)})
    return frame.assign(**{STEP: [step for step, _ in places]})


def in_order(tag: str, parts: Iterable[Part], notes: list[str]) -> Points:
    """Return the points of a tag at steps that never decrease.

    `notes` receives messages on dropped points. Raises UserError if two runs may be mixed.
    """
    points: Points = []
    ended, source = 0.0, ""
    for part in parts:
        for (before, _), (now, _) in itertools.pairwise(part.points):
            if now < before:
                raise UserError(
                    f"'{tag}' goes back from step {before:,} to {now:,} in '{part.source}': did a "
                    f"counter restart, or does the file have two runs?"
                )
        if points and part.points and (first := part.points[0][0]) <= (reached := points[-1][0]):
            # A file that starts at the same step is a second try only if the first was cut.
            again = first <= points[0][0] and not is_cut(reached, part.points[-1][0])
            if again or part.began < ended:
                raise UserError(
                    f"'{source}' and '{part.source}' both have '{tag}' from about step "
                    f"{points[0][0]:,}: if these are two runs, give each its own folder"
                )
            kept = bisect_left(points, first, key=_step)
            notes.append(
                f"'{tag}' continues from step {first:,} in '{part.source}': dropped "
                f"{count(len(points) - kept, 'earlier point')} up to step {reached:,}"
            )
            del points[kept:]
        points += part.points
        ended, source = max(ended, part.ended), part.source
    return points
