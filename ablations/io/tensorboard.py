"""Scalars of TensorBoard event files, read by the library `tensorboard`, in the order of steps.

Steps may go back. A process that resumes from a checkpoint writes a new file and repeats steps:
what it wrote counts. Writers that run side by side are a little late: all their points count. A
counter that begins again cannot be told from a second run in the same folder, and is refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ablations.core.files import require_regular
from ablations.curve import is_cut
from ablations.errors import UserError, count, missing_extra

Points: TypeAlias = list[tuple[int, float]]
Scalars: TypeAlias = dict[str, Points]

_LATE_SHARE = 20  # of so many points one that is late means that several writers run side by side
_LATE_WAY = 4  # if it is late by less than this part of the run
_step = itemgetter(0)


@dataclass(frozen=True)
class Part:
    """Points of a tag from one event file. began, ended: when it was written, as Unix times."""

    source: str
    points: Sequence[tuple[int, float]]
    began: float = 0.0
    ended: float = 0.0


def parts(folder: Path, notes: list[str] | None = None) -> dict[str, list[Part]]:
    """Return tag -> what each event file of a folder has of it, by the files' names and times.

    A file that ends within a record, because it is being written, or in zeros, because its machine
    crashed, is read up to there; notes takes a line on the zeros. Raises UserError for a file that
    is damaged or no event file, and where the library is not installed.
    """
    tags: dict[str, list[Part]] = {}
    for path in sorted(path for path in folder.glob("*tfevents*") if path.is_file()):
        require_regular(path)
        points, times = _read(path, notes)
        for tag, own in points.items():
            part = Part(path.name, own, min(times, default=0.0), max(times, default=0.0))
            tags.setdefault(tag, []).append(part)
    return tags


def _read(path: Path, notes: list[str] | None) -> tuple[Scalars, list[float]]:
    """Return the points of each tag in an event file, and the times of its events."""
    try:  # TensorBoard's own reader: the general one imports TensorFlow where it is installed
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.tensorflow_stub import pywrap_tensorflow
        from tensorboard.compat.tensorflow_stub.errors import DataLossError, OutOfRangeError
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
    points: Scalars = {}
    times: list[float] = []
    reader, at = pywrap_tensorflow.PyRecordReader_New(str(path)), 0
    try:
        while True:
            reader.GetNext()
            record = reader.record()
            at += 16 + len(record)
            event = Event.FromString(record)
            times += [event.wall_time] if event.wall_time else []
            for tag, scalar in _scalars(event):
                points.setdefault(tag, []).append((event.step, scalar))
    except OutOfRangeError:
        pass
    except DataLossError as error:
        if "truncated" not in error.message:
            rest = path.read_bytes()[at:]
            end = 12 if "header" in error.message else 16 + int.from_bytes(rest[:8], "little")
            if rest[end - 1 :].strip(b"\0"):
                raise UserError(
                    f"'{path}' is no TensorBoard event file, or it is damaged"
                ) from None
            if notes is not None:
                name = f"{path.parent.name}/{path.name}"
                notes.append(f"'{name}' ends in zeros, and is read up to there")
    except Exception:  # whatever the libraries raise
        raise UserError(f"'{path}' holds an event that cannot be read") from None
    return points, times


def _scalars(event: Any) -> Iterator[tuple[str, float]]:
    """Yield the tags and numbers of an event, without text, images and histograms."""
    from tensorboard.compat.proto.types_pb2 import DT_DOUBLE, DT_FLOAT
    from tensorboard.util.tensor_util import make_ndarray

    for value in event.summary.value:
        if value.HasField("simple_value"):
            yield value.tag, float(value.simple_value)
        elif value.tensor.dtype in (DT_FLOAT, DT_DOUBLE):
            array = make_ndarray(value.tensor)
            if array.size == 1:
                yield value.tag, float(array.item())


def joined(
    tags: Mapping[str, list[Part]], judged: str | None = None, notes: list[str] | None = None
) -> Scalars:
    """Return the points of each tag in the order of their steps; notes are on the judged one.

    A tag whose steps cannot be put in order is left out. If it is the judged one, or none is,
    UserError is raised.
    """
    scalars: Scalars = {}
    for tag, parts in tags.items():
        try:
            scalars[tag] = in_order(tag, parts, notes if tag == judged else None)
        except UserError as error:
            if judged in (None, tag):
                raise
            if notes is not None:
                notes.append(f"left out: {error}")
    return scalars


def in_order(tag: str, parts: Iterable[Part], notes: list[str] | None = None) -> Points:
    """Return the points of a tag at steps that never decrease.

    notes: takes lines on what is left out. Raises UserError where two runs may be mixed up.
    """
    notes = [] if notes is None else notes
    points: Points = []
    ended, source = 0.0, ""
    for part in parts:
        own = _of_one_writer(tag, part, notes)
        if points and own and own[0][0] <= points[-1][0]:
            first, begun, reached = own[0][0], points[0][0], points[-1][0]
            again = first <= begun and not is_cut(reached, own[-1][0])  # not a failed attempt
            beside = part.began < ended and 10 * (first - begun) <= reached - begun
            if again or beside:
                raise UserError(
                    f"'{source}' and '{part.source}' both have '{tag}' from about step {begun:,} "
                    f"on: two runs in one place? Give each its own folder"
                )
            kept = bisect_left(points, first, key=_step)
            notes.append(
                f"'{tag}' goes on from step {first:,} in '{part.source}': "
                f"{count(len(points) - kept, 'earlier point')} up to step {reached:,} left out"
            )
            del points[kept:]
        points += own
        ended, source = max(ended, part.ended), part.source
    return points


def _of_one_writer(tag: str, part: Part, notes: list[str]) -> Points:
    """Return the points of one file in order. Raises UserError where a stretch is there twice."""
    points = list(part.points)
    steps = np.array([step for step, _ in points], np.int64)
    if len(steps) and steps.min() < 0:
        raise UserError(
            f"'{tag}' is at step {steps.min():,} in '{part.source}': a counter that overflowed?"
        )
    reached = np.maximum.accumulate(steps)
    late = steps < reached
    if not late.any():
        return points
    back = np.flatnonzero(np.diff(steps) < 0) + 1
    often = len(back) >= max(3, len(steps) / _LATE_SHARE)
    if often:
        in_place = _LATE_WAY * (steps[back - 1] - steps[back]).max() <= np.ptp(steps)
    else:
        alone = not (late[1:] & late[:-1]).any()
        in_place = alone and not np.isin(steps[late], steps[~late]).any()
    if not in_place:
        first = back[0]
        raise UserError(
            f"'{tag}' goes back from step {steps[first - 1]:,} to {steps[first]:,} in "
            f"'{part.source}': is that a counter that began again, or two runs in one place?"
        )
    notes.append(f"'{tag}': {count(int(late.sum()), 'point')} written late, put in order")
    return sorted(points, key=_step)
