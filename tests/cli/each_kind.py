"""A small study of every kind in a results folder of its own, with records that nothing trained."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import math
import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import walk
from msgspec.structs import replace

from ablations.core.plan import CellEntry
from ablations.engine import explanation
from ablations.engine.stored import resolved
from ablations.io.archives import archive
from ablations.io.imports import import_runs
from ablations.records import Plan, Record, read_plan, write_plan, write_record

RESULTS = Path("results")
BEFORE = Path("before")  # of an archive
SEEDS = 5  # the fewest of a baseline
TOY = Path(__file__).parents[1] / "engine" / "toy.py"


class Made(NamedTuple):
    """A study: its name in the results folder, as it is named to commands that resolve it, and the
    flags that this takes."""

    name: str
    argument: str
    flags: tuple[str, ...] = ()
    plugin: tuple[str, ...] = ()


# Records


def curve(cell: CellEntry, metric: str, points: int = 6) -> dict[str, list[Any]]:
    """A curve that rises by 10, with noise of the seed and of the cell, and what trainers record
    beside it."""
    random = np.random.default_rng([cell.seed, int(cell.hash[:8], 16)])
    shared = np.random.default_rng(cell.seed).normal(size=points)
    step = np.arange(1, points + 1) * 1000
    values = 10 * step / step[-1] + 0.3 * shared + 0.1 * random.normal(size=points)
    columns = {
        "step": step.tolist(),
        metric: values.tolist(),
        "training/return": (values + 1).tolist(),
        "evaluation/return": [None] * (points - 1) + [float(values[-1])],
        "training/length": [100.0] * points,
        "loss/value": np.exp(-values).tolist(),
    }
    return columns


Curve = Callable[[Mapping[str, Any], str], dict[str, list[Any]] | None]
Ended = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def done(cell: CellEntry) -> Mapping[str, Any]:
    return {"status": "done"}


def fill(plan: Plan, *, ended: Ended = done, curve: Curve = curve, results: Path = RESULTS) -> Plan:
    """Writes the plan, and a record of every cell that has a curve."""
    write_plan(results, plan)
    for cell in plan.cells:
        columns = curve(cell, plan.study.metric)
        if columns is not None:
            provenance = {"versions": {"jax": "0.10.2"}, "host": "node", "seconds": 1.0}
            record = Record(cell.hash, cell.config, provenance=provenance, **ended(cell))
            write_record(results, record, columns, lasting=False)
    return plan


def smoke(argument: str, *flags: str, **selection: Any) -> Made:
    """A study of the package at its smallest. flags: what else is selected, as the command line
    says it."""
    selection = {"profile": "smoke", "seeds": SEEDS, **selection}
    plan = fill(*resolved([argument], selection))
    given = ("--profile", "smoke", "--seeds", str(selection["seeds"]), *flags)
    return Made(plan.study.name, argument, given)


def toy(name: str = "toy", **selection: Any) -> Plan:
    """The plan of a study of the plugin's."""
    Path("toy.py").write_text(TOY.read_text())
    from ablations import plugins

    plugins.load(["toy"])
    return resolved([name], {"seeds": SEEDS, **selection})[0]


PLUGIN = ("--plugin", "toy")


def of_toy(name: str = "toy", curve: Curve = curve, ended: Ended = done) -> Made:
    fill(toy(name), ended=ended, curve=curve)
    return Made(name, name, ("--seeds", str(SEEDS)), PLUGIN)


def selected(*flags: str, seeds: int = SEEDS, **selection: Any) -> Made:
    """A part of the toy."""
    fill(toy("toy", seeds=seeds, **selection))
    return Made("toy", "toy", ("--seeds", str(seeds), *flags), PLUGIN)


# Without commands and imports

TWO = ("standard", "brax")  # of gae


def with_tasks() -> Made:
    flags = ("--variants", *TWO, "--tasks", "fast", "reacher")
    return smoke("gae", *flags, variants=TWO, tasks=["fast", "reacher"])


def with_looks() -> Made:
    looks = {"profile": "smoke", "until": "decided", "most_seeds": 16, "variants": TWO}
    fill(*resolved(["gae"], looks))
    flags = ("--profile", "smoke", "--until", "decided", "--most-seeds", "16", "--variants", *TWO)
    return Made("gae", "gae", flags)


def explained() -> Made:
    toy()
    request = explanation.request("toy/up", "toy/down", (), {"seeds": SEEDS})
    plan = fill(explanation.plan(request))
    return Made(plan.study.name, plan.study.name, ("--seeds", str(SEEDS)), PLUGIN)


# With what goes wrong

DIVERGED = {"status": "failed", "failure": "diverged", "reason": "training/return became NaN"}


def some_fail(cell: CellEntry) -> Mapping[str, Any]:
    """One variant loses a seed to NaN and one to an error."""
    if cell.variant == "down" and cell.seed == 1:
        return {**DIVERGED, "failed_step": 3000}
    if cell.variant == "down" and cell.seed == 2:
        return {"status": "failed", "failure": "error", "reason": "ValueError: no more"}
    return {"status": "done"}


def all_fail(cell: CellEntry) -> Mapping[str, Any]:
    return {**DIVERGED, "failed_step": 1000}


def partly_nan(cell: CellEntry, metric: str) -> dict[str, list[Any]]:
    """No value early of any cell, and none at the end of one variant."""
    columns = curve(cell, metric)
    columns[metric][0] = None
    if cell.variant == "down":
        columns[metric][-2:] = [None, math.nan]
    return columns


def all_nan(cell: CellEntry, metric: str) -> dict[str, list[Any]]:
    return {**curve(cell, metric), metric: [None] * 6}


def infinite(cell: CellEntry, metric: str) -> dict[str, list[Any]]:
    columns = curve(cell, metric)
    columns[metric][2] = -math.inf
    if cell.variant == "down":
        columns[metric][-1] = math.inf
    return columns


def constant(cell: CellEntry, metric: str) -> dict[str, list[Any]]:
    return {**curve(cell, metric), metric: [1.0] * 6}


def one_point(cell: CellEntry, metric: str) -> dict[str, list[Any]]:
    return {name: values[-1:] for name, values in curve(cell, metric).items()}


def nothing(cell: CellEntry, metric: str) -> None:
    return None


def some(cell: CellEntry, metric: str) -> dict[str, list[Any]] | None:
    return curve(cell, metric) if cell.variant == "up" and cell.seed else None


def no_cells() -> Made:
    write_plan(RESULTS, replace(toy(), cells=()))
    return Made("toy", "toy", ("--seeds", str(SEEDS)), PLUGIN)


# Other people's runs

RUNS = ("ours", "theirs")


def rows(runs: Sequence[str] = RUNS, tasks: Sequence[str] = ("walk",), seeds: int = SEEDS) -> Any:
    for task, (place, run), seed, point in itertools.product(
        tasks, enumerate(runs), range(seeds), range(1, 7)
    ):
        value = point * 2 + place * 0.1 + 0.3 * math.sin(7 * seed + 3 * place + point)
        yield task, run, seed, point * 1000, round(value, 4)


def written(path: Path, header: Sequence[str], lines: Iterable[Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(lines)
    return path


def imported(*paths: Path | str) -> Made:
    import_runs(paths, "mine", RESULTS)
    return Made("mine", "mine")


def wide_csv() -> Made:
    lines = [(*row, row[-1] / 2) for row in rows(tasks=("walk", "run"))]
    return imported(
        written(Path("r.csv"), ("task", "run", "seed", "step", "return", "loss"), lines)
    )


def uneven_csv() -> Made:
    """Other steps per run, one that ends early and one seed that is not there."""
    lines = [
        (run, seed, step + 13 * seed, value)
        for _, run, seed, step, value in rows()
        if not (run == "ours" and seed == 1 and step > 3000) and (run, seed) != ("theirs", 3)
    ]
    return imported(written(Path("r.csv"), ("run", "seed", "step", "return"), lines))


ODD = ("a/b", "50% & <b>|x|", "{seed}_$1^2#~", "größer", "'\"\\", "None")


def odd_names() -> Made:
    lines = rows(ODD, tasks=("my task|/1",))
    return imported(written(Path("r.csv"), ("task", "run", "seed", "step", "return"), lines))


def archived(plan: Plan) -> None:
    """Only the archive stays in the results folder."""
    archive([plan], RESULTS, Path("kept"))
    shutil.move(RESULTS, BEFORE)
    shutil.copytree("kept", RESULTS / "archive")


def archived_import() -> Made:
    made = wide_csv()
    archived(read_plan(RESULTS, made.name))
    return made


# Commands


def command() -> Made:
    for name, text in walk.FILES.items():
        Path(name).write_text(text)
    run("run", "walk.toml", "--quiet")
    return Made("walk", "walk.toml")


def gate() -> Made:
    Path("score.sh").write_text("echo $(($1 + ${2:-0}))")
    flags = ("--first-seeds", "5", "--most-seeds", "6", "--margin", "0.5", "--quiet")
    run("gate", *flags, "--against=1", "--", "sh", "score.sh", "{seed}")
    return Made("gate", "gate")


def run(*arguments: str) -> None:
    from ablations.cli import main

    assert main(arguments) in (0, 1)


EVERY: Mapping[str, Callable[[], Made]] = {
    "on two tasks": with_tasks,
    "until decided": with_looks,
    "preset": lambda: smoke("cleanrl"),
    "factorial": lambda: selected(
        *("--vary", "rate=0.1,0.2", "width=1,2"), vary={"rate": [0.1, 0.2], "width": [1, 2]}
    ),
    "fraction": lambda: smoke("many_choices", seeds=2),
    "language": lambda: smoke("prompt_normalization"),
    "explanation": explained,
    "failures": lambda: of_toy(ended=some_fail),
    "nothing but failures": lambda: of_toy(ended=all_fail),
    "one seed": lambda: selected(seeds=1),
    "without the baseline": lambda: selected("--variants", "down", variants=["down"]),
    "NaN": lambda: of_toy(curve=partly_nan),
    "nothing but NaN": lambda: of_toy(curve=all_nan),
    "infinite": lambda: of_toy(curve=infinite),
    "constant": lambda: of_toy(curve=constant),
    "one point": lambda: of_toy(curve=one_point),
    "some records": lambda: of_toy(curve=some),
    "no records": lambda: of_toy(curve=nothing),
    "no cells": no_cells,
    "uneven CSV": uneven_csv,
    "odd names": odd_names,
    "archive of an import": archived_import,
    "command": command,
    "gate": gate,
}
# Those that differ from "failures" in their numbers alone, and from "language" in their selection
NUMBERS = (
    *("nothing but failures", "one seed", "without the baseline", "NaN", "nothing but NaN"),
    *("infinite", "constant", "one point", "some records", "uneven CSV"),
)
SELECTIONS = ("on two tasks", "until decided", "preset", "factorial", "fraction", "explanation")

# Whose figures are rendered too: shapes, names and numbers that others do not have.
RENDERED = ("one seed", "NaN", "infinite", "constant", "one point", "odd names")


# Commands in a row


class Answer(NamedTuple):
    """code: None after a traceback, which is then in `err`."""

    code: int | None
    out: str
    err: str


def answers(kind: str, commands: Sequence[str]) -> list[Answer]:
    """Makes the study of a kind in this folder, and runs commands about it one after the other.

    commands: with {name}, {argument}, {flags}, {plugin}, and {cell}, the hash of some record.
    """
    sys.path.insert(0, "")
    os.environ["TERM"] = "dumb"
    warnings.simplefilter("always")
    with contextlib.redirect_stdout(io.StringIO()):
        made = EVERY[kind]()
    results = BEFORE if BEFORE.exists() else RESULTS
    cells = [path.name for path in sorted((results / "cells").glob("[!.]*"))]
    words = {
        "{name}": [made.name],
        "{argument}": [made.argument],
        "{flags}": made.flags,
        "{plugin}": made.plugin,
        "{cell}": [cells[0] if cells else "0123456789abcdef"],
    }
    return [
        answer([word for part in command.split() for word in words.get(part, [part])])
        for command in commands
    ]


def answer(arguments: Sequence[str]) -> Answer:
    from ablations.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except BaseException:
            code = None
            traceback.print_exc()
    return Answer(code, out.getvalue(), err.getvalue())


def draw_once(*, rendered: bool) -> None:
    """What takes most of the time: from now on a figure is drawn once, whichever command shows it
    at whatever width, and rendered once or never."""
    from matplotlib.figure import Figure

    from ablations.figures import FIGURES

    drawn: dict[Any, Any] = {}
    saved: set[int] = set()
    render = Figure.savefig

    def once(name: str, draw: Callable[..., Any]) -> Callable[..., Any]:
        def drawn_once(runs: Any, width: Any, **options: Any) -> Any:
            key = (name, runs.plan.study.name, runs.plan.name, runs.metric, runs.score)
            if key not in drawn:
                drawn[key] = draw(runs, width, **options)
            return drawn[key]

        return drawn_once

    def rendered_once(figure: Any, file: Any, **options: Any) -> None:
        if rendered and id(figure) not in saved:
            saved.add(id(figure))
            render(figure, file, **options)
        else:
            file.write(b"<svg/>")

    FIGURES.update({name: once(name, draw) for name, draw in FIGURES.items()})
    Figure.savefig = rendered_once


def main(kind: str, commands: Sequence[str]) -> None:
    """Prints the answers as JSON."""
    draw_once(rendered=kind in RENDERED)
    json.dump(answers(kind, commands), sys.stdout)
