"""Find each variant's best value of a setting on each task, on seeds of its own: `ablations tune`.

Every variant gets the same values on a task. Where the best of one of them stands at an edge, the
values of that task go on beyond it for all of its variants, until no best does. The cells are those
that `ablations run STUDY --set SETTING=VALUE` would run; they lie in a results folder of their own,
results/tuning, so that nothing is computed twice and no table finds them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ablations.errors import UserError
from ablations.records import read_curve, read_record, write_atomically
from ablations.report.scores import final
from ablations.request import Request
from ablations.studies import Study, study
from ablations.studies.tuned import OfTask, Scores, Tuned, Tuning
from ablations.sweep.cell import Cell, cells_of, distinct
from ablations.sweep.local import Processes
from ablations.sweep.order import Keeping
from ablations.sweep.plan import plan
from ablations.sweep.prepare import clear_the_way, require_writable

RULE = (
    "the highest mean over the seeds of the mean metric over the last tenth of training; of equal "
    "ones the smallest; a value at which a seed failed is never chosen"
)
MOST_EXTENSIONS = 6  # of a task's values, beyond those that the study names


def tune(
    name: str,
    results: Path,
    *,
    tasks: Sequence[str] | None = None,
    variants: Sequence[str] | None = None,
    output: Path | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> Tuned:
    """Run the missing cells of tuning; write the file, and return its content.

    Args:
        name: of the study.
        results: the results folder.
        tasks: to tune again; the others stay as they are in the file.
        variants: likewise.
        output: the file, where it is not the study's own.
        workers: processes; None: one per core.
        quiet: print nothing.

    Raises:
        UserError: the study tunes nothing, a task's best stays at the edge, or all values of a
            variant fail.
    """
    asked = study(name)
    tuning = asked.tuning
    if tuning is None:
        raise UserError(f"study '{name}' has nothing to tune: give it a Tuning")
    file = output or tuning.file
    profile = asked.profiles[tuning.profile]
    tasks = tuple(tasks or profile.tasks)
    variants = tuple(variants or profile.variants or asked.variants)
    before = tuning.read() if file == tuning.file else {}
    scores, chosen = dict(before.get("scores", {})), dict(before.get("chosen", {}))
    processors: set[str] = set()
    # All tasks at once, so that their programs compile side by side; what is added comes after.
    whole = [_cells(asked, tuning, task, variants, tuning.grid) for task in tasks]
    _run([cell for cells in whole for _, cell in cells], name, results, workers, quiet)
    for task in tasks:

        def measure(values: Sequence[float], task: str = task) -> OfTask:
            cells = _cells(asked, tuning, task, variants, values)
            _run([cell for _, cell in cells], name, results, workers, quiet)
            return _scores(cells, asked.metric, results, processors)[task]

        found = _widened(tuning.grid, measure)
        scores[task] = {**scores.get(task, {}), **found}
        chosen[task] = {
            **chosen.get(task, {}),
            **{variant: best(of_values) for variant, of_values in found.items()},
        }
    about: Tuned = {
        "study": name,
        "setting": tuning.setting,
        "metric": asked.metric,
        "rule": RULE,
        "seeds": list(tuning.seeds),
        "command": f"ablations tune {name}",
        "machine": sorted(processors | set(before.get("machine", ()))),
        "chosen": chosen,
        "scores": scores,
    }
    write_atomically(file, _text(about))
    return about


def best(of_values: Mapping[str, Sequence[float | None]]) -> float:
    """Return the best value by `RULE`.

    Raises:
        UserError: every value failed.
    """
    means = {
        float(value): sum(x for x in seeds if x is not None) / len(seeds)
        for value, seeds in of_values.items()
        if None not in seeds
    }
    if not means:
        raise UserError("every value of a variant failed: tune over smaller ones")
    return min(means, key=lambda value: (-means[value], value))


def _widened(
    grid: Sequence[float],
    measure: Callable[[Sequence[float]], OfTask],
) -> OfTask:
    """Return the scores at values of which no variant's best is at the edge.

    Raises:
        UserError: there are none after `MOST_EXTENSIONS`.
    """
    values, extended = list(grid), 0
    while True:
        found = measure(values)
        bests = {best(of_values) for of_values in found.values()}
        lower, higher = values[0] in bests, values[-1] in bests
        if not (lower or higher):
            return found
        if extended == MOST_EXTENSIONS:
            raise UserError(
                f"the best of some variant is still at the edge of {values[0]:g} to "
                f"{values[-1]:g}: is there anything to tune?"
            )
        extended += 1
        if lower:
            values.insert(0, next_value(*values[:3]))
        if higher:
            values.append(next_value(*values[:-4:-1]))


def next_value(edge: float, inner: float, third: float) -> float:
    """Return the value beyond an edge of an even grid: 3e-3 after 1e-3, 3e-4 and 1e-4."""
    return float(f"{inner * edge / third:.3g}")


def _cells(
    asked: Study, tuning: Tuning, task: str, variants: Sequence[str], values: Sequence[float]
) -> list[tuple[float, Cell]]:
    return [
        (value, cell)
        for value in values
        for cell in cells_of(
            plan(
                Request(
                    asked.name,
                    tuning.profile,
                    tasks=(task,),
                    variants=tuple(variants),
                    seeds=tuning.seeds,
                    set={tuning.setting: value},
                )
            )
        )
    ]


def _run(cells: Sequence[Cell], name: str, results: Path, workers: int | None, quiet: bool) -> None:
    kept = results / "tuning"
    require_writable(kept)
    work = clear_the_way(distinct(cells), kept, say=lambda line: print(line, file=sys.stderr))
    executor = Processes(workers, keeping=Keeping(snapshots=0), quiet=quiet, output=sys.stderr)
    executor.carry_out(work, kept, f"tuning of {name}")


def _scores(
    cells: Sequence[tuple[float, Cell]], metric: str, results: Path, processors: set[str]
) -> Scores:
    found: Scores = {}
    for value, cell in cells:
        record = read_record(results / "tuning", cell.hash)
        assert record is not None
        processors.add(str(record.provenance.get("processor", "unknown")))
        score = None
        if record.status == "done":
            curve = read_curve(results / "tuning", record)
            numbers = (np.array(curve[name], np.float64) for name in ("step", metric))
            score = round(final(*numbers), 4)
        of_variant = found.setdefault(cell.task, {}).setdefault(cell.variant, {})
        of_variant.setdefault(f"{value:g}", []).append(score)
    return found


def _text(about: Tuned) -> str:
    """Encode as JSON with a line for the scores of each value."""
    text = json.dumps({**about, "scores": None}, indent=1)
    lines = [
        f'  "{task}": {{\n'
        + ",\n".join(
            f'   "{variant}": {{\n'
            + ",\n".join(f'    "{value}": {json.dumps(seeds)}' for value, seeds in values.items())
            + "\n   }"
            for variant, values in variants.items()
        )
        + "\n  }"
        for task, variants in about["scores"].items()
    ]
    return text.replace('"scores": null', '"scores": {\n' + ",\n".join(lines) + "\n }") + "\n"


def table(about: Tuned) -> str:
    """Return a Markdown table of each variant's mean score at each value, the chosen one in bold.

    Beside it the score at the one value that is best for all, and how far the score falls within a
    step of the best.
    """
    seeds = about["seeds"]
    lines = [
        f"{about['study']}: {about['metric']} by {about['setting']}, mean over seeds {seeds[0]} to "
        f"{seeds[-1]}, which no other table reports. Bold: {about['rule']}. common: at the value "
        "that is best for the mean of all variants. step: the mean loss at the two values beside "
        f"the best. Made by `{about['command']}` on {', '.join(about['machine'])}.",
        "",
    ]
    for task, variants in about["scores"].items():
        means = {
            variant: {float(value): _mean(scores) for value, scores in values.items()}
            for variant, values in variants.items()
        }
        values = sorted(next(iter(means.values())))
        common = max(values, key=lambda value: sum(one[value] for one in means.values()))
        lines.append(f"| {task} | " + " | ".join(f"{v:g}" for v in values) + " | common | step |")
        lines.append("|---|" + "---:|" * (len(values) + 2))
        for variant, of_values in means.items():
            top = about["chosen"][task][variant]
            beside = [values[i] for i in _beside(values.index(top), len(values))]
            fall = of_values[top] - sum(of_values[v] for v in beside) / len(beside)
            cells = [
                f"**{of_values[v]:.3f}**" if v == top else f"{of_values[v]:.3f}" for v in values
            ]
            lines.append(
                f"| {variant} | {' | '.join(cells)} | {of_values[common]:.3f} ({common:g}) | "
                f"{fall:.3f} |"
            )
        lines.append("")
    return "\n".join(lines)


def _mean(scores: Sequence[float | None]) -> float:
    """Return the mean score; a failure counts as nothing learned."""
    return sum(x or 0.0 for x in scores) / len(scores)


def _beside(index: int, count: int) -> list[int]:
    return [i for i in (index - 1, index + 1) if 0 <= i < count]
