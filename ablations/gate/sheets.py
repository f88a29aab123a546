"""Tables of a gate's looks and of a ledger's candidates."""

from __future__ import annotations

from ablations.gate.ledger import Ledger
from ablations.gate.question import Verdict
from ablations.report.tables.entries import Column, Sheet, bounded, text_columns, with_ends


def looks_sheet(verdict: Verdict) -> Sheet:
    """Describe the looks of a gate: the difference, its interval, and what it decided."""
    rows = [
        (
            *(look.seeds, look.pairs, look.difference, look.low, look.high),
            *(None if look.chance is None else 100 * look.chance, look.word),
        )
        for look in verdict.looks
    ]
    margin = "" if verdict.margin is None else f"; margin {verdict.margin:.4g} ({verdict.of})"
    return Sheet(
        "looks",
        "looks",
        f"{verdict.metric}, change minus baseline{margin}. The intervals hold at all looks at "
        f"once; chance: that a later look still passes a change that is worth it.",
        ("seeds", "pairs", "difference", "low", "high", "chance", "verdict"),
        tuple(rows),
        (
            Column("seeds", "count", ("seeds",)),
            *bounded("difference", "difference", ("low", "high"), inside="interval"),
            Column("chance, %", "fixed", ("chance",)),
            *text_columns("verdict"),
        ),
    )


def ledger_sheet(ledger: Ledger) -> Sheet:
    """Describe every candidate of a ledger, its rate, and what it was found to gain."""
    terms = ledger.opening.terms
    rows = []
    for number, each in enumerate(ledger.candidates, 1):
        ended = each.ended
        word: str = ended.verdict if ended else "open"
        if ended and ended.accepted:
            word = "withdrawn" if each.withdrawn else "accepted"
        decided, fresh = (
            (e.difference, e.low, e.high, e.seeds) if e else (None,) * 4
            for e in (ended.found if ended else None, each.fresh)
        )
        against = str(each.begun.best or "the first")
        percent = 100 * each.begun.rate
        rows.append(
            (str(number), each.begun.candidate.called, against, percent, word, *decided, *fresh)
        )
    left = max(0, terms.candidates - len(ledger.candidates))
    return Sheet(
        "ledger",
        "ledger",
        f"Of the accepted, at most {100 * terms.rate:g}% are false on average, over "
        f"{terms.candidates} candidates, of which {left} are left; the best is "
        f"{ledger.version(ledger.best).called}. rate: of a false accept, of this candidate. fresh: "
        f"the gain on seeds that no decision has seen (95%); the difference that an accepted one "
        f"was picked by is too large on average.",
        (
            *("candidate", "change", "against", "rate", "verdict"),
            *("difference", "low", "high", "seeds"),
            *(*with_ends("fresh"), "fresh_seeds"),
        ),
        tuple(rows),
        (
            *text_columns("candidate", "change", "against"),
            Column("rate, %", "fixed", ("rate",), places=2),
            *text_columns("verdict"),
            *bounded("difference", "difference", ("low", "high"), inside="[of the looks]"),
            Column("seeds", "count", ("seeds",)),
            *bounded("fresh", "fresh", inside="[95%]"),
        ),
    )
