"""The commands `baseline` and `check`: against stored curves, the nights before, or a paper."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ablations.cli.arguments import Parser, add_flags, add_studies, positive
from ablations.cli.output import add_json, print_json
from ablations.cli.selected import plans
from ablations.cli.shares import share
from ablations.core.decode import Json, as_json
from ablations.errors import UserError, unless_missing
from ablations.exchange.sources import final_scores
from ablations.records import Plan
from ablations.regression import (
    ALPHA,
    EFFECT,
    MOST_SEEDS,
    baseline_check,
    history,
    messages,
)
from ablations.regression import baseline_files as files
from ablations.regression.baselines import Baseline
from ablations.regression.check import Check, Terms, play_checks
from ablations.regression.curves import Curves
from ablations.regression.nights import read_nights
from ablations.regression.paper import check_paper, read_paper
from ablations.regression.training import Training
from ablations.sweep.local import Processes
from ablations.sweep.planned import resolved_again

_OF_HISTORY = ("nights", "rate", "night", "since", "better")
_OF_BASELINES = ("alpha", "seeds", "paired", "exact", "records", "figures", "workers")


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
    command.add_argument(
        "baselines", nargs="*", metavar="BASELINE", help="a name, or a folder; with --paper: runs"
    )
    add_flags(
        command,
        {
            "--alpha": f"chance of a false alarm, over all curves together; default: {ALPHA}",
            "--effect": "smallest loss worth catching, of what the baseline learns; default: "
            f"{EFFECT}",
        },
        type=float,
    )
    add_flags(command, {"--seeds N": f"at most so many; default: {MOST_SEEDS}"}, type=positive)
    add_flags(
        command,
        {
            "--paired": "compare seed by seed",
            "--exact": "one seed; exit code 1 where any bit differs",
        },
        action="store_true",
    )
    add_flags(command, {"--records DIR": "compare these records; train nothing"}, type=Path)
    add_flags(command, {"--format": None}, choices=("text", "markdown"), default="text")
    add_flags(command, {"--figures DIR": "default: checks/ in the results"}, type=Path)
    add_flags(command, {"--workers N": "default: one per core"}, type=positive)
    group = command.add_argument_group("one run a night, in place of a baseline")
    add_flags(
        group,
        {
            "--history FILE": "a table or JSON lines with a row a night, or a folder with a run a "
            "night: is tonight worse than the nights before, and do they drift"
        },
        type=Path,
    )
    add_flags(group, {"--metric NAME": "column or tag of the history or the runs"})
    add_flags(group, {"--better": "default: higher"}, choices=("higher", "lower"))
    add_flags(group, {"--nights N": "that tonight is compared with; default: 39"}, type=positive)
    add_flags(group, {"--rate SHARE": "of false alarms, of each night; default: 5%%"}, type=share)
    add_flags(
        group,
        {
            "--night NAME": "column with the names of the nights",
            "--since NIGHT": "leave out the nights before this one",
        },
    )
    group = command.add_argument_group("a paper's result, in place of a baseline")
    add_flags(
        group,
        {"--paper RESULT": "'3200 ± 450 / 5', mean ± SD / seeds, against the runs that are named"},
    )


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
    """Check baselines, a history or a paper; return the exit code."""
    if options.history is not None:
        return _check_history(options)
    if options.paper is not None:
        return _check_against_paper(options)
    if not options.baselines:
        raise UserError("nothing to check: name a BASELINE, --history FILE or --paper RESULT")
    of_history = (*_OF_HISTORY, "metric")
    _refuse(options, of_history, "is of --history FILE: a baseline has its own")
    alpha = ALPHA if options.alpha is None else options.alpha
    if not 0 < alpha < 0.5:
        raise UserError(f"--alpha must be between 0 and 0.5, not {alpha:g}")
    effect = _effect_of(options)
    baselines = {name: files.read(options.results, name) for name in options.baselines}
    alpha /= sum(len(baseline.groups) for baseline in baselines.values())
    terms = Terms(alpha, effect, most=options.seeds or MOST_SEEDS, paired=options.paired)
    worse = 0
    for name, baseline in baselines.items():
        if not baseline.requests:
            raise UserError(f"'{name}' is a baseline of pytest: `pytest` checks it")
        folder = options.results / "checks" / Path(name).name
        if options.exact:
            worse += _check_bits(options, baseline, folder)
        else:
            worse += _check_scores(options, baseline, folder, terms)
    return 1 if worse else 0


def _check_bits(options: argparse.Namespace, baseline: Baseline, folder: Path) -> int:
    """Print whether each group is the same bits; return how many are not."""
    if options.records is not None:
        given: Mapping[str, Curves] = files.given(baseline, options.records)
    else:
        given = _training(options, baseline, folder)(baseline_check.first_seeds(baseline))
    alike = files.made_alike(baseline, options.records or folder / "records")
    different = 0
    for name, bits in baseline_check.bits(baseline, given):
        print(messages.bits_line(name, bits, alike))
        different += not bits.identical
    return different


def _check_scores(
    options: argparse.Namespace, baseline: Baseline, folder: Path, terms: Terms
) -> int:
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


# In place of a baseline


def _refuse(options: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Raise UserError for the first of the flags that was given."""
    for name in names:
        if getattr(options, name) not in (None, False):
            raise UserError(f"--{name} {why}")


def _effect_of(options: argparse.Namespace) -> float:
    """Return --effect, or its default. Raises UserError for one that is not above 0."""
    effect: float = EFFECT if options.effect is None else options.effect
    if not 0 < effect < float("inf"):
        raise UserError(f"--effect must be above 0, not {effect:g}")
    return effect


def _check_history(options: argparse.Namespace) -> int:
    """Print whether tonight is as the nights before; return the exit code."""
    if options.baselines:
        raise UserError("--history is in place of a baseline: leave one of them out")
    _refuse(options, ("paper",), "is in place of --history: leave one of them out")
    why = "is of a baseline: --history takes --nights, --rate and --better"
    _refuse(options, (*_OF_BASELINES, "effect"), why)
    if options.metric is None:
        raise UserError("--history needs --metric, the column of a night's result")
    read = read_nights(options.history, options.metric, options.night)
    if options.since is not None:
        read = read.since(options.since)
    terms = history.Terms(
        options.nights or history.NIGHTS,
        options.rate or history.RATE,
        lower_is_better=options.better == "lower",
    )
    for note in read.notes:
        print(note, file=sys.stderr)
    check = history.check_nights(read.values, terms, read.names)
    _print(options, options.metric, check.text)
    return 1 if check.failed else 0


def _check_against_paper(options: argparse.Namespace) -> int:
    """Print whether runs are compatible with a paper's result; return the exit code."""
    paper = read_paper(options.paper)
    if not options.baselines:
        raise UserError("--paper needs the files or folders of your runs")
    why = "is not of --paper, which takes --effect and --metric"
    _refuse(options, (*_OF_HISTORY, *_OF_BASELINES), why)
    effect = _effect_of(options)
    scores, notes = final_scores(options.baselines, options.metric)
    for note in notes:
        print(note, file=sys.stderr)
    codes = []
    for (task, run), values in scores.items():
        check = check_paper(values, paper, effect)
        text = f"{check.text}; {len(values)} seeds against {paper.n}"
        _print(options, f"{run} on {task}", text)
        codes.append(check.code)
    return max(codes, key=lambda code: (code == 1, code), default=0)


def _print(options: argparse.Namespace, name: str, text: str) -> None:
    print(f"- **{name}**: {text}" if options.format == "markdown" else f"{name}: {text}")
