"""The content of results/questions.toml: tasks with their validation, questions and controls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ablations.core.decode import Matches, Mismatch, Within, decode
from ablations.core.files import read_toml
from ablations.core.plan import Flags
from ablations.errors import UserError, unknown
from ablations.request import Request
from ablations.scoring import AT_CEILING, LEAD, PROGRESS
from ablations.studies import studies

FILE = "questions.toml"
Text = Annotated[str, Matches(r"[\s\S]*\S[\s\S]*", "not empty")]
Finite = Annotated[float, Within(-1e300, 1e300)]
Percent = Annotated[float, Within(0, 1000)]


class Exam(Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a task's validation, with the baseline's runs; see docs/evidence.md.

    Attributes:
        floor: mean score of the better untrained policy.
        score: mean score of the baseline.
        lead: score - floor, in standard deviations between seeds.
        way: score - floor, in % of the distance from floor to the best known score.
        ceiling: seeds at the highest possible score, in %.
        note: for readers.
    """

    floor: Finite
    score: Finite
    lead: Finite
    way: Percent
    ceiling: Percent
    note: str = ""


class Task(Struct, frozen=True, forbid_unknown_fields=True):
    """A task at the settings of some questions.

    Attributes:
        name: unique; validation depends on the algorithm, so it may be more than the task's name.
        about: the settings in words.
        exam: None if not validated.
        runs: the task's name in studies, if it is not `name`.
    """

    name: Text
    about: Text
    exam: Exam | None = None
    runs: str = ""

    @property
    def column(self) -> str:
        """The task's name in studies."""
        return self.runs or self.name

    @property
    def range(self) -> float | None:
        """The learned range; None if the baseline learned too little for the task to count."""
        if (exam := self.exam) is None or exam.score <= exam.floor or exam.lead < LEAD:
            return None
        passes = exam.way >= 100 * PROGRESS and exam.ceiling <= 100 * AT_CEILING
        return exam.score - exam.floor if passes else None


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The common part of a question and a control.

    Attributes:
        id: the name of the page.
        label: short and unique, for figures and lists.
        run: the selection of the study that has all runs. A question does not select tasks or
            seeds, as all stored runs count.
    """

    id: Annotated[str, Matches("[a-z0-9_]+", "small letters, digits and '_'")]
    label: Annotated[Text, Meta(max_length=60)]
    study: Text
    tasks: Annotated[tuple[Text, ...], Meta(min_length=1)]
    run: dict[str, Any]
    variant: str = ""
    versus: str = ""
    factor: str = ""

    def request(self, **selection: Any) -> Request:
        """Return the request of all runs, or of a selection. Raises UserError."""
        return Request.of(self.study, Flags(**{**self.run, **selection}))  # type: ignore[typeddict-item]


class Question(Entry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question and the comparison that answers it.

    The answer is the main effect of `factor` in a fractional factorial, or `variant` minus
    `versus`.

    Attributes:
        group: its section in the list.
        change: the subject of the answer, such as "Clipping the value loss".
        sentence, source, link, published: a claim, its source, and the published numbers.
        terms: search words.
        other_design: a study of another fraction with this factor.
    """

    group: Text
    question: Text
    change: Text
    sentence: Text
    source: Text
    published: Text
    terms: Annotated[tuple[Text, ...], Meta(min_length=1)]
    link: Annotated[str, Matches(r"(https?://\S.*)?", "a web address")] = ""
    note: str = ""
    other_design: str = ""

    def elsewhere(self) -> Question | None:
        """Return the question with its other design, or None."""
        other = self.other_design
        return msgspec.structs.replace(self, study=other, other_design="") if other else None

    def matches(self, word: str, *, anywhere: bool) -> bool:
        """Return whether a word is the id or a search word, or occurs `anywhere` in the texts."""
        terms = [text.lower() for text in (self.id, *self.terms)]
        if not anywhere:
            return word.lower().replace("-", "_") in terms or word.lower() in terms
        text = " ".join([*terms, self.label, self.question, self.sentence]).lower()
        return len(word) > 2 and all(part in text for part in word.lower().split())


class Control(Entry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A comparison with a known outcome. If it fails, the answers of its study are in doubt.

    Attributes:
        kind: "halves" compares two halves of a variant's seeds, "difference" two variants. A
            fractional factorial has "placebos" (changes without effect), "planted" (positive
            control: a placebo with a loss of 20% of the learned range) and "unused" (columns of the
            design without a factor or an interaction of two).
        expected: the outcome in words.
    """

    kind: Literal["halves", "difference", "placebos", "planted", "unused"]
    expected: Text


class Entries(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file."""

    question: tuple[Question, ...]
    task: tuple[Task, ...] = ()
    control: tuple[Control, ...] = ()

    @property
    def tasks(self) -> Mapping[str, Task]:
        """The tasks by name."""
        return {task.name: task for task in self.task}


def read(path: Path) -> Entries:
    """Read a file of questions.

    Raises:
        UserError: the file is missing, or an entry is invalid or names something unknown.
    """
    content: dict[str, Any] = {}
    try:
        content = read_toml(path)
        file = decode(Entries, content)
    except FileNotFoundError:
        raise UserError(f"there are no published answers: '{path}' is missing") from None
    except Mismatch as error:
        line = str(error)
        if at := re.match(r"(\w+)\[(\d+)\][.:] ?", line):
            entry = content[at[1]][int(at[2])]
            name = entry.get("id", entry.get("name")) if isinstance(entry, dict) else entry
            line = f"{at[1]} '{name}': {line[at.end() :]}"
        raise UserError(f"'{path}': {line}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read '{path}': {error}") from None
    entries: list[Question | Control] = [*file.question, *file.control]
    names = [f"task '{task.name}'" for task in file.task]
    names += [f"{kind} '{getattr(e, kind)}'" for e in entries for kind in ("id", "label")]
    if twice := [name for name, used in Counter(names).items() if used > 1]:
        raise UserError(f"'{path}' has the {twice[0]} twice")
    for entry in entries:
        try:
            why = next(_faults(entry, file.tasks), "")
        except UserError as error:  # of the selection
            why = str(error)
        if why:
            raise UserError(f"'{path}': {type(entry).__name__.lower()} '{entry.id}': {why}")
    return file


def _faults(entry: Question | Control, tasks: Mapping[str, Task]) -> Iterator[str]:
    if not entry.request().command().isprintable():
        yield "run has a line break or a control character"
    named = (entry.factor != "", entry.variant != "", entry.versus != "")
    if isinstance(entry, Control):
        is_pair = entry.kind == "difference"
        if named != (False, is_pair or entry.kind == "halves", is_pair):
            yield f"kind '{entry.kind}' needs another number of variants"
    else:
        if named not in ((True, False, False), (False, True, True)):
            yield "needs either factor, or variant and versus"
        if "tasks" in entry.run or "seeds" in entry.run:
            yield "run must not select tasks or seeds: all stored runs count"
        if entry.other_design and (not entry.factor or entry.other_design == entry.study):
            yield "other_design must be another study with the same factor"
        if other := entry.elsewhere():
            yield from _unknown(other, tasks)
    if entry.variant and entry.variant == entry.versus:
        yield f"variant and versus are both '{entry.variant}'"
    yield from _unknown(entry, tasks)


def _unknown(entry: Question | Control, tasks: Mapping[str, Task]) -> Iterator[str]:
    known = studies()  # without files of the user: reading questions must not execute code
    if entry.study not in known:
        yield str(unknown("study", entry.study, known))
        return
    study, names = known[entry.study], {entry.variant, entry.versus}
    varied = {name for name in names if name.partition("@")[0] in study.variants}
    factors = {name for variant in study.variants.values() for name in variant.sets}
    for kind, given, existing in (
        ("task", entry.tasks, tasks),
        ("profile", [entry.request().profile], study.profiles),
        ("variant", names, {*study.variants, *varied}),
        ("factor", entry.factor.split(", "), factors),
    ):
        yield from (str(unknown(kind, n, existing)) for n in given if n and n not in existing)
