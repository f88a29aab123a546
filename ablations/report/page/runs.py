"""The runs of a study on the page, and where each comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ablations.records import Record
from ablations.report.results import Results
from ablations.report.scores import Cell, scores


@dataclass(frozen=True)
class Run:
    """A run, as the table of runs shows it."""

    task: str
    variant: str
    seed: int
    status: str
    score: str
    seconds: str
    started: str
    made_by: str
    hash: str
    render: str | None


class Made(NamedTuple):
    """Provenance that runs share: its letter on the page, and the facts of their records."""

    letter: str
    facts: Mapping[str, str]


class Makers:
    """Provenances of the runs of a page: each different one once, under a letter."""

    def __init__(self) -> None:
        """Begin with none."""
        self._made: dict[str, Made] = {}

    def letter(self, record: Record) -> str:
        """Return the letter of a record's provenance."""
        provenance = _made_by(record)
        key = json.dumps(provenance)
        return self._made.setdefault(key, Made(_letters(len(self._made)), provenance)).letter

    def __iter__(self) -> Iterator[Made]:
        """Iterate over them in the order of their letters."""
        return iter(self._made.values())


def runs(results: Results, folder: Path, makers: Makers) -> tuple[Run, ...]:
    """Return the cells. makers: takes what made them."""
    rendered = _renders(results.folder, folder)
    found_runs = []
    for (cell, record, *_), scored in zip(results.runs(), scores(results).cells, strict=True):
        found_runs.append(
            Run(
                hash=cell.hash,
                task=cell.task,
                variant=cell.variant,
                seed=cell.seed,
                status=scored.status,
                score=f"{scored.value:.5g}" if scored.status == "done" else "",
                seconds=_seconds(record),
                started=_started(record),
                made_by="" if record is None else makers.letter(record),
                render=rendered.get(cell.hash),
            )
        )
    return tuple(found_runs)


def _made_by(record: Record) -> dict[str, str]:
    """Return all of a provenance that is not about one run alone."""
    own = ("seconds", "compile_seconds", "started", "steps_per_second", "versions", "environment")
    shared = {k: v for k, v in record.provenance.items() if k not in own}
    for name in ("versions", "environment"):
        if isinstance(many := record.provenance.get(name), dict) and many:
            shared[name] = ", ".join(f"{k} {v}" for k, v in sorted(many.items()))
    return {str(name): str(value) for name, value in sorted(shared.items())}


def _letters(place: int) -> str:
    """Name a place as spreadsheets do: A, B, ... Z, AA, AB ..."""
    text = ""
    place += 1
    while place:
        place, letter = divmod(place - 1, 26)
        text = chr(65 + letter) + text
    return text


def _seconds(record: Record | None) -> str:
    return (
        f"{record.provenance['seconds']:.1f}" if record and "seconds" in record.provenance else ""
    )


def _started(record: Record | None) -> str:
    if record is None or "started" not in record.provenance:
        return ""
    return datetime.fromtimestamp(record.provenance["started"], UTC).strftime("%Y-%m-%d %H:%M")


def _renders(results: Path, folder: Path) -> dict[str, str]:
    """Map cells to their rendered policies: pages under results/render named by a hash."""
    renders: dict[str, str] = {}
    for path in sorted((results / "render").rglob("*.html")):
        for part in re.findall(r"[0-9a-f]{16}", path.stem):
            up = "../" * len(folder.relative_to(results).parts)
            renders[part] = up + path.relative_to(results).as_posix()
    return renders


def failures(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a line for each failed cell, with its step and its reason."""
    for cell in cells:
        if cell.status == "failed":
            step = "" if cell.failed_step is None else f" at step {cell.failed_step:,}"
            reason = (cell.reason or "").strip().partition("\n")[0]
            yield f"{cell.variant} on {cell.task}, seed {cell.seed}{step}: {reason}"
