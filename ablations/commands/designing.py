"""The commands `validate` and `tune`: which tasks can judge a component, and at which settings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Unpack

import pandas

from ablations import plugins, studies, tuning, validation
from ablations.commands.running import Execution, train
from ablations.commands.selected import names_of
from ablations.errors import UserError
from ablations.parameters import (
    SEVERAL,
    Folder,
    Names,
    Positive,
    Rates,
    Seeds,
    Settings,
    Whole,
    seeds_of,
)
from ablations.runs import Runs
from ablations.studies.library_defaults import DEFAULTS


def validate(  # noqa: PLR0913 - each is a flag
    tasks: Names,
    /,
    *,
    study: str = "exam",
    profile: str = "paper",
    rates: Rates = validation.RATES,
    presets: Annotated[Sequence[str], SEVERAL] = (),
    steps: Whole = None,
    seeds: Seeds = None,
    set: Settings = None,
    results: Folder = "results",
    **execution: Unpack[Execution],
) -> pandas.DataFrame:
    """Check whether a baseline learns enough on tasks to judge components there.

    Train the missing runs, make the table and draw figures/validation.svg in the results folder.

    Args:
        tasks: The tasks.
        study: The study whose baseline is validated. Default: PPO's settings of each task.
        profile: The profile of that study; default: paper.
        rates: Learning rates of the baseline; default: 3e-4,1e-3,3e-3.
        presets: Presets to train for the best score; all: every one.
        steps: Environment steps of the longest run.
        seeds: How many, or a range; default: 1000-1004, the seeds of tuning.
        set: Settings of the baseline.
        results: The results folder; default: results.
        execution: See `Execution`.
    """
    plugins.load()
    planned = validation.plans(
        names_of(tasks),
        rates=tuple(rates),
        presets=tuple(DEFAULTS) if list(presets) == ["all"] else tuple(presets),
        seeds=validation.SEEDS if seeds is None else seeds_of(seeds),
        steps=steps,
        profile=profile,
        settings=dict(set or {}),
        study=study,
    )
    trained = train(planned, results, execution)
    return trained.shown(
        lambda: _validated(validation.read(planned, trained.results), Path(results))
    )


def _validated(runs: list[Runs], results: Path) -> pandas.DataFrame:
    """Return the table of a validation, and draw its figure."""
    from ablations.figures import write

    frame = validation.table(runs)
    drawn = validation.figure(runs, frame.attrs["levels"])
    # Its paths are printed beside a table that another program may read.
    print(*write(drawn, results / "figures" / "validation"), sep="\n", file=sys.stderr)
    return frame


def tune(
    study: str,
    /,
    *,
    show: bool = False,
    workers: Positive = None,
    quiet: bool = False,
    results: Folder = "results",
) -> pandas.DataFrame:
    """Choose the learning rate of each variant, or what the study tunes, on separate seeds.

    Args:
        study: The study.
        show: Print what was chosen, and train nothing.
        workers: Processes; default: one per core.
        quiet: Print no progress.
        results: The results folder; default: results.
    """
    plugins.load()
    if show:
        tuning_of_study = studies.study(study).tuning
        tuned = tuning_of_study.read() if tuning_of_study else {}
        if not tuned:
            raise UserError(f"nothing was tuned for '{study}'")
    else:
        tuned = tuning.tune(study, Path(results), workers=workers, quiet=quiet)
    return tuning.table(tuned)
