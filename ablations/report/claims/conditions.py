"""Whether verdicts stand under other settings: each difference judged again, on each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ablations.errors import UserError
from ablations.records import Plan
from ablations.report.claims.entries import Claim, Condition
from ablations.report.claims.found import Evidence, Part
from ablations.report.claims.judge import judged
from ablations.report.claims.words import Stand, stand
from ablations.report.tables.entries import Sheet, Shown

OWN = "own settings"
_DECIDED: tuple[Stand, ...] = ("holds", "no difference", "opposite", "differs")


@dataclass(frozen=True)
class Again:
    """One comparison of a claim on one task.

    parts: OWN and the names of conditions -> what was found there.
    """

    claim: Claim
    task: str
    label: str
    parts: Mapping[str, Part]

    @property
    def ran(self) -> bool:
        """Whether it has all its seeds under some condition."""
        return any(part.ran for name, part in self.parts.items() if name != OWN)

    def stand(self, condition: str) -> Stand:
        """What it says of the sentence under a condition."""
        return stand(self.parts[condition].word, self.claim.direction)

    def fate(self, condition: str) -> str:
        """Of the verdict at the task's own settings: "the same", "another" or "undecided"; "decided
        here" where there was none; "" where either lacks seeds."""
        own, here = self.stand(OWN), self.stand(condition)
        if "not run" in (own, here):
            return ""
        if own not in _DECIDED:
            return "decided here" if here in _DECIDED else "undecided on both"
        if here not in _DECIDED:
            return "undecided"
        return "the same" if here == own else "another"


def compared_again(
    claims: Sequence[Claim], condition: Condition, task: str
) -> dict[str, list[Claim]]:
    """command -> its claims that a condition is about on a task: those of a difference. Raises
    UserError where it names a study or task of which there are none."""
    found: dict[str, list[Claim]] = {}
    for study in condition.studies:
        mine = [
            claim
            for claim in claims
            if claim.study == study and task in claim.tasks and claim.statistic == "difference"
        ]
        if not mine:
            raise UserError(
                f"condition '{condition.name}': no claim is about a difference in {study} on {task}"
            )
        for claim in mine:
            found.setdefault(claim.command, []).append(claim)
    return found


def again(claim: Claim, task: str, plans: Mapping[str, Plan], evidence: Evidence) -> list[Again]:
    """The comparisons of a claim on a task. plans: OWN and the names of conditions -> the plan.

    The intervals of a claim's comparisons on the task hold at once with 95%, under each condition
    by itself.
    """
    here = replace(claim, tasks=(task,))
    found = {name: judged(here, plan, evidence).parts for name, plan in plans.items()}
    return [
        Again(claim, task, own.label, {name: parts[k] for name, parts in found.items()})
        for k, own in enumerate(found[OWN])
    ]


def conditions_sheet(found: Sequence[Again]) -> Sheet:
    """A row for each comparison under each condition."""
    rows = []
    for one in found:
        for name, part in one.parts.items():
            effects = (part.effect, part.effect_low, part.effect_high)
            fate = "" if name == OWN else one.fate(name)
            rows.append(
                (one.task, one.claim.id, one.label, name, *effects, part.n, part.word, fate)
            )
    return Sheet(
        "claims",
        "conditions",
        "Differences of claims under other settings, in margins. verdict: beside the one at the "
        "task's own settings. Intervals of a claim's comparisons on a task hold at once with 95%.",
        (
            *("task", "claim", "variant", "condition", "effect", "low", "high"),
            *("seeds", "word", "fate"),
        ),
        tuple(rows),
        (
            Shown("task", "text", ("task",)),
            Shown("claim", "text", ("claim",)),
            Shown("variant", "text", ("variant",)),
            Shown("condition", "text", ("condition",)),
            Shown("effect", "fixed", ("effect",), "+", 1),
            Shown("[95% joint]", "fixed", ("effect", "low", "high"), "+", 1),
            Shown("seeds", "count", ("seeds",)),
            Shown("word", "text", ("word",)),
            Shown("verdict", "text", ("fate",)),
        ),
    )


def fates(found: Sequence[Again]) -> list[tuple[str, str, dict[str, int]]]:
    """(condition, task, fate -> how many comparisons) for each that ran."""
    counted: dict[tuple[str, str], dict[str, int]] = {}
    for one in found:
        for name in one.parts:
            if name != OWN and (fate := one.fate(name)):
                of = counted.setdefault((name, one.task), {})
                of[fate] = of.get(fate, 0) + 1
    return [(name, task, of) for (name, task), of in counted.items()]
