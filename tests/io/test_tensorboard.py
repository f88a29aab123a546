"""Event files: those that grow, are damaged or go back; and beside what waits for a command."""

from __future__ import annotations

import math
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_DOUBLE, DT_FLOAT
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from ablations.core.files import SetAside
from ablations.errors import UserError
from ablations.io import logs
from ablations.io.export import frame
from ablations.io.imports import import_runs
from ablations.io.tensorboard import rows
from ablations.records import read_plan

TAGS = ("loss", "rollout/ep_rew_mean", "time/fps")
NAME = "events.out.tfevents.{}.host"


def points(folder: Path, notes: list[str] | None = None) -> set[tuple[int, str, float]]:
    """Return step, tag and value of the points of a folder."""
    table = rows(folder, [], [] if notes is None else notes)
    long = table.drop(columns="").melt("step", var_name="tag").dropna()
    return set(zip(long.step, long.tag, long.value.astype(float), strict=True))


def written(event: Event | bytes) -> bytes:
    """A record of an event file, as TensorBoard writes it."""
    file = BytesIO()
    RecordWriter(file).write(event if isinstance(event, bytes) else event.SerializeToString())
    return file.getvalue()


def record(step: int, tag: str, value: float | TensorProto, time: float = 1e9) -> bytes:
    kind = "tensor" if isinstance(value, TensorProto) else "simple_value"
    summary = Summary(value=[Summary.Value(tag=tag, **{kind: value})])
    return written(Event(wall_time=time + step, step=step, summary=summary))


WHOLE = b"".join(record(step, TAGS[step % 3], step / 2) for step in range(1, 120))


def test_a_file_that_is_being_written_is_read_up_to_its_last_record(tmp_path: Path) -> None:
    first, second = (tmp_path / NAME.format(k) for k in (1, 2))
    every = [(step, TAGS[step % 3], step / 2) for step in range(1, 120)]
    ends = np.cumsum([len(record(*point)) for point in every])
    for cut in np.random.default_rng(0).integers(0, len(WHOLE), 25).tolist():
        first.write_bytes(WHOLE[:cut])
        there = every[: int((ends <= cut).sum())]
        assert points(tmp_path) == set(there)
    first.write_bytes(WHOLE)
    assert logs.latest(tmp_path, TAGS[0], None) == (119, 117 / 2)
    second.write_bytes(record(120, TAGS[0], 60.0) + record(121, TAGS[0], 1.0)[:20])
    assert logs.latest(tmp_path, TAGS[0], None) == (120, 60.0)


def flipped(at: int) -> bytes:
    return WHOLE[:at] + bytes([WHOLE[at] ^ 1]) + WHOLE[at + 1 :]


# A file, and whether it has all records of a tag. A crash of a machine leaves zeros at the end.
DAMAGED = [
    *((flipped(9), False), (flipped(30), False), (flipped(700), False)),
    *((WHOLE + written(b"\xff") + WHOLE, True), (WHOLE + bytes(4096), True)),
    (WHOLE[:-5] + bytes(4096), True),
]


@pytest.mark.parametrize(("data", "whole"), DAMAGED)
def test_a_damaged_file_is_read_up_to_the_damage(tmp_path: Path, data: bytes, whole: bool) -> None:
    (tmp_path / NAME.format(1)).write_bytes(data)
    notes: list[str] = []
    own = [point for point in points(tmp_path, notes) if point[1] == "loss"]
    assert (len(own) == len(range(3, 120, 3))) == whole
    assert "is damaged: only the part before the damage is read" in notes[0]


SCALARS = [
    (1.5, 1.5),
    (math.nan, math.nan),
    (-math.inf, -math.inf),
    (make_tensor_proto(np.float32(0.1)), float(np.float32(0.1))),  # TensorFlow 2, clu
    (TensorProto(dtype=DT_FLOAT, float_val=[2.5]), 2.5),
    (TensorProto(dtype=DT_DOUBLE, double_val=[0.1]), 0.1),
    (make_tensor_proto(np.full((1, 1), math.nan)), math.nan),
    (make_tensor_proto(np.zeros((3, 3))), None),  # a histogram
    (make_tensor_proto(7), None),
    (make_tensor_proto("text"), None),
]


@pytest.mark.parametrize(("value", "expected"), SCALARS)
def test_numbers_are_read_from_values_and_from_tensors(tmp_path, value, expected) -> None:
    (tmp_path / NAME.format(1)).write_bytes(record(2**31, "r", value))
    found = [(step, read) for step, _, read in points(tmp_path)]
    np.testing.assert_equal(found, [] if expected is None else [(2**31, expected)])


def test_files_of_another_library_are_read(tmp_path: Path) -> None:
    writer = pytest.importorskip("tensorboardX").SummaryWriter(str(tmp_path / "runs" / "ppo__1"))
    writer.add_text("hyperparameters", "not a number")
    points = [(0, 1.5), (128, -2.25), (3_000_000_000, 1e-3)]
    for step, value in points:
        writer.add_scalar("charts/return", value, step)
        writer.add_scalar("loss", -value, step)
    writer.close()
    path = logs.find(f"{tmp_path}/runs/*")
    assert path is not None
    found, _ = logs.read(path, "charts/return")
    assert found.steps.tolist() == [step for step, _ in points]
    np.testing.assert_allclose(found.values, [1.5, -2.25, 1e-3], rtol=1e-6)


def test_without_the_library_a_line_names_its_extra(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / NAME.format(1)).write_bytes(WHOLE)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UserError, match=r"tensorboard: pip install 'rl-ablations\[tensorboard\]'"):
        logs.read(tmp_path, "loss")


# Steps that go back


# The steps of files; the file of each point that is kept; a note on what was done.
FILES = [
    ([[1, 2, 3]], [0, 0, 0], ""),
    ([[1, 1, 2, 2]], [0] * 4, ""),
    ([[1, 2, 3], [4, 5]], [0, 0, 0, 1, 1], ""),
    ([[1, 2, 3, 4], [3, 4, 5]], [0, 0, 1, 1, 1], "give each its own folder"),
    ([[1, 2], [1, 2, 3, 4]], [1, 1, 1, 1], "2 earlier points, as"),
    ([[1, 2, 3, 4, 5], [3, 4], [4, 5, 6]], [0, 0, 1, 2, 2, 2], "repeats their steps"),
    ([[], [1, 2]], [1, 1], ""),
]


def event_files(folder: Path, files: list[list[int]]) -> None:
    """Write files with these steps of the tag r; the values are the numbers of the files."""
    for number, steps in enumerate(files):
        data = b"".join(record(step, "r", number) for step in steps)
        (folder / NAME.format(number)).write_bytes(data)


@pytest.mark.parametrize(("files", "sources", "note"), FILES)
def test_a_run_that_goes_on(tmp_path: Path, files: list, sources: list[int], note: str) -> None:
    event_files(tmp_path, files)
    notes: list[str] = []
    found = rows(tmp_path, ["r"], notes)
    assert found.r.to_list() == sources
    assert found.step.is_monotonic_increasing
    assert note in "".join(notes)
    assert bool(notes) == bool(note)


@pytest.mark.parametrize(
    "steps", [[*range(30), *range(20)], [0, 90, 180, 130, 220], [2**31 - 1, -(2**31)]]
)
def test_what_may_be_two_runs_is_refused(tmp_path: Path, steps: list[int]) -> None:
    event_files(tmp_path, [[0, 1], steps])
    with pytest.raises(UserError, match=r"steps of 'r' go back in 'events.*\.1\.host': .*two runs"):
        rows(tmp_path, ["r"], [])


def test_the_judged_tag_has_its_own_steps(tmp_path: Path) -> None:
    """Another tag at seconds goes further; two episodes that end at one step both count."""
    events = b"".join(
        record(step, "r", step)
        + record(step, "r", step + 2)
        + record(step * 7, "r/time", step)
        + record(step % 3, "wraps", step)
        + record(step, "step", 100 * step)
        for step in range(1, 6)
    )
    folder = tmp_path / "logs" / "ppo_3"
    folder.mkdir(parents=True)
    (folder / NAME.format(1)).write_bytes(events)
    found, notes = logs.read(folder, "r")
    assert logs.binned(found, "r")["step"] == [1, 2, 3, 4, 5]
    assert logs.binned(found, "r")["r"] == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert any("wraps" in note for note in notes)
    with pytest.warns(SetAside, match="the steps of 'wraps' go back"):
        import_runs(folder.parent, "m", tmp_path, pattern="{variant}_{seed}", metric="r")
    long = frame(read_plan(tmp_path, "m"), tmp_path, ["r"])
    assert dict(zip(long.step, long.value, strict=True)) == {t: t + 1.0 for t in range(1, 6)}
