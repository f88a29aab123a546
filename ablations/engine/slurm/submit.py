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
import subprocess
import sys
import sysconfig
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from ablations import plugins
from ablations.core.decode import Json
from ablations.core.files import digest_of_files
from ablations.engine.claims import checkpoint_points, file_lock, running
from ablations.engine.estimate import Estimate, sized, speeds
from ablations.engine.job import Cell, CheckpointPolicy, JobSpec
from ablations.engine.local import Workers, job_spec
from ablations.engine.machine import cores, slurm_job
from ablations.engine.prepare import missing, needed, prepare, require_writable
from ablations.engine.progress import Bar
from ablations.engine.slurm import commands, submissions
from ablations.engine.slurm.cluster import Cluster
from ablations.engine.slurm.submissions import Held, Submission
from ablations.errors import Note, UserError, unknown
from ablations.private import JOB_CODE, JOBS, private_path, require_private_folder
from ablations.records import Plan, digest, folder_at_once

if TYPE_CHECKING:
    import submitit

T = TypeVar("T")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")

USUAL_ARRAY = 1001  # tasks: Slurm's default MaxArraySize
UNASKED = "Slurm does not answer: its queue, partitions and limits are not checked"
NOT_SHARED = ("tmpfs", "ramfs", "devtmpfs", "overlay")
LINE_SECONDS = 60.0
GRACE_SECONDS = 600.0
ASK_SECONDS = 10.0


@dataclass(frozen=True)
class Submitted:
    """The outcome of a submission, in numbers of runs.

    cells: runs of the plans. found: runs with a record. queued: runs of jobs that were submitted
    before. new: runs of the new jobs. arrays: Slurm's ids of the new jobs. taken, refused: how many
    jobs Slurm accepted, and why not all. script: the input of sbatch.
    """

    cells: int
    found: int
    queued: int
    new: int = 0
    estimate: Estimate = field(default_factory=Estimate)
    arrays: tuple[str, ...] = ()
    taken: int = 0
    refused: str | None = None
    script: str = ""


@dataclass(frozen=True)
class Slurm:
    """Jobs of a cluster. dry_run: change nothing."""

    cluster: Cluster
    checkpoints: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    dry_run: bool = False

    def run(self, plans: Sequence[Plan], results: Path, *, fresh: bool = False) -> Submitted:
        """Submit jobs for the runs that have neither a result nor a queued or running job.

        Raises UserError: Slurm would refuse the jobs, or they could not work.
        """
        results = results.resolve()
        if not str(results).isprintable():
            raise UserError(f"a job script cannot name the results folder {str(results)!a}")
        if self.dry_run:
            return self._submit(plans, results, missing(plans, results, fresh=fresh))
        commands.require_commands()
        require_submitit()
        require_writable(results)
        # A second command waits, and finds these jobs.
        with running(results), file_lock(results / "work" / "submit.lock"):
            cache = require_private_folder(JOB_CODE)
            _require_shared({"--results": results, "XDG_CACHE_HOME": cache}, self.cluster)
            work = prepare(plans, results, fresh=fresh)
            submissions.forget_the_finished(results)
            return self._submit(plans, results, work.todo)

    def _submit(self, plans: Sequence[Plan], results: Path, todo: Sequence[Cell]) -> Submitted:
        none: dict[str, Held] = {}
        held = self._answer(lambda: submissions.holders(results, (c.hash for c in todo)), none)
        free = [c for c in todo if c.hash not in held or not held[c.hash].state.alive]
        cells = len(needed(plans))
        counts = Submitted(cells=cells, found=cells - len(todo), queued=len(todo) - len(free))
        if not free:
            return counts
        self._answer(lambda: _require_partition(self.cluster), None)
        known = speeds(results, free, accelerator=self.cluster.gpus > 0)
        estimated = sized(free, self.cluster.resources, known)
        planned = replace(counts, new=len(free), estimate=estimated)
        if self.dry_run and not _has_submitit():
            return planned
        submission = Submission(
            run=uuid.uuid4().hex[:8],
            results=str(results),
            time=time.time(),
            studies=tuple(dict.fromkeys(plan.study.name for plan in plans)),
            cells=tuple(cell.hash for cell in free),
            jobs=estimated.jobs,
        )
        code = copy_code(private_path(JOB_CODE), _modules(), dry_run=self.dry_run)
        largest = self._answer(commands.largest_array, USUAL_ARRAY)
        executor = _executor(
            submission, self.cluster, code, estimated.megabytes, anywhere=self.dry_run
        )
        script = _script(executor, min(largest, estimated.jobs))
        planned = replace(planned, script=script)
        if self.dry_run:
            return planned
        with _outside_of_jobs():
            commands.try_out(script)
        _cancel_stuck({job.submission.run: job.submission for job in held.values()}.values())
        submission.write()
        job = job_spec(
            free,
            results,
            estimated,
            run=submission.run,
            threads=self.cluster.threads,
            waits=False,
            # Most of the time until Slurm's limit is for the current chunk and its checkpoint, the
            # rest for requeueing.
            stop_seconds=0.75 * self.cluster.signal_seconds,
            checkpoints=self.checkpoints,
        )
        job.write(require_private_folder(JOBS) / submission.run / "job.json")
        taken, refused = _send(executor, submission, largest)
        if not taken:
            if "timed out" in str(refused):  # jobs that Slurm still takes have our comment
                raise UserError(f"sbatch does not answer ({refused}): wait a minute and try again")
            submissions.forget(submission)
            raise UserError(f"sbatch refuses these jobs: {refused}")
        arrays = tuple(job for job, _, _ in submission.arrays())
        return replace(planned, arrays=arrays, taken=taken, refused=refused)

    def _answer(self, question: Callable[[], T], otherwise: T) -> T:
        """Return Slurm's answer. In a dry run without an answer, return `otherwise`."""
        try:
            return question()
        except commands.Silent:
            if not self.dry_run:
                raise
            warnings.warn(Note(UNASKED), stacklevel=2)
            return otherwise


def _cancel_stuck(involved: Iterable[Submission]) -> None:
    """Cancel held jobs, whose runs the new jobs train."""
    jobs = [job for jobs in submissions.jobs_of([*involved]) for job in jobs]
    if stuck := {job.id for job in jobs if job.id and job.state.held}:
        commands.cancel(stuck)


def _send(
    executor: submitit.SlurmExecutor, submission: Submission, largest: int
) -> tuple[int, str | None]:
    """Submit the jobs; return how many Slurm accepted, and why not all."""
    every = [Job(str(submission.folder), index) for index in range(submission.jobs)]
    for first in range(0, len(every), largest):
        part = every[first : first + largest]
        tasks = len(part) if len(part) > 1 else 0
        try:
            with warnings.catch_warnings(), _outside_of_jobs():
                warnings.simplefilter("ignore")
                # The comment identifies the jobs if this process ends before it writes their id.
                executor.update_parameters(comment=submission.comment(first, tasks))
                sent = executor.submit_array(part)
        except Exception as error:
            # Slurm may have accepted them although sbatch failed.
            submissions.adopt([submission])
            if first not in submission.slurm_jobs():
                return first, _message_of_sbatch(error)
        else:
            submission.add_array(sent[0].job_id.partition("_")[0], first, tasks)
    return len(every), None


def _executor(
    submission: Submission, cluster: Cluster, code: Path, megabytes: int, *, anywhere: bool = False
) -> submitit.SlurmExecutor:
    """Return submitit's executor. anywhere: also without Slurm, to write the script."""
    import submitit

    class Anywhere(submitit.SlurmExecutor):
        @classmethod
        def affinity(cls) -> int:
            return 1

    more: dict[str, Json] = {
        "requeue": True,
        "chdir": str(code),  # Python imports from there first
        **cluster.sbatch,
    }
    if more["requeue"] is False:
        more["no-requeue"] = True
    options: dict[str, Json] = {
        "job_name": "ablations-" + "-".join(submission.studies)[:40],
        "time": cluster.time_limit,
        "cpus_per_task": cluster.cpus,
        # From Slurm 22.05 on, srun ignores the value of sbatch.
        "srun_args": [f"--cpus-per-task={cluster.cpus}", *cluster.srun],
        "array_parallelism": cluster.at_once,
        "signal_delay_s": cluster.signal_seconds,
        "setup": [
            *cluster.setup,
            f"export PYTHONPATH={shlex.quote(str(code))}${{PYTHONPATH:+:$PYTHONPATH}}",
        ],
        "additional_parameters": {n: value for n, value in more.items() if value is not False},
    }
    if cluster.memory != 0:
        options["mem"] = f"{cluster.memory or megabytes}M"
    for name in ("partition", "account", "qos", "constraint"):
        if getattr(cluster, name):
            options[name] = getattr(cluster, name)
    if cluster.gpus:
        kind = f"{cluster.gpu_type}:" if cluster.gpu_type else ""
        options["gpus_per_node"] = f"{kind}{cluster.gpus}"
    kind_of = Anywhere if anywhere else submitit.SlurmExecutor
    executor = kind_of(folder=private_path(JOBS) / submission.run)
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


def _modules() -> list[Path]:
    """Find the files of our packages and of plugins, without importing them."""
    names = ["ablations", "variants", *(n.partition(".")[0] for n in plugins.loaded())]
    specs = map(importlib.util.find_spec, dict.fromkeys(names))
    return [Path(spec.origin) for spec in specs if spec is not None and spec.origin]


def _has_submitit() -> bool:
    return importlib.util.find_spec("submitit") is not None


def require_submitit() -> None:
    """Raise UserError if submitit is not installed."""
    if not _has_submitit():
        raise UserError("--cluster slurm needs submitit: pip install 'rl-ablations[slurm]'")


def _require_partition(cluster: Cluster) -> None:
    partitions = commands.partitions()
    for name in cluster.partition.split(",") if cluster.partition else ():
        if name not in partitions:
            raise unknown("partition of this cluster", name, sorted(partitions))
        limit = partitions[name].time
        if limit is not None and cluster.time_limit > limit:
            raise UserError(
                f"the time limit of {cluster.time_limit} minutes exceeds the {limit} minutes of "
                f"the partition '{name}': give a shorter --time"
            )


def _require_shared(folders: Mapping[str, Path], cluster: Cluster) -> None:
    """Raise UserError for a folder on a local disc. folders: flag or variable -> folder."""
    nodes = {
        node
        for partition in commands.partitions().values()
        if cluster.partition is None or partition.name in cluster.partition.split(",")
        for node in partition.nodes
    }
    if not nodes - commands.names_of_this_machine():
        return
    for named_by, folder in folders.items():
        kind = _file_system(folder)
        if kind in NOT_SHARED or folder.is_relative_to("/tmp"):
            raise UserError(
                f"the folder '{folder}' is local to this machine ({kind}), so the nodes cannot "
                f"read it: give a shared folder with {named_by}"
            )


def _file_system(path: Path) -> str:
    """Return the type of a path's file system, or "unknown"."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    best = ("", "unknown")
    for _, point, kind, *_ in mounts:
        if path.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def _message_of_sbatch(error: BaseException) -> str:
    """Return the message of sbatch, which submitit wraps in its own errors."""
    while error.__cause__ and not isinstance(error, subprocess.CalledProcessError):
        error = error.__cause__
    if isinstance(error, subprocess.CalledProcessError):
        text = error.stderr or error.output or b""
        return commands.complaint(text.decode() if isinstance(text, bytes) else text)
    lines = [line for line in str(error).splitlines() if "error" in line.lower()]
    return " ".join((lines[-1] if lines else str(error)).split())[:300]


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


def copy_code(folder: Path, modules: Iterable[Path], *, dry_run: bool = False) -> Path:
    """Copy packages and modules into a folder that is named by the digest of their contents.

    Except for ours, packages under site-packages are not copied.

    Args:
        folder: the folder of all copies.
        modules: the file of each module, or the __init__.py of each package.
        dry_run: only return the path.

    Raises:
        UserError: the copy exists and was changed.
    """
    sources = sorted(set(filter(None, map(_source, modules))))
    files = sorted((path.relative_to(s.parent), path) for s in sources for path in _files_of(s))
    final = folder / digest_of_files(files)[:16]
    if dry_run:
        return final
    if final.is_dir():
        there = sorted((path.relative_to(final), path) for path in _files_of(final))
        if digest_of_files(there)[:16] != final.name:
            raise UserError(f"the copy of the code in '{final}' was changed: delete it")
        os.utime(final)  # `clean` deletes old copies
        return final
    with folder_at_once(final) as copy:
        for source in sources:
            if source.is_dir():
                shutil.copytree(source, copy / source.name, ignore=_LEFT_OUT)
            else:
                shutil.copy2(source, copy / source.name)
    return final


def _source(module: Path) -> Path | None:
    path = module.resolve()
    source = path.parent if path.name == "__init__.py" else path
    ours = source.name in ("ablations", "variants")
    return source if ours or not source.is_relative_to(sysconfig.get_path("purelib")) else None


def _files_of(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    return sorted(
        path
        for path in source.rglob("*")
        if path.is_file()
        and not any(
            part == "__pycache__" or part.startswith(".") for part in path.relative_to(source).parts
        )
    )


# On the node


@dataclass(frozen=True)
class Job:
    """One job of a submission, which submitit pickles and calls."""

    folder: str
    index: int

    def __call__(self) -> str:
        """Train runs until no run is left or time is up; return a line for submitit's log.

        Raises UserError: its workers cannot continue.
        """
        caught = _Caught()
        private = Path(os.environ["SUBMITIT_FOLDER"])
        for path in private.glob(f"{slurm_job()}_*.save_tmp"):
            path.unlink(missing_ok=True)  # left by a killed job; submitit does not overwrite it
        submission = submissions.load(Path(self.folder))
        path = private / "job.json"
        planned = JobSpec.read(path)
        job = structs.replace(planned, cells=planned.left)
        if not job.cells:
            return "no run is left"
        job = structs.replace(job, workers=_workers(job))
        for line in job.backend.notices(shell=False):
            print(line, flush=True)
        bar = Bar(job.cells, Path(job.results), line_seconds=LINE_SECONDS, workers=job.workers)
        try:
            submission.begin(self.index, _state(job))
            with running(Path(job.results)):
                Workers(job, path, self.index * planned.workers).work(bar, caught.any)
        except UserError as error:
            submission.give_up(self.index, str(error))
            raise
        if caught.any():
            _end(caught)
        return f"{len(job.cells)} runs were left"


def _end(caught: _Caught) -> None:
    job = slurm_job() or ""
    if "SIGUSR2" in caught.names:
        commands.requeue(job)
    print(f"saved after {', '.join(caught.names)}; waiting to be ended", flush=True)
    deadline = time.monotonic() + GRACE_SECONDS
    # Before preemption, a job must not end by itself; a cancelled job may.
    while time.monotonic() < deadline and commands.is_running(job):
        time.sleep(ASK_SECONDS)
    sys.exit(143)


def _state(job: JobSpec) -> str:
    """Return a digest of the unfinished runs and their last checkpoints."""
    results = Path(job.results)
    begun = {path.name for path in (results / "work").iterdir()}
    points = {
        cell.hash: max(checkpoint_points(results, cell.hash), default=0)
        for cell in job.cells
        if cell.hash in begun
    }
    return digest([len(job.cells), points])


def _workers(job: JobSpec) -> int:
    """Return the planned number of workers, or fewer for few runs or few cores."""
    wanted = min(job.workers, -(-len(job.cells) // job.lanes))
    if job.accelerator:
        return wanted
    given = int(os.environ.get("SLURM_CPUS_PER_TASK") or cores())
    return max(1, min(wanted, min(cores(), given) // (job.threads or 1)))


class _Caught:
    """The signals that this job received. It replaces submitit's handlers."""

    def __init__(self) -> None:
        self.names: list[str] = []
        for number in (signal.SIGTERM, signal.SIGUSR2):
            signal.signal(number, lambda n, _: self.names.append(signal.Signals(n).name))

    def any(self) -> bool:
        """Return whether any signal came."""
        return bool(self.names)
