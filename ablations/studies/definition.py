"""Studies: a claim, a baseline, and the variants that test it. Imports no trainers."""

from __future__ import annotations

import functools
import itertools
import json
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from ablations.errors import UserError, unknown
from ablations.names import require_name

if TYPE_CHECKING:
    from ablations.core.decode import Json
    from ablations.core.plan import Settings
    from ablations.trainers import TrainerSpec


@dataclass(frozen=True)
class Variant:
    """A variant: its settings, which replace the study's common settings.

    Attributes:
        sets: choices, hyperparameters and static settings. A value such as "x1/3" multiplies the
            task's value.
        versus: the variant that it is compared with; None: the study's baseline.
        grid: whether it is part of a grid, in which variants may have equal configurations.
        preset: a library whose settings replace the task's.
        tuned: task -> setting -> the value that `ablations tune` chose. `sets` and flags
            replace it.
    """

    sets: Settings = field(default_factory=dict)
    versus: str | None = None
    summary: str = ""
    grid: bool = False
    preset: str | None = None
    tuned: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """A budget: tasks, seeds, steps, and settings that all variants share.

    Attributes:
        seeds: a number n for the seeds 0 to n - 1, or the seeds.
        steps: environment steps of a run; None: the task's.
        points: of a run's curve.
        evaluations: number of evaluations, evenly spaced over the points.
        evaluation_envs: episodes of an evaluation.
        variants: default: all.
        settings: for every task.
        task_settings: task -> settings (and `steps`) for this task only.
        own: task -> settings that replace the task's; presets and all other settings replace them.
        score: mean of a run's last three evaluations ("last") or of all ("mean"); None: mean over
            the last tenth of training.
        baseline_seeds: like seeds, if the baseline has more seeds than its variants.
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
        """Return the seeds that only the baseline has."""
        return tuple(
            seed for seed in _seeds(self.baseline_seeds or 0) if seed not in self.every_seed()
        )


def _seeds(given: int | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(given)) if isinstance(given, int) else given


TUNING_SEEDS = tuple(range(1000, 1005))
# variant -> value as text -> the score of each seed (None: it failed)
OfTask: TypeAlias = dict[str, dict[str, list[float | None]]]
Scores: TypeAlias = dict[str, OfTask]  # by task


class Tuned(TypedDict, total=False):
    """The file of `ablations tune`.

    scores: of every seed at every value. chosen: task -> variant -> value. machine: processors of
    the runs. rule: how values were chosen, in words.
    """

    study: str
    setting: str
    metric: str
    rule: str
    seeds: list[int]
    command: str
    machine: list[str]
    chosen: dict[str, dict[str, float]]
    scores: Scores


@dataclass(frozen=True)
class Tuning:
    """A setting that is tuned for every variant of a study on every task, with equal budgets.

    Attributes:
        setting: a hyperparameter, such as "learning_rate".
        grid: the first values, an ascending geometric series.
        file: of the chosen values and scores.
        profile: its tasks, steps and variants are tuned.
        seeds: of tuning; no table uses them.
    """

    setting: str
    grid: tuple[float, ...]
    file: Path
    profile: str = "quick"
    seeds: tuple[int, ...] = TUNING_SEEDS

    def read(self) -> Tuned:
        """Return the content of the file; {} if it does not exist. Raises UserError if damaged."""
        try:
            content: Tuned = json.loads(self.file.read_text())
            content["chosen"]
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError):
            raise UserError(
                f"'{self.file}' is not a file of `ablations tune`: tune again"
            ) from None
        return content

    def of(self, variant: str) -> Mapping[str, Mapping[str, float]]:
        """Return task -> setting -> the chosen value for a variant, on tuned tasks."""
        chosen = self.read().get("chosen", {})
        return {t: {self.setting: v[variant]} for t, v in chosen.items() if variant in v}


@dataclass(frozen=True)
class Study:
    """A question with everything that is needed to answer it.

    Attributes:
        claim, claim_source: the tested statement and its source.
        baseline: the variant that the others are compared with.
        margin: differences below this share of the learned range do not matter.
        margin_in_metric: whether the margin is in units of the metric instead.
        metric: the column of the curve for scores.
        trainer: a name, or a trainer for this study only.
        geometry: variants with a preset have its static settings ("own") or the task's ("common").
        tuning: for `ablations tune`, or None.
        file: the study file, or None.
    """

    name: str
    title: str
    claim: str
    claim_source: str
    baseline: str
    variants: Mapping[str, Variant]
    profiles: Mapping[str, Profile]
    margin: float = 0.05
    metric: str = "training/return"
    trainer: str | TrainerSpec = "ppo"
    settings: Settings = field(default_factory=dict)
    margin_in_metric: bool = False
    geometry: str = "own"
    tuning: Tuning | None = None
    file: Path | None = None

    def require_sound(self) -> None:
        """Raise UserError for an invalid name, and for unknown variants."""
        require_name("the name of a study", self.name)
        if self.baseline not in self.variants:
            raise unknown(f"baseline of study '{self.name}'", self.baseline, self.variants)
        for name, variant in self.variants.items():
            if variant.versus is not None and variant.versus not in self.variants:
                raise unknown(f"'versus' of variant '{name}'", variant.versus, self.variants)


def combinations(
    factors: Mapping[str, Sequence[Json]], text: Callable[[Json], str] = str
) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield the name ("x=1,y=2") and the levels of every combination of the factors' levels."""
    for levels in itertools.product(*factors.values()):
        chosen = dict(zip(factors, levels, strict=True))
        yield ",".join(f"{name}={text(level)}" for name, level in chosen.items()), chosen


def crossed(
    variants: Mapping[str, Variant], baseline: str, /, **factors: Sequence[Json]
) -> dict[str, Variant]:
    """Return every variant at every combination of levels, compared with the baseline there.

    crossed({"a": A, "b": B}, "a", discount=(0.9, 0.99)) has a@discount=0.9, b@discount=0.9 and so
    on; b@discount=0.9 is compared with a@discount=0.9.
    """
    grid = {}
    for suffix, levels in combinations(factors):
        for name, variant in variants.items():
            grid[f"{name}@{suffix}"] = Variant(
                {**variant.sets, **levels},
                versus=f"{baseline}@{suffix}",
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
    """Return a fractional factorial: a few variants, each with about half of many changes.

    Half of the variants make each change, so its effect is the difference between the two halves,
    averaged over many settings of the other changes.

    The variants are the rows of a Sylvester-Hadamard matrix and their complements; their number is
    twice the smallest power of two that is at least the number of changes. Any three changes occur
    in all combinations equally often, so main effects are not aliased with interactions of two
    changes, but with interactions of three (Box & Hunter 1961, resolution IV). The first variant,
    the baseline, makes no change.

    Args:
        changes: name of a change -> its settings.
        baseline: the name of the first variant.
        size: number of variants, a power of two. More than the minimum leave more unused columns,
            which estimate the error of main effects better.
        doubled: adds as many variants, with some changes reversed, to an existing fraction.

    Raises:
        UserError: fewer than four changes, two changes of the same setting, an invalid size, or
            `doubled` for a fraction without aliased interactions.
    """
    if len(changes) < 4:
        raise UserError(f"a fraction needs at least four changes, not {len(changes)}")
    keys = [key for sets in changes.values() for key in sets]
    for key in keys:
        if keys.count(key) > 1:
            raise UserError(f"two changes of a fraction set {key}: each needs its own settings")
    fewest = 2 << (len(changes) - 1).bit_length()
    size = fewest if size is None else size
    most = 2 ** len(changes) // (1 + doubled)
    if not isinstance(size, int) or not fewest <= size <= most or size.bit_count() != 1:
        raise UserError(
            f"size={size!r} of a fraction of {len(changes)} changes: expected a power of two from "
            f"{fewest} to {most:,}"
        )
    half = size // 2
    chosen = [*range(len(changes))] if size == fewest else _columns(len(changes), half)
    if doubled:
        turned = _reversed(chosen)
        if not any(turned):
            raise UserError(
                f"a fraction of {len(changes)} changes in {size} variants has no aliased "
                f"interactions, so it cannot be doubled: use size={2 * size}"
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
    """Choose columns of a Hadamard matrix one by one, each with the fewest aliases.

    If the exclusive or of four column numbers is 0, each column is the product of the others. Among
    equals, a column that is not a product of others is preferred, so that all rows differ.
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
    """Choose the columns to reverse in a second half, greedily, to remove the most aliases.

    An alias remains if an even number of its four columns is reversed.
    """
    aliases = [
        four
        for four in itertools.combinations(range(len(columns)), 4)
        if functools.reduce(operator.xor, (columns[k] for k in four)) == 0
    ]
    turned = [False] * len(columns)

    def gain(column: int) -> int:
        """Return the number of aliases that reversing this column removes."""
        remains = (sum(turned[k] for k in four) % 2 == 0 for four in aliases if column in four)
        return sum(1 if alias else -1 for alias in remains)

    while gain(best := max(range(len(columns)), key=gain)) > 0:
        turned[best] = not turned[best]
    return turned


_STUDIES: dict[str, Study] = {}


def register(study: Study) -> Study:
    """Make a study available to all commands. Raises UserError if its name is taken or invalid."""
    study.require_sound()
    if study.name in _STUDIES:
        raise UserError(f"study '{study.name}' is registered twice: choose another name")
    _STUDIES[study.name] = study
    return study


def studies() -> Mapping[str, Study]:
    """Return all registered studies, sorted by name."""
    return dict(sorted(_STUDIES.items()))


def study(name: str) -> Study:
    """Return a registered study by name. Raises UserError."""
    if name not in _STUDIES:
        raise unknown("study", name, _STUDIES)
    return _STUDIES[name]
