"""The checks notice what goes wrong in practice: each mutation of a formula fails one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import advantage_checks
import gradient_checks
import pytest
import statistics_checks
import value_checks

import variants.advantage
import variants.advantage_statistics
import variants.gradient_clip
import variants.value_clip
import variants.value_error

CHECKS: dict[ModuleType, tuple[Callable[[ModuleType], None], ...]] = {
    variants.advantage: advantage_checks.ADVANTAGE,
    variants.value_error: value_checks.VALUE_ERROR,
    variants.value_clip: value_checks.VALUE_CLIP,
    variants.advantage_statistics: statistics_checks.ADVANTAGE_STATISTICS,
    variants.gradient_clip: gradient_checks.GRADIENT_CLIP,
}


class Mutation(NamedTuple):
    """`old` becomes `new` in the source of `function`, where it must occur exactly once."""

    mistake: str
    function: Callable
    old: str
    new: str


_advantage = variants.advantage
_statistics = variants.advantage_statistics
_clip = variants.value_clip
_error = variants.value_error

MUTATIONS = (
    Mutation(
        "brax without the truncation mask",
        _advantage.brax,
        "advantages * (1 - truncation), targets",
        "advantages, targets",
    ),
    Mutation(
        "brax with lambda on the first hop",
        _advantage.brax,
        "return advantages * (1 - truncation), targets",
        "return targets - values, targets",
    ),
    Mutation(
        "brax without a bootstrap at the last step",
        _advantage.brax,
        "next_values[-1:]",
        "targets[-1:]",
    ),
    Mutation(
        "masked_truncation without the mask",
        _advantage.masked_truncation,
        "_sum_backwards(delta * (1 - truncation), decay)",
        "_sum_backwards(delta, decay)",
    ),
    Mutation(
        "masked_truncation carried over a truncation",
        _advantage.masked_truncation,
        "discount * (1 - termination) * (1 - truncation) * lambda_",
        "discount * (1 - termination) * lambda_",
    ),
    Mutation(
        "standard bootstraps from beyond a termination",
        _advantage.standard,
        "discount * (1 - termination) * next_values",
        "discount * next_values",
    ),
    Mutation(
        "standard cut at terminations only",
        _advantage.standard,
        "lambda_ * (1 - termination) * (1 - truncation)",
        "lambda_ * (1 - termination)",
    ),
    Mutation(
        "standard without lambda",
        _advantage.standard,
        "discount * lambda_ * (1",
        "discount * (1",
    ),
    Mutation(
        "standard's target without the value",
        _advantage.standard,
        "return advantages, advantages + values",
        "return advantages, advantages + next_values",
    ),
    Mutation(
        "done_cut bootstraps where truncated",
        _advantage.done_cut,
        "termination=1 - (1 - termination) * (1 - truncation)",
        "termination=termination",
    ),
    Mutation(
        "the sum runs forwards",
        _advantage._sum_backwards,
        "reverse=True",
        "reverse=False",
    ),
    Mutation("squared with a half", _error.squared, "jnp.square(", "0.5 * jnp.square("),
    Mutation("huber without its half", _error.huber, "0.5 * ", ""),
    Mutation("smooth_l1 that is huber", _error.smooth_l1, "(near / error_scale)", "near"),
    Mutation("the smaller error", _clip.pessimistic, "jnp.maximum(", "jnp.minimum("),
    Mutation("replace that does not", _clip.replace, "values=clipped", "values=values"),
    Mutation(
        "old values from the current critic",
        _clip._clipped,
        "old_values - clip_range, old_values + clip_range",
        "values - clip_range, values + clip_range",
    ),
    Mutation(
        "the fraction that stayed inside", _clip._clip_fraction, "> clip_range", "<= clip_range"
    ),
    Mutation("none that clips", _clip.none, "error(values=values", "error(values=old_values"),
    Mutation(
        "ddof ignored", _statistics._standardised, "degrees = count - ddof", "degrees = count"
    ),
    Mutation(
        "constant sets judged by their std",
        _statistics._standardised,
        "(degrees > 0) & ~constant",
        "(degrees > 0) & (squares > 0)",
    ),
    Mutation("epsilon ignored", _statistics._standardised, "(std + epsilon)", "std"),
    Mutation(
        "a variance for a std",
        _statistics._standardised,
        "std = jnp.sqrt(",
        "std = (",
    ),
    Mutation(
        "no mean subtracted",
        _statistics.all_samples,
        "advantages - jnp.mean(advantages)",
        "advantages",
    ),
    Mutation("no group mean subtracted", _statistics.per_group, " - mean[groups]", ""),
    Mutation("group statistics of all", _statistics.per_group, "count=count[groups]", "count=6.0"),
    Mutation(
        "the squared norm",
        variants.gradient_clip.global_norm,
        "jnp.sqrt(jnp.where(inside, 1, squares))",
        "jnp.where(inside, 1, squares)",
    ),
    Mutation(
        "gradients stretched to the limit",
        variants.gradient_clip.global_norm,
        "jnp.where(inside, 1, max_norm / jnp.sqrt(jnp.where(inside, 1, squares)))",
        "max_norm / jnp.sqrt(squares)",
    ),
)


def mutant(mutation: Mutation | None, original: ModuleType) -> ModuleType:
    """The original's source, changed, as a module of its own that registers nothing."""
    source = inspect.getsource(original)
    if mutation is not None:
        function = inspect.getsource(mutation.function)
        assert function.count(mutation.old) == 1, f"{mutation.old!r} is not there exactly once"
        assert source.count(function) == 1
        source = source.replace(function, function.replace(mutation.old, mutation.new))
    assert source.count("AXIS = register(") == 1
    module = ModuleType(original.__name__)
    exec(source.replace("AXIS = register(", "AXIS = ("), module.__dict__)
    return module


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.mistake)
def test_mutation_is_noticed(mutation):
    original = inspect.getmodule(mutation.function)
    mutated = mutant(mutation, original)
    noticed = []
    for check in CHECKS[original]:
        try:
            check(mutated)
        except AssertionError:
            noticed.append(check.__name__)
            break
    assert noticed, f"nothing notices: {mutation.mistake}"


@pytest.mark.parametrize("original", CHECKS, ids=lambda module: module.__name__)
def test_unchanged_copy_passes(original):
    """What fails above fails for the mutation, not for the way the copy is made."""
    copy = mutant(None, original)
    assert copy.AXIS is not original.AXIS
    for check in CHECKS[original]:
        check(copy)
