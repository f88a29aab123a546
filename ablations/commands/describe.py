"""The commands `show` and `list`: describe studies, settings, presets, tasks, runs and answers."""

from __future__ import annotations

import itertools
import shlex
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Unpack

import pandas

import variants as registry
from ablations import plugins
from ablations.answers import PUBLISHED, TABLE, find
from ablations.commands.selected import selection_of
from ablations.core.decode import Json, as_json
from ablations.core.record import Configuration, settings_read
from ablations.engine.backends import backend_of
from ablations.engine.backends.command import study_file
from ablations.engine.plan import known_studies, plan
from ablations.engine.stored import command_of, planned, stored_plans
from ablations.errors import UserError, count, printable, unknown, value_text
from ablations.io.archives import restore
from ablations.parameters import Folder, Selection, Text
from ablations.presets import preset, presets
from ablations.records import Plan, Record, cell_folder, has_run, read_record
from ablations.request import Request
from ablations.studies import Profile, Study, studies
from ablations.tasks import task, tasks
from ablations.trainers import TrainerSpec, every_setting, trainer, trainers
from ablations.trainers.values import FIELD_NAMES
from variants import Axis, Choice, Number

SYMBOLS = (
    "r reward; d, z 1 if the step ended the episode, or if a time limit cut it, else 0; V, V' "
    "values of\nthis and the next observation; δ = r + γ(1-d)V' - V; A⁺ A at the next step"  # noqa: RUF001
)
WIDTH = 80


def listed(kind: str = "studies", /, *, results: Folder = "results") -> str:
    """List studies, tasks, presets, components, trainers or runs.

    Args:
        kind: studies (default), tasks, presets, components, trainers or runs.
        results: The results folder; default: results.
    """
    plugins.load()
    archive = Path(results) / "archive"
    kinds: dict[str, Callable[[], Iterable[str]]] = {
        "studies": lambda: (_study_line(study, archive) for study in studies().values()),
        "tasks": lambda: (f"{name}: {of.summary}" for name, of in tasks().items()),
        "presets": lambda: (f"{name}: {of.library}" for name, of in presets().items()),
        "components": lambda: (line for of in registry.axes().values() for line in _axis(of)),
        "trainers": lambda: (line for of in trainers().values() for line in _trainer(of)),
        "runs": lambda: (_run_line(*of, Path(results)) for of in stored_plans(Path(results))),
    }
    if kind not in kinds:
        raise UserError(f"{unknown('kind', kind, kinds)}; axes are components, libraries presets")
    return printable("\n".join(kinds[kind]())) or f"nothing has run in '{results}'"


def _study_line(study: Study, archive: Path) -> str:
    archived = " (archived)" if any(archive.glob(f"{study.name}-*.parquet")) else ""
    title = f"{study.name}: {study.title}"
    return textwrap.shorten(title, WIDTH - len(archived), placeholder=" ...") + archived


def _axis(axis: Axis) -> Iterator[str]:
    yield f"{axis.name}: {axis.summary}"
    yield from (f"    {choice.name:<20} {choice.summary}" for choice in axis.values())


def _trainer(of: TrainerSpec) -> Iterator[str]:
    yield f"{of.name}: {of.summary}"
    for name, number in of.known_numbers().items():
        yield f"    {name}={_range(number)}: {number.summary}"
    for name, option in of.structure.items():
        yield f"    {name}={option.default}: {option.summary}"


def _run_line(seconds: float, plan: Plan, results: Path) -> str:
    """Describe a plan that is stored, with the command that ran it."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    with_record = sum(cell_folder(results, cell.hash).exists() for cell in plan.cells)
    done = f"{with_record:,} of {count(len(plan.cells), 'run')}"
    return f"{when}  {done:<20} {command_of(plan)}"


def _range(number: Number) -> str:
    return f"{number.default:g} ({number.low:g} to {number.high:g})"


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
        lines = [*_differences(name, against)]
    elif brought or selected:
        lines = [*described(name, folder, selected, brought)]
    else:
        answers = _answers(name, folder)
        try:
            lines = [*described(name, folder, selected)]
        except UserError as error:
            lines, answers = [], answers or _answers(name, folder, anywhere=True)
            if not answers:
                raise UserError(f"{error}; no published answer matches '{name}'") from None
        lines = [*answers, "", *lines]
    text = printable("\n".join(lines).strip("\n"))
    return f"{text}\n\n{SYMBOLS}" if "(1-d)" in text else text


def _answers(name: str, results: Path, *, anywhere: bool = False) -> list[str]:
    """Return the published answers that match a word, as lines."""
    folder = next(folder for folder in (results, *PUBLISHED) if (folder / TABLE).exists())
    return [*find(folder, name, anywhere=anywhere)]


def described(
    name: str, results: Path, selection: Selection, brought: tuple[Study, ...] = ()
) -> Iterable[str]:
    """Describe what has a name: a study, variant, preset, setting, choice, task or run.

    name: may be "gae/brax", a variant of a study, and the beginning of a run's hash.
    brought: studies of study files.
    """
    known = known_studies(Request(name, brought=brought))
    head, _, rest = name.partition("/")
    takes_selection = head in known or (has_run(results, name) and name not in presets())
    if selection and not takes_selection:
        raise UserError(f"--{next(iter(selection))} is for studies: omit it to show '{name}'")
    setting = FIELD_NAMES.get(name, name)
    of_setting = _setting(setting) if setting in {*registry.axes(), *every_setting()} else ()
    if name in presets():
        return _preset(name)
    if name in tasks():
        return _task(name)
    if name in known:
        of_study = _study(plan(Request.of(name, selection, brought)), known[name].profiles)
        return (*of_study, "", *of_setting)
    if of_setting:
        return of_setting
    if has_run(results, name):  # imported, or explained
        return _study(planned([name], results, selection)[0], {})
    if rest and head in known:
        return _variant(known[head], rest, selection, brought)
    if having := [axis for axis in registry.axes().values() if name in axis]:
        lines = ((f"a choice of {of.name}: {of.summary}", *_choice(of, of[name])) for of in having)
        return itertools.chain.from_iterable(lines)
    if record := _find_run(name, results):
        return _run(record)
    choices = itertools.chain.from_iterable(registry.axes().values())
    every = [*known, *presets(), *registry.axes(), *every_setting(), *choices, *tasks()]
    raise unknown("study, preset, setting, choice, task or run", name, every)


def _rows(values: Mapping[str, object]) -> Iterator[str]:
    yield from (f"    {name:<26} {value}" for name, value in values.items())


# Settings and presets


def _setting(name: str) -> Iterator[str]:
    """Describe a setting: its choices or range, and its values in presets."""
    having = [of for of in trainers().values() if name in of.settings]
    users = _users(name, having)
    if name in registry.axes():
        axis = registry.axis(name)
        yield f"{axis.name}: {axis.summary}"
        yield f"    a component of {', '.join(of.name for of in having) or 'no trainer'}"
        if axis.loop:
            yield "    its choices are names that the trainer's loop reads"
        else:
            yield f"    a choice may read {', '.join([*(axis.inputs or {}), *axis.numbers])}"
        for choice in axis.values():
            yield from ("", *_choice(axis, choice))
            if choice.name in users:
                yield f"    used by   {', '.join(users.pop(choice.name))}"
    for of in having if name not in registry.axes() else ():
        if name in of.structure:
            option = of.structure[name]
            allowed = f", one of {', '.join(map(str, option.allowed))}" if option.allowed else ""
            yield f"{name}: {option.summary}"
            yield f"    a static setting of {of.name}: {option.default}{allowed}"
        else:
            number = of.known_numbers()[name]
            yield f"{name}: {number.summary}"
            yield f"    a hyperparameter of {of.name}: {_range(number)}"
    yield from _rows({value: ", ".join(who) for value, who in users.items()})
    if name in every_setting():
        yield f"compare values: ablations sweep {name}=A,B"


def _choice(axis: Axis, choice: Choice) -> Iterator[str]:
    yield f"{choice.name}: {choice.summary}"
    yield from _formula(axis.name, choice.name)
    if choice.inputs:
        yield f"    reads     {', '.join(choice.inputs)}"
    for name, number in choice.numbers.items():
        yield f"    number    {name}={_range(number)}: {number.summary}"


def _formula(axis: str, choice: str) -> Iterator[str]:
    """Yield the formula of a choice and where it comes from, indented."""
    chosen = registry.axis(axis)[choice]
    lines = (*chosen.formula.splitlines(), f"({chosen.source})")
    yield from (f"        {line.strip()}" for line in lines if line.strip())


def _users(name: str, having: Iterable[TrainerSpec]) -> dict[str, list[str]]:
    """Return value, as text -> the presets of these trainers that have it."""
    left_out = {of.name: settings_read(of.neutral_values()).get(name) for of in having}
    users: dict[str, list[str]] = {}
    for library in presets().values():
        value = library.values().get(name, left_out.get(library.trainer))
        if library.trainer in left_out and value is not None:
            users.setdefault(value_text(value), []).append(library.name)
    return users


def _preset(name: str) -> Iterator[str]:
    """Yield a preset's settings with their source files, and its other properties."""
    described = preset(name)
    yield f"{described.name}: {described.library}"
    known: dict[str, Json] = {}
    for each in filter(None, (described, described.discrete)):
        if known:
            yield "for discrete actions, besides"
        new = {name: read for name, read in each.read().items() if known.get(name) != read[0]}
        yield from _rows({n: f"{value_text(of):<36} {file}" for n, (of, file) in new.items()})
        yield from ("not expressed by settings", *(f"    {line}" for line in each.in_words))
        known = each.values()


def _differences(*names: str) -> Iterator[str]:
    """Yield the settings in which presets differ, as a table."""
    values = {
        of.name: settings_read(trainer(of.trainer).neutral_values()) | of.values()
        for of in map(preset, names)
    }
    texts = {name: {n: value_text(of) for n, of in own.items()} for name, own in values.items()}
    frame = pandas.DataFrame(texts).fillna("not read")
    yield from frame[frame.nunique(axis=1) > 1].to_string().splitlines()


# Tasks, studies and runs


def _task(name: str) -> Iterator[str]:
    """Yield a task's settings, and the studies that have it."""
    described = task(name)
    yield f"{name}: {described.summary}"
    if described.form:
        yield f"    {described.form}"
    yield from _rows(described.settings)
    for of, values in described.hyperparameters.items():
        yield f"settings of {of}"
        yield from _rows({setting: value_text(value) for setting, value in values.items()})
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
        yield textwrap.fill(f"claim     {about.claim}", WIDTH, subsequent_indent=" " * 10)
    if about.claim_source:
        yield textwrap.fill(f"stated in {about.claim_source}", WIDTH, subsequent_indent=" " * 10)
    yield f"baseline  {about.baseline}"
    unit = "in units of the metric" if about.margin_in_metric else "of what the baseline learns"
    yield f"margin    {about.margin:g} {unit}"
    kind = "imported  " if resolved.imported else f"profile   {resolved.request['profile']}: "
    yield (
        f"{kind}{count(len(resolved.cells), 'run')}, "
        f"{len(resolved.seeds)} seeds, "
        + ", ".join(f"{of.steps:,} steps on {name}" for name, of in resolved.tasks.items())
    )
    for profile, of in profiles.items():
        yield f"{profile:<9} {len(of.every_seed())} seeds on {', '.join(of.tasks)}"
    published = next(folder for folder in PUBLISHED if (folder / TABLE).exists())
    rows = pandas.read_csv(published / TABLE, usecols=["detail", "study"])
    named = (rows.study == about.name) | rows.detail.str.contains(about.name, regex=False)
    if names := [*rows.detail[named].unique()]:
        yield f"answers   {', '.join(names)}: see `ablations show {names[0]}`"
    for variant in resolved.variants if resolved.cells else ():
        yield from ("", *_variant_lines(resolved, variant))


def _variant(
    study: Study, variant: str, selection: Selection, brought: tuple[Study, ...]
) -> Iterator[str]:
    if not selection.get("vary"):
        if variant not in study.variants:
            raise unknown("variant", variant, study.variants, of=study.name)
        versus = study.variants[variant].versus or study.baseline
        selection = {**selection, "variants": (variant, versus)}
    resolved = plan(Request.of(study.name, selection, brought))
    if variant not in resolved.variants:
        raise unknown("variant", variant, resolved.variants, of=f"{study.name} --vary")
    yield from _variant_lines(resolved, variant)
    for where in resolved.tasks:
        yield from ("", f"on {where}:", *_configuration(as_json(_config(resolved, where, variant))))


def _run(record: Record) -> Iterator[str]:
    yield f"run {record.hash}: {record.status}" + (f": {record.reason}" if record.reason else "")
    yield from _configuration(as_json(_completed(record.config)))
    yield from ("provenance", *_rows(record.provenance))


def _variant_lines(resolved: Plan, variant: str) -> Iterator[str]:
    described = resolved.variants[variant]
    baseline = described.versus or resolved.study.baseline
    yield variant + (f": {described.summary}" if described.summary else "")
    where = next(iter(resolved.tasks))
    config = _config(resolved, where, variant)
    if variant == baseline:
        different = dict(described.sets)
        article = "the" if variant == resolved.study.baseline else "a"
        yield f"    {article} baseline" + "; it sets" * bool(different)
    elif resolved.imported:
        yield f"    compared with {baseline}"
        return
    else:
        there = baseline in resolved.variants
        theirs = settings_read(_config(resolved, where, baseline)) if there else {}
        different = {n: v for n, v in settings_read(config).items() if theirs.get(n) != v}
        yield f"    differs from {baseline} in" if different else f"    as {baseline}"
    for name, value in different.items():
        yield f"    {name} = {value}"
        if name in config.get("choices", {}):
            yield from _formula(name, str(value))


def _configuration(config: Mapping[str, Json]) -> Iterator[str]:
    """Yield what a configuration consists of, without revisions."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _rows({name: value["name"]} if "name" in value else {})
            more = {n: of for n, of in value.items() if n not in ("name", "revision")}
            yield from _configuration(more)
        else:
            if name == "run" and isinstance(value, list):  # of a command
                value = shlex.join(map(str, value))
            yield from _rows({name: value_text(value)})


def _config(resolved: Plan, task: str, variant: str) -> Configuration:
    cells = resolved.cells
    return _completed(next(c.config for c in cells if (c.task, c.variant) == (task, variant)))


def _completed(config: Configuration) -> Configuration:
    """Add the compatible defaults that a configuration omits, if its trainer is known."""
    if not backend_of(config).compiles:
        return config
    try:
        return trainer(config["trainer"]["name"]).completed(config)
    except (KeyError, UserError):  # imported, or of a plugin that is not loaded
        return config


def _find_run(name: str, results: Path) -> Record | None:
    if len(name) < 4 or not set(name) <= set("0123456789abcdef"):
        return None
    restore(results)
    names = sorted(path.name for path in (results / "cells").glob(f"{name}*"))
    if len(names) > 1:
        raise UserError(f"several runs begin with '{name}': {', '.join(names[:5])}")
    return read_record(results, names[0]) if names else None
