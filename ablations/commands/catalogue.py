"""The command `list`: studies, tasks, presets, components, trainers and runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ablations import plugins, presets, studies, tasks, trainers
from ablations.core.decode import Json
from ablations.engine.stored import stored_runs
from ablations.errors import count, printable, unknown
from ablations.parameters import Folder
from ablations.presets import Preset
from ablations.studies import Profile, Study
from ablations.tasks import Task
from ablations.trainers import Option, TrainerSpec

if TYPE_CHECKING:
    from variants import Axis, Choice, Number

Data = Mapping[str, Json]
# Other names of the kinds.
OTHER_WORDS = {
    **dict.fromkeys(("envs", "environments", "env"), "tasks"),
    **dict.fromkeys(("algorithms", "algos"), "trainers"),
    **dict.fromkeys(("settings", "hyperparameters", "choices", "axes"), "components"),
    "libraries": "presets",
    "results": "runs",
}
MOST_VARIANTS = 6  # of a study that are named


class Described(NamedTuple):
    """Description of a thing: in a line, in lines below it, and as data."""

    summary: str
    lines: tuple[str, ...]
    data: Data


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
    if OTHER_WORDS.get(kind, kind) == "runs":
        if format == "json":
            return _json(_runs_as_data(Path(results)))
        return "\n".join(_run_lines(Path(results)))
    plugins.load()
    described = catalogue(kind)
    if format == "json":
        return _json({name: each.data for name, each in described.items()})
    return "\n".join(
        "\n    ".join((f"{name}: {each.summary}", *each.lines)) for name, each in described.items()
    )


def _json(value: Json) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def catalogue(kind: str) -> dict[str, Described]:
    """Return everything of one kind by name. Raise UserError for another kind."""
    import variants as registry

    kinds: dict[str, tuple[Callable[[], Mapping[str, object]], Callable[..., Described]]] = {
        "components": (registry.axes, _axis),
        "presets": (presets.presets, _preset),
        "studies": (studies.studies, _study),
        "tasks": (tasks.tasks, _task),
        "trainers": (trainers.trainers, _trainer),
    }
    kind = OTHER_WORDS.get(kind, kind)
    if kind not in kinds:
        raise unknown("kind", kind, [*kinds, "runs"])
    things, described = kinds[kind]
    return {name: described(thing) for name, thing in things().items()}


def _axis(axis: Axis) -> Described:
    choices = {
        choice.name: _fields(choice, "summary", "formula", "source", "revision")
        | {"numbers": _numbers(choice.numbers)}
        for choice in axis.values()
    }
    data: Data = {"summary": axis.summary, "choices": choices}
    return Described(axis.summary, tuple(_axis_lines(axis)), data)


def _axis_lines(axis: Axis) -> Iterator[str]:
    meanings: dict[str, str] = {}
    for choice in axis.values():
        yield f"{choice.name:<20} {choice.summary}"
        if choice.numbers:
            read = (f"{name}={range_text(of)}" for name, of in choice.numbers.items())
            yield f"    reads {', '.join(read)}"
        meanings |= {name: number.summary for name, number in choice.numbers.items()}
    yield from (f"{name + ':':<20} {meaning}" for name, meaning in meanings.items())


def _preset(preset: Preset) -> Described:
    read = preset.read()
    data: dict[str, Json] = {
        "summary": preset.library,
        "trainer": preset.trainer,
        "settings": {name: {"value": one, "read_from": file} for name, (one, file) in read.items()},
        "in_words": list(preset.in_words),
    }
    line = f"{len(read)} settings of {preset.trainer}: `show {preset.name}`"
    if preset.discrete is not None:
        data["discrete"] = _preset(preset.discrete).data
    return Described(preset.library, (line,), data)


def _study(study: Study) -> Described:
    few = list(study.variants)[:MOST_VARIANTS]
    more = len(study.variants) - len(few)
    lines = [f"variants  {', '.join(few)}{f' and {more} more' if more else ''}"]
    lines += (
        f"{name:<9} {len(profile.every_seed())} seeds on {', '.join(profile.tasks)}"
        for name, profile in study.profiles.items()
    )
    data = {
        **_fields(study, "title", "claim", "baseline"),
        "variants": list(study.variants),
        "profiles": {
            name: {"tasks": list(profile.tasks), **_fields(profile, "seeds", "steps")}
            for name, profile in study.profiles.items()
        },
    }
    return Described(study.title, tuple(lines), data)


def _task(task: Task) -> Described:
    data = {
        "summary": task.summary,
        "settings": dict(task.settings),
        "hyperparameters": {name: dict(of) for name, of in task.hyperparameters.items()},
        **_fields(task, "source", "steps", "discrete", "image", "revision"),
    }
    line = f"settings  {', '.join(f'{name}={value}' for name, value in task.settings.items())}"
    return Described(task.summary, (line, *([task.form] if task.form else [])), data)


def _trainer(trainer: TrainerSpec) -> Described:
    numbers = trainer.known_numbers()
    lines = [f"{name}={range_text(number)}: {number.summary}" for name, number in numbers.items()]
    lines += (f"{n}={each.default}: {each.summary}" for n, each in trainer.structure.items())
    data: Data = {
        "summary": trainer.summary,
        "axes": dict(trainer.axes),
        "numbers": _numbers(numbers),
        "structure": {
            name: _fields(option, "default", "allowed", "summary")
            for name, option in trainer.structure.items()
        },
    }
    return Described(trainer.summary, tuple(lines), data)


def _fields(thing: Choice | Study | Profile | Task | Option, *names: str) -> dict[str, Json]:
    return {name: getattr(thing, name) for name in names}


def _numbers(numbers: Mapping[str, Number]) -> dict[str, Data]:
    return {
        name: {"default": of.default, "from": of.low, "to": of.high, "summary": of.summary}
        for name, of in numbers.items()
    }


def range_text(number: Number) -> str:
    """Write a number's default and its range."""
    return f"{number.default:g} ({number.low:g} to {number.high:g})"


def _run_lines(results: Path) -> Iterator[str]:
    """Describe every plan that is stored, the newest first, with the command that ran it."""
    runs = stored_runs(results)
    if not runs:
        yield f"nothing has run in '{results}'"
    for run in runs:
        done = f"{run.done:,} of {count(len(run.plan.cells), 'run')}"
        yield printable(
            f"{_time(run.when)}  {done:<20} {'last' if run.last else '':<5}{run.command}"
        )


def _runs_as_data(results: Path) -> list[dict[str, Json]]:
    """Return every plan that is stored, as `_run_lines` has them."""
    return [
        {
            "study": run.plan.study.name,
            "command": run.command,
            "when": _time(run.when),
            "cells": len(run.plan.cells),
            "done": run.done,
            "last": run.last,
        }
        for run in stored_runs(results)
    ]


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
