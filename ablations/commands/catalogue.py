"""The command `list`: studies, tasks, presets, components, trainers and runs."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations import plugins, presets, studies, tasks, trainers
from ablations.engine.stored import StoredRun, command_of, stored_runs
from ablations.errors import count, printable, unknown
from ablations.parameters import Folder
from ablations.records import digest
from ablations.request import Request
from ablations.studies import Study
from ablations.trainers import TrainerSpec

if TYPE_CHECKING:
    from variants import Axis, Number

# Other names of the kinds.
OTHER_WORDS = {
    **dict.fromkeys(("envs", "environments", "env"), "tasks"),
    **dict.fromkeys(("algorithms", "algos"), "trainers"),
    **dict.fromkeys(("settings", "hyperparameters", "choices", "axes"), "components"),
    "libraries": "presets",
    "results": "runs",
}
WIDTH = 80


def listed(kind: str = "studies", /, *, results: Folder = "results") -> str:
    """List studies, tasks, presets, components, trainers or runs.

    Args:
        kind: studies (default), tasks, presets, components, trainers or runs.
        results: The results folder; default: results.
    """
    kind = OTHER_WORDS.get(kind, kind)
    if kind == "runs":
        lines = [_run_line(run) for run in stored_runs(Path(results))]
        return printable("\n".join(lines) or f"nothing has run in '{results}'")
    plugins.load()
    if kind == "studies":
        archive = Path(results) / "archive"
        return "\n".join(_study(study, archive) for study in studies.studies().values())
    import variants as registry

    kinds: dict[str, tuple[Callable[[], Mapping[str, Any]], Callable[[Any], Iterable[str]]]] = {
        "components": (registry.axes, _axis),
        "presets": (presets.presets, lambda preset: [preset.library]),
        "tasks": (tasks.tasks, lambda task: [task.summary]),
        "trainers": (trainers.trainers, _trainer),
    }
    if kind not in kinds:
        raise unknown("kind", kind, [*kinds, "studies", "runs"])
    things, lines_of = kinds[kind]
    return "\n".join(
        f"{name}: " + "\n    ".join(lines_of(thing)) for name, thing in things().items()
    )


def _axis(axis: Axis) -> Iterator[str]:
    yield axis.summary
    yield from (f"{choice.name:<20} {choice.summary}" for choice in axis.values())


def _study(study: Study, archive: Path) -> str:
    """Return a line with the profiles that are archived."""
    plans = {digest(Request(study.name, profile=name).flags()): name for name in study.profiles}
    files = archive.glob(f"{study.name}-*.parquet")
    there = {plans.get(path.stem.rpartition("-")[2], "others") for path in files}
    archived = f" (archived: {', '.join(sorted(there))})" if there else ""
    title = f"{study.name}: {study.title}"
    return textwrap.shorten(title, WIDTH - len(archived), placeholder=" ...") + archived


def _trainer(trainer: TrainerSpec) -> Iterator[str]:
    yield trainer.summary
    for name, number in trainer.known_numbers().items():
        yield f"{name}={range_text(number)}: {number.summary}"
    for name, option in trainer.structure.items():
        yield f"{name}={option.default}: {option.summary}"


def range_text(number: Number) -> str:
    """Write a number's default and its range."""
    return f"{number.default:g} ({number.low:g} to {number.high:g})"


def _run_line(run: StoredRun) -> str:
    """Describe a plan that is stored, with the command that ran it."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.when))
    done = f"{run.done:,} of {count(len(run.plan.cells), 'run')}"
    return f"{when}  {done:<20} {'last' if run.last else '':<5}{command_of(run.plan)}"
