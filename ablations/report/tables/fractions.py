"""Effects of a fraction of a factorial: what each setting does, and what is aliased with what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ablations.core.verdict import Answer, Verdict, answer
from ablations.report.results import Once, Results
from ablations.report.scores import Scores, scores
from ablations.report.statistics import LEVEL, Comparison, Design, verdict
from ablations.report.statistics.fractions import (
    FEWEST_UNUSED,
    Alias,
    Contrast,
    Residual,
    aliases,
    fraction_effects,
    letters,
    resolution,
)
from ablations.report.tables.entries import (
    ALL_TASKS,
    Column,
    Sheet,
    Values,
    bounded,
    text_columns,
    with_ends,
)
from ablations.report.tables.factorial import factorial, factorial_scores, full_sheet, grounds_of
from ablations.report.tables.pairings import Finding, last_look, over_tasks
from ablations.report.units import Units, units_of_score

COLUMNS = (
    *("task", "kind", "key", "factor", "level"),
    *("n", "effect", "low", "high", "p", "p_adjusted", "verdict"),
    *(*with_ends("share"), "n_useful", "answer"),
)
LARGEST = 3  # interactions that are listed though their intervals hold 0
_ROMAN = {3: "III", 4: "IV", 5: "V", 6: "VI", 7: "VII", 8: "VIII"}


class Place(NamedTuple):
    """A task, or all tasks, with its effects.

    planned: seeds. diverged: how many runs did. unit: of which effects are counted in shares, None
    without one; effects over tasks are shares already. margin: in the units of the effects.
    judged: whether the metric is a score. unlearned: the baseline learned nothing.
    """

    task: str
    mains: list[Contrast]
    together: list[Contrast]
    residual: Residual
    planned: int
    diverged: int
    unit: float | None
    margin: float | None
    judged: bool
    unlearned: bool


def fraction_sheet(results: Results, design: Design, metric: str | None = None) -> Sheet:
    """List main effects and the larger interactions of a fraction, per task and over tasks.

    Only seeds that every setting has are used; a run that diverged counts as the worst score of
    its task.
    """
    plan = results.plan
    scored, learned = scores(results, metric=metric), units_of_score(results, metric)
    places = list(_places(results, design, scored, learned))
    names = letters(len(design.factors))
    shares = bool(learned.trivial)
    by_effect: dict[tuple[int, int], list[tuple[Comparison, Verdict]]] = {}
    rows: list[Values] = []
    for place in places:
        for contrast in (*place.mains, *_larger(place.together)):
            word = _word(contrast.comparison, place)
            of_tasks: Sequence[tuple[Comparison, Verdict]] = ()
            if isinstance(contrast.of, Alias):
                word = word.undirected
            elif place.task == ALL_TASKS:
                of_tasks = by_effect.get(contrast.of, ())
                each = [Finding.of(verdict_of_task, c) for c, verdict_of_task in of_tasks]
                signed = verdict(contrast.comparison, None)
                word = over_tasks(Finding.of(word, contrast.comparison), signed, each)
            else:
                by_effect.setdefault(contrast.of, []).append((contrast.comparison, word))
            rows.append(
                _row(place, contrast, word, [c for c, _ in of_tasks], design, names, shares)
            )
    return Sheet(
        plan.study.name,
        "effects",
        " ".join(_caption(results, design, scored.metric, places, names)),
        COLUMNS,
        tuple(rows),
        (
            *text_columns("task", "key", "factor", "level"),
            *bounded("effect", "effect", ("low", "high"), sign="+"),
            Column("p (adj.)", "p", ("p_adjusted",)),
            Column("answer", "answer", ("answer", *with_ends("share"), "n_useful"))
            if shares
            else Column("verdict", "text", ("verdict",)),
            Column("seeds", "count", ("n",)),
        ),
    )


def _places(results: Results, design: Design, scored: Scores, learned: Units) -> Iterator[Place]:
    plan, variants = results.plan, list(design.variants)
    counted = scored.with_diverged(learned.floors)
    for place, tasks, sizes, unit in grounds_of(plan, design, learned):
        seen, level = last_look(plan, counted, tasks, variants, LEVEL)
        y = factorial_scores(seen, design, tasks, sizes)
        of_tasks = [cell for task in tasks for v in variants for cell in scored.of(task, v)]
        yield Place(
            place,
            *fraction_effects(y, design, level),
            planned=len({cell.seed for cell in of_tasks}),
            diverged=sum(cell.diverged for cell in of_tasks),
            unit=unit,
            margin=None if unit is None else plan.study.margin * unit,
            judged=learned.judged,
            unlearned=bool(learned.trivial) and unit is None,
        )


def _larger(together: Sequence[Contrast]) -> list[Contrast]:
    """Return the interactions whose intervals exclude 0, and the `LARGEST`, from the largest on."""
    ordered = sorted(together, key=lambda contrast: -abs(contrast.comparison.difference or 0.0))
    known = [contrast for contrast in ordered if contrast.comparison.difference is not None]
    return [contrast for k, contrast in enumerate(known) if k < LARGEST or contrast.comparison.sign]


def _word(c: Comparison, place: Place) -> Verdict:
    if c.n == 0:
        return Verdict.NO_SEED_IS_COMPLETE
    if place.unlearned:
        return Verdict.NOTHING_LEARNED
    if c.low is None and c.n == 1:
        return Verdict.ONE_SEED
    word = verdict(c, place.margin)
    return word if place.judged else word.decided.undirected


def _row(
    place: Place,
    contrast: Contrast,
    word: Verdict,
    of_tasks: Sequence[Comparison],
    design: Design,
    names: Sequence[str],
    shares: bool,
) -> Values:
    c = contrast.comparison
    if isinstance(contrast.of, Alias):
        kind, key, level = "aliased", "", ""
        factor = _sum(contrast.of, names)
    else:
        which, value = contrast.of
        kind, key, factor = "main", names[which], list(design.factors)[which]
        level = design.factors[factor][value]
    share: tuple[float | None, float | None, float | None] = (None, None, None)
    in_answer: Answer | None = None
    if shares and place.unit and c.difference is not None:
        share = (c.difference / place.unit, None, None)
        if c.low is not None and c.high is not None:
            share = (c.difference / place.unit, c.low / place.unit, c.high / place.unit)
            ends = [(x.low, x.high) for x in of_tasks if x.low is not None and x.high is not None]
            in_answer = answer(*share, tasks=ends)
    # Seeds help where they are what the interval rests on.
    useful = None if place.residual.lacks_fit else c.n
    return (
        *(place.task, kind, key, factor, level, c.n, *c.bounds, c.p, c.p_adjusted, word),
        *(*share, useful, in_answer),
    )


def _sum(alias: Alias, names: Sequence[str]) -> str:
    """Write the interactions that an alias adds up, as "A\u00d7B + C\u00d7D"."""
    signed = zip(alias.pairs, alias.signs, strict=True)
    terms = (("+ ", "\u2212 ")[sign < 0] + f"{names[a]}\u00d7{names[b]}" for (a, b), sign in signed)
    return " ".join(terms).removeprefix("+ ")


def _caption(
    results: Results, design: Design, metric: str, places: Sequence[Place], names: Sequence[str]
) -> Iterator[str]:
    several = resolution(design)
    yield (
        f"Effects of what the variants set: {len(design.factors)} factors in "
        f"{len(design.variants)} settings, of resolution {_ROMAN.get(several, several)}. Main: "
        f"the mean {metric} of the settings with a level, minus that of those at the reference; "
        f"interactions of {several - 1} factors pass for a part of it."
    )
    groups = aliases(design)
    if groups is None:
        yield "Interactions of two are aliased in part, and none is listed."
    else:
        yield (
            "Interaction: what two changes do together beyond the sum of each, a sum over those "
            f"that are aliased ({len(groups)} such sums); listed are the {LARGEST} largest, and "
            "all whose interval excludes 0."
        )
    reference = ", ".join(
        f"{name} {factor} = {levels[0]}"
        for name, (factor, levels) in zip(names, design.factors.items(), strict=True)
    )
    yield f"Reference: {reference}."
    yield (
        "Seeds are blocks, and only those are used that every setting has "
        f"({_each(places, lambda p: f'{p.residual.seeds} of {p.planned}')})."
    )
    if any(place.diverged for place in places):
        yield (
            "A run that diverged counts as the worst score of its task "
            f"({_each(places, lambda p: f'{p.diverged} diverged')})."
        )
    yield (
        "The t intervals of a task, and those of all tasks, hold for all main effects at once with "
        "95%, and so do those of the interactions (Bonferroni"
        f"{', and for all planned looks at once' if results.plan.looks else ''}); p is adjusted "
        "alike. They rest on the larger of two variances of a setting's mean, of which the second "
        "holds interactions of three factors and more: between seeds, pooled over all contrasts; "
        "and of the settings about main effects and interactions of two. Here it is "
        f"{_each(places, _rests_on)}. An effect that differs more between seeds has its own."
    )
    if groups is not None and len(groups) < len(design.factors) * (len(design.factors) - 1) / 2:
        yield f"Aliased: {'; '.join(_sum(group, names) for group in groups)}."
    if any(place.task == ALL_TASKS for place in places):
        yield "All tasks: in what was learned, a mean over tasks."


def _each(places: Sequence[Place], text: Callable[[Place], str]) -> str:
    """Write a text of each place, once where all are equal."""
    texts = {place.task: text(place) for place in places}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{task}: {text}" for task, text in texts.items())


def _rests_on(place: Place) -> str:
    residual = place.residual
    if residual.variance != residual.variance:
        return (
            "unknown, with one seed and fewer than "
            f"{FEWEST_UNUSED} contrasts to spare, so that there is no interval"
            if residual.seeds
            else "unknown, without a seed"
        )
    if residual.lacks_fit:
        return f"the second, with {residual.freedom:.0f} degrees of freedom"
    unfit = (
        ""
        if residual.unused >= FEWEST_UNUSED
        else f", as {residual.unused} contrasts tell no second"
    )
    return f"the first, with {residual.freedom:.0f} degrees of freedom{unfit}"


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
