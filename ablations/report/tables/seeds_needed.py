"""Seeds needed: at how many the comparisons of a study decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ablations.records import Plan
from ablations.report.scores import Scores
from ablations.report.statistics import seeds_for_effect
from ablations.report.tables.comparison import table
from ablations.report.tables.entries import ALL_TASKS, Sheet, Shown, Table

EFFECTS_IN_MARGINS = {1: "margin", 2: "2 margins", 4: "4 margins"}


def power_sheet(plan: Plan, results: Path, found: Scores) -> Sheet | None:
    """Seeds at which the comparisons of a study decide, from the variance seen."""
    made: Table = table(plan, results, metric=found.metric)
    compared = [row for row in made.rows if row.deviation and row.margin]
    if not compared:
        return None
    rows: list[tuple[Any, ...]] = []
    for row in compared:
        assert row.deviation is not None
        assert row.margin is not None
        family = sum(one.task == ALL_TASKS for one in compared)
        if row.task != ALL_TASKS:
            family = len(compared) - family
        same = seeds_for_effect(0.0, row.deviation, row.margin, family)
        seeds = [
            seeds_for_effect(k * row.margin, row.deviation, None, family)
            for k in EFFECTS_IN_MARGINS
        ]
        rows.append((row.task, row.variant, row.n_pairs, row.deviation, row.margin, same, *seeds))
    return Sheet(
        plan.study["name"],
        "power",
        "Seeds needed, from the standard deviation of the paired differences seen here: to call "
        "variants equivalent that do not differ at all, and to find a difference of one, two or "
        "four margins, each with 80% chance (paired t-test, Bonferroni over the study's "
        "comparisons, which is the strictest that Holm asks).",
        (
            "task",
            "variant",
            "n_pairs",
            "deviation",
            "margin",
            "seeds_equivalent",
            *tuple(f"seeds_{k}_margins" for k in EFFECTS_IN_MARGINS),
        ),
        tuple(rows),
        (
            Shown("task", "text", ("task",)),
            Shown("variant", "text", ("variant",)),
            Shown("sd", "scaled", ("deviation", "margin")),
            Shown("margin", "scaled", ("margin", "margin")),
            Shown("no difference", "seeds needed", ("seeds_equivalent",)),
            *(
                Shown(head, "seeds needed", (f"seeds_{k}_margins",))
                for k, head in EFFECTS_IN_MARGINS.items()
            ),
            Shown("seeds now", "count", ("n_pairs",)),
        ),
    )
