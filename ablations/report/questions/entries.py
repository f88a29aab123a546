"""results/questions.toml: tasks with their exam, questions with how each is judged, controls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeVar, get_args

from ablations.core.decode import Json, Matches, Mismatch, Within, decode
from ablations.core.files import read_toml
from ablations.core.plan import Flags
from ablations.errors import UserError, unknown
from ablations.names import NAME
from ablations.report.exam import AT_CEILING, PLACE
from ablations.report.units import LEAD
from ablations.request import Request

Text = Annotated[str, Matches(r"(?s).*\S.*", "a text")]
Id = Annotated[str, Matches(r"[a-z0-9_]+", "small letters, digits and _, as it names a file")]
Positive = Annotated[float, Within(1e-9, 1e12)]
Percent = Annotated[float, Within(0, 1000)]
Statistic = Literal["effect", "difference"]
Group = Literal[
    "Estimators and timeouts",
    "Value loss",
    "Normalisation",
    "Distribution of actions",
    "Policy loss and schedule",
    "Optimiser, networks and initialisation",
    "Whole libraries and practice",
    "Language",
]
GROUPS: tuple[str, ...] = get_args(Group)
SIGNS: Mapping[str, int] = {"higher": 1, "lower": -1, "differs": 0}


@dataclass(frozen=True)
class Exam:
    """What the entrance exam measured on a task's baseline; see docs/evidence.md.

    floor: score of the better policy that learns nothing. score: of the baseline. lead: standard
    deviations between seeds from the one to the other. way: how far that is on the way to the best
    score seen, in %. ceiling: seeds at a ceiling, in %. note: what a reader has to know.
    """

    floor: float
    score: float
    lead: float
    way: Percent
    ceiling: Percent
    note: str = ""

    @property
    def passes(self) -> bool:
        """Return whether the task may judge anything."""
        enough = self.lead >= LEAD and self.way >= 100 * PLACE
        return enough and self.ceiling <= 100 * AT_CEILING


@dataclass(frozen=True)
class Task:
    """A task and the exam of its settings; None where it was not examined.

    about: its settings in words. core_seconds: of a run, as measured.
    """

    name: Text
    about: Text
    core_seconds: Positive
    exam: Exam | None = None

    @property
    def unit(self) -> float | None:
        """What the baseline learned in the exam, in returns; None where it did not pass."""
        exam = self.exam
        return exam.score - exam.floor if exam is not None and exam.passes else None


@dataclass(frozen=True)
class Question:
    """A question with the one comparison that answers it.

    id: names its page. title: in short. question: in a reader's words. direction: of the score with
    the change where its answer is Yes; "differs" is either. sentence: what somebody claims, or its
    negation. source, link, published: who says so, with which numbers. change: "X instead of Y".
    statistic: "effect", of `factor` in a fraction of a factorial, or "difference" of `variant`
    minus `versus`. run: the selection of the study. terms: what a reader would search for.
    """

    id: Id
    group: Group
    title: Text
    question: Text
    sentence: Text
    direction: Literal["higher", "lower", "differs"]
    source: Text
    published: Text
    change: Text
    study: Text
    statistic: Statistic
    tasks: tuple[Text, ...]
    terms: tuple[Text, ...]
    run: Flags
    factor: str = ""
    variant: str = ""
    versus: str = ""
    link: str = ""
    note: str = ""

    @property
    def stated(self) -> int:
        """The sign of an effect that Yes says, 0 of either."""
        return SIGNS[self.direction]

    @property
    def command(self) -> str:
        """The command that runs all of its study; equal ones run the same cells."""
        return Request.of(self.study, self.run).command()


@dataclass(frozen=True)
class Control:
    """What must come out for the answers to be trusted.

    kind: "disjoint" compares halves of one variant's seeds, "difference" two variants; of a
    fraction "dummies" judges details that change nothing, "planted" a loss of 20% of the unit in
    them, and "unused" the columns that no two details have. wanted: in words.
    """

    id: Id
    title: Text
    kind: Literal["disjoint", "difference", "dummies", "planted", "unused"]
    wanted: Text
    study: Text
    tasks: tuple[Text, ...]
    run: Flags
    variant: str = ""
    versus: str = ""

    @property
    def command(self) -> str:
        """The command that runs it."""
        return Request.of(self.study, self.run).command()


@dataclass(frozen=True)
class Questions:
    """All of a file."""

    tasks: Mapping[str, Task] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    controls: tuple[Control, ...] = ()


class _Compared(Protocol):
    """What questions and controls share."""

    @property
    def study(self) -> str: ...

    @property
    def tasks(self) -> tuple[str, ...]: ...

    @property
    def run(self) -> Flags: ...


Entry = TypeVar("Entry", Task, Question, Control)
_TABLES = ("task", "question", "control")


def read(path: Path) -> Questions:
    """Read a file of questions.

    Raises:
        UserError: it cannot be read, or something in it is no task, question or control.
    """
    try:
        tables = read_toml(path)
    except FileNotFoundError:
        raise UserError(f"there are no questions: '{path}' is missing") from None
    except (OSError, ValueError) as error:
        raise UserError(f"'{path}' cannot be read: {error}") from None
    for name in tables:
        if name not in _TABLES:
            raise UserError(f"'{path}': {unknown('table', name, _TABLES)}")
    tasks = _entries(path, tables, "task", Task, "name")
    questions = _entries(path, tables, "question", Question, "id")
    controls = _entries(path, tables, "control", Control, "id")
    if not questions:
        raise UserError(f"'{path}' holds no questions: each begins with [[question]]")
    for question in questions.values():
        _require(path, f"question '{question.id}'", question, tasks)
        _require_compared(f"'{path}': question '{question.id}'", question)
    for control in controls.values():
        _require(path, f"control '{control.id}'", control, tasks)
        needs = {"disjoint": (1, 0), "difference": (1, 1)}.get(control.kind, (0, 0))
        if (bool(control.variant), bool(control.versus)) != tuple(map(bool, needs)):
            lacks = " and ".join(n for n, k in zip(("variant", "versus"), needs, strict=True) if k)
            raise UserError(
                f"'{path}': control '{control.id}': the kind {control.kind} has "
                f"{lacks or 'no variant and no versus'}"
            )
    return Questions(tasks, tuple(questions.values()), tuple(controls.values()))


def _entries(
    path: Path, tables: Mapping[str, Json], table: str, kind: type[Entry], key: str
) -> dict[str, Entry]:
    entries = tables.get(table, [])
    if not isinstance(entries, list):
        raise UserError(f"'{path}': each {table} begins with [[{table}]]")
    found: dict[str, Entry] = {}
    for number, entry in enumerate(entries, 1):
        name = entry.get(key) if isinstance(entry, dict) else None
        where = f"{table} '{name}'" if isinstance(name, str) else f"{table} {number}"
        try:
            decoded = decode(kind, entry)
        except Mismatch as why:
            raise UserError(f"'{path}': {where}: {why}") from None
        if name in found:
            raise UserError(f"'{path}' has two {table}s '{name}'")
        found[str(name)] = decoded
    return found


def _require(path: Path, where: str, entry: _Compared, tasks: Mapping[str, Task]) -> None:
    """Raise UserError for names that cannot be; nothing of a file's is executed."""
    where = f"'{path}': {where}"
    if entry.study.endswith((".toml", ".py")) or not NAME.fullmatch(entry.study):
        raise UserError(f"{where}: '{entry.study}' is no name of a study")
    if not entry.tasks:
        raise UserError(f"{where}: tasks names none")
    for task in entry.tasks:
        if task not in tasks:
            raise UserError(f"{where}: {unknown('task', task, tasks)}")
    if len(set(entry.tasks)) < len(entry.tasks):
        raise UserError(f"{where}: tasks names one twice")
    try:
        Request.of(entry.study, entry.run)
    except UserError as why:
        raise UserError(f"{where}: {why}") from None


def _require_compared(where: str, question: Question) -> None:
    needs = ("factor",) if question.statistic == "effect" else ("variant", "versus")
    for name in ("factor", "variant", "versus"):
        if bool(getattr(question, name)) != (name in needs):
            lacks = "needs" if name in needs else "has no"
            raise UserError(f"{where}: the statistic {question.statistic} {lacks} {name}")
    if not question.terms:
        raise UserError(f"{where}: terms names none")


def core_hours(task: Task, cells: int) -> float:
    """Return what so many cells of a task take."""
    return cells * task.core_seconds / 3600
