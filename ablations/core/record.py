"""The parts of a record that are objects in its file."""

# Not as texts: Python 3.11 reads NotRequired from the annotations themselves.

from collections.abc import Mapping
from typing import Annotated, Literal, NotRequired, TypedDict

from ablations.core.decode import Count, Matches, Within, repeated

Status = Literal["done", "failed"]
Failure = Literal["diverged", "cut", "error"]
Sha256 = Annotated[str, Matches("[0-9a-f]{64}", "a SHA-256 in hexadecimal")]
Seconds = Annotated[float, Within(0, 1e12)]


@repeated
class Named(TypedDict):
    """A trainer or a choice in a configuration. revision: of the code that it names."""

    name: str
    revision: NotRequired[int]


@repeated
class Task(Named):
    """A task in a configuration."""

    settings: NotRequired[Mapping[str, object]]


@repeated
class Run(TypedDict, total=False):
    """How long a configuration trains, and where it is evaluated.

    Points of its curve, updates between two of them, environment steps of an update.
    """

    points: Count
    updates_per_chunk: Count
    iteration_steps: Count
    evaluations: Count
    evaluation_envs: Count
    arithmetic: str


class Configuration(TypedDict, total=False):
    """All that decides a result. One that somebody else ran has `imported` and no `trainer`."""

    seed: int
    trainer: Named
    task: Task | str
    choices: Mapping[str, Named]
    numbers: Mapping[str, float]
    structure: Mapping[str, object]
    run: Run
    imported: Mapping[str, object] | None
    command: Mapping[str, object]


class Provenance(TypedDict, total=False):
    """Where a record comes from. Never part of a table."""

    versions: Mapping[str, str]
    environment: Mapping[str, str]
    commit: str
    changed: bool
    device: str
    host: str
    processor: str
    seconds: Seconds
    compile_seconds: Seconds | None
    started: Annotated[float, Within(0, 1e11)]
    steps_per_second: Seconds | None
    peak_megabytes: Seconds | None
    log: list[str]


class CurveFile(TypedDict, total=False):
    """The curve's file: its rows and its checksum."""

    rows: Count
    sha256: Sha256


class Policies(TypedDict, total=False):
    """Saved policies: the checksum of each by its step, and which are the best and the last."""

    files: Mapping[Annotated[str, Matches("[0-9]{1,18}", "a step")], Sha256]
    best: Count
    last: Count
