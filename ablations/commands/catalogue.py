"""The command `list`: studies, tasks, presets, components, trainers and runs."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ablations import plugins, presets, studies, tasks, trainers
from ablations.core.decode import Json
from ablations.engine.stored import stored_runs
from ablations.errors import count, printable, unknown
from ablations.parameters import Folder
from ablations.presets import Preset
from ablations.studies import Study
from ablations.trainers import TrainerSpec

if TYPE_CHECKING:
    from variants import Axis, Number

Lines = Callable[[Any], Iterable[str]]
# Other names of the kinds.
OTHER_WORDS = {
    **dict.fromkeys(("envs", "environments", "env"), "tasks"),
    **dict.fromkeys(("algorithms", "algos"), "trainers"),
    **dict.fromkeys(("settings", "hyperparameters", "choices", "axes"), "components"),
    "libraries": "presets",
    "results": "runs",
}
MOST_VARIANTS = 6  # of a study that are named


def listed(
    kind: str = "studies",
    /,
    *,
    format: Literal["text", "json"] = "text",
    results: Folder = "results",
) -> str:
    """List studies, tasks, presets, components, trainers or runs.

    Args:
        kind: studies (default), tasks, presets, components, trainers or runs.
        format: text or json.
        results: The results folder; default: results.
    """
    kind = OTHER_WORDS.get(kind, kind)
    if kind == "runs":
        runs = _runs(Path(results))
        return _json(runs) if format == "json" else _run_lines(runs, results)
    plugins.load()
    things, lines, data = _kind(kind)
    if format == "json":
        return _json({name: data(thing) for name, thing in things.items()})
    return "\n".join(f"{name}: " + "\n    ".join(lines(thing)) for name, thing in things.items())


def _json(value: Json) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _kind(kind: str) -> tuple[Mapping[str, Any], Lines, Callable[[Any], Json]]:
    """Return everything of one kind by name, and the functions that describe one of them."""
    import variants as registry

    kinds: dict[str, tuple[Callable[[], Mapping[str, Any]], Lines, Callable[[Any], Json]]] = {
        "components": (registry.axes, _axis, _axis_data),
        "presets": (presets.presets, lambda preset: [preset.library], _preset_data),
        "studies": (studies.studies, _study, _study_data),
        "tasks": (tasks.tasks, lambda task: [task.summary], _data),
        "trainers": (trainers.trainers, _trainer, _trainer_data),
    }
    if kind not in kinds:
        raise unknown("kind", kind, [*kinds, "runs"])
    things, lines, data = kinds[kind]
    return things(), lines, data


def _axis(axis: Axis) -> Iterator[str]:
    yield axis.summary
    yield from (f"{choice.name:<20} {choice.summary}" for choice in axis.values())


def _study(study: Study) -> Iterator[str]:
    few = list(study.variants)[:MOST_VARIANTS]
    more = len(study.variants) - len(few)
    yield study.title
    yield f"variants  {', '.join(few)}{f' and {more} more' if more else ''}"
    for name, profile in study.profiles.items():
        yield f"{name:<9} {len(profile.every_seed())} seeds on {', '.join(profile.tasks)}"


def _trainer(trainer: TrainerSpec) -> Iterator[str]:
    yield trainer.summary
    for name, number in trainer.known_numbers().items():
        yield f"{name}={range_text(number)}: {number.summary}"
    for name, option in trainer.structure.items():
        yield f"{name}={option.default}: {option.summary}"


def range_text(number: Number) -> str:
    """Write a number's default and its range."""
    return f"{number.default:g} ({number.low:g} to {number.high:g})"


def _data(thing: Any) -> Json:
    """Return a declaration as JSON, without its functions."""
    if dataclasses.is_dataclass(thing):
        thing = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    if isinstance(thing, Mapping):
        return {str(name): _data(value) for name, value in thing.items() if not callable(value)}
    if isinstance(thing, tuple | list):
        return [_data(value) for value in thing]
    return thing if isinstance(thing, str | int | float | None) else str(thing)


def _study_data(study: Study) -> Json:
    about = {"title": study.title, "claim": study.claim, "baseline": study.baseline}
    return _data({**about, "variants": list(study.variants), "profiles": study.profiles})


def _axis_data(axis: Axis) -> Json:
    names = ("summary", "formula", "source", "revision", "numbers")
    choices = {choice.name: {n: getattr(choice, n) for n in names} for choice in axis.values()}
    return _data({"summary": axis.summary, "choices": choices})


def _preset_data(preset: Preset) -> Json:
    about = {"summary": preset.library, "trainer": preset.trainer, "in_words": preset.in_words}
    discrete = preset.discrete and _preset_data(preset.discrete)
    return _data({**about, "settings": preset.read(), "discrete": discrete})


def _trainer_data(trainer: TrainerSpec) -> Json:
    about = {"summary": trainer.summary, "axes": trainer.axes, "structure": trainer.structure}
    return _data({**about, "numbers": trainer.known_numbers()})


def _runs(results: Path) -> list[dict[str, Json]]:
    """Return every plan that is stored, the newest first, with the command that ran it."""
    return [
        {
            "study": run.plan.study.name,
            "command": run.command,
            "when": time.strftime("%Y-%m-%d %H:%M", time.localtime(run.when)),
            "cells": len(run.plan.cells),
            "done": run.done,
            "last": run.last,
        }
        for run in stored_runs(results)
    ]


def _run_lines(runs: Sequence[Mapping[str, Any]], results: str | Path) -> str:
    lines = []
    for run in runs:
        done = f"{run['done']:,} of {count(run['cells'], 'run')}"
        last = "last" if run["last"] else ""
        lines.append(f"{run['when']}  {done:<20} {last:<5}{run['command']}")
    return printable("\n".join(lines) or f"nothing has run in '{results}'")
