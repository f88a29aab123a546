"""Effects of a factorial study, or of a fraction of one."""

from __future__ import annotations

from ablations.core.verdict import Verdict
from ablations.report.results import Once, Results
from ablations.report.tables.entries import Sheet
from ablations.report.tables.factorial import factorial, full_sheet
from ablations.report.tables.fractions import fraction_sheet


@Once
def effects_sheet(results: Results, metric: str | None = None) -> Sheet | None:
    """List main effects and interactions of two; None of a study that is no factorial."""
    design = factorial(results.plan)
    if design is None:
        return None
    listed = full_sheet if design.full else fraction_sheet
    return listed(results, design, metric)


def effects_in_words(sheet: Sheet) -> str:
    """Write "reacher: torso = shared is better; 14 equivalent", task by task."""
    tasks: dict[str, dict[Verdict, list[str]]] = {}
    for row in sheet.records():
        if row["kind"] == "aliased":
            continue
        words = tasks.setdefault(row["task"], {})
        words.setdefault(row["verdict"], []).append(f"{row['factor']} = {row['level']}")
    sentences = []
    for task, words in tasks.items():
        named = [
            f"{', '.join(levels)} {'is' if len(levels) == 1 else 'are'} {word}"
            for word, levels in words.items()
            if word.sign
        ]
        counted = [f"{len(levels)} {word}" for word, levels in words.items() if not word.sign]
        sentences.append(f"{task}: " + "; ".join(named + counted))
    return ". ".join(sentences)
