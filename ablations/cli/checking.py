"""The command `check`: curves against stored ones."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ablations.cli.arguments import Parser, add_flags, positive
from ablations.errors import UserError
from ablations.records import Plan
from ablations.regression import ALPHA, EFFECT, MOST_SEEDS, baselines
from ablations.regression.baselines import Baseline
from ablations.regression.check import (
    Check,
    SequentialCheck,
    Terms,
    caption,
    check,
    line,
    plan_line,
    play_checks,
    table,
)
from ablations.sweep.local import Processes
from ablations.sweep.stored import planned, resolved_again
from ablations.tables.formats import format_table


def add_check(command: Parser) -> None:
    """Add the flags of `check`."""
    command.add_argument("baselines", nargs="+", metavar="BASELINE", help="a name, or a folder")
    alpha = f"chance of a false alarm, over all curves together; default: {ALPHA}"
    add_flags(command, {"--alpha": alpha}, type=float, default=ALPHA)
    effect = f"smallest loss worth catching, of what the baseline learns; default: {EFFECT}"
    add_flags(command, {"--effect": effect}, type=float, default=EFFECT)
    seeds = f"at most so many; default: {MOST_SEEDS}"
    add_flags(command, {"--seeds N": seeds}, type=positive, default=MOST_SEEDS)
    add_flags(command, {"--paired": "compare seed by seed"}, action="store_true")
    add_flags(command, {"--records DIR": "compare these records; train nothing"}, type=Path)
    add_flags(command, {"--format": None}, choices=("text", "markdown"), default="text")
    add_flags(command, {"--figures DIR": "default: checks/ in the results"}, type=Path)
    add_flags(command, {"--workers N": "default: one per core"}, type=positive)
    group = command.add_argument_group("in place of a check")
    add_flags(
        group, {"--save STUDY": "store the curves of its last run as the baseline"}, nargs="+"
    )
    add_flags(group, {"--reason": "why; an update needs one, and keeps it"})


def run_check(options: argparse.Namespace) -> int:
    """Check baselines, or store one; return the exit code."""
    if options.save:
        return _save(options)
    if options.reason:
        raise UserError("--reason goes with --save")
    alpha, effect = options.alpha, options.effect
    if not 0 < alpha < 0.5:
        raise UserError(f"--alpha must be between 0 and 0.5, not {alpha:g}")
    if not 0 < effect < float("inf"):
        raise UserError(f"--effect must be above 0, not {effect:g}")
    stems = {name: baselines.stem_of(options.results, name) for name in options.baselines}
    stored = {name: baselines.read(stem, name) for name, stem in stems.items()}
    alpha /= sum(len(baseline.groups) for baseline in stored.values())
    terms = Terms(alpha, effect, most=options.seeds, paired=options.paired)
    worse = 0
    for name, baseline in stored.items():
        if not baseline.requests:
            raise UserError(f"'{name}' is a baseline of pytest: `pytest` checks it")
        folder = options.results / "checks" / Path(name).name
        worse += _check(options, baseline, folder, terms)
    return 1 if worse else 0


def _save(options: argparse.Namespace) -> int:
    """Store the curves of studies as a baseline."""
    if len(options.baselines) > 1:
        raise UserError("--save takes one BASELINE")
    (name,) = options.baselines
    plans = planned(options.save, options.results, {})
    baseline = baselines.save(plans, options.results, name, options.reason)
    print(
        f"{name}: {len(baseline.groups)} curves of {baselines.fewest_seeds(baseline.groups)} "
        f"seeds: {baseline.history[-1]['reason']}"
    )
    print(baselines.stem_of(options.results, name).parent)
    return 0


def _check(options: argparse.Namespace, baseline: Baseline, folder: Path, terms: Terms) -> int:
    """Check the scores of each group, print and draw them; return how many got worse."""
    sides = {
        where: (group.curves, replace(terms, higher_is_better=group.higher_is_better))
        for where, group in baseline.groups.items()
    }
    if options.records is not None:
        given = baselines.recorded(baseline, options.records)
        checks = {w: check(curves, given[w], each) for w, (curves, each) in sides.items()}
    else:
        tests = {where: SequentialCheck.of(*side) for where, side in sides.items()}
        if options.format != "markdown":
            for name, test in tests.items():
                print(plan_line(name, test), flush=True)

        def run(plans: Sequence[Plan], records: Path) -> None:
            Processes(options.workers, quiet=options.format == "markdown").run(plans, records)

        train = baselines.training(baseline, folder / "records", resolved_again, run)
        checks = play_checks(tests, train)
    alike = baselines.made_alike(baseline, options.records or folder / "records")
    figure = _draw(options.figures or folder, folder.name, baseline, checks)
    print("\n".join(_report(folder.name, checks, alike, figure, options.format == "markdown")))
    return sum(check.outcome == "fail" for check in checks.values())


def _report(
    title: str, checks: Mapping[str, Check], alike: str, figure: Path, markdown: bool
) -> list[str]:
    """Return the table, its caption and a line per check."""
    lines = [line(name, check) for name, check in checks.items()]
    for name, each in checks.items():
        if each.differs is not None:
            seed, step = each.differs
            lines.append(f"{name}: bits differ from step {step:,.0f} on (seed {seed}); {alike}")
    text = [format_table(table(checks), "markdown"), "", caption(list(checks.values()))]
    if not markdown:
        return ["", *text, "", *lines, f"figure: {figure}"]
    failed = sum(check.outcome == "fail" for check in checks.values())
    head = f"{failed} of {len(checks)} got worse" if failed else "nothing got worse"
    listed = [f"- {each}" for each in lines]
    return [f"### {title}: {head}", "", *listed, "", *text, "", f"Both curves: `{figure}`"]


def _draw(folder: Path, name: str, baseline: Baseline, checks: Mapping[str, Check]) -> Path:
    """Draw the checks of a baseline; return the file."""
    from ablations.figures import write
    from ablations.figures.checks import checks as draw

    metrics = {where: group.metric for where, group in baseline.groups.items()}
    path = folder / re.sub(r"[^\w.-]+", "_", f"{name}_curves")
    try:
        return write(draw(checks, metrics), path)[-1]
    except OSError as error:
        raise UserError(f"cannot write to '{folder}': {error.strerror}") from None
