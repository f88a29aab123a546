"""Text of checks and baselines: lines and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from ablations.regression.check import Check, Row, Terms
from ablations.regression.design import Design
from ablations.report.formats.markdown import markdown_text, pipes
from ablations.report.formats.numbers import decimals, p_text

SCORE_NAMES = {"final": "final performance", "auc": "area under the curve"}


def score_name(score: str) -> str:
    """Return a score in words; a user's own score has the name that it was given."""
    return SCORE_NAMES.get(score, score)


def plan_line(name: str, design: Design, unit: float, terms: Terms) -> str:
    """Return what a check may take and what it can see, before anything runs."""
    looks = [look.seeds for look in design.looks]
    seeds = (
        f"{looks[0]} seeds"
        if len(looks) == 1
        else f"{looks[0]} seeds, up to {looks[-1]} while undecided ({', '.join(map(str, looks))})"
    )
    text = (
        f"{name}: {seeds}, against the baseline's {design.old_seeds}; false alarms at most "
        f"{terms.alpha:.2g} on average over baselines (up to about {design.lucky:.1g} with one "
        f"that was lucky by two standard errors); caught with 95%: {_caught(design, unit, terms)}"
    )
    return text + shortfall(design, unit, terms)


def _caught(design: Design, unit: float, terms: Terms) -> str:
    if max(design.caught.values()) <= 1.001 * design.effect:
        return f"a loss of {_share(design.effect, unit, terms)}"
    each = (
        f"{_share(max(loss, design.effect), unit, terms)} in {score_name(score)}"
        for score, loss in design.caught.items()
    )
    return f"a loss of {' or of '.join(each)}"


def shortfall(design: Design, unit: float, terms: Terms) -> str:
    """Return what the seeds fall short of, "" where they do not."""
    if max(design.caught.values()) <= 1.001 * design.effect:
        return ""
    wanted = _share(design.effect, unit, terms)
    if design.needed is None:
        return f"; the {wanted} asked for would need a baseline of more seeds"
    return f"; the {wanted} asked for would need {design.needed} seeds"


def line(name: str, check: Check) -> str:
    """Return a check in a line: the verdict, the score, by how much."""
    seeds = f"{len(check.now)} seeds against {len(check.baseline)}"
    terms, effect = check.terms, _share(check.design.effect, check.unit, check.terms)
    diverged = f"; {len(check.now.failed)} diverged" if check.now.failed else ""
    shown = check.worst.p_worse <= terms.alpha
    if check.verdict == "identical":
        return f"{name}: identical, to the bit, on {len(check.now)} seeds"
    if check.verdict == "worse":
        return f"{name} got worse: {_change(check.worst, check, 'loss')} ({seeds}{diverged})"
    if check.verdict == "better":
        though = f"; though a loss is shown: {_change(check.worst, check, 'loss')}"
        return (
            f"{name} is suspiciously better: {_change(check.best, check, 'gain')}{though * shown} "
            f"({seeds}); update the baseline if that is meant"
        )
    if check.verdict == "no worse":
        though = f", though a smaller one is shown: {_change(check.worst, check, 'loss')}"
        return f"{name} is no worse: a loss of {effect} is ruled out{though * shown} ({seeds})"
    return (
        f"{name} is undecided: a loss of {effect} is neither shown nor ruled out: "
        f"{_change(check.worst, check, 'change')} ({seeds}{diverged})"
        f"{shortfall(check.design, check.unit, terms)}"
    )


def _change(row: Row, check: Check, noun: Literal["loss", "gain", "change"]) -> str:
    places = decimals(row.difference, row.low, row.high)
    p = row.p_better if noun == "gain" else row.p_worse
    ends = f"[{row.low:+.{places}f}, {row.high:+.{places}f}]"
    return (
        f"{score_name(row.score)} {row.baseline:.{places}f} → {row.now:.{places}f}, "
        f"{row.difference:+.{places}f} {ends}, a {noun} of "
        f"{_percent(abs(row.difference) / check.unit)} of {_unit(check.terms)}, "
        f"p {'< .001' if p < 0.001 else f'= {p_text(p)}'}"
    )


def _share(loss: float, unit: float, terms: Terms) -> str:
    return f"{loss:.3g} ({_percent(loss / unit)} of {_unit(terms)})"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.095 else f"{100 * share:.1f}%"


def _unit(terms: Terms) -> str:
    return "what the baseline learns" if terms.unit is None else "its unit"


HEAD = [
    "curves",
    "score",
    "baseline",
    "now",
    "difference",
    "[95%]",
    "p (worse)",
    "seeds",
    "verdict",
]


def table(checks: Mapping[str, Check]) -> list[list[str]]:
    """Return rows of text under `HEAD`, one per score of each check."""
    lines = []
    for name, checked in checks.items():
        for place, row in enumerate(checked.rows):
            width = decimals(row.difference, row.low, row.high)
            lines.append(
                [
                    name if place == 0 else "",
                    score_name(row.score),
                    f"{row.baseline:.{width}f}",
                    f"{row.now:.{width}f}",
                    f"{row.difference:+.{width}f}" if row.difference else "0",
                    f"[{row.low:+.{width}f}, {row.high:+.{width}f}]" if row.high > row.low else "",
                    p_text(row.p_worse) if checked.verdict != "identical" else "",
                    f"{len(checked.now)} / {len(checked.baseline)}" if place == 0 else "",
                    checked.verdict if place == 0 else "",
                ]
            )
    return lines


def text(checks: Mapping[str, Check]) -> str:
    """Return a pipe table that also lines up in a terminal."""
    lines = [[markdown_text(cell) for cell in line] for line in table(checks)]
    return "\n".join(pipes(HEAD, lines, set(HEAD[2:7])))


def caption(checks: Sequence[Check]) -> str:
    """Return what the columns of the table are, and the error rate of all checks."""
    paired = any(checked.terms.paired for checked in checks)
    how = "paired by seed, with Student's" if paired else "unpaired, with Welch's"
    rates = any(row.exact for checked in checks for row in checked.rows)
    exact = ", of success rates (every run 0 or 1) the exact one" * rates
    alpha = sum(checked.terms.alpha for checked in checks)
    return (
        f"Means over seeds (now / baseline); differences {how} t interval{exact}; p from a "
        f"permutation test, corrected over the scores. The chance that any of these checks calls a "
        f"trainer worse in which nothing changed is at most {alpha:.2g}, on average over "
        f"baselines: the same baseline again and again alarms more often if its seeds did well by "
        f"chance, the more so the fewer it has."
    )


def lines(checks: Mapping[str, Check], alike: str) -> Iterator[str]:
    """Yield a line per check, then one where bits differ; alike: from `made_alike`."""
    for name, checked in checks.items():
        yield line(name, checked)
    for name, checked in checks.items():
        if checked.differs is not None:
            seed, step = checked.differs
            yield f"{name}: bits differ from step {step:,.0f} on (seed {seed}); {alike}"


def report(title: str, checks: Mapping[str, Check], alike: str, figure: Path) -> str:
    """Return the table, its caption and a line per check, for a terminal."""
    parts = ["", text(checks), "", caption(list(checks.values())), "", *lines(checks, alike)]
    return "\n".join([*parts, f"figure: {figure}"])


def markdown(title: str, checks: Mapping[str, Check], alike: str, figure: Path) -> str:
    """Return the same for a comment on a pull request."""
    bad = [name for name, checked in checks.items() if checked.verdict == "worse"]
    head = f"{len(bad)} of {len(checks)} got worse" if bad else "nothing got worse"
    listed = [f"- {line}" for line in lines(checks, alike)]
    parts = [f"### {title}: {head}", "", *listed, "", text(checks), ""]
    parts.append(caption(list(checks.values())))
    return "\n".join([*parts, "", f"Both curves: `{figure}`"])
