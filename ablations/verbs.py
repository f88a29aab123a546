"""The verbs of Python: what the commands do, with data frames for an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pandas

from ablations import plugins, presets, tables, tasks, trainers, until
from ablations.io.archives import restore
from ablations.records import Plan, read_runs
from ablations.request import Selection, budget_of
from ablations.runs import Runs, keep_ranges
from ablations.selecting import selecting
from ablations.sweep import explanation
from ablations.sweep.local import Processes
from ablations.sweep.plan import comparison_request
from ablations.sweep.status import status as status_of
from ablations.sweep.stored import planned, resolved
from ablations.trainers import TracedConfig, Trainer
from ablations.trainers.revisions import compose

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@selecting
def run(
    study: str | Sequence[str],
    *,
    results: str | Path = "results",
    workers: int | None = None,
    quiet: bool = False,
    fresh: bool = False,
    budget: str | None = None,
    **selection: Unpack[Selection],
) -> pandas.DataFrame:
    """Run the missing cells of a selection; return its curves (see `curves`).

    Args:
        study: a name, a study file, a preset (which is a study of one variant), or several.
        results: the results folder.
        workers: processes; None: one per core.
        quiet: print nothing.
        fresh: compute it again.
        budget: of until="decided", how long it may go on, such as "2h".
        selection: see `Selection`.

    Raises:
        UserError: bad input. A cell that failed raises nothing, see `status`.
    """
    executor = Processes(workers, quiet=quiet)
    asked = selection.get("until")
    seconds = budget_of(asked, budget, fresh=fresh, here=True)
    plans, folder = resolved(_names(study), selection), Path(results)
    restore(folder)
    if asked is None:
        if executor.run(plans, folder, fresh=fresh).computed:
            for plan in plans:
                keep_ranges(plan, folder)
    else:
        plans, _ = until.run(plans, folder, executor, seconds=seconds)
    return _framed(study, plans, lambda plan: _curves(plan, folder))


@selecting
def vary(
    levels: Mapping[str, Sequence[Any]],
    *,
    results: str | Path = "results",
    workers: int | None = None,
    quiet: bool = False,
    **selection: Unpack[Selection],
) -> pandas.DataFrame:
    """Train each value of some settings, and return the comparison (see `table`).

    levels: name of a setting -> its values, the first of them the baseline; under "preset"
    libraries. Several settings are crossed.

    Raises:
        UserError: bad input.
    """
    plugins.load()
    asked = comparison_request(levels, selection)
    vary: dict[str, Any] = {**selection, "vary": asked.vary}
    run(asked.study, results=results, workers=workers, quiet=quiet, **vary)
    return table(asked.study, results=results, **vary)


@selecting
def explain(
    start: str,
    end: str,
    *,
    together: Sequence[Sequence[str]] = (),
    results: str | Path = "results",
    workers: int | None = None,
    quiet: bool = False,
    **selection: Unpack[Selection],
) -> pandas.DataFrame:
    """Explain the gap between two presets, or two variants of studies; run missing cells.

    Return the shares, one row per detail and task (see `table`, kind "shares").

    together: names of details to switch as one. `table`, `figure`, `status` and `report` know the
    explanation as "<start>_to_<end>".
    """
    plugins.load()
    plan = explanation.plan(explanation.request(start, end, together, selection))
    restore(Path(results))
    Processes(workers, quiet=quiet).run([plan], Path(results))
    return tables.table_of(Runs.read(results, plan))


@selecting
def status(
    study: str | Sequence[str] = (),
    *,
    results: str | Path = "results",
    **selection: Unpack[Selection],
) -> pandas.DataFrame:
    """Return the state of every cell, one row each: study, task, variant, seed, hash, state, ...

    Of all studies that ran, where none is named.
    """
    found = status_of(_planned(study, results, selection), Path(results))
    frame = pandas.DataFrame(list(found.rows))
    frame.attrs = {"silent": found.silent}
    return frame


@selecting
def curves(
    study: str | Sequence[str],
    *,
    results: str | Path = "results",
    **selection: Unpack[Selection],
) -> pandas.DataFrame:
    """Return the curves, one row per point: task, variant, seed, step, then the metrics.

    Of several studies with the study in front.
    """
    plans = _planned(study, results, selection)
    return _framed(study, plans, lambda plan: _curves(plan, Path(results)))


@selecting
def table(
    study: str | Sequence[str],
    *,
    results: str | Path = "results",
    kind: str | None = None,
    metric: str | None = None,
    score: str | None = None,
    **selection: Unpack[Selection],
) -> pandas.DataFrame:
    """Return a table, a row per variant and task; caption and notes are in `.attrs`.

    Of several studies with the study in front.

    kind: "comparison" (see `ablations.compare`) or another of `ablations.tables.TABLES`; by default
    "effects" of a fraction of a factorial, "shares" of an explanation, else "comparison".
    score: "final", "auc", "last" or "mean"; by default the profile's.
    """

    def made(plan: Plan) -> pandas.DataFrame:
        return tables.table_of(Runs.read(results, plan, metric, score), kind)

    return _framed(study, _planned(study, results, selection), made)


@selecting
def figure(
    study: str | Sequence[str],
    *,
    results: str | Path = "results",
    metric: str | None = None,
    width: float | str = 5.5,
    each_seed: bool = False,
    smooth: bool = False,
    **selection: Unpack[Selection],
) -> dict[str, Figure]:
    """Draw the figures of a study, by name; of several studies named <study>_<figure>.

    Those of `ablations.figures.FIGURES` that the study has. Titles and captions are attributes of
    the figures.

    width: in inches, or a name such as "icml-column".
    each_seed: learning curves with a thin line for every seed.
    smooth: learning curves as means over the last tenth of training at each step.
    """
    from ablations import figures

    drawn: dict[str, Figure] = {}
    for plan in _planned(study, results, selection):
        prefix = "" if isinstance(study, str) else f"{plan.study.name}_"
        runs = Runs.read(results, plan, metric)
        made = figures.draw(runs, (), width, each_seed=each_seed, smooth=smooth)
        drawn |= {prefix + name: drawing for name, drawing in made.items()}
    return drawn


@selecting
def page(
    study: str | Sequence[str] = (),
    *,
    results: str | Path = "results",
    **selection: Unpack[Selection],
) -> Path:
    """Write the page, report/index.html in the results folder; return its path.

    Of all studies that ran, where none is named.
    """
    from ablations.report.page import write

    return write(_planned(study, results, selection), Path(results))


@selecting
def make_trainer(
    task: str,
    *,
    trainer: str = "ppo",
    preset: str | None = None,
    updates_per_chunk: int = 1,
    evaluation_envs: int = 16,
    **settings: Any,
) -> tuple[Trainer, TracedConfig]:
    """Return a composed trainer and its variant, for use without the engine.

        trainer, variant = make_trainer("reacher", advantage="brax", num_envs=64)
        state = jax.jit(trainer.init)(jax.random.key(0), variant)
        state, metrics = jax.jit(trainer.chunk)(state, variant)

    preset: a library's own settings, such as "sb3", instead of the task's defaults.
    settings: choices of axes, numbers, structure and task settings, over those defaults.
    A trainer with a `start` gives it to init: trainer.init(key, variant, trainer.start(seed)).
    Choices are fixed in the program by name. Raises UserError for what does not exist or makes no
    sense.
    """
    one = tasks.task(task)
    defaults = one.hyperparameters.get(trainer, {})
    if preset is not None:
        library = presets.preset(preset).on(one)
        trainer, defaults = library.trainer, library.values()
    definition = trainers.trainer(trainer)
    config = definition.resolve(one, {**defaults, **settings})
    config["run"] = {"updates_per_chunk": updates_per_chunk, "evaluation_envs": evaluation_envs}
    composed, as_data = compose(config, fixed=tuple(definition.completed(config)["choices"]))
    return composed, as_data(config)


def _names(study: str | Sequence[str]) -> list[str]:
    return [study] if isinstance(study, str) else list(study)


def _planned(study: str | Sequence[str], results: str | Path, selection: Selection) -> list[Plan]:
    names = _names(study)
    restore(Path(results), () if any(selection.values()) else names)
    return planned(names, Path(results), selection)


def _framed(
    study: str | Sequence[str],
    plans: Sequence[Plan],
    frame_of: Callable[[Plan], pandas.DataFrame],
) -> pandas.DataFrame:
    """Return the frame of the one study, or those of several with the study in front."""
    if isinstance(study, str):
        return frame_of(plans[0])
    frames = []
    for plan in plans:
        frame = frame_of(plan)
        frame.insert(0, "study", plan.study.name)
        frames.append(frame)
    return pandas.concat(frames, ignore_index=True)


def _curves(plan: Plan, results: Path) -> pandas.DataFrame:
    frames = []
    for cell, record, curve in read_runs(results, plan):
        if record is not None:
            frame = pandas.DataFrame(curve)
            frame = frame.astype(dict.fromkeys(frame.columns[1:], "float64"))
            for column, name in enumerate(("task", "variant", "seed")):
                frame.insert(column, name, cell.place[column])
            frames.append(frame)
    if not frames:
        return pandas.DataFrame(columns=["task", "variant", "seed", "step"])
    return pandas.concat(frames, ignore_index=True)
