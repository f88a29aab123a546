"""The content of results/questions.toml: tasks with their validation, details and controls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ablations.core.decode import Matches, Mismatch, Within, decode
from ablations.core.files import read_toml
from ablations.core.plan import Flags
from ablations.errors import UserError, unknown
from ablations.request import Request
from ablations.scoring import AT_CEILING, LEAD
from ablations.studies import studies

FILE = "questions.toml"
Text = Annotated[str, Matches(r"[\s\S]*\S[\s\S]*", "not empty")]
Name = Annotated[str, Matches("[a-z0-9_]+", "small letters, digits and '_'")]
Finite = Annotated[float, Within(-1e300, 1e300)]
Percent = Annotated[float, Within(0, 1000)]


class Validation(Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a task's validation, with the baseline's runs; see docs/evidence.md.

    Attributes:
        seeds: number of seeds.
        floor: mean score of the better untrained policy.
        score: mean score of the baseline.
        lead: score - floor, in standard deviations between seeds.
        ceiling: seeds at the highest possible score, in %.
        way: score - floor, in % of the distance from floor to the best known score.
        note: for readers.
    """

    seeds: int
    floor: Finite
    score: Finite
    lead: Finite
    ceiling: Percent
    way: Percent | None = None
    note: str = ""


class Task(Struct, frozen=True, forbid_unknown_fields=True):
    """A task at the settings of some comparisons.

    Attributes:
        name: unique; validation depends on the algorithm, so it may be more than the task's name.
        domain: the column of the list of answers.
        about: the settings in words.
        validation: None if not validated.
        runs: the task's name in studies, if it is not `name`.
        score: of a run; default: the study's.
    """

    name: Text
    domain: Text
    about: Text
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
        if (held := self.validation) is None or held.score <= held.floor:
            return False
        return held.lead >= LEAD and held.ceiling <= 100 * AT_CEILING


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The common part of a comparison and a control.

    Attributes:
        run: the selection of the study that has all runs. A comparison does not select tasks or
            seeds, as all stored runs count.
    """

    id: Name
    study: Text
    tasks: Annotated[tuple[Text, ...], Meta(min_length=1)]
    run: dict[str, Any]
    variant: str = ""
    versus: str = ""
    factor: str = ""

    def request(self, **selection: Any) -> Request:
        """Return the request of all runs, or of a selection. Raises UserError."""
        return Request.of(self.study, Flags(**{**self.run, **selection}))  # type: ignore[typeddict-item]


class Comparison(Entry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one design says about a detail.

    It is the main effect of `factor` in a fractional factorial, or `variant` minus `versus`.

    Attributes:
        reverse: the variant leaves the detail out, so the effect is `versus` minus `variant`.
        range_of: the variant whose score ends the learned range; default: the study's baseline.
        note: for readers.
    """

    reverse: bool = False
    range_of: str = ""
    note: str = ""


class Detail(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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

    id: Name
    topic: Text
    label: Annotated[Text, Meta(max_length=60)]
    question: Text
    change: Text
    sentence: Text
    source: Text
    published: Text
    terms: Annotated[tuple[Text, ...], Meta(min_length=1)]
    comparison: Annotated[tuple[Comparison, ...], Meta(min_length=1)]
    settings: tuple[Text, ...] = ()
    link: Annotated[str, Matches(r"(https?://\S.*)?", "a web address")] = ""
    note: str = ""
    caution: str = ""


class Control(Entry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A comparison with a known outcome. If it fails, the answers of its domain are in doubt.

    Attributes:
        kind: "halves" compares two halves of a variant's seeds. "same" compares two variants that
            do not differ, "bug" a variant that must be worse. A fractional factorial has "placebos"
            (changes without effect), "planted" (a placebo with a loss of 20% of the learned range)
            and "unused" (columns of the design without a factor or an interaction of two).
        expected: the outcome in words.
    """

    label: Annotated[Text, Meta(max_length=60)]
    kind: Literal["halves", "same", "bug", "placebos", "planted", "unused"]
    expected: Text


class Entries(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file."""

    detail: tuple[Detail, ...]
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
    entries: list[Comparison | Control] = [
        *(comparison for detail in file.detail for comparison in detail.comparison),
        *file.control,
    ]
    labelled: list[Detail | Control] = [*file.detail, *file.control]
    names = [f"task '{task.name}'" for task in file.task]
    names += [f"detail '{detail.id}'" for detail in file.detail]
    names += [f"id '{entry.id}'" for entry in entries]
    names += [f"label '{each.label}'" for each in labelled]
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


def _faults(entry: Comparison | Control, tasks: Mapping[str, Task]) -> Iterator[str]:
    if not entry.request().command().isprintable():
        yield "run has a line break or a control character"
    named = (entry.factor != "", entry.variant != "", entry.versus != "")
    if isinstance(entry, Control):
        is_pair = entry.kind in ("same", "bug")
        if named != (False, is_pair or entry.kind == "halves", is_pair):
            yield f"kind '{entry.kind}' needs another number of variants"
    else:
        if named not in ((True, False, False), (False, True, True)):
            yield "needs either factor, or variant and versus"
        if "tasks" in entry.run or "seeds" in entry.run:
            yield "run must not select tasks or seeds: all stored runs count"
    if entry.variant and entry.variant == entry.versus:
        yield f"variant and versus are both '{entry.variant}'"
    yield from _unknown(entry, tasks)
    if len({tasks[name].domain for name in entry.tasks}) > 1:
        yield "its tasks are of several domains"


def _unknown(entry: Comparison | Control, tasks: Mapping[str, Task]) -> Iterator[str]:
    yield from (str(unknown("task", name, tasks)) for name in entry.tasks if name not in tasks)
    known = studies()  # without files of the user: reading questions must not execute code
    if entry.study not in known:
        if not (isinstance(entry, Control) and entry.kind in ("same", "bug")):
            yield str(unknown("study", entry.study, known))
        return  # the study of a control may be a plugin's
    study, names = known[entry.study], {entry.variant, entry.versus}
    varied = {name for name in names if name.partition("@")[0] in study.variants}
    factors = {name for variant in study.variants.values() for name in variant.sets}
    for kind, given, existing in (
        ("profile", [entry.request().profile], study.profiles),
        ("variant", names, {*study.variants, *varied}),
        ("factor", entry.factor.split(", "), factors),
    ):
        yield from (str(unknown(kind, n, existing)) for n in given if n and n not in existing)
