# ruff: noqa: D102  # `TrainerSpec` documents the methods
"""A trainer that runs a command, such as `python train.py --seed {seed}`, in any language.

A study file describes it (see `ablations.engine.backends.command.study_file`). A variant sets the
values of its placeholders. Importing this starts neither JAX nor the registry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Unpack

import msgspec

from ablations.core.decode import Json
from ablations.core.plan import Context, Formula, Settings
from ablations.core.record import CommandLine, Configuration, Run
from ablations.errors import UserError, unknown
from ablations.tasks.task import Task
from ablations.trainers.spec import TrainerSpec
from ablations.trainers.trainer import Option, Program, Trainer

# Revision 1 counted rows without the metric as steps and read parts of numbers; revision 2 found a
# printed metric by the last word of its name.
REVISION = 3
NAME = "command"  # of the trainer, in the configuration of every command's run
RESERVED = ("seed", "folder", "task", "steps", "here")
STDOUT = "stdout"  # the curve is in the command's output instead of a file
CODE = "code"  # the setting that selects a site
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
_OF_A_SHELL = ("|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1")
_OF_THE_ENGINE = ("points", "evaluations", "evaluation_envs")


@dataclass(frozen=True)
class Line:
    """A command and how to read its results; every field enters the hash.

    run: the program and its arguments, without a shell. cwd: its working directory. curve: the file
    of its curve in {folder}, or "stdout". metric: the column of the score; better: "higher" or
    "lower". step: the column of the step; "" if rows are steps or the file has one point.
    environment: environment variables. resume: arguments that are added if the file `resume_if`
    exists.
    """

    run: tuple[str, ...]
    curve: str
    metric: str
    step: str = ""
    better: str = "higher"
    cwd: str = "{here}"
    environment: Mapping[str, str] = field(default_factory=dict)
    resume: tuple[str, ...] = ()
    resume_if: str = ""

    @property
    def judged(self) -> str:
        """Return the column that ranks variants: the metric, or its negative if lower is better."""
        return self.metric if self.better == "higher" else f"-{self.metric}"

    def placeholders(self) -> set[str]:
        """Return the names in braces."""
        texts = [*self.run, *self.environment.values(), *self.resume, self.cwd, self.curve]
        return {name for text in texts for name in _PLACEHOLDER.findall(text)}


@dataclass(frozen=True)
class Site:
    """A folder in which a command runs.

    code: a digest of all files that decide the results. place: data for a worker on which no result
    depends; see `Cell.place`.
    """

    code: str
    place: Context


def require_sound(line: Line, *, repeats: bool = False) -> None:
    """Raise UserError for a command that cannot run without a shell, once per run.

    repeats: whether the runs of a variant may be the same command, without {seed}.
    """
    if not line.run:
        raise UserError('the command is empty: run = "python train.py --seed {seed}"')
    for word in line.run:
        if word in _OF_A_SHELL:
            raise UserError(
                f"the command has '{word}', and no shell reads it: put that into a script"
            )
    named = {name for text in line.run for name in _PLACEHOLDER.findall(text)}
    of_environment = {n for text in line.environment.values() for n in _PLACEHOLDER.findall(text)}
    if not repeats and "seed" not in named | of_environment:
        raise UserError("the command has no {seed}: every run of a variant would be the same")
    if line.curve != STDOUT and "folder" not in _PLACEHOLDER.findall(line.curve):
        raise UserError(
            f"curve = '{line.curve}': two runs would write one file; it must lie in {{folder}}, "
            f"which every run has for itself, or be '{STDOUT}'"
        )
    if line.curve != STDOUT and "folder" not in named | of_environment and "folder" not in line.cwd:
        raise UserError(
            "the command has no {folder}, so it cannot write its curve there: pass it, as in "
            '--out {folder}, or let the command run there with cwd = "{folder}"'
        )
    if line.better not in ("higher", "lower"):
        raise unknown("direction of better", line.better, ("higher", "lower"))
    if bool(line.resume) != bool(line.resume_if):
        raise UserError(
            "resume needs resume_if and the reverse: the arguments that are added, and the file in "
            "{folder} that must exist"
        )


def filled(texts: Iterable[str], values: Settings) -> list[str]:
    """Fill in placeholders of arguments; a placeholder with a list becomes several arguments."""
    found: list[str] = []
    for text in texts:
        whole = _PLACEHOLDER.fullmatch(text)
        if whole and isinstance(several := values.get(whole[1]), (list, tuple)):
            found += map(as_text, several)
        else:
            found.append(
                _PLACEHOLDER.sub(lambda m: as_text(values[m[1]]) if m[1] in values else m[0], text)
            )
    return found


def as_text(value: Json) -> str:
    """Return a value as an argument: text unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _make(**_: Unpack[Program[Settings]]) -> Trainer:
    raise UserError("a command is not a JAX program and cannot be composed")


@dataclass(frozen=True, kw_only=True)
class CommandTrainer(TrainerSpec):
    """The command of one study.

    sites: by the value of the setting `code`; the key is "" for a single site. tasks: their names.
    repeats: whether it may lack {seed}; see `require_sound`.
    """

    make: Callable[..., Trainer] = _make
    iteration_steps: Callable[..., int] = lambda structure: 1
    step_unit: str = "step"
    revision: int = REVISION
    line: Line
    sites: Mapping[str, Site]
    tasks: tuple[str, ...]
    repeats: bool = False

    def __post_init__(self) -> None:
        """Raise UserError for an invalid command."""
        require_sound(self.line, repeats=self.repeats)

    @cached_property
    def structure(self) -> dict[str, Option]:
        names = sorted(self.line.placeholders() - set(RESERVED))
        return {name: Option("", "a placeholder of the command") for name in names}

    def resolve(self, task: Task, values: Settings, more: Collection[str] = ()) -> Configuration:
        used, structure = self.line.placeholders(), self.structure
        for name in values:
            if name in _OF_THE_ENGINE:
                raise UserError(f"{name} cannot be set: a command trains and evaluates by itself")
            if name == "steps" and "steps" not in used:
                raise UserError("steps are set, and the command has no {steps}")
            if name not in (*structure, *more, CODE):
                raise unknown("placeholder of the command", name, structure)
        if lacking := [name for name in structure if name not in values]:
            raise UserError(
                f"the command has {{{lacking[0]}}}, which has no value: set it in this variant, or "
                f"for all under [settings]"
            )
        for name in structure:
            _require_plain(name, values[name], self.line)
        code = str(values.get(CODE, next(iter(self.sites))))
        if code not in self.sites:
            raise unknown("code", code, self.sites)
        line: CommandLine = msgspec.json.decode(msgspec.json.encode(self.line))  # with lists
        return {
            "trainer": {"name": NAME, "revision": REVISION},
            "task": {"name": task.name, "revision": task.revision, "settings": {}},
            "choices": {},
            "numbers": {},
            "structure": {name: values[name] for name in structure},
            "command": {**line, "revision": self.sites[code].code},
        }

    def inert(self, config: Configuration, names: Collection[str]) -> dict[str, str]:
        return {}

    def formulas(
        self, chosen: Mapping[str, Mapping[str, str]], sets: Mapping[str, Collection[str]]
    ) -> dict[str, dict[str, Formula]]:
        return {name: {} for name in chosen}

    def task(self, name: str) -> Task:
        if name not in self.tasks:
            raise unknown("task of this command", name, self.tasks)
        return Task(name, "", make=lambda settings: None, settings={}, steps=1)

    def schedule(self, config: Configuration, *, steps: int, **_: int) -> Run:
        return {
            "iteration_steps": 1,
            "updates_per_chunk": steps if "steps" in self.line.placeholders() else 0,
            "points": 1,
            "evaluations": 0,
            "evaluation_envs": 0,
        }

    def place(self, config: Configuration) -> Context:
        code = config["command"]["revision"]
        return next(site.place for site in self.sites.values() if site.code == code)


def _require_plain(name: str, value: Json, line: Line) -> None:
    listed = isinstance(value, (list, tuple))
    for one in value if isinstance(value, (list, tuple)) else [value]:
        if not isinstance(one, (str, int, float, bool)):
            raise UserError(f"{name} must be a number, a text, true, false or a list of these")
        if isinstance(one, str) and "\0" in one:
            raise UserError(f"{name} has a zero byte, which no argument can have")
    texts = [*line.run, *line.resume, *line.environment.values(), line.cwd, line.curve]
    if listed and any(f"{{{name}}}" in text and text != f"{{{name}}}" for text in texts):
        raise UserError(
            f"{name} is a list, which needs an argument of its own: {{{name}}} with nothing around "
            f"it"
        )


SPEC = TrainerSpec(
    name=NAME,
    summary="a command, a script, another framework: described by a study file",
    make=_make,
    iteration_steps=lambda _: 1,
    revision=REVISION,
    step_unit="step",
)
