"""The published answers: `report --answers` writes them, `show WORD` finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from ablations.cli.selected import unpacked
from ablations.errors import unknown
from ablations.report.questions.controls import Outcome, outcome
from ablations.report.questions.entries import Control, Question, Questions, read
from ablations.report.questions.evidence import gathered, spent
from ablations.report.questions.judge import Found, judged
from ablations.report.questions.words import answer_line, rests_on
from ablations.report.results import Results
from ablations.request import Request
from ablations.studies import Study, studies

FILE = "questions.toml"  # in the results folder


def write_answers(results: Path) -> Path:
    """Write README.md and questions/ in a results folder, and return the path of README.md."""
    from ablations.report.questions import page

    file = read(results / FILE)
    for control in file.controls:
        _require_variants(control, _study(control))
    results_of = _reader(file, results)
    controls = [_outcome(control, file, results_of(control.command)) for control in file.controls]
    answered = [_answer(question, file, results_of) for question in file.questions]
    commands = dict.fromkeys(entry.command for entry in _designs(file))
    took = spent(filter(None, map(results_of, commands)))
    return page.write(answered, controls, list(file.tasks.values()), took, results)


def find_answers(word: str, results: Path, *, anywhere: bool = False) -> Iterator[str]:
    """Yield the published answers to questions with a word, in lines.

    Args:
        word: an id or a search word of the question.
        results: the results folder.
        anywhere: whether each part of the word may stand anywhere in the question's texts.
    """
    file = read(results / FILE)
    having = [question for question in file.questions if _has(question, word, anywhere=anywhere)]
    if not having:
        return
    results_of = _reader(file, unpacked(results, {question.study for question in having}))
    for question in having:
        found = _judged(question, file, results_of(question.command))
        yield question.question
        on = rests_on(found)
        yield f"    {answer_line(found)}{f'; {on}' if on else ''}"
        yield f"    {results / 'questions' / question.id}.md"


def _has(question: Question, word: str, *, anywhere: bool) -> bool:
    """Return whether a question has a word: as its id or search word, or anywhere."""
    word, terms = word.lower(), [term.lower() for term in question.terms]
    if not anywhere:
        return word in (question.id, *terms)
    texts = (question.id, question.title, question.question, question.sentence, *terms)
    text = " ".join(texts).lower()
    return all(each in text for each in word.split())


def _reader(file: Questions, folder: Path) -> Callable[[str], Results | None]:
    """Return what reads the results of a design, by its command and only once."""
    entries = {entry.command: entry for entry in _designs(file)}

    @cache
    def results_of(command: str) -> Results | None:
        return gathered(folder, entries[command].study, entries[command].run)

    return results_of


def _answer(
    question: Question, file: Questions, results_of: Callable[[str], Results | None]
) -> Found:
    found = _judged(question, file, results_of(question.command))
    other = _in_other_design(question)
    return replace(found, elsewhere=_answer(other, file, results_of)) if other else found


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
