"""The command `questions`: whether a detail matters, from the records, with a bound."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from ablations.cli.arguments import Parser, add_flags
from ablations.cli.output import add_format
from ablations.errors import UserError, unknown
from ablations.report.formats import render
from ablations.report.questions.controls import Outcome, outcome
from ablations.report.questions.entries import Control, Question, Questions, read
from ablations.report.questions.evidence import gathered, spent
from ablations.report.questions.judge import Found, judged
from ablations.report.questions.rows import controls_sheet, questions_sheet
from ablations.report.results import Results
from ablations.request import Request
from ablations.studies import Study, studies


def add_questions(command: Parser) -> None:
    """Add the flags of `questions`."""
    command.add_argument(
        "questions",
        nargs="*",
        metavar="QUESTION",
        help="an id, or a word to search for; default: all",
    )
    add_flags(command, {"--file FILE": "default: questions.toml in the results folder"}, type=Path)
    add_format(command)
    instead = command.add_mutually_exclusive_group()
    add_flags(
        instead,
        {
            "--write": "README.md, and questions/ with a page and a figure for each, in the "
            "results folder, anew",
            "--controls": "what must come out for answers to be trusted",
        },
        action="store_true",
    )
    add_flags(instead, {"--site FILE": "all of them as one HTML file with a search"}, type=Path)


def run_questions(options: argparse.Namespace) -> None:
    """Answer the questions of a file."""
    file = read(options.file or options.results / "questions.toml")
    chosen = [each for each in file.questions if _matches(each, options.questions)]
    if not chosen:
        ids = [each.id for each in file.questions]
        raise unknown("question", " ".join(options.questions), ids)
    if options.write and len(chosen) < len(file.questions):
        raise UserError("--write writes all pages: name no question")
    for control in file.controls:
        _require_variants(control, _study(control))
    entries = {entry.command: entry for entry in _designs(file)}

    @cache
    def results_of(command: str) -> Results | None:
        entry = entries[command]
        return gathered(options.results, entry.study, entry.run)

    def answer(question: Question) -> Found:
        found = _judged(question, file, results_of(question.command))
        other = _in_other_design(question)
        return replace(found, elsewhere=answer(other)) if other else found

    whole = options.controls or options.write or options.site
    controls = [
        _outcome(control, file, results_of(control.command)) for control in file.controls if whole
    ]
    if options.controls:
        print(render(controls_sheet(controls), options.format))
        return
    answered = [answer(question) for question in chosen]
    if not whole:
        print(render(questions_sheet(answered), options.format))
        return
    from ablations.report.questions import files

    if options.site:
        files.write_site(answered, controls, options.site)
        print(options.site)
    else:
        tasks = list(file.tasks.values())
        took = spent(filter(None, map(results_of, entries)))
        print(files.write(answered, controls, tasks, took, options.results))


def _matches(question: Question, words: Sequence[str]) -> bool:
    """Return whether a question is one of these ids, or has all of these words somewhere."""
    if not words or question.id in words:
        return True
    texts = (question.id, question.title, question.question, question.sentence, *question.terms)
    text = " ".join(texts).lower()
    return all(word.lower() in text for word in words)


def _in_other_design(question: Question) -> Question | None:
    """Return the question as its other design asks it; None where it has none."""
    other = question.other_design
    return replace(question, study=other, other_design="") if other else None


def _designs(file: Questions) -> Iterator[Question | Control]:
    """Yield whatever is judged by the runs of a design."""
    yield from file.controls
    for question in file.questions:
        yield question
        if other := _in_other_design(question):
            yield other


def _judged(question: Question, file: Questions, results: Results | None) -> Found:
    study = _study(question)
    sets = {name for variant in study.variants.values() for name in variant.sets}
    for name in question.factor.split(", ") if question.factor else ():
        if name not in sets:
            raise unknown(f"factor of question '{question.id}'", name, sorted(sets))
    _require_variants(question, study)
    count = len(_variants(study, question.request)) if question.statistic == "effect" else 2
    return judged(question, results, file.tasks, count * _seeds(study, question.request))


def _outcome(control: Control, file: Questions, results: Results | None) -> Outcome:
    count = 2 if control.kind == "difference" else 1
    return outcome(control, results, file.tasks, count * _seeds(_study(control), control.request))


def _study(entry: Question | Control) -> Study:
    if entry.study not in (known := studies()):
        raise unknown(f"study of '{entry.id}'", entry.study, known)
    study = known[entry.study]
    profile = entry.request.profile
    if profile not in study.profiles:
        raise unknown(f"profile of '{entry.id}'", profile, study.profiles)
    return study


def _require_variants(entry: Question | Control, study: Study) -> None:
    """Raise UserError for a variant that neither the study has nor the settings that are varied."""
    known = {
        f"{name}@{setting}={value:g}" if isinstance(value, float) else f"{name}@{setting}={value}"
        for name in study.variants
        for setting, values in entry.run.get("vary", {}).items()
        for value in values
    }
    for name in (entry.variant, entry.versus):
        if name and name not in {*study.variants, *known}:
            raise unknown(f"variant of '{entry.id}'", name, [*study.variants, *sorted(known)])


def _variants(study: Study, request: Request) -> Sequence[str]:
    return request.variants or study.profiles[request.profile].variants or tuple(study.variants)


def _seeds(study: Study, request: Request) -> int:
    own = request.seeds
    return len(own or study.profiles[request.profile].every_seed())
