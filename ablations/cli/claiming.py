"""The command `claims`: published claims, judged by the records."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ablations.cli.arguments import Parser, add_flags
from ablations.cli.conditions import Under, under_conditions
from ablations.cli.output import add_format
from ablations.errors import UserError
from ablations.records import Plan
from ablations.report.claims.conditions import Again, again, conditions_sheet
from ablations.report.claims.cost import commands, cost_sheet
from ablations.report.claims.entries import OWN, Claim, read, read_conditions
from ablations.report.claims.found import evidence
from ablations.report.claims.judge import by_another, judged
from ablations.report.claims.rows import claims_sheet, replication_sheet
from ablations.report.formats import render
from ablations.report.results import Results
from ablations.report.statistics import LEVEL
from ablations.request import Request, seeds_of
from ablations.sweep.cell import cells_of
from ablations.sweep.estimate import speeds
from ablations.sweep.outdated import apart
from ablations.sweep.plan import on_seeds
from ablations.sweep.planned import planned

COMPILE_SECONDS = 80.0  # of a Brax task, see docs/performance.md


def add_claims(command: Parser) -> None:
    """Add the flags of `claims`."""
    add_flags(command, {"--file FILE": "default: claims.toml in the results folder"}, type=Path)
    add_format(command)
    instead = command.add_mutually_exclusive_group()
    add_flags(
        instead,
        {"--write": "claims/README.md and its figures in the results folder, anew"},
        action="store_true",
    )
    add_flags(
        instead,
        {"--seeds FIRST-LAST": "each estimate beside that of these seeds, where they have run"},
        type=seeds_of,
    )
    add_flags(
        instead,
        {
            "--conditions": "differences judged again under the settings of the file's conditions",
            "--cost": "what their runs cost, and nothing else",
        },
        action="store_true",
    )


def run_claims(options: argparse.Namespace) -> None:
    """Judge the claims of a file."""
    file = options.file or options.results / "claims.toml"
    claims, conditions = read(file), read_conditions(file)
    plans: dict[str, Plan] = {}
    for claim in claims:
        if claim.command not in plans:
            (plans[claim.command],) = planned([claim.study], options.results, claim.run)
    if options.seeds is not None:
        _replicate(options, claims, plans)
        return
    if options.conditions and not conditions:
        raise UserError("the file of claims has no conditions: each begins with [[condition]]")
    other = options.conditions or options.cost or options.write
    under = under_conditions(claims, conditions, plans, options.results) if other else []
    if options.cost:
        _cost(options, plans, under)
    elif options.conditions:
        _under_conditions(options, claims, plans, under)
    else:
        _judge(options, claims, plans, under)


def _judge(
    options: argparse.Namespace,
    claims: Sequence[Claim],
    plans: Mapping[str, Plan],
    under: Sequence[Under],
) -> None:
    read = evidence(plans, options.results)
    verdicts = [judged(claim, read[claim.command]) for claim in claims]
    at_once = [judged(claim, read[claim.command], LEVEL / len(claims)) for claim in claims]
    if not options.write:
        print(render(claims_sheet(verdicts, at_once), options.format))
        return
    from ablations.report.claims.files import write

    others = {}
    for claim in claims:
        if other := by_another(claim):
            with contextlib.suppress(UserError):  # records without that metric
                others[claim.id] = judged(other, read[claim.command])
    for path in write(verdicts, at_once, others, _again(claims, read, under), options.results):
        print(path)


def _replicate(
    options: argparse.Namespace, claims: Sequence[Claim], plans: Mapping[str, Plan]
) -> None:
    for plan in plans.values():
        if shared := set(plan.seeds) & set(options.seeds):
            raise UserError(
                f"seed {min(shared)} is one that the verdicts rest on: name others, such as "
                f"--seeds {max(plan.seeds) + 1}-{max(plan.seeds) + len(plan.seeds)}"
            )
    others = {command: on_seeds(plan, options.seeds) for command, plan in plans.items()}
    times = [evidence(each, options.results) for each in (plans, others)]
    both = ([judged(claim, read[claim.command]) for claim in claims] for read in times)
    sheet = replication_sheet(list(zip(*both, strict=True)))
    if not sheet.rows:
        other = others[claims[0].command]
        request = replace(Request.of(other.study.name, other.request), tasks=claims[0].tasks[:1])
        raise UserError(
            f"no comparison has all of seeds {min(other.seeds)}-{max(other.seeds)}: run one, such "
            f"as `{request.command()}`"
        )
    print(render(sheet, options.format))


def _under_conditions(
    options: argparse.Namespace,
    claims: Sequence[Claim],
    plans: Mapping[str, Plan],
    under: Sequence[Under],
) -> None:
    again = _again(claims, evidence(plans, options.results), under)
    if again or options.format != "markdown":
        print(render(conditions_sheet(again), options.format), end="\n\n")
    if options.format == "markdown":
        print("These run all of them:" if again else "None has run. These run them:", end="\n\n")
        print(*(each.run for each in under), sep="\n")


def _again(
    claims: Sequence[Claim], read: Mapping[str, Results], under: Sequence[Under]
) -> list[Again]:
    """Judge again what ran under some condition with all its seeds."""
    folder = next(iter(read.values())).folder
    there = evidence({index: each.plan for index, each in enumerate(under)}, folder)
    comparisons_again = []
    for task in dict.fromkeys(each.task for each in under):
        compared = []
        for claim in claims:
            own = read[claim.command]
            both = {OWN: own}
            for index, each in enumerate(under):
                if each.task != task or claim not in each.claims:
                    continue
                if why := apart(own.plan, each.plan, folder):
                    print(f"ablations: {why}", file=sys.stderr)
                else:
                    both[each.condition] = there[index]
            if len(both) > 1:
                compared.append((claim, both))
        comparisons = sum(len(claim.variant) for claim, _ in compared)
        for claim, both in compared:
            comparisons_again += again(claim, task, both, LEVEL / comparisons)
    return [comparison for comparison in comparisons_again if comparison.ran]


def _cost(options: argparse.Namespace, plans: Mapping[str, Plan], under: Sequence[Under]) -> None:
    ours = [plan for plan in plans.values() if not plan.imported]
    if not ours:
        raise UserError("--cost: all runs of the claims were imported; none is run here")
    cells = {cell.task: cell for plan in ours for cell in cells_of(plan)}
    measured = speeds(options.results, list(cells.values()), accelerator=False)
    rates = {task: measured[cell.program()].rate for task, cell in cells.items()}
    named = [(str(plan.study.name), plan) for plan in ours]
    named += [(f"{each.plan.study.name}, {each.condition}", each.plan) for each in under]
    print(render(cost_sheet(named, rates, COMPILE_SECONDS), options.format))
    if options.format == "markdown":
        print("", *commands(ours), sep="\n")
