"""Select a part of a study: variants, seeds and tasks, by name; `plan` resolves them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from ablations.errors import UserError, unknown
from ablations.request import FIRST_LOOK, Request, level_text
from ablations.studies import Profile, Study, Variant
from ablations.studies.definition import combinations

PRESET = "preset"  # what is varied, where libraries are compared
RUN_SETTINGS = ("steps", "points", "evaluations", "evaluation_envs")


@dataclass(frozen=True)
class Selected:
    """The part of a study that a request selects.

    study: with the variants that are asked for, in the order of the tables. seeds: of the first
    look, where there are looks. of_baseline: further ones of its baseline.
    """

    study: Study
    profile: Profile
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    of_baseline: tuple[int, ...] = ()


def select(study: Study, request: Request) -> Selected:
    """Return the part of a study that a request selects.

    Raises:
        UserError: the study does not have a name, or flags contradict each other.
    """
    profile = profile_of(study, request.profile)
    if request.vary and request.variants is None:
        study = _levels_of_the_baseline(study, request)
    else:
        study = _named(study, request.variants or profile.variants)
        _require_unset("set", request.set, study)
        _require_unset("vary", request.vary, study)
        if request.vary:
            study = _crossed(study, request)
    own = request.seeds is None and request.until is None
    return Selected(
        study=study,
        profile=profile,
        tasks=tuple(dict.fromkeys(request.tasks or profile.tasks)),
        seeds=request.seeds
        or (tuple(range(FIRST_LOOK)) if request.until else profile.every_seed()),
        of_baseline=profile.further_seeds() if own else (),
    )


def profile_of(study: Study, name: str) -> Profile:
    """Return the profile of that name. Raises UserError."""
    if name not in study.profiles:
        raise unknown(f"profile of '{study.name}'", name, study.profiles)
    return study.profiles[name]


def _named(study: Study, asked: Iterable[str] | None) -> Study:
    """Return the study with some of its variants, in its own order."""
    names = set(study.variants if asked is None else asked)
    for name in asked or ():
        if name not in study.variants:
            raise unknown(f"variant of '{study.name}'", name, study.variants)
    kept = {name: variant for name, variant in study.variants.items() if name in names}
    return dataclasses.replace(study, variants=kept)


def _levels_of_the_baseline(study: Study, request: Request) -> Study:
    """Return the study of its baseline at every combination of the varied settings' values.

    Each is compared with the first. That is another question than the study's claim.
    """
    _require_variable(request)
    baseline = study.variants[study.baseline]
    sets = baseline.sets
    for name in request.set:
        if name in sets:
            raise UserError(
                f"--set {name}: the baseline of '{study.name}' sets it itself ({study.baseline}): "
                f"name another variant with --variants, or drop the --set"
            )
    grid = len(request.vary) > 1
    variants = {
        where: Variant(
            {**sets, **{name: value for name, value in at.items() if name != PRESET}},
            grid=grid,
            preset=str(at[PRESET]) if PRESET in at else baseline.preset,
            tuned=baseline.tuned,
        )
        for where, at in combinations(request.vary, level_text)
    }
    return dataclasses.replace(
        study,
        title=": ".join(filter(None, (study.title, ", ".join(request.vary)))),
        claim="",
        claim_source="",
        baseline=next(iter(variants)),
        variants=variants,
    )


def _crossed(study: Study, request: Request) -> Study:
    """Return the study of every variant at every combination of the varied settings' values.

    A variant is compared with what the study compares it with, at the same values; where that is
    not selected, with itself at the first values.
    """
    _require_variable(request)
    against = {
        name: versus if (versus := variant.versus or study.baseline) in study.variants else name
        for name, variant in study.variants.items()
    }
    heads = {versus for name, versus in against.items() if versus != name}
    first, _ = next(iter(combinations(request.vary, level_text)))
    variants = {}
    for where, at in combinations(request.vary, level_text):
        for name, variant in study.variants.items():
            alone = against[name] == name and name not in heads
            variants[_at(name, where)] = Variant(
                {**variant.sets, **at},
                versus=_at(against[name], first if alone else where),
                summary=variant.summary,
                grid=True,
                preset=variant.preset,
                tuned=variant.tuned,
            )
    head = study.baseline if study.baseline in study.variants else next(iter(study.variants))
    return dataclasses.replace(study, baseline=_at(head, first), variants=variants)


def _at(name: str, where: str) -> str:
    return f"{name}{',' if '@' in name else '@'}{where}"


def _require_variable(request: Request) -> None:
    for name in request.vary:
        if name in request.set:
            raise UserError(f"{name} is both set and varied: leave one of them out")
        if name in RUN_SETTINGS:
            raise UserError(f"{name} cannot be varied: it is the same for all variants of a study")


def _require_unset(flag: str, names: Iterable[str], study: Study) -> None:
    """Raise UserError where a flag is about what the variants differ in."""
    for name in names:
        if differing := [v for v, variant in study.variants.items() if name in variant.sets]:
            shown = ", ".join(differing[:6]) + (", ..." if len(differing) > 6 else "")
            raise UserError(
                f"--{flag} {name}: variants of '{study.name}' set it themselves ({shown}): "
                f"leave those out with --variants, or drop the --{flag}"
            )
