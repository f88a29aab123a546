"""Define types of parameters that commands share, and their parsers."""

from __future__ import annotations

import inspect
import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypedDict, TypeVar

from cyclopts import Group, Parameter, Token

from ablations.core.decode import Json
from ablations.errors import UserError, spans

T = TypeVar("T")

MOST_SEEDS = 100_000
SEEDS_BELOW = 2**31
SEEDS = f"a count from 1 to {MOST_SEEDS}, or ranges such as 8-31 or 0-9,20-29"
SELECTION = Group("Selection", sort_key=1)
RARE = Group("More", sort_key=2)  # of `--help-all`


def parse_settings(assignments: Iterable[str], flag: str = "--set") -> dict[str, Json]:
    """Read ["discount=0.9", "policy_layers=[64,64]"] as a dict; values are JSON, else text."""
    settings = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise UserError(f"{flag} takes name=value, not '{assignment}'")
        settings[name] = _parsed(name, text)
    return settings


def parse_levels(assignments: Iterable[str]) -> dict[str, list[Json]]:
    """Read ["discount=0.9,0.99", "policy_layers=[64,64],[32]"] as lists of values.

    Each value is read as `parse_settings` does.
    """
    levels: dict[str, list[Json]] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        values = re.split(r",(?![^\[]*\])", text)
        if not equals or not name or "" in values:
            raise UserError(f"--vary takes name=value,value,..., not '{assignment}'")
        if name in levels:
            raise UserError(f"--vary has {name} twice: give all its values in one list")
        levels[name] = [_parsed(name, value) for value in values]
    return levels


def _parsed(name: str, text: str) -> Json:
    def refuse(constant: str) -> NoReturn:
        raise UserError(f"{name} must be a finite number, not {constant}")

    try:
        value: Json = json.loads(text, parse_constant=refuse)
    except ValueError:
        return text
    return value


def seeds_of(asked: int | str | Iterable[int]) -> tuple[int, ...]:
    """Read a count, ranges ("0-9,20-29": both ends are in it), or the seeds; in order."""
    if isinstance(asked, str):
        asked = _written(asked)
    seeds: Sequence[int]
    try:
        if not isinstance(asked, Iterable):
            seeds = range(operator.index(asked))
        else:
            seeds = asked if isinstance(asked, range) else [operator.index(seed) for seed in asked]
    except TypeError:
        raise UserError(f"seeds must be {SEEDS}, not {asked!r}") from None
    if isinstance(seeds, list) and (twice := first_twice(seeds)):
        raise UserError(f"seeds names {twice[0]} twice")
    if not 0 < len(seeds) <= MOST_SEEDS:
        given = asked if isinstance(asked, int) else f"{len(seeds)} of them"
        raise UserError(f"seeds must be {SEEDS}, not {given}")
    if min(seeds) < 0 or max(seeds) >= SEEDS_BELOW:
        wrong = min(seeds) if min(seeds) < 0 else max(seeds)
        raise UserError(f"a seed must be from 0 to {SEEDS_BELOW - 1}, not {wrong}")
    return tuple(sorted(seeds))


def _written(text: str) -> int | list[int]:
    """Read a count or ranges."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if not re.fullmatch(r"(\d+-\d+)(,\d+-\d+)*", text):
        raise UserError(f"seeds must be {SEEDS}, not '{text}'")
    ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
    if any(last < first for first, last in ends):
        raise UserError(f"seeds {text} run backwards: a range is such as 8-31")
    if (count := sum(last - first + 1 for first, last in ends)) > MOST_SEEDS:
        raise UserError(f"seeds must be {SEEDS}, not {count} of them")
    return [seed for first, last in ends for seed in range(first, last + 1)]


def ranges(seeds: Iterable[int]) -> str:
    """Write seeds as `seeds_of` reads them, such as "0-9,20-29"."""
    return ",".join(f"{first}-{last}" for first, last in spans(seeds))


def first_twice(values: Sequence[T]) -> list[T]:
    """Return the first value that occurs twice, or nothing."""
    return [value for index, value in enumerate(values) if value in values[:index]][:1]


# Types of parameters: converters of cyclopts take a type and the words of the command line.

Words = Sequence[Token]


def _texts(_: Any, words: Words) -> list[str]:
    return [word.value for word in words]


def _seeds(_: Any, words: Words) -> tuple[int, ...]:
    if len(words) > 1:
        raise UserError("--seeds is given twice")
    return seeds_of(words[0].value)


def _whole(_: Any, words: Words) -> int:
    """Parse a whole number from 0 on, such as 1_000, 50k or 1e6."""
    (word,) = words
    try:
        digits = word.value.replace("_", "")
        scale = {"k": 1e3, "M": 1e6}.get(digits[-1:], 1)
        value = scale * float(digits[:-1] if scale > 1 else digits)
        if value.is_integer():
            return int(value)
    except (ValueError, OverflowError):
        pass
    raise UserError(f"{word.keyword}: '{word.value}' is not a whole number, such as 8, 50k or 1e6")


def _natural(_: Any, words: Words, least: int = 0) -> int:
    if (value := _whole(_, words)) < least:
        raise UserError(f"{words[0].keyword} must be at least {least}, not {value}")
    return value


def _positive(_: Any, words: Words) -> int:
    return _natural(_, words, 1)


def _number(_: Any, words: Words) -> float:
    """Parse a number, or a share such as 5%."""
    (word,) = words
    try:
        return float(word.value.rstrip("%")) / (100 if word.value.endswith("%") else 1)
    except ValueError:
        raise UserError(f"{word.keyword}: '{word.value}' is not a number") from None


SEVERAL = Parameter(converter=_texts, n_tokens=-1, consume_multiple=True, metavar="NAME...")
Names = Annotated[str | Sequence[str], SEVERAL]
OptionalNames = Annotated[str | Iterable[str] | None, SEVERAL]
Whole = Annotated[int | None, Parameter(converter=_whole, metavar="N")]
Natural = Annotated[int | None, Parameter(converter=_natural, metavar="N")]
Positive = Annotated[int | None, Parameter(converter=_positive, metavar="N")]
Number = Annotated[float | None, Parameter(converter=_number, metavar="X")]
Text = Annotated[str | None, Parameter(metavar="TEXT")]
Folder = Annotated[str | Path, Parameter(metavar="DIR")]


def _assignments(parse: Callable[[list[str]], Any], metavar: str) -> Parameter:
    return Parameter(
        converter=lambda _, words: parse(_texts(_, words)),
        n_tokens=-1,
        consume_multiple=True,
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
        set: Settings for all variants.
        vary: Train the baseline, or --variants, at each value.
        base: Use the settings of a preset instead of the task's.
        geometry: Static settings of presets (environments, steps, networks): the preset's own, or
            in common the task's.
        until: Add seeds in stages until every comparison is decided.
        most_seeds: Most seeds of --until; default: 64.
        evaluations: Evaluations per run; 0 for training curves alone.
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
    evaluations: Annotated[Whole, Parameter(group=RARE)]
