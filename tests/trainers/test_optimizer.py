"""Steps down a gradient against plain loops in double precision, and optax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import variants
from ablations.errors import UserError
from ablations.tasks import task
from ablations.trainers import TracedConfig, trainer
from ablations.trainers.optimizer import ADAM, Divergence, Rule, begin, descend, start

RATE, EPSILON, L2, LIMIT, DECAY, SHARE = 0.03, 1e-5, 0.2, 0.7, 0.4, 0.3
BATCHES, STEPS = 4, 3
RNG = np.random.default_rng(0)
FIRST = {"policy": RNG.normal(size=(3, 2)), "value": RNG.normal(size=4)}
# The gradient of batch 2 on is much larger, as where a target changes.
GRADIENTS = [
    {n: RNG.normal(size=x.shape) * (1 + 9 * (batch > 1)) for n, x in FIRST.items()}
    for batch in range(BATCHES)
    for _ in range(STEPS)
]


def single(tree: Any) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), tree)


def taken(
    rule: Rule,
    clip: str = "none",
    schedule: str = "constant",
    wanted: str = "parameters",
    iterations: float = BATCHES,
) -> list[Any]:
    """The parameters after each step, or its rate."""
    variant = TracedConfig(
        choices={
            "gradient_clip": clip,
            "learning_rate_schedule": schedule,
            "learning_rate_warmup": rule.warmup,
        },
        numbers={
            "learning_rate": jnp.float32(RATE),
            "adam_epsilon": jnp.float32(EPSILON),
            "weight_l2": jnp.float32(L2),
            "weight_decay": jnp.float32(DECAY),
            "warmup_share": jnp.float32(SHARE),
            "max_gradient_norm": jnp.float32(LIMIT),
        },
        iterations=jnp.float32(iterations),
    )
    learner, found, rates = start(single(FIRST), variant, rule), [], []
    step = jax.jit(
        lambda learner, gradient: descend(
            learner,
            gradient,
            divergence=Divergence(jnp.float32(0)),
            progress=jnp.floor(learner.optimizer.count / STEPS) / iterations,
            steps=STEPS,
            variant=variant,
            rule=rule,
        )
    )
    for place, gradient in enumerate(GRADIENTS):
        if place % STEPS == 0:
            learner = begin(learner, rule)
        learner, metrics = step(learner, single(gradient))
        found.append(learner.parameters)
        rates.append(float(metrics["training/learning_rate"]))
    assert int(learner.optimizer.count) == len(GRADIENTS), "the schedule counts every step"
    return found if wanted == "parameters" else rates


def looped(rule: Rule, clip: bool = False) -> list[Any]:
    """The same, by the formulas."""
    x = {n: one.copy() for n, one in FIRST.items()}
    m = {n: np.zeros_like(one) for n, one in FIRST.items()}
    v, t, found = {n: one.copy() for n, one in m.items()}, 0, []
    for place, gradient in enumerate(GRADIENTS):
        if place % STEPS == 0 and rule.reset != "none":
            t = 0
            if rule.reset == "batch_moments":
                m, v = ({n: 0 * one for n, one in of.items()} for of in (m, v))
        t += 1
        towards = {n: FIRST[n] if rule.regularization == "to_initial" else 0 for n in x}
        pull = 2 * L2 * (rule.regularization != "none")
        g = {n: gradient[n] + pull * (x[n] - towards[n]) for n in x}
        norm = np.sqrt(sum((one**2).sum() for one in g.values()))
        g = {n: one * (min(1, LIMIT / norm) if clip else 1) for n, one in g.items()}
        for n in x:
            if rule.optimizer == "sgd":
                x[n] = x[n] - RATE * g[n]
                continue
            m[n] = rule.beta1 * m[n] + (1 - rule.beta1) * g[n]
            v[n] = rule.beta2 * v[n] + (1 - rule.beta2) * g[n] ** 2
            mean, square = m[n] / (1 - rule.beta1**t), v[n] / (1 - rule.beta2**t)
            decay = DECAY * x[n] if rule.optimizer == "adamw" else 0
            direction = mean / (np.sqrt(square) + EPSILON)
            if rule.optimizer == "radam":
                direction = mean if (r := rectified(rule.beta2, t)) is None else r * direction
            x[n] = x[n] - RATE * (direction + decay)
        found.append({n: one.copy() for n, one in x.items()})
    return found


def rectified(beta2: float, t: int) -> float | None:
    """The factor of RAdam's step t, by the paper; None where it takes the mean alone."""
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * t * beta2**t / (1 - beta2**t)
    if length < 5:
        return None
    above = (length - 4) * (length - 2) * longest
    return float(np.sqrt(above / ((longest - 4) * (longest - 2) * length)))


@pytest.mark.parametrize(
    ("rule", "clip"),
    [
        (ADAM, False),
        (ADAM, True),
        (Rule(beta1=0.8, beta2=0.95), False),
        (Rule(beta1=0.0), True),
        (Rule(reset="batch"), False),
        (Rule(reset="batch_moments", beta2=0.99), True),
        (Rule(regularization="to_zero"), True),
        (Rule(regularization="to_initial", reset="batch"), True),
        (Rule(optimizer="adamw"), False),
        (Rule(optimizer="adamw", reset="batch_moments", regularization="to_zero"), True),
        (Rule(optimizer="radam"), False),
        (Rule(optimizer="radam", beta2=0.9, reset="batch"), True),
        (Rule(optimizer="sgd"), False),
        (Rule(optimizer="sgd", regularization="to_initial"), True),
    ],
    ids=lambda of: "-".join(map(str, of)) if isinstance(of, Rule) else str(of),
)
def test_steps_are_those_of_the_formulas(rule: Rule, clip: bool) -> None:
    ours = taken(rule, "global_norm" if clip else "none")
    for one, other in zip(ours, looped(rule, clip), strict=True):
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=2e-4, atol=2e-5)


ADAMW = optax.adamw(RATE, eps=EPSILON, weight_decay=DECAY)


@pytest.mark.parametrize(
    ("rule", "adam"),
    [
        (ADAM, optax.adam(RATE, eps=EPSILON)),
        (Rule(beta1=0.8, beta2=0.95), optax.adam(RATE, 0.8, 0.95, eps=EPSILON)),
        (Rule(optimizer="adamw"), ADAMW),
        (Rule(optimizer="radam"), optax.radam(RATE, eps=EPSILON)),
    ],
)
def test_adam_is_that_of_optax(rule: Rule, adam: Any) -> None:
    parameters, state = single(FIRST), adam.init(single(FIRST))
    ours = taken(rule)
    for one, gradient in zip(ours, GRADIENTS, strict=True):
        updates, state = adam.update(single(gradient), state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        # RAdam's length is a small difference of large numbers: compiled, it rounds otherwise.
        rtol = 1e-4 if rule.optimizer == "radam" else 1e-6
        for name in one:
            np.testing.assert_allclose(one[name], parameters[name], rtol=rtol, atol=1e-7)


STEPS_IN_ALL = BATCHES * STEPS
WARM = SHARE * STEPS_IN_ALL
RATES = {
    ("none", "cosine"): optax.cosine_decay_schedule(RATE, STEPS_IN_ALL),
    ("linear", "constant"): optax.linear_schedule(0.0, RATE, WARM),
    ("linear", "cosine"): optax.warmup_cosine_decay_schedule(0.0, RATE, WARM, STEPS_IN_ALL),
}


@pytest.mark.parametrize(("warmup", "schedule"), RATES)
def test_rates_are_those_of_optax(warmup: str, schedule: str) -> None:
    found = taken(Rule(warmup=warmup), schedule=schedule, wanted="rates")
    expected = [RATES[warmup, schedule](k) for k in range(STEPS_IN_ALL)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
    assert warmup == "none" or found[0] == 0 < found[1] < found[2]


def test_a_rate_that_falls_by_the_batch_falls_after_its_rise() -> None:
    found = taken(Rule(warmup="linear"), schedule="linear", wanted="rates")
    shares = [max(0.0, k // STEPS / BATCHES - SHARE) / (1 - SHARE) for k in range(STEPS_IN_ALL)]
    expected = [RATE * min(1, k / WARM) * (1 - share) for k, share in enumerate(shares)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_training_without_an_end_has_the_whole_rate_at_once() -> None:
    for schedule in ("linear", "cosine"):
        found = taken(Rule(warmup="linear"), "none", schedule, "rates", np.inf)
        np.testing.assert_allclose(found, RATE, rtol=1e-6)


def test_a_new_count_makes_no_large_step_where_gradients_grow() -> None:
    """What Adam-Rel is for, on its own example: ten times the gradient from one batch to the next,
    after long training."""
    moved = {}
    for reset in ("none", "batch", "batch_moments"):
        rule = Rule(reset=reset)
        variant = TracedConfig(
            {"gradient_clip": "none", "learning_rate_schedule": "constant"},
            {"learning_rate": jnp.float32(1), "adam_epsilon": jnp.float32(0)},
        )
        learner = start(jnp.zeros(1), variant, rule)
        for place in range(401):
            learner = begin(learner, rule) if place % 100 == 0 else learner
            before = learner.parameters
            gradient = jnp.full(1, 10.0 if place == 400 else 1.0)
            learner, _ = descend(
                learner,
                gradient,
                divergence=Divergence(jnp.float32(0)),
                progress=jnp.float32(0),
                steps=100,
                variant=variant,
                rule=rule,
            )
        moved[reset] = float(before[0] - learner.parameters[0])
    assert moved["batch_moments"] == pytest.approx(1.0)
    assert moved["batch"] < 1.0 < moved["none"]


def test_details_joined_later() -> None:
    """At what they are by default nothing is said of them, and the state is the one of before."""
    ppo, fast = trainer("ppo"), task("fast")
    at = {**ppo.neutral, "adam_beta1": 0.9, "adam_beta2": 0.999}
    config = ppo.resolve(fast, at)
    assert config == ppo.resolve(fast, {})
    assert at.keys().isdisjoint({*config["choices"], *config["structure"]})
    learner = start(single(FIRST), TracedConfig({}, {"learning_rate": 1.0}))
    assert learner.initial is learner.began is None
    assert begin(learner, ADAM) is learner
    away = ppo.resolve(fast, {"weight_regularization": "to_initial", "adam_beta1": 0})
    assert (
        away["numbers"]["weight_l2"]
        == variants.axis("weight_regularization").known_numbers["weight_l2"].default
    )
    assert away["structure"]["adam_beta1"] == 0.0


def test_what_cannot_act_or_be_is_named() -> None:
    ppo, fast = trainer("ppo"), task("fast")
    config = ppo.resolve(fast, {"optimizer": "sgd"})
    names = ("adam_epsilon", "adam_beta1", "optimizer_reset", "learning_rate")
    assert set(ppo.inert(config, names)) == {"adam_epsilon", "adam_beta1", "optimizer_reset"}
    for name in ("ppo", "language"):
        with pytest.raises(UserError, match="adam_beta2=1 must be below 1"):
            trainer(name).resolve(
                task("fast" if name == "ppo" else "addition"), {"adam_beta2": 1.0}
            )
