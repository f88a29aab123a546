"""Submit the missing cells of plans to Slurm, through submitit; return at once."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ablations import plugins
from ablations.core.decode import Json
from ablations.core.files import digest_of_files
from ablations.core.record import Checkout
from ablations.errors import Note, UserError, unknown
from ablations.private import JOB_CODE, JOBS, require_private_folder
from ablations.records import Plan, folder_at_once
from ablations.sweep import provenance
from ablations.sweep.claims import file_lock, running
from ablations.sweep.estimate import Estimate, estimate
from ablations.sweep.job import Cell, Keeping, Order
from ablations.sweep.prepare import missing, needed, prepare, require_writable
from ablations.sweep.slurm import commands, submissions
from ablations.sweep.slurm.cluster import Cluster
from ablations.sweep.slurm.node import Job
from ablations.sweep.slurm.submissions import Submission

if TYPE_CHECKING:
    import submitit

T = TypeVar("T")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")

USUAL_ARRAY = 1001  # tasks: Slurm's MaxArraySize where nobody has set it
UNASKED = "Slurm does not answer here: its queue, partitions and limits are not checked"
NOTHING = Estimate((), {})
NOT_SHARED = ("tmpfs", "ramfs", "devtmpfs", "overlay")


@dataclass(frozen=True)
class Submitted:
    """The outcome of a submission.

    cells: all that the plans need. found: those with a record. queued: those that a job has
    already. estimate: the jobs that are submitted, or would be; arrays: Slurm's ids. refused: why
    Slurm took only the first of the jobs. script: what sbatch is given.
    """

    cells: int
    found: int
    queued: int
    estimate: Estimate = NOTHING
    arrays: tuple[str, ...] = ()
    taken: int = 0
    refused: str | None = None
    script: str = ""


@dataclass(frozen=True)
class Slurm:
    """Jobs of a cluster. dry_run: changes nothing."""

    cluster: Cluster
    keeping: Keeping = field(default_factory=Keeping)
    dry_run: bool = False

    def run(self, plans: Sequence[Plan], results: Path, *, fresh: bool = False) -> Submitted:
        """Submit jobs for the cells without a record that no living job has.

        Also for those that failed with an error, and those whose job is gone.

        Raises:
            UserError: something is wrong, as far as it can be known before it is submitted.
        """
        if not self.dry_run:
            commands.require_commands()
            require_submitit()
        results = results.resolve()
        if not str(results).isprintable():
            raise UserError(f"a job script cannot name the results folder {str(results)!a}")
        if self.dry_run:
            return self._submit(plans, results, missing(plans, results, fresh=fresh))
        require_writable(results)
        # A second driver waits, and finds these jobs.
        with running(results), file_lock(results / "work" / "submit.lock"):
            cache = require_private_folder(JOB_CODE)
            _require_shared({"--results": results, "XDG_CACHE_HOME": cache}, self.cluster)
            work = prepare(plans, results, fresh=fresh)
            submissions.forget_the_finished(results)
            return self._submit(plans, results, work.todo)

    def estimate(self, cells: Sequence[Cell], results: Path) -> Estimate:
        """Return the jobs into which cells would be packed."""
        return estimate(cells, results, self.cluster.resources)

    def _submit(self, plans: Sequence[Plan], results: Path, todo: Sequence[Cell]) -> Submitted:
        none: dict[str, submissions.Held] = {}
        held = self._answer(lambda: submissions.holders(results, (c.hash for c in todo)), none)
        free = [c for c in todo if c.hash not in held or not held[c.hash].state.alive]
        cells = len(needed(plans))
        counts = Submitted(cells=cells, found=cells - len(todo), queued=len(todo) - len(free))
        if not free:
            return counts
        self._answer(lambda: _require_partition(self.cluster), None)
        estimated = self.estimate(free, results)
        submission = Submission(
            run=uuid.uuid4().hex[:8],
            results=str(results),
            time=time.time(),
            studies=tuple(dict.fromkeys(plan.study.name for plan in plans)),
            jobs=tuple(tuple(cell.hash for cell in job.cells) for job in estimated.jobs),
        )
        checkout = provenance.of_checkout()
        if self.dry_run:
            code = Path(JOB_CODE)
        else:
            provenance.keep_difference(results, checkout)
            code = copy_code(require_private_folder(JOB_CODE), _modules())
        megabytes = max(job.megabytes for job in estimated.jobs)
        largest = self._answer(commands.largest_array, USUAL_ARRAY)
        planned = replace(counts, estimate=estimated)
        if self.dry_run and not _has_submitit():
            return planned
        executor = _executor(submission, self.cluster, code, megabytes, anywhere=self.dry_run)
        script = _script(executor, min(largest, len(estimated.jobs)))
        planned = replace(planned, script=script)
        if self.dry_run:
            return planned
        orders = self._orders(submission, estimated, checkout)
        with _outside_of_jobs():
            commands.try_out(script)
        if held_back := {job.id for job in held.values() if job.id and job.state.held}:
            commands.cancel(held_back)
        submission.write(orders)
        taken, refused = _send(executor, submission, largest)
        if not taken:
            if "timed out" in str(refused):  # it may take them yet: they are found by their comment
                raise UserError(f"sbatch does not answer ({refused}): wait a minute and try again")
            submissions.forget(submission)
            raise UserError(f"sbatch refuses these jobs: {refused}")
        arrays = tuple(job for job, _, _ in submission.arrays())
        return replace(planned, arrays=arrays, taken=taken, refused=refused)

    def _answer(self, question: Callable[[], T], otherwise: T) -> T:
        """Return Slurm's answer; where a dry run gets none, what it assumes instead."""
        try:
            return question()
        except commands.Silent:
            if not self.dry_run:
                raise
            warnings.warn(Note(UNASKED), stacklevel=2)
            return otherwise

    def _orders(
        self, submission: Submission, estimated: Estimate, checkout: Checkout
    ) -> list[Order]:
        results = Path(submission.results)
        return [
            Order(
                run=f"{submission.run}.{index}",
                results=submission.results,
                cells=job.cells[0].backend.ready(job.cells, results),
                workers=job.workers,
                lanes=job.lanes,
                accelerator=self.cluster.gpus > 0,
                threads=self.cluster.threads,
                waits=False,
                # Most of the time before Slurm kills is for the chunk at hand and its checkpoint;
                # the rest for going back into the queue.
                stop_seconds=0.75 * self.cluster.signal_seconds,
                plugins=plugins.loaded(),
                keeping=self.keeping,
                provenance=checkout,
            )
            for index, job in enumerate(estimated.jobs)
        ]


def _send(
    executor: submitit.SlurmExecutor, submission: Submission, largest: int
) -> tuple[int, str | None]:
    """Return how many of the jobs Slurm took, and why not all of them."""
    every = [Job(str(submission.folder), index) for index in range(len(submission.jobs))]
    for first in range(0, len(every), largest):
        part = every[first : first + largest]
        tasks = len(part) if len(part) > 1 else 0
        try:
            with _quietly(), _outside_of_jobs():
                # By which it is found, should this process end before it notes Slurm's id.
                executor.update_parameters(comment=submission.comment(first, tasks))
                sent = executor.submit_array(part)
        except Exception as error:
            # Slurm may have taken them, and sbatch failed to say so as submitit expects it.
            submissions.adopt([submission])
            if first not in submission.slurm_jobs():
                return first, _sbatchs_words(error)
        else:
            submission.add_array(sent[0].job_id.partition("_")[0], first, tasks)
    return len(every), None


def _executor(
    submission: Submission, cluster: Cluster, code: Path, megabytes: int, *, anywhere: bool = False
) -> submitit.SlurmExecutor:
    """Return submitit's executor. anywhere: also where there is no Slurm, to write its script."""
    import submitit

    class Anywhere(submitit.SlurmExecutor):
        @classmethod
        def affinity(cls) -> int:
            return 1

    more: dict[str, Json] = {
        "requeue": True,
        # Python looks there first: the code as it was submitted, whatever lies in this folder
        "chdir": str(code),
        **cluster.sbatch,
    }
    if more["requeue"] is False:
        more["no-requeue"] = True
    options: dict[str, Json] = {
        "job_name": "ablations-" + "-".join(submission.studies)[:40],
        "time": cluster.time_limit,
        "cpus_per_task": cluster.cpus,
        # From Slurm 22.05 on srun does not take them over from sbatch.
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
    jobs = Path(JOBS) if anywhere else require_private_folder(JOBS)
    executor = kind_of(folder=jobs / submission.run)
    executor.update_parameters(**options)
    return executor


def _script(executor: submitit.SlurmExecutor, jobs: int) -> str:
    """Return the script that submitit writes for the first array."""
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
    """Return the files of the packages and modules that a job imports from checkouts here.

    They are found, not imported.
    """
    names = ["ablations", "variants", *(n.partition(".")[0] for n in plugins.loaded())]
    specs = map(importlib.util.find_spec, dict.fromkeys(names))
    return [Path(spec.origin) for spec in specs if spec is not None and spec.origin]


def _has_submitit() -> bool:
    return importlib.util.find_spec("submitit") is not None


def require_submitit() -> None:
    """Raise UserError where what writes and sends the scripts is not installed."""
    if not _has_submitit():
        raise UserError("--cluster slurm needs submitit: pip install 'rl-ablations[slurm]'")


def _require_partition(cluster: Cluster) -> None:
    partitions = commands.partitions()
    if cluster.partition is None:
        return
    for name in cluster.partition.split(","):
        if name not in partitions:
            raise unknown("partition of this cluster", name, sorted(partitions))
        limit = partitions[name].time
        if limit is not None and cluster.time_limit > limit:
            raise UserError(
                f"a time limit of {cluster.time_limit} minutes is more than the {limit} of the "
                f"partition '{name}': give a shorter --time"
            )


def _require_shared(folders: Mapping[str, Path], cluster: Cluster) -> None:
    """Raise UserError for a folder that only this machine can see, as far as that shows.

    folders: by the flag or variable that names them.
    """
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
                f"the folder '{folder}' is on this machine alone ({kind}): the nodes cannot see "
                f"it; give a shared folder with {named_by}"
            )


def _file_system(path: Path) -> str:
    """Return the type of the file system that a path is on, where /proc tells."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    best = ("", "unknown")
    for _, point, kind, *_ in mounts:
        if path.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def _sbatchs_words(error: Exception) -> str:
    """Return the message of sbatch, which submitit wraps in its own errors."""
    while isinstance(error.__cause__, Exception) and not isinstance(
        error, subprocess.CalledProcessError
    ):
        error = error.__cause__
    if isinstance(error, subprocess.CalledProcessError):
        text = error.stderr or error.output or b""
        return commands.complaint(text.decode() if isinstance(text, bytes) else text)
    lines = [line for line in str(error).splitlines() if "error" in line.lower()]
    return re.sub(r"\s+", " ", lines[-1] if lines else str(error))[:300]


@contextlib.contextmanager
def _outside_of_jobs() -> Iterator[None]:
    """Submit without the variables of the job that this process is in.

    What the allocation of this process was given (memory per core, say) would else be asked for in
    the new jobs too.
    """
    of_job = {n: v for n, v in os.environ.items() if n.startswith("SLURM_") and n != "SLURM_CONF"}
    for name in of_job:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(of_job)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def copy_code(folder: Path, modules: Iterable[Path]) -> Path:
    """Copy top-level packages and modules into a folder named by their content; return it.

    Those installed for good (under site-packages) stay where they are, except for our own.

    Args:
        folder: under which the copy is made, if it is not there yet.
        modules: the file of each; of a package its __init__.py.

    Raises:
        UserError: the copy is there, and its files are others.
    """
    sources = sorted(set(filter(None, map(_source, modules))))
    files = sorted((path.relative_to(s.parent), path) for s in sources for path in _files_of(s))
    final = folder / digest_of_files(files)[:16]
    if final.is_dir():
        there = sorted((path.relative_to(final), path) for path in _files_of(final))
        if digest_of_files(there)[:16] != final.name:
            raise UserError(f"somebody has changed the code of jobs in '{final}': delete it")
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
