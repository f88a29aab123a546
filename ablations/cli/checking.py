"""The commands `baseline` and `check`: curves against stored ones."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from ablations.cli.arguments import Parser, add_flags, add_studies, positive
from ablations.cli.output import add_json, print_json
from ablations.cli.selected import plans
from ablations.core.decode import Json, as_json
from ablations.errors import UserError, unless_missing
from ablations.records import Plan
from ablations.regression import (
    ALPHA,
    EFFECT,
    MOST_SEEDS,
    baseline_check,
    messages,
)
from ablations.regression import baseline_files as files
from ablations.regression.baselines import Baseline
from ablations.regression.check import Check, Terms, play_checks
from ablations.regression.training import Training
from ablations.sweep.local import Processes
from ablations.sweep.planned import resolved_again


def add_baseline_save(command: Parser) -> None:
    """Add the flags of `baseline save`."""
    add_studies(command, "+")
    add_flags(command, {"--name": None}, required=True)
    add_flags(command, {"--reason": "why; an update needs one, and keeps it"})


def add_baseline_list(command: Parser) -> None:
    """Add the flags of `baseline list`."""
    add_json(command)


def add_baseline_show(command: Parser) -> None:
    """Add the argument of `baseline show`."""
    command.add_argument("baseline", metavar="BASELINE")


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


def run_baseline_save(options: argparse.Namespace) -> None:
    """Store the curves of studies as a baseline."""
    baseline = files.save(plans(options), options.results, options.name, options.reason)
    print(
        f"{options.name}: {len(baseline.groups)} curves of {files.fewest_seeds(baseline.groups)} "
        f"seeds: {baseline.history[-1]['reason']}"
    )
    print(files.stem_of(options.results, options.name).parent)


def run_baseline_list(options: argparse.Namespace) -> None:
    """Print every baseline."""
    baselines = dict(files.stored(options.results))
    if options.json:
        print_json({name: _data(baseline) for name, baseline in baselines.items()})
        return
    if not baselines:
        print(f"no baselines in '{options.results / 'baselines'}'")
    for name, baseline in baselines.items():
        last = baseline.history[-1]
        print(
            f"{name}: {', '.join(baseline.groups)}; {files.fewest_seeds(baseline.groups)} seeds; "
            f"version {len(baseline.history)} of {last['date']}: {last['reason']}"
        )


def _data(baseline: Baseline) -> dict[str, Json]:
    return {
        "curves": list(baseline.groups),
        "seeds": files.fewest_seeds(baseline.groups),
        "history": [as_json(version) for version in baseline.history],
    }


def run_baseline_show(options: argparse.Namespace) -> None:
    """Print the scores, history and provenance of a baseline."""
    baseline = files.read(options.results, options.baseline)
    print("\n".join([options.baseline, *messages.description(baseline)]))


def run_check(options: argparse.Namespace) -> int:
    """Check baselines; return the exit code."""
    alpha, effect = options.alpha, options.effect
    if not 0 < alpha < 0.5:
        raise UserError(f"--alpha must be between 0 and 0.5, not {alpha:g}")
    if not 0 < effect < float("inf"):
        raise UserError(f"--effect must be above 0, not {effect:g}")
    baselines = {name: files.read(options.results, name) for name in options.baselines}
    alpha /= sum(len(baseline.groups) for baseline in baselines.values())
    terms = Terms(alpha, effect, most=options.seeds, paired=options.paired)
    worse = 0
    for name, baseline in baselines.items():
        if not baseline.requests:
            raise UserError(f"'{name}' is a baseline of pytest: `pytest` checks it")
        folder = options.results / "checks" / Path(name).name
        worse += _check(options, baseline, folder, terms)
    return 1 if worse else 0


def _check(options: argparse.Namespace, baseline: Baseline, folder: Path, terms: Terms) -> int:
    """Check the scores of each group, print and draw them; return how many got worse."""
    if options.records is not None:
        given = files.given(baseline, options.records)
        checks = baseline_check.check_given(baseline, terms, given)
    else:
        tests = baseline_check.planned(baseline, terms)
        if options.format != "markdown":
            for name, test in tests.items():
                plan = messages.plan_line(name, test.design, test.unit, test.terms)
                print(plan, flush=True)
        checks = play_checks(tests, _training(options, baseline, folder))
    alike = files.made_alike(baseline, options.records or folder / "records")
    figure = _draw(options.figures or folder, folder.name, baseline, checks)
    written = messages.markdown if options.format == "markdown" else messages.report
    print(written(folder.name, checks, alike, figure))
    return sum(check.verdict == "worse" for check in checks.values())


def _draw(
    folder: Path, name: str, baseline: Baseline, checks: Mapping[str, Check]
) -> Path | UserError:
    """Draw the checks of a baseline; return the file, or the error for a missing extra."""

    def written() -> Path:
        from ablations.regression import figures

        metrics = {where: group.metric for where, group in baseline.groups.items()}
        return figures.draw(name, checks, metrics, folder / f"{name}_curves", ("svg", "png"))[-1]

    try:
        return unless_missing(written)
    except OSError as error:
        raise UserError(f"cannot write to '{folder}': {error.strerror}") from None


def _training(options: argparse.Namespace, baseline: Baseline, folder: Path) -> Training:
    def run(plans: Sequence[Plan], records: Path) -> None:
        Processes(options.workers, quiet=options.format == "markdown").run(plans, records)

    return Training(baseline, folder / "records", resolved_again, run)
