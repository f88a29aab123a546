"""Import other programs' runs as records and a plan, which every command reads.

Columns or file names state the task, variant and seed of each run; they are never guessed.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import itertools
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from cyclopts import Parameter

from ablations.core.files import set_aside
from ablations.core.plan import CellEntry, StoredStudy, StoredTask, StoredVariant
from ablations.core.record import Columns, Configuration, Failure, Provenance, Status
from ablations.curve import diverged, logged
from ablations.errors import Note, UserError, unknown
from ablations.io import formats, tensorboard
from ablations.io.formats import FORMATS, RECIPES, are_whole, floats, is_blank, is_logged, is_text
from ablations.io.logs import EVENTS, KINDS, curve_of, refused
from ablations.names import require_name
from ablations.parameters import SEVERAL
from ablations.records import Plan, Record, digest, read_plan, write_plan, write_record
from ablations.studies import studies

Place: TypeAlias = tuple[str, str, int]  # task, variant, seed
Imported: TypeAlias = dict[Place, tuple[Path, Columns]]  # the file and the curve of each run
Named: TypeAlias = Mapping[str, str | None]  # what columns are for -> their names

TASK = "task"  # the name of the task if no column or file name states it
RUN = ("task", "variant", "seed")
# Usual names of columns; environment steps come before other steps.
KNOWN = {
    "task": ("task", "env", "env_id", "environment"),
    "variant": ("variant", "run", "algorithm", "algo", "exp_name"),
    "seed": ("seed",),
    "step": (
        *("global_step", "time/total_timesteps", "total_timesteps", "num_timesteps", "timesteps"),
        *("TotalEnvInteracts", "num_steps", "env_steps", "total_steps", "timesteps_total"),
        *("num_env_steps_sampled_lifetime", "step_count", "step", "steps", "_step", "Step"),
        *("timestep", "iteration"),
    ),
}
# Usual names of the return of an episode.
RETURNS = (
    *("charts/episodic_return", "rollout/ep_rew_mean", "eval/episode_reward", "Train/mean_reward"),
    *("training/return", "return", "results", "episodic_return", "episode_return"),
    *("mean_episode_return", "AverageTestEpRet", "AverageEpRet", "env_runners/episode_return_mean"),
    *("episode_reward_mean", "ep_rew_mean", "reward", "score", "Value"),
)
# In a folder the first of these kinds that exists is read, otherwise files of any format.
FILES = (r"evaluations\.npz", rf".*{EVENTS}.*", r"progress\.(csv|txt)")
NOT_LOGS = {".json", ".npz"}  # in a folder these are settings and weights
# File names that do not describe the run.
COMMON = re.compile("progress|evaluations|metrics|logs?|results|history|eval|train")
PARTS = {
    "{task}": "(?P<task>.+?)",
    "{variant}": "(?P<variant>.+?)",
    "{seed}": r"(?P<seed>\d{1,18})",
    "{}": ".+?",
}
PANEL = " - "  # between run and metric in the columns of a W&B panel
# The CSV that TensorBoard's page downloads, for a run with a name such as ppo_1.
DOWNLOAD = ["Wall time", "Step", "Value"]
DOWNLOADED = re.compile(r"run-[^\W\d_][^_]*_\d{1,9}-tag-.+")


class Outcome(NamedTuple):
    """How a run ended: fields of its record."""

    status: Status = "done"
    failure: Failure | None = None
    reason: str | None = None
    failed_step: int | None = None


class Source(NamedTuple):
    """One or several runs: a file, a folder of event files, or a run of a W&B panel.

    Attributes:
        name: the part of the path that describes the run.
        rows: a row per line or step, with the columns task, variant, seed and, if known, step.
        metrics: the columns that may be metrics.
        is_table: whether columns of the file state variant or seed.
    """

    path: Path
    name: str
    rows: pd.DataFrame
    metrics: Sequence[str]
    is_table: bool


def import_runs(  # noqa: PLR0913 - each names a column or a property of the study
    paths: Annotated[
        Sequence[Path | str] | Path | str, SEVERAL, Parameter(metavar="FILE|FOLDER|PATTERN")
    ],
    study: str,
    results: Path | str = "results",
    *,
    task: str | None = None,
    variant: str | None = None,
    seed: str | None = None,
    step: str | None = None,
    metric: str | None = None,
    pattern: str | None = None,
    baseline: str | None = None,
    margin: float = 0.05,
    margin_in_metric: bool = False,
) -> pd.DataFrame:
    """Store other programs' runs as a study, and return one row per run.

    Args:
        paths: files, folders, or patterns such as "logs/*/progress.csv". A file is a long table
            (CSV, JSON lines or Parquet) with several runs, the log of one run (CSV, JSON lines,
            evaluations.npz), or the CSV of a W&B panel. A folder may have TensorBoard event files.
        study: the name of the study.
        results: the results folder.
        task: the column of tasks; default: a usual name, else all runs are of one task.
        variant: the column of variants; default: a usual name.
        seed: the column of seeds; default: a usual name.
        step: the column of steps; default: a usual name, environment steps first.
        metric: the column or tag to compare, of which higher is better; default: the only one,
            else the return.
        pattern: task, variant and seed in the end of paths, such as "{variant}/{task}_{seed}"; {}
            matches anything.
        baseline: the variant that the others are compared with; default: the first.
        margin: the smallest relevant difference, as a share of the baseline's learned range.
        margin_in_metric: whether the margin is in units of the metric.

    Returns:
        Columns task, variant, seed, status (done, failed, missing), reason, points, last, source.

    Raises:
        UserError: a file cannot be read, or it does not state a variant or seed.
    """
    results = Path(results)
    if study in studies():
        raise UserError(f"'{study}' is a study of this suite: choose another --study name")
    if not margin > 0:
        raise UserError(f"--margin must be above 0, not {margin:g}")
    require_name("the name of a study", study)
    if _was_trained(results, study):
        raise UserError(f"study '{study}' was trained here: import under another name")
    sources: list[Source] = []
    # W&B and TensorBoard say run for variant.
    pattern = (pattern or "").replace("{run}", "{variant}")
    named = {"task": task, "variant": variant, "seed": seed, "step": step, "metric": metric}
    files = [*_files([paths] if isinstance(paths, Path | str) else paths, pattern)]
    for path, name, _ in files:
        with _naming(path):
            sources += _sources(path, name, named, pattern)
    judged = _judged(sources, metric)
    named_by_path = {of.path for of in sources if judged in of.metrics and not of.is_table}
    folders = {above: path for path, _, above in files if path in named_by_path}
    if pattern and not pattern.startswith("{}/") and len(folders) > 1:  # they may be variants
        first, second, *_ = folders.values()
        raise UserError(
            f"'{first}' and '{second}' are in folders that the pattern does not describe: begin it "
            f"with what differs, such as '{{variant}}/{pattern.replace('{variant}', '{}')}', or "
            f"ignore the folders by '{{}}/{pattern}'"
        )
    runs = _runs(sources, judged)
    variants = list(dict.fromkeys(variant for _, variant, _ in runs))
    if baseline is not None and baseline not in variants:
        raise unknown("baseline", baseline, variants)
    described = StoredStudy(
        name=study,
        title=study,
        claim=f"does it matter which of {', '.join(variants)} is used?",
        claim_source="",
        baseline=baseline or variants[0],
        margin=margin,
        margin_in_metric=margin_in_metric,
        metric=judged,
    )
    return _write(results, described, runs)


def _was_trained(results: Path, study: str) -> bool:
    try:
        return not read_plan(results, study).imported
    except UserError:  # no plan, or a damaged plan, which is replaced
        return False


def _judged(sources: Sequence[Source], metric: str | None) -> str:
    """Return the metric to compare: the requested one, the only one, or the first known return."""
    metrics = dict.fromkeys(name for source in sources for name in source.metrics)
    if not metrics:
        raise UserError(f"'{sources[0].path}' has no values")
    only = next(iter(metrics)) if len(metrics) == 1 else None
    judged = metric or only or next((name for name in RETURNS if name in metrics), None)
    if judged is None:
        texts = {name for of in sources for name in of.metrics if is_text(of.rows[name]).any()}
        names = ", ".join(name for name in metrics if name not in texts)
        raise UserError(f"'{sources[0].path}' has several metrics: name one with --metric: {names}")
    if judged not in metrics:
        raise unknown("column", judged, metrics, of=f"'{sources[0].path}'")
    return judged


# Runs


def _runs(sources: Sequence[Source], metric: str) -> Imported:
    runs: Imported = {}
    for source in sources:
        if metric not in source.metrics:
            set_aside(f"'{source.name}': it has no {metric}")
            continue
        with _naming(source.path):
            for place, log in _logs(source, metric):
                if place in runs:
                    task, variant, seed = place
                    raise UserError(
                        f"'{runs[place][0]}' and '{source.path}' are both run '{variant}' on "
                        f"'{task}', seed {seed}: name their difference with --pattern, or leave "
                        f"one out"
                    )
                runs[place] = source.path, log
    return runs


def _logs(source: Source, metric: str) -> Iterator[tuple[Place, Columns]]:
    """Yield the runs of a source. In a table of runs each row is a point."""
    path, rows, notes = str(source.path), source.rows, list[str]()
    if "step" not in rows:
        known = ", ".join(source.metrics)
        raise UserError(f"no known column of steps: name it with --step; columns: {known}")
    for key in ("task", "variant"):
        if (empty := [name in (None, "") or name != name for name in rows[key]]) and any(empty):
            raise refused(path, rows, empty.index(True), key, "a name")
    seeds = floats(rows["seed"])
    if not (whole := are_whole(seeds)).all():
        raise refused(path, rows, int(whole.argmin()), "seed", "a whole number")
    names = (rows[key].map(lambda name: str(name).strip()) for key in ("task", "variant"))
    for (task, variant, seed), own in rows.groupby([*names, seeds], sort=False):
        if source.is_table:
            own = own[is_logged(own[metric])]
            own = own.iloc[np.argsort(floats(own["step"]), kind="stable")]
        if not len(own):
            continue
        curve = curve_of(path, own, metric, "step", notes, table=source.is_table)
        # Several episodes may end at one step.
        means = pd.Series(curve.values).groupby(curve.steps).mean()
        yield (task, variant, int(seed)), {"step": [*means.index], metric: means.to_list()}
    for note in notes:
        set_aside(f"'{source.name}': {note}")


# Files


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the path of a file to errors that lack it."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror or error}") from None
    except UserError as error:
        raise error if str(path) in str(error) else UserError(f"'{path}': {error}") from None


def _files(paths: Sequence[Path | str], pattern: str) -> Iterator[tuple[Path, str, str]]:
    """Yield logs, the end of their path, of as many parts as the pattern has, and the folder above.

    Without a pattern, the path as it is given. A folder of event files is a log. A file name that
    all logs share or that is usual, such as progress.csv, is no part.
    """
    files = [file for path in paths for file in _inside(Path(path))]
    if not files:
        raise UserError("no runs found: name files or folders of logs")
    logs = dict.fromkeys(file.parent if EVENTS in file.name else file for file in files)
    same_name = len({log.name for log in logs}) == 1 < len({log.parent for log in logs})
    depth = pattern.count("/") + 1
    for log in logs:
        place = log.absolute() if log.is_dir() else log.absolute().parent
        own = [] if log.is_dir() or COMMON.fullmatch(log.stem) or same_name else [log.stem]
        if log.suffix and pattern.endswith(log.suffix):
            own = [log.name]
        parts = [*place.parts, *own]
        name = "/".join(parts[-depth:]) if pattern else str(log)
        yield log, name, "/".join(parts[:-depth])


def _inside(path: Path) -> list[Path]:
    """Return a file, or the logs of a folder or of a pattern such as logs/*/*.csv."""
    matches = [path]
    if not path.exists():
        matches = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
    if not matches:
        raise UserError(f"no such file: '{path}'")
    if special := [match for match in matches if not (match.is_dir() or match.is_file())]:
        raise UserError(f"'{special[0]}' is neither a file nor a folder")
    inside = (_in_folder(match) if match.is_dir() else [match] for match in matches)
    return [*itertools.chain.from_iterable(inside)]


def _in_folder(path: Path) -> list[Path]:
    walked = [(Path(folder), inner, files) for folder, inner, files in os.walk(path)]
    linked = [
        str(at / name) for at, inner, _ in walked for name in inner if (at / name).is_symlink()
    ]
    links = f"linked folders ({', '.join(linked[:3])}): name them to read them"
    if linked:
        set_aside(links)
    files = sorted(folder / name for folder, _, inner in walked for name in inner)
    endings = "|".join(map(re.escape, FORMATS.keys() - NOT_LOGS))
    named = [*FILES, rf".*({endings})"]
    kinds = [[f for f in files if re.fullmatch(kind, f.name) and f.is_file()] for kind in named]
    chosen = next(filter(None, kinds), [])
    if not chosen:
        why = links if linked else f"for other formats {RECIPES}"
        raise UserError(f"no TensorBoard event files or other logs in '{path}'; {why}")
    if others := {file.name for kind in kinds for file in kind if file not in chosen}:
        shown = ", ".join(sorted(others)[:3])
        set_aside(f"files of other kinds in '{path}' ({shown}): name them to read them")
    return chosen


# Columns


def _sources(path: Path, name: str, named: Named, pattern: str) -> Iterator[Source]:
    if path.is_dir():
        notes: list[str] = []
        metric = named["metric"]
        rows = tensorboard.rows(path, [metric] if metric else RETURNS, notes)
        for note in notes:
            set_aside(f"'{name}': {note}")
        yield _source(path, name, {"step": tensorboard.STEP}, pattern, rows)
        return
    read = formats.read(path)
    if read is None:
        endings = f"unknown ending '{path.suffix}'; known endings: {', '.join(FORMATS)}"
        raise UserError(f"{endings}; {RECIPES}")
    if {"hash", "record"} <= {*read}:
        raise UserError(f"'{path}' is an archive: put it into archive/ of the results folder")
    steps = [column for column in read if PANEL not in column]
    if len(steps) == 1 < len(read.columns):  # a W&B panel has one or three columns per run
        columns = [*read.columns.drop(steps)]
        own = [c for c in columns if re.sub("__(MIN|MAX)$", "", c) not in {*columns} - {c}]
        for run in dict.fromkeys(column.rpartition(PANEL)[0] for column in own):
            metrics = {c: c.rpartition(PANEL)[2] for c in own if c.rpartition(PANEL)[0] == run}
            given = read[[*metrics]].apply(lambda column: ~is_blank(column))
            rows = read[[*metrics]].where(given).rename(columns=metrics)
            rows = rows.assign(**{steps[0]: read[steps[0]]})[given.any(axis=1)]
            if len(rows):
                yield _source(path / run, run, {**named, "step": steps[0]}, pattern, rows)
        return
    if [*read] == DOWNLOAD and not pattern and DOWNLOADED.fullmatch(path.stem):
        name, pattern = path.stem, "run-{variant}_{seed}-tag-{}"
    yield _source(path, name, named, pattern, read)


def _source(path: Path, name: str, named: Named, pattern: str, rows: pd.DataFrame) -> Source:
    if not len(rows):
        return Source(path, name, rows, [], False)
    keys = {}
    for key in KNOWN:
        there = (each for each in KNOWN[key] if each in rows and not path.is_dir())
        if column := named.get(key) or next(there, None):
            keys[key] = column
            if column not in rows:
                raise unknown("column", column, rows, of=f"'{path}'")
    left_out = {*RUN, *keys.values(), *KNOWN["step"]}
    others = rows.drop(columns=[column for column in rows if column in left_out])
    metrics = [c for c in others if c not in KINDS and not is_blank(others[c]).all()]
    columns = {key: rows[column] for key, column in keys.items()}
    table = others.assign(**columns, **_stated(name, pattern, keys))
    return Source(path, name, table, metrics, "variant" in keys or "seed" in keys)


def _stated(name: str, pattern: str, keys: Mapping[str, str]) -> dict[str, str]:
    """Return task, variant and seed from the name, unless columns state them.

    Raises:
        UserError: the name does not match the pattern, or nothing states the variant or seed.
    """
    stated = {"task": TASK}
    lacking = [key for key in ("variant", "seed") if key not in keys]
    if pattern and not lacking:
        warnings.warn(f"--pattern is not used for '{name}': columns state its runs", Note, 2)
    if pattern and lacking:
        parts = re.split(r"(\{[^{}]*\})", pattern)
        for part in parts:
            if part.startswith("{") and part not in PARTS:
                raise unknown("part of a pattern", part, PARTS)
            if part in PARTS and part != "{}" and parts.count(part) > 1:
                raise UserError(f"the pattern '{pattern}' has '{part}' twice")
        match = re.fullmatch("".join(PARTS.get(p, re.escape(p)) for p in parts), name)
        if match is None:
            raise UserError(f"'{name}' does not match the pattern '{pattern}'")
        stated |= match.groupdict()
        lacking = [key for key in lacking if key not in stated]
    if lacking:
        raise UserError(
            f"no column states the {' and '.join(lacking)} of '{name}': name the column with "
            f"--{' and --'.join(lacking)}, or the position in the name with --pattern, such as "
            f"--pattern '{{variant}}/{{task}}_{{seed}}' ({{}} matches anything)"
        )
    return {key: value for key, value in stated.items() if key not in keys}


# Records and plan


def _write(results: Path, study: StoredStudy, runs: Imported) -> pd.DataFrame:
    tasks, variants, seeds = (list(dict.fromkeys(names)) for names in zip(*runs, strict=True))
    longest = dict.fromkeys(tasks, 0)
    for (task, _, _), (_, log) in runs.items():
        longest[task] = max(longest[task], int(log["step"][-1] or 0))
    cells, rows = [], []
    for task, seed, variant in itertools.product(tasks, sorted(seeds), variants):
        config: Configuration = {
            "imported": None,
            "study": study.name,
            "task": {"name": task, "settings": {}},
            "variant": variant,
            "seed": seed,
        }
        row: tuple[object, ...] = ("missing", None, 0, None, None)
        if (task, variant, seed) in runs:
            file, log = runs[task, variant, seed]
            outcome = _outcome(log, study.metric, longest[task])
            config["imported"] = {"data": _checksum(log, outcome), "file": file.name}
            provenance: Provenance = {"imported": file.name, "versions": {}}
            record = Record(digest(config), config, *outcome, provenance=provenance)
            write_record(results, record, log)
            row = (outcome.status, outcome.reason, len(log["step"]), log["step"][-1], file)
        cells.append(CellEntry(task, variant, seed, digest(config), config))
        rows.append((task, variant, seed, *row))
    plan = Plan(
        request={"imported": study.name},
        study=study,
        variants={name: StoredVariant(versus=None, summary="", sets={}) for name in variants},
        tasks={task: StoredTask(longest[task], settings={}, summary="") for task in tasks},
        cells=tuple(cells),
    )
    write_plan(results, plan)
    return pd.DataFrame(rows, columns=[*RUN, "status", "reason", "points", "last", "source"])


def _outcome(log: Columns, metric: str, longest: int) -> Outcome:
    """Return the outcome of a run, from its curve.

    The run diverged if its metric is not finite up to its end. It was cut if it ends before 90% of
    the steps of its task's longest run.
    """
    curve = logged(log["step"], log[metric], longest)
    at = int(curve.end)
    if curve.status == "diverged":
        return Outcome("failed", "diverged", diverged(metric, at), at)
    if curve.status == "cut":
        reason = f"ended early: its log stops at step {at:,} of {longest:,}"
        return Outcome("failed", "cut", reason, at)
    return Outcome()


def _checksum(columns: Columns, outcome: Outcome) -> str:
    """Return the checksum of the data and of the outcome, which may depend on other runs."""
    sums = hashlib.sha256(repr(outcome).encode())
    for name, values in columns.items():
        sums.update(name.encode() + b"\0" + np.array(values, np.float64).tobytes())
    return sums.hexdigest()
