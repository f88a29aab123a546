"""The command `show`: describe studies, settings, presets, tasks, runs and published answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Unpack

import pandas

from ablations import plugins
from ablations.answers import PUBLISHED, TABLE, find
from ablations.commands.selected import selection_of
from ablations.core.decode import Json, as_json
from ablations.core.record import Configuration, settings_read
from ablations.engine.backends import backend_of
from ablations.engine.backends.command import study_file
from ablations.engine.plan import known_studies, plan
from ablations.engine.stored import planned
from ablations.errors import UserError, count, printable, unknown, value_text
from ablations.io.archives import restore
from ablations.parameters import Folder, Selection, Text
from ablations.presets import preset, presets
from ablations.presets.definition import Preset, Read
from ablations.records import Plan, Record, has_run, read_record
from ablations.request import Request
from ablations.studies import Profile, Study, studies
from ablations.tasks import task, tasks
from ablations.trainers import every_setting, trainer
from ablations.trainers.values import FIELD_NAMES

SYMBOLS = (
    "r reward; d, z 1 if the step ended the episode, or if a time limit cut it, else 0; V, V' "
    "values of\nthis and the next observation; δ = r + γ(1-d)V' - V; A⁺ A at the next step"  # noqa: RUF001
)


def show(
    name: str,
    /,
    *,
    against: Text = None,
    results: Folder = "results",
    **selection: Unpack[Selection],
) -> str:
    """Describe a study, variant, setting, choice, preset, task or run; find published answers.

    Args:
        name: STUDY, STUDY/VARIANT, PRESET, SETTING, CHOICE, TASK, the hash of a run, or a word of
            answers.
        against: For a preset: only the differences from this other preset.
        results: The results folder; default: results.
        selection: See `Selection`.
    """
    plugins.load()
    name, brought = study_file.named(name)
    folder, selected = Path(results), selection_of(selection)
    if against:
        from ablations.commands.settings import against as differences

        lines = [*differences(name, against)]
    elif brought or selected:
        lines = [*_described(name, folder, selected, brought)]
    else:
        answers = _answers(name, folder)
        try:
            lines = [*_described(name, folder, selected)]
        except UserError as error:  # unknown, or the variant of several studies
            lines, answers = [], answers or _answers(name, folder, anywhere=True)
            if not answers:
                raise UserError(f"{error}; no published answer matches '{name}'") from None
        lines = [*answers, "", "\n".join(lines)]
    text = printable("\n".join(lines).strip())
    return f"{text}\n\n{SYMBOLS}" if "(1-d)" in text else text


def _answers(name: str, results: Path, *, anywhere: bool = False) -> list[str]:
    """Return the published answers that match a word, as lines."""
    folders = [folder for folder in (results, *PUBLISHED) if (folder / TABLE).exists()]
    return [*find(folders[0], name, anywhere=anywhere)] if folders else []


def _described(
    name: str, results: Path, selection: Selection, brought: tuple[Study, ...] = ()
) -> Iterator[str]:
    """Describe what has a name. brought: studies of study files."""
    from ablations.commands import settings

    setting = FIELD_NAMES.get(name, name)
    if name in presets():
        yield from _preset(preset(name))
    elif name in tasks():
        yield from _task(name)
    elif not brought and setting in settings.setting_names():
        if name in studies():
            yield from (*described(name, results, selection), "")
        yield from settings.setting_lines(setting)
        if setting in every_setting():
            yield f"compare values: ablations sweep {setting}=A,B"
    elif not (brought or selection or has_run(results, name)) and name in settings.choice_names():
        yield from settings.choices_named(name)
        for study in studies().values():
            if name in study.variants:
                yield f"variant of {study.name}: ablations show {study.name}/{name}"
    else:
        yield from described(name, results, selection, brought)


def described(
    name: str, results: Path, selection: Selection, brought: tuple[Study, ...] = ()
) -> Iterator[str]:
    """Describe a study, a variant or a run.

    name: a study; "gae/brax", or a variant that only one study has; the beginning of a run's hash.
    brought: studies of study files.
    """
    known = known_studies(Request(name, brought=brought))
    if name in known:
        yield from _study(plan(Request.of(name, selection, brought)), known[name].profiles)
        return
    if (results / "plans" / name / "last").exists():  # imported, or explained
        yield from _study(planned([name], results, selection)[0], {})
        return
    head, slash, rest = name.partition("/")
    owner, variant = (head, rest) if slash and head in known else ("", name)
    owners = [study for study in known if owner in ("", study) and variant in known[study].variants]
    if not owners and owner and selection.get("vary"):
        owners = [owner]
    if len(owners) > 1:
        choices = ", ".join(f"{owner}/{variant}" for owner in owners)
        raise UserError(f"several studies have a variant '{name}': choose one of {choices}")
    if owners:
        yield from _variant(known[owners[0]], variant, selection, brought)
    elif record := _find_cell(name, results):
        if given := [f"--{flag}" for flag, value in selection.items() if value is not None]:
            raise UserError(f"omit {', '.join(given)}: a selection is for studies, not for a run")
        yield from _cell(record)
    else:
        from ablations.commands.settings import choice_names, setting_names

        if slash and head in known:
            raise unknown("variant", rest, known[head].variants, of=head)
        every = [*known, *presets(), *setting_names(), *choice_names(), *tasks()]
        raise unknown("study, variant, preset, setting, choice, task or run", name, every)


def _preset(described: Preset, others: Mapping[str, Read] | None = None) -> Iterator[str]:
    """Yield a preset's settings with their source files, and its other properties.

    others: for discrete actions, the settings for vectors; equal ones are omitted.
    """
    read, others = described.read(), others or {}
    yield f"{'for discrete actions' if others else described.name}: {described.library}"
    for setting, (value, file) in read.items():
        if setting not in others or others[setting][0] != value:
            yield f"    {setting:<27} {value_text(value):<36} {file}"
    if others:
        yield f"    not read there: {', '.join(name for name in others if name not in read)}"
    yield "not expressed by settings"
    yield from (f"    {sentence}" for sentence in described.in_words)
    if described.discrete is not None:
        yield from _preset(described.discrete, read)


def _task(name: str) -> Iterator[str]:
    """Yield a task's settings, and the studies that have it."""
    described = task(name)
    yield f"{name}: {described.summary}"
    if described.form:
        yield f"    {described.form}"
    yield from (f"    {setting:<27} {value}" for setting, value in described.settings.items())
    for name_of_trainer, values in described.hyperparameters.items():
        yield f"settings of {name_of_trainer}"
        yield from (f"    {setting:<27} {value_text(value)}" for setting, value in values.items())
    yield f"a whole run is {described.steps:,} steps"
    having = [
        study.name
        for study in studies().values()
        if any(name in profile.tasks for profile in study.profiles.values())
    ]
    yield f"studies with it: {', '.join(having) or 'none'}; --tasks {name} gives it to any other"


def _study(resolved: Plan, profiles: Mapping[str, Profile]) -> Iterator[str]:
    about = resolved.study
    yield ": ".join(dict.fromkeys([about.name, about.title]))
    if about.claim:
        yield f"claim     {about.claim}"
    if about.claim_source:
        yield f"stated in {about.claim_source}"
    yield f"baseline  {about.baseline}"
    unit = "in units of the metric" if about.margin_in_metric else "of what the baseline learns"
    yield f"margin    {about.margin:g} {unit}"
    kind = "imported  " if resolved.imported else f"profile   {resolved.request['profile']}: "
    yield (
        f"{kind}{count(len(resolved.cells), 'run')}, "
        f"{len(resolved.seeds)} seeds, "
        + ", ".join(f"{task.steps:,} steps on {name}" for name, task in resolved.tasks.items())
    )
    for profile, of in profiles.items():
        yield f"{profile:<9} {len(of.every_seed())} seeds on {', '.join(of.tasks)}"
    yield from _pages(about.name)
    for variant in resolved.variants if resolved.cells else ():
        yield ""
        yield from _variant_lines(resolved, variant)


def _pages(study: str) -> Iterator[str]:
    """Yield a line with the published answers of a study."""
    folder = next(folder for folder in PUBLISHED if (folder / TABLE).exists())
    rows = pandas.read_csv(folder / TABLE, usecols=["detail", "study"])
    if names := [*rows.detail[(rows.study == study) | rows.detail.str.contains(study)].unique()]:
        yield f"answers   {', '.join(names)}: see `ablations show {names[0]}`"


def _variant(
    study: Study, variant: str, selection: Selection, brought: tuple[Study, ...]
) -> Iterator[str]:
    if not selection.get("vary"):
        versus = study.variants[variant].versus or study.baseline
        selection = {**selection, "variants": (variant, versus)}
    resolved = plan(Request.of(study.name, selection, brought))
    if variant not in resolved.variants:
        raise unknown("variant", variant, resolved.variants, of=f"{study.name} --vary")
    yield from _variant_lines(resolved, variant)
    for where in resolved.tasks:
        yield ""
        yield f"on {where}:"
        yield from _config_lines(_config(resolved, where, variant))


def _cell(record: Record) -> Iterator[str]:
    yield f"run {record.hash}: {record.status}"
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
    where = next(iter(resolved.tasks))
    config = _config(resolved, where, variant)
    if variant == baseline:
        different = dict(described.sets)
        article = "the" if variant == resolved.study.baseline else "a"
        lines.append(f"    {article} baseline" + "; it sets" * bool(different))
    elif resolved.imported:
        return [*lines, f"    compared with {baseline}"]
    else:
        theirs = (
            settings_read(_config(resolved, where, baseline))
            if baseline in resolved.variants
            else {}
        )
        different = {n: v for n, v in settings_read(config).items() if theirs.get(n) != v}
        lines.append(f"    differs from {baseline} in" if different else f"    as {baseline}")
    for name, value in different.items():
        lines.append(f"    {name} = {value}")
        if name in config.get("choices", {}):
            from ablations.commands.settings import choice_lines

            lines += choice_lines(name, str(value))
    return lines


def _config_lines(config: Configuration) -> Iterator[str]:
    for title, values in as_json(config).items():
        if isinstance(values, Mapping) and values:
            yield title
            yield from (f"    {name:<26} {_text(value)}" for name, value in values.items())
        elif values and title != "seed":
            yield f"{title:<10} {values}"


def _text(value: Json) -> str:
    """Write a value of a configuration, such as a choice with its revision."""
    if not isinstance(value, Mapping):
        return value_text(value)
    if value.keys() == {"name", "revision"}:
        return f"{value['name']} (revision {value['revision']})"
    return ", ".join(f"{name}={each}" for name, each in value.items())


def _config(resolved: Plan, task: str, variant: str) -> Configuration:
    config = next(
        cell.config for cell in resolved.cells if (cell.task, cell.variant) == (task, variant)
    )
    return _whole(config)


def _whole(config: Configuration) -> Configuration:
    """Add the compatible defaults that a configuration omits, if its trainer is known."""
    if not backend_of(config).compiles:
        return config
    try:
        return trainer(config["trainer"]["name"]).completed(config)
    except (KeyError, UserError):  # imported, or of a plugin that is not loaded
        return config


def _find_cell(name: str, results: Path) -> Record | None:
    if len(name) < 4 or not set(name) <= set("0123456789abcdef"):
        return None

    restore(results)
    names = sorted(path.name for path in (results / "cells").glob(f"{name}*"))
    if len(names) > 1:
        raise UserError(f"several runs begin with '{name}': {', '.join(names[:5])}")
    return read_record(results, names[0]) if names else None
