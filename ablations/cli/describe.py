"""The commands `list` and `show`: axes, studies, tasks, trainers; a study, a variant, a cell with
its formulas.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.cli.arguments import (
    add_command,
    add_selection,
    load_installed_plugins,
    selection,
)
from ablations.errors import UserError, printable, unknown
from ablations.records import Plan, Record, read_record
from ablations.request import Request

if TYPE_CHECKING:
    from ablations.studies import Study

KINDS = ("axes", "presets", "studies", "tasks", "trainers")


def add_commands(commands: Any) -> None:
    one = add_command(commands, "list", _list, "what there is", reads_records="none")
    one.add_argument("kind", nargs="?", default="studies", help=f"{', '.join(KINDS)}")
    one.add_argument("--json", action="store_true")

    said = "the resolved configuration: formulas, numbers, differences"
    one = add_command(commands, "show", _show, said, reads_records="none")
    one.add_argument("name", metavar="STUDY|VARIANT|CELL|PRESET")
    one.add_argument("--against", metavar="PRESET", help="of a preset: what differs from another")
    add_selection(one)


def _list(options: argparse.Namespace) -> None:
    load_installed_plugins()
    if options.json:
        print(json.dumps(catalogue(options.kind), indent=1, ensure_ascii=False))
    else:
        print("\n".join(_catalogue_lines(options.kind)))


def _show(options: argparse.Namespace) -> None:
    load_installed_plugins()
    from ablations.presets import presets
    from ablations.sweep.backends.command import study_file

    options.name, brought = study_file.named(options.name)
    if options.name in presets() or options.against:
        print("\n".join(preset_lines(options.name, options.against)))
        return
    given = {name: value for name, value in selection(options).items() if value is not None}
    print(printable("\n".join(show(options.name, options.results, given, brought))))


def catalogue(kind: str) -> dict[str, Any]:
    """Everything of one kind by name, as plain data."""
    import variants as registry
    from ablations import studies, tasks, trainers

    if kind == "axes":
        return {
            name: {
                "summary": axis.summary,
                "choices": {
                    choice.name: {
                        "summary": choice.summary,
                        "formula": choice.formula,
                        "source": choice.source,
                        "revision": choice.revision,
                        "numbers": {n: _number(number) for n, number in choice.numbers.items()},
                    }
                    for choice in axis.values()
                },
            }
            for name, axis in registry.axes().items()
        }
    if kind == "presets":
        from ablations.presets import presets

        return {
            name: {
                "summary": one.library,
                "trainer": one.trainer,
                "settings": {
                    setting: {"value": value, "read_from": file}
                    for setting, (value, file) in one.read().items()
                },
                "in_words": list(one.in_words),
            }
            for name, one in presets().items()
        }
    if kind == "studies":
        return {
            name: {
                "title": study.title,
                "claim": study.claim,
                "baseline": study.baseline,
                "variants": list(study.variants),
                "profiles": {
                    p: {
                        "tasks": list(profile.tasks),
                        "seeds": profile.seeds,
                        "steps": profile.steps,
                    }
                    for p, profile in study.profiles.items()
                },
            }
            for name, study in studies.studies().items()
        }
    if kind == "tasks":
        return {
            name: {
                "summary": task.summary,
                "settings": dict(task.settings),
                "hyperparameters": {t: dict(h) for t, h in task.hyperparameters.items()},
                "source": task.source,
                "steps": task.steps,
                "revision": task.revision,
            }
            for name, task in tasks.tasks().items()
        }
    if kind == "trainers":
        return {
            name: {
                "summary": one.summary,
                "axes": dict(one.axes),
                "numbers": {name: _number(number) for name, number in one.known_numbers().items()},
                "structure": {
                    n: {"default": o.default, "allowed": o.allowed, "summary": o.summary}
                    for n, o in one.structure.items()
                },
            }
            for name, one in trainers.trainers().items()
        }
    raise unknown("kind", kind, KINDS)


def _catalogue_lines(kind: str) -> Iterator[str]:
    for name, one in catalogue(kind).items():
        yield f"{name}: {one.get('title') or one['summary']}"
        if kind == "axes":
            told: dict[str, str] = {}
            for choice, about in one["choices"].items():
                yield f"    {choice:<20} {about['summary']}"
                if about["numbers"]:
                    yield f"        reads {', '.join(map(_bounded, about['numbers'].items()))}"
                told |= {number: of["summary"] for number, of in about["numbers"].items()}
            yield from (f"    {number + ':':<20} {meaning}" for number, meaning in told.items())
        elif kind == "studies":
            few = one["variants"][:6]
            more = len(one["variants"]) - len(few)
            yield f"    variants  {', '.join(few)}{f' and {more} more' if more else ''}"
            for profile, about in one["profiles"].items():
                yield f"    {profile:<9} {about['seeds']} seeds on {', '.join(about['tasks'])}"
        elif kind == "presets":
            yield f"    {len(one['settings'])} settings of {one['trainer']}: `show {name}`"
        elif kind == "tasks":
            settings = ", ".join(f"{n}={v}" for n, v in one["settings"].items())
            yield f"    settings  {settings}"
        else:
            for number in one["numbers"].items():
                yield f"    {_bounded(number)}: {number[1]['summary']}"
            for option, about in one["structure"].items():
                yield f"    {option}={about['default']}: {about['summary']}"


def _bounded(number: tuple[str, Mapping[str, Any]]) -> str:
    name, about = number
    return f"{name}={about['default']:g} ({about['from']:g} to {about['to']:g})"


def _number(number: Any) -> dict[str, Any]:
    return {
        "default": number.default,
        "from": number.low,
        "to": number.high,
        "summary": number.summary,
    }


def show(
    name: str, results: Path, selection: Mapping[str, Any], brought: tuple[Study, ...] = ()
) -> Iterator[str]:
    """Describe a study, a variant ("gae/brax", or its name alone where only one study has it), or
    a cell (its hash, or the beginning of it), resolved. brought: studies of study files.
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
    if not owners and owner and "vary" in selection:
        owners = [owner]
    if len(owners) > 1:
        choices = ", ".join(f"{owner}/{variant}" for owner in owners)
        raise UserError(f"several studies have a variant '{name}': say which one: {choices}")
    if owners:
        yield from _variant(known[owners[0]], variant, selection, brought)
    elif record := _find_cell(name, results):
        if selection:
            flags = ", ".join(f"--{flag}" for flag in selection)
            raise UserError(f"{flags}: a cell is what it is; a selection is of a study's")
        yield from _cell(record)
    else:
        every = [*known, *(f"{study}/{v}" for study in known for v in known[study].variants)]
        raise unknown("study, variant or cell", name, every)


def preset_lines(name: str, against: str | None = None) -> Iterator[str]:
    """A preset's settings with the files they were read from, and what it has in words; against
    another, what differs, with both formulas.
    """
    from ablations.presets import preset
    from ablations.trainers import trainer
    from ablations.trainers.composition import neutral

    one = preset(name)
    if against is None:
        yield f"{one.name}: {one.library}"
        for setting, (value, file) in one.read().items():
            yield f"    {setting:<27} {_shown(value):<36} {file}"
        yield "not expressed by settings"
        yield from (f"    {sentence}" for sentence in one.in_words)
        return
    other = preset(against)
    mine, theirs = (
        {**_flat(neutral(trainer(each.trainer))), **each.values()} for each in (one, other)
    )
    yield f"{one.name} against {other.name}"
    for setting in dict.fromkeys([*mine, *theirs]):
        values = [values.get(setting) for values in (mine, theirs)]
        if values[0] == values[1]:
            continue
        yield f"    {setting}"
        for preset_name, value in zip((one.name, other.name), values, strict=True):
            shown = "not read" if value is None else _shown(value)
            yield f"        {preset_name:<10} {shown}"
            yield from (f"            {line}" for line in _formula(setting, value))


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _formula(setting: str, value: Any) -> list[str]:
    """The formula of a choice, line by line; nothing for other settings."""
    import variants as registry

    if setting not in registry.axes() or value is None:
        return []
    return registry.axis(setting)[value].formula.splitlines()


def _resolve(study: str, selection: Mapping[str, Any], brought: tuple[Study, ...]) -> Plan:
    from ablations.sweep.plan import plan

    return plan(Request(study, **selection, brought=brought))


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
    study: Study, variant: str, selection: Mapping[str, Any], brought: tuple[Study, ...]
) -> Iterator[str]:
    if "vary" not in selection:
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
        theirs = _flat(_config(resolved, task, baseline)) if baseline in resolved.variants else {}
        different = {n: v for n, v in _flat(mine).items() if theirs.get(n) != v}
        lines.append(f"    differs from {baseline} in" if different else f"    as {baseline}")
    for name, value in different.items():
        lines.append(f"    {name} = {value}")
        if name in mine.get("choices", {}):
            import variants as registry

            choice = registry.axis(name)[str(value)]
            lines += [
                f"        {line.strip()}" for line in choice.formula.splitlines() if line.strip()
            ]
            lines.append(f"        ({choice.source})")
    return lines


def _named(part: Mapping[str, Any]) -> str:
    return f"{part.get('name', 'none')} (revision {part.get('revision', 'none')})"


def _config_lines(config: Mapping[str, Any]) -> list[str]:
    task = config.get("task", {})
    task = {"name": task} if isinstance(task, str) else task
    if "imported" in config:
        told = {"task": task.get("name"), "run": config.get("variant")}
        told |= config["imported"] or {}
        return ["imported", *(f"    {name:<26} {value}" for name, value in told.items())]
    sections: dict[str, Mapping[str, Any]] = {
        f"task {_named(task)}": task.get("settings", {}),
        "choices": {name: _named(choice) for name, choice in config.get("choices", {}).items()},
        "numbers": {n: f"{v:g}" for n, v in config.get("numbers", {}).items()},
        "structure": config.get("structure", {}),
        "command": config.get("command", {}),
        "run": config.get("run", {}),
    }
    lines = []
    for title, values in sections.items():
        if not values:
            continue
        lines.append(title)
        lines += [f"    {name:<26} {value}" for name, value in values.items()]
    return lines


def _config(resolved: Plan, task: str, variant: str) -> Mapping[str, Any]:
    config = next(
        cell.config for cell in resolved.cells if (cell.task, cell.variant) == (task, variant)
    )
    return _whole(config)


def _whole(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return it with the details that it leaves out as neutral, where its trainer is there."""
    from ablations.sweep.backends import backend_of
    from ablations.trainers import trainer

    if not backend_of(config).compiles:
        return config
    try:
        return trainer(config["trainer"]["name"]).completed(config)
    except (KeyError, UserError):  # imported, or of a plugin that is not loaded
        return config


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    choices = {name: choice["name"] for name, choice in config.get("choices", {}).items()}
    return choices | dict(config.get("numbers", {})) | dict(config.get("structure", {}))


def _find_cell(name: str, results: Path) -> Record | None:
    if len(name) < 4 or not set(name) <= set("0123456789abcdef"):
        return None
    from ablations.exchange import restore

    restore(results)
    found = sorted(path.name for path in (results / "cells").glob(f"{name}*"))
    if len(found) > 1:
        raise UserError(f"several cells begin with '{name}': {', '.join(found[:5])}")
    return read_record(results, found[0]) if found else None
