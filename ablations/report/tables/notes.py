"""The caption and the notes of a table. No wall-clock, path or date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from ablations.core.verdict import MARGIN, SEEN, Verdict
from ablations.errors import shortened
from ablations.records import Plan
from ablations.report.scores import EVALUATION, LAST, Cell, Scores, step_unit
from ablations.report.statistics import FEWEST, most_differing
from ablations.report.tables.entries import ALL_TASKS, Entry
from ablations.report.tables.pairings import Finding, given_more
from ablations.report.tables.success_rates import all_successes, success_sentence
from ablations.report.trivial import STUDY as TRIVIAL
from ablations.report.trivial import command
from ablations.report.units import LEAD, Units, settings_of

_MOST_LINES = 12


def caption(plan: Plan, scored: Scores, learned: Units, rows: Sequence[Entry]) -> str:
    """Write study, claim, seeds, steps, score, interval, test and margin in sentences."""
    study = plan.study
    window = {
        "final": "over the last 10% of training",
        "auc": "over all of training (AUC)",
        "last": f"of the last {LAST} evaluations",
        "mean": "of all evaluations",
    }
    beyond = bool(learned.trivial)
    exact = all_successes(scored, learned, {row.task for row in rows})
    intervals = "exact" if exact else _interval(scored)
    tests = "McNemar's tests" if exact else "paired t-tests"
    parts = [
        _sentence(study.title) + (f" Claim: {_sentence(study.claim)}" if study.claim else ""),
        f"Source: {_sentence(study.claim_source)}" if study.claim_source else "",
        f"Score: mean {scored.metric} {window[scored.score]}; {steps(plan)}.",
        f"Mean over {_seeds(plan, scored)} with its 95% interval ({intervals}).",
        *_tuned(plan),
        *_differences(plan, rows, exact=exact),
        *([] if exact else _regressed(plan, scored)),
        *success_sentence(scored, learned, plan.tasks),
    ]
    if not learned.judged:
        parts.append(f"{scored.metric} is no score: no margin, no better or worse.")
        return " ".join(part for part in parts if part)
    if any(row.margin is not None and row.task != ALL_TASKS for row in rows):
        parts.append(_margin(plan, rows, beyond=beyond))
        parts.append(
            _ANSWERS
            if beyond
            else "Where the interval lies decides the word. equivalent: within the margin; better, "
            "worse: beyond it; by an undecided amount: 0 is outside, the margin inside; undecided: "
            "else, with the range of seeds that would decide at 80% power."
        )
    else:
        parts.append(
            "There is no margin, so only the sign is judged; undecided: 0 is in the interval."
        )
    parts.append(
        "Bold: highest mean among the variants that fail least; \u2020: not significantly below "
        f"any of them ({tests} of all pairs, 5% shared by Bonferroni, per task)."
    )
    if any(row.task == ALL_TASKS for row in rows):
        parts.append(
            "All tasks: scores are normalised, 0 is the better policy that learns nothing and 1 "
            "the baseline; differences in that unit, averaged over tasks."
            if beyond
            else "All tasks: scores are normalised, 0 where the learning of what a variant is "
            "compared with began and 1 where it got to; differences in that unit, averaged over "
            "tasks; equivalent only where every task is (intersection-union)."
        )
    return " ".join(part for part in parts if part)


_ANSWERS = (
    "The answer is where the interval lies, in % of the unit. Yes: 0 is outside, and the estimate "
    f"is {100 * MARGIN:g}% or more, else it is small; No: 0 is inside, and all within "
    f"{100 * MARGIN:g}%; Not seen: within {100 * SEEN:g}%; Cannot tell: beyond; It depends: tasks "
    "lie on both sides of 0."
)


def _regressed(plan: Plan, scored: Scores) -> Iterator[str]:
    """Write how differences are estimated where the baseline has more seeds than its variants."""
    if given_more(plan, plan.study.baseline):
        counts = Counter(cell.variant for cell in scored.cells if cell.task in list(plan.tasks)[:1])
        most = counts.pop(plan.study.baseline)
        yield (
            f"{plan.study.baseline} has {most} seeds and its variants {_span(counts.values())}: "
            "differences to it are adjusted by the regression on its score, whose mean is that of "
            "all of its seeds (Cochran 1977, 12.6)."
        )


def _span(counts: Collection[int]) -> str:
    return str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _tuned(plan: Plan) -> Iterator[str]:
    """Write the values that were tuned for each variant, of one that all tasks share once."""
    if not (tuned := plan.study.tuned):
        return
    each = []
    for variant, values in tuned.values.items():
        by_value: dict[float, list[str]] = {}
        for task, value in values.items():
            by_value.setdefault(value, []).append(task)
        shown = " and ".join(
            f"{value:g}" + ("" if len(by_value) == 1 else f" on {', '.join(where)}")
            for value, where in by_value.items()
        )
        each.append(f"{variant} {shown}")
    yield (
        f"{tuned.setting} is each variant's best on the task, tuned on seeds "
        f"{_ranges(tuned.seeds)}: {'; '.join(each)}."
    )


def _differences(plan: Plan, rows: Sequence[Entry], *, exact: bool) -> Iterator[str]:
    """Write what the intervals of the differences promise, by their levels."""
    levels_over: dict[bool, set[float]] = {}
    for row in rows:
        if row.level is not None and row.n_pairs:
            levels_over.setdefault(row.task == ALL_TASKS, set()).add(row.level)
    if not levels_over:
        return
    yield "Differences: mean over seeds of variant minus baseline, paired by seed."
    if plan.looks:
        numbers = ", ".join(map(str, plan.looks.seeds))
        yield (
            f"Seeds were added at planned looks ({numbers} seeds) to what was still undecided; a "
            "verdict rests on the pairs of the look that decided."
        )
    share = {True: "all tasks", False: "the tasks" if True in levels_over else ""}
    each = "; ".join(
        " to ".join(
            dict.fromkeys(f"{100 * (1 - level):.4g}%" for level in (max(levels), min(levels)))
        )
        + " each"
        + (f" on {share[over]}" if share[over] else "")
        for over, levels in sorted(levels_over.items())
    )
    how = "Bonferroni, and by Lan and DeMets over the looks" if plan.looks else "Bonferroni"
    limit = (
        ""
        if exact
        else " where returns vary alike, and up to 12% at 8 seeds where variants collapse now and "
        "then and their baseline does not"
    )
    yield (
        f"Their joint {'' if exact else 't '}intervals hold for all comparisons of this table at "
        f"once with 95% ({each}: {how}), so the chance of any false word about a difference, "
        f"equivalent included, is at most 5%{limit}; p is adjusted alike."
    )


def _margin(plan: Plan, rows: Sequence[Entry], *, beyond: bool) -> str:
    margin = plan.study.margin
    if plan.study.margin_in_metric:
        return f"Margin: {margin:g}, in units of the metric."
    shares = []
    for task in plan.tasks:
        margins = sorted(
            {f"{row.margin:.3g}" for row in rows if row.task == task and row.margin}, key=float
        )
        if margins:
            shares.append(
                f"{task} {margins[0]}" + (f" to {margins[-1]}" if len(margins) > 1 else "")
            )
    if beyond:
        sizes = {row.task: row.unit for row in rows if row.unit is not None}
        units = "; ".join(f"{task} {float(f'{size:.3g}'):,g}" for task, size in sizes.items())
        return (
            f"Unit: what the baseline learned beyond the better policy that learns nothing "
            f"({units}). Margin: {100 * margin:g}% of it ({'; '.join(shares)})."
        )
    return (
        f"Margin: {100 * margin:g}% of what the baseline learned, from the lowest to the highest "
        f"point of its smoothed mean curve ({'; '.join(shares)})."
    )


def notes(plan: Plan, scored: Scores, learned: Units, rows: Sequence[Entry]) -> Iterator[str]:
    """Write what a reader must know of the cells behind the numbers, one line each."""
    lacking = sorted({row.baseline for row in rows if row.baseline} - set(plan.variants))
    for name in lacking:
        yield f"baseline {name} is not part of this run: nothing is compared with it"
    yield from _shortened(list(_other_settings(plan, rows)))
    yield from _units(plan, learned, rows)
    yield from _no_trivial(plan, scored, learned)
    yield from _shortened(list(_ties(rows)))
    yield from _disagreements(rows)
    if len(plan.seeds) == 1:
        yield "one seed: no interval and no test; a difference may be chance"
    elif len(plan.seeds) < 5 and not all_successes(scored, learned, {r.task for r in rows}):
        yield (
            f"{len(plan.seeds)} seeds: the intervals rest on scores being normal; where they are "
            "skewed or bimodal they cover 80 to 95%"
            + ("; an IQM of fewer than 4 seeds is their mean" if len(plan.seeds) < 4 else "")
        )
    total = len(scored.cells)
    missing = [cell for cell in scored.cells if cell.status == "missing"]
    if missing:
        yield (
            f"incomplete: {len(missing)} of {total} cells have not run; pairs use "
            + ("the looks that are complete" if plan.looks else "seeds that both have")
        )
        yield from _shortened([f"not run: {place}" for place in _places(missing)])
    failed = [cell for cell in scored.cells if cell.status == "failed"]
    if failed:
        yield (
            f"{len(failed)} of {total} cells failed; they count in no mean, and their seed in no "
            "pair, so a variant that fails looks better than it is: one that fails more often than "
            "its baseline is called unstable, never better or equivalent, and neither "
            "best nor tied with it; one whose baseline "
            "fails more often is never called worse or equivalent"
        )
        yield from _shortened([_failure(cell) for cell in failed])
    empty = [cell for cell in scored.cells if cell.status == "empty"]
    if empty:
        why = (
            f"fewer than {LAST} values of {scored.metric}, where the score is the mean of the last "
            f"{LAST}: too few evaluations, or no episode finished"
            if scored.score == "last"
            else f"no value of {scored.metric} in that window (no episode finished)"
        )
        yield f"{len(empty)} of {total} cells have {why}"
        yield from _shortened([f"no value: {place}" for place in _places(empty)])
    yield from _versions(scored)
    yield from scored.edited


def _no_trivial(plan: Plan, scored: Scores, learned: Units) -> Iterator[str]:
    """Write how policies that learn nothing are evaluated, where units could be counted from them.

    That is where the study judges returns of evaluations.
    """
    judged = scored.metric == plan.study.metric == f"{EVALUATION}return"
    if not judged or not learned.judged or learned.trivial or plan.study.margin_in_metric:
        return
    if plan.study.name != TRIVIAL and (line := command(plan)) is not None:
        yield (
            "policies that learn nothing have not been evaluated on all of these tasks, so the "
            f"unit is the range of the baseline's curve; in seconds: {line}"
        )


def _units(plan: Plan, learned: Units, rows: Sequence[Entry]) -> Iterator[str]:
    """Write where there is no margin, and what the averages over tasks leave out for it."""
    if not learned.judged or len(plan.seeds) < 2:
        return
    level = [place for place, unit in learned.by_source.items() if unit is None]
    over = any(row.task == ALL_TASKS for row in rows)
    lines = []
    for task, source in level:
        if learned.trivial and any(row.task == task and row.variant == source for row in rows):
            lines.append(
                f"{task}: {source} is less than {LEAD:g} standard deviations between seeds above "
                "policies that learn nothing: nothing was learned, and nothing is said of variants"
                + ("; all tasks leave it out" if over else "")
            )
            continue
        if any(row.task == task and row.variant == source and row.n > 1 for row in rows):
            lines.append(
                f"{task}: what {source} learned does not stand out of the noise, so there is no "
                "margin and only the sign of a difference is judged"
                + ("; all tasks leave it out and are never equivalent" if over else "")
            )
    yield from _shortened(lines)


def _other_settings(plan: Plan, rows: Sequence[Entry]) -> Iterator[str]:
    """Write what is compared across settings of a task, whose scores need not have one unit."""
    for row in rows:
        if row.baseline is None or row.baseline not in plan.variants or row.task == ALL_TASKS:
            continue
        if settings_of(plan, row.task, row.variant) != settings_of(plan, row.task, row.baseline):
            yield (
                f"{row.task}: {row.variant} and {row.baseline} have different settings of the "
                "task, so their difference may be the task's, and neither is ranked with the other"
            )


def _ties(rows: Sequence[Entry]) -> Iterator[str]:
    """Write which pairs are equal without their curves being so, as at a ceiling."""
    for row in rows:
        if row.deviation == 0 and row.n_pairs and row.difference_low is None:
            where = f"{row.task}, {row.variant}"
            if row.difference:
                yield f"{where}: the difference is the same on all {row.n_pairs} seeds"
                continue
            share = 100 * most_differing(row.n_pairs)
            yield (
                f"{where}: all {row.n_pairs} pairs are equal, though the curves are not: at most "
                f"{share:.0f}% of seeds differ (95%), by how much is open"
            )


def _disagreements(rows: Sequence[Entry]) -> Iterator[str]:
    for average in rows:
        if average.verdict is not Verdict.TASKS_DISAGREE:
            continue
        sides: dict[int, list[str]] = {1: [], -1: []}
        for row in rows:
            if row.verdict and row.variant == average.variant and row.task != ALL_TASKS:
                sign = Finding.of(row.verdict, row.comparison).sign
                sides.setdefault(sign, []).append(row.task)
        above, below = (sides[sign] or ["average"] for sign in (1, -1))
        yield (
            f"tasks disagree on {average.variant}: better on {', '.join(above)}, worse on "
            f"{', '.join(below)}; their average hides it"
        )


def _failure(cell: Cell) -> str:
    reason = (cell.reason or "").strip().partition("\n")[0]
    step = "" if cell.failed_step is None else f" at step {cell.failed_step:,}"
    return f"failed: {cell.task}, {cell.variant}, seed {cell.seed}{step}" + (
        f": {reason}" if reason else ""
    )


def _places(cells: Sequence[Cell]) -> list[str]:
    """Return a line per task and variant, with the seeds."""
    seeds: dict[tuple[str, str], list[int]] = {}
    for cell in cells:
        seeds.setdefault((cell.task, cell.variant), []).append(cell.seed)
    return [
        f"{task}, {variant}, seed{'s' * (len(of) > 1)} {_ranges(of)}"
        for (task, variant), of in seeds.items()
    ]


def _shortened(lines: Sequence[str]) -> list[str]:
    return shortened(lines, _MOST_LINES, "and {} more such lines")


def _versions(scored: Scores) -> Iterator[str]:
    """Write which records were made by other package versions than most."""
    if len(scored.versions) < 2:
        return
    usual, _ = scored.versions[0]
    for other, count in scored.versions[1:]:
        differing = [
            f"{name} {other.get(name, 'unknown')} (the most: {usual.get(name, 'unknown')})"
            for name in sorted(set(usual) | set(other))
            if usual.get(name) != other.get(name)
        ]
        text = ", ".join(differing)
        yield f"{count} of {len(scored.cells)} cells were made with other versions: {text}"


def _seeds(plan: Plan, scored: Scores) -> str:
    seeds = plan.seeds
    counts = Counter((cell.task, cell.variant) for cell in scored.cells).values()
    many = (
        f"{min(counts)} to {len(seeds)}"
        if plan.looks and min(counts) < len(seeds)
        else f"{len(seeds)}"
    )
    return f"{many} paired seed{'s' * (len(seeds) != 1)} ({_ranges(seeds)})"


def _ranges(numbers: Sequence[int]) -> str:
    """Write whole numbers as ranges: 0, 1, 2, 5 as "0-2, 5"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def steps(plan: Plan) -> str:
    """Write the length of the runs, in the trainer's own steps."""
    unit = step_unit(plan)
    counts = {task: about.steps for task, about in plan.tasks.items()}
    if not any(counts.values()):
        return "each run to its own end"
    if len(set(counts.values())) == 1:
        return f"{next(iter(counts.values())):,} {unit}" + " per task" * (len(counts) > 1)
    return f"{unit}: " + ", ".join(f"{task} {n:,}" for task, n in counts.items())


def _interval(scored: Scores) -> str:
    """Name the intervals of scores, which depend on the number of runs."""
    done = Counter((c.task, c.variant) for c in scored.cells if c.status == "done")
    kinds = {n < FEWEST["mean"] for n in done.values() if n > 1} or {False}
    names = {False: "bootstrap, Student levels", True: "Student's t"}
    if len(kinds) == 1:
        return names[kinds.pop()]
    return f"{names[False]}; of fewer than {FEWEST['mean']} runs {names[True]}"


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if text.endswith((".", "?", "!")) else f"{text}."
