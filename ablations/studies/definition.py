"""Studies: a claim, a baseline, the variants that test it. Names only; nothing is imported here."""

from __future__ import annotations

import functools
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ablations.errors import UserError, unknown
from ablations.names import require_name
from ablations.studies.tuned import Tuning

if TYPE_CHECKING:
    from ablations.core.decode import Json
    from ablations.core.plan import Settings
    from ablations.trainers import Composer


@dataclass(frozen=True)
class Variant:
    """One composition: what it sets (choices, numbers, structure) over the study's common settings.

    A value such as "x1/3" multiplies the number that the task has for the setting.

    versus: the variant it is compared with, instead of the study's baseline. grid: it is one of all
    combinations of some levels, so that it may be the same composition as another of them. preset:
    a library, whose own settings take the place of the task's under all that is set. tuned: task ->
    setting -> the value that `ablations tune` chose there; what is set wins over it, a flag too.
    """

    sets: Settings = field(default_factory=dict)
    versus: str | None = None
    summary: str = ""
    grid: bool = False
    preset: str | None = None
    tuned: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """An amount of compute: which tasks, seeds and steps, and the settings that all variants share.

    steps: environment steps of a run, or None for each task's own.
    points: curve points of a run, each one chunk of training; `evaluations` of them, evenly spaced,
        are followed by an evaluation of `evaluation_envs` episodes.
    settings: name -> value for every task (task settings, numbers or structure).
    task_settings: task -> the same, for that task alone; `steps` may be set here too.
    own: task -> what takes the place of its own settings, beneath those of a library and all that
        is set.
    seeds: a number n for the seeds 0 to n - 1, or the seeds themselves.
    score: the mean of a run's last three evaluations ("last") or of all of them ("mean"); None: the
        mean over the last tenth.
    baseline_seeds: the same as seeds, for a baseline that has more of them than its variants.
    """

    tasks: tuple[str, ...]
    seeds: int | tuple[int, ...]
    steps: int | None = None
    points: int = 20
    evaluations: int = 5
    evaluation_envs: int = 16
    variants: tuple[str, ...] | None = None
    settings: Settings = field(default_factory=dict)
    task_settings: Mapping[str, Settings] = field(default_factory=dict)
    own: Mapping[str, Settings] = field(default_factory=dict)
    score: str | None = None
    baseline_seeds: int | tuple[int, ...] | None = None

    def every_seed(self) -> tuple[int, ...]:
        """Return the seeds of the variants."""
        return _seeds(self.seeds)

    def further_seeds(self) -> tuple[int, ...]:
        """Return the seeds that the baseline alone has."""
        return tuple(
            seed for seed in _seeds(self.baseline_seeds or 0) if seed not in self.every_seed()
        )


def _seeds(given: int | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(given)) if isinstance(given, int) else given


@dataclass(frozen=True)
class Study:
    """A question, ready to run.

    claim: the statement under test, in words, and where it was made.
    baseline: the variant that the others are compared with.
    margin: a difference smaller than this share of what the baseline learned does not matter.
    margin_in_metric: the margin is in units of the metric instead, as for an accuracy.
    metric: the column of the curve that is judged.
    trainer: its name, or one of this study alone.
    geometry: whether variants of a preset have its structure, "own", or the task's, "common".
    tuning: what `ablations tune` chooses for it; None: nothing.
    file: the study file that it was read from; None for any other.
    """

    name: str
    title: str
    claim: str
    claim_source: str
    baseline: str
    variants: Mapping[str, Variant]
    margin: float
    profiles: Mapping[str, Profile]
    metric: str = "training/return"
    trainer: str | Composer = "ppo"
    settings: Settings = field(default_factory=dict)
    margin_in_metric: bool = False
    geometry: str = "own"
    tuning: Tuning | None = None
    file: Path | None = None

    def require_sound(self) -> None:
        """Raise UserError for a name that is none and for variants that it does not have."""
        require_name("the name of a study", self.name)
        if self.baseline not in self.variants:
            raise unknown(f"baseline of study '{self.name}'", self.baseline, self.variants)
        for name, variant in self.variants.items():
            if variant.versus is not None and variant.versus not in self.variants:
                raise unknown(f"'versus' of variant '{name}'", variant.versus, self.variants)


def combinations(
    factors: Mapping[str, Sequence[Json]], text: Callable[[Json], str] = str
) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield every combination of the factors' levels: its name ("x=1,y=2"), factor -> level."""
    for levels in itertools.product(*factors.values()):
        at = dict(zip(factors, levels, strict=True))
        yield ",".join(f"{name}={text(level)}" for name, level in at.items()), at


def crossed(
    variants: Mapping[str, Variant], baseline: str, /, **factors: Sequence[Json]
) -> dict[str, Variant]:
    """Return every variant at every combination of levels, compared with the baseline there.

    crossed({"a": A, "b": B}, "a", discount=(0.9, 0.99)) has a@discount=0.9, b@discount=0.9 and so
    on; b@discount=0.9 is compared with a@discount=0.9.
    """
    grid = {}
    for where, at in combinations(factors):
        for name, variant in variants.items():
            grid[f"{name}@{where}"] = Variant(
                {**variant.sets, **at},
                versus=f"{baseline}@{where}",
                summary=variant.summary,
                grid=True,
                tuned=variant.tuned,
            )
    return grid


def fraction(
    changes: Mapping[str, Settings],
    baseline: str = "baseline",
    *,
    size: int | None = None,
    doubled: bool = False,
) -> dict[str, Variant]:
    """Return few variants that make about half of many changes each.

    Every change is made by half of them, so that its effect is that of one half against the other,
    at many settings of the others.

    The rows of a Sylvester-Hadamard matrix and their complements: twice the power of two that is
    not below the number of changes. Every three changes meet equally often, so that no interaction
    of two passes for a main effect; those of three may (Box & Hunter 1961, resolution IV). The
    first variant, the baseline, makes no change.

    changes: name of a change -> what it sets. size: variants, a power of two. More than are needed
    leave more columns that no detail has, which tell the error of main effects better. doubled:
    with as many again, in which some changes are reversed, so that what has run stays.

    Raises:
        UserError: fewer than four changes, of which all combinations are few; a setting that two of
            them set; a size that is none; doubled, where no alias is there to part.
    """
    if len(changes) < 4:
        raise UserError(f"a fraction takes four changes or more, not {len(changes)}")
    keys = [key for sets in changes.values() for key in sets]
    for key in keys:
        if keys.count(key) > 1:
            raise UserError(f"two changes of a fraction set {key}: each needs settings of its own")
    fewest = 2 << (len(changes) - 1).bit_length()
    size = fewest if size is None else size
    most = 2 ** len(changes) // (1 + doubled)
    if not isinstance(size, int) or not fewest <= size <= most or size.bit_count() != 1:
        limit = f"{most:,}, to be doubled" if doubled else f"all {most:,} combinations"
        raise UserError(
            f"a fraction of {len(changes)} changes has {fewest} variants or a higher power of two, "
            f"up to {limit}, not {size!r}"
        )
    half = size // 2
    chosen = [*range(len(changes))] if size == fewest else _columns(len(changes), half)
    if doubled:
        turned = _reversed(chosen)
        if not any(turned):
            raise UserError(
                f"a fraction of {len(changes)} changes in {size} variants has no four details that "
                f"are aliased: doubled it would repeat its settings; take size={2 * size}"
            )
        chosen = [column + half * on for column, on in zip(chosen, turned, strict=True)]
        half *= 2
    columns = dict(zip(changes, chosen, strict=True))
    variants = {}
    for row, complement in itertools.product(range(half), (0, 1)):
        made = [
            name
            for name, column in columns.items()
            if ((row & column).bit_count() + complement) % 2
        ]
        sets = {key: value for name in made for key, value in changes[name].items()}
        name = f"mix_{2 * row + complement}" if made else baseline
        variants[name] = Variant(sets, summary=", ".join(made) or "no change", grid=True)
    return variants


def _columns(count: int, half: int) -> list[int]:
    """Choose columns of a Hadamard matrix, each in turn with the fewest aliases.

    Of four columns whose numbers have an exclusive or of 0, each is the product of the others. Of
    equals the first that is no product of any is taken, so that no row comes twice.
    """
    chosen: list[int] = []
    spanned = {0}
    for _ in range(count):
        triples = Counter(a ^ b ^ c for a, b, c in itertools.combinations(chosen, 3))
        free = [column for column in range(half) if column not in chosen]
        column = min(free, key=lambda column: (triples[column], column in spanned, column))
        chosen.append(column)
        spanned |= {column ^ other for other in spanned}
    return chosen


def _reversed(columns: Sequence[int]) -> list[bool]:
    """Choose the columns that a second half reverses, until no other one leaves fewer aliases.

    An alias stays where an even number of its four columns is reversed.
    """
    aliases = [
        of
        for of in itertools.combinations(range(len(columns)), 4)
        if functools.reduce(operator.xor, (columns[k] for k in of)) == 0
    ]
    turned = [False] * len(columns)

    def gain(column: int) -> int:
        """Return how many fewer aliases stay where this one is reversed too."""
        stays = (sum(turned[k] for k in of) % 2 == 0 for of in aliases if column in of)
        return sum(1 if left else -1 for left in stays)

    while gain(best := max(range(len(columns)), key=gain)) > 0:
        turned[best] = not turned[best]
    return turned


_STUDIES: dict[str, Study] = {}


def register(study: Study) -> Study:
    """Make a study known to every command.

    Raises UserError for a name that is taken or none, and for variants that the study lacks.
    """
    study.require_sound()
    if study.name in _STUDIES:
        raise UserError(f"study '{study.name}' is registered twice: choose another name")
    _STUDIES[study.name] = study
    return study


def studies() -> Mapping[str, Study]:
    """Return all registered studies by name."""
    return dict(_STUDIES)


def study(name: str) -> Study:
    """Return the registered study of that name. Raises UserError."""
    if name not in _STUDIES:
        raise unknown("study", name, _STUDIES)
    return _STUDIES[name]
