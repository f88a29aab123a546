"""Make a study that compares values of settings, or presets, without a study file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ablations import presets, tasks
from ablations.core.decode import Json
from ablations.errors import UserError, unknown
from ablations.request import Request, Selection
from ablations.studies import Profile, Study, Variant
from ablations.studies.few_actions import few_actions
from ablations.studies.profiles import LANGUAGE_SCORE, Judgement, control, evidence, language
from ablations.sweep.selection import PRESET
from ablations.trainers import Definition, trainers
from ablations.trainers.field_names import in_our_names

PREFIX = "sweep."
# Of presets and comparisons of a trainer; others have those of control tasks.
PROFILES: Mapping[str, Callable[..., dict[str, Profile]]] = {
    "language": language,
    "pqn": few_actions,
}


def name_of(settings: Iterable[str]) -> str:
    """Return the name of the study that compares values of some settings."""
    return PREFIX + "-".join(sorted(settings))


def request(levels: Mapping[str, Sequence[Json]], selection: Selection) -> Request:
    """Return the request that compares values of settings; those of "preset" are libraries."""
    every = {name for one in trainers().values() for name in one.settings}
    named = in_our_names({name: tuple(values) for name, values in levels.items()}, every)
    return replace(Request.of(name_of(named), selection), vary=named)


def study_of(request: Request) -> Study:
    """Return the study of a request whose name is a `name_of`.

    Its baseline is the task's own settings; the values that the request varies take the place of
    its variants.

    Raises:
        UserError: no trainer has all of the settings, or the request varies others than the name
            says.
    """
    if request.variants:
        raise UserError("--variants is for studies: a comparison is of the values that it names")
    if name_of(request.vary) != request.study:
        settings = " ".join(f"{n}=A,B" for n in request.study.removeprefix(PREFIX).split("-"))
        raise UserError(f"'{request.study}' compares no values: `ablations sweep {settings}`")
    of = _trainer(request).name
    variants = ("baseline",)
    more = {} if of in PROFILES else evidence(variants, seeds=40)
    return Study(
        name=request.study,
        title="",
        claim="",
        claim_source="",
        baseline="baseline",
        variants={"baseline": Variant({}, summary="the task's own settings")},
        profiles=profiles_of(of, variants) | more,
        geometry="common",
        **score_of(of),
    )


def profiles_of(trainer: str, variants: tuple[str, ...]) -> dict[str, Profile]:
    """Return the profiles in which a trainer's variants run where no study says so."""
    return PROFILES.get(trainer, control)(variants, variants)


def score_of(trainer: str) -> Judgement:
    """Return how a trainer's variants are judged where no study says so."""
    usual = Judgement(metric=Study.metric, margin=0.05, margin_in_metric=False, trainer=trainer)
    return LANGUAGE_SCORE if trainer == "language" else usual


def _trainer(request: Request) -> Definition:
    """Return the trainer that has the varied settings, for the tasks and presets asked for."""
    known = trainers()
    named = [request.base] if request.base else request.vary.get(PRESET, ())
    for name in named:
        return known[presets.preset(str(name)).trainer]
    asked = [tasks.task(name) for name in request.tasks or ()]
    settings = {*request.vary} - {PRESET} - {name for task in asked for name in task.settings}
    able = [one for one in known.values() if settings <= one.settings]
    fitting = [one for one in able if all(one.name in task.hyperparameters for task in asked)]
    if not able:
        every = {name for one in known.values() for name in one.settings}
        for name in sorted(settings - every):
            raise unknown("setting", name, every)
        raise UserError(f"no trainer has all of {', '.join(sorted(settings))}: compare one alone")
    return (fitting or able)[0]
