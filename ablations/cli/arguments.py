"""The parser, types of arguments, and flags that several commands have.

Imports nothing that computes: whatever is typed, this is imported first.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, NoReturn

from ablations.errors import NEAR, UserError, printable, unknown
from ablations.request import (
    GEOMETRIES,
    Selection,
    parse_levels,
    parse_settings,
    seeds_of,
)

# What others call some of our flags.
OTHER_WORDS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("env", "envs", "env_id", "environment"), ("--tasks", "--task")),
    **dict.fromkeys(("algo", "algorithm", "library"), ("--base", "--preset")),
    **dict.fromkeys(("total_timesteps", "timesteps", "num_timesteps"), ("--steps",)),
    **dict.fromkeys(("out", "outdir", "file"), ("--output",)),
    **dict.fromkeys(("jobs", "parallel", "num_workers"), ("--workers",)),
    "follow": ("--watch",),
    "force": ("--yes", "--fresh"),
    "name": ("--study",),
    "verbose": ("--quiet",),
}


def part(name: str) -> ModuleType:
    """Return a module of the command line that is imported when it is needed, and not before."""
    return importlib.import_module(f"ablations.cli.{name}")


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in a line and takes no flag by its beginning."""

    def __init__(self, **keywords: Any):
        """Take the keywords of argparse."""
        super().__init__(**keywords, allow_abbrev=False)
        self._leads_to_commands = False
        self.late: Callable[[Parser], None] | None = None  # adds the arguments when they are needed

    def fill(self) -> None:
        """Add the arguments, where they are not there yet."""
        late, self.late = self.late, None
        if late is not None:
            late(self)

    def every(self) -> Iterator[Parser]:
        """Yield this parser and those of its commands, with their arguments."""
        self.fill()
        yield self
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for command in action.choices.values():
                    yield from command.every()

    def add_subparsers(self, **keywords: Any) -> Any:
        """Add commands."""
        self._leads_to_commands = True
        return super().add_subparsers(**keywords)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments. Raise UserError for an unknown flag."""
        self.fill()
        args = self._joined(sys.argv[1:] if args is None else list(args))
        self._require_known_flags(args)
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise UserError for a value that is none of an argument's choices."""
        if action.choices is not None and value not in action.choices:
            name = "/".join(action.option_strings) or str(action.metavar or action.dest).lower()
            raise unknown(f"{name}:" if name[0] == "-" else name, str(value), action.choices)

    def error(self, message: str) -> NoReturn:
        """Raise UserError."""
        raise UserError(f"{message} (see `{self.prog} --help`)")

    def _joined(self, arguments: Sequence[str]) -> list[str]:
        """Join a flag that takes a text with one that begins with a dash.

        --against --no-norm is --against=--no-norm, unless what follows is a flag of this command.
        """
        flags = {flag: action for action in self._actions for flag in action.option_strings}
        joined: list[str] = []
        takes = False
        for index, argument in enumerate(arguments):
            if argument == "--":
                return [*joined, *arguments[index:]]
            if takes and argument[:1] == "-" and argument.partition("=")[0] not in flags:
                joined[-1] += f"={argument}"
                takes = False
                continue
            joined.append(argument)
            action = flags.get(argument)
            takes = isinstance(action, argparse._StoreAction) and (
                action.nargs is None and action.type is None and action.choices is None
            )
        return joined

    def _require_known_flags(self, arguments: Sequence[str]) -> None:
        """Raise UserError for an unknown flag, with those that are near.

        argparse would complain of a missing argument first, and names no other flag.
        """
        known = re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", self.format_usage())
        for argument in arguments:
            if argument == "--" or (self._leads_to_commands and argument[:1] != "-"):
                break
            flag = argument.partition("=")[0]
            if re.fullmatch(r"--?[A-Za-z][\w-]*", flag) and flag not in (*known, "--help"):
                self.error(f"unknown flag {flag}{self._hint(flag, known)}")

    def _hint(self, flag: str, known: Sequence[str]) -> str:
        """Return what was meant by an unknown flag, as the end of a sentence; "" where unclear."""
        name = flag.lstrip("-").replace("-", "_")
        formats = next((a.choices for a in self._actions if a.dest == "format"), None) or ()
        if "--set" in known and part("selected").is_setting(name):
            return f": a setting is given by --set {name}=VALUE"
        if name in formats:
            return f": did you mean --format {name}?"
        meant = [word for word in OTHER_WORDS.get(name, ()) if word in known]
        near = meant or [each for each in known if each.startswith(flag) and flag != "-"]
        near = near or difflib.get_close_matches(flag, known, n=1, cutoff=NEAR)
        return f": did you mean {' or '.join(near)}?" if near else ""


class Command(NamedTuple):
    """A command, as the help of all names it.

    module: of the command line, whose `add_<name>` adds the command's flags to a parser, and whose
    `run_<name>` carries it out. unpacks: what of the archives, before it runs. only_reads: of a
    folder that cannot be written it shows all the same what its archives hold.
    """

    module: str
    summary: str
    unpacks: Literal["all", "of its studies", "nothing"] = "all"
    only_reads: bool = False


def add_commands(parser: Parser, groups: Mapping[str, Mapping[str, Command]]) -> None:
    """Add commands to a parser, each without its flags until it is the one to be parsed."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    lines = []
    for group, table in groups.items():
        lines.append(f"{group}:")
        for name, command in table.items():
            summary = command.summary
            lines.append(f"  {name:<10} {summary}")
            added = commands.add_parser(name, description=f"{summary[0].upper()}{summary[1:]}.")
            added.late = partial(_add_flags_of, command, name)
    parser.epilog = "\n".join([*lines, "", "`ablations COMMAND --help` lists its flags."])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def _add_flags_of(command: Command, name: str, parser: Parser) -> None:
    """Add the flags that every command has, and its own."""
    module = part(command.module)
    parser.set_defaults(run=getattr(module, f"run_{name}"), command=command)
    add_flags(parser, {"--results DIR": "default: results"}, type=Path, default=Path("results"))
    add_flags(
        parser,
        {"--plugin MODULE": "a module of yours that registers choices, tasks or studies"},
        action="append",
    )
    getattr(module, f"add_{name}")(parser)


def add_flags(
    parser: argparse._ActionsContainer, flags: Mapping[str, str | None], **keywords: Any
) -> None:
    """Add flags, such as "--quiet" or "--tasks T" with the name of its value, each with its help.

    keywords: of `add_argument`, the same for all of them.
    """
    for flag, summary in flags.items():
        name, _, metavar = flag.partition(" ")
        named = keywords | ({"metavar": metavar} if metavar else {})
        parser.add_argument(name, help=summary, **named)


# Types


def whole(text: str) -> int:
    """Parse a whole number, such as 1_000 or 1e6."""
    try:
        digits = text.replace("_", "")
        scale = {"k": 1e3, "M": 1e6}.get(digits[-1:], 1)
        value = scale * float(digits[:-1] if scale > 1 else digits)
        if value.is_integer():
            return int(value)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"'{text}' is not a whole number, such as 8, 50k or 1e6")


def natural(text: str, least: int = 0) -> int:
    """Parse a whole number from 0 on."""
    if (value := whole(text)) < least:
        raise argparse.ArgumentTypeError(f"must be at least {least}, not {value}")
    return value


def positive(text: str) -> int:
    """Parse a whole number from 1 on."""
    return natural(text, 1)


def minutes(text: str) -> float:
    """Parse a number of minutes."""
    try:
        value = float(text)
        if 0 <= value < float("inf"):
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"'{text}' is not a number of minutes")


# Selection


def add_studies(parser: argparse.ArgumentParser, number: str | int) -> None:
    """Add names of studies, and the flags that select a part of them."""
    parser.add_argument("studies", nargs=number, metavar="STUDY")
    add_selection(parser)


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `selection` reads."""
    group = parser.add_argument_group("selection")
    several: dict[str, Any] = {"nargs": "+", "action": "extend"}
    add_flags(group, {"--profile": "how much compute: smoke, quick (default), evidence or paper"})
    add_flags(group, {"--tasks T": None, "--variants V": None}, **several)
    add_flags(group, {"--seeds N|FIRST-LAST": "how many, from 0 on, or which"}, type=seeds_of)
    add_flags(
        group,
        {
            "--until decided": "instead of --seeds: more at planned stages, only for comparisons "
            "that are still open"
        },
    )
    add_flags(
        group,
        {
            "--most-seeds N": "of --until, at its last look; default: 64",
            "--steps N": "environment steps of a run",
            "--evaluations N": "of a run; 0: curves of training alone",
        },
        type=whole,
    )
    add_flags(group, {"--set NAME=VALUE": "a setting for all variants"}, **several)
    add_flags(
        group,
        {
            "--base P": "a preset, whose settings take the place of the tasks' own under every "
            "variant"
        },
    )
    group.add_argument(
        "--geometry",
        choices=GEOMETRIES,
        help="the structure of presets (environments, steps, minibatches, networks): their own, or "
        "in common the task's",
    )
    add_flags(
        group,
        {
            "--vary NAME=A,B,...": "the baseline at each value, compared with the first, instead "
            "of the study's variants; with --variants these at each value"
        },
        **several,
    )


def selection(options: argparse.Namespace) -> Selection:
    """Return the flags of `add_selection`; None for those that are not given."""
    settings = parse_settings(options.set or [])
    if options.evaluations is not None:
        settings["evaluations"] = options.evaluations
    return {
        "profile": options.profile,
        "tasks": options.tasks,
        "variants": options.variants,
        "seeds": options.seeds,
        "until": options.until,
        "most_seeds": options.most_seeds,
        "steps": options.steps,
        "base": options.base,
        "geometry": options.geometry,
        "set": settings or None,
        "vary": parse_levels(options.vary) if options.vary else None,
    }


def selection_flags(options: argparse.Namespace) -> list[str]:
    """Return the flags of `add_selection` that are given."""
    names = [*selection(options), "evaluations"]
    return [f"--{n.replace('_', '-')}" for n in names if getattr(options, n) is not None]


def refuse_together(flag: str, others: Sequence[str]) -> None:
    """Raise UserError if arguments are given that a flag does not use."""
    if others:
        raise UserError(f"{flag} does not go with {', '.join(others)}: leave one of them out")


def warn(lines: Iterable[str]) -> None:
    """Print lines on stderr, each as one of this command."""
    for line in lines:
        print(f"ablations: {printable(line)}", file=sys.stderr)
