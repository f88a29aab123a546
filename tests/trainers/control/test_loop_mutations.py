"""The checks must fail where the source is wrong: every mutation below is caught by one of them."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import environment_checks
import loss_checks
import pytest

from ablations.trainers import losses
from ablations.trainers.control import advantages, distribution, environment, loss

pytestmark = pytest.mark.inputs(
    *("variants", "ablations/environments", "ablations/tasks", "ablations/trainers"),
    "tests/trainers",
)
ENVIRONMENT = {
    "reset observation as the next one": (
        "next_observation=after.observation",
        "next_observation=jnp.where(done[:, None], episodes.first[1], after.observation)",
    ),
    "truncation at a termination": (
        "(elapsed >= self.episode_length) & ~termination",
        "elapsed >= self.episode_length",
    ),
    "truncation one step late": ("elapsed >= self.episode_length", "elapsed > self.episode_length"),
    "a pool that is never left": (
        "jnp.where(done, episodes.place + 1, episodes.place)",
        "episodes.place",
    ),
    "the next reset at every step": (
        "jnp.where(done, episodes.place + 1, episodes.place)",
        "episodes.place + 1",
    ),
    "a pool that ends": ("place %= self.reset_pool", "pass"),
    "one pool for all": (
        "reset(keys[self.groups])",
        "reset(keys[0 * self.groups])",
    ),
    "the pool of another size": (
        "jax.random.fold_in(key, place)",
        "jax.random.fold_in(key, -place % self.reset_pool)",
    ),
    "no reset of the clock": ("jnp.where(done, 0, elapsed)", "elapsed"),
    "no reset at a truncation": ("done = termination | truncation", "done = termination"),
    "returns run on": ("jnp.where(done, 0.0, reward_sum)", "reward_sum"),
    "partial episodes count": ("finished=done & episodes.whole", "finished=done"),
    "one reset for all": (
        "state = batched_reset(self.env)(keys[self.groups])",
        "state = batched_reset(self.env)(keys[0 * self.groups])",
    ),
    "a reset for each": (
        "return jnp.arange(self.num_envs) // self.reset_group_size",
        "return jnp.arange(self.num_envs) % self.num_groups",
    ),
    "physics of the ended episode": (
        "state=State(physics, observation",
        "state=State(after.physics, observation",
    ),
    "clocks decide the resets": (
        "jax.random.split(key_reset, self.num_groups)",
        "jax.random.split(key_reset if self.random_elapsed_steps else key, self.num_groups)",
    ),
}

LOSS = {
    "ratio upside down": (
        "log_ratio = new_log_prob - batch.log_prob",
        "log_ratio = batch.log_prob - new_log_prob",
    ),
    "raw advantages in the policy loss": (
        "advantages=advantage.reshape(-1)",
        "advantages=batch.advantage.reshape(-1)",
    ),
    "numbers at their defaults": (
        '"policy_loss",\n        variant,',
        '"policy_loss",\n        variant._replace(numbers={}),',
    ),
    "value clipped around itself": (
        "old_value=batch.old_value",
        "old_value=jax.lax.stop_gradient(value)",
    ),
    "entropy punished": (
        '-variant.numbers["entropy_coefficient"]',
        'variant.numbers["entropy_coefficient"]',
    ),
}

DISTRIBUTION = {
    "mean and std exchanged": (
        "mean=mean,\n            std=std,",
        "mean=std,\n            std=mean,",
    ),
    "noise of the mean": ("x = mean + std * noise", "x = mean + noise"),
}

# Of the modules that the loss is made of.
PARTS = {
    "advantages as they are": (advantages, "now if name == scope", "now if name != scope"),
    "the mean ratio for the largest": (losses, "jnp.max(ratio if", "jnp.mean(ratio if"),
    "a sample size of logs": (
        losses,
        "jnp.square(mean(ratio, mask))",
        "jnp.square(mean(log_ratio, mask))",
    ),
    "value loss halved": (
        losses,
        'variant.numbers["value_coefficient"] *',
        '0.5 * variant.numbers["value_coefficient"] *',
    ),
    "another KL": (losses, "jnp.expm1(log_ratio) - log_ratio", "-log_ratio"),
    "explained by the values at rollout": (
        losses,
        "variance(target - value, mask)",
        "variance(target - old_value, mask)",
    ),
}


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
        if getattr(taken, "__module__", None) == part.__name__:
            copy.__dict__[name] = getattr(mutated, name)
    return copy


def caught(module: Any, checks: tuple[Callable[[Any], None], ...]) -> bool:
    for check in checks:
        try:
            check(module)
        except AssertionError:
            return True
    return False


LOSS_CHECKS = (
    lambda module: loss_checks.check_brax(module, None),
    lambda module: loss_checks.check_brax(module, 0.05),
    loss_checks.check_metrics,
)


DISTRIBUTION_CHECKS = (
    lambda normal: loss_checks.check_brax(loss, None, normal),
    loss_checks.check_samples,
)


def test_the_source_itself_passes() -> None:
    assert not caught(distribution.Normal(1), DISTRIBUTION_CHECKS)
    assert not caught(environment, environment_checks.CHECKS)
    assert not caught(loss, LOSS_CHECKS)


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_environment(name: str) -> None:
    assert caught(mutant(environment, *ENVIRONMENT[name]), environment_checks.CHECKS)


@pytest.mark.parametrize("name", LOSS)
def test_loss(name: str) -> None:
    assert caught(mutant(loss, *LOSS[name]), LOSS_CHECKS)


@pytest.mark.parametrize("name", DISTRIBUTION)
def test_distribution(name: str) -> None:
    mutated = mutant(distribution, *DISTRIBUTION[name]).Normal(1)
    assert caught(mutated, DISTRIBUTION_CHECKS)


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_the_loss(name: str) -> None:
    part, old, new = PARTS[name]
    assert caught(made_of(loss, part, mutant(part, old, new)), LOSS_CHECKS)
