"""The commands `list` and `show`: what there is; a study, a variant, a cell with its formulas."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.cli.arguments import (
    add_command,
    add_selection,
    load_installed_plugins,
    selection,
)
from ablations.core.record import Configuration, settings_read
from ablations.errors import UserError, printable, unknown
from ablations.records import Plan, Record, read_record
from ablations.request import Request, Selection

if TYPE_CHECKING:
    from ablations.studies import Study


Entry = Mapping[str, Any]


def add_commands(commands: Any) -> None:
    """Add the commands `list` and `show`."""
    command = add_command(commands, "list", _list, "what there is", reads_records="none")
    command.add_argument(
        "kind", nargs="?", default="studies", help="axes, presets, runs, studies, tasks, trainers"
    )
    command.add_argument("--json", action="store_true")

    summary = "the resolved configuration: formulas, numbers, differences"
    command = add_command(commands, "show", _show, summary, reads_records="none")
    command.add_argument("name", metavar="STUDY|VARIANT|CELL|PRESET|SETTING")
    command.add_argument(
        "--against", metavar="PRESET", help="of a preset: what differs from another"
    )
    add_selection(command)


def _list(options: argparse.Namespace) -> None:
    if options.kind == "runs":
        from ablations.cli.history import run_lines, runs_as_data

        if options.json:
            print(json.dumps(runs_as_data(options.results), indent=1))
        else:
            print("\n".join(run_lines(options.results)))
        return
    load_installed_plugins()
    entries = _catalogue(options.kind)
    if options.json:
        print(json.dumps(entries, indent=1, ensure_ascii=False))
        return
    for name, entry in entries.items():
        print(f"{name}: {entry.get('title') or entry['summary']}")
        for line in _lines(options.kind, name, entry):
            print(f"    {line}")


def _show(options: argparse.Namespace) -> None:
    load_installed_plugins()
    from ablations.presets import presets
    from ablations.studies import studies
    from ablations.sweep.backends.command import study_file

    name, brought = study_file.named(options.name)
    if options.against:
        lines = [*_against(name, options.against)]
    elif name in presets():
        lines = [*_preset(name)]
    else:
        lines = [] if brought else _setting(name)
        if not lines or name in studies():
            lines = [*show(name, options.results, selection(options), brought), "", *lines]
    print(printable("\n".join(lines).rstrip()))


def _setting(name: str) -> list[str]:
    """Return what there is to say of a setting; nothing of another name, or without a trainer."""
    from ablations.trainers.field_names import FIELD_NAMES

    setting = FIELD_NAMES.get(name, name)
    if setting not in _setting_names():
        return []
    from ablations.cli.describe_setting import setting_lines

    return [*setting_lines(setting)]


def _setting_names() -> list[str]:
    """Return the names of all settings; none where what trains is not installed."""
    with contextlib.suppress(ModuleNotFoundError):
        from ablations.cli.describe_setting import setting_names

        return setting_names()
    return []


def _catalogue(kind: str) -> dict[str, Entry]:
    """Return everything of one kind by name, as plain data."""
    import variants as registry
    from ablations import presets, studies, tasks, trainers

    kinds: dict[str, tuple[Mapping[str, Any], Callable[[Any], Entry]]] = {
        "axes": (
            registry.axes(),
            lambda axis: {
                "summary": axis.summary,
                "choices": {
                    choice.name: _fields(choice, "summary", "formula", "source", "revision")
                    | {"numbers": _numbers(choice.numbers)}
                    for choice in axis.values()
                },
            },
        ),
        "presets": (
            presets.presets(),
            lambda preset: {
                "summary": preset.library,
                "trainer": preset.trainer,
                "settings": {
                    setting: {"value": value, "read_from": file}
                    for setting, (value, file) in preset.read().items()
                },
                "in_words": list(preset.in_words),
            },
        ),
        "studies": (
            studies.studies(),
            lambda study: {
                **_fields(study, "title", "claim", "baseline"),
                "variants": list(study.variants),
                "profiles": {
                    name: {"tasks": list(profile.tasks), **_fields(profile, "seeds", "steps")}
                    for name, profile in study.profiles.items()
                },
            },
        ),
        "tasks": (
            tasks.tasks(),
            lambda task: {
                "summary": task.summary,
                "settings": dict(task.settings),
                "hyperparameters": {name: dict(of) for name, of in task.hyperparameters.items()},
                **_fields(task, "source", "steps", "revision"),
            },
        ),
        "trainers": (
            trainers.trainers(),
            lambda trainer: {
                "summary": trainer.summary,
                "axes": dict(trainer.axes),
                "numbers": _numbers(trainer.known_numbers()),
                "structure": {
                    name: _fields(option, "default", "allowed", "summary")
                    for name, option in trainer.structure.items()
                },
            },
        ),
    }
    if kind not in kinds:
        raise unknown("kind", kind, [*kinds, "runs"])
    things, data = kinds[kind]
    return {name: data(thing) for name, thing in things.items()}


def _fields(thing: object, *names: str) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


def _numbers(numbers: Mapping[str, Any]) -> dict[str, Entry]:
    return {
        name: {"default": of.default, "from": of.low, "to": of.high, "summary": of.summary}
        for name, of in numbers.items()
    }


def _lines(kind: str, name: str, entry: Entry) -> Iterator[str]:
    """Yield what `list` prints of an entry below its name."""
    if kind == "axes":
        meanings: dict[str, str] = {}
        for choice, about in entry["choices"].items():
            yield f"{choice:<20} {about['summary']}"
            if numbers := about["numbers"]:
                yield f"    reads {', '.join(_bounded(*number) for number in numbers.items())}"
            meanings |= {number: of["summary"] for number, of in numbers.items()}
        yield from (f"{number + ':':<20} {meaning}" for number, meaning in meanings.items())
    elif kind == "studies":
        few = entry["variants"][:6]
        more = len(entry["variants"]) - len(few)
        yield f"variants  {', '.join(few)}{f' and {more} more' if more else ''}"
        for profile, of in entry["profiles"].items():
            yield f"{profile:<9} {of['seeds']} seeds on {', '.join(of['tasks'])}"
    elif kind == "presets":
        yield f"{len(entry['settings'])} settings of {entry['trainer']}: `show {name}`"
    elif kind == "tasks":
        yield f"settings  {', '.join(f'{n}={v}' for n, v in entry['settings'].items())}"
    else:
        for number, about in entry["numbers"].items():
            yield f"{_bounded(number, about)}: {about['summary']}"
        for option, about in entry["structure"].items():
            yield f"{option}={about['default']}: {about['summary']}"


def _bounded(name: str, number: Entry) -> str:
    return f"{name}={number['default']:g} ({number['from']:g} to {number['to']:g})"


def show(
    name: str, results: Path, selection: Selection, brought: tuple[Study, ...] = ()
) -> Iterator[str]:
    """Yield a study, a variant or a cell, resolved.

    name: of a study; "gae/brax", or a variant's name alone where only one study has it; a cell's
    hash, or the beginning of it. brought: studies of study files.
    """
    from ablations.sweep.defaults import known_studies

    known = known_studies(Request(name, brought=brought))
    if name in known:
        yield from _study(_resolve(name, selection, brought))
        return
    if (results / "plans" / name / "last").exists():  # imported, or explained
        from ablations.sweep.planned import planned

        yield from _study(*planned([name], results, selection))
        return
    head, slash, rest = name.partition("/")
    owner, variant = (head, rest) if slash and head in known else ("", name)
    owners = [study for study in known if owner in ("", study) and variant in known[study].variants]
    if not owners and owner and selection.get("vary"):
        owners = [owner]
    if len(owners) > 1:
        choices = ", ".join(f"{owner}/{variant}" for owner in owners)
        raise UserError(f"several studies have a variant '{name}': say which one: {choices}")
    if owners:
        yield from _variant(known[owners[0]], variant, selection, brought)
    elif record := _find_cell(name, results):
        if given := [f"--{flag}" for flag, value in selection.items() if value is not None]:
            raise UserError(
                f"{', '.join(given)}: a cell is what it is; a selection is of a study's"
            )
        yield from _cell(record)
    else:
        from ablations.presets import presets

        if slash and head in known:
            raise unknown(f"variant of '{head}'", rest, known[head].variants)
        every = [*known, *presets(), *_setting_names()]
        raise unknown("study, variant, preset, setting or cell", name, every)


def _preset(name: str) -> Iterator[str]:
    """Yield a preset's settings with the files they were read from, and what it has in words."""
    from ablations.presets import preset

    found = preset(name)
    yield f"{name}: {found.library}"
    for setting, (value, file) in found.read().items():
        yield f"    {setting:<27} {_shown(value):<36} {file}"
    yield "not expressed by settings"
    yield from (f"    {sentence}" for sentence in found.in_words)


def _against(*names: str) -> Iterator[str]:
    """Yield the settings in which two presets differ, with the formulas of both."""
    from ablations.presets import preset
    from ablations.trainers import trainer
    from ablations.trainers.composition import neutral

    ends = {
        found.name: settings_read(neutral(trainer(found.trainer))) | found.values()
        for found in map(preset, names)
    }
    yield " against ".join(names)
    for setting in dict.fromkeys(setting for end in ends.values() for setting in end):
        values = {name: end.get(setting) for name, end in ends.items()}
        if len(set(map(str, values.values()))) == 1:
            continue
        yield f"    {setting}"
        for name, value in values.items():
            yield f"        {name:<10} {'not read' if value is None else _shown(value)}"
            yield from (f"            {line}" for line in _formula(setting, value))


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _formula(setting: str, value: object) -> list[str]:
    """Return the formula of a choice, line by line; nothing for other settings."""
    import variants as registry

    if setting not in registry.axes() or value is None:
        return []
    return registry.axis(setting)[str(value)].formula.splitlines()


def _resolve(study: str, selection: Selection, brought: tuple[Study, ...]) -> Plan:
    from ablations.sweep.plan import plan

    return plan(Request.of(study, selection, brought))


def _study(resolved: Plan) -> Iterator[str]:
    about = resolved.study
    yield f"{about.name}: {about.title}"
    if about.claim:
        yield f"claim     {about.claim}"
    if about.claim_source:
        yield f"stated in {about.claim_source}"
    yield f"baseline  {about.baseline}"
    of = "in units of the metric" if about.margin_in_metric else "of what the baseline learns"
    yield f"margin    {about.margin:g} {of}"
    profile = "imported  " if resolved.imported else f"profile   {resolved.request['profile']}: "
    yield (
        f"{profile}{len(resolved.cells)} cells, "
        f"{len(resolved.seeds)} seeds, "
        + ", ".join(f"{task.steps:,} steps on {name}" for name, task in resolved.tasks.items())
    )
    for variant in resolved.variants if resolved.cells else ():
        yield ""
        yield from _variant_lines(resolved, variant)


def _variant(
    study: Study, variant: str, selection: Selection, brought: tuple[Study, ...]
) -> Iterator[str]:
    if not selection.get("vary"):
        versus = study.variants[variant].versus or study.baseline
        selection = {**selection, "variants": (variant, versus)}
    resolved = _resolve(study.name, selection, brought)
    if variant not in resolved.variants:
        raise unknown(f"variant of '{study.name}' as it is varied", variant, resolved.variants)
    yield from _variant_lines(resolved, variant)
    for task in resolved.tasks:
        yield ""
        yield f"on {task}:"
        yield from _config_lines(_config(resolved, task, variant))


def _cell(record: Record) -> Iterator[str]:
    yield f"cell {record.hash}: {record.status}"
    if record.reason:
        yield f"reason     {record.reason}"
    yield f"seed       {record.config.get('seed', 'none')}"
    yield from _config_lines(_whole(record.config))
    yield "provenance"
    yield from (f"    {name:<20} {value}" for name, value in record.provenance.items())


def _variant_lines(resolved: Plan, variant: str) -> list[str]:
    described = resolved.variants[variant]
    baseline = described.versus or resolved.study.baseline
    lines = [f"{variant}" + (f": {described.summary}" if described.summary else "")]
    task = next(iter(resolved.tasks))
    mine = _config(resolved, task, variant)
    if variant == baseline:
        different = dict(described.sets)
        lines.append("    a baseline; it sets" if different else "    a baseline")
    elif resolved.imported:
        return [*lines, f"    compared with {baseline}"]
    else:
        theirs = (
            settings_read(_config(resolved, task, baseline))
            if baseline in resolved.variants
            else {}
        )
        different = {n: v for n, v in settings_read(mine).items() if theirs.get(n) != v}
        lines.append(f"    differs from {baseline} in" if different else f"    as {baseline}")
    for name, value in different.items():
        lines.append(f"    {name} = {value}")
        if name in mine.get("choices", {}):
            import variants as registry

            choice = registry.axis(name)[str(value)]
            formula = (line.strip() for line in choice.formula.splitlines() if line.strip())
            lines += (f"        {line}" for line in (*formula, f"({choice.source})"))
    return lines


def _named(part: Mapping[str, Any]) -> str:
    return f"{part.get('name', 'none')} (revision {part.get('revision', 'none')})"


def _config_lines(config: Mapping[str, Any]) -> Iterator[str]:
    task = config.get("task", {})
    task = {"name": task} if isinstance(task, str) else task
    if "imported" in config:
        run = {"task": task.get("name"), "run": config.get("variant")}
        sections = {"imported": run | (config["imported"] or {})}
    else:
        choices = config.get("choices", {})
        sections = {
            f"task {_named(task)}": task.get("settings", {}),
            "choices": {name: _named(choice) for name, choice in choices.items()},
            "numbers": {n: f"{v:g}" for n, v in config.get("numbers", {}).items()},
            **{name: config.get(name, {}) for name in ("structure", "command", "run")},
        }
    for title, values in sections.items():
        if values:
            yield title
            yield from (f"    {name:<26} {value}" for name, value in values.items())


def _config(resolved: Plan, task: str, variant: str) -> Configuration:
    config = next(
        cell.config for cell in resolved.cells if (cell.task, cell.variant) == (task, variant)
    )
    return _whole(config)


def _whole(config: Configuration) -> Configuration:
    """Return it with the details that it leaves out as neutral, where its trainer is there."""
    from ablations.sweep.backends import backend_of
    from ablations.trainers import trainer

    if not backend_of(config).compiles:
        return config
    try:
        return trainer(config["trainer"]["name"]).completed(config)
    except (KeyError, UserError):  # imported, or of a plugin that is not loaded
        return config


def _find_cell(name: str, results: Path) -> Record | None:
    if len(name) < 4 or not set(name) <= set("0123456789abcdef"):
        return None
    from ablations.exchange import restore

    restore(results)
    found = sorted(path.name for path in (results / "cells").glob(f"{name}*"))
    if len(found) > 1:
        raise UserError(f"several cells begin with '{name}': {', '.join(found[:5])}")
    return read_record(results, found[0]) if found else None
