"""results/claims/README.md: every claim, what was run, what was found, from the records alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ablations.report.claims.conditions import Again, fates
from ablations.report.claims.entries import OWN
from ablations.report.claims.found import EVALUATION, Judged
from ablations.report.claims.rows import estimate, table
from ablations.report.claims.words import Stand, sentence, stands, turning, verdict
from ablations.report.formats.markdown import markdown_text, pipes
from ablations.report.formats.templates import templates

FIGURE, CONDITIONS = "all_claims", "conditions"  # the stems of the figures, beside the page
_LEVELLED = 1.0  # margins in the last fifth of training
_OUTCOMES = ("hold", "fail", "hold here and fail there", "are decided in part", "are undecided")
_PLAIN: Mapping[Stand, str] = {
    "holds": "hold",
    "no difference": "fail",
    "opposite": "fail",
    "differs": "fail",
}
_FATES = {  # as `fates` counts them -> the head of the column
    "the same": "the same",
    "another": "another",
    "undecided": "undecided",
    "decided here": "decided there alone",
    "undecided on both": "on neither",
    "runs fail": "runs fail",
    "moved": "effect moved",
    "not run": "not run yet",
}


def page(
    claims: Sequence[Judged],
    at_once: Sequence[Judged],
    others: Mapping[str, Judged],
    again: Sequence[Again] = (),
) -> str:
    """Write the whole page, by the template page.md.j2.

    Args:
        claims: the claims as they were judged.
        at_once: the same claims when the intervals of all hold at once.
        others: claim -> itself, judged by another metric.
        again: comparisons that ran under other settings too.
    """
    template = templates(Path(__file__).parent).get_template("page.md.j2")
    ran = [judged for judged in claims if judged.ran]
    complete = [judged for judged in ran if all(part.ran for part in judged.parts)]
    comparisons = [
        (part, stand)
        for judged in ran
        for part, stand in zip(judged.parts, stands(judged), strict=True)
        if part.ran
    ]
    decided = [part for part, stand in comparisons if stand in _PLAIN]
    most = Counter(part.task for part in decided).most_common(1)
    return template.render(
        found=claims,
        ran=ran,
        not_run=[judged for judged in claims if not judged.ran],
        whole=complete,
        outcomes=_OUTCOMES,
        kinds=Counter(_outcome(stands(judged)) for judged in complete),
        comparisons=comparisons,
        counts=Counter(
            "runs fail" if stand == "unstable" else _outcome([stand]) for _, stand in comparisons
        ),
        decided=decided,
        on_task=[part for part in decided if part.task == most[0][0]],
        overview=pipes(
            ["claim", "verdict", "all at once"], list(_overview(claims, at_once)), set()
        ),
        others=others,
        again=again,
        names=dict.fromkeys(name for name, _, _ in fates(again)),
        seeds=sorted(
            {part.n for of in again for name, part in of.parts.items() if name != OWN and part.ran}
        ),
        elsewhere=_elsewhere(again),
        figure=FIGURE,
        conditions=CONDITIONS,
        levelled=_LEVELLED,
        evaluation=EVALUATION,
        stands=stands,
        sentence=sentence,
        table=table,
        turning=turning,
        verdict=verdict,
        paid=lambda other: list(_paid(other)),
    )


def _outcome(each: Iterable[Stand]) -> str:
    """Sum up comparisons as one of _OUTCOMES."""
    kinds = {_PLAIN.get(stand, "open") for stand in each}
    if "open" not in kinds:
        return kinds.pop() if len(kinds) == 1 else "hold here and fail there"
    return "are decided in part" if len(kinds) > 1 else "are undecided"


def _overview(claims: Sequence[Judged], at_once: Sequence[Judged]) -> Iterator[list[str]]:
    for alone, joint in zip(claims, at_once, strict=True):
        if alone.ran:
            title = f"[{markdown_text(alone.claim.title)}](#{alone.claim.id})"
            same = verdict(joint) == verdict(alone)
            yield [title, verdict(alone), "the same" if same else verdict(joint)]


def _paid(other: Judged) -> Iterator[str]:
    """Write the estimates of a claim by the returns that are paid."""
    for part in other.parts:
        value, interval, _ = estimate(part, ratio=False)
        if interval:
            place = f"for {part.label} on" if part.label else "on"
            yield f"{value} {interval} {place} {part.task}"


def _elsewhere(again: Sequence[Again]) -> list[str]:
    """Count the verdicts that stand under other settings, as a table."""
    counted = fates(again)
    kinds = [
        kind for kind in _FATES if kind != "not run" or any(of.get(kind) for *_, of in counted)
    ]
    rows = [[name, task, *(str(of.get(kind, 0)) for kind in kinds)] for name, task, of in counted]
    heads = [_FATES[kind] for kind in kinds]
    return pipes(["condition", "task", *heads], rows, set(heads))
