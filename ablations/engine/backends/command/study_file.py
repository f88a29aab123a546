"""Read a study whose trainer is a command, from a TOML file.

[study]                              [command]
name = "norm_adv"                    run = "python train.py --seed {seed} --norm-adv {norm_adv} ..."
claim = "it helps"                   curve = "{folder}/log.csv"
baseline = "on"                      step = "global_step"
margin = 0.05                        metric = "episodic_return"
seeds = 8
                                     [variants]
[settings]  # for all variants       on = {norm_adv = true}
lr = 3e-4                            off = {norm_adv = false}
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, TypeAlias

from msgspec import Meta, field

from ablations import studies
from ablations.core.decode import Json, Part, Positive, required
from ablations.core.files import Foreign, read_toml
from ablations.core.plan import Settings
from ablations.engine.backends.command.code import Code, place_of
from ablations.errors import UserError, unknown
from ablations.studies import Profile, Study, Variant
from ablations.trainers.command import CommandTrainer, Line, Site, filled

Table: TypeAlias = Mapping[str, Json]
Margin = Annotated[float, Meta(gt=0, le=1e12)]

TASK = "task"  # the name of the task, for a study that names none
DEFAULT_SEEDS = 8
MARGIN = 0.05
_SPANS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
Full = Meta(min_length=1)


class _File(Part, frozen=True):
    """The tables of a study file."""

    study: Table
    command: Annotated[Table, Full]
    variants: Annotated[Mapping[str, Settings], Full]
    settings: Settings = field(default_factory=dict)


class _About(Part, frozen=True):
    """The table [study]."""

    name: str | None = None
    title: str | None = None
    claim: str = ""
    source: str = ""
    baseline: str | None = None
    seeds: Positive = DEFAULT_SEEDS
    tasks: tuple[str, ...] = ()
    steps: Positive | None = None
    step_unit: str = "step"
    margin: Margin | None = None
    margin_in_metric: Margin | None = None


def named(argument: str) -> tuple[str, tuple[Study, ...]]:
    """Return the name of a study, and the study itself if the argument is a file.

    argument: a study file, "FILE/variant", or any other name.
    """
    file, _, variant = argument.partition(".toml/")
    if not variant and not argument.endswith(".toml"):
        return argument, ()
    study = read(Path(f"{file.removesuffix('.toml')}.toml"))
    return f"{study.name}/{variant}" if variant else study.name, (study,)


def read(path: Path) -> Study:
    """Read a study file. Raises UserError that names the file."""
    try:
        return _study(required(_File, read_toml(path), ""), path.resolve())
    except FileNotFoundError:
        raise UserError(f"the study file '{path}' does not exist") from None
    except Foreign:
        raise
    except UserError as error:
        raise UserError(f"'{path}': {error}") from None


def _study(file: _File, path: Path) -> Study:
    about = required(_About, file.study, "[study]")
    command, variants = dict(file.command), file.variants
    depends = command.pop("depends", None)
    if depends is not None:
        depends = required(tuple[str, ...], depends, "[command] depends:")
    timeout = timeout_of(command.pop("timeout", None))
    line = line_of(command)
    name = path.stem if about.name is None else about.name
    if name in studies.studies():
        raise UserError(f"a study '{name}' already exists: choose another name")
    if about.margin is not None and about.margin_in_metric is not None:
        raise UserError(
            "give margin (a share of the learned range) or margin_in_metric, but not both"
        )
    tasks = tuple(dict.fromkeys(about.tasks)) or (TASK,)
    code = code_of(line, path.parent, depends, path)
    trainer = CommandTrainer(
        name=f"command of {name}",
        line=line,
        sites={"": Site(code.digest(), place_of(code, timeout))},
        tasks=tasks,
        step_unit=about.step_unit,
    )
    if about.steps is None and "steps" in line.placeholders():
        raise UserError("the command uses {steps}: set steps in [study], such as steps = 50_000")
    if len(tasks) > 1 and "task" not in line.placeholders():
        raise UserError("[study] has several tasks, but the command does not use {task}")
    study = Study(
        name=name,
        title=name if about.title is None else about.title,
        claim=about.claim,
        claim_source=about.source,
        baseline=next(iter(variants)) if about.baseline is None else about.baseline,
        variants={variant: Variant(dict(sets)) for variant, sets in variants.items()},
        margin=about.margin_in_metric or about.margin or MARGIN,
        margin_in_metric=about.margin_in_metric is not None,
        metric=line.judged,
        trainer=trainer,
        settings=dict(file.settings),
        profiles={"quick": Profile(tasks, about.seeds, about.steps)},
        file=path,
    )
    study.require_sound()
    return study


def line_of(command: Table) -> Line:
    """Return the command of a table. Raises UserError: the table is incomplete."""
    for name in ("run", "curve", "metric"):
        if not command.get(name):
            raise UserError(f"{name} is missing in [command]")
    known = [field.name for field in fields(Line)]
    for name in command:
        if name not in known:
            raise UserError(f"[command] {unknown('key', name, known)}")
    try:
        words = {
            name: shlex.split(text)
            for name in ("run", "resume")
            if isinstance(text := command.get(name), str)
        }
    except ValueError as error:
        raise UserError(f"cannot split the command into arguments: {error}") from None
    given = required(dict[str, Json], command.get("environment", {}), "[command] environment:")
    environment = {name: str(value) for name, value in given.items()}
    return required(Line, {**command, **words, "environment": environment}, "[command]")


def code_of(
    line: Line, here: Path, depends: Iterable[str] | None, path: Path | None = None
) -> Code:
    """Return the code that a command uses. Raises UserError: its program does not exist.

    line: the command.
    here: the folder in which it runs.
    depends: the files that it uses; None: see `Code`.
    path: the study file, which is not part of the code.
    """
    program = filled(line.run[:1], {"here": str(here)})[0]
    known = here / program if "/" in program else shutil.which(program)
    if "{" not in program and (known is None or not Path(known).exists()):
        raise UserError(f"the program '{program}' does not exist")
    names = None if depends is None else tuple(dict.fromkeys(depends))
    return Code(here, (*line.run, *line.resume), names, path)


def timeout_of(value: Json) -> float | None:
    """Read a timeout in seconds, or a text such as "2h"."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|m|min|h|d|)", str(value))
    seconds = float(match[1]) * _SPANS[match[2]] if match else 0.0
    if not 0 < seconds < 1e12:
        raise UserError(f'a timeout must be seconds or a text such as "2h", not {value!r}')
    return seconds
