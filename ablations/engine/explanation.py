"""Plan the runs that attribute the gap between two presets or variants to details.

Each seed switches the details one after another from the start's value to the end's, in a random
order and in the reverse order. Further runs switch each detail alone, and all details except one.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import msgspec

from ablations import presets
from ablations.core.decode import Json
from ablations.core.plan import (
    CellEntry,
    Detail,
    Explanation,
    Settings,
    StoredStudy,
    StoredTask,
    StoredVariant,
)
from ablations.core.record import Configuration, settings_read, steps_of
from ablations.engine.backends.command import study_file
from ablations.engine.plan import (
    RUN_SETTINGS,
    described_study,
    entry,
    known_studies,
    preset_study,
    profile_of,
    schedule,
    values_of,
)
from ablations.errors import UserError, unknown
from ablations.parameters import Selection
from ablations.records import Plan, digest
from ablations.request import Request
from ablations.studies import Study, Variant
from ablations.tasks import Task
from ablations.trainers import TrainerSpec, composer

Set = frozenset[str]


@dataclass(frozen=True)
class Gap:
    """The difference between two configurations of one trainer on one task.

    start, end: the values of all settings that either reads; a setting that only one reads has the
    same value in both. names: the settings that both read and that differ. defaults: the defaults
    of choices and hyperparameters.
    """

    definition: TrainerSpec
    task: Task
    start: Settings
    end: Settings
    names: tuple[str, ...]
    defaults: Settings
    _composed: dict[Set, Configuration] = field(default_factory=dict, repr=False)

    def compose(self, switched: Iterable[str]) -> Configuration:
        """Return the configuration with some settings at the end's value, without seed and length.

        Settings without effect are at their default, so that configurations that train alike are
        equal. Raises UserError: a rule refuses the configuration.
        """
        switched = frozenset(switched)
        if switched not in self._composed:
            values = {**self.start, **{name: self.end[name] for name in switched}}
            config = self.definition.resolve(self.task, values, RUN_SETTINGS)
            complete = self.definition.completed(config)
            inert = self.definition.inert(config, [*complete["choices"], *complete["numbers"]])
            plain = {name: self.defaults[name] for name in inert if name in values}
            if any(values[name] != default for name, default in plain.items()):
                with contextlib.suppress(UserError):  # a rule refuses the defaults
                    config = self.definition.resolve(self.task, {**values, **plain}, RUN_SETTINGS)
            self._composed[switched] = config
        return self._composed[switched]

    def brings(self, name: str) -> tuple[Settings, Settings]:
        """Return the settings that only the start reads, or only the end, because of a setting."""
        every = Set(self.names)
        return self._lost(Set(), Set({name})), self._lost(every, every - {name})

    def _lost(self, switched: Set, without: Set) -> Settings:
        """Return the settings that a configuration reads, and neither of two others."""
        opposite = Set(self.names) - switched
        with contextlib.suppress(UserError):  # a rule refuses one of them
            read, *others = (
                settings_read(self.definition.completed(self.compose(names)))
                for names in (switched, without, opposite)
            )
            return {name: read[name] for name in read if not any(name in of for of in others)}
        return {}


def gap(definition: TrainerSpec, task: Task, start: Settings, end: Settings) -> Gap:
    """Return the gap between two sets of values.

    Raises UserError: they train in different environments, or are equal.
    """
    configs = [
        definition.completed(definition.resolve(task, values, RUN_SETTINGS))
        for values in (start, end)
    ]
    environments = [config["task"]["settings"] for config in configs]
    if environments[0] != environments[1]:
        differing = [n for n in environments[0] if environments[0][n] != environments[1][n]]
        raise UserError(
            f"the two train in different environments ({', '.join(differing)}): give one value to "
            f"both with --set"
        )
    a, b = map(settings_read, configs)
    names = tuple(name for name in a if name in b and a[name] != b[name])
    common = {**environments[0], **b, **a}
    defaults: dict[str, Json] = dict(definition.axes)
    defaults |= {name: one.default for name, one in definition.known_numbers().items()}
    found = Gap(definition, task, common, {**common, **b}, names, defaults)
    if found.compose(()) == found.compose(names):
        raise UserError("the two are identical: there is no gap to explain")
    return found


def grouped(
    found: Gap, together: Iterable[Sequence[str]], seeds: Iterable[int]
) -> dict[str, tuple[str, ...]]:
    """Return the details: name -> the settings that are switched together.

    They are groups that the user names in `together`, and groups of which a rule refuses only a
    part. Raises UserError: a setting in `together` does not differ.
    """
    details: dict[str, tuple[str, ...]] = {name: (name,) for name in found.names}
    for wanted in together:
        for name in wanted:
            if name not in found.names:
                raise unknown("differing detail", name, found.names)
        details = _joined(details, {d for d, names in details.items() if set(names) & set(wanted)})

    @cache
    def refusal(switched: Set) -> str | None:
        try:
            found.compose(switched)
        except UserError as error:
            return str(error)
        return None

    def refused(switched: Set) -> str | None:
        return refusal(frozenset(name for detail in switched for name in details[detail]))

    while (wrong := next(filter(refused, _tried(details, seeds)), None)) is not None:
        details = _joined(details, _bound(wrong, frozenset(details), refused))
    return details


def _bound(wrong: Set, every: Set, refused: Callable[[Set], str | None]) -> Set:
    """Return a smallest refused part of `wrong`, and the fewest details that make it valid."""
    core, allowed = wrong, every
    for detail in sorted(wrong):
        if refused(core - {detail}):
            core -= {detail}
    for detail in sorted(every - wrong):
        if not refused(allowed - {detail}):
            allowed -= {detail}
    return core | (allowed - wrong)


def _joined(
    details: Mapping[str, tuple[str, ...]], which: AbstractSet[str]
) -> dict[str, tuple[str, ...]]:
    """Return the details with some of them joined, at the position of the first."""
    names = tuple(name for detail in details if detail in which for name in details[detail])
    found: dict[str, tuple[str, ...]] = {}
    for detail, own in details.items():
        if detail not in which:
            found[detail] = own
        elif " + ".join(names) not in found:
            found[" + ".join(names)] = names
    return found


def _tried(details: Collection[str], seeds: Iterable[int]) -> Iterable[Set]:
    """Yield the sets of details to switch; first small ones, which show what a rule joins."""
    every = frozenset(details)
    for one in details:
        yield frozenset({one})
        yield every - {one}
    for pair in itertools.combinations(details, 2):
        yield frozenset(pair)
        yield every - set(pair)
    for seed in seeds:
        yield from (place.switched for place in places("", "", order(details, seed)))


def order(details: Iterable[str], seed: int) -> tuple[str, ...]:
    """Return the random order of a seed. A further detail keeps the order of the others."""
    return tuple(sorted(details, key=lambda detail: digest([seed, detail])))


FEWEST_SEEDS = 12


class Side(NamedTuple):
    """One end of a gap. name: the preset or variant that the user named."""

    name: str
    study: Study
    variant: Variant


class Place(NamedTuple):
    """A run of a seed: the name of its variant, and the switched details."""

    variant: str
    switched: Set


def name_of(start: str, end: str) -> str:
    """Return the study's name of an explanation: "brax_to_sb3", "gae.standard_to_brax"."""
    study, slash, variant = end.rpartition("/")
    name = f"{start}_to_{variant if start.startswith(study + slash) else end}".replace("/", ".")
    return re.sub(r"[^\w.-]", "_", name)


def request(
    start: str, end: str, together: Sequence[Sequence[str]], selection: Selection
) -> Request:
    """Return the request of `explain`, between two presets, variants, or FILE.toml/VARIANT."""
    (start, brought), (end, more) = study_file.named(start), study_file.named(end)
    return replace(
        Request.of(name_of(start, end), selection, brought + more),
        explain=(start, end),
        together=tuple(tuple(names) for names in together),
    )


def plan(request: Request) -> Plan:
    """Resolve a request of `explain` to its runs. Raises UserError."""
    assert request.explain is not None
    start, end = (_side(name, request) for name in request.explain)
    definition, other = composer(start.study.trainer), composer(end.study.trainer)
    if definition.name != other.name:
        raise UserError(
            f"'{start.name}' is of the trainer '{definition.name}', but '{end.name}' is of "
            f"'{other.name}': only variants of one trainer can be explained"
        )
    if given := [n for n in ("variants", "vary", "base") if getattr(request, n)]:
        raise UserError(f"--{given[0]} is for studies: an explanation has the two ends you name")
    profile = profile_of(start.study, request.profile)
    tasks = [definition.task(name) for name in dict.fromkeys(request.tasks or profile.tasks)]
    seeds = request.seeds or tuple(range(max(FEWEST_SEEDS, len(profile.every_seed()))))
    values = {task.name: _values(start, end, task, request) for task in tasks}
    gaps = {task.name: gap(definition, task, *values[task.name]) for task in tasks}
    for name in request.set:
        if not any(name in found.start or name in RUN_SETTINGS for found in gaps.values()):
            raise UserError(f"--set {name} changes nothing: neither of the two uses it")
    every = [grouped(found, request.together, seeds) for found in gaps.values()]
    details = every[0]
    if any(others != details for others in every):
        raise UserError("the two differ in different details on these tasks: explain one at a time")
    orders = {seed: order(details, seed) for seed in seeds}
    cells: list[CellEntry] = []
    for where, found in gaps.items():
        made: dict[Set, Configuration] = {}
        for seed in seeds:
            for place in places(start.name, end.name, orders[seed]):
                if place.switched not in made:
                    names = [n for detail in place.switched for n in details[detail]]
                    config = found.compose(names)
                    run = schedule(definition, config, values[where][0], profile, found.task)
                    made[place.switched] = {**config, "run": run}
                cells.append(entry(where, place.variant, seed, made[place.switched]))
    summaries = {start.name: start.variant.summary, end.name: end.variant.summary}
    one = next(iter(gaps.values()))
    context = definition.place(cells[0].config) or None
    return Plan(
        request=request.flags(),
        study=_described(start, end, request, one, details, orders),
        variants={
            name: StoredVariant(
                None, summaries.get(name, ""), {}, formulas={}, same_as=name, place=context
            )
            for name, _ in places(start.name, end.name, orders[seeds[0]])
        },
        tasks={
            where: StoredTask(steps_of(config), config["task"]["settings"], found.task.summary)
            for where, found in gaps.items()
            for config in [next(cell.config for cell in cells if cell.task == where)]
        },
        cells=tuple(cells),
    )


def places(start: str, end: str, switching: Sequence[str]) -> Iterator[Place]:
    """Yield the runs of one seed."""
    every = frozenset(switching)
    yield Place(start, frozenset())
    yield Place(end, every)
    for way, steps in (("order", switching), ("reverse", switching[::-1])):
        for count in range(1, len(steps)):
            yield Place(f"{way} {count}", frozenset(steps[:count]))
    for one in sorted(switching):
        yield Place(f"{start} + {one}", frozenset({one}))
        yield Place(f"{end} - {one}", every - {one})


def _side(name: str, request: Request) -> Side:
    known = known_studies(request)
    if name in presets.presets():
        study = known.get(name) or preset_study(name)
        return Side(name, study, study.variants[name])
    head, _, rest = name.rpartition("/")
    owners = [s for s in known.values() if head in ("", s.name) and rest in s.variants]
    if len(owners) > 1:
        choices = ", ".join(f"{study.name}/{rest}" for study in owners)
        raise UserError(f"several studies have a variant '{rest}': choose one of {choices}")
    if not owners:
        near = [f"{head}/{variant}" for variant in known[head].variants] if head in known else ()
        raise unknown("preset or variant", name, near or [*presets.presets(), "STUDY/VARIANT"])
    return Side(name, owners[0], owners[0].variants[rest])


def _values(start: Side, end: Side, task: Task, request: Request) -> tuple[Settings, Settings]:
    """Return the settings of both ends. By default, presets use the task's static settings."""
    request = replace(request, geometry=request.geometry or "common")

    def of(side: Side) -> dict[str, Json]:
        profile = profile_of(side.study, request.profile)
        return values_of(side.study, profile, task, side.variant, request) | dict(request.set)

    return of(start), of(end)


def _described(
    start: Side,
    end: Side,
    request: Request,
    found: Gap,
    details: Mapping[str, tuple[str, ...]],
    orders: Mapping[int, Sequence[str]],
) -> StoredStudy:
    """Return the study of an explanation, with its details."""
    return msgspec.structs.replace(
        described_study(start.study, request),
        name=request.study,
        title=f"From {start.name} to {end.name}",
        claim=f"Which details make the gap between {start.name} and {end.name}?",
        claim_source="",
        baseline=start.name,
        explanation=Explanation(
            start=start.name,
            end=end.name,
            details={
                detail: Detail(
                    settings={name: (found.start[name], found.end[name]) for name in names},
                    brings={name: of for name in names if any(of := found.brings(name))},
                )
                for detail, names in details.items()
            },
            orders={str(seed): tuple(names) for seed, names in orders.items()},
            held={
                name: found.start[name]
                for name in found.definition.structure
                if name in found.start and found.start[name] == found.end[name]
            },
        ),
    )
