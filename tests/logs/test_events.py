"""Event files that are being written: read on, never again, and beside what waits for a command."""

from __future__ import annotations

import struct
import threading
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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


def crc(data: bytes) -> int:
    """CRC-32C bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def record(step: int, tag: str, value: float) -> bytes:
    """A record of an event file, as TensorBoard writes it."""

    def field(number: int, kind: int, data: bytes) -> bytes:
        return bytes([number << 3 | kind]) + (bytes([len(data)]) if kind == 2 else b"") + data

    scalar = field(1, 2, tag.encode()) + field(2, 5, struct.pack("<f", value))
    at = bytes([0x80 | step & 0x7F, step >> 7])
    data = (
        field(1, 1, struct.pack("<d", 1e9 + step))
        + field(2, 0, at)
        + field(5, 2, field(1, 2, scalar))
    )
    length = struct.pack("<Q", len(data))

    def masked(part: bytes) -> bytes:
        whole = crc(part)
        return struct.pack("<I", ((whole >> 15 | whole << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    return length + masked(length) + data + masked(data)


WHOLE = b"".join(record(step, TAGS[step % 3], step / 2) for step in range(1, 120))


def read_anew(folder: Path) -> dict[str, list[Part]]:
    found = tensorboard.Events(folder)
    found.read_on()
    return found.parts()


def test_checksums_are_those_of_the_polynomial() -> None:
    assert crc(b"123456789") == 0xE3069283  # of RFC 3720
    rows = np.random.default_rng(0).integers(0, 256, (50, 31)).astype(np.uint8)
    expected = [tensorboard._masked_crc(row.tobytes()) for row in rows]
    assert tensorboard._masked_crcs(rows).tolist() == expected
    value = crc(rows[0].tobytes())
    assert expected[0] == ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("block", [16, 100, 2**20])
def test_a_file_that_grows_is_read_as_a_whole_one(tmp_path: Path, monkeypatch, block: int) -> None:
    """Cut anywhere, also within a record; a second file begins on the way."""
    monkeypatch.setattr(tensorboard, "BLOCK_BYTES", block)
    first, second = (tmp_path / f"events.out.tfevents.{k}.host" for k in (1, 2))
    events = tensorboard.Events(tmp_path)
    cuts = np.sort(np.random.default_rng(block).integers(0, len(WHOLE), 25))
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


def test_a_look_reads_what_was_written_since_the_last(tmp_path: Path, monkeypatch) -> None:
    read = []

    class Counted(BytesIO):
        def __init__(self, path: Path):
            with kept(path, "rb") as file:
                super().__init__(file.read())

        def fileno(self) -> int:
            return descriptor.fileno()

        def read(self, size: int | None = -1) -> bytes:
            read.append(len(data := super().read(size)))
            return data

    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(WHOLE)
    events = tensorboard.Events(tmp_path)
    kept = Path.open
    with kept(path, "ab") as descriptor:
        monkeypatch.setattr(Path, "open", lambda self, *_, **__: Counted(self))
        assert logs.latest(tmp_path, TAGS[0], None, events) == (119, 117 / 2)
        assert sum(read) >= len(WHOLE)
        read.clear()
        assert logs.latest(tmp_path, TAGS[0], None, events) == (119, 117 / 2)
        assert sum(read) == 0
        more = record(120, TAGS[0], 60.0)
        descriptor.write(more + more[:20])
        descriptor.flush()
        assert logs.latest(tmp_path, TAGS[0], None, events) == (120, 60.0)
        assert sum(read) == len(more) + 20


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
