"""Plans of what the claims of a file ask to be run under its conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablations.core.plan import Flags
from ablations.errors import UserError
from ablations.records import Plan
from ablations.request import Request
from ablations.sweep.planned import planned

if TYPE_CHECKING:
    from ablations.report.claims.entries import Claim, Condition


@dataclass(frozen=True)
class Under:
    """The claims of one command under a condition on a task. run: the command for it."""

    condition: str
    task: str
    claims: tuple[Claim, ...]
    plan: Plan

    @property
    def run(self) -> str:
        """The command that runs it."""
        return Request.of(self.plan.study.name, self.plan.request).command()


def under_conditions(
    claims: Sequence[Claim],
    conditions: Sequence[Condition],
    plans: Mapping[str, Plan],
    results: Path,
) -> list[Under]:
    """Plan every condition on each of its tasks, for each command of the claims that it is about.

    plans: command -> its own plan. Raises UserError for a condition that changes nothing, or that
    is about no claim.
    """
    planned = []
    for condition in conditions:
        try:
            for task in condition.set:
                for compared in _compared(claims, condition, task).values():
                    plan = _plan(compared, condition, task, results)
                    own = {cell.hash for cell in plans[compared[0].command].cells}
                    if all(cell.hash in own for cell in plan.cells):
                        raise UserError(f"it changes nothing of {compared[0].study} on {task}")
                    planned.append(Under(condition.name, task, tuple(compared), plan))
        except UserError as error:
            raise UserError(f"condition '{condition.name}': {error}") from None
    return planned


def _compared(claims: Sequence[Claim], condition: Condition, task: str) -> dict[str, list[Claim]]:
    """Return command -> its claims of a difference that a condition is about on a task."""
    by_command: dict[str, list[Claim]] = {}
    for study in condition.studies:
        of_study = [
            claim
            for claim in claims
            if claim.study == study and task in claim.tasks and claim.statistic == "difference"
        ]
        if not of_study:
            raise UserError(f"no claim is about a difference in {study} on {task}")
        for claim in of_study:
            by_command.setdefault(claim.command, []).append(claim)
    return by_command


def _plan(claims: Sequence[Claim], condition: Condition, task: str, results: Path) -> Plan:
    names = (name for claim in claims for name in (*claim.versus, *claim.variant))
    selection: Flags = {
        **claims[0].run,
        "tasks": [task],
        "variants": list(dict.fromkeys(names)),
        "seeds": condition.seeds,
        "set": {**claims[0].run.get("set", {}), **condition.set[task]},
        "until": None,
        "most_seeds": None,
    }
    (plan,) = planned([claims[0].study], results, selection)
    return plan
