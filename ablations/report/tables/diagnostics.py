"""The table of what training recorded beside the score."""

from __future__ import annotations

from ablations.report.results import Results
from ablations.report.scores import diagnostic_scores
from ablations.report.statistics import judge
from ablations.report.tables.entries import Column, Sheet, Values, text_columns, with_ends

TRAINING = (
    "policy/clip_fraction",
    "value/clip_fraction",
    "value/explained_variance",
    "policy/effective_sample_size",
    "policy/approximate_kl",
    "policy/ratio_mean",
    "policy/ratio_max",
)


def diagnostics_sheet(results: Results, metric: str | None = None) -> Sheet | None:
    """List means over training of what the runs of a plan recorded; None before any has.

    metric: not read; a sheet of another kind has one.
    """
    plan, scored = results.plan, diagnostic_scores(results, TRAINING, "auc")
    rows: list[Values] = []
    for task in plan.tasks:
        for variant in plan.variants:
            means = {
                name: judge(list(of.by_seed(task, variant).values())) for name, of in scored.items()
            }
            seeds = max((mean.n for mean in means.values()), default=0)
            if seeds:
                rows.append(
                    (task, variant, seeds, *(x for mean in means.values() for x in mean.bounds))
                )
    if not rows:
        return None
    names = list(scored)
    return Sheet(
        plan.study.name,
        "diagnostics",
        "Means over training of what the runs recorded per gradient step, over seeds. "
        "clip_fraction: share of samples whose ratio, or value, was clipped. "
        "effective_sample_size: share of the batch. approximate_kl: mean of (r - 1) - log r over "
        "ratios r.",
        ("task", "variant", "n", *(column for name in names for column in with_ends(name))),
        tuple(rows),
        (
            *text_columns("task", "variant"),
            *(Column(name, "fixed", (name,), places=4) for name in names),
            Column("seeds", "count", ("n",)),
        ),
    )
