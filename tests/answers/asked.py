"""A detail and its comparison on stored runs of known scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from synthetic import spread, study

from ablations.answers.entries import Control, Detail, Entries, Entry, Task, Validation
from ablations.answers.measures import Answers, answer_all
from ablations.studies import fraction

PASSES = Validation(seeds=20, floor=0.0, score=100.0, lead=9.0, ceiling=0.0)
WALKER, ANT = Task("walker2d", "land", "w", PASSES), Task("ant", "land", "a", PASSES)
TASKS = {"walker2d": WALKER, "ant": ANT}
TEXTS = ("id", "label", "topic", "question", "sentence", "source", "published")
Scores = Mapping[tuple[str, str], Sequence[float]]


def comparison(**changes: Any) -> Entry:
    values = {
        **{"id": "a_comparison", "study": "details", "run": {"profile": "evidence"}},
        **{"tasks": ("walker2d", "ant"), "variant": "new", "versus": "old"},
    }
    return Entry(**(values | changes))


def detail(*comparisons: Entry, **changes: Any) -> Detail:
    values: dict[str, Any] = {name: f"a_{name}" for name in TEXTS}
    values |= {"change": "Clipping", "terms": ("GAE",), "comparison": comparisons}
    return Detail(**(values | changes))


def factor(name: str, **changes: Any) -> Entry:
    given = {"factor": name, "variant": "", "versus": "", "tasks": ("walker2d",)}
    return comparison(**(given | changes))


def control(kind: str, **about: Any) -> Control:
    about = {"tasks": ("walker2d",), "run": {"profile": "evidence"}} | about
    return Control(id="c", label="C", kind=kind, expected="e", study="details", **about)  # type: ignore[arg-type]


def around(mean: float, deviation: float = 1.0, seeds: int = 10, stream: int = 0) -> list[float]:
    return spread(mean, deviation, seeds, 7 + stream)


def two_variants(effects: Mapping[str, float], deviation: float = 1.0, seeds: int = 10) -> Scores:
    """Scores of `old`, 100 on each task, and of `new`."""
    return {
        (task, name): around(
            100 + effect * (name == "new"), deviation, seeds, 2 * k + (name == "new")
        )
        for k, (task, effect) in enumerate(effects.items())
        for name in ("old", "new")
    }


def fractional(gain: float, seeds: int = 3, spread: float = 2.0) -> tuple[Scores, dict[str, Any]]:
    """Scores and settings of a fraction of five details: `first` adds gain, `second` costs 40."""
    names = ("first", "second", "third", "fourth", "fifth")
    random, scores, sets = np.random.default_rng(1), {}, {}
    for name, variant in fraction({name: {name: "on"} for name in names}).items():
        own = 100 + gain * ("first" in variant.sets) - 40 * ("second" in variant.sets)
        scores["walker2d", name] = [float(own + spread * x) for x in random.normal(size=seeds)]
        sets[name] = {detail: variant.sets.get(detail, "off") for detail in names}
    return scores, sets


def answers(
    folder: Path,
    scores: Scores,
    *asked: Detail | Entry | Control,
    tasks: Mapping[str, Task] = TASKS,
    **about: Any,
) -> Answers:
    """Store runs and answer; comparisons without a detail get one. about: of `synthetic.study`."""
    study(folder, scores, **about)
    loose = tuple(each for each in asked if type(each) is Entry)
    details = tuple(each for each in asked if isinstance(each, Detail))
    details += (detail(*loose),) if loose else ()
    controls = tuple(each for each in asked if isinstance(each, Control))
    return answer_all(folder, Entries(details, (*tasks.values(),), controls))


def row(folder: Path, scores: Scores, asked: Entry | None = None, **about: Any) -> dict[str, Any]:
    """Return the row of one answer."""
    made = answers(folder, scores, asked or comparison(), **about)
    return made.frame.to_dict("records")[0]
