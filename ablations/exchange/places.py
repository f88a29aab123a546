"""Task, run and seed in the names that others give to their folders and runs.

Dates, times, rates (lr3e-4, gamma0.99) and versions (-v1, _v2) are no seeds. A run with one file
and no seed has seed 0; for several the seeds are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ablations.errors import UserError, unknown

TASK = "task"
RUN = "run"
SHOWN = 3  # names that a line lists

Place = tuple[str, str, int]

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DATE = (
    r"(?:(?:19|20)\d\d(?P<day>[-_.]?)(?:0[1-9]|1[0-2])(?P=day)(?:0[1-9]|[12]\d|3[01])"
    r"|(?:[012]\d|3[01])[-_.](?:[012]\d|3[01])[-_.](?:19|20)\d\d"
    rf"|{_MONTH}[-_]?\d\d|\d\d[-_]?{_MONTH}(?:[-_]?(?:20)?\d\d)?)"
)
_CLOCK = r"(?:[01]\d|2[0-3])[-_:.h]?[0-5]\d(?:[-_:.m]?[0-5]\d)?s?(?:\.\d+)?Z?"
_STAMP = re.compile(
    rf"[-_. ]*(?<!\d)(?:{_DATE}(?:[-_T .]{{0,2}}{_CLOCK})?"
    r"|(?:[01]\d|2[0-3])(?P<colon>[-:])[0-5]\d(?P=colon)[0-5]\d"
    r"|1\d{9}(?:\d{3})?(?:\.\d+)?)(?!\d)[-_. ]*"
)
_MARKED = re.compile(r"(?i)(?<![a-z])seed[-_= ]?(\d+)(?![\d.])|(?<![a-z\d])s[-_]?(\d+)$")
_ENDING = re.compile(r"(.+?)[-_](\d{1,5})")
_NO_SEED_AFTER = re.compile(r".*(?:\d[eE]|(?<!\d)0|(?:^|[-_ ])(?:v|ver|version|rev))", re.DOTALL)
_GYM = re.compile(r".+-v\d+")


@dataclass(frozen=True)
class Name:
    """A name in its parts.

    seed: None where it says none. marked: whether it says so in words. bare: whether it ends in a
    date alone, so that its run is called as the folder above.
    """

    task: str
    run: str
    seed: int | None
    marked: bool = True
    bare: bool = False

    def beside(self, tasks: Collection[str]) -> Name:
        """Return it with its folder as the task, where runs there have names of their own."""
        folder = self.run if self.task == TASK else f"{self.task}/{self.run}"
        return replace(self, task=folder, run=RUN) if self.bare and folder in tasks else self


class Stated(NamedTuple):
    """Task, run and seed that a file itself states, None where it does not."""

    task: str | None = None
    run: str | None = None
    seed: int | None = None


UNSTATED = Stated()


def placed(
    texts: Mapping[Path, str],
    pattern: str | None,
    notes: list[str],
    stated: Mapping[Path, Stated] | None = None,
) -> dict[Place, Path]:
    """Place sources by their names.

    Args:
        texts: source -> its name.
        pattern: where names have their parts, such as "{task}/{run}/seed{seed}"; without one they
            are read as CleanRL writes them (task__run__seed__time), else for a seed in words or at
            their end.
        notes: takes a line for seeds that no name says.
        stated: what the files themselves say; it counts before their names.

    Raises:
        UserError: two sources are at one place; several of a run have no seed, unless the pattern
            says that there is none: then they are numbered.
    """
    stated = stated or {}
    names = {source: _name(text, pattern, stated.get(source)) for source, text in texts.items()}
    tasks = {name.task for name in names.values() if not name.bare}
    taken_by: dict[Place, Path] = {}
    groups: dict[tuple[str, str], list[Path]] = {}
    for source, name in names.items():
        name = name.beside(tasks)
        if name.seed is None:
            groups.setdefault((name.task, name.run), []).append(source)
        elif other := taken_by.get(place := (name.task, name.run, name.seed)):
            alike = texts[source] == texts[other]
            raise UserError(
                f"'{source}' and '{other}' are both run '{name.run}' on '{name.task}', seed "
                f"{name.seed}: "
                + ("rename or remove one" if alike else "tell them apart with --pattern")
            )
        else:
            taken_by[place] = source
    guessed = [texts[source] for source, name in names.items() if not name.marked]
    if guessed:
        notes.append(
            f"seeds are the numbers at the end of {_listed(guessed)}: --pattern says otherwise"
        )
    alone = [texts[group[0]] for group in groups.values() if len(group) == 1]
    if alone:
        notes.append(f"no seed in {_listed(alone)}: taken for seed 0; --pattern says otherwise")
    for (task, run), group in groups.items():
        if len(group) > 1 and pattern is None:
            raise UserError(
                f"no seed in {_listed([texts[source] for source in group])}, all run '{run}' on "
                f"'{task}': say where it is with --pattern '{{run}}/{{task}}_{{seed}}' or "
                f"--seed-from config.json:seed; a pattern without {{seed}} numbers them"
            )
        taken = {seed for t, r, seed in taken_by if (t, r) == (task, run)}
        free = (seed for seed in range(len(group) + len(taken)) if seed not in taken)
        taken_by |= {(task, run, next(free)): source for source in group}
        if len(group) > 1:
            notes.append(
                f"no seed in {_listed([texts[source] for source in group])}: run '{run}' on "
                f"'{task}', numbered in this order"
            )
    places = {source: place for place, source in taken_by.items()}
    return {places[source]: source for source in texts}


def _name(text: str, pattern: str | None, stated: Stated | None) -> Name:
    """Return a source's name, with what its file says in place of what the name does."""
    task, run, seed = stated or UNSTATED
    if task is not None and run is not None:
        return Name(task, run, seed)
    name = parse(text, pattern)
    return replace(
        name,
        task=name.task if task is None else task,
        run=name.run if run is None else run,
        seed=name.seed if seed is None else seed,
        marked=name.marked or seed is not None,
        bare=name.bare and task is None,
    )


def parse(name: str, pattern: str | None) -> Name:
    """Return task, run and seed in a name. Raises UserError where it does not fit the pattern."""
    if pattern is not None:
        match = re.fullmatch(_expression(pattern), name)
        if match is None:
            raise UserError(f"'{name}' does not fit the pattern '{pattern}'")
        given = match.groupdict()
        seed = given.get("seed")
        return Name(given.get("task", TASK), given.get("run", RUN), int(seed) if seed else None)
    match = re.fullmatch(r"(?:.*/)?([^/]+)__([^/]+)__(\d+)__\d+", name)
    if match:
        return Name(match[1], match[2], int(match[3]))
    parts = _without_empty(_STAMP.sub("_", part) for part in name.split("/"))
    for place in reversed(range(len(parts))):
        if match := _MARKED.search(parts[place]):
            seed = int(next(filter(None, match.groups())))
            before, after = parts[place][: match.start()], parts[place][match.end() :]
            parts[place] = "_".join(_without_empty([before, after], none=""))
            return Name(*_task_and_run(parts), seed)
    if re.fullmatch(r"\d{1,5}", parts[-1]):
        return Name(*_task_and_run(parts[:-1]), int(parts[-1]))
    match = _ENDING.fullmatch(parts[-1])
    if match and not _NO_SEED_AFTER.fullmatch(match[1]):
        return Name(*_task_and_run([*parts[:-1], match[1]]), int(match[2]), marked=False)
    bare = not _STAMP.sub("_", name.rpartition("/")[2]).strip("-_. ")
    return Name(*_task_and_run(parts), None, bare=bare)


def _without_empty(parts: Iterable[str], none: str = RUN) -> list[str]:
    return [plain for part in parts if (plain := part.strip("-_., "))] or [none]


def _task_and_run(parts: Iterable[str]) -> tuple[str, str]:
    """Return the last part as the run, unless it alone is the name of a Gym task.

    A folder called like the run in it, as Spinning Up has them, says nothing more.
    """
    *before, run = _without_empty(parts)
    if before[-1:] == [run]:
        before.pop()
    task = "/".join(before)
    if task and _GYM.fullmatch(run) and not _GYM.fullmatch(before[-1]):
        return run, task
    return task or TASK, run


def _expression(pattern: str) -> str:
    parts = re.split(r"(\{[^{}]*\})", pattern)
    fields = {"{task}": "(?P<task>.+?)", "{run}": "(?P<run>.+?)", "{seed}": r"(?P<seed>\d+)"}
    for part in parts:
        if part.startswith("{") and part not in (*fields, "{}"):
            raise unknown("part of a pattern", part, [*fields, "{}"])
    return "".join(fields.get(p, ".+?" if p == "{}" else re.escape(p)) for p in parts)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:SHOWN]) + more
