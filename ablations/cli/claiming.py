"""The command `claims`: published claims, judged by the records."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.cli.arguments import add_command, seeds_of
from ablations.cli.conditions import Under, selected, under_conditions
from ablations.cli.results import FORMATS
from ablations.errors import UserError, unknown
from ablations.request import Request

if TYPE_CHECKING:
    from ablations.records import Plan
    from ablations.report.claims.conditions import Again
    from ablations.report.claims.entries import Claim, Condition
    from ablations.report.results import Results

COMPILE_SECONDS = 80.0  # of a Brax task, see docs/performance.md


def add_commands(commands: Any) -> None:
    one = add_command(commands, "claims", _claims, "published claims, judged by the records")
    one.add_argument(
        "--file", type=Path, metavar="FILE", help="default: claims.toml in the results folder"
    )
    one.add_argument(
        "--write",
        action="store_true",
        help="README.md and its figures in the results folder, anew",
    )
    one.add_argument("--format", choices=FORMATS, default="markdown", help="of the table")
    one.add_argument(
        "--seeds",
        type=seeds_of,
        metavar="FIRST-LAST",
        help="each estimate beside that of these seeds, where they have run",
    )
    one.add_argument(
        "--conditions",
        action="store_true",
        help="differences judged again under the settings of the file's conditions",
    )
    one.add_argument("--cost", action="store_true", help="what their runs cost, and nothing else")
    one.add_argument(
        "--rate",
        nargs="+",
        action="extend",
        default=[],
        metavar="TASK=N",
        help="of --cost: steps per second of one core; default: as measured, else assumed",
    )


def _claims(options: argparse.Namespace) -> None:
    from ablations.report.claims.entries import read, read_conditions

    file = options.file or options.results / "claims.toml"
    claims, conditions = read(file), read_conditions(file)
    if options.rate and not options.cost:
        raise UserError("--rate is for --cost")
    asked = {
        "--seeds": options.seeds is not None,
        "--conditions": options.conditions,
        "--cost": options.cost,
        "--write": options.write,
    }
    if len(flags := [flag for flag, given in asked.items() if given]) > 1:
        raise UserError(f"{flags[0]} prints a table: leave out {' and '.join(flags[1:])}")
    plans = _plans(claims, options.results)
    if options.seeds is not None:
        _replicate(options, claims, plans)
    elif options.conditions:
        _under_conditions(options, claims, conditions, plans)
    elif options.cost:
        under = under_conditions(claims, conditions, plans, options.results)
        ours = {command: plan for command, plan in plans.items() if not plan.imported}
        if not ours:
            raise UserError("--cost: all runs of the claims were imported; none is run here")
        _cost(options, ours, under)
    else:
        _judge(options, claims, conditions, plans)


def _judge(
    options: argparse.Namespace,
    claims: list[Claim],
    conditions: list[Condition],
    plans: dict[str, Plan],
) -> None:
    from ablations.records import write_atomically
    from ablations.report import formats
    from ablations.report.claims.found import evidence
    from ablations.report.claims.judge import by_another, judged
    from ablations.report.claims.page import CONDITIONS, FIGURE, claims_sheet, page
    from ablations.report.statistics import LEVEL

    read = dict(zip(plans, evidence(plans.values(), options.results), strict=True))
    found = [judged(claim, read[claim.command]) for claim in claims]
    at_once = [judged(claim, read[claim.command], LEVEL / len(claims)) for claim in claims]
    if not options.write:
        print(formats.render(claims_sheet(found, at_once), options.format))
        return
    from ablations.report.figures import paper
    from ablations.report.figures.claims import all_claims, one_claim
    from ablations.report.figures.conditions import conditions as heat_map

    others = {}
    for claim in claims:
        if other := by_another(claim):
            with contextlib.suppress(UserError):  # records without that metric
                others[claim.id] = judged(other, read[claim.command])
    under = under_conditions(claims, conditions, plans, options.results)
    again = _again(claims, read, under)
    path = options.results / "README.md"
    write_atomically(path, page(found, at_once, others, again))
    print(path)
    figures = {FIGURE: all_claims(found)}
    figures |= {f"{FIGURE}/{one.claim.id}": one_claim(one) for one in found if one.ran}
    if again:
        figures[CONDITIONS] = heat_map(again)
    for stem, figure in figures.items():
        print(*paper.write(figure, options.results, stem, ["svg"]))


def _replicate(options: argparse.Namespace, claims: list[Claim], plans: dict[str, Plan]) -> None:
    from ablations.report import formats
    from ablations.report.claims.found import evidence
    from ablations.report.claims.judge import judged
    from ablations.report.claims.replication import replication_sheet
    from ablations.sweep.plan import on_seeds

    others = {command: on_seeds(plan, options.seeds) for command, plan in plans.items()}
    times = [
        dict(zip(plans, evidence(of.values(), options.results), strict=True))
        for of in (plans, others)
    ]
    pairs = []
    for claim in claims:
        plan, other = plans[claim.command], others[claim.command]
        if both := set(plan.seeds) & set(other.seeds):
            raise UserError(
                f"seed {min(both)} is one that the verdicts rest on: name others, such as --seeds "
                f"{max(plan.seeds) + 1}-{max(plan.seeds) + len(plan.seeds)}"
            )
        first, second = (judged(claim, read[claim.command]) for read in times)
        pairs.append((first, second))
    sheet = replication_sheet(pairs)
    if not sheet.rows:
        other = others[claims[0].command]
        request = Request(other.study.name, **{**other.request, "tasks": claims[0].tasks[:1]})
        raise UserError(
            f"no comparison has all of seeds {min(other.seeds)}-{max(other.seeds)}: run one, such "
            f"as `{request.command()}`"
        )
    print(formats.render(sheet, options.format))


def _under_conditions(
    options: argparse.Namespace,
    claims: list[Claim],
    conditions: list[Condition],
    plans: dict[str, Plan],
) -> None:
    from ablations.report import formats
    from ablations.report.claims.conditions import conditions_sheet
    from ablations.report.claims.found import evidence

    if not conditions:
        raise UserError("the file of claims has no conditions: each begins with [[condition]]")
    under = under_conditions(claims, conditions, plans, options.results)
    read = dict(zip(plans, evidence(plans.values(), options.results), strict=True))
    found = _again(claims, read, under)
    if found or options.format != "markdown":
        print(formats.render(conditions_sheet(found), options.format), end="\n\n")
    if options.format == "markdown":
        print("These run all of them:" if found else "None has run. These run them:", end="\n\n")
        print(*(one.run for one in under), sep="\n")


def _again(claims: list[Claim], read: dict[str, Results], under: list[Under]) -> list[Again]:
    """What was compared again under some condition with all its seeds."""
    from ablations.report.claims.conditions import again
    from ablations.report.claims.entries import OWN
    from ablations.report.claims.found import evidence
    from ablations.report.statistics import LEVEL
    from ablations.sweep.outdated import apart

    folder = next(iter(read.values())).folder
    there = list(zip(under, evidence((one.plan for one in under), folder), strict=True))
    found = []
    for task in dict.fromkeys(one.task for one in under):
        mine = []
        for claim in claims:
            own = read[claim.command]
            both = {OWN: own}
            for one, results in there:
                if one.task != task or claim not in one.claims:
                    continue
                if why := apart(own.plan, one.plan, folder):
                    print(f"ablations: {why}", file=sys.stderr)
                else:
                    both[one.condition] = results
            if len(both) > 1:
                mine.append((claim, both))
        comparisons = sum(len(claim.variant) for claim, _ in mine)
        for claim, both in mine:
            found += again(claim, task, both, LEVEL / comparisons)
    return [one for one in found if one.ran]


def _plans(claims: list[Claim], results: Path) -> dict[str, Plan]:
    """command -> the plan that it runs, in the order in which claims first ask for it."""
    from ablations.sweep.planned import planned

    found = {}
    for claim in claims:
        if claim.command not in found:
            (found[claim.command],) = planned([claim.study], results, selected(claim))
    return found


def _cost(options: argparse.Namespace, plans: dict[str, Plan], under: list[Under]) -> None:
    from ablations.report import formats
    from ablations.report.claims.cost import commands, cost_sheet

    rates = _rates(options, list(plans.values()))
    named = [(str(plan.study.name), plan) for plan in plans.values()]
    named += [(f"{one.plan.study.name}, {one.condition}", one.plan) for one in under]
    sheet = cost_sheet(named, rates, COMPILE_SECONDS)
    print(formats.render(sheet, options.format))
    if options.format == "markdown":
        print("", *commands(plans), sep="\n")


def _rates(options: argparse.Namespace, plans: list[Plan]) -> dict[str, float]:
    from ablations.sweep.cell import cells_of
    from ablations.sweep.estimate import speeds

    first = {cell.task: cell for plan in plans for cell in cells_of(plan)}
    given = {}
    for text in options.rate:
        task, equals, number = text.partition("=")
        try:
            given[task] = float(number.replace("_", ""))
        except ValueError:
            given[task] = 0.0
        if not equals or not 0 < given[task] < float("inf"):
            raise UserError(f"--rate takes TASK=N, such as hopper=35000, not '{text}'")
        if task not in first:
            raise unknown("task of the claims", task, first)
    rest = [cell for task, cell in first.items() if task not in given]
    found = speeds(options.results, rest, accelerator=False)
    return {cell.task: found[cell.program()].rate for cell in rest} | given
