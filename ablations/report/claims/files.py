"""The page of claims and its figures, as files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ablations.records import write_atomically
from ablations.report.claims.conditions import Again
from ablations.report.claims.found import Judged
from ablations.report.claims.page import CONDITIONS, FIGURE, page
from ablations.report.figures import paper
from ablations.report.figures.claims import all_claims, one_claim
from ablations.report.figures.conditions import conditions


def write(
    claims: Sequence[Judged],
    at_once: Sequence[Judged],
    others: Mapping[str, Judged],
    again: Sequence[Again],
    folder: Path,
) -> Iterator[Path]:
    """Write claims/README.md and its figures into a folder; yield the paths.

    The other arguments are those of `page`.
    """
    folder = folder / "claims"
    path = folder / "README.md"
    write_atomically(path, page(claims, at_once, others, again))
    yield path
    figures = {FIGURE: all_claims(claims)}
    figures |= {each.claim.id: one_claim(each) for each in claims if each.ran}
    if again:
        figures[CONDITIONS] = conditions(again)
    for stem, figure in figures.items():
        yield from paper.write(figure, folder, stem, ["svg"])
