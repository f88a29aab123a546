"""Define the parts of a stored plan: a study and its flags, resolved to all that a table needs."""

# Not as texts: Python 3.11 reads NotRequired from the annotations themselves.

from collections.abc import Mapping
from typing import Annotated, TypedDict

from ablations.core.decode import Count, Json, Matches, Number, Part, PathText, Positive, Within
from ablations.core.record import Checkout, Configuration
from ablations.names import NAME

Name = Annotated[str, Matches(NAME.pattern, "letters, digits, '_', '-' and '.'")]
Seed = Annotated[int, Within(0, 2**31 - 1)]
Names = list[str] | str | None
Settings = Mapping[str, Json]  # name -> its value


class Tuned(Part, frozen=True):
    """A setting that was tuned: on which seeds, and its value by variant and task."""

    setting: str
    seeds: tuple[Seed, ...]
    values: Mapping[str, Mapping[str, Number]]


class Detail(Part, frozen=True):
    """A detail in which two variants differ.

    settings: name -> its two values. brings: setting -> the numbers that come with either value.
    """

    settings: Mapping[str, tuple[Json, Json]]
    brings: Mapping[str, tuple[Settings, Settings]]


class Explanation(Part, frozen=True):
    """A gap between two variants, and the details that explain it.

    orders: seed -> the details in the order in which it switches them. held: settings that both
    ends share.
    """

    start: str
    end: str
    details: Mapping[str, Detail]
    orders: Mapping[Annotated[str, Matches("[0-9]{1,10}", "a seed")], tuple[str, ...]]
    held: Settings


class StoredStudy(Part, frozen=True):
    """A study: its claim, its source, and how it is judged.

    margin: a share of what the compared variant learned, or of the metric with margin_in_metric.
    base: the preset inside whose settings it ran. file: the study file that defined it. score: of
    its evaluations, a name of `ablations.scoring.SCORES`; None: "final".
    """

    name: Name
    title: str
    claim: str
    claim_source: str
    baseline: str
    margin: Annotated[float, Within(0, 1e12)]
    margin_in_metric: bool
    metric: str
    step_unit: str | None = None
    base: str | None = None
    file: PathText | None = None
    tuned: Tuned | None = None
    explanation: Explanation | None = None
    score: str | None = None


class Formula(Part, frozen=True):
    """A choice that a variant makes for a component."""

    choice: str
    summary: str
    formula: str
    source: str


class Context(Checkout, total=False):
    """The execution context of a command: what running it needs and no result depends on.

    here: its folder. named: its arguments, of which some name files. depends, without: files that
    decide what it does, and one that does not. timeout: in seconds.
    """

    here: PathText
    named: list[PathText]
    depends: list[PathText] | None
    without: PathText | None
    timeout: float | None


class StoredVariant(Part, frozen=True):
    """A variant of a study.

    versus: what it is compared with; None for the study's baseline. sets: what it changes.
    formulas: component -> its choice; of a grid, those that no earlier variant has. same_as: the
    first variant of the same composition, itself where there is no other. neutral: of what variants
    set, what its configuration leaves out. place: what running it needs and no result depends on.
    """

    versus: str | None
    summary: str
    sets: Settings
    formulas: Mapping[str, Formula] | None = None
    same_as: str | None = None
    neutral: Settings | None = None
    place: Context | None = None


class StoredTask(Part, frozen=True):
    """A task: the environment steps of a whole run, and the settings of the baseline's runs."""

    steps: Count
    settings: Settings
    summary: str


class CellEntry(Part, frozen=True):
    """A run of a plan: its place, its configuration and the hash of that."""

    task: str
    variant: str
    seed: Seed
    hash: Name
    config: Configuration

    @property
    def place(self) -> tuple[str, str, int]:
        """Return (task, variant, seed), which no other run of the plan has."""
        return self.task, self.variant, self.seed


class Looks(Part, frozen=True):
    """The interim analyses at which seeds are added.

    seeds: in all at each of them. comparisons: how many share the error rate of the tasks.
    over_tasks: how many share that of the rows over all tasks, 0 where there are none.
    """

    seeds: tuple[Positive, ...]
    comparisons: Positive
    over_tasks: Count

    def __bool__(self) -> bool:
        """Return whether seeds are added."""
        return len(self.seeds) > 0


NO_LOOKS = Looks((), 0, 0)


class Flags(TypedDict, total=False):
    """The flags that select a part of a study, as `ablations.request.Request.flags` spells them.

    Of imported runs it is their name.
    """

    profile: str
    tasks: Names
    variants: Names
    seeds: int | str | list[Seed] | None
    until: str | None
    most_seeds: Count | None
    steps: Count | None
    set: Settings
    vary: Mapping[str, list[Json]]
    base: str | None
    geometry: str | None
    explain: list[str] | None
    together: list[list[str]]
    imported: str
