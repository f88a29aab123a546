"""results/questions.toml: tasks with their exam, questions with how each is judged, controls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_args

from ablations.core.decode import Json, Matches, Mismatch, Within, decode
from ablations.core.files import read_toml
from ablations.core.plan import Flags
from ablations.errors import UserError, unknown
from ablations.names import NAME
from ablations.request import Request
from ablations.scoring import AT_CEILING, LEAD
from ablations.scoring import PROGRESS as PLACE

T = TypeVar("T")

Text = Annotated[str, Matches(r"[\s\S]*\S[\s\S]*", "not empty")]
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
    "PPO on discrete actions",
    "PPO on MinAtar",
    "PPO on MuJoCo Playground",
    "Q-learning",
    "Whole libraries and practice",
    "Language",
]
GROUPS: tuple[str, ...] = get_args(Group)
SIGNS: Mapping[str, int] = {"higher": 1, "lower": -1, "differs": 0}


@dataclass(frozen=True)
class Exam:
    """The measurements of the entrance exam on a task's baseline; see docs/evidence.md.

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
        enough = self.score > self.floor and self.lead >= LEAD and self.way >= 100 * PLACE
        return enough and self.ceiling <= 100 * AT_CEILING


@dataclass(frozen=True)
class Task:
    """A task and the exam of its settings; None where it was not examined.

    about: its settings in words. core_seconds: of a run, as measured. runs: the task that studies
    know, where the name says more, as a task has an exam with each algorithm.
    """

    name: Text
    about: Text
    core_seconds: Positive
    exam: Exam | None = None
    runs: str = ""

    @property
    def as_run(self) -> Task:
        """The same under the name that studies know."""
        return replace(self, name=self.runs or self.name)

    @property
    def unit(self) -> float | None:
        """The return that the baseline learned in the exam; None where it did not pass."""
        exam = self.exam
        return exam.score - exam.floor if exam is not None and exam.passes else None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry that rests on the runs of a study.

    title: in short. run: the selection of the study that runs all that it needs.
    """

    title: Text
    study: Text
    tasks: tuple[Text, ...]
    run: Flags

    @property
    def request(self) -> Request:
        """The request of those runs. Raises UserError for a selection that is none."""
        return Request.of(self.study, self.run)

    @property
    def command(self) -> str:
        """The command that runs them; equal ones run the same cells."""
        return self.request.command()


@dataclass(frozen=True, kw_only=True)
class Question(Entry):
    """A question with the one comparison that answers it.

    id: names its page. question: in a reader's words. direction: of the score with
    the change where its answer is Yes; "differs" is either. sentence: what somebody claims, or its
    negation. source, link, published: who says so, with which numbers. change: "X instead of Y".
    statistic: "effect", of `factor` in a fraction of a factorial, or "difference" of `variant`
    minus `versus`. other_design: a study of another fraction with that factor, whose answer stands
    beside. terms: what a reader would search for.
    """

    id: Id
    group: Group
    question: Text
    sentence: Text
    direction: Literal["higher", "lower", "differs"]
    source: Text
    published: Text
    change: Text
    statistic: Statistic
    terms: tuple[Text, ...]
    factor: str = ""
    variant: str = ""
    versus: str = ""
    link: str = ""
    note: str = ""
    other_design: str = ""

    @property
    def stated(self) -> int:
        """The sign of an effect that Yes says, 0 of either."""
        return SIGNS[self.direction]


@dataclass(frozen=True, kw_only=True)
class Control(Entry):
    """A comparison whose outcome is known, as it must be for the answers to be trusted.

    kind: "disjoint" compares halves of one variant's seeds, "difference" two variants; of a
    fraction "dummies" judges details that change nothing, "planted" a loss of 20% of the unit in
    them, and "unused" the columns that no two details have. wanted: in words.
    """

    id: Id
    kind: Literal["disjoint", "difference", "dummies", "planted", "unused"]
    wanted: Text
    variant: str = ""
    versus: str = ""


@dataclass(frozen=True)
class Questions:
    """All of a file."""

    tasks: Mapping[str, Task] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    controls: tuple[Control, ...] = ()


_TABLES = ("task", "question", "control")
_NEEDS = {"factor": "effect", "variant": "difference", "versus": "difference"}


def read(path: Path) -> Questions:
    """Read a file of questions.

    Raises:
        UserError: it cannot be read, or something in it is no task, question or control.
    """
    try:
        content = read_toml(path)
    except FileNotFoundError:
        raise UserError(f"there are no questions: '{path}' is missing") from None
    except (OSError, ValueError) as error:
        raise UserError(f"'{path}' cannot be read: {error}") from None
    for name in content:
        if name not in _TABLES:
            raise UserError(f"'{path}': {unknown('table', name, _TABLES)}")
    tasks = _decoded(path, content, "task", Task, "name")
    questions = _decoded(path, content, "question", Question)
    controls = _decoded(path, content, "control", Control)
    if not questions:
        raise UserError(f"'{path}' holds no questions: each begins with [[question]]")
    for question in questions.values():
        _require_sound(f"'{path}': question '{question.id}'", question, tasks)
    for control in controls.values():
        _require_sound(f"'{path}': control '{control.id}'", control, tasks)
        needs = {"disjoint": (1, 0), "difference": (1, 1)}.get(control.kind, (0, 0))
        if (bool(control.variant), bool(control.versus)) != tuple(map(bool, needs)):
            lacks = " and ".join(n for n, k in zip(("variant", "versus"), needs, strict=True) if k)
            raise UserError(
                f"'{path}': control '{control.id}': the kind {control.kind} has "
                f"{lacks or 'no variant and no versus'}"
            )
    return Questions(tasks, tuple(questions.values()), tuple(controls.values()))


def _decoded(
    path: Path, content: Mapping[str, Json], table: str, kind: type[T], key: str = "id"
) -> dict[str, T]:
    """Decode the entries of a table of a file, each named by its key."""
    entries = content.get(table, [])
    if not isinstance(entries, list):
        raise UserError(f"'{path}' holds no {table}s: each begins with [[{table}]]")
    decoded: dict[str, T] = {}
    for number, entry in enumerate(entries, 1):
        name = entry.get(key) if isinstance(entry, dict) else None
        where = f"{table} '{name}'" if isinstance(name, str) else f"{table} {number}"
        try:
            value = decode(kind, entry)
        except Mismatch as why:
            raise UserError(f"'{path}': {where}: {why}") from None
        if name in decoded:
            raise UserError(f"'{path}' has two {table}s '{name}'")
        decoded[str(name)] = value
    return decoded


def _require_sound(where: str, entry: Question | Control, tasks: Mapping[str, Task]) -> None:
    try:
        # No file: whoever reads somebody's questions executes nothing of theirs.
        if entry.study.endswith((".toml", ".py")) or not NAME.fullmatch(entry.study):
            raise UserError(f"'{entry.study}' is no name of a study")
        if not entry.tasks:
            raise UserError("tasks names none")
        if len(set(entry.tasks)) < len(entry.tasks):
            raise UserError("tasks names one twice")
        _ = entry.request
        if entry.variant and entry.variant == entry.versus:
            raise UserError(f"variant and versus are both '{entry.variant}'")
        for task in entry.tasks:
            if task not in tasks:
                raise unknown("task", task, tasks)
        if isinstance(entry, Question):
            _require_question(entry)
    except UserError as why:
        raise UserError(f"{where}: {why}") from None


def _require_question(question: Question) -> None:
    for name, statistic in _NEEDS.items():
        needed = statistic == question.statistic
        if bool(getattr(question, name)) != needed:
            has = "needs" if needed else "has no"
            raise UserError(f"the statistic {question.statistic} {has} {name}")
    if "tasks" in question.run or "seeds" in question.run:
        raise UserError("run has neither tasks nor seeds: all that ran of them count")
    if question.link and not question.link.startswith(("https://", "http://")):
        raise UserError(f"link is an address that begins with https://, not '{question.link}'")
    if not question.terms:
        raise UserError("terms names none")
    if question.other_design and (
        question.statistic != "effect" or question.other_design == question.study
    ):
        raise UserError("other_design is another study, of an effect")


def core_hours(task: Task, cells: int) -> float:
    """Return what so many cells of a task take."""
    return cells * task.core_seconds / 3600
