"""The checks hold for the loop and the loss, and fail where the source is wrong."""

from __future__ import annotations

import inspect
import sys
import tomllib
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import environment_checks
import jax.numpy as jnp
import loss_checks
import numpy as np
import pytest
import test_categorical
import test_critic_and_statistics
import test_networks
import test_optimizer
import test_pqn
import test_shuffles

from ablations.trainers import TracedConfig, losses, optimizer, shuffles
from ablations.trainers.control import (
    advantages,
    distribution,
    environment,
    networks,
    normalizer,
    ppo,
    pqn,
)
from ablations.trainers.language import completions
from ablations.trainers.language import trainer as language
from ablations.trainers.optimizer import Rule

MODULES = {
    "environment": environment,
    "ppo": ppo,
    "distribution": distribution,
    "advantages": advantages,
    "losses": losses,
    "optimizer": optimizer,
    "shuffles": shuffles,
    "normalizer": normalizer,
    "networks": networks,
    "pqn": pqn,
    "completions": completions,
    "language": language,
}
TABLE = tomllib.loads(Path(__file__).with_name("mutations.toml").read_text())


def mutant(module: types.ModuleType, old: str, new: str) -> types.ModuleType:
    """The module with one piece of its source replaced."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{source.count(old)} places for {old!r}"
    changed = types.ModuleType(f"{module.__name__}_mutant")
    changed.__dict__["__file__"] = module.__file__
    sys.modules[changed.__name__] = changed  # dataclasses look their module up
    exec(compile(source.replace(old, new), changed.__name__, "exec"), changed.__dict__)
    return changed


def made_of(whole: types.ModuleType, part: types.ModuleType, mutated: Any) -> types.ModuleType:
    """A copy of a module that takes from the mutant what the module takes from the part."""
    copy = types.ModuleType(f"{whole.__name__}_with_mutant")
    sys.modules[copy.__name__] = copy
    exec(compile(inspect.getsource(whole), copy.__name__, "exec"), copy.__dict__)
    for name, taken in list(copy.__dict__.items()):
        if taken is part:
            copy.__dict__[name] = mutated
        elif getattr(taken, "__module__", None) == part.__name__:
            copy.__dict__[name] = getattr(mutated, name)
    return copy


def by(test: Callable[..., None], *arguments: Any, **names: str) -> Callable[[Any], None]:
    """A check: a test with some global names of its file taken from the mutant; "": the mutant."""

    def check(mutated: Any) -> None:
        of_mutant = {n: getattr(mutated, name) if name else mutated for n, name in names.items()}
        with mock.patch.dict(test.__globals__, of_mutant):
            test(*arguments)

    return check


def check_log_probs(module: Any) -> None:
    """Against NumPy, with features that are logits."""
    rng = np.random.default_rng(0)
    logits, tokens = rng.normal(size=(3, 4, 5)), rng.integers(0, 5, (3, 4))
    mask = np.arange(4) < np.array([[4], [1], [2]])
    decoder = SimpleNamespace(logits=lambda parameters, features: features)
    found, entropy = module.masked_log_probs(decoder, None, logits, tokens, mask, 2.0)
    p = np.exp(logits / 2) / np.exp(logits / 2).sum(-1, keepdims=True)
    chosen = np.take_along_axis(p, tokens[..., None], -1)[..., 0]
    np.testing.assert_allclose(found, np.log(chosen) * mask, rtol=1e-5)
    np.testing.assert_allclose(entropy, -(p * np.log(p)).sum(-1) * mask, rtol=1e-5)


def check_token_advantages(module: Any) -> None:
    """GAE over the tokens of each completion, in a loop."""
    rng, lengths, scale = np.random.default_rng(0), (3, 1, 5), 0.5
    mask = (np.arange(5) < np.array(lengths)[:, None]) * 1.0
    reward, price, value = rng.normal(size=3), rng.normal(size=(3, 5)), rng.normal(size=(3, 5))
    numbers = {"discount": jnp.float32(1), "gae_lambda": jnp.float32(scale)}
    one = TracedConfig({"advantage": "standard"}, numbers)
    arrays = (jnp.asarray(x, jnp.float32) for x in (reward, price, value * mask, mask))
    found, _ = module.token_advantages(*arrays, one)
    for b, length in enumerate(lengths):
        later = 0.0
        for t in reversed(range(length)):
            last = t == length - 1
            ahead = 0.0 if last else value[b, t + 1]
            later = last * reward[b] - price[b, t] + ahead - value[b, t] + scale * later
            assert float(found[b, t]) == pytest.approx(later, rel=1e-4, abs=1e-5)
        assert not np.asarray(found[b, length:]).any()


LOSS_CHECKS = (
    partial(loss_checks.check_brax, clip_range=None),
    partial(loss_checks.check_brax, clip_range=0.05),
    loss_checks.check_metrics,
)


def of_categorical(test: Callable[[], None]) -> Callable[[Any], None]:
    check = by(test, FOUR="")
    return lambda module: check(module.Categorical(4))


STEP = {"start": "start", "begin": "begin", "descend": "descend"}
STEPS = test_optimizer.test_steps_are_those_of_the_formulas
NETWORKS = {"make_networks": "make_networks", "Start": "Start"}

# Module -> what must hold of it; checks of `ppo` also for the modules that make up its loss.
CHECKS: dict[str, tuple[Callable[[Any], None], ...]] = {
    "environment": environment_checks.CHECKS,
    "ppo": LOSS_CHECKS,
    "distribution": (
        lambda module: loss_checks.check_brax(ppo, None, module.Normal(1)),
        lambda module: loss_checks.check_samples(module.Normal(1)),
        of_categorical(
            test_categorical.test_log_probability_entropy_and_divergence_are_those_of_numpy
        ),
        of_categorical(test_categorical.test_draws_have_the_frequencies_of_the_softmax),
    ),
    "advantages": LOSS_CHECKS,
    "losses": LOSS_CHECKS,
    "optimizer": (
        by(STEPS, Rule(beta1=0.5, beta2=0.9), False, **STEP),
        by(STEPS, Rule(reset="batch_moments", beta2=0.99), False, **STEP),
        by(STEPS, Rule(regularization="to_initial", reset="batch"), False, **STEP),
        by(STEPS, Rule(optimizer="adamw"), False, **STEP),
        by(STEPS, Rule(optimizer="radam"), False, **STEP),
        by(test_optimizer.test_rates_are_those_of_optax, "linear", "cosine", **STEP),
    ),
    "shuffles": (
        by(test_shuffles.test_a_permutation_is_that_of_jax, 1626, permutation="permutation"),
        by(test_shuffles.test_equal_keys_stay_in_their_order, ascending="ascending"),
        by(test_shuffles.test_orders_of_epochs, orders="orders"),
    ),
    "normalizer": (
        by(test_critic_and_statistics.test_forgetting_equals_a_loop, statistics=""),
        by(
            test_critic_and_statistics.test_final_observation_of_no_number_is_not_taken_in,
            "per_environment",
            statistics="",
        ),
        by(
            test_networks.test_observation_statistics_are_those_of_brax_and_of_all_the_data,
            1.0,
            normalizer="",
        ),
        by(test_networks.test_a_constant_feature_stays_finite, normalizer=""),
    ),
    "networks": (
        by(test_networks.test_normalised_layers_are_those_of_flax_and_of_the_formula, **NETWORKS),
        by(test_networks.test_initial_weights_are_those_of_the_choice, **NETWORKS),
        by(
            test_networks.test_feature_variances_are_those_of_a_loop_and_teach_features_nothing,
            "separate",
            **NETWORKS,
        ),
    ),
    "pqn": (
        by(
            test_pqn.test_random_actions_are_as_frequent_as_epsilon_and_uniform,
            epsilon_greedy="epsilon_greedy",
            taken="taken",
        ),
    ),
    "completions": (check_log_probs,),
    "language": (check_token_advantages,),
}


pytestmark = pytest.mark.inputs(
    *("variants", "ablations/environments", "ablations/tasks", "ablations/trainers"),
    *("tests/trainers", "tests/trainers/test_*.py", "tests/trainers/control/test_*.py"),
)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        (name, check)
        for name in sorted(
            CHECKS.keys() - {"advantages", "losses"}
        )  # whose checks are those of ppo
        for check in CHECKS[name]
    ],
)
def test_the_source_passes(name: str, check: Callable[[Any], None]) -> None:
    check(MODULES[name])


@pytest.mark.parametrize(
    ("name", "mistake"), [(name, mistake) for name in TABLE for mistake in TABLE[name]]
)
def test_a_mistake_is_noticed(name: str, mistake: str) -> None:
    module = MODULES[name]
    mutated: Any = mutant(module, *TABLE[name][mistake])
    if module in (advantages, losses):
        mutated = made_of(ppo, module, mutated)
    for check in CHECKS[name]:
        try:
            check(mutated)
        except AssertionError:
            return
    pytest.fail("no check notices")
