"""Runs in a table: a row per run, seed and step. Curves, and which metric is judged."""

from __future__ import annotations

import io
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ablations import parquet
from ablations.core.files import MOST_LOG, read_bytes
from ablations.errors import UserError, count, unknown
from ablations.exchange.places import TASK, Place
from ablations.logs import numbers
from ablations.logs.formats import separator
from ablations.spreadsheets import inert, plain

if TYPE_CHECKING:
    from pandas import DataFrame, Series

# Columns that count the steps of the environment; after them those that count something.
STEPS = (
    *("global_step", "time/total_timesteps", "total_timesteps", "num_timesteps", "timesteps"),
    *("TotalEnvInteracts", "num_steps", "env_steps", "total_steps", "timesteps_total"),
    *("num_env_steps_sampled_lifetime", "step_count", "step", "steps", "_step", "Step"),
    *("timestep", "iteration"),
)
# What others call our columns.
ALIASES = {
    "run": ("run", "variant", "algorithm", "algo", "exp_name"),
    "seed": ("seed",),
    "step": ("step", "steps", *STEPS),
    "task": ("task", "env", "env_id", "environment"),
}
_KEYS = ["task", "run", "seed", "step"]
# What a number's column has where it has none.
_NO_VALUE = ["", "null", "NULL", "None", "NA", "N/A", "n/a", "<NA>", "#N/A", "nan", "NaN", "-nan"]
# Tags under which PPO implementations log the return of an episode.
_RETURN_TAGS = (
    "charts/episodic_return",
    "rollout/ep_rew_mean",
    "eval/episode_reward",
    "Train/mean_reward",
    "training/return",
    "return",
    *("results", "episodic_return", "episode_return", "mean_episode_return", "AverageTestEpRet"),
    *("AverageEpRet", "env_runners/episode_return_mean", "episode_reward_mean", "ep_rew_mean"),
    *("reward", "score", "Value"),
)


@dataclass
class Curve:
    """One run as read: metric -> value, NaN where there is none, at increasing steps.

    table: of a file of rows, whose fields may be empty.
    """

    steps: NDArray[np.int64]
    values: dict[str, NDArray[np.float64]]
    source: Path
    table: bool = False


# CSV


def read_csv(
    path: Path,
    metric: str | None,
    notes: list[str] | None = None,
    text: str | None = None,
    step: str | None = None,
) -> tuple[dict[Place, Curve], str]:
    """Read the runs of a file of columns parted by commas, tabs or semicolons.

    step: the column that counts; by default a known one.

    Returns:
        The runs, and the name of the metric that is judged. Names are text, as they stand there.
        notes takes a line for what is left out.

    Raises:
        UserError: for what cannot be read.
    """
    notes = [] if notes is None else notes
    text = table_text(path) if text is None else text
    table = _wide(path, _opened(path, text, step, notes), notes)
    _require_keys(path, table)
    values = _values(path, table, metric, notes)
    own = metric or ("return" if "return" in values else None)
    judged = judged_of(own, values, f"column of numbers in '{path}'")
    again = np.flatnonzero(table.duplicated(_KEYS))
    if len(again):
        line = table.index[again[0]] + 2
        raise UserError(f"'{path}', line {line}: the same run, seed and step a second time")
    runs: dict[Place, Curve] = {}
    for (task, run, seed), rows in table.groupby(_KEYS[:3], sort=False):
        places = table.index.get_indexer(rows.sort_values("step").index.to_numpy())
        runs[str(task), str(run), int(seed)] = Curve(
            table["step"].to_numpy()[places],
            {name: column[places] for name, column in values.items()},
            path,
            table=True,
        )
    return runs, judged


def is_long(names: Collection[str]) -> bool:
    """Return whether the columns of a table name runs or their seeds."""
    return any(alias in names for key in ("run", "seed") for alias in ALIASES[key])


def table_text(path: Path) -> str:
    """Return the text of a table; of Parquet, as `export` writes it, the table as CSV.

    Raises:
        UserError: bytes that are neither.
    """
    data = read_bytes(path, MOST_LOG)
    try:
        if not data.startswith(b"PAR1"):
            return data.decode("utf-8-sig")
        columns, _ = parquet.decode(data)
    except ValueError as error:
        why = " ".join(str(error).split())
        raise UserError(f"cannot read '{path}': {why}") from None
    import pandas

    texts = {
        name: [inert(each) if isinstance(each, str) else each for each in values]
        for name, values in columns.items()
    }
    text: str = pandas.DataFrame(texts, dtype=object).to_csv(index=False)
    return text


def _opened(path: Path, text: str, step: str | None, notes: list[str]) -> DataFrame:
    """Read the table of a file, with a column for the task. Raises UserError."""
    import pandas

    try:
        table = _text_table(path, text, step, notes)
    except (pandas.errors.ParserError, pandas.errors.ParserWarning) as problem:
        why = " ".join(str(problem).split())
        raise UserError(f"cannot read '{path}' as CSV: {why}") from None
    except pandas.errors.EmptyDataError:
        raise UserError(f"'{path}' is empty") from None
    return table if "task" in table else table.assign(task=TASK)


def _wide(path: Path, table: DataFrame, notes: list[str]) -> DataFrame:
    """Return a table of long format, with columns metric and value, as one of a column each."""
    if not {"metric", "value"} <= set(table.columns):
        return table
    unclear = table["metric"].isin(_KEYS)
    if unclear.any():
        names = ", ".join(dict.fromkeys(table["metric"][unclear]))
        notes.append(f"left out, as metrics called like other columns: {names}")
    table = table[(table["metric"] != "") & ~unclear]
    if table.duplicated([*_KEYS, "metric"]).any():
        raise UserError(f"'{path}' has two values for one run, seed, step and metric")
    wide = table.pivot(index=_KEYS, columns="metric", values="value").reset_index()
    return table[_KEYS].drop_duplicates().merge(wide, on=_KEYS)  # in the file's order


def _require_keys(path: Path, table: DataFrame) -> None:
    """Make seeds and steps whole numbers. Raises UserError for what is none, or is empty."""
    for name in ("task", "run"):
        if len(bad := np.flatnonzero(table[name] == "")):
            raise UserError(f"'{path}', line {table.index[bad[0]] + 2}: {name} is empty")
    for name in ("seed", "step"):
        keys, _ = _numbers(table[name])
        with np.errstate(invalid="ignore"):
            fraction = keys % 1
        if len(bad := np.flatnonzero(~((fraction == 0) & (keys >= 0) & (keys <= numbers.MOST)))):
            most = f" up to {numbers.MOST:,}" if keys[bad[0]] > numbers.MOST else ""
            raise _refused(path, table, name, bad[0], f"a whole number{most}")
        table[name] = keys.astype("int64")


def _values(
    path: Path, table: DataFrame, metric: str | None, notes: list[str]
) -> dict[str, NDArray[np.float64]]:
    """Return the columns of numbers. Raises UserError where the judged one has something else."""
    values, left_out = {}, []
    for name in (str(name) for name in table.columns if name not in _KEYS):
        column, bad = _numbers(table[name])
        if not len(bad):
            values[name] = column
        elif name in ("return", metric):
            raise _refused(path, table, name, bad[0], "a number")
        else:
            left_out.append(name)
    if left_out:
        notes.append(f"left out, as no columns of numbers: {', '.join(left_out)}")
    return values


def _refused(path: Path, table: DataFrame, name: str, row: int, must: str) -> UserError:
    value = str(table[name].iloc[row])
    return UserError(f"'{path}', line {table.index[row] + 2}: {name} must be {must}, not {value!r}")


def _text_table(path: Path, text: str, step: str | None, notes: list[str]) -> DataFrame:
    """Read names as text, other columns as pandas does; rename those that we need."""
    import pandas

    comma = separator(text.partition("\n")[0])
    columns = list(pandas.read_csv(io.StringIO(text), nrows=0, sep=comma).columns)
    head = io.StringIO(text)
    first = pandas.read_csv(head, nrows=1, sep=comma, header=None, dtype=str).iloc[0].dropna()
    again = first.str.strip()[first.str.strip().duplicated()]
    if len(again):
        raise UserError(f"'{path}' has two columns '{again.iloc[0]}': leave one out")
    stripped = {str(name): str(name).strip() for name in columns}
    if step is not None and step not in stripped.values():
        raise unknown(f"column of '{path}'", step, stripped.values())
    names = {}
    for ours, theirs in (ALIASES | ({"step": (step,)} if step else {})).items():
        given = [name for name in theirs if name in stripped.values()]
        if given:
            names[given[0]] = ours
        elif ours != "task":
            raise UserError(
                f"'{path}' has no column '{ours}': it needs run, seed, step and return, and has "
                f"{', '.join(stripped.values())}"
            )
    renamed = {
        name: names.get(plain, f"{plain} as logged" if plain in names.values() else plain)
        for name, plain in stripped.items()
    }
    texts = [name for name, ours in renamed.items() if ours in ("run", "task", "metric")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)  # rows longer than the names
        table = pandas.read_csv(
            io.StringIO(text),
            sep=comma,
            dtype=dict.fromkeys(texts, object),
            keep_default_na=False,
            na_values={name: _NO_VALUE for name in renamed if name not in texts},
            index_col=False,
        )
    table = _without_heads(table, texts[0], notes).rename(columns=renamed)
    for name in ("run", "task", "metric"):
        if name in table:
            places, own = pandas.factorize(table[name])
            table[name] = np.array([plain(str(each).strip()) for each in own], object)[places]
    return table


def _without_heads(table: DataFrame, first: str, notes: list[str]) -> DataFrame:
    """Return a table without the rows that repeat its names. first: a column of texts."""
    names = [str(name) for name in table.columns]
    again = [
        row for row in table.index[table[first] == first] if [*map(str, table.loc[row])] == names
    ]
    if again:
        notes.append(f"left out: {count(len(again), 'line')} with the names of the columns")
    return table.drop(index=again)


def _numbers(column: Series) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return a column as numbers, NaN where it is empty, and the rows of what is no number."""
    import pandas

    try:
        read = pandas.to_numeric(column, errors="coerce").to_numpy(np.float64, copy=True)
    except OverflowError:  # a whole number of hundreds of digits
        read = np.full(len(column), np.nan)
    bad = []
    for row in np.flatnonzero(np.isnan(read) & column.notna()):
        value = numbers.number(str(column.iloc[row]))
        if value is None:
            bad.append(row)
        else:
            read[row] = value
    return read, np.array(bad, np.intp)


def judged_of(metric: str | None, names: Collection[str], what: str) -> str:
    """Return the metric that is judged: the one asked for, or the first known return.

    Raises:
        UserError: names have none; what: they are, in words.
    """
    judged = metric or next((name for name in _RETURN_TAGS if name in names), "return")
    if judged not in names:
        raise unknown(what, judged, names)
    return judged


def joined(scalars: Mapping[str, Sequence[tuple[int, float]]], metric: str, source: Path) -> Curve:
    """Return all tags of a run on the steps of the judged one; points of one step are averaged."""
    averaged = {tag: _averaged(points) for tag, points in scalars.items()}
    steps = np.array(sorted(averaged[metric]), dtype=np.int64)
    values = {
        tag: np.array([by_step.get(int(step), np.nan) for step in steps])
        for tag, by_step in averaged.items()
    }
    kept = {t: v for t, v in values.items() if t == metric or not np.all(np.isnan(v))}
    return Curve(steps, kept, source)


def _averaged(points: Sequence[tuple[int, float]]) -> dict[int, float]:
    collected: dict[int, list[float]] = {}
    for step, value in points:
        collected.setdefault(step, []).append(value)
    return {step: float(np.mean(values)) for step, values in collected.items()}
