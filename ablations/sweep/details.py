"""Split the difference of two compositions into details that can be switched one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache

from ablations.core.decode import Json
from ablations.core.plan import Settings
from ablations.core.record import Configuration, settings_read
from ablations.errors import UserError, unknown
from ablations.records import digest
from ablations.sweep.selection import RUN_SETTINGS
from ablations.tasks import Task
from ablations.trainers import Composer
from ablations.trainers.trainer import Composition

Set = frozenset[str]


@dataclass(frozen=True)
class Gap:
    """Two compositions of one trainer on one task, and all that lies between them.

    start, end: of every setting that either reads, its value; what only one of them reads has its
    value in both, since it acts nowhere but with what brings it. names: the settings that both read
    and that differ. brought: what only one of them reads -> the names that bring it. of_end: what
    the end reads. defaults: of choices and numbers.
    """

    definition: Composer
    task: Task
    start: Settings
    end: Settings
    names: tuple[str, ...]
    brought: Mapping[str, tuple[str, ...]]
    of_end: frozenset[str]
    defaults: Settings
    _composed: dict[Set, Configuration] = field(default_factory=dict, repr=False)

    def compose(self, switched: Iterable[str]) -> Configuration:
        """Return the configuration with some settings at the end's value, the rest at the start's.

        It has no seed and no schedule. What cannot act there is at its default, so that
        compositions which train alike are one.

        Raises:
            UserError: a rule refuses it.
        """
        switched = frozenset(switched)
        if switched not in self._composed:
            values = {**self.start, **{name: self.end[name] for name in switched}}
            self._composed[switched] = self._acting(values)
        return self._composed[switched]

    def _acting(self, values: Settings) -> Configuration:
        config = self._resolve(values)
        whole = self.definition.completed(config)
        inert = self.definition.inert(config, [*whole["choices"], *whole["numbers"]])
        plain = {name: self.defaults[name] for name in inert if name in values}
        if all(values[name] == default for name, default in plain.items()):
            return config
        try:
            return self._resolve({**values, **plain})
        except UserError:  # at their defaults they would be refused: they stay
            return config

    def _resolve(self, values: Settings) -> Configuration:
        return self.definition.resolve(self.task, values, RUN_SETTINGS)


def gap(definition: Composer, task: Task, start: Settings, end: Settings) -> Gap:
    """Return the gap between two sets of values.

    Raises:
        UserError: they train in different environments, or are one composition.
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
    brought = {
        name: _bringers(definition, configs[name in b], configs[name in a], name, names)
        for name in (*a, *b)
        if (name in a) != (name in b)
    }
    common = {**environments[0], **b, **a}
    defaults: dict[str, Json] = dict(definition.axes)
    defaults |= {name: one.default for name, one in definition.known_numbers().items()}
    found = Gap(definition, task, common, {**common, **b}, names, brought, frozenset(b), defaults)
    if found.compose(()) == found.compose(names):
        raise UserError("the two are one composition: there is no gap to explain")
    return found


def _bringers(
    definition: Composer,
    reader: Configuration,
    other: Configuration,
    name: str,
    names: Sequence[str],
) -> tuple[str, ...]:
    """Return those of the names whose value makes `reader` read a setting that `other` does not."""

    def reads(changed: str) -> bool:
        made, options = dict(reader["choices"]), dict(reader["structure"])
        if changed in made:
            made[changed] = other["choices"][changed]
        if changed in options:
            options[changed] = other["structure"][changed]
        return name in definition.reads(
            Composition(
                definition.task(reader["task"]["name"]),
                reader["task"]["settings"],
                {**{n: option.default for n, option in definition.structure.items()}, **options},
                {**definition.axes, **{axis: choice["name"] for axis, choice in made.items()}},
            )
        )

    return tuple(changed for changed in names if not reads(changed))


def grouped(
    found: Gap, together: Iterable[Sequence[str]], orders: Callable[[Sequence[str]], Iterable[Set]]
) -> dict[str, tuple[str, ...]]:
    """Return the details: name of one -> the settings that it switches.

    Settings are one detail where the user wants it, and where a rule refuses a composition that has
    one of them switched and not the other.

    Args:
        found: between which compositions.
        together: settings that the user wants to be one detail.
        orders: details -> the sets of them whose compositions are needed; in the end a rule refuses
            none of these.

    Raises:
        UserError: a setting in `together` does not differ.
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

    while (wrong := next(filter(refused, _tried(details, orders)), None)) is not None:
        details = _joined(details, _bound(wrong, frozenset(details), refused))
    return details


def _bound(wrong: Set, every: Set, refused: Callable[[Set], str | None]) -> Set:
    """Return the fewest details of `wrong` that are refused, with the fewest more that allow it."""
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
    """Return the details with some of them joined, in the place of the first."""
    names = tuple(name for detail in details if detail in which for name in details[detail])
    found: dict[str, tuple[str, ...]] = {}
    for detail, own in details.items():
        if detail not in which:
            found[detail] = own
        elif " + ".join(names) not in found:
            found[" + ".join(names)] = names
    return found


def _tried(
    details: Mapping[str, tuple[str, ...]], orders: Callable[[Sequence[str]], Iterable[Set]]
) -> Iterable[Set]:
    """Yield small sets first, which show best what a rule joins; then all that are needed."""
    every = frozenset(details)
    for one in details:
        yield frozenset({one})
        yield every - {one}
    for pair in itertools.combinations(details, 2):
        yield frozenset(pair)
        yield every - set(pair)
    yield from orders(list(details))


def order(details: Iterable[str], seed: int) -> tuple[str, ...]:
    """Return the order in which a seed switches the details: random, and its own for ever.

    A detail that joins or leaves does not move the others.
    """
    return tuple(sorted(details, key=lambda detail: digest([seed, detail])))
