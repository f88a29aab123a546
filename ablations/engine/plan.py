"""Resolve a request (a study and its flags) to a plan: every run with its configuration."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from msgspec.structs import replace

from ablations import presets, studies, tasks
from ablations.core.decode import Json
from ablations.core.plan import (
    NO_LOOKS,
    CellEntry,
    Flags,
    Looks,
    Settings,
    StoredStudy,
    StoredTask,
    StoredVariant,
    Tuned,
)
from ablations.core.record import Configuration, Run, settings_read, steps_of
from ablations.errors import UserError, unknown
from ablations.parameters import Selection
from ablations.records import Plan, canonical, digest
from ablations.request import FIRST_LOOK, Request, level_text
from ablations.stats.interim import planned
from ablations.studies import Profile, Study, Variant
from ablations.studies.definition import TUNING_SEEDS, combinations
from ablations.studies.profiles import LANGUAGE_SCORE, control, evidence, few_actions, language
from ablations.tasks import Task
from ablations.tasks.task import GYMNASIUM
from ablations.trainers import TrainerSpec, composer, every_setting, trainers, unread
from ablations.trainers.values import FIELD_NAMES, count, in_our_names

PREFIX = "sweep."
PRESET = "preset"  # the name of the varied setting in a comparison of presets
RUN_SETTINGS = ("steps", "points", "evaluations", "evaluation_envs")
# Trainer -> profiles of its presets and comparisons; default: `control`
PROFILES: Mapping[str, Callable[..., dict[str, Profile]]] = {
    "language": language,
    "pqn": few_actions,
}
OfVariants: TypeAlias = Mapping[str, Configuration]  # variant -> configuration without the seed


def comparison_name(settings: Iterable[str]) -> str:
    """Return the name of the study that compares values of some settings."""
    return PREFIX + "-".join(sorted(settings))


def comparison_request(levels: Mapping[str, Sequence[Json]], selection: Selection) -> Request:
    """Return the request that compares values of settings, or presets as values of "preset"."""
    given = {name: tuple(values) for name, values in levels.items()}
    named = in_our_names(given, every_setting())
    return dataclasses.replace(Request.of(comparison_name(named), selection), vary=named)


def comparison_study(request: Request) -> Study:
    """Return the study of a request whose name is a `comparison_name`.

    The varied values of the request replace its only variant, the task's own settings. Raises
    UserError: no trainer has all settings, or the name does not match the varied settings.
    """
    if request.variants:
        raise UserError("--variants is for studies: a sweep compares the values that you name")
    if comparison_name(request.vary) != request.study:
        settings = " ".join(f"{n}=A,B" for n in request.study.removeprefix(PREFIX).split("-"))
        raise UserError(f"'{request.study}' needs values: `ablations sweep {settings}`")
    of, variant = _trainer(request).name, Variant(summary="the task's own settings")
    study = _by_default(of, request.study, "baseline", variant, geometry="common")
    if of in PROFILES:
        return study
    profiles = {**study.profiles, **evidence(("baseline",), seeds=40)}
    return dataclasses.replace(study, profiles=profiles)


def _by_default(trainer: str, name: str, baseline: str, variant: Variant, **about: str) -> Study:
    """Return a study of one variant, with the default profiles and metric of its trainer."""
    profiles = PROFILES.get(trainer, control)((baseline,), (baseline,))
    judged: Any = LANGUAGE_SCORE if trainer == "language" else {"trainer": trainer}
    judged = {"title": "", "claim": "", "claim_source": "", **about, **judged}
    return Study(
        name=name, baseline=baseline, variants={baseline: variant}, profiles=profiles, **judged
    )


def _trainer(request: Request) -> TrainerSpec:
    """Return the trainer of a request's presets, or one that has its settings and tasks."""
    known = trainers()
    named = [request.base] if request.base else request.vary.get(PRESET, ())
    for name in named:
        return known[presets.preset(str(name)).trainer]
    asked = [tasks.task(name) for name in request.tasks or ()]
    settings = {*request.vary} - {PRESET} - {name for task in asked for name in task.settings}
    able = [spec for spec in known.values() if settings <= spec.settings]
    fitting = [spec for spec in able if all(spec.name in task.hyperparameters for task in asked)]
    if able:
        return (fitting or able)[0]
    for name in sorted(settings - every_setting()):
        raise unread(name, every_setting())
    raise UserError(f"no trainer has all of {', '.join(sorted(settings))}: sweep them separately")


@dataclass(frozen=True)
class Selected:
    """The part of a study that a request selects.

    study: the study with the selected variants. seeds: the seeds, or those of the first stage.
    of_baseline: further seeds of the baseline.
    """

    study: Study
    profile: Profile
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    of_baseline: tuple[int, ...] = ()


def select(study: Study, request: Request) -> Selected:
    """Return the part of a study that a request selects.

    Raises UserError: a name is unknown, or flags contradict each other.
    """
    profile = profile_of(study, request.profile)
    if request.variants is not None or not request.vary:
        study = _named(study, request.variants or profile.variants)
        _require_unset("set", request.set, study)
        _require_unset("vary", request.vary, study)
    if request.vary:
        study = _varied(study, request)
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
    """Return a profile of a study by name. Raises UserError."""
    if name not in study.profiles:
        raise unknown("profile", name, study.profiles, of=study.name)
    return study.profiles[name]


def _named(study: Study, asked: Iterable[str] | None) -> Study:
    """Return the study with some of its variants, in its own order."""
    if asked is None:
        return study
    names = set(asked)
    for name in asked:
        if name not in study.variants:
            raise unknown("variant", name, study.variants, of=study.name)
    kept = {name: variant for name, variant in study.variants.items() if name in names}
    return dataclasses.replace(study, variants=kept)


def _varied(study: Study, request: Request) -> Study:
    """Return the study of each variant at every combination of the varied values.

    Without selected variants it has the baseline alone, and the study's claim does not apply. A
    variant is compared with its usual counterpart at the same values. If the counterpart is not
    selected, the variant is compared with itself at the first values.
    """
    for name in request.vary:
        if name in request.set:
            raise UserError(f"{name} is both set and varied: omit one of them")
        if name in RUN_SETTINGS:
            raise UserError(f"{name} cannot be varied: it is the same for all variants of a study")
    grid, base = True, study.baseline
    if request.variants is None:
        baseline, grid, base = study.variants[base], len(request.vary) > 1, ""
        if twice := [name for name in request.set if name in baseline.sets]:
            raise UserError(
                f"--set {twice[0]}: the baseline of '{study.name}' sets it itself "
                f"({study.baseline}): name another variant with --variants, or omit the --set"
            )
        title = ": ".join(filter(None, (study.title, ", ".join(request.vary))))
        alone = {base: dataclasses.replace(baseline, summary="", versus=None)}
        study = dataclasses.replace(study, title=title, claim="", claim_source="", variants=alone)
    against = {
        name: versus if (versus := variant.versus or base) in study.variants else name
        for name, variant in study.variants.items()
    }
    heads = {versus for name, versus in against.items() if versus != name}
    first, _ = next(iter(combinations(request.vary, level_text)))
    variants = {}
    for where, at in combinations(request.vary, level_text):
        for name, variant in study.variants.items():
            versus = _at(against[name], where if name in heads or against[name] != name else first)
            variants[_at(name, where)] = dataclasses.replace(
                variant,
                sets={**variant.sets, **{n: value for n, value in at.items() if n != PRESET}},
                versus=versus if name else None,
                grid=grid,
                preset=str(at[PRESET]) if PRESET in at else variant.preset,
            )
    head = base if base in study.variants else next(iter(study.variants))
    return dataclasses.replace(study, baseline=_at(head, first), variants=variants)


def _at(name: str, where: str) -> str:
    return f"{name}{',' if '@' in name else '@'}{where}" if name else where


def _require_unset(flag: str, names: Iterable[str], study: Study) -> None:
    """Raise UserError if variants set the settings of a flag."""
    for name in names:
        if differing := [v for v, variant in study.variants.items() if name in variant.sets]:
            shown = ", ".join(differing[:6]) + (", ..." if len(differing) > 6 else "")
            raise UserError(
                f"--{flag} {name}: variants of '{study.name}' set it themselves ({shown}): "
                f"select others with --variants, or omit the --{flag}"
            )


def known_studies(request: Request) -> dict[str, Study]:
    """Return the studies that are registered or in the study files of a request, by name."""
    return {**studies.studies(), **{study.name: study for study in request.brought}}


def study_of(request: Request) -> Study:
    """Return the study of a request; a preset is a study of one variant. Raises UserError."""
    if request.study.startswith(PREFIX):
        return comparison_study(request)
    known, name = known_studies(request), request.study
    if name in known:
        return known[name]
    if name not in presets.presets():
        raise no_study(name, [*known, *presets.presets()])
    return preset_study(name)


def no_study(name: str, known: Collection[str]) -> UserError:
    """Return the error for an unknown study, with a hint if it is another name."""
    if name in tasks.tasks():
        return UserError(f"'{name}' is a task: give it by --tasks {name}, after a study")
    if name.endswith(".py"):
        return UserError(f"'{name}' is not a study: study files are TOML (docs/study-files.md)")
    if GYMNASIUM.fullmatch(name):
        return UserError(
            f"'{name}' is a task of Gymnasium, not a study: see `ablations list tasks` for tasks, "
            f"and docs/any-trainer.md for studies of your own training script"
        )
    if (setting := FIELD_NAMES.get(name, name)) in every_setting():
        return UserError(f"'{name}' is a setting: `ablations sweep {setting}=A,B` compares it")
    return unknown("study", name, known, listing="ablations list studies")


def preset_study(name: str) -> Study:
    """Return a preset as a study of one variant. Raises UserError for an unknown preset."""
    preset = presets.preset(name)
    return _by_default(
        preset.trainer,
        name,
        name,
        Variant(preset=name, summary=preset.library),
        claim=f"The defaults of {preset.library}.",
        title=f"{name}, as it comes",
        claim_source=f"ablations show {name}",
    )


def _defaults(
    study: Study, profile: Profile, task: Task, variant: Variant, request: Request
) -> dict[str, Json]:
    """Return the settings of a variant that neither the study nor a flag sets.

    They are the task's settings, some of which the profile may replace. With a preset or a base,
    they are the preset's settings, except for static settings if the geometry is common. Raises
    UserError: the preset belongs to another trainer or another type of actions.
    """
    definition, instead = composer(study.trainer), profile.own.get(task.name, {})
    own = {
        **task.hyperparameters.get(definition.name, {}),
        **{name: value for name, value in instead.items() if name in definition.settings},
    }
    name = variant.preset or request.base
    if name is None:
        return own
    library = presets.preset(name).on(task)
    if library.trainer != definition.name:
        raise UserError(
            f"preset '{name}' is of the trainer '{library.trainer}', but '{study.name}' uses "
            f"'{definition.name}'"
        )
    structure = {option: own[option] for option in definition.structure if option in own}
    if (request.geometry or (study.geometry if variant.preset else "own")) == "own":
        # Static settings that no library has, such as the pre-trained model, come from the task.
        return structure | library.values()
    rest = {n: value for n, value in library.values().items() if n not in definition.structure}
    return structure | rest


def _require_presets(study: Study, request: Request) -> None:
    """Raise UserError for flags about presets that have no effect."""
    own = [name for name, variant in study.variants.items() if variant.preset]
    if request.base and own:
        raise UserError(
            f"--base {request.base}: variants of '{study.name}' are presets themselves "
            f"({', '.join(own)})"
        )
    if request.geometry and not (request.base or own):
        raise UserError(
            f"--geometry {request.geometry} is for presets: name a preset as the study or by --base"
        )


def plan(request: Request) -> Plan:
    """Resolve a request to its runs.

    Raises UserError: a name is unknown, or settings or flags contradict each other.
    """
    selected = select(study_of(request), request)
    study, profile = selected.study, selected.profile
    _require_presets(study, request)
    tasks = {name: composer(study.trainer).task(name) for name in selected.tasks}
    configs = {name: _configurations(study, profile, task, request) for name, task in tasks.items()}
    _require_sense(study, request, configs)
    # If the profile scores evaluations, the study judges their return.
    evaluated = study.metric.startswith("evaluation/") or profile.score is None
    shared = {
        name: of.get(study.baseline) or next(iter(of.values())) for name, of in configs.items()
    }
    return Plan(
        request=request.flags(),
        study=replace(
            described_study(study, request),
            tuned=_tuned(study, request, tasks),
            score=profile.score,
            metric=study.metric if evaluated else "evaluation/return",
        ),
        variants=_described_variants(study, configs),
        tasks={
            name: StoredTask(steps_of(config), config["task"]["settings"], tasks[name].summary)
            for name, config in shared.items()
        },
        cells=tuple(
            entry(task, name, seed, config)
            for task, of_variants in configs.items()
            for seed in (*selected.seeds, *selected.of_baseline)
            for name, config in of_variants.items()
            if seed in selected.seeds or name == study.baseline
        ),
        looks=_looks(study, configs, request),
    )


def with_seeds(plan: Plan, counts: Mapping[tuple[str, str], int]) -> Plan:
    """Return a plan with other numbers of seeds. counts: (task, variant) -> number, from seed 0."""
    cells = _cells(plan, range(max(counts.values())))
    return replace(
        plan, cells=tuple(cell for cell in cells if cell.seed < counts[cell.task, cell.variant])
    )


def on_seeds(plan: Plan, seeds: Sequence[int]) -> Plan:
    """Return a plan on other seeds, with the plan's revisions of the code."""
    flags: Flags = {**plan.request, "seeds": list(seeds), "until": None, "most_seeds": None}
    request = Request.of(plan.study.name, flags)
    return replace(plan, request=request.flags(), looks=NO_LOOKS, cells=tuple(_cells(plan, seeds)))


def entry(task: str, variant: str, seed: int, config: Configuration) -> CellEntry:
    """Return the run of a configuration and a seed."""
    config = {**config, "seed": seed}
    return CellEntry(task, variant, seed, digest(config), config)


def _cells(plan: Plan, seeds: Iterable[int]) -> Iterable[CellEntry]:
    configs = {(cell.task, cell.variant): cell.config for cell in plan.cells}
    for task in plan.tasks:
        for seed in seeds:
            for name in plan.variants:
                yield entry(task, name, seed, configs[task, name])


def described_study(study: Study, request: Request) -> StoredStudy:
    """Return a study as plans store it."""
    inside = f" inside the settings of {request.base}" if request.base else ""
    return StoredStudy(
        name=study.name,
        title=study.title + inside,
        claim=study.claim,
        claim_source=study.claim_source,
        baseline=study.baseline,
        margin=float(study.margin),
        margin_in_metric=study.margin_in_metric,
        metric=study.metric,
        step_unit=composer(study.trainer).step_unit,
        base=request.base or None,
        file=None if study.file is None else os.path.relpath(study.file),
    )


def _configurations(study: Study, profile: Profile, task: Task, request: Request) -> OfVariants:
    """Resolve every variant on a task."""
    definition = composer(study.trainer)
    found: dict[str, Configuration] = {}
    for name, variant in study.variants.items():
        values = values_of(study, profile, task, variant, request)
        try:
            config = definition.resolve(task, values, RUN_SETTINGS)
            run = schedule(definition, config, values, profile, task)
            found[name] = {**config, "run": run}
        except UserError as error:
            raise UserError(f"{study.name}/{name} on {task.name}: {error}") from None
    return found


def _require_sense(study: Study, request: Request, configs: Mapping[str, OfVariants]) -> None:
    """Raise UserError for settings and comparisons without effect."""
    every = [config for of_variants in configs.values() for config in of_variants.values()]
    flags = {name: f"--set {name}" for name in request.set}
    _require_effects(study, flags | {name: f"--vary {name}" for name in request.vary}, every)
    for name, of_variants in configs.items():
        _require_differences(study, name, of_variants)
    if len(study.variants) > 1:
        varied = {name for variant in study.variants.values() for name in variant.sets}
        _require_effects(study, {name: f"{name}, which variants set," for name in varied}, every)


def _require_differences(study: Study, task: str, configs: OfVariants) -> None:
    """Raise UserError if a variant outside a grid equals its counterpart."""
    equal = [
        (name, other)
        for name, variant in study.variants.items()
        if (other := variant.versus or study.baseline) in configs
        if not variant.grid and name != other and configs[name] == configs[other]
    ]
    if not equal:
        return
    (name, other), *more = equal
    sets = {*study.variants[name].sets, *study.variants[other].sets}
    reasons = composer(study.trainer).inert(configs[name], sorted(sets)).values()
    too = f" (as are {', '.join(one for one, _ in more)})" if more else ""
    raise UserError(
        f"'{name}' and '{other}' of '{study.name}' are identical on {task} with these "
        f"settings{''.join(f', since {reason}' for reason in dict.fromkeys(reasons))}{too}: there "
        f"is nothing to compare; omit one with --variants"
    )


def _require_effects(
    study: Study, names: Mapping[str, str], every: Sequence[Configuration]
) -> None:
    """Raise UserError for a setting without effect. names: setting -> its flag or origin."""
    definition = composer(study.trainer)
    reasons = [definition.inert(config, names) for config in every] if names else []
    for name in sorted(names):
        if all(name in inert for inert in reasons):
            reason = reasons[0][name]
            raise UserError(f"{names[name]} changes nothing in '{study.name}': {reason}")


def _looks(study: Study, configs: Mapping[str, OfVariants], request: Request) -> Looks:
    """Return the stages at which seeds are added."""
    if request.until is None or request.most_seeds is None:
        return NO_LOOKS
    compared = [
        (task, name)
        for task, of_variants in configs.items()
        for name, variant in study.variants.items()
        if (other := variant.versus or study.baseline) in of_variants
        if of_variants[name] != of_variants[other]
    ]
    if not compared:
        raise UserError(
            f"--until {request.until}: nothing is compared in '{study.name}' with these flags; "
            f"select a variant and its baseline"
        )
    return Looks(
        tuple(planned(FIRST_LOOK, request.most_seeds)),
        comparisons=len(compared),
        over_tasks=len({name for _, name in compared}) if len(configs) > 1 else 0,
    )


def _tuned(study: Study, request: Request, tasks: Collection[str]) -> Tuned | None:
    """Return the tuned values that the variants use."""
    found: dict[str, dict[str, float]] = {}
    settings = set()
    for task in tasks:
        for name, variant in study.variants.items():
            for setting, value in variant.tuned.get(task, {}).items():
                if setting not in {**request.set, **variant.sets}:
                    settings.add(setting)
                    found.setdefault(name, {})[task] = value
    if len(settings) != 1:
        return None
    seeds = study.tuning.read().get("seeds", study.tuning.seeds) if study.tuning else TUNING_SEEDS
    return Tuned(settings.pop(), tuple(seeds), found)


def _described_variants(
    study: Study, configs: Mapping[str, OfVariants]
) -> dict[str, StoredVariant]:
    definition, one_of = composer(study.trainer), next(iter(configs.values()))
    chosen = {
        name: {axis: one["name"] for axis, one in definition.completed(config)["choices"].items()}
        for of_variants in configs.values()
        for name, config in of_variants.items()
    }
    sets = {name: one.sets for name, one in study.variants.items()}
    varied = {name for of in sets.values() for name in of}
    of_choices = definition.formulas(chosen, sets)
    composed = {name: canonical([of[name] for of in configs.values()]) for name in study.variants}
    alike = {text: name for name, text in reversed(composed.items())}
    # In a grid, only the first variant with a choice has its formula.
    first = {
        (axis, formula.choice): name
        for name, formulas in reversed(of_choices.items())
        for axis, formula in formulas.items()
    }
    return {
        name: StoredVariant(
            versus=variant.versus,
            summary=variant.summary,
            sets={**({"preset": variant.preset} if variant.preset else {}), **variant.sets},
            formulas={
                axis: formula
                for axis, formula in of_choices[name].items()
                if not variant.grid or first[axis, formula.choice] == name
            },
            same_as=alike[composed[name]],
            neutral=_neutral(definition, one_of[name], varied) or None,
            place=definition.place(one_of[name]) or None,
        )
        for name, variant in study.variants.items()
    }


def _neutral(
    definition: TrainerSpec, config: Configuration, names: Collection[str]
) -> dict[str, Json]:
    """Return the compatible defaults that a configuration omits, with their values."""
    stated, whole = settings_read(config), settings_read(definition.completed(config))
    return {name: whole[name] for name in sorted(whole.keys() - stated) if name in names}


def values_of(
    study: Study, profile: Profile, task: Task, variant: Variant, request: Request
) -> dict[str, Json]:
    """Return all settings of a variant on a task; later sources replace earlier ones."""
    values = {
        **_defaults(study, profile, task, variant, request),
        **study.settings,
        **profile.settings,
        **profile.task_settings.get(task.name, {}),
        **variant.tuned.get(task.name, {}),
        **request.set,
        **({} if request.steps is None else {"steps": request.steps}),
    }
    return values | {name: _multiplied(name, x, values) for name, x in variant.sets.items()}


def _multiplied(name: str, value: Json, beneath: Settings) -> Json:
    """Return the value, or for a multiple such as "x1/3" the product with the value beneath."""
    if not isinstance(value, str) or not re.fullmatch(r"x\d+(\.\d+)?(/[1-9]\d*)?", value):
        return value
    number, _, divisor = value[1:].partition("/")
    base = beneath.get(name)
    if isinstance(base, bool) or not isinstance(base, (int, float)):
        raise UserError(f"{name}={value} multiplies the task's own {name}, which is not a number")
    return base * float(number) / float(divisor or 1)


def schedule(
    definition: TrainerSpec, config: Configuration, values: Settings, profile: Profile, task: Task
) -> Run:
    """Return the length of a configuration's training, and the points of its curve."""

    def read(name: str, default: int, low: int = 1) -> int:
        return count(name, values.get(name, default), low)

    return definition.schedule(
        config,
        steps=read("steps", profile.steps or task.steps),
        points=read("points", profile.points),
        evaluations=read("evaluations", profile.evaluations, 0),
        evaluation_envs=read("evaluation_envs", profile.evaluation_envs),
    )
