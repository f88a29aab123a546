"""Verdicts on claims in words, from those of their comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from ablations.core.verdict import Verdict
from ablations.errors import listed
from ablations.report.claims.found import Judged, Part
from ablations.report.formats.numbers import seeds_range_text

Stand = Literal[
    "holds", "no difference", "opposite", "differs", "amount", "undecided", "unstable", "not run"
]  # fmt: skip

_SAID: dict[Stand, str] = {
    "holds": "holds",
    "no difference": "no difference that matters",
    "opposite": "the opposite",
    "differs": "differs",
    "amount": "differs, by an undecided amount",
    "undecided": "undecided",
    "unstable": "runs fail",
    "not run": Verdict.NOT_RUN_YET,
}
_AGAINST: tuple[Stand, ...] = ("no difference", "opposite", "differs")
_FEW = 4  # places that a sentence names
_PAST = 1e-6  # of a margin, so as to be past a bound


def stand(word: Verdict, direction: str) -> Stand:
    """Return what a comparison says of a sentence of that direction.

    An interval on the wanted side of 0 makes "higher" and "lower" hold, whether or not the margin
    is inside. "none" holds, and "differs" fails, only where the interval is within the margin;
    where it excludes 0 and contains the margin there is a difference, and whether it matters is
    open: "amount".
    """
    if word is Verdict.NOT_RUN_YET:
        return "not run"
    if word.unstable:
        return "unstable"
    if not word.sign and not word.same:
        return "undecided"
    if direction in ("higher", "lower"):
        if word.same:
            return "no difference"
        return "holds" if word.sign == (1 if direction == "higher" else -1) else "opposite"
    if word.amount_undecided:
        return "amount"
    if direction == "none":
        return "holds" if word.same else "differs"
    return "no difference" if word.same else "holds"


def stands(judged: Judged) -> list[Stand]:
    """Return what each part says."""
    return [stand(part.word, judged.claim.direction) for part in judged.parts]


def tasks_disagree(parts: Iterable[Part]) -> bool:
    """Return whether intervals of one comparison lie above 0 on a task and below on another."""
    signs: dict[str, set[int]] = {}
    for part in parts:
        signs.setdefault(part.label, set()).add(part.sign)
    return any({1, -1} <= of for of in signs.values())


def verdict(judged: Judged) -> str:
    """Write a claim's verdict in a few words, for a table or a figure."""
    standings = stands(judged)
    ran = [each for each in standings if each != "not run"]
    if not ran:
        return Verdict.NOT_RUN_YET
    text = _verdict(ran, judged)
    if len(ran) < len(standings):
        text = f"so far: {text}"
    return text + ("; tasks disagree" if tasks_disagree(judged.parts) else "")


def _verdict(ran: Sequence[Stand], judged: Judged) -> str:
    kinds = set(ran)
    if kinds == {"holds"}:
        all_open = all(part.word.amount_undecided for part in judged.parts if part.ran)
        return "holds, by an undecided amount" if all_open else "holds"
    if len(kinds) == 1:
        return _SAID[ran[0]]
    if kinds <= {*_AGAINST}:
        return "fails"
    against = sum(each in _AGAINST for each in ran)
    if "holds" in kinds:
        text = f"holds on {ran.count('holds')} of {len(ran)}"
        return f"{text}, fails on {against}" if against else text
    return f"fails on {against} of {len(ran)}" if against else "undecided"


def sentence(judged: Judged) -> str:
    """Write the verdict with its places.

    On which tasks it holds, on which not, and what seeds would decide the rest.
    """
    groups: dict[tuple[str, Stand], list[Part]] = {}
    for part, each in zip(judged.parts, stands(judged), strict=True):
        groups.setdefault((_phrase(part, each), each), []).append(part)
    phrases = [
        phrase
        + _places(parts, judged)
        + (_would_decide(parts) if each in ("undecided", "amount") else "")
        for (phrase, each), parts in groups.items()
    ]
    text = "; ".join(phrases)
    if tasks_disagree(judged.parts):
        certain = [part for part in judged.parts if part.sign]
        what = "interval" if all(part.low is not None for part in certain) else "difference"
        text += f"; tasks disagree: one {what} lies above 0 and another below"
    return text[0].upper() + text[1:] + "."


def _phrase(part: Part, each: Stand) -> str:
    text = _SAID[each]
    if each == "not run":
        return text if not part.n else f"{text} ({part.n} of {part.planned} seeds)"
    if part.word is Verdict.NOTHING_LEARNED:
        return "cannot be judged, as nothing was learned,"
    if each == "amount":
        return f"{text} ({part.word.decided})"
    if each in ("undecided", "no difference") or part.word.same:
        return text
    return f"{text} ({part.word})"


def _would_decide(parts: Sequence[Part]) -> str:
    """Write the least and the most of the seeds that would decide some comparisons."""
    needed = [part.needed for part in parts if part.needed is not None]
    if not needed:
        return ""
    lows = [of.low for of in needed if of.low is not None]
    highs = [of.high for of in needed if of.high is not None]
    most = max(highs) if len(highs) == len(needed) else None
    seeds = seeds_range_text(min(lows, default=None), most) or "more than 10,000"
    return f" ({seeds} seeds would decide)"


def _places(parts: Sequence[Part], judged: Judged) -> str:
    if len(parts) == len(judged.parts) and len(parts) > 1:
        return (
            f" on all {len(parts)}" if not parts[0].label else f" in all {len(parts)} comparisons"
        )
    if len(parts) > _FEW:
        return f" in {len(parts)} of {len(judged.parts)} comparisons"
    named = [f"{part.label} on {part.task}" if part.label else part.task for part in parts]
    return f" {'for' if parts[0].label else 'on'} {listed(named)}"


def turning(judged: Judged) -> str:
    """Write what would change the verdict on a claim that ran."""
    standings = stands(judged)
    changes = []
    if "not run" in standings:
        changes.append("the runs that are missing")
    if "undecided" in standings or "amount" in standings:
        changes.append("more seeds, where it is undecided")
    changes += _other_margins(judged)
    if not changes:
        same = all(part.word is Verdict.IDENTICAL for part in judged.parts)
        changes.append("nothing: curves are identical" if same else "runs that do not fail")
    text = "; ".join(changes)
    return text[0].upper() + text[1:] + "."


def _other_margins(judged: Judged) -> Iterator[str]:
    """Write the nearest smaller and the nearest larger margin with another verdict.

    Nothing where runs failed, which has a part in the verdict.
    """
    if any(part.n < part.planned for part in judged.parts):
        return
    bounds = {abs(x) for p in judged.parts for x in (p.effect_low, p.effect_high) if x is not None}
    smaller = sorted((x for x in bounds if 0 < x <= 1), reverse=True)
    larger = sorted(x for x in bounds if x > 1)
    for side, within, past in (("below", smaller, 1 - _PAST), ("above", larger, 1 + _PAST)):
        for bound in within:
            parts = tuple(_word_at(part, bound * past) for part in judged.parts)
            there = verdict(replace(judged, parts=parts))
            if there != verdict(judged):
                yield f'a margin just {side} {_margin_text(judged, bound)}: it would be "{there}"'
                break


def _word_at(part: Part, times: float) -> Part:
    """Return a comparison as it would be, had its margin been so many times as large."""
    low, high = part.effect_low, part.effect_high
    if low is None or high is None:
        return part
    if -times <= low and high <= times:
        return replace(part, word=Verdict.EQUIVALENT)
    if low <= 0 <= high:
        return replace(part, word=Verdict.UNDECIDED)
    word = Verdict.HIGHER_UNDECIDED if low > 0 else Verdict.LOWER_UNDECIDED
    beyond = min(abs(low), abs(high)) > times
    return replace(part, word=word.decided if beyond else word)


def _margin_text(judged: Judged, times: float) -> str:
    margin = judged.claim.margin
    if judged.claim.statistic == "spread":
        return f"a ratio of {margin**times:.2f}"
    if judged.claim.metric.endswith("accuracy"):
        return f"{margin * times:.3f}"
    percent = 100 * margin * times
    return f"{percent:.{1 if percent >= 0.1 else 3}f}% of what was learned"
