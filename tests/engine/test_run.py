"""`ablations run` as a user meets it, on a trainer that compiles in a blink."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from ablations import records


def test_says_what_it_will_use_then_runs_then_runs_nothing_twice(shell) -> None:
    first = shell("run", "toy", "--workers", "2").stdout
    announced = first.splitlines()[0]
    assert "8 runs on 1 task (line): 0 done, 8 to run" in announced
    assert "1 program to compile; 2 workers" in announced
    assert any("8/8 runs" in line and "steps/s" in line for line in first.splitlines())
    assert "\x1b" not in first, "in a pipe progress is lines"
    curves = shell.curves()
    assert len(curves) == 8
    again = shell("run", "toy").stdout
    assert "all 8 runs are done; nothing to run" in again
    assert shell.curves() == curves
    cell = next(iter(curves))
    assert shell("show", cell[:8]).stdout.startswith(f"run {cell}: done")
    refused = shell("show", cell[:8], "--set", "rate=1", code=2).stderr
    assert "--set is for studies" in refused
    for left in ("work/*/heartbeat.json", "work/orders/*", "cells/.*"):
        assert not list(shell.results.glob(left))


def test_a_record_is_what_the_trainer_computes(shell) -> None:
    shell("run", "toy", "--seeds", "1", "--workers", "1")
    plan = records.read_plan(shell.results, "toy")
    for cell, record in ((c, records.usable_record(shell.results, c.hash)) for c in plan.cells):
        curve = records.read_curve(shell.results, record)
        assert curve["step"] == list(range(20, 220, 20))
        evaluated = [i for i, value in enumerate(curve["evaluation/return"]) if value is not None]
        assert evaluated == [4, 9]
        sign = 1 if cell.variant == "up" else -1
        drift = np.diff(curve["training/return"]).mean()
        assert sign * drift == pytest.approx(0.2, abs=0.1)
        assert record.provenance["versions"]["jax"]
        assert list(record.provenance["plugins"]) == ["toy"]
        table = pyarrow.parquet.read_table(
            records.cell_folder(shell.results, cell.hash) / "curve.parquet"
        )
        assert json.loads(table.schema.metadata[b"config"]) == record.config


def test_paired_seeds_start_alike(shell) -> None:
    shell("run", "toy", "--set", "rate=0")
    plan = records.read_plan(shell.results, "toy")
    by_seed: dict[int, set[tuple[float, ...]]] = {}
    for cell, record in ((c, records.usable_record(shell.results, c.hash)) for c in plan.cells):
        curve = tuple(records.read_curve(shell.results, record)["training/return"])
        by_seed.setdefault(cell.seed, set()).add(curve)
    assert all(len(curves) == 1 for curves in by_seed.values()), "same seed, other randomness"
    assert len(set.union(*by_seed.values())) == 4, "seeds share randomness"


def test_nan_fails_its_cell_at_its_step_and_the_rest_goes_on(shell) -> None:
    done = shell("run", "toy_nan", code=1)
    assert "no longer finite between steps 60 and 80" in done.stderr
    rows = json.loads(shell("status", "toy_nan", "--format", "json").stdout)
    assert Counter(row["state"] for row in rows) == {"done": 4, "failed": 4}
    assert all(row["failed_step"] == 80 for row in rows if row["state"] == "failed")
    assert "nothing to run" in shell("run", "toy_nan", code=1).stdout, "NaN is a result"


def test_a_cell_that_raises_is_said_and_tried_again(shell) -> None:
    done = shell("run", "toy_broken", "--workers", "1", code=1)
    assert "ValueError: this toy is broken" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert len(shell.curves()) == 8
    assert "4 done, 4 to run" in shell("run", "toy_broken", "--workers", "1", code=1).stdout
    assert len(list(shell.results.glob("set-aside/*"))) == 4


def test_a_worker_that_dies_is_replaced(shell) -> None:
    (shell.folder / "deaths").write_text("2")
    shell("run", "toy_deadly", "--seeds", "2", "--workers", "1")
    assert len(shell.curves()) == 4


def test_a_cell_that_kills_its_worker_every_time_is_given_up(shell) -> None:
    """And tried again by the next command."""
    (shell.folder / "deaths").write_text("3")
    flags = ("toy_deadly", "--seeds", "1", "--workers", "1")
    assert "its worker died 3 times" in shell("run", *flags, code=1).stderr
    rows = json.loads(shell("status", "toy_deadly", "--format", "json").stdout)
    assert {row["variant"]: row["state"] for row in rows} == {"up": "done", "deadly": "failed"}
    assert "1 done, 1 to run" in shell("run", *flags).stdout


def _workers(shell) -> set[int]:
    """The worker processes in the shell's folder: each leads a session of its own."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cwd"):
        pid = int(path.parent.name)
        with contextlib.suppress(OSError):
            if os.readlink(path) == str(shell.folder) and os.getsid(pid) == pid:
                found.add(pid)
    return found


def _wait_for(condition: Callable[[], object], seconds: float = 1500) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def test_ctrl_c_leaves_a_resumable_state_and_no_worker(shells) -> None:
    stopped, undisturbed = shells(), shells()
    process = stopped.start("run", "toy_slow", "--workers", "2")
    _wait_for(lambda: stopped.curves())
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=1500)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert not _workers(stopped)
    assert 0 < len(stopped.curves()) < 8
    rest = stopped("run", "toy_slow", "--workers", "2").stdout
    assert "0 done" not in rest.splitlines()[0]
    undisturbed("run", "toy_slow", "--workers", "1")
    assert stopped.curves() == undisturbed.curves()


def test_looks_that_were_stopped_in_the_middle_go_on_with_the_same_ones(shells) -> None:
    """Of three variants one is decided at the first look; the second look is interrupted."""
    stopped, undisturbed = shells(), shells()
    flags = ("run", "toy_close", "--until", "decided", "--most-seeds", "12", "--workers", "2")
    flags += ("--set", "hooked=true", "slow=0.05")
    process = stopped.start(*flags)
    _wait_for(lambda: len(stopped.curves()) > 24, seconds=600)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    first = stopped("table", "toy_close", "--format", "csv").stdout
    stopped.hurry()
    undisturbed.hurry()
    said = stopped(*flags).stdout
    assert "1 of 2 comparisons decided; stage 2 of 2, 12 seeds for wander on line" in said
    assert "inconclusive with 12 seeds, the most: wander on line" in said
    undisturbed(*flags)
    assert len(stopped.curves()) == 32
    assert stopped.curves() == undisturbed.curves()
    table = ("table", "toy_close", "--format", "csv")
    last = stopped(*table).stdout
    assert last == undisturbed(*table).stdout
    rows = [list(csv.DictReader(io.StringIO(text))) for text in (first, last)]
    pairs = [{row["variant"]: row["pairs"] for row in of} for of in rows]
    assert [{k: float(v) for k, v in of.items() if float(v)} for of in pairs] == [
        {"down": 8, "wander": 8},
        {"down": 8, "wander": 12},
    ]


def test_a_spent_budget_ends_a_look_in_the_middle(shell) -> None:
    flags = ("run", "toy_close", "--until", "decided", "--workers", "1", "--checkpoint-steps", "20")
    flags += ("--set", "hooked=true", "slow=1.0")
    process = shell.start(*flags, "--minutes", "0.13")
    said, errors = process.communicate(timeout=1500)
    assert process.returncode == 0, errors
    assert "the time is up; the same command continues from here" in said
    assert not _workers(shell)
    assert len(shell.curves()) < 24, "a cell takes ten seconds"


def _progress(shell) -> set[str]:
    """The checkpoints and the records that are there."""
    found = [*shell.results.glob("work/*/checkpoints/0*"), *shell.results.glob("cells/[!.]*")]
    return {str(path) for path in found}


def test_kill_9_of_everything_at_random_moments_loses_nothing(shells, run_all) -> None:
    """A checkpoint after every chunk: a worker spends about half of its time in writing them."""
    killed, undisturbed = shells(), shells()
    flags = ("run", "toy_slow", "--workers", "2", "--checkpoint-steps", "20")
    moments = random.Random(0)
    for _ in range(6 if run_all else 2):
        before = _progress(killed)
        process = killed.start(*flags)
        _wait_for(lambda before=before: _progress(killed) - before)
        time.sleep(moments.random())
        process.kill()
        process.communicate()
        for pid in _workers(killed):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _wait_for(lambda: not _workers(killed))
        for cell in killed.curves():
            assert records.read_record(killed.results, cell).status == "done"
    assert len(killed.curves()) < 8, "nothing was left to be killed"
    killed(*flags)
    undisturbed("run", "toy_slow", "--workers", "2")
    assert killed.curves() == undisturbed.curves()
    assert killed.policies() == undisturbed.policies()
    resumed = [
        records.read_record(killed.results, cell).provenance.get("resumed_at_steps", [])
        for cell in killed.curves()
    ]
    assert any(resumed), "no checkpoint was gone on from"
    assert not list(killed.results.glob("work/*/heartbeat.json"))
    assert not list(killed.results.glob("work/*/checkpoints"))
    assert not list(killed.results.glob("cells/.*")), "temporary files are left"


def test_workers_end_with_their_parent(shell) -> None:
    """Here with the interpreters that a user's command starts; elsewhere they are forks."""
    command = shell.command("run", "toy_slow", "--workers", "2")
    process = subprocess.Popen(command, cwd=shell.folder, env=shell.environment)
    _wait_for(lambda: len(_workers(shell)) == 2)
    process.kill()
    process.wait()
    _wait_for(lambda: not _workers(shell))


def test_two_drivers_on_one_folder_run_every_cell_once(shell) -> None:
    drivers = [shell.start("run", "toy_slow", "--workers", "2") for _ in range(2)]
    for driver in drivers:
        out, errors = driver.communicate(timeout=1500)
        assert driver.returncode == 0, out + errors
    assert len(shell.curves()) == 8
    began = Counter(
        line.split()[1]
        for log in shell.results.glob("work/logs/*.log")
        for line in log.read_text().splitlines()
        if line.startswith("began ")
    )
    assert set(began.values()) == {1}
    assert len(began) == 8


def test_a_damaged_record_is_set_aside_and_computed_again(shell) -> None:
    shell("run", "toy", "--workers", "1")
    curves = shell.curves()
    cells = sorted(curves)
    folder = shell.results / "cells"
    (folder / cells[0] / "record.json").write_text('{"format": 1, "has')
    with (folder / cells[1] / "curve.parquet").open("r+b") as file:
        file.truncate(100)
    flipped = bytearray(curves[cells[2]])
    flipped[200] ^= 1
    (folder / cells[2] / "curve.parquet").write_bytes(flipped)
    (folder / cells[3] / "record.json").unlink()
    for arguments in (["table", "toy"], ["figure", "toy"]):
        lines = shell(*arguments).stderr.splitlines()
        assert [cell for cell in cells[:4] if any(f"record {cell} is damaged" in x for x in lines)]
        assert len(lines) == 4
    again = shell("run", "toy", "--workers", "1").stdout
    assert again.count("set aside, to be computed again") == 4
    assert shell.curves() == curves
    assert len(list(shell.results.glob("set-aside/*"))) == 4


def agree(one, other) -> None:
    """The curves of two shells."""
    assert set(one.curves()) == set(other.curves())
    for cell in one.curves():
        pair = [records.read_record(s.results, cell) for s in (one, other)]
        assert (pair[0].status, pair[0].failed_step) == (pair[1].status, pair[1].failed_step)
        mine, theirs = (
            np.array(list(records.read_curve(s.results, record).values()), float)
            for s, record in zip((one, other), pair, strict=True)
        )
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_blocks_of_lanes_agree_with_single_lanes(shells) -> None:
    single, block = shells(), shells()
    single("run", "toy_nan", "--workers", "1", code=1)
    block("run", "toy_nan", "--workers", "1", "--lanes", "3", code=1)
    agree(single, block)


def small_memory(shell, bytes_per_lane: int) -> tuple[str, ...]:
    """An accelerator of ten bytes, as a plugin."""
    (shell.folder / "small.py").write_text(
        "from ablations.engine.backends.compiled import program\n"
        "program.bytes_there = lambda: 10\n"
        f"program.Program._needed = property(lambda self: {bytes_per_lane} * self.lanes)\n"
    )
    return "--plugin", "small", "--workers", "1", "--lanes", "8"


def test_lanes_that_do_not_fit_into_memory_run_in_later_blocks(shells) -> None:
    single, block = shells(), shells()
    single("run", "toy", "--workers", "1")
    said = block("run", "toy", *small_memory(block, 3)).stdout
    assert said.count("8 parallel runs of line need 0.0 GB of the accelerator's 0.0; now 3") == 1
    done = [records.read_record(block.results, cell) for cell in block.curves()]
    assert sorted(record.provenance["lanes"] for record in done) == [2, 2, 3, 3, 3, 3, 3, 3]
    agree(single, block)
    too_large = block("run", "toy", "--fresh", *small_memory(block, 11), code=1)
    assert "one run of line needs" in too_large.stdout + too_large.stderr


def test_without_evaluations_nothing_of_them_is_compiled(shell) -> None:
    shell("run", "toy", "--seeds", "1", "--workers", "1", "--set", "evaluations=0")
    assert not list(shell.programs.glob("jit_evaluate-*"))
    plan = records.read_plan(shell.results, "toy")
    for _, record in ((c, records.usable_record(shell.results, c.hash)) for c in plan.cells):
        curve = records.read_curve(shell.results, record)
        assert "evaluation/return" not in curve
        assert None not in curve["training/return"]
        assert record.config["run"]["evaluation_envs"] == 0
    again = shell("table", "toy", "--seeds", "1", "--set", "evaluations=0").stdout
    assert "toy" in again.lower()


def test_fresh_computes_again_and_clean_deletes_what_is_not_needed(shell) -> None:
    toy = ("run", "toy", "--seeds", "1", "--workers", "1")
    shell(*toy)
    curves = shell.curves()
    assert "0 done, 2 to run" in shell(*toy, "--fresh", "--dry-run").stdout
    assert not (shell.results / "set-aside").exists()
    assert "0 done, 2 to run" in shell(*toy, "--fresh").stdout
    assert shell.curves() == curves
    assert len(list(shell.results.glob("set-aside/*/curve.parquet"))) == 2
    for cell in curves:  # as after a kill right after the record was written
        left = shell.results / "work" / cell / "checkpoints" / "00000001.msgpack"
        left.parent.mkdir(parents=True)
        left.write_text("x" * 3_000_000)
        (left.parents[1] / "lock").touch()
    shown = shell("clean").stdout
    assert shown.count("3.0 MB") == 2
    assert f"MB in '{shell.programs}'" in shown
    assert "nothing to run" in shell(*toy).stdout
    assert not list(shell.results.glob("work/*/checkpoints"))
    assert len(list(shell.results.glob("set-aside/*"))) == 2
    shell("clean", "--yes")
    assert not (shell.results / "set-aside").exists()
    assert list(shell.programs.glob("jit_chunk-*-cache"))
    assert shell.curves() == curves


def test_without_a_folder_for_programs_a_run_says_so_and_goes_on(shell) -> None:
    del shell.environment["JAX_COMPILATION_CACHE_DIR"]
    shell.environment["XDG_CACHE_HOME"] = str(shell.folder)
    open_to_all = shell.folder / "rl-ablations" / "programs"
    open_to_all.mkdir(parents=True)
    open_to_all.chmod(0o777)
    said = shell("run", "toy", "--variants", "up", "--seeds", "1").stdout
    assert said.count("compiled programs are not cached") == 1
    assert len(shell.curves()) == 1
    assert not list(open_to_all.iterdir())
    assert not (shell.results / "cache").exists()


def test_workers_of_any_scheduler_share_a_stored_plan(shells) -> None:
    """The second machine's worker takes what the first leaves when its time is up."""
    shared, alone = shells(), shells()
    assert "8 runs to do: `ablations work" in shared("run", "toy", "--workers", "0").stdout
    assert not shared.curves()
    flags = ("work", str(shared.results), "--workers", "1")
    workers = [shared.start(*flags) for _ in range(2)]
    for worker in workers:
        out, errors = worker.communicate(timeout=600)
        assert worker.returncode == 0, out + errors
    assert "all 8 runs are done" in shared(*flags).stdout
    alone("run", "toy", "--cluster", "debug")
    assert shared.curves() == alone.curves(), "the bits of a run depend on nobody"


def test_no_command_that_is_written_in_a_results_folder_is_executed(shell) -> None:
    study = 'study = {name = "s", seeds = 1}\nvariants = {a = {x = 1}, b = {x = 2}}\n'
    command = "command = {run = 'sh -c \"echo r: {x}\" {seed}', curve = 'stdout', metric = 'r'}\n"
    (shell.folder / "s.toml").write_text(study + command.replace("}\n", ", depends = []}\n"))
    shell("run", "s.toml", "--workers", "0", plugin=False)
    refused = shell("work", str(shell.results), code=2, plugin=False).stderr
    assert "'s' runs commands" in refused
    shell("work", str(shell.results), "s.toml", plugin=False)
    assert len(shell.curves()) == 2
