"""The content of results/questions.toml: tasks with their validation, details and controls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ablations.core.decode import Mismatch, Part, decode
from ablations.core.files import read_toml
from ablations.core.plan import Flags
from ablations.errors import UserError
from ablations.request import Request
from ablations.scoring import AT_CEILING, LEAD

FILE = "questions.toml"


class Validation(Part, frozen=True):
    """The result of a task's validation, with the baseline's runs; see docs/evidence.md.

    Attributes:
        seeds: number of seeds.
        floor, score: mean scores of the better untrained policy and of the baseline.
        lead: score - floor, in standard deviations between seeds.
        ceiling: seeds at the highest possible score, in %.
        way: score - floor, in % of the distance from floor to the best known score.
        note: for readers.
    """

    seeds: int
    floor: float
    score: float
    lead: float
    ceiling: float
    way: float | None = None
    note: str = ""


class Task(Part, frozen=True):
    """A task at the settings of some comparisons.

    Attributes:
        name: unique; validation depends on the algorithm, so it may be more than the task's name.
        domain: the column of the list of answers.
        about: the settings in words.
        validation: None if not validated.
        runs: the task's name in studies, if it is not `name`.
        score: of a run; default: the study's.
    """

    name: str
    domain: str
    about: str
    validation: Validation | None = None
    runs: str = ""
    score: Literal["", "mean", "last"] = ""

    @property
    def column(self) -> str:
        """The task's name in studies."""
        return self.runs or self.name

    @property
    def passes(self) -> bool:
        """Whether the baseline learned enough for the task to count."""
        held = self.validation
        if held is None or held.lead < LEAD or held.score <= held.floor:
            return False
        return held.ceiling <= 100 * AT_CEILING


class Entry(Part, frozen=True, kw_only=True):
    """A comparison, or a control: what one design says.

    It is the main effect of `factor` in a fractional factorial, or `variant` minus `versus`.

    Attributes:
        run: the selection of the study that has all runs. A comparison does not select tasks or
            seeds, as all stored runs count.
        reverse: the variant leaves the detail out, so the effect is `versus` minus `variant`.
        range_of: the variant whose score ends the learned range; default: the study's baseline.
        note: for readers.
    """

    id: str
    study: str
    tasks: tuple[str, ...]
    run: dict[str, Any]
    variant: str = ""
    versus: str = ""
    factor: str = ""
    reverse: bool = False
    range_of: str = ""
    note: str = ""

    def request(self, **selection: Any) -> Request:
        """Return the request of all runs, or of a selection. Raises UserError."""
        return Request.of(self.study, Flags(**{**self.run, **selection}))  # type: ignore[typeddict-item]


class Detail(Part, frozen=True, kw_only=True):
    """A detail of an algorithm, with the comparisons that turn it on.

    Attributes:
        id: the name of the page.
        topic: its section in the list.
        label: short and unique, for figures and lists.
        change: the subject of the answer, such as "Clipping the value loss".
        settings: what it sets; the list shows the values of the libraries.
        sentence, source, link, published: a claim, its source, and the published numbers.
        terms: search words.
        note: for readers of the page.
        caution: a sentence that limits the advice.
    """

    id: str
    topic: str
    label: str
    question: str
    change: str
    sentence: str
    source: str
    published: str
    terms: tuple[str, ...]
    comparison: tuple[Entry, ...]
    settings: tuple[str, ...] = ()
    link: str = ""
    note: str = ""
    caution: str = ""


class Control(Entry, frozen=True, kw_only=True):
    """A comparison with a known outcome. If it fails, the answers of its domain are in doubt.

    Attributes:
        kind: "halves" compares two halves of a variant's seeds. "same" compares two variants that
            do not differ, "bug" a variant that must be worse. A fractional factorial has "placebos"
            (changes without effect), "planted" (a placebo with a loss of 20% of the learned range)
            and "unused" (columns of the design without a factor or an interaction of two).
        expected: the outcome in words.
    """

    label: str
    kind: Literal["halves", "same", "bug", "placebos", "planted", "unused"]
    expected: str


class Entries(Part, frozen=True):
    """The content of the file."""

    detail: tuple[Detail, ...]
    task: tuple[Task, ...] = ()
    control: tuple[Control, ...] = ()

    @property
    def tasks(self) -> Mapping[str, Task]:
        """The tasks by name."""
        return {task.name: task for task in self.task}


def read(path: Path) -> Entries:
    """Read a file of questions. Raises UserError if it is missing or has an invalid key."""
    try:
        return decode(Entries, read_toml(path))
    except FileNotFoundError:
        raise UserError(f"there are no published answers: '{path}' is missing") from None
    except Mismatch as error:
        raise UserError(f"'{path}': {error}") from None
