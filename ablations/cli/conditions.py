"""What the claims of a file ask to be run: by their commands, and under its conditions."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.cli.arguments import Parser, add_studies, seeds_of, selection
from ablations.errors import UserError
from ablations.request import Request

if TYPE_CHECKING:
    from ablations.records import Plan
    from ablations.report.claims.entries import Claim, Condition

NO_LOOKS = {"until": None, "most_seeds": None}


@dataclass(frozen=True)
class Under:
    """The claims of one command under a condition on a task. run: the command for it."""

    condition: str
    task: str
    claims: tuple[Claim, ...]
    plan: Plan

    @property
    def run(self) -> str:
        return Request(self.plan.study.name, **self.plan.request).command()


def selected(claim: Claim) -> dict[str, Any]:
    """The selection of a claim's command. Raises UserError for one that `run` would not take."""
    parser = Parser(prog="ablations run")
    add_studies(parser, "+")
    try:
        asked = parser.parse_args(shlex.split(claim.command)[2:])
        if asked.studies != [claim.study]:
            raise UserError(f"it runs {', '.join(asked.studies)}")
        return selection(asked)
    except UserError as error:
        raise UserError(f"claim '{claim.id}': its command `{claim.command}`: {error}") from None


def under_conditions(
    claims: Sequence[Claim],
    conditions: Sequence[Condition],
    plans: dict[str, Plan],
    results: Path,
) -> list[Under]:
    """Every condition on each of its tasks, for each command of the claims that it is about. plans:
    command -> its own plan. Raises UserError for a condition that changes nothing, or that is about
    no claim."""
    found = []
    for condition in conditions:
        for task, settings in condition.settings.items():
            try:
                for mine in _compared(claims, condition, task).values():
                    plan = _plan(mine, condition, task, settings, results)
                    own = {cell.hash for cell in plans[mine[0].command].cells}
                    if all(cell.hash in own for cell in plan.cells):
                        raise UserError(f"it changes nothing of {mine[0].study} on {task}")
                    found.append(Under(condition.name, task, tuple(mine), plan))
            except UserError as error:
                raise UserError(f"condition '{condition.name}': {error}") from None
    return found


def _compared(claims: Sequence[Claim], condition: Condition, task: str) -> dict[str, list[Claim]]:
    """command -> its claims of a difference that a condition is about on a task."""
    found: dict[str, list[Claim]] = {}
    for study in condition.studies:
        mine = [
            claim
            for claim in claims
            if claim.study == study and task in claim.tasks and claim.statistic == "difference"
        ]
        if not mine:
            raise UserError(f"no claim is about a difference in {study} on {task}")
        for claim in mine:
            found.setdefault(claim.command, []).append(claim)
    return found


def _plan(
    claims: Sequence[Claim],
    condition: Condition,
    task: str,
    settings: Any,
    results: Path,
) -> Plan:
    from ablations.sweep.planned import planned

    asked = selected(claims[0])
    names = (name for claim in claims for name in (*claim.versus, *claim.variant))
    asked |= {
        "tasks": [task],
        "variants": list(dict.fromkeys(names)),
        "seeds": seeds_of(condition.seeds),
        "set": {**(asked["set"] or {}), **settings},
        **NO_LOOKS,
    }
    (plan,) = planned([claims[0].study], results, asked)
    return plan
