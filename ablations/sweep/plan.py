"""Resolve a study and its flags to cells: every setting checked and named."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

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
from ablations.errors import UserError
from ablations.records import Plan, digest
from ablations.request import FIRST_LOOK, Request
from ablations.stats.interim import planned
from ablations.studies import Profile, Study, Variant
from ablations.studies.tuned import SEEDS as TUNING_SEEDS
from ablations.sweep.defaults import defaults, require_presets, study_of
from ablations.sweep.selection import RUN_SETTINGS, select
from ablations.tasks import Task
from ablations.trainers import Composer, composer
from ablations.trainers.values import count

# Variant -> all of its configuration but the seed.
OfVariants = Mapping[str, Configuration]


def plan(request: Request) -> Plan:
    """Resolve a request to the cells that answer it.

    Raises:
        UserError: a name is unknown, or settings or flags make no sense together.
    """
    selected = select(study_of(request), request)
    study, profile = selected.study, selected.profile
    require_presets(study, request)
    tasks = {name: composer(study.trainer).task(name) for name in selected.tasks}
    configs = {name: _configurations(study, profile, one, request) for name, one in tasks.items()}
    every = [config for of_variants in configs.values() for config in of_variants.values()]
    _require_that_flags_act(study, request, every)
    for name, of_variants in configs.items():
        _require_differences(study, name, of_variants)
    _require_that_variants_act(study, every)
    if not (request.set or request.vary or request.variants or profile.variants):
        _require_readers(study, profile, every)
    return Plan(
        request=request.flags(),
        study=replace(
            described_study(study, request),
            tuned=_tuned(study, request, tasks),
            score=profile.score,
            metric=_metric(study, profile),
        ),
        variants=_described_variants(study, configs),
        tasks={name: _described_task(study, one, configs[name]) for name, one in tasks.items()},
        cells=tuple(
            entry(task, name, seed, config)
            for task, of_variants in configs.items()
            for seed in (*selected.seeds, *selected.of_baseline)
            for name, config in of_variants.items()
            if seed in selected.seeds or name == study.baseline
        ),
        looks=_looks(study, configs, request),
    )


def _metric(study: Study, profile: Profile) -> str:
    """Return what is judged: the return of evaluations where the profile scores those."""
    evaluated = study.metric.startswith("evaluation/") or profile.score is None
    return study.metric if evaluated else "evaluation/return"


def with_seeds(plan: Plan, counts: Mapping[tuple[str, str], int]) -> Plan:
    """Return a plan with other numbers of seeds, counted from 0, by (task, variant)."""
    cells = _cells(plan, range(max(counts.values())))
    return replace(
        plan, cells=tuple(cell for cell in cells if cell.seed < counts[cell.task, cell.variant])
    )


def on_seeds(plan: Plan, seeds: Sequence[int]) -> Plan:
    """Return a plan on other seeds, with its own revisions, also where the code has others now."""
    flags: Flags = {**plan.request, "seeds": list(seeds), "until": None, "most_seeds": None}
    request = Request.of(plan.study.name, flags)
    return replace(plan, request=request.flags(), looks=NO_LOOKS, cells=tuple(_cells(plan, seeds)))


def entry(task: str, variant: str, seed: int, config: Configuration) -> CellEntry:
    """Return the cell of a configuration and a seed, with its hash."""
    config = {**config, "seed": seed}
    return CellEntry(task, variant, seed, digest(config), config)


def _cells(plan: Plan, seeds: Iterable[int]) -> Iterable[CellEntry]:
    configs = {(cell.task, cell.variant): cell.config for cell in plan.cells}
    for task in plan.tasks:
        for seed in seeds:
            for name in plan.variants:
                yield entry(task, name, seed, configs[task, name])


def described_study(study: Study, request: Request) -> StoredStudy:
    """Return the study of a plan, as it is stored."""
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


def _configurations(
    study: Study,
    profile: Profile,
    task: Task,
    request: Request,
) -> OfVariants:
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


def _require_that_flags_act(study: Study, request: Request, every: Sequence[Configuration]) -> None:
    """Raise UserError for a flag that changes nothing, in any variant on any task."""
    flags = {name: f"--set {name}" for name in request.set}
    flags |= {name: f"--vary {name}" for name in request.vary}
    _require_effects(study, flags, every)


def _require_differences(study: Study, task: str, configs: OfVariants) -> None:
    """Raise UserError where a variant equals the one it is compared with, outside of grids."""
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
        f"'{name}' and '{other}' of '{study.name}' are one composition on {task} with these "
        f"settings{''.join(f', since {reason}' for reason in dict.fromkeys(reasons))}{too}: there "
        f"is nothing to compare; leave one out with --variants"
    )


def _require_that_variants_act(study: Study, every: Sequence[Configuration]) -> None:
    """Raise UserError for a setting of variants that changes nothing."""
    if len(study.variants) > 1:
        varied = {name for variant in study.variants.values() for name in variant.sets}
        _require_effects(study, {name: f"{name}, which variants set," for name in varied}, every)


def _require_readers(study: Study, profile: Profile, every: Sequence[Configuration]) -> None:
    """Raise UserError for a setting of the whole study that no variant reads."""
    tasks = {config["task"]["name"] for config in every}
    shared = {
        *study.settings,
        *profile.settings,
        *(name for task in tasks for name in profile.task_settings.get(task, ())),
    }
    read = {*RUN_SETTINGS}
    for config in map(composer(study.trainer).completed, every):
        read.update(settings_read(config), config["task"]["settings"])
    if unread := sorted(shared - read):
        raise UserError(
            f"study '{study.name}' sets {', '.join(unread)}, which none of the variants "
            f"{', '.join(study.variants)} reads"
        )


def _require_effects(
    study: Study, names: Mapping[str, str], every: Sequence[Configuration]
) -> None:
    """Raise UserError for a setting that acts nowhere. names: setting -> its origin, in words."""
    definition = composer(study.trainer)
    reasons = [definition.inert(config, names) for config in every]
    for name in sorted(names):
        if all(name in one for one in reasons):
            reason = reasons[0][name]
            raise UserError(f"{names[name]} changes nothing in '{study.name}': {reason}")


def _looks(study: Study, configs: Mapping[str, OfVariants], request: Request) -> Looks:
    """Return the looks of a request."""
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
            f"select a variant and the one it is compared with"
        )
    return Looks(
        tuple(planned(FIRST_LOOK, request.most_seeds)),
        comparisons=len(compared),
        over_tasks=len({name for _, name in compared}) if len(configs) > 1 else 0,
    )


def _tuned(study: Study, request: Request, tasks: Collection[str]) -> Tuned | None:
    """Return the tuned values of the variants that act, of this study or the one they are from."""
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
    # Of a grid, whose variants share their choices, the first variant with a choice explains it.
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
            same_as=next(
                other
                for other in study.variants
                if all(of[other] == of[name] for of in configs.values())
            ),
            neutral=_neutral(definition, one_of[name], varied) or None,
            place=definition.place(one_of[name]) or None,
        )
        for name, variant in study.variants.items()
    }


def _neutral(
    definition: Composer, config: Configuration, names: Collection[str]
) -> dict[str, Json]:
    """Return the names that a configuration leaves out as neutral, with their values."""
    stated, whole = settings_read(config), settings_read(definition.completed(config))
    return {name: whole[name] for name in sorted(whole.keys() - stated) if name in names}


def _described_task(study: Study, task: Task, configs: OfVariants) -> StoredTask:
    shared = configs.get(study.baseline) or next(iter(configs.values()))
    return StoredTask(steps_of(shared), shared["task"]["settings"], task.summary)


def values_of(
    study: Study, profile: Profile, task: Task, variant: Variant, request: Request
) -> dict[str, Json]:
    """Return everything that is set for a variant on a task; the later source wins.

    Raises UserError for a multiple, such as "x1/3", of a setting that has no number beneath it.
    """
    values = {
        **defaults(task, composer(study.trainer), study, variant, request, profile),
        **study.settings,
        **profile.settings,
        **profile.task_settings.get(task.name, {}),
        **variant.tuned.get(task.name, {}),
        **request.set,
        **({} if request.steps is None else {"steps": request.steps}),
    }
    return values | {name: _multiplied(name, x, values) for name, x in variant.sets.items()}


def _multiplied(name: str, value: Json, beneath: Settings) -> Json:
    """Return a multiple such as "x1/3" of the setting beneath it; any other value as it is."""
    if not isinstance(value, str) or not re.fullmatch(r"x\d+(\.\d+)?(/[1-9]\d*)?", value):
        return value
    number, _, divisor = value[1:].partition("/")
    base = beneath.get(name)
    if isinstance(base, bool) or not isinstance(base, (int, float)):
        raise UserError(f"{name}={value} multiplies the task's own {name}, and it has none")
    return base * float(number) / float(divisor or 1)


def schedule(
    definition: Composer,
    config: Configuration,
    values: Settings,
    profile: Profile,
    task: Task,
) -> Run:
    """Return how long a configuration trains, and where its curve has points."""
    evaluations = count("evaluations", values.get("evaluations", profile.evaluations), 0)
    environments = count(
        "evaluation_envs", values.get("evaluation_envs", profile.evaluation_envs), 1
    )
    return definition.schedule(
        config,
        steps=count("steps", values.get("steps", profile.steps or task.steps), 1),
        points=count("points", values.get("points", profile.points), 1),
        evaluations=evaluations,
        evaluation_envs=environments,
    )
