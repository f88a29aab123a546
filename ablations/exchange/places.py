"""Task, run and seed of other people's runs, as a column or a pattern of names states them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ablations.errors import UserError, unknown

TASK = "task"  # of runs whose task nothing states
_FIELDS = {
    "{task}": "(?P<task>.+?)",
    "{run}": "(?P<run>.+?)",
    "{seed}": r"(?P<seed>\d{1,18})",
    "{}": ".+?",
}

Place = tuple[str, str, int]


class Stated(NamedTuple):
    """Task, run and seed that a file itself states, None where it does not."""

    task: str | None = None
    run: str | None = None
    seed: int | None = None


UNSTATED = Stated()


def placed(
    texts: Mapping[Path, str], pattern: str | None, stated: Mapping[Path, Stated]
) -> dict[Place, Path]:
    """Return the source of each task, run and seed.

    Args:
        texts: source -> its name.
        pattern: where names have their parts, such as "{task}/{run}/seed{seed}"; {} is anything.
        stated: what the files themselves say; it counts before their names.

    Raises:
        UserError: a run or a seed is not stated, or two sources have the same ones.
    """
    places: dict[Place, Path] = {}
    for source, text in texts.items():
        place = task, run, seed = _place(text, pattern, stated[source])
        if other := places.get(place):
            raise UserError(
                f"'{source}' and '{other}' are both run '{run}' on '{task}', seed {seed}: tell "
                f"them apart with --pattern, or leave one out"
            )
        places[place] = source
    return places


def _place(text: str, pattern: str | None, stated: Stated) -> Place:
    named = _parts(text, pattern) if pattern else {}
    task = named.get("task", TASK) if stated.task is None else stated.task
    run = named.get("run") if stated.run is None else stated.run
    seed = named.get("seed") if stated.seed is None else stated.seed
    if run is None or seed is None:
        lacking = " and ".join(
            name for name, value in (("run", run), ("seed", seed)) if value is None
        )
        raise UserError(
            f"no column states the {lacking} of '{text}': say where its name has them, such as "
            f"--pattern '{{run}}/{{task}}_{{seed}}' ({{}} is anything)"
        )
    return task, run, int(seed)


def _parts(name: str, pattern: str) -> Mapping[str, str]:
    """Return the parts of a name. Raises UserError where it does not fit the pattern."""
    match = re.fullmatch(_expression(pattern), name)
    if match is None:
        raise UserError(f"'{name}' does not fit the pattern '{pattern}'")
    return match.groupdict()


def _expression(pattern: str) -> str:
    parts = re.split(r"(\{[^{}]*\})", pattern)
    for part in parts:
        if part.startswith("{") and part not in _FIELDS:
            raise unknown("part of a pattern", part, _FIELDS)
    return "".join(_FIELDS.get(part, re.escape(part)) for part in parts)
