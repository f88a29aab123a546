"""The commands `baseline` and `check`: sweep trains, regression compares, this prints."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.cli.arguments import add_command, add_studies, plans, positive
from ablations.errors import UserError, missing_extra
from ablations.regression import ALPHA, EFFECT, MOST_SEEDS
from ablations.request import Request

if TYPE_CHECKING:
    from ablations.regression.baselines import Baseline
    from ablations.regression.check import Check
    from ablations.regression.curves import Curves
    from ablations.regression.from_records import Train, Wanted


def add_commands(commands: Any) -> None:
    family = commands.add_parser(
        "baseline", help="what to do with a baseline", description="What to do with a baseline."
    ).add_subparsers(title="commands", metavar="COMMAND", required=True)
    one = add_command(family, "save", _save, "store curves, for `check` to compare with")
    add_studies(one, "+")
    one.add_argument("--name", required=True)
    one.add_argument("--reason", help="why; an update needs one, and keeps it")
    add_command(family, "list", _list, "every baseline", reads_records="none")
    said = "a baseline's scores, history and provenance"
    one = add_command(family, "show", _show, said, reads_records="none")
    one.add_argument("baseline", metavar="BASELINE")

    one = add_command(
        commands, "check", _check, "train again and compare with baselines; exit code 1: got worse"
    )
    one.add_argument("baselines", nargs="+", metavar="BASELINE", help="a name, or a folder")
    one.add_argument(
        "--alpha",
        type=float,
        default=ALPHA,
        help=f"chance of a false alarm, over all curves together; default: {ALPHA}",
    )
    one.add_argument(
        "--effect",
        type=float,
        default=EFFECT,
        help=f"smallest loss worth catching, of what the baseline learns; default: {EFFECT}",
    )
    one.add_argument(
        "--seeds",
        type=positive,
        default=MOST_SEEDS,
        metavar="N",
        help=f"at most so many; default: {MOST_SEEDS}",
    )
    one.add_argument("--paired", action="store_true", help="compare seed by seed")
    one.add_argument(
        "--exact", action="store_true", help="one seed; exit code 1 where any bit differs"
    )
    one.add_argument(
        "--records", type=Path, metavar="DIR", help="compare these records; train nothing"
    )
    one.add_argument("--format", choices=("text", "markdown"), default="text")
    one.add_argument("--figures", type=Path, metavar="DIR", help="default: checks/ in the results")
    one.add_argument("--workers", type=positive, metavar="N", help="default: one per core")


def _save(options: argparse.Namespace) -> None:
    from ablations.regression import baseline_files as files

    made = files.save(plans(options), options.results, options.name, options.reason)
    print(
        f"{options.name}: {len(made.groups)} curves of {files.fewest_seeds(made.groups)} seeds: "
        f"{made.history[-1]['reason']}"
    )
    print(files.stem_of(options.results, options.name).parent)


def _list(options: argparse.Namespace) -> None:
    from ablations.regression import baseline_files as files

    found = dict(files.stored(options.results))
    if not found:
        print(f"no baselines in '{options.results / 'baselines'}'")
    for name, one in found.items():
        last = one.history[-1]
        print(
            f"{name}: {', '.join(one.groups)}; {files.fewest_seeds(one.groups)} seeds; version "
            f"{len(one.history)} of {last['date']}: {last['reason']}"
        )


def _show(options: argparse.Namespace) -> None:
    """Its curves' scores, what a check would take, its history, where it comes from."""
    from ablations.regression import baseline_files as files
    from ablations.regression import check, from_records, messages
    from ablations.regression.curves import scores

    one = files.read(options.results, options.baseline)
    print(options.baseline)
    for where, group in one.groups.items():
        curves = group.curves
        print(
            f"  {where}: {group.metric}, {len(curves)} seeds, {len(curves.steps)} points up to "
            f"step {curves.steps[-1]:,.0f}"
        )
        for score, values in scores(curves).items():
            print(
                f"    {messages.score_name(score)}: {values.mean():.4g} ± "
                f"{values.std(ddof=1):.2g} between seeds"
            )
        terms = from_records.terms(group)
        made, unit = check.layout(curves, terms)
        print(f"    a check: {messages.plan_line('', made, unit, terms).lstrip(': ')}")
    print("  history")
    for version in one.history:
        print(f"    {version['date']}  {version['reason']}")
    print("  provenance")
    for what, value in one.provenance.items():
        print(f"    {what:<10} {value}")


def _check(options: argparse.Namespace) -> int:
    """Exit code 1 where something got worse (or, with --exact, where a bit differs)."""
    from ablations.regression import baseline_files as files

    if not 0 < options.alpha < 0.5:
        raise UserError(f"--alpha must be between 0 and 0.5, not {options.alpha:g}")
    if not 0 < options.effect < float("inf"):
        raise UserError(f"--effect must be above 0, not {options.effect:g}")
    found = {name: files.read(options.results, name) for name in options.baselines}
    total = sum(len(one.groups) for one in found.values())
    worse = 0
    for name, baseline in found.items():
        if not baseline.requests:
            raise UserError(f"'{name}' is a baseline of pytest: `pytest` checks it")
        look = _check_bits if options.exact else _check_scores
        worse += look(options, name, baseline, total)
    return 1 if worse else 0


def _check_bits(options: argparse.Namespace, name: str, baseline: Baseline, total: int) -> int:
    from ablations.regression import baseline_files as files
    from ablations.regression.curves import first_difference, require_same_steps

    folder = options.results / "checks" / Path(name).name
    if options.records is not None:
        given: Mapping[str, Curves] = files.given(baseline, options.records)
    else:
        trained = _trainer(options, baseline, folder)(files.first_seeds(baseline))
        given = {"/".join(where): curves for where, curves in trained.items()}
    made_by = files.made_alike(baseline, options.records or folder / "records")
    different = 0
    for where, group in baseline.groups.items():
        now = given[where]
        if now.failed:
            seed, reason = next(iter(now.failed.items()))
            print(f"{where}: differs: seed {seed} failed: {reason}")
            different += 1
            continue
        require_same_steps(now, group.curves)
        shared = [seed for seed in now.seeds if seed in group.curves.seeds]
        if not shared:
            raise UserError(f"{where}: no seed in common with the baseline: nothing to compare")
        if (differs := first_difference(now, group.curves)) is None:
            plural = "" if len(shared) == 1 else "s"
            print(f"{where}: identical, to the bit, on {len(shared)} seed{plural}")
        else:
            print(f"{where}: seed {differs[0]} differs from step {differs[1]:,.0f} on; {made_by}")
            different += 1
    return different


def _check_scores(options: argparse.Namespace, name: str, baseline: Baseline, total: int) -> int:
    from ablations.regression import baseline_files as files
    from ablations.regression import from_records, messages
    from ablations.regression.check import layout

    folder = options.results / "checks" / Path(name).name
    terms = {
        where: from_records.terms(
            group,
            alpha=options.alpha / total,
            effect=options.effect,
            most=options.seeds,
            paired=options.paired,
        )
        for where, group in baseline.groups.items()
    }
    if options.records is not None:
        given = files.given(baseline, options.records)
        checks = from_records.check_given(baseline, terms, given)
    else:
        if options.format != "markdown":
            for where, group in baseline.groups.items():
                made, unit = layout(group.curves, terms[where])
                print(messages.plan_line(where, made, unit, terms[where]), flush=True)
        checks = from_records.check_all(baseline, terms, _trainer(options, baseline, folder))
    made_by = files.made_alike(baseline, options.records or folder / "records")
    return _tell(
        Path(name).name, baseline, checks, options.figures or folder, options.format, made_by
    )


def _tell(
    name: str,
    baseline: Baseline,
    checks: Mapping[str, Check],
    folder: Path,
    format: str,
    made_by: str,
) -> int:
    """Draws and prints the checks; how many curves got worse."""
    from ablations.regression import messages

    metrics = {where: group.metric for where, group in baseline.groups.items()}
    drawn = None
    try:
        from ablations.regression import figures

        formats = ("svg", "png")
        drawn = str(figures.write(folder, f"{name}_curves", name, checks, metrics, formats)[-1])
        figure = drawn
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is None:
            raise
        figure = str(missing)
    except OSError as error:
        raise UserError(f"cannot write to '{folder}': {error.strerror}") from None
    lines = [messages.line(where, found) for where, found in checks.items()]
    for where, found in checks.items():
        if found.differs is not None:
            seed, step = found.differs
            lines.append(f"{where}: bits differ from step {step:,.0f} on (seed {seed}); {made_by}")
    if format == "markdown":
        print(messages.markdown(name, checks, lines, drawn))
    else:
        print("\n".join(["", messages.text(checks), "", messages.caption(list(checks.values()))]))
        print("\n".join(["", *lines, f"figure: {figure}"]))
    return sum(found.verdict == "worse" for found in checks.values())


def _trainer(options: argparse.Namespace, baseline: Baseline, folder: Path) -> Train:
    """Trains cells anew, in a folder of their own: an old record says nothing about this code."""
    from ablations import plugins
    from ablations.regression import from_records
    from ablations.sweep import local
    from ablations.sweep.command import study_file
    from ablations.sweep.plan import plan

    if any("imported" in request for request in baseline.requests):
        raise UserError(
            f"others ran what the baseline '{baseline.name}' has: import new runs into another "
            f"folder, and name it with --records"
        )
    plugins.load()
    fresh = folder / "records"
    shutil.rmtree(fresh, ignore_errors=True)

    def train(wanted: Wanted) -> dict[tuple[str, str, str], Curves]:
        found = []
        for request in baseline.requests:
            mine = {k: v for k, v in wanted.items() if k[0] == request["study"]}
            if mine:
                seeds = sorted({seed for seeds in mine.values() for seed in seeds})
                asked = {**request, "until": None, "most_seeds": None, "seeds": seeds}
                study_file.name_of(asked.pop("file", ""))
                made = plan(Request(**asked))
                for _, task, variant in mine:
                    config = from_records.configuration(made, task, variant)
                    where = from_records.key(request["study"], task, variant)
                    from_records.require_same_settings(baseline, where, config)
                found.append(from_records.with_seeds(made, mine))
        quiet = options.format == "markdown"
        local.run(found, fresh, workers=options.workers, quiet=quiet)
        return {
            where: from_records.read(made, fresh, where[1], where[2], seeds)
            for made in found
            for where, seeds in wanted.items()
            if where[0] == made.study.name
        }

    return train
