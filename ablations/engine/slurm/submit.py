"""Submit the missing runs of plans to Slurm with submitit; define the jobs that train them.

Each job of an array starts workers, which take free runs of the submission until no run is left or
the time limit is near. Only records and checkpoints matter afterwards, not submitit's results. If
Slurm starts a job again, the job continues its unfinished runs from their checkpoints.

Slurm sends these signals to a job's processes:

    SIGUSR2   near the time limit, or before preemption with --signal: the workers save their state,
              and the job requeues itself
    SIGTERM   preemption, scancel, or the time limit: the workers save their state; Slurm decides
              whether the job runs again. The job must not end by itself, which counts as success
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import shutil
import signal
import sys
import sysconfig
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from ablations import plugins
from ablations.core.decode import Json
from ablations.engine.claims import checkpoint_points, file_lock, running
from ablations.engine.estimate import Estimate, speeds
from ablations.engine.job import Cell, CheckpointPolicy, JobSpec
from ablations.engine.local import Workers, job_spec
from ablations.engine.machine import cores, notices, slurm_job
from ablations.engine.prepare import missing, needed, prepare
from ablations.engine.progress import Bar
from ablations.engine.provenance import OURS
from ablations.engine.slurm import queue
from ablations.engine.slurm.cluster import Cluster
from ablations.engine.slurm.queue import Submission
from ablations.errors import UserError
from ablations.records import Plan

if TYPE_CHECKING:
    import submitit

_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")

CODE = "code"  # in the private folder of a submission: a copy that its jobs run
MAX_REQUEUES = 3
GRACE_SECONDS = 600.0
ASK_SECONDS = 10.0


@dataclass(frozen=True)
class Submitted:
    """The outcome of a submission, in numbers of runs.

    cells: runs of the plans. found: runs with a record. queued: runs of jobs that were submitted
    before. new: runs of the new jobs. array: Slurm's id of the new jobs. script: the input of
    sbatch.
    """

    cells: int
    found: int
    queued: int
    new: int = 0
    estimate: Estimate = field(default_factory=Estimate)
    array: str = ""
    script: str = ""


def submit(
    plans: Sequence[Plan],
    results: Path,
    cluster: Cluster,
    checkpoints: CheckpointPolicy,
    *,
    fresh: bool = False,
    dry_run: bool = False,
) -> Submitted:
    """Submit jobs for the runs that have neither a result nor a queued or running job.

    Raises UserError: Slurm would refuse the jobs, or they could not work.
    """
    results = results.resolve()
    if not str(results).isprintable():
        raise UserError(f"a job script cannot name the results folder {str(results)!a}")
    queue.require_commands()
    if importlib.util.find_spec("submitit") is None:
        raise UserError("--cluster slurm needs submitit: pip install 'rl-ablations[slurm]'")
    if dry_run:
        todo = missing(plans, results, fresh=fresh)
        return _submit(plans, results, todo, cluster)
    # A second command waits, and finds these jobs.
    with running(results), file_lock(results / "work" / "submit.lock"):
        work = prepare(plans, results, fresh=fresh)
        queue.forget_the_finished(results)
        return _submit(plans, results, work.todo, cluster, checkpoints)


def _submit(
    plans: Sequence[Plan],
    results: Path,
    todo: Sequence[Cell],
    cluster: Cluster,
    checkpoints: CheckpointPolicy | None = None,
) -> Submitted:
    """Submit jobs for some runs; without `checkpoints`, only plan them."""
    held = queue.holders(results, (cell.hash for cell in todo))
    waiting = {name for name, (_, job) in held.items() if job and job.alive}
    free = [cell for cell in todo if cell.hash not in waiting]
    cells = len(needed(plans))
    counts = Submitted(cells=cells, found=cells - len(todo), queued=len(todo) - len(free))
    if not free:
        return counts
    known = speeds(results, free, accelerator=cluster.devices > 0)
    estimated = cluster.sized(free, known)
    submission = Submission(
        run=uuid.uuid4().hex[:8],
        results=str(results),
        time=time.time(),
        studies=tuple(dict.fromkeys(plan.study.name for plan in plans)),
        cells=tuple(cell.hash for cell in free),
    )
    executor = _executor(submission, cluster, estimated.megabytes)
    script = _script(executor, estimated.jobs)
    planned = replace(counts, new=len(free), estimate=estimated, script=script)
    if checkpoints is None:
        return planned
    with _outside_of_jobs():
        queue.try_out(script)
    submission.write()
    copy_code(submission.private / CODE)
    job = job_spec(
        free,
        results,
        estimated,
        run=submission.run,
        threads=cluster.threads,
        waits=False,
        # Most of the time until Slurm's limit is for the current chunk and its checkpoint, the rest
        # for requeueing.
        stop_seconds=0.75 * cluster.signal_seconds,
        checkpoints=checkpoints,
    )
    job.write(submission.private / "job.json")
    return replace(planned, array=_send(executor, submission, estimated.jobs))


def _send(executor: submitit.SlurmExecutor, submission: Submission, jobs: int) -> str:
    """Submit jobs; return Slurm's id of their array. Raises UserError: Slurm did not accept it."""
    try:
        with warnings.catch_warnings(), _outside_of_jobs():
            warnings.simplefilter("ignore")
            executor.update_parameters(comment=f"{queue.COMMENT} {submission.run}")
            job = executor.submit_array([Job(index) for index in range(jobs)])[0].job_id
    except Exception as error:
        # Slurm may have accepted them although sbatch failed.
        taken = [job.id for job in queue.jobs() if job.run == submission.run]
        if not taken:
            why = " ".join(str(error).split())[-300:]
            if "timed out" in why:  # jobs that Slurm still takes have our comment
                raise UserError(
                    f"sbatch does not answer ({why}): wait a minute and try again"
                ) from None
            submission.forget()
            raise UserError(f"sbatch refuses these jobs: {why}") from None
        job = taken[0]
    return str(job).partition("_")[0]


def _executor(submission: Submission, cluster: Cluster, megabytes: int) -> submitit.SlurmExecutor:
    import submitit

    code = submission.private / CODE
    given: dict[str, Json] = {
        "time": 2 * cluster.job_minutes + 15,
        "mem": cluster.memory or f"{megabytes}M",
        "requeue": True,
        "gpus-per-node": cluster.gpus if cluster.devices else False,
        "chdir": str(code),  # Python imports from there first
        **cluster.sbatch,
    }
    given["no-requeue"] = given["requeue"] is False
    given["mem"] = False if given["mem"] == "none" else given["mem"]
    options: dict[str, Json] = {
        "job_name": "ablations-" + "-".join(submission.studies)[:40],
        "cpus_per_task": cluster.cpus,
        # From Slurm 22.05 on, srun ignores the value of sbatch.
        "srun_args": [f"--cpus-per-task={cluster.cpus}", *cluster.srun],
        "array_parallelism": cluster.at_once,
        "signal_delay_s": cluster.signal_seconds,
        "setup": [
            *cluster.setup,
            f"export PYTHONPATH={shlex.quote(str(code))}${{PYTHONPATH:+:$PYTHONPATH}}",
        ],
        "additional_parameters": {n: value for n, value in given.items() if value is not False},
    }
    executor = submitit.SlurmExecutor(folder=submission.private)
    executor.update_parameters(**options)
    return executor


def _script(executor: submitit.SlurmExecutor, jobs: int) -> str:
    """Return the script of the first array."""
    from submitit.slurm.slurm import _make_sbatch_string

    parameters = dict(executor.parameters)
    if jobs > 1:
        parameters["map_count"] = jobs
    return str(
        _make_sbatch_string(
            command=executor._submitit_command_str, folder=executor.folder, **parameters
        )
    )


@contextlib.contextmanager
def _outside_of_jobs() -> Iterator[None]:
    """Hide the variables of this process's own job, which sbatch would apply to the new jobs."""
    of_job = {n: v for n, v in os.environ.items() if n.startswith("SLURM_") and n != "SLURM_CONF"}
    for name in of_job:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(of_job)


def copy_code(folder: Path) -> None:
    """Copy our packages, and plugins outside of site-packages, into a folder."""
    folder.mkdir(parents=True)
    installed = sysconfig.get_path("purelib")
    for name in dict.fromkeys((*OURS, *(n.partition(".")[0] for n in plugins.loaded()))):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        path = Path(spec.origin).resolve()
        if name not in OURS and path.is_relative_to(installed):
            continue
        if path.name == "__init__.py":
            shutil.copytree(path.parent, folder / name, ignore=_LEFT_OUT)
        else:
            shutil.copy2(path, folder / path.name)


# On the node


@dataclass(frozen=True)
class Job:
    """One job of a submission, which submitit pickles and calls."""

    index: int

    def __call__(self) -> str:
        """Train runs until no run is left or time is up; return a line for submitit's log.

        Raises UserError: its workers cannot continue.
        """
        caught = _catch()
        private = Path(os.environ["SUBMITIT_FOLDER"])
        for path in private.glob(f"{slurm_job()}_*.save_tmp"):
            path.unlink(missing_ok=True)  # left by a killed job; submitit does not overwrite it
        path = private / "job.json"
        planned = JobSpec.read(path)
        job = structs.replace(planned, cells=planned.left)
        if not job.cells:
            return "no run is left"
        job = structs.replace(job, workers=_workers(job))
        for line in notices(shell=False) if job.backend.compiles else ():
            print(line, flush=True)
        bar = Bar(job.cells, Path(job.results), workers=job.workers)
        before = _progress(job)
        with running(Path(job.results)):
            Workers(job, path, self.index * planned.workers).work(bar, lambda: bool(caught))
        if caught:
            _end(caught, moved=_progress(job) != before)
        return f"{len(job.cells)} runs were left"


def _end(caught: Sequence[str], *, moved: bool) -> None:
    """Requeue the job if its time is up, and wait until Slurm ends it.

    moved: whether this start saved a checkpoint or a record. Raises UserError: this start and
    several before it did not.
    """
    job = slurm_job() or ""
    if "SIGUSR2" in caught:
        if not moved and int(os.environ.get("SLURM_RESTART_COUNT", 0)) >= MAX_REQUEUES:
            raise UserError(
                f"it was requeued {MAX_REQUEUES} times without a new checkpoint or record: its "
                f"time limit is too short"
            )
        queue.requeue(job)
    print(f"saved after {', '.join(caught)}; waiting to be ended", flush=True)
    deadline = time.monotonic() + GRACE_SECONDS
    # Before preemption, a job must not end by itself; a cancelled job may.
    while time.monotonic() < deadline and queue.is_running(job):
        time.sleep(ASK_SECONDS)
    sys.exit(143)


def _progress(job: JobSpec) -> tuple[int, dict[str, list[int]]]:
    """Return the number of unfinished runs and their checkpoints."""
    points = {cell.hash: checkpoint_points(Path(job.results), cell.hash) for cell in job.cells}
    return len(job.left), points


def _workers(job: JobSpec) -> int:
    """Return the planned number of workers, or fewer for few runs or few cores."""
    wanted = min(job.workers, -(-len(job.cells) // job.lanes))
    if job.accelerator:
        return wanted
    given = int(os.environ.get("SLURM_CPUS_PER_TASK") or cores())
    return max(1, min(wanted, min(cores(), given) // (job.threads or 1)))


def _catch() -> list[str]:
    """Return a list that receives the names of signals, in place of submitit's handlers."""
    caught: list[str] = []
    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, lambda n, _: caught.append(signal.Signals(n).name))
    return caught
