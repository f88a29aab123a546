"""The command `gate`: is a change an improvement, a regression, or noise?"""

from __future__ import annotations

import argparse
import json
import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ablations.cli.arguments import Parser, add_flags, positive, whole
from ablations.core.decode import Json
from ablations.errors import UserError, printable
from ablations.gate import (
    FIRST_SEEDS,
    FUTILITY,
    MOST_SEEDS,
    RATE,
    Gate,
    Margin,
    Question,
    compared_sides,
    ledger,
    noise,
)
from ablations.gate.ledger import Booking, Ledger, Terms
from ablations.gate.run import Execution, stages_table
from ablations.sweep.backends.command.study_file import line_of, timeout_of
from ablations.sweep.local import Processes
from ablations.tables.formats import format_table
from ablations.trainers.command import Line


def add_gate(command: Parser) -> None:
    """Add the flags of `gate`."""
    command.add_argument(
        "words",
        nargs="*",
        metavar="-- COMMAND",
        help="with {seed}, and {folder} where it writes its curve there",
    )
    group = command.add_argument_group("what is compared")
    add_flags(group, {"--baseline COMMIT": "against the files as they are"})
    add_flags(
        group,
        {
            "--noise": "instead of a comparison: run the command a few times, and say how much its "
            "runs differ and what margin so many of them can decide"
        },
        action="store_true",
    )
    add_flags(
        group, {"--against ARGS": "what the baseline's command has more: --against='--lr 3e-4'"}
    )
    group = command.add_argument_group("many candidates against the best so far")
    add_flags(
        group,
        {
            "--ledger FILE": "book this candidate there: one error budget for all, the accepted "
            "one is the best from then on; the first call, without --baseline, books the first "
            "best; without a command: print it"
        },
        type=Path,
    )
    add_flags(group, {"--candidates N": "that the budget is for; default: 50"}, type=positive)
    add_flags(
        group,
        {"--fresh N": "seeds on which an accepted gain is estimated anew; default: 5"},
        type=whole,
    )
    group = command.add_argument_group("the result of a run")
    add_flags(
        group,
        {"--curve FILE": "such as {folder}/log.csv; default: what the command prints"},
        default="stdout",
    )
    add_flags(
        group,
        {"--metric NAME": "column, or text before a colon; default: a number on a line of its own"},
        default="result",
    )
    add_flags(group, {"--step NAME": "the column that counts"}, default="")
    add_flags(group, {"--better": None}, choices=("higher", "lower"), default="higher")
    group = command.add_argument_group("what is decided, and how surely")
    add_flags(
        group,
        {
            "--margin SIZE": "the difference that does not matter: 2%% of what the baseline "
            "learned (of its mean, where a run is one number), or 0.5 in units of the metric"
        },
    )
    add_flags(
        group, {"--require": "pass only what gains; default: what is no worse"}, choices=("better",)
    )
    add_flags(
        group, {"--rate SHARE": "of false alarms and of false passes; default: 5%%"}, type=_share
    )
    add_flags(
        group,
        {
            "--futility SHARE": "end early where the chance to pass still, were the change worth "
            "it, is below this; default: 10%%; 0: never"
        },
        type=_chance,
    )
    add_flags(
        group, {"--first-seeds N": "default: 5", "--most-seeds N": "default: 32"}, type=positive
    )
    group = command.add_argument_group("how it runs")
    add_flags(group, {"--steps N": "what {steps} is"}, type=whole)
    add_flags(group, {"--timeout T": "of a run, such as 2h"})
    add_flags(
        group,
        {"--minutes M": "end after so long; the same call goes on where it was"},
        type=_minutes,
    )
    add_flags(
        group, {"--depends FILE": "what the command rests on; default: the repository"}, nargs="+"
    )
    add_flags(group, {"--name": "of its results; default: gate"}, default="gate")
    add_flags(
        group,
        {"--workers N": "default: one per core", "--threads N": "of each command"},
        type=positive,
    )
    add_flags(
        group,
        {
            "--quiet": "the verdict alone",
            "--markdown": "the verdict and a table of its stages",
            "--json": "the verdict as JSON on stdout",
        },
        action="store_true",
    )


def run_gate(options: argparse.Namespace) -> int:
    """Judge a change by runs before and after it; return the exit code."""
    options.quiet = options.quiet or options.json or options.markdown
    if options.ledger:
        return _book(options)
    if not options.words:
        raise UserError("a gate needs a command: `ablations gate ... -- python train.py ...`")
    if given := [n for n in ("candidates", "fresh") if getattr(options, n) is not None]:
        raise UserError(f"--{given[0]} is of a ledger: add --ledger FILE")
    if options.noise:
        return _noise(options)
    question = _question(options)
    sides = compared_sides(question, Path.cwd())
    gate = Gate(question, options.results, sides, _execution(options))
    if not options.quiet:
        print("\n".join(gate.stated()), flush=True)
    verdict = gate.run()
    path, described = gate.write(verdict)
    figure = _figure(path, described) if verdict.stages else "no picture: no stage was read"
    if options.json:
        print(path.read_text(), end="")
        return verdict.code
    _print_line(described)
    if options.markdown:
        print()
        print(format_table(stages_table(verdict), "markdown"))
    elif not options.quiet:
        print(f"{path}\n{figure}")
    return verdict.code


def _print_line(described: Mapping[str, Any]) -> None:
    print(described["line"])
    for line in described["log"]:
        print(printable(f"    | {line}"))


def _book(options: argparse.Namespace) -> int:
    """Judge a candidate against the best of a ledger, or print the ledger."""
    path = options.ledger
    known = ledger.read_ledger(path)
    if not options.words:
        if known is None:
            raise UserError(f"there is no ledger '{path}' yet: the first call needs a command")
        print(format_table(known.table(), "json" if options.json else "markdown"))
        return 0
    if options.noise:
        raise UserError("--noise compares nothing: leave --ledger out")
    ledger.require_untracked(path)
    question = _question(options, ledger=True)
    terms = _terms(options, question, known)
    booking = Booking(path, question, terms, options.results, _execution(options))
    booked = booking.open(options.baseline, question.against) or booking.judge()
    if options.json:
        print(json.dumps({"ledger": str(path), **booked}, indent=1, allow_nan=False))
    else:
        _print_line(booked)
    return int(booked["exit_code"])


def _terms(options: argparse.Namespace, question: Question, known: Ledger | None) -> Terms:
    """Return what a ledger asks, or would ask. Raises UserError where flags say otherwise."""
    terms = known.opening.terms if known else None
    shared = ledger.shared_words(question.line.run, terms.run if terms else None)
    flags = {
        "margin": options.margin and question.margin.text,
        "rate": options.rate,
        "candidates": options.candidates,
        "first": options.first_seeds,
        "most": options.most_seeds,
        "fresh": options.fresh,
        "futility": options.futility,
        "steps": options.steps,
        "depends": question.depends,
    }
    given = {name: value for name, value in flags.items() if value is not None}
    line = question.line
    of_line = {
        "run": shared,
        "curve": line.curve,
        "metric": line.metric,
        "step": line.step,
        "direction": line.better,
    }
    if terms is None:
        defaults = {
            "rate": RATE,
            "first": FIRST_SEEDS,
            "most": MOST_SEEDS,
            "futility": FUTILITY,
            "candidates": ledger.CANDIDATES,
            "fresh": ledger.FRESH,
            "steps": None,
            "depends": None,
        }
        return ledger.sound_terms(defaults | of_line | given)
    for name, value in {**of_line, **given}.items():
        if (kept := getattr(terms, name)) != value:
            raise UserError(f"this ledger has {name} {kept}, not {value}: begin another one")
    return terms


def _execution(options: argparse.Namespace) -> Execution:
    def say(line: str) -> None:
        if not options.quiet:
            print(line, flush=True)

    return Execution(
        Processes(workers=options.workers, threads=options.threads, quiet=options.quiet),
        say,
        None if options.minutes is None else 60 * float(options.minutes),
    )


def _noise(options: argparse.Namespace) -> int:
    others = ("margin", "baseline", "against", "require", "minutes", "most_seeds", "futility")
    if given := [flag for flag in others if getattr(options, flag) is not None]:
        flag = given[0].replace("_", "-")
        raise UserError(f"--noise only runs the command a few times: leave --{flag} out")
    name = "noise" if options.name == "gate" else options.name
    runs = options.first_seeds or FIRST_SEEDS
    runs_as = (runs, name, options.steps, timeout_of(options.timeout), options.depends)
    plan = noise.noise_plan(_line(options), Path.cwd(), *runs_as)
    frame = noise.measure(plan, options.results, _execution(options), options.rate or RATE)
    print(format_table(frame, "json" if options.json else "markdown"))
    if not options.json:
        margin, runs = frame.margin[1], frame.runs[1]
        paste = f"a line to paste: --margin {margin:.3g} --first-seeds {runs}"
        same = "every run gave one number: any --margin above 0 can be decided, unless a {seed} is"
        print(f"\n{paste if margin else f'{same} ignored'}")
    return 0


def _line(options: argparse.Namespace) -> Line:
    return line_of(
        {
            "run": options.words,
            "curve": options.curve,
            "metric": options.metric,
            "step": options.step,
            "better": options.better,
        }
    )


def _question(options: argparse.Namespace, *, ledger: bool = False) -> Question:
    if options.margin is None and not ledger:
        raise UserError("a gate needs --margin, the difference that does not matter; --noise helps")
    return Question(
        line=_line(options),
        margin=Margin(1.0, share=False) if options.margin is None else Margin.read(options.margin),
        baseline=options.baseline,
        against=_words(options.against),
        rate=options.rate or RATE,
        first=options.first_seeds or FIRST_SEEDS,
        most=options.most_seeds or MOST_SEEDS,
        better=options.require == "better",
        futility=FUTILITY if options.futility is None else options.futility,
        steps=options.steps,
        timeout=timeout_of(options.timeout),
        depends=None if options.depends is None else tuple(options.depends),
        name=options.name,
    )


def _figure(path: Path, verdict: Mapping[str, Json]) -> str:
    from ablations import figures

    return str(figures.write(figures.gate(verdict), path.with_suffix(""))[-1])


def _words(text: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text or ""))
    except ValueError as error:
        raise UserError(f"--against cannot be split into arguments: {error}") from None


def _share(text: str) -> float:
    """Parse a rate such as 5% or 0.05."""
    if not 0 < (value := _number(text)) < 0.5:
        raise argparse.ArgumentTypeError(f"a rate is such as 5% or 0.05, not '{text}'")
    return value


def _chance(text: str) -> float:
    """Parse a chance below 50%, such as 10%, 0.1 or 0."""
    if not 0 <= (value := _number(text)) < 0.5:
        raise argparse.ArgumentTypeError(f"a chance is such as 10%, below 50%, not '{text}'")
    return value


def _minutes(text: str) -> float:
    """Parse a positive number of minutes."""
    if text.endswith("%") or not 0 < (value := _number(text)) < 1e6:
        raise argparse.ArgumentTypeError(f"minutes are a positive number, not '{text}'")
    return value


def _number(text: str) -> float:
    """Parse 0.05 or 5%; NaN for what is no number."""
    try:
        return float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return math.nan
