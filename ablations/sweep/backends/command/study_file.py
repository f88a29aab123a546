"""Read a study whose trainer is a command: TOML, or Python that defines the same tables.

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

import math
import re
import runpy
import shlex
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from ablations import studies
from ablations.core.decode import Json, texts
from ablations.core.files import read_toml
from ablations.errors import UserError, unknown
from ablations.studies import Profile, Study, Variant
from ablations.sweep.backends.command.code import Code
from ablations.sweep.backends.command.repository import place_of
from ablations.trainers.command import CommandTrainer, Line, Site, filled

Table: TypeAlias = Mapping[str, Json]

SUFFIXES = (".toml", ".py")
TASK = "task"  # of a command that knows none
DEFAULT_SEEDS = 8
MARGIN = 0.05
_STUDY = ("name", "title", "claim", "source", "baseline", "seeds", "tasks", "steps", "step_unit")
_MARGINS = ("margin", "margin_in_metric")
_COMMAND = (
    *("run", "curve", "metric", "step", "better", "cwd", "environment", "resume", "resume_if"),
    *("depends", "timeout"),
)
_TABLES = ("study", "command", "settings", "variants", "profiles")


def named(argument: str) -> tuple[str, tuple[Study, ...]]:
    """Return the name of a study, and the study itself where the argument is a file.

    Args:
        argument: a study file, "FILE/variant", or any other name, which brings none.
    """
    for suffix in SUFFIXES:
        file, slash, variant = argument.partition(f"{suffix}/")
        if slash:
            study = read(Path(file + suffix))
            return f"{study.name}/{variant}", (study,)
    if not argument.endswith(SUFFIXES):
        return argument, ()
    study = read(Path(argument))
    return study.name, (study,)


def read(path: Path) -> Study:
    """Read the study of a file.

    Raises:
        UserError: the file describes no study, with its name.
    """
    try:
        return _study(_tables(path), path.resolve())
    except UserError as error:
        raise UserError(f"'{path}': {error}") from None


def _given(path: Path) -> dict[str, Json]:
    """Read a file: its tables in TOML, or those that it defines in Python."""
    if not path.exists():
        raise UserError("there is no such study file")
    if path.suffix == ".py":
        try:
            namespace = runpy.run_path(str(path))
        except Exception as error:
            text = " ".join(str(error).split())
            raise UserError(f"it does not run: {type(error).__name__}: {text}") from None
        return {name: namespace[name] for name in _TABLES if name in namespace}
    try:
        return read_toml(path)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"it is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"it cannot be read: {error}") from None


def _tables(path: Path) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for name, table in _given(path).items():
        if name not in _TABLES:
            raise unknown("table", name, _TABLES)
        if not isinstance(table, Mapping):
            raise UserError(f"{name} must be a table")
        tables[name] = table
    for name in ("study", "command", "variants"):
        if not tables.get(name):
            raise UserError(f"it has no [{name}]")
    return tables


def _study(tables: Mapping[str, Table], path: Path) -> Study:
    about, command = tables["study"], tables["command"]
    _require_known("study", about, (*_STUDY, *_MARGINS))
    _require_known("command", command, _COMMAND)
    name = _text(about, "name", default=path.stem)
    if name in studies.studies():
        raise UserError(f"study '{name}' is there already: choose another name")
    tasks = tuple(_list(about, "tasks")) or (TASK,)
    line = line_of(command)
    here = path.parent
    code = code_of(line, here, command, path)
    timeout = timeout_of(command.get("timeout"))
    trainer = CommandTrainer(
        f"command of {name}",
        line,
        {"": Site(code.digest(), place_of(code, timeout))},
        tasks,
        _text(about, "step_unit", default="step"),
    )
    steps = about.get("steps")
    if steps is None and "steps" in line.placeholders():
        raise UserError(
            "the command has {steps}, and [study] does not say how many: steps = 50_000"
        )
    if len(tasks) > 1 and "task" not in line.placeholders():
        raise UserError("tasks are several, and the command has no {task}")
    study = Study(
        name=name,
        title=_text(about, "title", default=name),
        claim=_text(about, "claim"),
        claim_source=_text(about, "source"),
        baseline=_text(about, "baseline", default=next(iter(tables["variants"]))),
        variants={variant: _variant(variant, sets) for variant, sets in tables["variants"].items()},
        margin=_margin(about),
        margin_in_metric="margin_in_metric" in about,
        metric=line.judged,
        trainer=trainer,
        settings=dict(tables.get("settings", {})),
        profiles=_profiles(tables, tasks, steps),
        file=path,
    )
    study.require_sound()
    return study


def line_of(command: Table) -> Line:
    """Read a command's table as a line.

    Raises:
        UserError: it describes none.
    """
    run = command.get("run", "")
    for name in ("run", "curve", "metric"):
        if not command.get(name):
            raise UserError(f"[command] has no {name}")
    environment = command.get("environment", {})
    if not isinstance(environment, Mapping):
        raise UserError('environment is a table: environment = {OMP_NUM_THREADS = "1"}')
    return Line(
        run=_words(run, "run"),
        curve=_text(command, "curve"),
        metric=_text(command, "metric"),
        step=_text(command, "step"),
        better=_text(command, "better", default="higher"),
        cwd=_text(command, "cwd", default="{here}"),
        environment={str(name): str(value) for name, value in environment.items()},
        resume=_words(command.get("resume", ()), "resume"),
        resume_if=_text(command, "resume_if"),
    )


def code_of(line: Line, here: Path, command: Table, path: Path | None) -> Code:
    """Return the code that a line rests on.

    Args:
        line: the command.
        here: the folder in which it runs.
        command: its table, of which `depends` is read.
        path: the study file, which is no part of the code.

    Raises:
        UserError: its program is not there.
    """
    program = filled(line.run[:1], {"here": str(here)})[0]
    known = here / program if "/" in program else shutil.which(program)
    if "{" not in program and (known is None or not Path(known).exists()):
        raise UserError(f"there is no program '{program}' to run")
    given = command.get("depends") is not None
    depends = tuple(_list(command, "depends")) if given else None
    return Code(here, (*line.run, *line.resume), depends, path)


def _words(value: Json, name: str) -> tuple[str, ...]:
    """Split a line as a shell would; a list of arguments stays."""
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise UserError(f"{name} cannot be split into arguments: {error}") from None
    if (words := texts(value)) is None:
        raise UserError(f"{name} must be a text or a list of texts")
    return words


def _text(table: Table, name: str, default: str = "") -> str:
    value = table.get(name, default)
    if not isinstance(value, str):
        raise UserError(f"{name} must be a text, not {value!r}")
    return value


def _list(table: Table, name: str) -> list[str]:
    if (entries := texts(table.get(name, []))) is None:
        raise UserError(f"{name} must be a list of texts")
    return list(dict.fromkeys(entries))


def _variant(name: str, sets: Json) -> Variant:
    if not isinstance(sets, Mapping):
        raise UserError(f"variant '{name}' must be a table of what it sets: {{norm_adv = true}}")
    return Variant(dict(sets))


def _margin(about: Table) -> float:
    if all(name in about for name in _MARGINS):
        raise UserError(
            "margin is a share of what the baseline learned, margin_in_metric is not: give one"
        )
    value = about.get("margin_in_metric", about.get("margin", MARGIN))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise UserError(f"a margin is a number above 0, not {value!r}")
    return float(value)


def _profiles(
    tables: Mapping[str, Table], tasks: tuple[str, ...], steps: Json
) -> dict[str, Profile]:
    """Read the profiles: `quick` is that of [study], from which others inherit."""
    seeds = tables["study"].get("seeds", DEFAULT_SEEDS)
    profiles = {}
    for name, given in {"quick": {}, **tables.get("profiles", {})}.items():
        if not isinstance(given, Mapping):
            raise UserError(f"profile '{name}' must be a table: {{seeds = 2}}")
        _require_known(f"profiles.{name}", given, ("seeds", "tasks", "steps"))
        length = given.get("steps", steps)
        profiles[name] = Profile(
            tasks=tuple(_list(given, "tasks")) or tasks,
            seeds=_count("seeds", given.get("seeds", seeds)),
            steps=None if length is None else _count("steps", length),
        )
    return profiles


def _count(name: str, value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"{name} must be a whole number above 0, not {value!r}")
    return value


def timeout_of(value: Json) -> float | None:
    """Read a timeout in seconds, or as a text such as "2h".

    Raises:
        UserError: it is neither.
    """
    if value is None:
        return None
    spans = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
    try:
        match = re.fullmatch(r"(.*?)\s*(s|m|min|h|d|)", str(value))
        seconds = float(match[1]) * spans[match[2]] if match else 0.0
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise UserError(f'a timeout is seconds or a text such as "2h", not {value!r}')
    return seconds


def _require_known(where: str, table: Table, names: tuple[str, ...]) -> None:
    for name in table:
        if name not in names:
            raise unknown(f"key of [{where}]", name, names)
