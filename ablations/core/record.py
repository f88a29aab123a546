"""Define the parts of a record that are objects in its file.

They stay dictionaries: a hash is of the JSON text of a configuration as it is in the file.
"""

# Not as texts: Python 3.11 reads NotRequired from the annotations themselves.

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, TypeAlias, TypedDict

from ablations.core.decode import Count, Json, Matches, Number, Within

Status = Literal["done", "failed"]
Failure = Literal["diverged", "cut", "error"]
Sha256 = Annotated[str, Matches("[0-9a-f]{64}", "a SHA-256 in hexadecimal")]
Seconds = Annotated[float, Within(0, 1e12)]
Columns: TypeAlias = dict[str, list[Number | None]]  # of a curve: step first; all of one length


class Named(TypedDict):
    """A trainer or a choice in a configuration. revision: of the code that it names."""

    name: str
    revision: NotRequired[int]


class Task(Named):
    """A task in a configuration. settings: name -> value, of what changes the environment."""

    settings: NotRequired[Mapping[str, Json]]


if TYPE_CHECKING:
    AnyTask: TypeAlias = Task
else:
    AnyTask = Task | str  # a name alone in what was imported long ago


class CommandLine(TypedDict, total=False):
    """A command in a configuration, as `ablations.trainers.command.Line` has it.

    revision: the digest of its code.
    """

    run: list[str]
    cwd: str
    curve: str
    metric: str
    step: str
    better: str
    environment: Mapping[str, str]
    resume: list[str]
    resume_if: str
    revision: str


class Run(TypedDict, total=False):
    """The length of a training, and its evaluations.

    Points of its curve, updates between two of them, environment steps of an update. arithmetic:
    only in older records.
    """

    points: Count
    updates_per_chunk: Count
    iteration_steps: Count
    evaluations: Count
    evaluation_envs: Count
    arithmetic: str


class Configuration(TypedDict, total=False):
    """Everything that decides a result.

    choices: component -> choice. numbers, structure: name -> value, of what the composition reads.
    command: of a run that is one. A run that somebody else made has `imported`, `study` and
    `variant`, and neither trainer nor run.
    """

    seed: int
    trainer: Named
    task: AnyTask
    choices: Mapping[str, Named]
    numbers: Mapping[str, float]
    structure: Mapping[str, Json]
    run: Run
    command: CommandLine
    imported: Mapping[str, Json] | None
    study: str
    variant: str


if TYPE_CHECKING:
    RawConfiguration: TypeAlias = Configuration
else:
    RawConfiguration = dict  # of a file that this suite alone writes: as it is, to be hashed


def settings_read(config: Configuration) -> dict[str, Json]:
    """Return what a configuration reads: choices, numbers and structure, by name."""
    choices = {axis: choice["name"] for axis, choice in config.get("choices", {}).items()}
    return {**choices, **config.get("numbers", {}), **config.get("structure", {})}


def steps_at(config: Configuration, point: int) -> int:
    """Return the steps up to a point of a configuration's curve."""
    run = config["run"]
    return point * run["updates_per_chunk"] * run["iteration_steps"]


def steps_of(config: Configuration) -> int:
    """Return the steps of a whole run; 0 for a command without {steps}."""
    return steps_at(config, config["run"]["points"])


class Checkout(TypedDict, total=False):
    """The commit of some code. changed: since; difference: the digest of the patch then."""

    commit: str
    changed: bool
    difference: str


class Saving(TypedDict):
    """The checkpoints of a run: how many, the bytes of the last, the seconds of all."""

    written: int
    bytes: int
    seconds: float


class Provenance(Checkout, total=False):
    """The origin of a record. Never part of a table.

    lanes: runs that ran side by side. log: the last lines of what failed. repository: of a
    command's code. imported: the file of a run that others made.
    """

    versions: Mapping[str, str]
    environment: Mapping[str, str]
    plugins: Mapping[str, str]
    repository: Checkout
    device: str
    devices: int
    lanes: int
    host: str
    processor: str
    c_library: str
    seconds: Seconds
    compile_seconds: Seconds | None
    started: Annotated[float, Within(0, 1e11)]
    steps_per_second: Seconds | None
    peak_megabytes: Seconds | None
    resumed_at_steps: list[int]
    checkpoints: Saving
    log: list[str]
    imported: str


class CurveFile(TypedDict, total=False):
    """The curve's file: its rows and its checksum."""

    rows: Count
    sha256: Sha256


class Policies(TypedDict, total=False):
    """Saved policies: the checksum of each by its step, and which are the best and the last."""

    files: Mapping[Annotated[str, Matches("[0-9]{1,18}", "a step")], Sha256]
    best: Count
    last: Count
