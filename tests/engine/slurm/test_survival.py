"""Whatever befalls a job, its cells end with the bits of an undisturbed run, and once."""

from __future__ import annotations

import os
import signal

import pytest


def _is_whole(sweep, undisturbed: dict[str, bytes]) -> None:
    assert sweep.finished() == undisturbed
    assert {record["status"] for record in sweep.records()} == {"done"}
    assert not list(sweep.results.glob("cells/.*"))


def _was_resumed(sweep) -> bool:
    return any(record["provenance"].get("resumed_at_steps") for record in sweep.records())


@pytest.mark.long
def test_what_befalls_a_job_on_its_way(sweep, undisturbed) -> None:
    """A leftover of submitit lies where its result goes; the controller restarts; a worker is
    killed; Slurm puts the job back into the queue."""
    with sweep.held_back():
        sweep.submit("cpus=2")
        (pickle,) = sweep.private("jobs").glob("*/*_submitted.pkl")
        number = pickle.name.partition("_")[0]
        (pickle.parent / f"{number}_0_result.pkl.save_tmp").write_text("half")
    killed = next(iter(sweep.trains().values()))["pid"]
    sweep.cluster.restart_controller()
    (job,) = sweep.jobs()
    os.kill(killed, signal.SIGKILL)

    def goes_on() -> bool:
        return len({beat["pid"] for beat in sweep.beats().values()} - {killed}) == 2

    sweep.until(goes_on, "another worker")
    assert not sweep.ask("scontrol", "requeue", job)
    _is_whole(sweep, undisturbed)
    assert _was_resumed(sweep)
    assert any(r["provenance"]["environment"].get("SLURM_RESTART_COUNT") for r in sweep.records())
    sweep.until(lambda: not sweep.jobs(), "an empty queue")
    assert (pickle.parent / f"{number}_0_result.pkl").exists()


@pytest.mark.long
def test_a_job_dies_without_a_word_and_the_next_is_cancelled(sweep, undisturbed) -> None:
    """No result pickle, no end: what others wait for, for ever."""
    sweep.submit("cpus=1")
    worker = next(iter(sweep.trains().values()))["pid"]
    with open(f"/proc/{worker}/stat") as stat:
        supervisor = int(stat.read().rpartition(")")[2].split()[1])
    os.kill(supervisor, signal.SIGKILL)
    sweep.until(lambda: not sweep.jobs(), "an empty queue")
    # its worker ends a little later
    sweep.until(lambda: {row["state"] for row in sweep.rows()} == {"missing"}, "the loss of all")
    assert all("ended as FAILED" in row["reason"] for row in sweep.rows())
    assert "4 submitted" in sweep.submit("cpus=1")
    sweep.until(lambda: worker not in {beat["pid"] for beat in sweep.trains().values()}, "the next")
    sweep.ask("scancel", *sweep.jobs())
    sweep.until(lambda: not sweep.jobs(), "an empty queue")
    sweep.submit("cpus=1")
    _is_whole(sweep, undisturbed)
    assert _was_resumed(sweep)


def test_a_cell_that_kills_its_worker_fails_alone(sweep) -> None:
    (sweep.shell.folder / "deaths").write_text("1000")
    sweep("run", "toy_deadly", "--cluster", "slurm", "cpus=1", "--seeds", "1")
    sweep.until(lambda: len(sweep.records()) == 2, "records")
    (failed,) = [record for record in sweep.records() if record["status"] == "failed"]
    assert "its worker died 3 times" in failed["reason"]
    assert "its worker died 3 times" in sweep("status").stdout


def test_an_error_comes_with_the_end_of_its_log(sweep) -> None:
    sweep("run", "toy_broken", "--cluster", "slurm", "--seeds", "1")
    sweep.until(lambda: len(sweep.records()) == 2, "records")
    said = sweep("status").stdout
    assert "ValueError: this toy is broken" in said
    assert 'raise ValueError("this toy is broken")' in said
    sweep.until(lambda: not sweep.jobs(), "an empty queue")
    again = sweep("run", "toy_broken", "--cluster", "slurm", "--seeds", "1").stdout
    assert "1 submitted" in again


@pytest.mark.parametrize(
    ("grace", "warn"),
    [
        (0, False),
        *(pytest.param(*how, marks=pytest.mark.long) for how in [(0, True), (5, True), (5, False)]),
    ],
    ids=str,
)
def test_preempted(grace: int, warn: bool, sweeps, undisturbed) -> None:
    sweep = sweeps(grace=grace, warn=warn, cpus=2)
    sweep.submit("cpus=1")
    sweep.trains()
    (job,) = sweep.jobs()
    sweep.ask("sbatch", "-p", "high", "-c", "2", "--output=/dev/null", "--wrap", "sleep 3")
    sweep.until(
        lambda: sweep.ask("squeue", "-h", "-j", job, "-o", "%T").split() != ["RUNNING"], "it"
    )
    assert not [row for row in sweep.rows() if row["state"] == "failed"]
    _is_whole(sweep, undisturbed)
    assert _was_resumed(sweep)


@pytest.mark.long
def test_the_time_limit(sweep) -> None:
    """The signal comes at most a minute early: a job of two has one to reach a checkpoint."""
    sweep.submit("cpus=1", "time=2", "job_minutes=1", "--steps", "4000", "--set", "points=200")
    sweep.trains()
    sweep.until(
        lambda: "SIGUSR2" in "".join(p.read_text() for p in sweep.private("jobs").glob("*/*.out")),
        "the signal",
    )
    sweep.finished()
    assert {record["status"] for record in sweep.records()} == {"done"}
    assert _was_resumed(sweep)
