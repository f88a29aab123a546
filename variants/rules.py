"""Rules about whole variants: what makes no sense together, and what is read but cannot act.

A rule is a function whose parameters name what it looks at: axes, numbers, structure or settings.
It is asked, by keyword, about every variant that has all of them (or for which they have a
default).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from typing import TypeAlias, TypeVar

from variants.checks import RegistrationError
from variants.registry import axes, axis

Setting: TypeAlias = str | float  # the name of a choice, or a number
Answer = TypeVar("Answer")
Condition: TypeAlias = Callable[..., bool]
Conflict = TypeVar("Conflict", bound=Callable[..., str | None])
Inert = TypeVar("Inert", bound=Callable[..., Mapping[str, str]])

_CONFLICTS: list[Callable[..., str | None]] = []
_INERT: list[Callable[..., Mapping[str, str]]] = []


def conflict(rule: Conflict) -> Conflict:
    """Register a rule about combinations that make no sense: it says what is wrong, or None."""
    _require_names(rule)
    _CONFLICTS.append(rule)
    return rule


def conflict_where(sentence: str) -> Callable[[Condition], Callable[..., str | None]]:
    """Register a combination that makes no sense: the rule returns whether a variant has it.

    sentence: what is wrong, with {name} for what the rule looks at.
    """

    def register(rule: Condition) -> Callable[..., str | None]:
        @wraps(rule)
        def complaint(**seen: Setting) -> str | None:
            return sentence.format(**seen) if rule(**seen) else None

        return conflict(complaint)

    return register


def conflicts(variant: Mapping[str, Setting]) -> list[str]:
    """Return what makes no sense in a variant, in words; [] when all is well.

    variant: axis name -> choice name. Values that are not strings are numbers and settings for the
        rules that look at them. Raises UnknownName for a choice, or for a string under a name that
        is no axis.
    """
    for name, value in variant.items():
        if name in axes() or isinstance(value, str):
            axis(name)[str(value)]
    return [complaint for complaint in _answers(_CONFLICTS, variant) if complaint]


def inert(rule: Inert) -> Inert:
    """Register a rule about settings that are read but cannot act.

    It returns {} or, for each axis or number that changes nothing there, name -> why, in words.
    """
    _require_names(rule)
    _INERT.append(rule)
    return rule


def inert_where(
    reason: str, *names: str
) -> Callable[[Condition], Callable[..., Mapping[str, str]]]:
    """Register settings that cannot act: the rule returns whether a variant is such.

    reason: why, with {name} for what the rule looks at. names: of the settings.
    """

    def register(rule: Condition) -> Callable[..., Mapping[str, str]]:
        @wraps(rule)
        def reasons(**seen: Setting) -> Mapping[str, str]:
            return dict.fromkeys(names, reason.format(**seen)) if rule(**seen) else {}

        return inert(reasons)

    return register


def inert_settings(variant: Mapping[str, Setting]) -> dict[str, str]:
    """Return the settings that a variant reads and that cannot act in it: name -> why.

    variant: axis name -> choice name, and numbers, structure and settings by name. Raises
        UnknownName for a choice that does not exist.
    """
    for name, value in variant.items():
        if name in axes():
            axis(name)[str(value)]
    found: dict[str, str] = {}
    for reasons in _answers(_INERT, variant):
        found = {**reasons, **found}
    return found


def _require_names(rule: Callable[..., Mapping[str, str] | str | None]) -> None:
    parameters = inspect.signature(rule).parameters.values()
    if any(p.kind not in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        raise RegistrationError(
            f"rule '{getattr(rule, '__name__', rule)}' must name what it looks at as its parameters"
        )


def _answers(
    rules: list[Callable[..., Answer]], variant: Mapping[str, Setting]
) -> Iterator[Answer]:
    for rule in rules:
        seen = {name: variant.get(name, default) for name, default in _defaults(rule).items()}
        if inspect.Parameter.empty not in seen.values():
            yield rule(**seen)


@cache
def _defaults(rule: Callable[..., Answer]) -> dict[str, object]:
    """Return what a rule looks at, each with its default, or `inspect.Parameter.empty`."""
    return {name: p.default for name, p in inspect.signature(rule).parameters.items()}


WHERE = "with one epoch of one minibatch"


def on_policy(
    *,
    epochs: int,
    num_minibatches: int,
    observation_normalization: str,
    mean_perturbation: str = "none",
) -> bool:
    """Return whether π/π_old = 1 and V = V_old, but for rounding, at every gradient step.

    With one epoch of one minibatch there is one gradient step per batch, and nothing has moved when
    it is taken. Observations that are normalised anew before the step are the exception: policy and
    critic see other inputs than when the batch was collected.
    """
    one_step = epochs == 1 and num_minibatches == 1
    return one_step and observation_normalization != "before" and mean_perturbation == "none"
