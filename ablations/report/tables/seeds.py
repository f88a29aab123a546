"""Seeds needed: at how many the comparisons of a study decide."""

from __future__ import annotations

from ablations.report.results import Results
from ablations.report.statistics.power import deviations, seeds_for
from ablations.report.tables.comparison import table
from ablations.report.tables.entries import Column, Sheet, Values, text_columns

# Effects in margins -> the names of their columns, and their heads.
_EFFECTS = {
    0: ("seeds_equivalent", "no difference"),
    1: ("seeds_1_margins", "margin"),
    2: ("seeds_2_margins", "2 margins"),
    4: ("seeds_4_margins", "4 margins"),
}


def power_sheet(results: Results, metric: str | None = None) -> Sheet | None:
    """List the seeds at which the comparisons of a study decide, from the variance seen."""
    comparison = table(results, metric=metric)
    compared = [row for row in comparison.rows if row.deviation and row.margin and row.level]
    if not compared:
        return None
    rows: list[Values] = []
    for row in compared:
        seen, margin = row.comparison, row.margin or 0.0
        spreads = deviations(seen.n, seen.deviation or 0.0, 0.1)
        ends = [seeds_for(k * margin, x, margin, seen.level) for k in _EFFECTS for x in spreads]
        rows.append((row.task, row.variant, row.n_pairs, row.deviation, margin, *ends))
    return Sheet(
        comparison.study,
        "power",
        "Seeds needed to decide with 80% chance, where a variant does not differ at all, or by "
        "one, two or four margins: its interval excludes 0 or lies within the margin, at the level "
        "that the study's table uses. Ranges: the 90% interval of the standard deviation of the "
        "paired differences, which is estimated from the seeds there are.",
        (
            *("task", "variant", "n_pairs", "deviation", "margin"),
            *(f"{name}{end}" for name, _ in _EFFECTS.values() for end in ("_low", "_high")),
        ),
        tuple(rows),
        (
            *text_columns("task", "variant"),
            Column("sd", "scaled", ("deviation", "margin")),
            Column("margin", "scaled", ("margin", "margin")),
            *(
                Column(head, "seeds needed", (f"{name}_low", f"{name}_high"))
                for name, head in _EFFECTS.values()
            ),
            Column("seeds now", "count", ("n_pairs",)),
        ),
    )
