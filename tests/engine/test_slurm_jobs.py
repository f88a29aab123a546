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
from ablations.engine.clean import delete, waste
from ablations.engine.estimate import sized
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
    found = Cluster(cpus=cpus, job_minutes=minutes).sized(mine, speeds(mine, rate=10.0))
    assert (found.jobs, found.workers, found.lanes) == (jobs, workers, 1)
    assert found.seconds == pytest.approx(seconds)
    assert found.hours == pytest.approx(jobs * workers * seconds / 3600)


def test_programs_are_compiled_in_parallel_and_then_one_after_the_other() -> None:
    mine = cells(4, programs=3)
    for cpus, compiling in ((1, 30), (2, 20), (4, 10)):
        found = sized(mine, speeds(mine, rate=10.0), cores=cpus)
        assert found.seconds == pytest.approx(compiling + 100 * 12 / cpus)
        assert found.programs == 3


def test_runs_are_dealt_evenly_to_the_accelerators() -> None:
    assert Cluster(lanes=6).sized(cells(20), speeds(cells(20), 1000.0)).lanes == 1
    for many, lanes, each in ((8, None, 2), (100, None, 25), (100, 6, 6)):
        found = Cluster(gpus=4, lanes=lanes).sized(cells(many), speeds(cells(many), 1000.0))
        assert (found.workers, found.lanes) == (4, each)
    mine = cells(20)
    found = Cluster(gpus=2, lanes=8, job_minutes=0).sized(mine, speeds(mine, 1000.0))
    assert (found.jobs, found.workers, found.lanes) == (2, 2, 8)


@pytest.mark.parametrize(
    ("text", "has", "has_not"),
    [
        ("", ["--cpus-per-task=4", "--requeue", "--mem=900M", "srun.*--cpus-per-task=4"], ["gpus"]),
        ("time = '1:30:00'\npartition = 7", ["--time=1:30:00$", "--partition=7$"], ["--time=75"]),
        ("time = 3", ["--time=3$", "--signal=USR2@30$"], []),
        ("time = '20:00'", ["--signal=USR2@120$"], []),
        ("time = '0:20:10'", ["--signal=USR2@121$"], []),
        ("time = '1-0'", ["--signal=USR2@180$"], []),
        ("time = 'infinite'", ["--signal=USR2@180$"], []),
        ("mem = 16\nnodes = 1", ["--mem=16$", "--nodes=1$"], []),
        ("memory = '16G'", ["--mem=16G$"], ["900"]),
        ("memory = 'none'", [], ["--mem"]),
        ("gpus = 2", ["--gpus-per-node=2"], []),
        ("gpus = 'a100:2'", ["--gpus-per-node=a100:2"], []),
        ("srun = ['--container-image=x y']", ["srun.*'--container-image=x y'"], []),
        ("[sbatch]\nrequeue = false", ["--no-requeue"], ["--requeue", "False"]),
        ("[sbatch]\n'--exclude' = 'n1'", ["SBATCH --exclude=n1$"], []),
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


def test_workers_side_by_side_share_out_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    command = replace(cells(1)[0], config={"command": {}})
    order = JobSpec("r", "results", (command,), workers=2, accelerator=True)
    given = [command.backend.environment(order, n)["CUDA_VISIBLE_DEVICES"] for n in range(2)]
    assert given == ["4,6", "5,7"]
    assert "JAX_ENABLE_X64" in command.backend.environment(order, 0)
    order = structs.replace(order, cells=tuple(cells(1)))
    assert order.backend.environment(order, 1)["CUDA_VISIBLE_DEVICES"] == "5,7"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert order.backend.environment(order, 1)["CUDA_VISIBLE_DEVICES"] == "1"
    assert "JAX_ENABLE_X64" not in order.backend.environment(order, 0)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("cpus = 0", "cpus: expected a whole number >= 1"),
        ("memory = '16'", "memory: expected a text that is a size such as 16G, or none"),
        ("memory = 16", "memory: expected a text that is a size such as 16G, or none"),
        ("cpu = 16", "unknown setting of jobs 'cpu': did you mean 'cpus'?"),
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
    path.write_text("cpus = 8\ntime = '1:00:00'\n[sbatch]\nqos = 'low'")
    both = cluster.read_cluster(path, {"cpus": 2, "gpus": None})
    assert (both.cpus, both.gpus) == (2, 0)
    assert both.sbatch == {"time": "1:00:00", "qos": "low"}


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
