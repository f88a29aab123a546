"""Scalars of TensorBoard event files, read by the library `tensorboard` without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ablations.core.files import require_regular
from ablations.errors import UserError, missing_extra
from ablations.logs.order import Part, Points, in_order

Scalars = dict[str, Points]


def folders(root: Path) -> list[Path]:
    """Return every folder at or under `root` that holds event files, sorted."""
    return sorted({path.parent for path in root.rglob("*tfevents*") if path.is_file()})


class Events:
    """The event files of a folder in which more may be written: each byte is read once."""

    def __init__(self, folder: Path):
        """Read nothing yet."""
        self.folder = folder
        self._files: dict[Path, _EventFile] = {}

    def read_on(self, notes: list[str] | None = None) -> None:
        """Read what was written since the last call.

        A file that ends within a record, as one does that is being written, or in zeros, as one
        does after a crash of its machine, is read up to there. notes: takes a line where that is
        so. Raises UserError for one that is no event file, or damaged, and without the library.
        """
        known, self._files = self._files, {}
        for path in sorted(path for path in self.folder.glob("*tfevents*") if path.is_file()):
            require_regular(path)
            file = known.get(path)
            if file is None or path.stat().st_size < file.at:  # new, or begun anew
                file = _EventFile(path)
            file.read_on(notes)
            self._files[path] = file

    def parts(self) -> dict[str, list[Part]]:
        """Return tag -> what each event file has of it, by the files' names: by their time."""
        tags: dict[str, list[Part]] = {}
        for path, file in self._files.items():
            for tag, points in file.points.items():
                tags.setdefault(tag, []).append(Part(path.name, points, file.began, file.ended))
        return tags

    def last(self, tag: str) -> tuple[int, float | None] | None:
        """Return the last step of the newest file and the last value of a tag; or None."""
        step, value = None, None
        for file in self._files.values():
            if file.points:
                step = max(points[-1][0] for points in file.points.values())
                value = file.points[tag][-1][1] if tag in file.points else value
        return None if step is None else (step, value)


class _EventFile:
    """at: how many bytes were read. began, ended: the times of the first and last event."""

    def __init__(self, path: Path):
        try:  # TensorBoard's own reader: the general one imports TensorFlow where it is installed
            from tensorboard.compat.tensorflow_stub import pywrap_tensorflow
        except ModuleNotFoundError as error:
            raise missing_extra(error) or error from None
        self.path, self.at = path, 0
        self.points: Scalars = {}
        self.began = self.ended = 0.0
        self._reader = pywrap_tensorflow.PyRecordReader_New(str(path))

    def read_on(self, notes: list[str] | None) -> None:
        from tensorboard.compat.tensorflow_stub.errors import DataLossError, OutOfRangeError

        try:
            while True:
                self._reader.GetNext()
                record = self._reader.record()
                self._take(record)
                self.at += 16 + len(record)
        except OutOfRangeError:
            return
        except DataLossError as error:
            if "truncated" in error.message:
                return  # a later call reads the whole record
            self._require_zeros(header="header" in error.message)
        if notes is not None:
            notes.append(
                f"'{self.path.parent.name}/{self.path.name}' ends in zeros, and is read up to there"
            )

    def _require_zeros(self, header: bool) -> None:
        """Raise UserError where a record with a wrong checksum is not the end of its file."""
        with self.path.open("rb") as file:
            file.seek(self.at)
            rest = file.read()
        end = 12 if header else 16 + int.from_bytes(rest[:8], "little")
        if rest[end - 1 :].strip(b"\0"):
            raise UserError(f"'{self.path}' is no TensorBoard event file, or it is damaged")

    def _take(self, record: bytes) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        try:
            event = Event.FromString(record)
            scalars = [(value.tag, _scalar(value)) for value in event.summary.value]
        except Exception:  # whatever the libraries raise
            raise UserError(f"'{self.path}' holds an event that cannot be read") from None
        if event.wall_time:
            self.began = min(self.began or event.wall_time, event.wall_time)
            self.ended = max(self.ended, event.wall_time)
        for tag, scalar in scalars:
            if scalar is not None:
                self.points.setdefault(tag, []).append((event.step, scalar))


def _scalar(value: Any) -> float | None:
    """Return the number of a summary's value; None for text, images and histograms."""
    from tensorboard.compat.proto.types_pb2 import DT_DOUBLE, DT_FLOAT
    from tensorboard.util.tensor_util import make_ndarray

    if value.HasField("simple_value"):
        return float(value.simple_value)
    if value.tensor.dtype not in (DT_FLOAT, DT_DOUBLE):
        return None
    array = make_ndarray(value.tensor)
    return float(array.item()) if array.size == 1 else None


def joined(
    tags: Mapping[str, list[Part]], judged: str | None = None, notes: list[str] | None = None
) -> Scalars:
    """Return the points of each tag in order, see `in_order`; notes are of the judged one.

    A tag whose steps cannot be put in order is left out, unless it is the judged one, or there is
    none: then UserError is raised.
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
