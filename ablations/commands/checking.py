"""The command `check`: curves against stored ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators

from ablations.commands.selected import names_of, plans, unpacked
from ablations.engine.local import Processes
from ablations.engine.stored import resolved_again
from ablations.errors import UserError, count
from ablations.parameters import Folder, Names, OptionalNames, Positive
from ablations.regression import ALPHA, EFFECT, MOST_SEEDS
from ablations.regression import baselines as curves
from ablations.regression.baselines import Baseline
from ablations.regression.check import (
    Check,
    Terms,
    caption,
    line,
    plan_check,
    plan_line,
    play_checks,
    table,
)
from ablations.regression.check import check as check_curves
from ablations.regression.design import RECOMMENDED_OLD
from ablations.tables.formats import format_table


def check(  # noqa: PLR0913 - each is a flag
    baselines: Names,
    /,
    *,
    alpha: Annotated[float, Parameter(validator=validators.Number(gt=0, lt=0.5))] = ALPHA,
    effect: Annotated[float, Parameter(validator=validators.Number(gt=0))] = EFFECT,
    seeds: Positive = MOST_SEEDS,
    records: Annotated[str | Path | None, Parameter(metavar="DIR")] = None,
    format: Literal["text", "markdown"] = "text",
    workers: Positive = None,
    save: OptionalNames = None,
    results: Folder = "results",
) -> int:
    """Train again and compare with stored curves, or store curves; return the exit code.

    The exit code is 1 if a curve got worse.

    Args:
        baselines: Names of stored baselines, or folders.
        alpha: Probability of a false alarm over all curves together.
        effect: The smallest loss to detect, as a share of what the baseline learned.
        seeds: Most seeds.
        records: Compare these records, and train nothing.
        format: text or markdown.
        workers: Processes; default: one per core.
        save: Instead of a check: store the curves of the last run of these studies.
        results: The results folder; default: results.
    """
    names, folder = names_of(baselines), unpacked(Path(results), ())
    if save is not None:
        return _save(names, names_of(save), folder)
    stored = {name: curves.read(curves.stem_of(folder, name), name) for name in names}
    alpha /= sum(len(baseline.groups) for baseline in stored.values())
    terms = Terms(alpha, effect, most=seeds or MOST_SEEDS)
    worse = 0
    for name, baseline in stored.items():
        if not baseline.requests:
            raise UserError(f"'{name}' is a baseline of pytest: `pytest` checks it")
        place, markdown = folder / "checks" / Path(name).name, format == "markdown"
        used = place / "records" if records is None else Path(records)
        sides = {
            where: (group.curves, replace(terms, higher_is_better=group.higher_is_better))
            for where, group in baseline.groups.items()
        }
        if records is None:
            tests = {where: plan_check(*side) for where, side in sides.items()}
            for where, test in tests.items() if not markdown else ():
                print(plan_line(where, test), flush=True)
            executor = Processes(workers, quiet=markdown)
            train = curves.training(baseline, used, resolved_again, executor.run)
            checks = play_checks(tests, train)
        else:
            given = curves.recorded(baseline, used)
            checks = {w: check_curves(of, given[w], each) for w, (of, each) in sides.items()}
        figure = _draw(place, baseline, checks)
        print("\n".join(_report(place.name, checks, figure, markdown)))
        worse += sum(each.outcome == "fail" for each in checks.values())
    return 1 if worse else 0


def _save(names: list[str], saved: list[str], results: Path) -> int:
    """Store the curves of studies as a baseline."""
    if len(names) > 1:
        raise UserError("--save takes one BASELINE")
    (name,) = names
    found, results = plans(saved, results, {})
    groups = curves.save(found, results, name)
    seeds = min(len(group.curves) for group in groups.values())
    print(f"{name}: {count(len(groups), 'curve')} of {seeds} seeds")
    if seeds < RECOMMENDED_OLD:
        print(f"{RECOMMENDED_OLD} seeds are recommended: a check then finds smaller losses")
    print(curves.stem_of(results, name).parent)
    return 0


def _report(title: str, checks: Mapping[str, Check], figure: Path, markdown: bool) -> list[str]:
    """Return the table, its caption and a line per check."""
    lines = [line(name, check) for name, check in checks.items()]
    for name, each in checks.items():
        if each.differs is not None:
            seed, step = each.differs
            lines.append(f"{name}: bits differ from step {step:,.0f} on (seed {seed})")
    text = [format_table(table(checks), "markdown"), "", caption(list(checks.values()))]
    if not markdown:
        return ["", *text, "", *lines, f"figure: {figure}"]
    failed = sum(check.outcome == "fail" for check in checks.values())
    head = f"{failed} of {len(checks)} got worse" if failed else "nothing got worse"
    listed = [f"- {each}" for each in lines]
    return [f"### {title}: {head}", "", *listed, "", *text, "", f"Both curves: `{figure}`"]


def _draw(folder: Path, baseline: Baseline, checks: Mapping[str, Check]) -> Path:
    """Draw the checks of a baseline; return the file."""
    from ablations import figures

    metrics = sorted({group.metric for group in baseline.groups.values()})
    name = re.sub(r"[^\w.-]+", "_", f"{folder.name}_curves")
    return figures.write(figures.checks(checks, ", ".join(metrics)), folder / name)[-1]
