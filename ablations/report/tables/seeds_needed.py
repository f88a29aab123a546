"""Seeds needed: at how many the comparisons of a study decide."""

from __future__ import annotations

from ablations.report.results import Results
from ablations.report.statistics import seeds_range
from ablations.report.tables.comparison import table
from ablations.report.tables.entries import Column, Sheet, Values, text_columns

# Effects in margins -> the names of their columns.
EFFECTS = {
    0: "seeds_equivalent",
    1: "seeds_1_margins",
    2: "seeds_2_margins",
    4: "seeds_4_margins",
}


def seeds_columns() -> tuple[Column, ...]:
    """Return the printed columns of the seeds that each effect needs."""
    heads = ("no difference", "margin", "2 margins", "4 margins")
    return tuple(
        Column(head, "seeds needed", (f"{name}_low", f"{name}_high"))
        for head, name in zip(heads, EFFECTS.values(), strict=True)
    )


def power_sheet(results: Results, metric: str | None = None) -> Sheet | None:
    """List the seeds at which the comparisons of a study decide, from the variance seen."""
    comparison = table(results, metric=metric)
    compared = [row for row in comparison.rows if row.deviation and row.margin and row.level]
    if not compared:
        return None
    rows: list[Values] = []
    for row in compared:
        seen, margin = row.comparison, row.margin or 0.0
        deviation = seen.deviation or 0.0
        seeds = [seeds_range(k * margin, deviation, seen.n, margin, seen.level) for k in EFFECTS]
        ends = [end for each in seeds for end in (each.low, each.high)]
        rows.append((row.task, row.variant, row.n_pairs, row.deviation, margin, *ends))
    return Sheet(
        comparison.study,
        "power",
        "Seeds needed to decide with 80% chance, where a variant does not differ at all, or by "
        "one, two or four margins: its interval excludes 0 or lies within the margin, at the level "
        "that the study's table uses. Ranges: the 90% interval of the standard deviation of the "
        "paired differences, which is estimated from the seeds there are.",
        (
            "task",
            "variant",
            "n_pairs",
            "deviation",
            "margin",
            *(f"{name}{end}" for name in EFFECTS.values() for end in ("_low", "_high")),
        ),
        tuple(rows),
        (
            *text_columns("task", "variant"),
            Column("sd", "scaled", ("deviation", "margin")),
            Column("margin", "scaled", ("margin", "margin")),
            *seeds_columns(),
            Column("seeds now", "count", ("n_pairs",)),
        ),
    )
