"""Define the parts of a stored plan: a study and its flags, as tables need them."""

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
    """A tuned setting: the seeds that it was tuned with, and its values by variant and task."""

    setting: str
    seeds: tuple[Seed, ...]
    values: Mapping[str, Mapping[str, Number]]


class Detail(Part, frozen=True):
    """A detail in which two variants differ.

    settings: name -> its two values. brings: setting -> the coefficients of either value.
    """

    settings: Mapping[str, tuple[Json, Json]]
    brings: Mapping[str, tuple[Settings, Settings]]


class Explanation(Part, frozen=True):
    """A gap between two variants, and the details that explain it.

    orders: seed -> the details in the order in which they are switched. held: settings that both
    variants share.
    """

    start: str
    end: str
    details: Mapping[str, Detail]
    orders: Mapping[Annotated[str, Matches("[0-9]{1,10}", "a seed")], tuple[str, ...]]
    held: Settings


class StoredStudy(Part, frozen=True):
    """A study: its claim, its source, and how it is judged.

    margin: a share of the learned range, or a difference of the metric with margin_in_metric.
    base: the preset whose settings it used. file: the file that defined the study. score: a name of
    `ablations.scoring.SCORES`; None: "final".
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
    """The execution context of a command: it is needed to run it, but results do not depend on it.

    here: the working folder. named: arguments that may be files. depends: files that decide what
    the command does. without: a file that does not. timeout: seconds.
    """

    here: PathText
    named: list[PathText]
    depends: list[PathText] | None
    without: PathText | None
    timeout: float | None


class StoredVariant(Part, frozen=True):
    """A variant of a study.

    versus: the variant that it is compared with; None: the study's baseline. sets: the settings
    that it changes. formulas: component -> its choice; in a grid only choices of no earlier
    variant. same_as: the first variant with the same composition, perhaps itself. neutral: settings
    that its configuration omits because they have their compatible default. place: the execution
    context of its command.
    """

    versus: str | None
    summary: str
    sets: Settings
    formulas: Mapping[str, Formula] | None = None
    same_as: str | None = None
    neutral: Settings | None = None
    place: Context | None = None


class StoredTask(Part, frozen=True):
    """A task: the environment steps of a complete run, and the settings of the baseline."""

    steps: Count
    settings: Settings
    summary: str


class CellEntry(Part, frozen=True):
    """A run of a plan: task, variant, seed, configuration and the configuration's hash."""

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

    seeds: the number of seeds at each of them. comparisons: how many comparisons share the error
    rate on tasks. over_tasks: how many share the error rate over all tasks; 0: there are none.
    """

    seeds: tuple[Positive, ...]
    comparisons: Positive
    over_tasks: Count

    def __bool__(self) -> bool:
        """Return whether seeds are added."""
        return len(self.seeds) > 0


NO_LOOKS = Looks((), 0, 0)


class Flags(TypedDict, total=False):
    """The flags that select a part of a study, as in `ablations.request.Request.flags`."""

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
