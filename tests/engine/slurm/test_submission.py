"""From plans to jobs to records, on a real Slurm."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import walk

TINY = ("run", "toy", "--cluster", "slurm")


def test_an_array_of_jobs_gives_the_table_of_a_local_run(sweep, shells) -> None:
    """Submitted from a job, of whose resources the new jobs get none."""
    here = shells()
    here("run", "toy", "--seeds", "2", "--quiet")
    sweep.shell.environment |= {"SLURM_MEM_PER_CPU": "100", "SLURM_JOB_ID": "1"}
    submitted = sweep(*TINY, "cpus=2", "job_minutes=0", "--seeds", "2").stdout
    assert "4 submitted" in submitted
    assert "2 jobs" in submitted
    assert sweep.finished(4) == here.curves()
    assert sweep.shell.policies() == here.policies()
    for format in ("markdown", "csv"):
        command = ("table", "toy", "--format", format)
        assert sweep(*command).stdout == here(*command).stdout
    for record in sweep.records():
        made = record["provenance"]
        assert made["environment"]["SLURM_JOB_PARTITION"] == "main"
        assert made["environment"]["SLURM_JOB_ID"].isdecimal()
        assert made["peak_megabytes"] > 50
        assert made["plugins"].keys() == {"toy"}
    assert "(measured)" in sweep(*TINY, "--seeds", "3", "--dry-run").stdout


def test_jobs_run_the_code_that_was_submitted(sweep) -> None:
    """The plugin is edited while the jobs wait; a job that began anew would notice."""
    with sweep.held_back():
        sweep(*TINY, "--seeds", "1")
        (sweep.shell.folder / "toy.py").write_text("raise SystemError('edited')\n")
    sweep.finished(2)
    assert {record["status"] for record in sweep.records()} == {"done"}
    (copy,) = sweep.private("jobs").glob("*/code")
    names = {path.name for path in copy.iterdir()} - {"__pycache__"}
    assert names == {"ablations", "toy.py", "variants"}


def test_a_second_run_submits_only_what_nobody_has(sweep) -> None:
    with sweep.held_back():
        assert "4 submitted" in sweep.submit()
        again = sweep.submit()
        assert "4 queued; nothing to submit" in again
        assert "follow: ablations status toy_held; stop: " in again
        wider = sweep.submit("--seeds", "3")
        assert "6 runs: 0 done, 4 queued, 2 submitted" in wider
    sweep.finished(6)
    assert "6 done, 0 queued; nothing to submit" in sweep.submit("--seeds", "3")


def test_two_drivers_at_once_double_nothing(sweep) -> None:
    command = sweep.shell.command(*TINY)
    drivers = [
        subprocess.Popen(
            command,
            cwd=sweep.shell.folder,
            env=sweep.shell.environment,
            text=True,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    said = sorted(driver.communicate(timeout=1500)[0].splitlines()[0] for driver in drivers)
    assert said[0].endswith("0 done, 0 queued, 8 submitted")
    assert "nothing to submit" in said[1]
    sweep.finished(8)
    began = [
        line
        for log in sweep.results.glob("work/logs/*")
        for line in log.read_text().splitlines()
        if line.startswith("began ")
    ]
    assert len(began) == len(set(began)) == 8


def test_status_tells_who_waits_who_runs_and_what_was_lost(sweep) -> None:
    long = ("--steps", "4000", "--set", "points=200")
    sweep.submit("cpus=1", "job_minutes=0", "at_once=2", *long)

    def in_between() -> list[dict[str, Any]]:
        rows = sweep.rows()
        return rows if {row["state"] for row in rows} == {"running", "queued"} else []

    rows = sweep.until(in_between, "a running cell beside a queued one")
    running = [row for row in rows if row["state"] == "running"]
    assert all(row["job"] in sweep.jobs() and row["rate"] >= 0 for row in running)
    text = sweep("status").stdout
    assert "queued: " in text
    assert "running: " in text
    assert "jobs of toy_held cancelled" in sweep("status", "--cancel", "toy_held").stdout
    sweep.until(lambda: not sweep.jobs(), "an empty queue")
    lost = [row for row in sweep.rows() if row["state"] == "missing"]
    assert lost
    assert all("ended as CANCELLED" in row["reason"] for row in lost)
    assert "no job of toy_held is in the queue" in sweep("status", "--cancel", "toy_held").stdout
    sweep.shell.hurry()
    assert f"{len(lost)} submitted" in sweep.submit("cpus=1", *long)
    sweep.until(lambda: "toy_held: 4 done" in sweep("status").stdout, "the last run")


def test_a_dry_run_changes_nothing(sweep) -> None:
    said = sweep(*TINY, "--dry-run").stdout
    assert "8 to submit" in said
    assert "(assumed: " in said
    assert "core-hours" in said
    script = sweep(*TINY, "partition=main", "time=1:30:00", "--script").stdout
    assert script.startswith("#!/bin/bash")
    assert "#SBATCH --partition=main" in script
    assert "#SBATCH --time=1:30:00" in script
    (folder,) = re.findall(r"chdir=(\S+)", script)
    assert Path(folder).is_absolute()
    assert not sweep.results.exists()
    assert not sweep.jobs()


def test_each_call_plans_one_stage(sweep, run_all) -> None:
    flags = ("run", "toy_close", "--until", "decided", "--most-seeds", "12", "--cluster", "slurm")
    assert "stages of 8, 12 seeds" in sweep(*flags, "--dry-run").stdout
    first = sweep(*flags).stdout
    assert "stage 1 of 2, 8 seeds for 2 comparisons" in first
    assert "24 submitted" in first
    if not run_all:
        return
    sweep.finished(24)
    second = sweep(*flags).stdout
    assert "1 of 2 comparisons decided; stage 2 of 2, 12 seeds for wander on line" in second
    assert "24 done, 0 queued, 8 submitted" in second
    sweep.finished(32)
    last = sweep(*flags).stdout
    assert "inconclusive with 12 seeds, the most: wander on line" in last
    assert "nothing to submit" in last


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (("partition=nowhere",), "sbatch refuses these jobs"),
        (("cpus=99",), "sbatch refuses these jobs"),
        (("--cluster", "none.toml"), "'none.toml' does not exist"),
    ],
)
def test_what_cannot_work_is_one_line_before_anything_is_submitted(sweep, flags, line) -> None:
    command = TINY[:2] if flags[0] == TINY[2] else TINY
    done = sweep(*command, *flags, code=2)
    assert line in done.stderr
    assert done.stderr.startswith("ablations: ")
    assert done.stderr.count("\n") == 1
    assert not sweep.jobs()


def test_the_five_lines_of_the_documentation(sweep) -> None:
    page = (Path(__file__).parents[3] / "docs" / "cluster.md").read_text()
    block = page.partition("```sh\n")[2].partition("```")[0]
    lines = [line.partition("#")[0].strip() for line in block.splitlines()]
    assert len(lines) == 5
    said = []
    for line in lines:
        if "status" in line:  # a job that has done its last run leaves the queue a moment later
            sweep.finished(2)
            sweep.until(lambda: not sweep.jobs(), "an empty queue")
        words = line.replace("gae --profile paper", "toy --seeds 1").replace("gae", "toy").split()
        said.append(sweep.shell(*words[1:]).stdout)
    assert "2 to submit" in said[0]
    assert "2 submitted" in said[1]
    assert "toy: 2 done" in said[2].splitlines()
    assert "down " in said[3]
    assert "no job of toy is in the queue" in said[4]


def test_a_study_whose_trainer_is_a_command(sweep) -> None:
    (sweep.shell.folder / "walk.sh").write_text(walk.SCRIPT)
    (sweep.shell.folder / "walk.toml").write_text(walk.STUDY.replace("seeds = 3", "seeds = 2"))
    said = sweep("run", "walk.toml", "--cluster", "slurm", "cpus=2", "--threads", "2").stdout
    assert "1 worker in each of 2 jobs; about 20 min each" in said
    assert "compile" not in said
    sweep.finished()
    returns = {(r["config"]["structure"]["drift"], r["config"]["seed"]) for r in sweep.records()}
    assert returns == {(10, 0), (10, 1), (12, 0), (12, 1)}
    assert {row["state"] for row in sweep.rows()} == {"done"}


def test_a_job_may_use_the_cores_that_it_asked_for(sweeps) -> None:
    """From 22.05 on srun takes no --cpus-per-task over from sbatch: bound to cores, all workers of
    a job would share one."""
    bound = sweeps(bound=True)
    bound(*TINY, f"cpus={os.cpu_count()}", "job_minutes=30", "--seeds", "2")
    bound.finished(4)
    workers = {path.name.rpartition("-")[2] for path in bound.results.glob("work/logs/*.log")}
    assert len(workers) == os.cpu_count()
