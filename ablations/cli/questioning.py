"""The command `questions`: whether a detail matters, from the records, with a bound."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ablations.cli.arguments import Commands, add_command, add_flags
from ablations.cli.output import add_format, print_table
from ablations.errors import UserError, unknown

if TYPE_CHECKING:
    from ablations.report.questions.controls import Outcome
    from ablations.report.questions.entries import Control, Question, Questions
    from ablations.report.questions.judge import Found
    from ablations.report.results import Results
    from ablations.request import Request
    from ablations.studies import Study


def add_commands(commands: Commands) -> None:
    """Add the command `questions`."""
    command = add_command(
        commands,
        "questions",
        _questions,
        "does a detail matter? answers with bounds, by the records",
    )
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
            "--write": "questions/README.md, a page and a figure for each, in the results folder, "
            "anew",
            "--controls": "what must come out for answers to be trusted",
        },
        action="store_true",
    )
    add_flags(instead, {"--site FILE": "all of them as one HTML file with a search"}, type=Path)


def _questions(options: argparse.Namespace) -> None:
    from ablations.report.questions.entries import read
    from ablations.report.questions.evidence import gathered
    from ablations.report.questions.rows import controls_sheet, questions_sheet

    asked = read(options.file or options.results / "questions.toml")
    chosen = [one for one in asked.questions if _matches(one, options.questions)]
    if not chosen:
        ids = [one.id for one in asked.questions]
        raise unknown("question", " ".join(options.questions), ids)
    if options.write and len(chosen) < len(asked.questions):
        raise UserError("--write writes all pages: name no question")
    for control in asked.controls:
        _require_variants(control, _study(control))
    entries = {entry.command: entry for entry in (*asked.questions, *asked.controls)}

    @cache
    def results_of(command: str) -> Results | None:
        entry = entries[command]
        return gathered(options.results, entry.study, entry.run)

    whole = options.controls or options.write or options.site
    controls = [
        _outcome(control, asked, results_of(control.command)) for control in asked.controls if whole
    ]
    if options.controls:
        print_table(controls_sheet(controls), options.format)
        return
    found = [_judged(question, asked, results_of(question.command)) for question in chosen]
    if not whole:
        print_table(questions_sheet(found), options.format)
    elif options.site:
        _write_site(found, controls, options.site)
    else:
        _write(found, controls, asked, options.results)


def _matches(question: Question, words: Sequence[str]) -> bool:
    """Return whether a question is one of these ids, or has all of these words somewhere."""
    if not words or question.id in words:
        return True
    texts = (question.id, question.title, question.question, question.sentence, *question.terms)
    text = " ".join(texts).lower()
    return all(word.lower() in text for word in words)


def _judged(question: Question, asked: Questions, results: Results | None) -> Found:
    from ablations.report.questions.judge import judged

    study = _study(question)
    sets = {name for variant in study.variants.values() for name in variant.sets}
    for name in question.factor.split(", ") if question.factor else ():
        if name not in sets:
            raise unknown(f"factor of question '{question.id}'", name, sorted(sets))
    _require_variants(question, study)
    count = len(_variants(study, question.request)) if question.statistic == "effect" else 2
    return judged(question, results, asked.tasks, count * _seeds(study, question.request))


def _outcome(control: Control, asked: Questions, results: Results | None) -> Outcome:
    from ablations.report.questions.controls import outcome

    count = 2 if control.kind == "difference" else 1
    return outcome(control, results, asked.tasks, count * _seeds(_study(control), control.request))


def _study(entry: Question | Control) -> Study:
    from ablations.studies import studies

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
    return study.profiles[request.profile].seeds if own is None else len(own)


def _write(
    found: Sequence[Found], controls: Sequence[Outcome], asked: Questions, folder: Path
) -> None:
    from ablations.records import write_atomically
    from ablations.report.figures import paper
    from ablations.report.figures.questions import all_questions, one_question
    from ablations.report.questions.page import index, one_page

    pages: Mapping[str, str] = {
        "README": index(found, list(asked.tasks.values()), controls),
        **{one.question.id: one_page(one) for one in found},
    }
    for name, text in pages.items():
        write_atomically(folder / "questions" / f"{name}.md", text)
    print(folder / "questions" / "README.md")
    if any(one.answer is not None for one in found):
        paper.write(all_questions(found), folder, "questions/all_questions", ["svg"])
    for one in found:
        if one.share is not None:
            paper.write(one_question(one), folder, f"questions/{one.question.id}", ["svg"])


def _write_site(found: Sequence[Found], controls: Sequence[Outcome], path: Path) -> None:
    from ablations.records import write_atomically
    from ablations.report.figures import paper
    from ablations.report.figures.questions import one_question
    from ablations.report.questions.site import card, site

    figures = {
        one.question.id: paper.encoded(paper.draw(one_question(one)), "svg")
        for one in found
        if one.share is not None
    }
    cards = [card(one, figures.get(one.question.id)) for one in found]
    write_atomically(path, site(cards, controls))
    print(path)
