"""Define types of parameters that commands share, their parsers, and how help prints them."""

from __future__ import annotations

import inspect
import itertools
import json
import math
import operator
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from cyclopts import Group, Parameter, Token, validators
from cyclopts.help import HelpEntry, HelpPanel
from rich.console import Console, ConsoleOptions

from ablations.core.decode import Json
from ablations.errors import UserError, spans

MOST_SEEDS = 100_000
SEEDS_BELOW = 2**31
SEEDS = f"a count from 1 to {MOST_SEEDS}, or ranges such as 8-31 or 0-9,20-29, each once"
SELECTION = Group("Selection", sort_key=1)
RARE = Group("More", sort_key=2)  # of `--help-all`
WIDTH, LEFT = 80, 24  # columns of help


def parse_settings(assignments: Iterable[str], flag: str = "--set") -> dict[str, Json]:
    """Read ["discount=0.9", "policy_layers=[64,64]"] as a dict; values are JSON, else text."""
    given = _assigned(assignments, flag, "name=value")
    return {name: _parsed(text) for name, text in given.items()}


def parse_levels(assignments: Iterable[str]) -> dict[str, list[Json]]:
    """Read ["discount=0.9,0.99", "policy_layers=[64,64],[32]"] as lists of values."""
    given = _assigned(assignments, "--vary", "name=value,value,...")
    return {name: [*map(_parsed, re.split(r",(?![^\[]*\])", text))] for name, text in given.items()}


def _assigned(assignments: Iterable[str], flag: str, form: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise UserError(f"{flag} takes {form}, not '{assignment}'")
        if given.setdefault(name, text) != text:
            raise UserError(f"{name} is given twice: {given[name]} and {text}")
    return given


def _parsed(text: str) -> Json:
    try:
        value: Json = json.loads(text)
    except ValueError:
        return text
    return value


def seeds_of(asked: int | str | Iterable[int]) -> tuple[int, ...]:
    """Read a count, ranges ("0-9,20-29": both ends are in it), or the seeds; in order."""
    try:
        if isinstance(asked, str) and "-" in asked:
            ends = [map(int, part.split("-")) for part in asked.split(",")]
            parts = [range(first, last + 1) for first, last in ends]
        elif isinstance(asked, str):
            parts = [range(int(asked))]
        elif isinstance(asked, Iterable) and not isinstance(asked, range):
            parts = [range(each, each + 1) for each in map(operator.index, asked)]
        else:
            parts = [asked if isinstance(asked, range) else range(operator.index(asked))]
        if not all(parts) or not 0 < sum(map(len, parts)) <= MOST_SEEDS:
            raise ValueError
        seeds = sorted(itertools.chain.from_iterable(parts))
        if len(set(seeds)) < len(seeds) or seeds[0] < 0 or seeds[-1] >= SEEDS_BELOW:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"seeds must be {SEEDS}, not {asked!s:.60}") from None
    return tuple(seeds)


def ranges(seeds: Iterable[int]) -> str:
    """Write seeds as `seeds_of` reads them, such as "0-9,20-29"."""
    return ",".join(f"{first}-{last}" for first, last in spans(seeds))


# Types of parameters: converters of cyclopts take a type and the words of the command line.

Words = Sequence[Token]


def _texts(_: Any, words: Words) -> list[str]:
    return [word.value for word in words]


def _seeds(_: Any, words: Words) -> tuple[int, ...]:
    if len(words) > 1:
        raise UserError("--seeds is given twice")
    return seeds_of(words[0].value)


def _whole(_: Any, words: Words) -> int:
    """Parse a whole number, such as 1_000, 50k or 1e6."""
    (word,) = words
    try:
        value = float(word.value.replace("k", "e3").replace("M", "e6"))
    except ValueError:
        value = math.nan
    if not value.is_integer():
        raise UserError(
            f"{word.keyword}: '{word.value}' is not a whole number, such as 8, 50k or 1e6"
        )
    return int(value)


def _number(_: Any, words: Words) -> float:
    """Parse a number, or a share such as 5%."""
    (word,) = words
    try:
        return float(word.value.rstrip("%")) / (100 if word.value.endswith("%") else 1)
    except ValueError:
        raise UserError(
            f"{word.keyword}: '{word.value}' is not a number, such as 0.05 or 5%"
        ) from None


def _rates(_: Any, words: Words) -> tuple[float, ...]:
    text = ",".join(_texts(_, words))
    try:
        rates = tuple(map(float, text.split(",")))
    except ValueError:
        rates = ()
    if not rates or not all(0 < rate < math.inf for rate in rates):
        raise UserError(f"--rates takes numbers above 0, such as 3e-4,1e-3, not '{text}'")
    return rates


SEVERAL = Parameter(converter=_texts, n_tokens=-1, consume_multiple=1, metavar="NAME...")
Names = Annotated[str | Sequence[str], SEVERAL]
OptionalNames = Annotated[str | Iterable[str] | None, SEVERAL]
Whole = Annotated[int | None, Parameter(converter=_whole, metavar="N")]
Natural = Annotated[Whole, Parameter(validator=validators.Number(gte=0))]
Positive = Annotated[Whole, Parameter(validator=validators.Number(gte=1))]
Number = Annotated[float | None, Parameter(converter=_number, metavar="X")]
Rates = Annotated[Sequence[float], Parameter(converter=_rates, n_tokens=1, metavar="A,B,...")]
Minutes = Annotated[float | None, Parameter(validator=validators.Number(gt=0), metavar="M")]
Text = Annotated[str | None, Parameter(metavar="TEXT")]
Folder = Annotated[str | Path, Parameter(metavar="DIR")]


def _assignments(parse: Callable[[list[str]], Any], metavar: str) -> Parameter:
    return Parameter(
        converter=lambda _, words: parse(_texts(_, words)),
        n_tokens=-1,
        consume_multiple=1,
        accepts_keys=False,
        metavar=metavar,
    )


Settings = Annotated[Mapping[str, Json] | None, _assignments(parse_settings, "NAME=VALUE...")]
Levels = Annotated[Mapping[str, Iterable[Json]] | None, _assignments(parse_levels, "NAME=A,B...")]
Seeds = Annotated[
    int | str | Iterable[int] | None,
    Parameter(converter=_seeds, n_tokens=1, metavar="N|FIRST-LAST"),
]


PLUGIN = inspect.Parameter(  # of every command
    "plugin",
    inspect.Parameter.KEYWORD_ONLY,
    default=(),
    annotation=Annotated[
        list[str],
        Parameter(
            group=RARE,
            metavar="MODULE",
            help="A module of yours that registers components, tasks or studies; repeatable.",
        ),
    ],
)


class Selection(TypedDict, total=False):
    """A part of a study, at some settings.

    Without one, `run` takes the profile quick, and other commands the study's last run.

    Attributes:
        profile: How much compute: smoke, quick (default of run; others: the last plan), evidence,
            claims or paper; see `ablations show STUDY`.
        tasks: These tasks instead of the profile's.
        variants: Only these variants.
        seeds: A count (8 is 0 to 7) or ranges such as 0-9,20-29.
        steps: Environment steps per run.
        set: Settings for all variants, and evaluations=N.
        vary: Train the baseline, or --variants, at each value.
        base: Use the settings of a preset instead of the task's.
        geometry: Static settings of presets (environments, steps, networks): the preset's own, or
            in common the task's.
        until: Add seeds in stages until every comparison is decided.
        most_seeds: Most seeds of --until; default: 64.
    """

    profile: Annotated[str | None, Parameter(group=SELECTION, metavar="NAME")]
    tasks: Annotated[OptionalNames, Parameter(group=SELECTION)]
    variants: Annotated[OptionalNames, Parameter(group=SELECTION)]
    seeds: Annotated[Seeds, Parameter(group=SELECTION)]
    steps: Annotated[Whole, Parameter(group=SELECTION)]
    set: Annotated[Settings, Parameter(group=SELECTION)]
    vary: Annotated[Levels, Parameter(group=SELECTION)]
    base: Annotated[str | None, Parameter(group=SELECTION, metavar="PRESET")]
    geometry: Annotated[Literal["common", "own"] | None, Parameter(group=RARE)]
    until: Annotated[str | None, Parameter(group=SELECTION, metavar="decided")]
    most_seeds: Annotated[Whole, Parameter(group=RARE)]


class Screens:
    """A help formatter of cyclopts: two columns of plain text. rare: show the rare flags too."""

    def __init__(self, *, rare: bool) -> None:
        self.rare = rare

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print the parameters of a group."""
        entries = [entry for entry in panel.entries if "--help" not in entry.names]
        if entries and (self.rare or panel.title != RARE.name):
            _print(console, f"{panel.title}:", *map(_entry, entries))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the first line."""
        _print(console, str(usage).strip())

    def render_description(self, console: Console, options: ConsoleOptions, text: Any) -> None:
        """Print what the command does."""
        _print(console, "", textwrap.fill(text.primary_renderable.plain, WIDTH), "")


def _print(console: Console, *lines: str) -> None:
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _entry(entry: HelpEntry) -> str:
    value = "|".join(entry.choices) if entry.choices else entry.metavar
    label = entry.positional_label or " ".join(filter(None, [*entry.names[:1], value]))
    text = entry.description.primary_renderable.plain if entry.description else ""
    left = " " * (LEFT + 2)
    lines = textwrap.fill(
        text, WIDTH, initial_indent=left, subsequent_indent=left, break_on_hyphens=False
    )
    fits = len(label) < LEFT  # beside the first line, otherwise above it
    return f"  {label:<{LEFT}}{lines.lstrip()}" if fits else f"  {label}\n{lines}"
