"""Rules about combinations of settings: conflicts, and settings without an effect.

The parameters of a rule name axes, numbers, static settings or settings of the task. The rule is
called, by keyword, for every variant that has all of them or for which they have defaults.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from typing import TypeAlias, TypeVar

from variants.registry import axes, axis

Setting: TypeAlias = str | float  # the name of a choice, or a number
Answer = TypeVar("Answer")
Condition: TypeAlias = Callable[..., bool]
Conflict = TypeVar("Conflict", bound=Callable[..., str | None])
Inert = TypeVar("Inert", bound=Callable[..., Mapping[str, str]])

_CONFLICTS: list[Callable[..., str | None]] = []
_INERT: list[Callable[..., Mapping[str, str]]] = []


def conflict(rule: Conflict) -> Conflict:
    """Register a rule that returns what is wrong with a combination, or None."""
    _CONFLICTS.append(rule)
    return rule


def conflict_where(sentence: str) -> Callable[[Condition], Callable[..., str | None]]:
    """Register a rule that returns whether a variant has an invalid combination.

    sentence: what is wrong, with {name} for parameters of the rule.
    """

    def register(rule: Condition) -> Callable[..., str | None]:
        @wraps(rule)
        def complaint(**seen: Setting) -> str | None:
            return sentence.format(**seen) if rule(**seen) else None

        return conflict(complaint)

    return register


def conflicts(variant: Mapping[str, Setting]) -> list[str]:
    """Return the complaints about a variant.

    variant: axis -> choice, and other settings by name. Raises UnknownName for an unknown choice,
        or for a string whose name is not an axis.
    """
    for name, value in variant.items():
        if name in axes() or isinstance(value, str):
            axis(name)[str(value)]
    return [complaint for complaint in _answers(_CONFLICTS, variant) if complaint]


def inert(rule: Inert) -> Inert:
    """Register a rule that returns settings that are read without an effect: name -> reason."""
    _INERT.append(rule)
    return rule


def inert_where(
    reason: str, *names: str
) -> Callable[[Condition], Callable[..., Mapping[str, str]]]:
    """Register a rule that returns whether the named settings have no effect in a variant.

    reason: with {name} for parameters of the rule.
    """

    def register(rule: Condition) -> Callable[..., Mapping[str, str]]:
        @wraps(rule)
        def reasons(**seen: Setting) -> Mapping[str, str]:
            return dict.fromkeys(names, reason.format(**seen)) if rule(**seen) else {}

        return inert(reasons)

    return register


def inert_settings(variant: Mapping[str, Setting]) -> dict[str, str]:
    """Return the settings that a variant reads without an effect: name -> reason.

    variant: axis -> choice, and other settings by name.
    """
    found: dict[str, str] = {}
    for reasons in _answers(_INERT, variant):
        found = {**reasons, **found}
    return found


def _answers(
    rules: list[Callable[..., Answer]], variant: Mapping[str, Setting]
) -> Iterator[Answer]:
    for rule in rules:
        seen = {name: variant.get(name, default) for name, default in _defaults(rule).items()}
        if inspect.Parameter.empty not in seen.values():
            yield rule(**seen)


@cache
def _defaults(rule: Callable[..., Answer]) -> dict[str, object]:
    """Return the parameters of a rule with their defaults, or `inspect.Parameter.empty`."""
    return {name: p.default for name, p in inspect.signature(rule).parameters.items()}


WHERE = "with one epoch of one minibatch"


def on_policy(
    epochs: int,
    num_minibatches: int,
    observation_normalization: str,
    mean_perturbation: str = "none",
) -> bool:
    """Return whether π = π_old and V = V_old, up to rounding, at every gradient step.

    That holds for one epoch of one minibatch, unless the batch is normalised again before the step
    or the means are displaced.
    """
    one_step = epochs == 1 and num_minibatches == 1
    return one_step and observation_normalization != "before" and mean_perturbation == "none"
