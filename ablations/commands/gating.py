"""The command `gate`: is a change an improvement, a regression, or noise?"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

from cyclopts import Parameter, validators

from ablations.engine.backends.command.study_file import line_of, timeout_of
from ablations.engine.local import Processes
from ablations.errors import UserError, printable
from ablations.gate.ledger import (
    CANDIDATES,
    FRESH,
    Ledger,
    Terms,
    judge,
    read_ledger,
    require_untracked,
    shared_words,
    sound_terms,
)
from ablations.gate.question import (
    FIRST_SEEDS,
    FUTILITY,
    MOST_SEEDS,
    RATE,
    Margin,
    Question,
    Sides,
    compared_sides,
    current_side,
)
from ablations.gate.run import Gate, stages_table
from ablations.gate.run import noise as noise_table
from ablations.parameters import RARE, Folder, Minutes, Number, OptionalNames, Positive, Text, Whole
from ablations.tables.formats import format_table

# The other terms of a gate and of a ledger, which keeps them
_TERMS: Mapping[str, Any] = {
    **{"rate": RATE, "first_seeds": FIRST_SEEDS, "most_seeds": MOST_SEEDS, "futility": FUTILITY},
    "depends": None,
}
_OF_LINE = ("curve", "metric", "step", "better")


def gate(  # noqa: PLR0913 - each is a flag
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    baseline: Annotated[Text, Parameter(metavar="COMMIT")] = None,
    against: Annotated[Text, Parameter(metavar="ARGS", allow_leading_hyphen=True)] = None,
    noise: bool = False,
    curve: Annotated[str, Parameter(metavar="FILE")] = "stdout",
    metric: Annotated[str, Parameter(metavar="NAME")] = "result",
    step: Annotated[str, Parameter(metavar="NAME")] = "",
    better: Literal["higher", "lower"] = "higher",
    margin: Annotated[Text, Parameter(metavar="SIZE")] = None,
    require: Literal["better"] | None = None,
    rate: Annotated[Number, Parameter(validator=validators.Number(gt=0, lt=0.5))] = None,
    futility: Annotated[
        Number, Parameter(group=RARE, validator=validators.Number(gte=0, lt=0.5))
    ] = None,
    first_seeds: Positive = None,
    most_seeds: Positive = None,
    timeout: Annotated[Text, Parameter(group=RARE)] = None,
    minutes: Minutes = None,
    depends: Annotated[OptionalNames, Parameter(group=RARE, metavar="FILE...")] = None,
    name: Annotated[str, Parameter(group=RARE)] = "gate",
    workers: Annotated[Positive, Parameter(group=RARE)] = None,
    threads: Annotated[Positive, Parameter(group=RARE)] = None,
    ledger: Annotated[str | Path | None, Parameter(metavar="FILE")] = None,
    candidates: Annotated[Positive, Parameter(group=RARE)] = None,
    fresh: Annotated[Whole, Parameter(group=RARE)] = None,
    quiet: bool = False,
    format: Literal["text", "markdown", "json"] = "text",
    results: Folder = "results",
) -> int:
    """Run a command before and after a change, compare, and return the exit code.

    0: no worse. 1: worse. 3: undecided. Write -- before the command.

    Args:
        command: The command, with {seed}, and {folder} where it writes its curve there.
        baseline: Compare the current files with this commit.
        against: Arguments that only the baseline's command has, such as '--lr 3e-4'.
        noise: Only measure how much runs differ, and which margins can be decided.
        curve: Where a run writes its curve, such as {folder}/log.csv; default: its output.
        metric: A column, or the text before a colon; default: a number on a line of its own.
        step: The column of steps.
        better: higher (default) or lower.
        margin: The difference that does not matter: 2% of what the baseline learned (of its mean,
            where a run is one number), or 0.5 in units of the metric.
        require: better: pass only improvements; default: pass what is no worse.
        rate: Rate of false alarms and of false passes; default: 5%.
        futility: End early below this probability of a pass; default: 10%; 0: never.
        first_seeds: Runs of the first stage; default: 5.
        most_seeds: Runs of the last stage; default: 32.
        timeout: Time limit of a run, such as 2h.
        minutes: End after this many minutes; the same command continues.
        depends: Files that the command depends on; default: the repository.
        name: Name of the results; default: gate.
        workers: Processes; default: one per core.
        threads: Threads of each command.
        ledger: Judge many candidates against the best so far, and record them in this file. The
            first call records the first best. Without a command: print the file.
        candidates: How many candidates share the error rate; default: 50.
        fresh: Held-out seeds that estimate an accepted gain again; default: 5.
        quiet: Print only the verdict.
        format: text, markdown (with a table of the stages) or json.
        results: The results folder; default: results.
    """
    options = SimpleNamespace(**locals())
    options.words, options.results = list(command), Path(results)
    options.quiet = quiet or format != "text"
    options.deadline = None if minutes is None else time.monotonic() + 60 * minutes
    if ledger:
        return _book(options, Path(ledger))
    _refuse(options, ("candidates", "fresh"), "is for a ledger: add --ledger FILE")
    if not command:
        raise UserError("a gate needs a command: `ablations gate ... -- python train.py ...`")
    if command[0].startswith("-"):
        raise UserError(f"unknown flag {command[0]} (see `ablations gate --help-all`)")
    if noise:
        return _noise(options)
    question = _question(options)
    sides = compared_sides(question, Path.cwd())
    judged = _gate(options, question, sides)
    verdict = judged.run()
    path, described = judged.write(verdict)
    if format == "json":
        print(path.read_text(), end="")
        return verdict.code
    _print_line(described)
    if format == "markdown":
        print()
        print(format_table(stages_table(verdict), "markdown"))
    elif not quiet:
        print(path)
    return verdict.code


def _refuse(options: SimpleNamespace, flags: Iterable[str], why: str) -> None:
    for flag in flags:
        if getattr(options, flag) not in (None, False):
            raise UserError(f"--{flag.replace('_', '-')} {why}")


def _print_line(described: Mapping[str, Any]) -> None:
    print(described["line"])
    for line in described["log"]:
        print(printable(f"    | {line}"))


def _book(options: SimpleNamespace, path: Path) -> int:
    """Judge a candidate against the best of a ledger, or print the ledger."""
    known = read_ledger(path)
    if not options.words:
        if known is None:
            raise UserError(f"the ledger '{path}' does not exist: give a command to create it")
        print(format_table(known.table(), "json" if options.format == "json" else "markdown"))
        return 0
    _refuse(options, ("noise", "baseline", "against"), "goes without --ledger: omit one of them")
    require_untracked(path)
    question = _question(options, margin=False)
    terms = _terms(options, question, known)
    booked = judge(path, question, terms, partial(_gate, options))
    if options.format == "json":
        print(json.dumps({"ledger": str(path), **booked}, indent=1, allow_nan=False))
    else:
        _print_line(booked)
    return int(booked["exit_code"])


def _terms(options: SimpleNamespace, question: Question, known: Ledger | None) -> Terms:
    """Return the terms of a ledger. Raises UserError if flags contradict them."""
    terms, line = known.opening.terms if known else None, question.line
    defaults = {**_TERMS, "candidates": CANDIDATES, "fresh": FRESH, "steps": None}
    asked = {name: getattr(options, name, None) for name in defaults}
    asked |= {"margin": options.margin, "depends": question.depends}
    asked = {name: value for name, value in asked.items() if value is not None}
    asked |= {name: getattr(line, name) for name in _OF_LINE}
    asked["run"] = shared_words(line.run, terms.run if terms else None)
    if terms is None:
        return sound_terms(defaults | asked)
    for name, value in asked.items():
        kept = getattr(terms, name)
        if kept != value and not (name == "margin" and Margin.read(kept) == question.margin):
            raise UserError(f"this ledger has {name} {kept}, not {value}: start another ledger")
    return terms


def _gate(options: SimpleNamespace, question: Question, sides: Sides) -> Gate:
    processes = Processes(workers=options.workers, threads=options.threads, quiet=options.quiet)
    return Gate(question, options.results, sides, processes, options.deadline)


def _noise(options: SimpleNamespace) -> int:
    others = ("margin", "baseline", "against", "require", "minutes", "most_seeds", "futility")
    _refuse(options, others, "goes without --noise, which only runs the command a few times")
    options.name = "noise" if options.name == "gate" else options.name
    options.most_seeds = max(options.first_seeds or FIRST_SEEDS, MOST_SEEDS)
    question = _question(options, margin=False)
    side = current_side(question, Path.cwd())
    scores = _gate(options, question, Sides(side, side)).baseline_scores()
    if (n := len(scores)) < 2:
        raise UserError(f"{n} of {question.first_seeds} runs have a value: 2 are needed")
    frame = noise_table(question.line.judged, scores, question.rate)
    print(format_table(frame, "json" if options.format == "json" else "markdown"))
    if options.format != "json":
        margin, runs = frame.margin[1], frame.runs[1]
        paste = f"a line to paste: --margin {margin:.3g} --first-seeds {runs}"
        same = "every run gave one number: any --margin above 0 can be decided, unless a {seed} is"
        print(f"\n{paste if margin else f'{same} ignored'}")
    return 0


def _question(options: SimpleNamespace, *, margin: bool = True) -> Question:
    if options.margin is None and margin:
        raise UserError("a gate needs --margin, the difference that does not matter; --noise helps")
    try:
        against = tuple(shlex.split(options.against or ""))
    except ValueError as error:
        raise UserError(f"cannot split --against into arguments: {error}") from None
    given = {name: getattr(options, name) for name in _TERMS if getattr(options, name) is not None}
    of_line = {name: getattr(options, name) for name in _OF_LINE}
    return Question(
        line=line_of({"run": options.words, **of_line}),
        margin=Margin(1.0, share=False) if options.margin is None else Margin.read(options.margin),
        baseline=options.baseline,
        against=against,
        better=options.require == "better",
        timeout=timeout_of(options.timeout),
        name=options.name,
        **{**_TERMS, **given, "depends": given.get("depends") and tuple(given["depends"])},
    )
