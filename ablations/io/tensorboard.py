"""Scalars of TensorBoard event files, read by the library `tensorboard`.

A process that resumes from a checkpoint writes a new file and repeats steps. So the points of a
file replace the points of earlier files from its first step on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ablations.core.files import require_regular
from ablations.errors import UserError, count, missing_extra

STEP = "step"  # the name of the column of steps


def rows(folder: Path, judged: Collection[str], notes: list[str]) -> pd.DataFrame:
    """Return a row per step, or several rows if tags have several points at a step.

    A file is read up to an incomplete record (it is being written) or a damaged one. A tag whose
    steps go back within a file is skipped. `notes` receives messages on what is skipped.

    Raises:
        UserError: the library is not installed, or steps go back of the first of the `judged` tags
            that the folder has.
    """
    points = pd.DataFrame(columns=["tag", STEP, "value"])
    refused: dict[str, str] = {}
    for path in sorted(path for path in folder.glob("*tfevents*") if path.is_file()):
        require_regular(path)
        new = pd.DataFrame(_read(path, notes), columns=points.columns, dtype=object)
        steps = new[STEP].astype("int64").groupby(new.tag)
        for tag in new.tag[steps.diff() < 0]:
            refused[tag] = f"the steps of '{tag}' go back in '{path.name}': does it have two runs?"
        replaced = points[STEP] >= points.tag.map(steps.min())
        if replaced.any():
            notes.append(
                f"{count(int(replaced.sum()), 'earlier point')}, as '{path.name}' repeats their "
                f"steps: if these are two runs, give each its own folder"
            )
        points = pd.concat([points[~replaced], new])
    if (tag := next((tag for tag in judged if tag in {*points.tag}), None)) in refused:
        raise UserError(refused[str(tag)])
    notes += refused.values()
    points = points[~points.tag.isin(refused)]
    points["nth"] = points.groupby(["tag", STEP]).cumcount()
    table = points.pivot(index=[STEP, "nth"], columns="tag", values="value")
    steps_of_rows = table.index.get_level_values(STEP)
    return table.set_axis(range(1, len(table) + 1)).assign(**{"": "", STEP: steps_of_rows})


def _read(path: Path, notes: list[str]) -> list[tuple[str, int, float | str]]:
    """Return the points of a file: tag, step and value, which is "nan" for NaN."""
    try:  # TensorBoard's public reader would import TensorFlow if it is installed
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.tensorflow_stub import pywrap_tensorflow
        from tensorboard.compat.tensorflow_stub.errors import OutOfRangeError
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
    points: list[tuple[str, int, float | str]] = []
    reader = pywrap_tensorflow.PyRecordReader_New(str(path))
    try:
        while True:
            reader.GetNext()
            event = Event.FromString(reader.record())
            points += (
                (tag, event.step, value if value == value else "nan")
                for tag, value in _scalars(event)
            )
    except OutOfRangeError:
        pass
    except Exception as error:  # the libraries raise many kinds of errors
        if "truncated" not in str(error):
            where = f"'{path.parent.name}/{path.name}'"
            notes.append(f"{where} is damaged: only the part before the damage is read")
    return points


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
