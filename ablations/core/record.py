"""Types of the objects in a record's file.

They stay dictionaries, as a run's hash is computed from the JSON text of its configuration.
"""

# Annotations must not be strings: Python 3.11 reads NotRequired from them.

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, TypeAlias, TypedDict

from ablations.core.decode import Count, Json, Matches, Number, Within

Status = Literal["done", "failed"]
Failure = Literal["diverged", "cut", "error"]
Sha256 = Annotated[str, Matches("[0-9a-f]{64}", "a SHA-256 in hexadecimal")]
Seconds = Annotated[float, Within(0, 1e12)]
Columns: TypeAlias = dict[str, list[Number | None]]  # of a curve: step first, equal lengths


class Named(TypedDict):
    """A trainer or a choice in a configuration, with the revision of its code."""

    name: str
    revision: NotRequired[int]


class Task(Named):
    """A task in a configuration, with the settings that change the environment."""

    settings: NotRequired[Mapping[str, Json]]


if TYPE_CHECKING:
    AnyTask: TypeAlias = Task
else:
    AnyTask = Task | str  # old imports have only a name


class CommandLine(TypedDict, total=False):
    """A command in a configuration (`ablations.trainers.command.Line`).

    `revision` is the digest of its code.
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

    points: of the curve.
    updates_per_chunk: updates between two points.
    iteration_steps: environment steps per update.
    """

    points: Count
    updates_per_chunk: Count
    iteration_steps: Count
    evaluations: Count
    evaluation_envs: Count


class Configuration(TypedDict, total=False):
    """Everything that decides the result of a run.

    choices: component -> choice.
    numbers, structure: values of the hyperparameters and static settings that are read.
    command: if the run is a command.
    imported, study, variant: of imported runs, which have neither trainer nor run.
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
    RawConfiguration = dict  # not decoded, so that its hash stays the same


def settings_read(config: Configuration) -> dict[str, Json]:
    """Return the choices, hyperparameters and static settings of a configuration, by name."""
    choices = {axis: choice["name"] for axis, choice in config.get("choices", {}).items()}
    return {**choices, **config.get("numbers", {}), **config.get("structure", {})}


def steps_at(config: Configuration, point: int) -> int:
    """Return the steps up to a point of a configuration's curve."""
    run = config["run"]
    return point * run["updates_per_chunk"] * run["iteration_steps"]


def steps_of(config: Configuration) -> int:
    """Return the steps of a complete run; 0 for a command without {steps}."""
    return steps_at(config, config["run"]["points"])


class Checkout(TypedDict, total=False):
    """The commit of some code; with `changed`, the digest of the uncommitted patch."""

    commit: str
    changed: bool
    difference: str


class Provenance(Checkout, total=False):
    """The origin of a record, which is never part of a table.

    lanes: number of parallel runs.
    log: the last lines of a failed run.
    repository: of a command's code.
    imported: the file of an imported run.
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
    log: list[str]
    imported: str


class CurveFile(TypedDict, total=False):
    """The curve's file: its rows and its checksum."""

    rows: Count
    sha256: Sha256


class Policies(TypedDict, total=False):
    """Saved policies: checksums by step, and the steps of the best and the last."""

    files: Mapping[Annotated[str, Matches("[0-9]{1,18}", "a step")], Sha256]
    best: Count
    last: Count
