"""The parts of a plan that are objects in its file."""

# Not as texts: Python 3.11 reads NotRequired from the annotations themselves.

from collections.abc import Mapping
from typing import Annotated, NotRequired, TypedDict

from ablations.core.decode import Count, Matches, Positive, Within, closed
from ablations.core.record import Configuration
from ablations.names import NAME

Name = Annotated[str, Matches(NAME.pattern, "letters, digits, '_', '-' and '.'")]
Seed = Annotated[int, Within(0, 2**31 - 1)]
Names = list[str] | str | None


class Tuned(TypedDict):
    """What was tuned: the setting, on which seeds, and its value by variant and task."""

    setting: str
    seeds: list[Seed]
    values: Mapping[str, Mapping[str, float]]


class Detail(TypedDict):
    """A detail in which two variants differ: each setting's values, and those that come with it."""

    settings: Mapping[str, object]
    brings: NotRequired[Mapping[str, object]]


class Explanation(TypedDict):
    """A gap that is explained: between which variants, by which details, in which order each seed
    switches them, and what stays as it is."""

    start: str
    end: str
    details: Mapping[str, Detail]
    orders: Mapping[Annotated[str, Matches("[0-9]{1,10}", "a seed")], list[str]]
    held: Mapping[str, object]


class Study(TypedDict):
    """A study: what is claimed, by whom, what decides it. margin: a share of what the compared
    variant learned, or of the metric with margin_in_metric."""

    name: Name
    title: str
    claim: str
    claim_source: str
    baseline: str
    margin: Annotated[float, Within(0, 1e12)]
    margin_in_metric: NotRequired[bool]
    metric: str
    step_unit: NotRequired[str]
    base: NotRequired[str]
    file: NotRequired[str]
    tuned: NotRequired[Tuned]
    explanation: NotRequired[Explanation]


class Formula(TypedDict, total=False):
    """A choice that a variant makes."""

    choice: str
    summary: str
    formula: str
    source: str


class Variant(TypedDict):
    """A variant: what it is compared with, what it sets; see `ablations.records.Plan`."""

    versus: str | None
    summary: str
    sets: Mapping[str, object]
    formulas: NotRequired[Mapping[str, Formula]]
    same_as: NotRequired[str]
    neutral: NotRequired[Mapping[str, object]]
    place: NotRequired[Mapping[str, object]]


class Task(TypedDict):
    """A task: the environment steps of a whole run, its settings."""

    steps: Count
    settings: Mapping[str, object]
    summary: str


@closed
class Cell(TypedDict):
    """One cell's place in a plan, its configuration and the hash of that."""

    task: str
    variant: str
    seed: Seed
    hash: Name
    config: Configuration


@closed
class Looks(TypedDict, total=False):
    """How seeds are added: how many there are at each look, and how many comparisons share the
    error rate of the tasks, and of the rows over all tasks."""

    seeds: list[Positive]
    comparisons: Positive
    over_tasks: Count


@closed
class Flags(TypedDict, total=False):
    """The flags that select a part of a study, as `ablations.request.Request.flags` spells them;
    of imported runs their name."""

    profile: str
    tasks: Names
    variants: Names
    seeds: int | str | list[Seed] | None
    until: str | None
    most_seeds: Count | None
    steps: Count | None
    set: Mapping[str, object]
    vary: Mapping[str, list[object]]
    base: str | None
    geometry: str | None
    explain: list[str] | None
    together: list[list[str]]
    imported: str
