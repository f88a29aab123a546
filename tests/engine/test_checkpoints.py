"""Checkpoints: nothing of a run is lost in one, and nothing is believed that is not as written."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from filelock import FileLock

from ablations.engine import checkpoints
from ablations.engine.backends.compiled.program import Block, Program
from ablations.engine.checkpoints import Refused, Spent
from ablations.engine.claims import checkpoint_points, read_heartbeat
from ablations.engine.job import Cell, Lane, Saved, cells_of
from ablations.engine.plan import plan
from ablations.request import Request
from ablations.trainers.leaves import Mismatch, from_arrays, to_arrays

# Every axis that carries a state of its own is at work.
STATEFUL = {
    "reward_scaling": "running_return_std",
    "learning_rate_schedule": "adaptive_kl",
    "points": 6,
    "evaluations": 2,
}


@pytest.fixture(scope="module")
def cell() -> Cell:
    request = Request("gae", "smoke", variants=("brax",), seeds=1, steps=6_000, set=STATEFUL)
    return cells_of(plan(request))[0]


@pytest.fixture(scope="module")
def program(cell) -> Program:
    return Program(cell)


def finish(block: Block) -> tuple[Lane, dict[str, np.ndarray]]:
    while not block.finished:
        block.advance()
    return block.lanes[0], block.saved(0).state


@pytest.fixture(scope="module")
def uninterrupted(program, cell) -> tuple[Lane, dict[str, np.ndarray]]:
    return finish(program.start([cell]))


@pytest.fixture(scope="module")
def halfway(program, cell) -> Saved:
    block = program.start([cell])
    for _ in range(3):
        block.advance()
    return block.saved(0)


@pytest.fixture
def written(tmp_path, cell, halfway) -> Path:
    checkpoints.save(tmp_path, cell, halfway, Spent())
    return checkpoints.path_of(tmp_path, cell.hash, 3)


def test_the_run_has_state_to_lose(halfway) -> None:
    assert halfway.state["reward_scaling/steps"] > 0
    assert halfway.state["learner/schedule/current"] != np.float32(1e-3)
    assert halfway.state["iteration"] > 0
    assert sum(v is not None for v in halfway.lane.columns["evaluation/return"]) == 1


def test_stopped_and_resumed_it_ends_with_the_same_bits(
    tmp_path, program, cell, uninterrupted
) -> None:
    block = program.start([cell])
    for stop in (1, 3, 4, 5):
        while block.point < stop:
            block.advance()
        checkpoints.save(tmp_path, cell, block.saved(0), Spent())
        found, refused = checkpoints.newest(tmp_path, [cell])
        assert not refused
        assert found is not None
        assert found[0][0].point == stop
        block = program.start([cell], [found[0][0]])
    lane, state = finish(block)
    assert lane == uninterrupted[0]
    assert list(lane.columns) == list(uninterrupted[0].columns)
    assert list(state) == list(uninterrupted[1])
    for name, array in uninterrupted[1].items():
        assert array.tobytes() == state[name].tobytes(), name


def test_a_program_of_several_lanes_goes_on_too(
    tmp_path, monkeypatch, program, cell, halfway, uninterrupted
) -> None:
    """And is compiled while another worker still compiles what starts it."""
    theirs, given = FileLock(tmp_path / "init.lock"), Program._given

    def release(self: Program, cells: Any) -> Any:
        theirs.release()
        return given(self, cells)

    monkeypatch.setattr(Program, "_given", release)
    with theirs:
        # Without evaluations, whose program takes as long to compile.
        run = cell.config["run"] | {"evaluations": 0}
        plain = replace(cell, config={**cell.config, "run": run})
        two = Program(plain, lanes=2, locks=tmp_path)
    lane, _ = finish(two.start([plain] * 2, [halfway, halfway]))
    for name, values in uninterrupted[0].columns.items():
        if not name.startswith("evaluation/"):
            mine = np.array(lane.columns[name], float)
            np.testing.assert_allclose(mine, np.array(values, float), rtol=0.2, err_msg=name)


def test_every_byte_is_guarded(tmp_path, cell, written) -> None:
    whole = written.read_bytes()
    positions = np.random.default_rng(0)
    described = whole.index(b"\n", 65)
    for position in {0, 63, 64, 65, described, *positions.integers(len(whole), size=40)}:
        flipped = bytearray(whole)
        flipped[position] ^= 1 << int(positions.integers(8))
        written.write_bytes(flipped)
        with pytest.raises(Refused, match="fails its checksum"):
            checkpoints.load(tmp_path, cell, 3)
    for length in (0, 1, 64, 65, described, len(whole) // 2, len(whole) - 1):
        written.write_bytes(whole[:length])
        with pytest.raises(Refused, match="fails its checksum"):
            checkpoints.load(tmp_path, cell, 3)
    written.write_bytes(whole)
    checkpoints.load(tmp_path, cell, 3)
    written.unlink()
    written.mkdir()
    (written.parent / "61").write_text("")
    found, refused = checkpoints.newest(tmp_path, [cell])
    assert found is None
    assert len(refused) == 1


def described(path: Path) -> dict[str, Any]:
    return json.loads(path.read_bytes().split(b"\n")[1])


def rewrite(path: Path, **changes: Any) -> None:
    """A checkpoint that says something else and is whole."""
    state = path.read_bytes().split(b"\n", 2)[2]
    path.write_bytes(checkpoints.sealed(described(path) | changes, state))


def test_one_of_other_versions_or_format_or_renamed_is_refused(tmp_path, cell, written) -> None:
    shutil.copy(written, checkpoints.path_of(tmp_path, cell.hash, 5))
    with pytest.raises(Refused, match="another run or point"):
        checkpoints.load(tmp_path, cell, 5)
    rewrite(written, versions=described(written)["versions"] | {"jax": "0.0.1"})
    with pytest.raises(Refused, match=r"other versions wrote it: jax 0\.0\.1"):
        checkpoints.load(tmp_path, cell, 3)
    rewrite(written, format=99)
    with pytest.raises(Refused, match="another format"):
        checkpoints.load(tmp_path, cell, 3)


def test_a_state_of_another_structure_is_refused(program, cell, halfway) -> None:
    state = dict(halfway.state)
    state["iteration"] = state["iteration"].astype(np.int32)
    state["more"] = state.pop("key")
    with pytest.raises(Mismatch, match="'key' is missing; 'more' is not expected; 'iteration' is"):
        program.start([cell], [replace(halfway, state=state)])


def test_refused_ones_do_not_crowd_out_the_new(tmp_path, cell, halfway) -> None:
    """Of other versions, and further on: what starts over saves its own way."""
    for point in (5, 6):
        checkpoints.save(tmp_path, cell, replace(halfway, point=point), Spent())
        rewrite(checkpoints.path_of(tmp_path, cell.hash, point), versions={"jax": "0.0.1"})
    assert checkpoints.newest(tmp_path, [cell])[0] is None
    checkpoints.discard_after(tmp_path, cell.hash, 0)
    for point in (1, 2, 3, 4):
        checkpoints.save(tmp_path, cell, replace(halfway, point=point), Spent())
    assert checkpoint_points(tmp_path, cell.hash) == [3, 4], "the last two"
    assert len(list((tmp_path / "set-aside").iterdir())) == 2


def test_a_checkpoint_of_another_arithmetic_is_refused(
    tmp_path, cell, written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "arithmetic", lambda: "AVX-512")
    with pytest.raises(Refused, match="other versions wrote it: arithmetic "):
        checkpoints.load(tmp_path, cell, 3)


@pytest.mark.parametrize("limit", [2**31, 2**32])
def test_steps_are_exact_past_the_limits_of_integers(
    tmp_path, program, cell, halfway, limit: int
) -> None:
    """From a checkpoint just below, across: on the host, in the file and in the trainer's count."""
    per_point = cell.step_at(1)
    point = limit // per_point - 1
    run = cell.config["run"] | {"points": point + 4}
    longer = replace(cell, config={**cell.config, "run": run})
    iterations = np.asarray(point * run["updates_per_chunk"], np.uint32)
    lane = Lane({"step": [point * per_point], "training/return": [1.0]})
    saved = Saved(point, lane, dict(halfway.state) | {"iteration": iterations})
    checkpoints.save(tmp_path, longer, saved, Spent())
    loaded, _ = checkpoints.load(tmp_path, longer, point)
    lane, state = finish(program.start([longer], [loaded]))
    assert lane.columns["step"] == [(point + i) * per_point for i in range(5)]
    assert lane.columns["step"][1] <= limit < lane.columns["step"][-1]
    assert state["iteration"] == (point + 4) * run["updates_per_chunk"]
    assert np.isfinite(lane.columns["training/reward_per_step"][1:]).all()


def test_arrays_there_and_back(tmp_path, cell, halfway) -> None:
    """Empty ones too, as MuJoCo's physics has where a model has no contacts."""
    tree = {
        "key": jax.random.key(3),
        "keys": jax.random.split(jax.random.key(1), 4),
        "half": jax.numpy.ones(3, "bfloat16"),
        "flag": np.bool_(True),
        "empty": np.zeros((0, 3), np.float16),
        "no keys": jax.random.split(jax.random.key(1), 0),
        "nested": [(np.arange(3, dtype=np.int32),), {"x": np.float32(2)}],
    }
    checkpoints.save(tmp_path, cell, replace(halfway, state=to_arrays(tree)), Spent())
    saved, _ = checkpoints.load(tmp_path, cell, halfway.point)
    back = from_arrays(saved.state, jax.eval_shape(lambda: tree))
    assert jax.tree.structure(back) == jax.tree.structure(tree)
    for mine, its in zip(jax.tree.leaves(tree), jax.tree.leaves(back), strict=True):
        assert mine.dtype == its.dtype
        assert bool((mine == its).all())


def test_two_leaves_of_one_path_are_refused() -> None:
    with pytest.raises(Mismatch, match="one path"):
        to_arrays({"a/b": np.ones(1), "a": {"b": np.zeros(1)}})


def test_refused_in_the_open_and_gone_on_from_the_one_before(shells: Callable[[], Any]) -> None:
    undisturbed, stopped = shells(), shells()
    flags = ("--seeds", "1", "--variants", "up", "--workers", "1")
    undisturbed.hurry()
    undisturbed("run", "toy_held", *flags)
    process = stopped.start("run", "toy_held", *flags, "--checkpoint-steps", "20")
    folder = stopped.results / "work"
    while not len(list(folder.glob("*/checkpoints/0*.msgpack"))) > 1:
        assert process.poll() is None, process.communicate()
    process.kill()
    process.communicate()
    (cell,) = [path.parent.name for path in folder.glob("*/checkpoints")]
    while (sign := read_heartbeat(stopped.results, cell)) and sign.alive:
        time.sleep(0.1)  # the worker ends soon after its parent
    last = sorted(folder.glob("*/checkpoints/0*.msgpack"))[-1]
    last.write_bytes(last.read_bytes()[:-1])
    status = json.loads(stopped("status", "toy_held", "--format", "json").stdout)
    assert [(row["state"], row["checkpoint"] > 0) for row in status] == [("missing", True)]
    stopped.hurry()
    said = stopped("run", "toy_held", *flags).stdout
    assert f"checkpoint {cell}/{last.stem} is refused: it is damaged" in said
    assert f"continue at step {(int(last.stem) - 1) * 20}" in said
    assert stopped.curves() == undisturbed.curves()
    ((path,),) = [list(stopped.results.glob("cells/*/record.json"))]
    told = json.loads(path.read_text())["provenance"]
    assert told["resumed_at_steps"] == [(int(last.stem) - 1) * 20]
