"""TRL's steps on two batches are its preset's: what its own code shuffled, cut, divided by and
descended (tests/golden/updates/trl_steps_1.json).

The policy is one table of logits, a row for each token before: the same in both.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import variant_of

import variants
from ablations.presets import preset
from ablations.tasks import task
from ablations.trainers import TracedConfig, optimizer, shuffles
from ablations.trainers.choices import fix
from ablations.trainers.language.decoder import Cache
from ablations.trainers.language.trainer import SPEC, Batch, Language, Settings, State
from ablations.trainers.optimizer import Learner

FILE = Path(__file__).parents[2] / "golden" / "updates" / "trl_steps_1.json"
TASK = {"name": "addition", "settings": task("addition").settings}

CHANGES: tuple[dict[str, Any], ...] = (
    {"policy_loss_reduction": "token_mean"},
    {"minibatch_order": "redrawn"},
    {"minibatch_order": "kept"},
    {"kl_placement": "loss_k3"},
    {"learning_rate_schedule": "linear"},
)
CHANGED = {name for one in CHANGES for name in one}


@cache
def recorded() -> Any:
    return json.loads(FILE.read_text())


def settings(**changes: Any) -> dict[str, Any]:
    """The preset's, at the arguments of the recorded run."""
    arguments = preset("trl_grpo").arguments
    given = {n: x for n, x in recorded()["arguments"].items() if n in arguments}
    rate = recorded()["arguments"]["learning_rate"]
    return preset("trl_grpo").values(**given) | {"learning_rate": rate} | changes


class TableOfLogits:
    """A decoder whose features are the row of the token before."""

    def empty_cache(self, batch: int, capacity: int) -> Cache:
        return Cache((), (), jnp.ones((batch, 1), bool))

    def extend(self, table, tokens, valid, cache, start):
        return table[tokens], cache

    def logits(self, table, features):
        return features


def language(one: dict[str, Any]) -> Language:
    return Language(
        problems=None,
        decoder=TableOfLogits(),
        start=None,
        settings=Settings(
            **{
                name: one[name]
                for name in ("prompts", "samples_per_prompt", "num_minibatches", "epochs")
            }
        ),
        length=np.shape(recorded()["batches"][0]["mask"])[1],
        updates_per_chunk=1,
        evaluation_prompts=1,
        fixed={a: one.get(a, default) for a, default in SPEC.axes.items() if a not in CHANGED},
    )


def batch_of(index: int, one: dict[str, Any]) -> Batch:
    shape = (one["prompts"], one["samples_per_prompt"], -1)
    arrays = {n: jnp.asarray(x) for n, x in recorded()["batches"][index].items()}
    mask = arrays["mask"].reshape(shape)
    advantage = variants.axis("prompt_advantage").apply(
        one["prompt_advantage"],
        rewards=arrays["rewards"].reshape(shape[:2]),
        token_kl=jnp.zeros_like(mask),
        mask=mask,
        prompt_epsilon=one["prompt_epsilon"],
    )
    tokens, log_prob, reference = (
        arrays[name].reshape(shape) for name in ("tokens", "old_log_prob", "reference_log_prob")
    )
    return Batch(
        prompts=arrays["prompt"][:: one["samples_per_prompt"]],
        tokens=tokens,
        mask=mask,
        log_prob=log_prob * mask,
        reference_log_prob=reference * mask,
        advantage=advantage,
        old_value=0 * mask,
        target=0 * mask,
    )


@cache
def program() -> Any:
    """`Language.learn` on a batch, with the library's permutation for the key of the first epoch
    and its reverse for any other. What the changes below change is data."""
    trainer = language(settings())

    def learn(
        learner: Learner, batch: Batch, order: jax.Array, at: jax.Array, data: TracedConfig
    ) -> Any:
        key = jax.random.fold_in(jax.random.key(0), at)
        first = jax.random.key_data(jax.random.split(key, trainer.settings.epochs)[0])

        def permutation(key: jax.Array, size: int) -> jax.Array:
            assert size == len(order)
            return jnp.where(jnp.all(jax.random.key_data(key) == first), order, order[::-1])

        state = State(learner, None, key, at)
        with mock.patch.object(shuffles, "permutation", permutation):
            return trainer.learn(state, batch, key, fix(data, trainer.fixed))

    return jax.jit(learn)


def learned(**changes: Any) -> dict[str, Any]:
    """Losses and gradient norms [8], and the last table, of both batches."""
    one = settings(**changes)
    known = SPEC.axes.keys() | SPEC.known_numbers().keys()
    data = variant_of(SPEC, TASK, **{n: x for n, x in one.items() if n in known})
    steps = one["epochs"] * one["num_minibatches"]
    data = data._replace(iterations=np.float32(recorded()["steps_of_training"] / steps))
    learner = optimizer.start({"policy": jnp.asarray(recorded()["table"])}, data)
    found: dict[str, Any] = {"loss": [], "gradient_norm": []}
    for index in range(len(recorded()["batches"])):
        first = recorded()["steps"][index * steps :][: one["num_minibatches"]]
        order = jnp.asarray([place for step in first for place in step["places"]])
        learner, metrics = program()(learner, batch_of(index, one), order, jnp.uint32(index), data)
        found["loss"] += np.ravel(metrics["loss/policy"]).tolist()
        found["gradient_norm"] += np.ravel(metrics["gradient/norm"]).tolist()
    return found | {"table": np.asarray(learner.parameters["policy"])}


def differences(found: dict[str, Any]) -> float:
    """By how many tolerances the worst loss, gradient norm or logit is off."""
    steps = recorded()["steps"]
    wanted = {n: [step[n] for step in steps] for n in ("loss", "gradient_norm")}
    wanted["table"] = recorded()["final_table"]
    off = [
        np.abs(np.asarray(found[n]) - np.asarray(x)) / (1e-5 + 1e-4 * np.abs(x))
        for n, x in wanted.items()
    ]
    return float(max(x.max() for x in off))


def test_the_recorded_run_has_several_steps_of_mixed_prompts() -> None:
    """And hands its minibatches out again in the same order."""
    assert settings()["num_minibatches"] == 2
    places = [step["places"] for step in recorded()["steps"]]
    assert places[:2] == places[2:4]
    assert sorted(places[0] + places[1]) == list(range(12))
    whole = [{place // 4 for place in step} for step in places[:2]]
    assert whole[0] & whole[1]
    assert (
        max(step["gradient_norm"] for step in recorded()["steps"]) > settings()["max_gradient_norm"]
    )


def test_steps_are_the_library_s() -> None:
    assert differences(learned()) <= 1


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_another_detail_is_another_run(change: dict[str, Any]) -> None:
    assert differences(learned(**change)) > 10
