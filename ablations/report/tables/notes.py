"""What stands around a table: its caption and its notes. No wall-clock, path or date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ablations.records import Plan
from ablations.report.scores import Cell, Scores

_MOST_LINES = 12


def caption(plan: Plan, found: Scores, judged: bool) -> str:
    """Study, claim, seeds, steps, score, statistic, interval, test and margin, in sentences."""
    study = plan.study
    window = {"final": "over the last 10% of training", "auc": "over all of training (AUC)"}
    parts = [
        f"{_sentence(study['title'])} Claim: {_sentence(study['claim'])}",
        f"Source: {_sentence(study['claim_source'])}" if study.get("claim_source") else "",
        f"Score: mean {found.metric} {window[found.score]}; {_steps(plan)}.",
        f"IQM over {_seeds(plan.seeds)} with its 95% interval ({_interval(found)}).",
        "Differences: mean over seeds of variant minus baseline, paired by seed, 95% t interval; "
        "p: paired t-test, Holm-adjusted over the study's comparisons.",
    ]
    if judged:
        shares = "; ".join(
            f"{task} {study['margin'] * about['score_unit']:.3g}"
            for task, about in plan.tasks.items()
            if about["score_unit"] is not None
        )
        parts += [
            f"Margin: {100 * study['margin']:g}% of the task's score unit ({shares})."
            if shares
            else "No score unit is stated, so there is no margin and nothing is called equivalent.",
            "better, worse: adjusted p < .05 and not equivalent; equivalent: the 95% interval of "
            "the difference lies within the margin (TOST at 2.5%); undecided: neither, with the "
            "seeds that would decide at 80% power.",
            "Bold: highest IQM; †: not significantly below it.",
        ]
        if len(plan.tasks) > 1 and shares:
            parts.append(
                "All tasks: mean over tasks of the IQMs of normalised scores, and of difference / "
                "score unit; a Holm family of its own."
            )
    else:
        parts.append(f"{found.metric} is no score: no margin, no better or worse.")
    return " ".join(part for part in parts if part)


def notes(plan: Plan, found: Scores, baselines: Mapping[str, str | None]) -> Iterator[str]:
    """What a reader must know of the cells behind the numbers, one line each."""
    lacking = sorted({b for b in baselines.values() if b is not None and b not in plan.variants})
    for name in lacking:
        yield f"baseline {name} is not part of this run: nothing is compared with it"
    if len(plan.seeds) == 1:
        yield "one seed: no interval and no test; a difference may be chance"
    elif len(plan.seeds) < 5:
        yield (
            f"{len(plan.seeds)} seeds: the intervals rest on scores being normal; where they are "
            "skewed or bimodal they cover 80 to 95%"
            + ("; an IQM of fewer than 4 seeds is their mean" if len(plan.seeds) < 4 else "")
        )
    total = len(found.cells)
    missing = [cell for cell in found.cells if cell.status == "missing"]
    if missing:
        yield (
            f"incomplete: {len(missing)} of {total} cells have not run; "
            "pairs use seeds that both have"
        )
        yield from _shortened([f"not run: {place}" for place in _places(missing)])
    failed = [cell for cell in found.cells if cell.status == "failed"]
    if failed:
        yield (
            f"{len(failed)} of {total} cells failed; they count in no mean, and their seed in no "
            "pair, so a variant that fails looks better than it is: one that fails more often than "
            "its baseline is called unstable, never better or equivalent, and one whose baseline "
            "fails more often is never called worse or equivalent"
        )
        yield from _shortened([_failure(cell) for cell in failed])
    empty = [cell for cell in found.cells if cell.status == "empty"]
    if empty:
        yield (
            f"{len(empty)} of {total} cells have no value of {found.metric} in that window "
            "(no episode finished)"
        )
        yield from _shortened([f"no value: {place}" for place in _places(empty)])
    yield from _versions(found)


def _failure(cell: Cell) -> str:
    reason = (cell.reason or "").strip().partition("\n")[0]
    step = "" if cell.failed_step is None else f" at step {cell.failed_step:,}"
    return f"failed: {cell.task}, {cell.variant}, seed {cell.seed}{step}" + (
        f": {reason}" if reason else ""
    )


def _places(cells: Sequence[Cell]) -> list[str]:
    """One line per task and variant, with the seeds."""
    seeds: dict[tuple[str, str], list[int]] = {}
    for cell in cells:
        seeds.setdefault((cell.task, cell.variant), []).append(cell.seed)
    return [
        f"{task}, {variant}, seed{'s' * (len(of) > 1)} {_ranges(of)}"
        for (task, variant), of in seeds.items()
    ]


def _shortened(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"and {len(lines) - _MOST_LINES} more such lines"


def _versions(found: Scores) -> Iterator[str]:
    """Records made by other package versions than most."""
    if len(found.versions) < 2:
        return
    usual, _ = found.versions[0]
    for other, count in found.versions[1:]:
        differing = [
            f"{name} {other.get(name, 'unknown')} (the most: {usual.get(name, 'unknown')})"
            for name in sorted(set(usual) | set(other))
            if usual.get(name) != other.get(name)
        ]
        text = ", ".join(differing)
        yield f"{count} of {len(found.cells)} cells were made with other versions: {text}"


def _seeds(seeds: Sequence[int]) -> str:
    return f"{len(seeds)} paired seed{'s' * (len(seeds) != 1)} ({_ranges(seeds)})"


def _ranges(numbers: Sequence[int]) -> str:
    """0, 1, 2, 5 -> "0-2, 5"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _steps(plan: Plan) -> str:
    steps = {task: about["steps"] for task, about in plan.tasks.items()}
    if len(set(steps.values())) == 1:
        return f"{next(iter(steps.values())):,} environment steps" + " per task" * (len(steps) > 1)
    return "environment steps: " + ", ".join(f"{task} {n:,}" for task, n in steps.items())


def _interval(found: Scores) -> str:
    """How the intervals of IQMs were made, which depends on how many runs there are."""
    done = Counter((c.task, c.variant) for c in found.cells if c.status == "done")
    kinds = {n < 5 for n in done.values() if n > 1} or {False}
    names = {False: "bootstrap, Student levels", True: "Student's t"}
    if len(kinds) == 1:
        return names[kinds.pop()]
    return f"{names[False]}; of fewer than 5 runs {names[True]}"


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if text.endswith((".", "?", "!")) else f"{text}."
