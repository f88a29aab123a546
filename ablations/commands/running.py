"""The commands `run`, `sweep`, `explain` and `work`, which train missing runs."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict, Unpack

import pandas
from cyclopts import Parameter, Token

from ablations import plugins, until
from ablations.commands.selected import folder_flag, names_of, note, of_studies, selection_of
from ablations.core.decode import Json
from ablations.engine import explanation
from ablations.engine.backends.command.training import has_note
from ablations.engine.claims import published
from ablations.engine.job import CheckpointPolicy
from ablations.engine.local import Outcome, Processes, ThisProcess
from ablations.engine.local import names_of as plan_names
from ablations.engine.plan import comparison_request
from ablations.engine.plan import plan as plan_of
from ablations.engine.prepare import Work, missing, needed
from ablations.engine.slurm.cluster import Cluster, read_cluster
from ablations.engine.slurm.submit import submit
from ablations.engine.stored import resolved, to_work_on
from ablations.errors import UserError, count, printable
from ablations.io.archives import restore
from ablations.parameters import (
    RARE,
    SEVERAL,
    Folder,
    Minutes,
    Names,
    Natural,
    Number,
    Positive,
    Selection,
    parse_levels,
    parse_settings,
)
from ablations.records import Plan
from ablations.runs import Runs, read_curves
from ablations.tables import table_of
from ablations.tables.shares import change


class Execution(TypedDict, total=False):
    """Options that say where runs are trained and what is saved. They do not change results.

    Attributes:
        workers: Processes; default: by the estimated time; 0: only store the plan, for
            `ablations work`.
        quiet: Print no progress.
        fresh: Set existing runs aside and train again.
        dry_run: Print what would run and how long it takes.
        cluster: local (default), debug (this process), slurm or a file of settings, then settings:
            slurm partition=main.
        script: Print the script for sbatch, and submit nothing.
        lanes: Parallel runs in one accelerator program.
        threads: Threads of each command of a study file; default: its share of the cores.
        checkpoint_minutes: Minutes between checkpoints of a run; default: 1; 0: none by time.
        checkpoint_steps: Environment steps between checkpoints.
        keep_policies: Policies kept for good, evenly spaced, besides the best; default: 4.
    """

    workers: Natural
    quiet: bool
    fresh: bool
    dry_run: bool
    cluster: Annotated[str | Sequence[str], SEVERAL, Parameter(metavar="WHERE...")]
    script: Annotated[bool, Parameter(group=RARE)]
    lanes: Annotated[Positive, Parameter(group=RARE)]
    threads: Annotated[Positive, Parameter(group=RARE)]
    checkpoint_minutes: Annotated[Number, Parameter(group=RARE)]
    checkpoint_steps: Annotated[Positive, Parameter(group=RARE)]
    keep_policies: Annotated[Natural, Parameter(group=RARE)]


class RunOptions(Selection, Execution, total=False):
    """A selection, and where it is trained."""


if Selection.__doc__ and Execution.__doc__:  # for the help: cyclopts reads no docstring of a base
    RunOptions.__doc__ = Selection.__doc__.rstrip() + Execution.__doc__.partition("Attributes:")[2]


@dataclass(frozen=True)
class Trained:
    """Plans that were trained or submitted. failed: how many runs failed. dry: only printed."""

    plans: list[Plan]
    results: Path
    failed: int = 0
    dry: bool = False

    def curves(self) -> pandas.DataFrame:
        """Return the curves of the plans, as `ablations.curves` does."""
        names = self.plans[0].study.name if len(self.plans) == 1 else ()
        return of_studies(names, self.plans, lambda plan: read_curves(plan, self.results))

    def table(self) -> pandas.DataFrame:
        """Return the table of the one plan; empty while runs are missing."""
        (plan,) = self.plans
        return self.shown(lambda: table_of(Runs.read(self.results, plan)))

    def shown(self, table: Callable[[], pandas.DataFrame]) -> pandas.DataFrame:
        """Return a table, empty while runs are missing, with the number of failed runs."""
        waits = self.dry or missing(self.plans, self.results)
        frame = pandas.DataFrame() if waits else table()
        frame.attrs["failed"] = self.failed
        return frame


def run(
    studies: Names = (),
    /,
    *,
    minutes: Minutes = None,
    results: Folder = "results",
    **options: Unpack[RunOptions],
) -> Trained:
    """Train the missing runs of a study.

    Args:
        studies: Studies, study files, or presets (each is a study of one variant).
        minutes: With --until: stop after this time; the same command continues.
        results: The results folder; default: results.
        options: See `Selection` and `Execution`.

    Raises:
        UserError: invalid input. Failed runs do not raise: see `status`.
    """
    until_decided = options.get("until") is not None
    if minutes is not None and not (until_decided and cluster_of(options) is None):
        raise UserError("--minutes is for --until decided on this machine")
    if until_decided and options.get("fresh"):
        raise UserError("--until decided cannot be combined with --fresh: omit one of them")
    planned = resolved(names_of(studies), selection_of(options, Execution.__annotations__))
    if asked := options.get("steps"):
        note(
            f"steps on {task} rounded from {asked:,} to {stored.steps:,}, whole iterations"
            for plan in planned
            for task, stored in plan.tasks.items()
            if stored.steps != asked
        )
    return train(planned, results, options, None if minutes is None else 60 * minutes)


def _compared(_: Any, words: Sequence[Token]) -> dict[str, Any]:
    """Read NAME=A,B and names of presets as settings with their values."""
    texts = [word.value for word in words]
    named = [text for text in texts if "=" not in text]
    if len(named) == 1:
        (name,) = named
        raise UserError(
            f"'{name}' alone is no comparison: name two presets, such as cleanrl sb3, or a setting "
            f"with its values, such as gae_lambda=0.95,0.9"
        )
    levels = parse_levels(text for text in texts if "=" in text)
    return {**levels, "preset": named} if named else levels


def sweep(
    levels: Annotated[
        Mapping[str, Iterable[Json]],
        SEVERAL,
        Parameter(converter=_compared, accepts_keys=False, metavar="NAME=A,B|PRESET"),
    ],
    /,
    *,
    results: Folder = "results",
    **options: Unpack[RunOptions],
) -> pandas.DataFrame:
    """Compare values of any setting, or presets: train the missing runs and return the table.

    Other commands know the comparison as the study `sweep.SETTING`.

    Args:
        levels: A setting and its values, the baseline first: gae_lambda=0.95,0.9; or presets: sb3
            cleanrl. Several settings are crossed.
        results: The results folder; default: results.
        options: See `Selection` and `Execution`.
    """
    plugins.load()
    selection = selection_of(options, Execution.__annotations__)
    if selection.get("vary"):
        raise UserError("--vary is for studies: a sweep compares the values that you name")
    values = {name: tuple(of) for name, of in levels.items()}
    return train([plan_of(comparison_request(values, selection))], results, options).table()


def work(
    folder: Folder,
    studies: Names = (),
    /,
    *,
    minutes: Minutes = None,
    workers: Positive = None,
    lanes: Positive = None,
    quiet: bool = False,
) -> int:
    """Train runs of a stored plan, with any number of other workers; return the exit code.

    `ablations run STUDY --workers 0` stores a plan.

    Args:
        folder: The results folder.
        studies: Only these studies. Default: all stored studies.
        minutes: End after this time; default: when no run is left.
        workers: Processes; default: by the estimated time.
        lanes: Parallel runs in one accelerator program.
        quiet: Print no progress.
    """
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    results = Path(folder)
    planned = to_work_on(names_of(studies), results)
    cells = needed(planned)
    todo = tuple(cell for cell in cells if not published(results, cell.hash))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # save the state, as Ctrl-C does
    executor = Processes(workers, lanes, quiet=quiet, waits=False)
    outcome = executor.carry_out(Work(cells, todo), results, plan_names(planned), deadline)
    _print_outcome(outcome, results, quiet=quiet)
    return 1 if outcome.failed else 0


def explain(
    start: str,
    end: str,
    /,
    *,
    together: Annotated[
        Sequence[Sequence[str]],
        SEVERAL,
        Parameter(
            converter=lambda _, words: [tuple(word.value.strip(",").split(",")) for word in words],
            metavar="NAME,NAME...",
        ),
    ] = (),
    results: Folder = "results",
    **options: Unpack[RunOptions],
) -> pandas.DataFrame:
    """Find which settings cause the gap between two presets, or two variants of studies.

    Train the missing runs and compute the share of each setting in the gap. Other commands know the
    explanation as the study `START_to_END`.

    Args:
        start: A preset, or a variant such as gae/brax.
        end: Another one.
        together: Settings that are switched together.
        results: The results folder; default: results.
        options: See `Selection` and `Execution`.
    """
    plugins.load()
    if options.get("until"):
        raise UserError("--until is for studies: set the seeds of an explanation by --seeds")
    explained = explanation.plan(
        explanation.request(start, end, together, selection_of(options, Execution.__annotations__))
    )
    if not (options.get("script") or options.get("quiet")):
        print(*_explanation_lines(explained), sep="\n", flush=True)
    return train([explained], results, options).table()


def cluster_of(options: Mapping[str, Any]) -> Cluster | None:
    """Return the settings of Slurm jobs; None: this machine."""
    where, *settings = names_of(options.get("cluster") or "local")
    if where in ("local", "debug"):
        if settings:
            raise UserError(f"{settings[0]} is for --cluster slurm; on this machine, use --workers")
        if options.get("script"):
            raise UserError("--script is for --cluster slurm")
        return None
    of_jobs = {name: options.get(name) for name in ("lanes", "threads")}
    return read_cluster(
        None if where == "slurm" else Path(where), of_jobs | parse_settings(settings, "--cluster")
    )


def _checkpoints(options: Mapping[str, Any]) -> CheckpointPolicy:
    flags = ("checkpoint_minutes", "checkpoint_steps", "keep_policies")
    fields = zip(("minutes", "steps", "snapshots"), map(options.get, flags), strict=True)
    return CheckpointPolicy(**{name: value for name, value in fields if value is not None})


def processes(options: Mapping[str, Any]) -> Processes:
    """Return the executor of this machine."""
    executor = ThisProcess if "debug" in names_of(options.get("cluster") or ()) else Processes
    workers, lanes, threads = map(options.get, ("workers", "lanes", "threads"))
    return executor(workers, lanes, threads, _checkpoints(options), bool(options.get("quiet")))


def train(
    plans: list[Plan], results: str | Path, options: Mapping[str, Any], seconds: float | None = None
) -> Trained:
    """Train the plans here, for some seconds at most, or submit jobs; see `Execution`."""
    folder, cluster = Path(results), cluster_of(options)
    hashes = frozenset(cell.hash for plan in plans for cell in plan.cells)
    restore(folder, runs=None if options.get("until") else hashes)
    script, quiet, dry = (bool(options.get(name)) for name in ("script", "quiet", "dry_run"))
    if options.get("until") and (cluster is not None or dry or script):
        stages = [until.stage(plan, folder) for plan in plans]
        for stage in stages if not script and (dry or not quiet) else ():
            print(*([until.layout(stage.needs)] * dry), until.line(stage), sep="\n")
        plans = [stage.needs for stage in stages]
    if cluster is not None:
        _submit(options, plans, folder, cluster)
    elif dry:
        _print_what_would_run(options, plans, folder)
    else:
        executor = processes(options)
        if options.get("until"):
            plans, outcome = until.run(plans, folder, executor, seconds=seconds)
        else:
            outcome = executor.run(plans, folder, fresh=bool(options.get("fresh")))
        _print_outcome(outcome, folder, quiet=quiet)
        if outcome.done and not quiet:
            print(f"next: ablations table {_names(plans)}{folder_flag(folder)}")
        return Trained(plans, folder, len(outcome.failed))
    return Trained(plans, folder, dry=dry or script)


def _print_outcome(outcome: Outcome, results: Path, *, quiet: bool) -> None:
    for cell, record in outcome.failed:
        where = f"{cell.variant} on {cell.task}, seed {cell.seed}"
        print(printable(f"failed: {where}: {record.reason}"), file=sys.stderr)
    errors = [cell for cell, record in outcome.failed if record.failure == "error"]
    if any(has_note(cell, results) for cell in errors):
        print(
            "outputs that cannot be read are kept: after you correct the study file, the next "
            "`run` reads them again without running the command",
            file=sys.stderr,
        )
    if not quiet:
        print(
            f"{outcome.done} of {outcome.cells} runs done, {len(outcome.failed)} failed, "
            f"{outcome.found} of them were there before; {outcome.seconds:.0f} s"
        )


def _submit(options: Mapping[str, Any], plans: list[Plan], results: Path, cluster: Cluster) -> None:
    script = options.get("script")
    dry, fresh = bool(options.get("dry_run") or script), bool(options.get("fresh"))
    sent = submit(plans, results, cluster, _checkpoints(options), fresh=fresh, dry_run=dry)
    if script:
        print(sent.script, end="")
    elif not options.get("quiet") or dry:
        names = _names(plans)
        new = f", {sent.new} {'to submit' if dry else 'submitted'}"
        counts = (
            f"{sent.found} done, {sent.queued} queued{new if sent.new else '; nothing to submit'}"
        )
        lines = [f"    {sent.estimate}"] if sent.new else []
        print(f"{names}: {count(sent.cells, 'run')}: {counts}", *lines, sep="\n")
        if sent.new and not dry:
            print(f"submitted as {sent.array}")
        if not dry and (sent.new or sent.queued):
            studies = names + folder_flag(results)
            print(f"follow: ablations status {studies}; stop: the same with --cancel")


def _names(plans: list[Plan]) -> str:
    return " ".join(dict.fromkeys(plan.study.name for plan in plans))


def _print_what_would_run(options: Mapping[str, Any], plans: list[Plan], results: Path) -> None:
    todo = missing(plans, results, fresh=bool(options.get("fresh")))
    cells = len({cell.hash for plan in plans for cell in plan.cells})
    done = f"{cells - len(todo)} done, {len(todo)} to run"
    print(f"{_names(plans)}: {count(cells, 'run')}: {done}")
    if todo:
        print(f"    {processes(options).estimate(todo, results)}")


def _explanation_lines(plan: Plan) -> Iterable[str]:
    """Describe the details of an explanation."""
    about = plan.study.explanation
    assert about is not None
    details, seeds = count(len(about.details), "detail"), count(len(plan.seeds), "seed")
    yield f"{plan.study.name}: {details}, switched in a random order per seed, {seeds}"
    for name, detail in about.details.items():
        yield f"    {name:<27} {change(detail)}"
    held = ", ".join(f"{name}={value}" for name, value in about.held.items())
    yield f"    the same in both: {held}"
