"""Differences of claims judged again under other settings, on each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ablations.report.claims.entries import OWN, Claim
from ablations.report.claims.found import Part, learned_by, part_of, word_of
from ablations.report.claims.judge import judged
from ablations.report.claims.words import Stand, stand
from ablations.report.results import Results
from ablations.report.scores import scores
from ablations.report.statistics import LEVEL, judge, rounding_of
from ablations.report.tables.entries import JOINT, Column, Sheet, bounded, text_columns, with_ends

_DECIDED: tuple[Stand, ...] = ("holds", "no difference", "opposite", "differs")


@dataclass(frozen=True)
class Again:
    """A comparison of a claim on a task.

    parts: OWN and the names of conditions -> the comparison there. changes: condition -> the effect
    there minus the one at the own settings.
    """

    claim: Claim
    task: str
    label: str
    parts: Mapping[str, Part]
    changes: Mapping[str, Part]

    @property
    def ran(self) -> bool:
        """True where it has all its seeds under some condition."""
        return any(part.ran for name, part in self.parts.items() if name != OWN)

    def stand(self, condition: str) -> Stand:
        """Return what it says of the sentence under a condition."""
        return stand(self.parts[condition].word, self.claim.direction)

    def fate(self, condition: str) -> str:
        """Return the verdict in view of that at the task's own settings.

        "the same", "another" or "undecided"; "decided here" or "undecided on both" where there was
        none; "runs fail"; "" where seeds lack.
        """
        own, here = self.stand(OWN), self.stand(condition)
        if "not run" in (own, here):
            return ""
        if here == "unstable":
            return "runs fail"
        if own not in _DECIDED:
            return "decided here" if here in _DECIDED else "undecided on both"
        if here not in _DECIDED:
            return "undecided"
        return "the same" if here == own else "another"

    def moved(self, condition: str) -> bool:
        """Return whether the effect is another here: the interval of its change excludes 0."""
        return condition in self.changes and self.changes[condition].sign != 0


def again(
    claim: Claim, task: str, results: Mapping[str, Results], level: float = LEVEL
) -> list[Again]:
    """Judge the comparisons of a claim on a task under each condition.

    Each is judged as on the page: the intervals of all comparisons of the claim, on all its tasks,
    hold at once with 95%, under each condition by itself.

    Args:
        claim: with its comparisons.
        task: one of its tasks.
        results: OWN and the names of conditions -> the results of the plan.
        level: of the interval of a change.
    """
    here = replace(claim, tasks=(task,))
    share = LEVEL / len(claim.tasks)
    parts_under = {name: judged(here, there, share).parts for name, there in results.items()}
    rows = []
    for k, variant in enumerate(claim.variant):
        parts = {name: of[k] for name, of in parts_under.items()}
        changes = {
            name: change
            for name, there in results.items()
            if name != OWN and parts[OWN].ran and parts[name].ran
            if (change := _changed(here, (results[OWN], there), variant, level)) is not None
        }
        rows.append(Again(claim, task, parts[OWN].label, parts, changes))
    return rows


def _changed(
    claim: Claim, pair: tuple[Results, Results], variant: str, level: float
) -> Part | None:
    """Return the effect in the second plan minus that in the first.

    Each is in what was learned there, on the seeds that both have; None where one learned nothing.
    """
    (task,), (versus,) = claim.tasks, claim.versus
    shares: list[dict[int, float]] = []
    rounding = 0.0
    for results in pair:
        scored = scores(results, metric=claim.metric)
        unit = learned_by(claim, results, task, versus)
        if unit is None:
            return None
        ours, theirs = scored.by_seed(task, variant), scored.by_seed(task, versus)
        shares.append({s: (ours[s] - theirs[s]) / unit.size for s in set(ours) & set(theirs)})
        same = rounding_of(list(ours.values()), list(theirs.values()))
        rounding = max(rounding, same / unit.size)
    seeds = sorted(set(shares[0]) & set(shares[1]))
    compared = judge([shares[1][s] - shares[0][s] for s in seeds], claim.margin, rounding, level)
    word = word_of(compared, claim.margin)
    return part_of(task, word, compared, claim.margin, planned=len(seeds))


def conditions_sheet(comparisons: Sequence[Again]) -> Sheet:
    """List each comparison under each condition, a row each."""
    rows = []
    for comparison in comparisons:
        for name, part in comparison.parts.items():
            effects = (part.effect, part.effect_low, part.effect_high)
            change = comparison.changes.get(name)
            changes = (
                (change.effect, change.effect_low, change.effect_high) if change else (None,) * 3
            )
            fate = "" if name == OWN else comparison.fate(name)
            about = (comparison.task, comparison.claim.id, comparison.label, name)
            rows.append((*about, part.n, *effects, part.word, fate, *changes))
    return Sheet(
        "claims",
        "conditions",
        "Differences of claims under other settings, in margins: shares of what was learned there. "
        "verdict: of the one at the task's own settings. Intervals of a claim's comparisons hold "
        "at once with 95%, under each condition by itself. change: of the effect, on the seeds "
        "that both have; intervals of one condition on one task hold at once.",
        (
            *("task", "claim", "variant", "condition", "seeds", "effect", "low", "high", "word"),
            *("fate", *with_ends("change")),
        ),
        tuple(rows),
        (
            *text_columns("task", "claim", "variant"),
            Column("condition", "text", ("condition",), right=True),
            Column("seeds", "count", ("seeds",)),
            *bounded("effect", "effect", ("low", "high"), sign="+", places=1),
            Column("word", "text", ("word",), right=True),
            Column("verdict", "text", ("fate",)),
            Column("change", "fixed", ("change",), "+", 1, right=False),
            Column(JOINT, "fixed", with_ends("change"), "+", 1),
        ),
    )


def fates(comparisons: Sequence[Again]) -> list[tuple[str, str, dict[str, int]]]:
    """Count the fates of comparisons by condition and task.

    "not run" counts those that lack seeds, "moved" those whose effect is another.
    """
    counted: dict[tuple[str, str], dict[str, int]] = {}
    for comparison in comparisons:
        for name in comparison.parts:
            if name != OWN:
                fate = comparison.fate(name) or "not run"
                of = counted.setdefault((name, comparison.task), {})
                of[fate] = of.get(fate, 0) + 1
                of["moved"] = of.get("moved", 0) + comparison.moved(name)
    return [(name, task, of) for (name, task), of in counted.items()]
