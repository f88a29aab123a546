"""How cells become jobs, and what a cluster file may say: no Slurm needed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from test_estimate import config_of

from ablations.core.plan import StoredStudy
from ablations.engine.backends import Speed
from ablations.engine.backends.compiled import BACKEND
from ablations.engine.clean import delete, waste
from ablations.engine.estimate import Resources, sized
from ablations.engine.job import Cell, JobSpec
from ablations.engine.slurm import cluster, queue
from ablations.engine.slurm import submit as slurm
from ablations.engine.slurm.cluster import Cluster
from ablations.errors import UserError
from ablations.records import Plan, write_plan


def cells(seeds: int, programs: int = 1, steps: int = 1000) -> list[Cell]:
    run = {"updates_per_chunk": steps // 100, "iteration_steps": 10, "evaluations": 0}
    return [
        Cell("toy", "fast", "up", seed, f"{program}-{seed}", config)
        for seed in range(seeds)
        for program in range(programs)
        for config in [config_of("fast", seed, run, num_envs=8 * program + 8, num_minibatches=1)]
    ]


def speeds(of: list[Cell], rate: float, megabytes: int = 100) -> dict[str, Speed]:
    return {one.program: Speed(rate, 10.0, megabytes) for one in of}


@pytest.mark.parametrize(
    ("minutes", "cpus", "jobs", "workers", "seconds"),
    [
        # 100 s each: 17 after each other fit into 30 minutes less 10 s, on 4 cores 68
        (30, 4, 1, 4, 10 + 16 * 100),
        (5, 4, 8, 4, 10 + 2 * 100),
        (0, 4, 16, 4, 10 + 100),
        (0, 1, 64, 1, 10 + 100),
        (30, 100, 1, 64, 10 + 100),
    ],
)
def test_jobs_are_as_long_as_asked_for(
    minutes: int, cpus: int, jobs: int, workers: int, seconds: float
) -> None:
    mine = cells(64)
    asked = Cluster(cpus=cpus, job_minutes=minutes).resources
    found = sized(mine, asked, speeds(mine, rate=10.0))
    assert (found.jobs, found.workers, found.lanes) == (jobs, workers, 1)
    assert found.seconds == pytest.approx(seconds)
    assert found.hours == pytest.approx(jobs * workers * seconds / 3600)


def test_programs_are_compiled_in_parallel_and_then_one_after_the_other() -> None:
    mine = cells(4, programs=3)
    for cpus, compiling in ((1, 30), (2, 20), (4, 10)):
        found = sized(mine, Resources(cpus), speeds(mine, rate=10.0))
        assert found.seconds == pytest.approx(compiling + 100 * 12 / cpus)
        assert sum(len(mine) for mine, _ in found.programs) == 12


def test_no_more_workers_than_the_memory_holds() -> None:
    mine = cells(8)
    measured = speeds(mine, 100.0, megabytes=1000)
    assert sized(mine, Cluster(cpus=8, memory=4000).resources, measured).workers == 3
    with pytest.raises(UserError, match="raise memory"):
        sized(mine, Cluster(cpus=8, memory=1400).resources, measured)


def test_lanes_are_dealt_evenly_to_the_accelerators() -> None:
    """Else a batch runs whole on one of them."""
    assert BACKEND.shape(1000, 4, 0, Cluster(lanes=6).resources.lanes) == (4, 1)
    for many, lanes, even in ((5, None, 8), (100, None, 100), (100, 6, 8), (100, 8, 8)):
        assert BACKEND.shape(many, 3, 4, lanes) == (1, even)
    mine = cells(20)
    found = sized(mine, Cluster(gpus=2, lanes=8, job_minutes=0).resources, speeds(mine, 1000.0))
    assert (found.jobs, found.workers, found.lanes) == (3, 1, 8)


TIMES = {"90": 90, 90: 90, "90:01": 91, "1:30:00": 90, "0:00:30": 1, "1-12": 36 * 60}
TIMES |= {"1-12:30": 36 * 60 + 30, "2-0:0:1": 2 * 24 * 60 + 1}


def test_time_limits_as_slurm_spells_them() -> None:
    assert {text: cluster.minutes(text) for text in TIMES} == TIMES
    for text in ("", "soon", "0", "1:2:3:4", "-5", "1.5"):
        with pytest.raises(UserError, match="time limit"):
            cluster.minutes(text)


@pytest.mark.parametrize(
    ("text", "has", "has_not"),
    [
        ("", ["--cpus-per-task=4", "--requeue", "--mem=900M", "srun.*--cpus-per-task=4"], ["gpus"]),
        ("memory = 'none'", [], ["--mem"]),
        ("gpus = 2", ["--gpus-per-node=2"], []),
        ("gpus = 'a100:2'", ["--gpus-per-node=a100:2"], []),
        ("srun = ['--container-image=x y']", ["srun.*'--container-image=x y'"], []),
        ("[sbatch]\nrequeue = false", ["--no-requeue"], ["--requeue", "False"]),
        ("[sbatch]\nexclusive = true", ["--exclusive$"], ["True"]),
        ("[sbatch]\nexclusive = false", [], ["exclusive"]),
    ],
)
def test_what_sbatch_is_given(text: str, has: list[str], has_not: list[str], tmp_path) -> None:
    path = tmp_path / "one.toml"
    path.write_text(text)
    asked = cluster.read_cluster(path, {})
    one = queue.Submission("0123abcd", str(tmp_path), 0.0, ("toy",), ("x",))
    script = slurm._script(slurm._executor(one, asked, 900), 1)
    assert all(re.search(words, script, re.MULTILINE) for words in has)
    assert not any(re.search(words, script) for words in has_not)


def test_commands_side_by_side_share_out_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    command = replace(cells(1)[0], config={"command": {}})
    order = JobSpec("r", "results", (command,), workers=2, accelerator=True)
    given = [command.backend.environment(order, n)["CUDA_VISIBLE_DEVICES"] for n in range(2)]
    assert given == ["4,6", "5,7"]
    assert "JAX_ENABLE_X64" in command.backend.environment(order, 0)
    order = structs.replace(order, cells=tuple(cells(1)))
    assert order.backend.environment(order, 0)["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    assert "JAX_ENABLE_X64" not in order.backend.environment(order, 0)


def test_memory() -> None:
    assert [cluster.megabytes(x) for x in ("16G", "500M", "1.5T", "16GB", 2)] == [
        *(16384, 500, 1572864, 16384, 2048)
    ]
    for bad in ("", "much", "-1G", "0", "12X"):
        with pytest.raises(UserError, match="memory"):
            cluster.megabytes(bad)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("partitoin = 'gpu'", "did you mean 'partition'"),
        ("cpus = 0", "cpus: expected a whole number >= 1"),
        ("account = ''", "account: expected a text that is on one line"),
        ("gpus = 'a100'", "gpus: expected a text that is N or TYPE:N"),
        ("cpus", "as TOML: "),
    ],
)
def test_a_bad_cluster_file_is_one_line(text: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=line) as error:
        cluster.read_cluster(path, {})
    assert "\n" not in str(error.value)


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text("cpus = 8\ntime = '1:00:00'\n")
    both = cluster.read_cluster(path, {"cpus": 2, "gpus": None})
    assert (both.cpus, both.time, both.gpus) == (2, 60, 0)


def test_what_counts_as_alive() -> None:
    for name in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED", "CONFIGURING"):
        assert queue.Job("7", "a", name).alive
    for name in ("COMPLETED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"):
        assert not queue.Job("7", "a", name).alive


@pytest.mark.parametrize(("state", "spared"), [("PENDING", True), ("CANCELLED", False)])
def test_cleaning_spares_what_a_job_needs(state: str, spared: bool, tmp_path, monkeypatch) -> None:
    study = StoredStudy("toy", "", "", "", "", 0.05, False, "return")
    write_plan(tmp_path, Plan({}, study, {}, {}, ()))
    one = queue.Submission("0123abcd", str(tmp_path), 0.0, ("toy",), ("x",))
    one.write()
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(queue, "jobs", lambda: [queue.Job("7", one.run, state)])
    delete(tmp_path, waste(tmp_path))
    assert one.folder.is_dir() == spared
