"""Event files that are being written: read on, never again, and beside what waits for a command."""

from __future__ import annotations

import math
import sys
import threading
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_DOUBLE, DT_FLOAT
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from ablations import logs
from ablations.errors import UserError
from ablations.logs import tensorboard
from ablations.logs.order import Part
from ablations.sweep.backends.command.training import OUTPUT, Run
from ablations.sweep.cell import Cell
from ablations.sweep.claims import Claim, hold, work_folder
from ablations.sweep.order import Order
from ablations.trainers.command import Line

TAGS = ("loss", "rollout/ep_rew_mean", "time/fps")


def written(event: Event | bytes) -> bytes:
    """A record of an event file, as TensorBoard writes it."""
    file = BytesIO()
    RecordWriter(file).write(event if isinstance(event, bytes) else event.SerializeToString())
    return file.getvalue()


def record(step: int, tag: str, value: float | TensorProto) -> bytes:
    kind = "tensor" if isinstance(value, TensorProto) else "simple_value"
    summary = Summary(value=[Summary.Value(tag=tag, **{kind: value})])
    return written(Event(wall_time=1e9 + step, step=step, summary=summary))


WHOLE = b"".join(record(step, TAGS[step % 3], step / 2) for step in range(1, 120))


def read_anew(folder: Path) -> dict[str, list[Part]]:
    found = tensorboard.Events(folder)
    found.read_on()
    return found.parts()


def test_a_file_that_grows_is_read_as_a_whole_one(tmp_path: Path) -> None:
    """Cut anywhere, also within a record; a second file begins on the way."""
    first, second = (tmp_path / f"events.out.tfevents.{k}.host" for k in (1, 2))
    events = tensorboard.Events(tmp_path)
    cuts = np.sort(np.random.default_rng(0).integers(0, len(WHOLE), 75))
    for path, size in [*((first, c) for c in cuts), *((second, c) for c in cuts[::3])]:
        path.write_bytes(WHOLE[:size])
        events.read_on()
        assert events.parts() == read_anew(tmp_path)
    first.write_bytes(WHOLE)
    events.read_on()
    assert [point for tag in TAGS for point in events.parts()[tag][0].points] == [
        (step, step / 2) for tag in TAGS for step in range(1, 120) if TAGS[step % 3] == tag
    ]


def test_a_file_that_is_begun_anew_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1.host"
    events = tensorboard.Events(tmp_path)
    path.write_bytes(WHOLE)
    events.read_on()
    path.write_bytes(record(3, "loss", 7.0))
    events.read_on()
    assert events.parts() == read_anew(tmp_path)
    assert logs.latest(tmp_path, "loss", None, events) == (3, 7.0)


@pytest.mark.parametrize("at", [9, 30, 700])
def test_damage_is_refused_at_every_look(tmp_path: Path, at: int) -> None:
    path = tmp_path / "events.out.tfevents.1.host"
    events = tensorboard.Events(tmp_path)
    path.write_bytes(WHOLE[:at] + bytes([WHOLE[at] ^ 1]) + WHOLE[at + 1 :])
    for _ in range(2):
        with pytest.raises(UserError, match="damaged"):
            events.read_on()
    assert logs.latest(tmp_path, "loss", None, events) is None


def test_an_event_that_cannot_be_read_is_refused_at_every_look(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1.host").write_bytes(WHOLE + written(b"\xff") + WHOLE)
    events = tensorboard.Events(tmp_path)
    for _ in range(2):
        with pytest.raises(UserError, match="holds an event that cannot be read"):
            events.read_on()


def test_a_look_reads_what_was_written_since_the_last(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(WHOLE)
    events = tensorboard.Events(tmp_path)
    for _ in range(2):
        assert logs.latest(tmp_path, TAGS[0], None, events) == (119, 117 / 2)
    more = record(120, TAGS[0], 60.0)
    path.write_bytes(b"x" * len(WHOLE) + more + more[:20])  # what was read would be damage now
    assert logs.latest(tmp_path, TAGS[0], None, events) == (120, 60.0)


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
    (tmp_path / "events.out.tfevents.1.host").write_bytes(record(2**31, "r", value))
    points = [point for part in read_anew(tmp_path).get("r", []) for point in part.points]
    np.testing.assert_equal(points, [] if expected is None else [(2**31, expected)])


def test_without_the_library_a_line_names_its_extra(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "events.out.tfevents.1.host").write_bytes(WHOLE)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UserError, match=r"tensorboard: pip install 'rl-ablations\[tensorboard\]'"):
        logs.read(tmp_path, "loss")


# Beside a command


@pytest.fixture
def began(tmp_path: Path) -> tuple[Run, Claim]:
    """A command that says what ended it."""
    waits = "trap 'echo asked; exit 0' TERM; while :; do sleep 0.05; done"
    line = Line(("sh", "-c", waits), "{folder}/tb", "loss", "step").plain()
    steps = {"points": 1, "updates_per_chunk": 1, "iteration_steps": 10, "evaluations": 0}
    config = {"command": line, "structure": {}, "task": {"name": "t"}, "run": steps, "seed": 0}
    cell = Cell("mine", "t", "up", 0, "c" * 16, config, place={"here": str(tmp_path)})
    order = Order("r", str(tmp_path), (cell,))
    held = hold(tmp_path, cell.hash)
    assert held is not None
    return Run(cell, tmp_path, order), held


@pytest.mark.parametrize("how", ["Ctrl-C", "timeout"])
def test_a_command_is_asked_to_end_while_its_log_is_read(
    began, tmp_path: Path, monkeypatch, how: str
) -> None:
    """A look at a long log takes until the test is over."""
    run, held = began
    looking, over, ended = threading.Event(), threading.Event(), threading.Event()

    def look(*_: Any) -> None:
        looking.set()
        over.wait(15)
        ended.set()

    monkeypatch.setattr(logs, "latest", look)
    monkeypatch.setattr(Run, "_curve", lambda self: tmp_path)
    if how == "timeout":
        run.cell = replace(run.cell, place={**run.cell.place, "timeout": 1.5})
    try:
        with pytest.raises(SystemExit if how == "Ctrl-C" else Exception):
            run.run([held], lambda: how == "Ctrl-C" and looking.is_set())
        assert looking.is_set()
        assert not ended.is_set(), "it waited for the look"
        output = work_folder(tmp_path, run.cell.hash) / "run" / OUTPUT
        assert output.read_text().endswith("asked\n")
    finally:
        over.set()
        run.kill()
        held.finish()
