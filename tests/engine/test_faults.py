"""Ways to lose or mislabel work, each met once: none may come back. Compiles nothing."""

from __future__ import annotations

import errno
import json
import shlex
import subprocess
from collections.abc import Collection
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ablations import plugins
from ablations.cli import main
from ablations.core.plan import CellEntry, StoredStudy, StoredTask, StoredVariant
from ablations.core.record import Configuration
from ablations.engine import claims, clean, local, machine, provenance
from ablations.engine.job import CANNOT_GO_ON, NO_ROOM_HINT, Cell, JobSpec
from ablations.engine.local import Workers
from ablations.engine.plan import plan
from ablations.engine.prepare import Work
from ablations.engine.slurm import queue
from ablations.engine.slurm import submit as slurm
from ablations.engine.slurm.cluster import Cluster
from ablations.engine.slurm.queue import Submission
from ablations.errors import UserError
from ablations.records import Plan, write_plan
from ablations.request import Request
from ablations.trainers.revisions import compose

RUN = {"points": 10, "updates_per_chunk": 1, "iteration_steps": 10, "evaluations": 0}


@cache
def planned() -> Configuration:
    """Plan a cell, whose configuration nobody changes."""
    return plan(Request("gae", "smoke", variants=("brax",), seeds=1)).cells[0].config


def cell(study: str = "mine", name: str = "c0", seed: int = 0, **run: int) -> Cell:
    config = planned() | {"run": planned()["run"] | RUN | run, "seed": seed}
    return Cell(study, "line", "up", seed, name, config)


def carried_out(cells: Collection[Cell], results: Path, **how: Any) -> local.Outcome:
    work = Work(tuple(cells), tuple(cells))
    return local.Processes(workers=1, quiet=True).carry_out(work, results, "it", **how)


def test_a_reason_that_found_no_room_in_the_log_is_not_told_by_half(
    tmp_path: Path, monkeypatch
) -> None:
    """The log lies on the disc that is full: the line in it stops where the room did."""

    def start(workers: Workers, index: int) -> subprocess.Popen[bytes]:
        path = workers._log(index)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"cannot continue: cannot write to '{workers.results}': File too large: make ro"
        )
        return subprocess.Popen(["sh", "-c", f"exit {CANNOT_GO_ON}"])

    monkeypatch.setattr(Workers, "_start", start)
    with pytest.raises(UserError, match=f"{NO_ROOM_HINT}$"):
        carried_out([cell()], tmp_path)


# Older code


@pytest.mark.parametrize(
    ("place", "what"),
    [
        (("trainer",), "trainer 'ppo' is of revision 99, now"),
        (("task",), "task 'fast' is of revision 99, now"),
        (("choices", "advantage"), "advantage=brax is of revision 99, now"),
        (("choices", "gone"), "gone"),
    ],
    ids=lambda place: place[-1] if isinstance(place, tuple) else "",
)
def test_what_other_revisions_resolved_is_not_run_under_their_name(
    place: tuple[str, ...], what: str
) -> None:
    """Neither by a worker nor as a saved policy: both compose it first."""
    compose(planned())
    old = json.loads(json.dumps(planned()))
    inner = old
    for name in place:
        inner = inner.setdefault(name, {"name": "gone"})
    inner["revision"] = 99
    with pytest.raises(UserError, match=what):
        compose(old)


# Cleaning while something runs


def test_cleaning_spares_a_run_that_compiles(tmp_path: Path, monkeypatch) -> None:
    """It has no heartbeat yet, and its workers read the order and write the log."""
    seen = []

    class Compiling:
        def __init__(self, job: JobSpec, path: Path, _: int):
            self.job, self.path = job, path

        def work(self, *_: object) -> None:
            log = tmp_path / "work" / "logs" / f"{self.job.run}-0.log"
            log.parent.mkdir(parents=True)
            log.write_text("")
            (tmp_path / "work" / "logs" / "0123abcd-0.log").write_text("")
            clean.delete(tmp_path, clean.waste(tmp_path))
            seen.extend([self.path.exists(), log.exists()])

    monkeypatch.setattr(local, "Workers", Compiling)
    store(tmp_path, "mine", [])
    carried_out([cell()], tmp_path, deadline=0.0)
    assert seen == [True, True]
    clean.delete(tmp_path, clean.waste(tmp_path))
    assert not (tmp_path / "work" / "logs").exists()
    assert not (tmp_path / "work" / "orders").exists()


def test_cleaning_takes_what_nobody_holds_and_spares_what_somebody_does(tmp_path: Path) -> None:
    store(tmp_path, "mine", [])
    with claims.at_rest(tmp_path) as idle, claims.at_rest(tmp_path) as another:
        assert (idle, another) == (True, False), "what begins meanwhile waits"
    with claims.running(tmp_path), claims.running(tmp_path):
        held = claims.claim(tmp_path, "a" * 16)
        assert held
        found = clean.waste(tmp_path)
        clean.delete(tmp_path, [held._folder])
        assert (found, held._folder.exists()) == ([], True)
        held.release()
    clean.delete(tmp_path, clean.waste(tmp_path))
    assert not held._folder.exists()


def test_a_folder_that_is_removed_while_it_is_claimed_is_somebody_else_s(
    tmp_path: Path, monkeypatch
) -> None:
    """`mkdir` finds it there, and asks whether it is a folder when it is gone."""
    folder = claims.work_folder(tmp_path, "c0")
    folder.mkdir(parents=True)
    is_folder = Path.is_dir

    def removed_first(path: Path) -> bool:
        if path == folder and folder.exists():
            folder.rmdir()
        return is_folder(path)

    monkeypatch.setattr(Path, "is_dir", removed_first)
    assert claims.hold(tmp_path, "c0") is None
    monkeypatch.undo()
    claims.work_folder(tmp_path, "c1").write_text("no folder")
    with pytest.raises(FileExistsError):
        claims.hold(tmp_path, "c1")
    held = claims.hold(tmp_path, "c0")
    assert held is not None
    held.release()


# Heartbeats and clocks


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO])
def test_a_heartbeat_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch, number: int
) -> None:
    def stale(*_: object, **__: object) -> None:
        raise OSError(number, "as NFS has it")

    held = claims.claim(tmp_path, "c0")
    assert held
    monkeypatch.setattr(claims, "write_atomically", stale)
    held.beat("training", 1, 10, 1.0, None, force=True)
    assert claims.read_heartbeat(tmp_path, "c0") is None
    (claims.work_folder(tmp_path, "c0") / "heartbeat.json").mkdir(parents=True)
    assert claims.read_heartbeat(tmp_path, "c0") is None


def test_heartbeats_go_on_when_the_clock_is_set_back(tmp_path: Path, monkeypatch) -> None:
    held = claims.claim(tmp_path, "c0")
    assert held
    held.beat("training", 1, 10, 1.0, None)
    now = claims.time.time()
    monkeypatch.setattr(claims.time, "time", lambda: now - 3600)
    monkeypatch.setattr(claims, "HEARTBEAT_SECONDS", 0.0)
    held.beat("training", 2, 10, 1.0, None)
    beat = claims.read_heartbeat(tmp_path, "c0")
    assert beat
    assert beat.step == 2
    elsewhere = structs.replace(beat, host="another", time=now + 3600)
    assert not elsewhere.alive, "a sign from the future is no recent one"


# The best policy


def test_the_trainer_says_what_ranks_its_policies() -> None:
    """Not the study: two of them may share the cell, and judge it by other metrics."""
    for trainer, columns in {
        "ppo": ("training/return", "evaluation/return"),
        "language": ("training/accuracy", "evaluation/greedy_accuracy"),
    }.items():
        for evaluations, column in zip((0, 5), columns, strict=True):
            one = cell(evaluations=evaluations)
            config = {**one.config, "trainer": {"name": trainer}}
            assert replace(one, config=config, metric="mine").ranked_by == column


# Accelerators


def test_a_device_that_was_asked_for_and_is_not_there_is_refused(monkeypatch) -> None:
    nothing = subprocess.CompletedProcess([], 1, "", "no GPU")
    monkeypatch.setattr(machine.subprocess, "run", lambda *_, **__: nothing)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    with pytest.raises(UserError, match="no device for JAX_PLATFORMS=cuda"):
        machine.accelerators()
    eight = subprocess.CompletedProcess([], 0, "8\n", "")
    monkeypatch.setattr(machine.subprocess, "run", lambda *_, **__: eight)
    assert machine.accelerators() == 8
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert machine.accelerators() == 0


def test_cells_for_an_accelerator_are_not_trained_on_the_cpu(tmp_path: Path, monkeypatch) -> None:
    """As on a node without a driver: JAX falls back, with a warning in a log."""
    monkeypatch.setattr(machine, "accelerators", lambda: 1)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    with pytest.raises(UserError, match="JAX finds no accelerator on"):
        carried_out([cell()], tmp_path)
    assert not list(tmp_path.glob("cells/*"))


# Slurm, without one


def submission(results: Path, run: str, cells: Collection[Cell]) -> None:
    studies, hashes = {one.study for one in cells}, [one.hash for one in cells]
    Submission(run, str(results), 0.0, tuple(studies), tuple(hashes)).write()


def answers(monkeypatch: pytest.MonkeyPatch, **said: str) -> list[list[str]]:
    """Slurm's commands say this; returns the list that receives them."""
    asked = []

    def ask(command: list[str], _: str | None = None) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, said.get(command[0], ""), "")

    monkeypatch.setattr(queue, "_ask", ask)
    return asked


@pytest.mark.parametrize(
    ("squeue", "alive", "ended"),
    [
        ("7_0|COMPLETED|None|rl-ablations run\n7_1|RUNNING|None|rl-ablations run\n", True, None),
        (
            "7_0|COMPLETED|None|rl-ablations run\n7_1|OUT_OF_MEMORY|None|rl-ablations run\n",
            False,
            "OUT_OF_MEMORY",
        ),
        ("7_1|RUNNING|None|rl-ablations other\n", False, None),
        ("7_1|RUNNING|None|(null)\n", False, None),
    ],
)
def test_a_run_has_a_job_while_one_of_its_submission_is_alive(
    squeue: str, alive: bool, ended: str | None, tmp_path: Path, monkeypatch
) -> None:
    submission(tmp_path, "run", [cell(name="a"), cell(name="b")])
    answers(monkeypatch, squeue=squeue)
    held = queue.holders(tmp_path, ["a", "b", "c"])
    assert held["a"] == held["b"]
    assert held.keys() == {"a", "b"}
    _, job = held["a"]
    assert (job.alive if job else False) == alive
    assert alive or (job and job.state) == ended


def store(results: Path, study: str, cells: Collection[Cell], **flags: Any) -> None:
    entries = tuple(CellEntry(c.task, c.variant, c.seed, c.hash, c.config) for c in cells)
    about = StoredStudy(study, "", "", "", "up", 0.05, False, "training/return")
    variants, tasks = {"up": StoredVariant(None, "", {})}, {"line": StoredTask(100, {}, "")}
    write_plan(results, Plan({"profile": study, **flags}, about, variants, tasks, entries))


def test_cancel_finds_the_jobs_of_every_plan_of_a_study_and_of_no_other(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    first, last, other = cell(name="a"), cell(name="b", seed=1), cell("other", "c")
    store(tmp_path, "mine", [first], seeds=1)
    store(tmp_path, "mine", [last], seeds=[1])
    store(tmp_path, "other", [other])
    runs = ("one", "two", "three")
    for run, one in zip(runs, (first, last, other), strict=True):
        submission(tmp_path, run, [one])
    lines = (f"{n}_0|PENDING|None|rl-ablations {run}\n" for n, run in enumerate(runs, 1))
    asked = answers(monkeypatch, squeue="".join(lines))
    assert main(["status", "--cancel", "--results", str(tmp_path)]) == 2
    assert "name the studies whose jobs are to be cancelled" in capsys.readouterr().err
    assert not asked
    assert not main(["status", "--cancel", "mine", "--results", str(tmp_path)])
    assert sorted(asked[-1]) == ["1", "2", "scancel"]
    assert "2 jobs of mine cancelled, with 2 runs" in capsys.readouterr().out


def test_a_job_that_is_requeued_without_getting_anywhere_gives_up(monkeypatch) -> None:
    requeued: list[str] = []
    monkeypatch.setattr(queue, "requeue", requeued.append)
    monkeypatch.setattr(queue, "is_running", lambda _: False)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    caught = ["SIGUSR2"]
    for restarts, moved in (("2", False), ("9", True)):
        monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
        with pytest.raises(SystemExit):
            slurm._end(caught, moved=moved)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "3")
    with pytest.raises(UserError, match="3 times without a new checkpoint or record"):
        slurm._end(caught, moved=False)
    assert requeued == ["7", "7"]


def test_a_quote_in_the_path_leaves_the_script_whole(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("submitit")
    (tmp_path / "srun").write_text("")
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / 'it\'s "mine"'))
    one = Submission("run", str(tmp_path), 0.0, ("toy",), ("a",))
    script = slurm._script(slurm._executor(one, Cluster(), 100), 1)
    (line,) = [line for line in script.splitlines() if line.startswith("export PYTHONPATH")]
    told = subprocess.run(
        ["bash", "-c", f'unset PYTHONPATH\n{line}\nprintf %s "$PYTHONPATH"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == str(one.private / "code")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert shlex.quote(str(one.private)) in script


# Where a record comes from


def test_the_code_of_a_plugin_is_in_the_provenance(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "a_plugin").mkdir()
    digests = set()
    for source in ("x = 1\n", "x = 2\n"):
        (tmp_path / "a_plugin" / "inner.py").write_text(source)
        plugins.sys.modules.pop("a_plugin.inner", None)
        plugins._loaded.clear()
        plugins.load(["a_plugin.inner"])
        digests.add(provenance.of_process()["plugins"]["a_plugin.inner"])
    assert len(digests) == 2
    assert plugins.loaded() == ("a_plugin.inner",)
