"""The language trainer, tiny: what it samples, values and learns, and that its bits depend on the
seed alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import other_unread_numbers, same_bits, variant_of
from hypothesis import given, settings
from hypothesis import strategies as st

import variants
from ablations.engine.backends.compiled.program import Program
from ablations.engine.job import cells_of
from ablations.engine.plan import plan
from ablations.errors import UserError
from ablations.request import Request
from ablations.tasks import task
from ablations.tasks.language import puzzles
from ablations.tasks.language.puzzles import END, PAD
from ablations.trainers import TracedConfig
from ablations.trainers.choices import fix
from ablations.trainers.language.completions import masked_log_probs, read, write
from ablations.trainers.language.trainer import (
    SPEC,
    Batch,
    Language,
    State,
    check,
    compose,
    language_loss,
    token_advantages,
)

TINY = {
    "prompts": 4,
    "samples_per_prompt": 3,
    "layers": 1,
    "width": 8,
    "heads": 2,
    "mlp_width": 8,
    "warm_start_steps": 0,
}
# As data: of a switch over every axis twice the program has to be compiled.
SWITCHED = {"kl_placement", "policy_loss_reduction", "prompt_advantage"}
LOOP = tuple(item for item in SPEC.axes.items() if item[0] not in SWITCHED)
P, K, L = 4, 3, 7
SETTINGS = {**task("addition").settings, "kinds": "reversal", "reward_scales": "1"}


@cache
def program(
    updates: int = 1, fixed: tuple[tuple[str, str], ...] = (), **structure: Any
) -> Language:
    """A composed program on lists to be written backwards."""
    defaults = {name: option.default for name, option in SPEC.structure.items()}
    found = compose(
        task=task("addition"),
        settings=SETTINGS,
        structure=defaults | TINY | structure,
        updates_per_chunk=updates,
        evaluation_envs=6,
        choices=dict(fixed),
    )
    assert isinstance(found, Language)
    return found


@cache
def compiled(**composition: Any) -> Any:
    language = program(**composition)
    return jax.jit(language.init), jax.jit(language.chunk)


def variant(**sets: Any) -> TracedConfig:
    """The defaults with some choices and numbers set, as data."""
    return variant_of(SPEC, {"name": "addition", "settings": SETTINGS}, **sets)


def train(one: TracedConfig, seed: int = 0, chunks: int = 1, **composition: Any) -> Any:
    init, chunk = compiled(**{"fixed": LOOP, **composition})
    state = init(jax.random.key(seed), one)
    for _ in range(chunks):
        state, metrics = chunk(state, one)
    return state, {name: float(value) for name, value in metrics.items()}


@cache
def written() -> Any:
    """Some completions by a policy that ends now and then: (problems, completions)."""
    language = program()
    problems = jax.jit(lambda key: language.problems.held_out(key, P))(jax.random.key(1))
    # Larger than at a start, so that the context matters; and END is likelier.
    parameters = jax.tree.map(lambda leaf: 4.0 * jnp.asarray(leaf), language.start(0))
    noise = jax.random.gumbel(jax.random.key(2), (L, P * K, 20)).at[:, :, END].add(2.0)
    completions = jax.jit(
        lambda parameters, prompts, noise: write(language.decoder, parameters, prompts, K, noise)
    )(parameters, problems.prompt, noise)
    return parameters, problems, completions


# Completions


@jax.jit
def read_again(parameters: Any, prompt: jax.Array, tokens: jax.Array, mask: jax.Array) -> jax.Array:
    return program().log_probs(parameters, prompt, tokens, mask)


def test_log_probs_while_sampling_are_those_of_reading_again() -> None:
    parameters, problems, completions = written()
    again = read_again(parameters, problems.prompt, completions.tokens, completions.mask)
    assert float(jnp.abs(again - completions.log_probs).max()) < 1e-5
    assert float(completions.log_probs.min()) < -1


def test_a_shared_prompt_is_read_as_if_it_were_each_ones_own() -> None:
    parameters, problems, (tokens, mask, _) = written()
    alone = read_again(parameters, jnp.repeat(problems.prompt, K, axis=0), tokens, mask)
    shared = read_again(parameters, problems.prompt, tokens, mask)
    np.testing.assert_allclose(alone, shared, atol=1e-5)


def test_nothing_is_written_after_the_end() -> None:
    _, _, completions = written()
    ended = 0
    for tokens, mask, log_probs in zip(*map(np.asarray, completions), strict=True):
        length = list(tokens).index(END) + 1 if END in tokens else L
        ended += END in tokens[:-1]
        assert mask.tolist() == [1] * length + [0] * (L - length)
        assert set(tokens[length:]) <= {PAD}
        assert not log_probs[length:].any()
        assert (log_probs[:length] < 0).all()
    assert 2 < ended < P * K


def test_what_stands_after_the_end_changes_nothing() -> None:
    language = program()
    parameters, problems, (tokens, mask, _) = written()
    other = jnp.where(mask > 0, tokens, 7)

    def loss(parameters: Any, tokens: jax.Array) -> jax.Array:
        features = read(language.decoder, parameters, problems.prompt, tokens, mask)
        found = masked_log_probs(language.decoder, parameters, features, tokens, mask)
        return jnp.sum(found[0] + found[1])

    gradient = jax.jit(jax.value_and_grad(loss))
    one, another = gradient(parameters, tokens), gradient(parameters, other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(another), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


# The loss


@cache
def loss() -> Any:
    """The loss with a critic, its metrics and its gradient."""
    language = program(critic="separate")
    return jax.jit(
        jax.value_and_grad(
            lambda parameters, batch, one: language_loss(
                parameters, language.decoder, batch, jax.random.key(0), one
            ),
            has_aux=True,
        )
    )


def with_critic(parameters: Any) -> Any:
    critic = {"decoder": parameters, "head": jnp.ones(TINY["width"])}
    return {"policy": parameters, "critic": critic}


def batch_of(mask: Any, **fields: Any) -> Any:
    parameters, problems, completions = written()
    mask = jnp.asarray(mask, jnp.float32)
    shape = (P, K, L)
    rng = np.random.default_rng(0)
    drawn = {
        name: jnp.asarray(rng.normal(size=shape), jnp.float32) * mask
        for name in ("advantage", "old_value", "target")
    }
    log_prob = completions.log_probs.reshape(shape) * mask
    whole = {
        "prompts": problems.prompt,
        "tokens": completions.tokens.reshape(shape),
        "mask": mask,
        "log_prob": log_prob,
        "reference_log_prob": 1.1 * log_prob,
        **drawn,
    }
    return parameters, Batch(**whole | fields)


def test_the_loss_is_grpos_by_hand() -> None:
    _, _, completions = written()
    mask = np.asarray(completions.mask)
    rng = np.random.default_rng(3)
    old = np.asarray(completions.log_probs) + 0.3 * rng.normal(size=mask.shape) * mask
    parameters, batch = batch_of(
        mask.reshape(P, K, L), log_prob=jnp.asarray(old, jnp.float32).reshape(P, K, L)
    )
    one = variant(
        policy_loss_reduction="sequence_mean",
        kl_placement="loss_k3",
        kl_coefficient=0.5,
        value_coefficient=0.0,
    )
    (found, _), _ = loss()(with_critic(parameters), batch, one)
    new, advantage = np.asarray(completions.log_probs), np.asarray(batch.advantage).reshape(-1, L)
    reference = np.asarray(batch.reference_log_prob).reshape(-1, L)
    total = 0.0
    for b in range(P * K):
        terms = []
        for t in range(int(mask[b].sum())):
            ratio = np.exp(new[b, t] - old[b, t])
            surrogate = min(ratio * advantage[b, t], np.clip(ratio, 0.8, 1.2) * advantage[b, t])
            gap = reference[b, t] - new[b, t]
            terms.append(-surrogate + 0.5 * (np.exp(gap) - gap - 1))
        total += np.mean(terms) / (P * K)
    assert float(found) == pytest.approx(total, rel=1e-4)


def test_a_ratio_without_bound_ends_in_nan_and_with_one_does_not() -> None:
    """verl and OpenRLHF bound log π - log π_old by 20 before they exponentiate it, TRL does not."""
    _, _, completions = written()
    mask = np.asarray(completions.mask).reshape(P, K, L)
    log_prob = np.asarray(completions.log_probs).reshape(P, K, L).copy()
    log_prob[0, 0, 0] -= 100
    parameters, batch = batch_of(
        mask, log_prob=jnp.asarray(log_prob), advantage=jnp.asarray(-mask, jnp.float32)
    )
    for bound in (20.0, 1e30):
        one = variant(policy_loss="dual_clip_higher", log_ratio_clip=bound)
        (total, _), gradient = loss()(with_critic(parameters), batch, one)
        finite = all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves((total, gradient)))
        assert finite == (bound == 20.0)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.integers(0, L), min_size=P * K, max_size=P * K),
    reduction=st.sampled_from(tuple(variants.axis("policy_loss_reduction"))),
    placement=st.sampled_from(tuple(variants.axis("kl_placement"))),
    value_clip=st.sampled_from(tuple(variants.axis("value_clip"))),
)
def test_no_mask_gives_nan(lengths, reduction, placement, value_clip) -> None:
    mask = (np.arange(L) < np.array(lengths)[:, None]).reshape(P, K, L)
    parameters, batch = batch_of(mask)
    one = variant(policy_loss_reduction=reduction, kl_placement=placement, value_clip=value_clip)
    (total, metrics), gradient = loss()(with_critic(parameters), batch, one)
    silent = {"value/clip_fraction": value_clip == "none"}
    silent["policy/effective_sample_size"] = not any(lengths)
    for name, value in metrics.items():
        assert bool(jnp.isfinite(value)) != silent.get(name, False), name
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves((total, gradient)))
    if not any(lengths):
        assert not any(leaf.any() for leaf in jax.tree.leaves(gradient))


def test_advantages_of_tokens_are_rewards_to_go_at_lambda_one() -> None:
    lengths = np.array([3, 1, L, 5])
    mask = (np.arange(L) < lengths[:, None]).astype(np.float32)
    rng = np.random.default_rng(0)
    reward, price, value = rng.normal(size=4), rng.normal(size=(4, L)), rng.normal(size=(4, L))
    estimate = jax.jit(token_advantages)
    for name in variants.axis("advantage"):  # nothing is truncated, so all of them agree
        advantage, target = estimate(
            *(jnp.asarray(x, jnp.float32) for x in (reward, price, value * mask, mask)),
            variant(advantage=name, bootstrap_steps=L),
        )
        for b, length in enumerate(lengths):
            togo = reward[b] - np.array([price[b, t:length].sum() for t in range(length)])
            np.testing.assert_allclose(target[b, :length], togo, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(
                advantage[b, :length], togo - value[b, :length], rtol=1e-4, atol=1e-5
            )
            assert not np.asarray(advantage)[b, length:].any()
    statistics = variants.axis("token_statistics").apply
    for name, spread in (("standardised", 1), ("centred", float(advantage[mask > 0].std()))):
        scaled = np.asarray(statistics(name, advantages=advantage, mask=mask))
        assert not scaled[mask == 0].any()
        assert scaled[mask > 0].mean() == pytest.approx(0, abs=1e-6)
        assert scaled[mask > 0].std() == pytest.approx(spread, rel=1e-5)
        assert not np.asarray(statistics(name, advantages=0 * advantage, mask=0 * mask)).any()


# The loop


def test_prompts_without_a_difference_teach_nothing() -> None:
    """A policy at random solves nothing: no group has a variance, and the parameters stay."""
    state, metrics = train(variant(learning_rate=0.1))
    assert metrics["training/accuracy"] == 0
    assert metrics["training/zero_variance_groups"] == 1
    assert same_bits(state.parameters["policy"], state.reference)
    assert metrics["policy/kl_reference"] == pytest.approx(0, abs=1e-6)
    moved, _ = train(variant(learning_rate=0.1, prompt_advantage="none", entropy_coefficient=1.0))
    assert not same_bits(moved.parameters["policy"], state.reference)


def test_variants_of_a_seed_see_the_same_problems_and_noise() -> None:
    first = [
        train(one, seed=3)[1]
        for one in (
            variant(entropy_coefficient=1.0),
            variant(prompt_advantage="batch", kl_placement="loss_k2", learning_rate=0.1),
        )
    ]
    for name in ("training/return", "training/length", "policy/entropy"):
        assert first[0][name] == first[1][name]
    other = train(variant(entropy_coefficient=1.0), seed=4)[1]
    assert other["policy/entropy"] != first[0]["policy/entropy"]


def test_chunks_of_one_and_of_two_updates_draw_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last update of a chunk always evaluates the reference."""

    def iteration(self: Any, state: Any, key: Any, problems: Any, last: Any, one: Any) -> Any:
        seen = {"key": jax.random.uniform(key), "prompts": jnp.sum(problems.prompt**2)}
        seen |= {"policy/kl_reference": jnp.float32(last), "last": jnp.float32(last)}
        return state._replace(iteration=state.iteration + 1), seen

    monkeypatch.setattr(Language, "iteration", iteration)
    state = start = State(None, None, jax.random.key(0), jnp.uint32(0))
    chunk, alone = jax.jit(program().chunk), []
    for _ in range(2):
        state, seen = chunk(state, variant())
        alone.append(seen)
    both, together = jax.jit(program(2).chunk)(start, variant())
    assert both.iteration == state.iteration == 2
    for name in ("key", "prompts"):
        one, two = (float(seen[name]) for seen in alone)
        assert one != two
        assert float(together[name]) == pytest.approx((one + two) / 2)
    assert (float(together["last"]), float(together["policy/kl_reference"])) == (0.5, 1)


def test_switched_and_specialised_programs_give_the_same_bits() -> None:
    choices = {
        "prompt_advantage": "batch",
        "kl_placement": "reward_k1",
        "policy_loss_reduction": "sequence_mean",
    }
    sets = {"entropy_coefficient": 1.0, "learning_rate": 0.01}
    switched, seen = train(variant(**choices, **sets), chunks=2)
    names = tuple(sorted({**SPEC.axes, **choices}.items()))
    assert switched.iteration == 2
    specialised, seen_too = train(variant(**sets), chunks=2, fixed=names)
    assert same_bits(switched, specialised)
    np.testing.assert_equal(seen, seen_too)


def test_numbers_that_are_not_read_change_no_bit() -> None:
    """Without a critic, those of the critic among them."""
    sets = {"kl_placement": "loss_k2", "entropy_coefficient": 1.0, "learning_rate": 0.01}
    one, config = variant(**sets), SPEC.resolve(task("addition"), sets)
    unread = one.numbers.keys() - config["numbers"].keys()
    assert {"gae_lambda", "value_coefficient", "ratio_cap", "dual_clip"} <= unread
    states = [train(data, chunks=2)[0] for data in (one, other_unread_numbers(one, config))]
    assert same_bits(*states)


def test_a_critic_learns_in_epochs_minibatches_and_chunks() -> None:
    one = variant(learning_rate=0.01, value_coefficient=1.0)
    parts = {"critic": "separate", "epochs": 2, "num_minibatches": 2, "updates": 2}
    state, metrics = train(one, fixed=tuple(SPEC.axes.items()), **parts)
    assert state.iteration == 2
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state.parameters))
    assert {"loss/value", "value/explained_variance", "value/clip_fraction"} <= metrics.keys()


@cache
def one_pass() -> Any:
    """`learn` in two minibatches of prompts or of samples, at choices as data."""

    def run(unit: str) -> Any:
        compiled_in = SPEC.axes | {
            "completion_unit": unit,
            "policy_loss_reduction": "batch_token_mean",
        }
        del compiled_in["minibatch_order"]
        language = program(fixed=tuple(compiled_in.items()), num_minibatches=2, epochs=2)

        def learn(state: Any, batch: Any, one: TracedConfig) -> Any:
            one = fix(one, language.fixed)
            return language.learn(state, batch, jax.random.key(7), one)[0]

        return jax.jit(learn)

    return {unit: run(unit) for unit in ("prompts", "samples")}


def test_single_completions_in_their_order_are_whole_prompts_in_theirs() -> None:
    """P·K/m completions in a row are P/m prompts: the two units read and learn alike, and part
    only where they are shuffled."""
    _, _, completions = written()
    parameters, batch = batch_of(np.asarray(completions.mask).reshape(P, K, L))
    state = program().init(jax.random.key(0), variant(learning_rate=0.01), parameters)

    def learned(unit: str, **sets: Any) -> Any:
        return one_pass()[unit](state, batch, variant(learning_rate=0.01, **sets)).parameters[
            "policy"
        ]

    def apart(one: Any, other: Any) -> float:
        leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
        return max(float(jnp.abs(a - b).max()) for a, b in leaves)

    kept = learned("prompts", minibatch_order="kept")
    assert apart(kept, learned("samples", minibatch_order="kept")) < 1e-4
    orders = [kept, *(learned(u, minibatch_order="redrawn") for u in ("prompts", "samples"))]
    for index, one in enumerate(orders):
        assert all(apart(one, other) > 1e-3 for other in orders[:index])


def test_the_mode_repeats_itself_and_a_sample_does_not() -> None:
    language = program()
    parameters, problems, _ = written()
    policy = {"parameters": parameters}
    act = jax.jit(language.act)
    prompt = problems.prompt[0]
    assert same_bits(act(policy, prompt), act(policy, prompt))
    samples = {tuple(act(policy, prompt, jax.random.key(i)).tolist()) for i in range(5)}
    assert len(samples) > 1


def test_evaluation_does_not_touch_the_state_and_counts_new_prompts_alone() -> None:
    language = program()
    state, _ = train(variant())
    found = jax.jit(language.evaluate)(state, variant(), jax.random.key(0))
    assert 0 <= found["evaluation/accuracy"] <= 1
    assert found["evaluation/accuracy"] == found["evaluation/accuracy_reversal"]
    assert found["evaluation/accuracy"] <= found["evaluation/pass_at_4"] <= 1
    assert 0 <= found["evaluation/greedy_accuracy"] <= 1
    assert 0 < found["evaluation/entropy"] <= np.log(20)


# What is refused


def test_complaints() -> None:
    defaults = {name: option.default for name, option in SPEC.structure.items()}
    complaints = check(structure={**defaults, "width": 20}, settings={})
    assert [one.partition(" ")[0] for one in complaints] == ["width=20", "the"]


def test_batches_that_have_no_equal_parts() -> None:
    def resolve(**sets: Any) -> Any:
        return SPEC.resolve(task("addition"), {"prompts": 6, "num_minibatches": 4} | sets)

    with pytest.raises(UserError, match=r"prompts=6 .* num_minibatches=4: .*unit=samples"):
        resolve()
    assert resolve(completion_unit="samples")["structure"]["num_minibatches"] == 4
    with pytest.raises(UserError, match=r"prompts=6 times samples_per_prompt=3 is not divisible"):
        resolve(completion_unit="samples", samples_per_prompt=3)


def test_orders_of_one_step_per_batch_are_not_read() -> None:
    """So that what existing studies are made of has no new parts."""
    names = {"completion_unit", "minibatch_order"}

    def read(**sets: Any) -> Any:
        return SPEC.completed(SPEC.resolve(task("addition"), sets))["choices"].keys()

    assert not names & read()
    assert names <= read(num_minibatches=2)


# The engine


@cache
def small_plan() -> Any:
    """Runs of one variant: an axis that a plan varies would be compiled as a switch."""
    sets = {**TINY, "warm_start_steps": 3, "evaluations": 0}
    only = {"variants": ("grpo",), "seeds": 3, "steps": P * K * 8}
    return plan(Request("prompt_normalization", "smoke", set=sets, **only))


@cache
def engine() -> Program:
    return Program(cells_of(small_plan())[0])


def test_a_resumed_cell_and_one_after_another_have_the_same_bits() -> None:
    cells = cells_of(small_plan())

    def finish(block: Any) -> dict[str, list[Any]]:
        while not block.finished:
            block.advance()
        return block.lanes[0].columns

    alone = finish(engine().start([cells[2]]))
    finish(engine().start([cells[0]]))
    block = engine().start([cells[2]])
    block.advance()
    saved = block.saved(0)
    finish(engine().start([cells[1]]))
    assert finish(engine().start([cells[2]], [saved])) == alone
    assert len(alone["step"]) == 4


# The warm start


def test_a_cell_starts_from_the_warm_start_of_its_seed() -> None:
    """It enters init as data: one program serves all seeds."""
    cells = cells_of(small_plan())[:2]
    start = engine().trainer.start
    assert start is not None
    first: dict[int, set[str]] = {}
    for cell in cells:
        block = engine().start([cell])
        given, has = start(cell.seed), block.saved(0).state
        assert any(
            np.array_equal(leaf, found)
            for leaf in jax.tree.leaves(given)
            for found in has.values()
            if leaf.ndim == 2
        )
        block.advance()
        first.setdefault(cell.seed, set()).add(block.lanes[0].columns["training/length"][0])
    assert len(first) == 2
    assert not same_bits(start(0), start(1))


def test_a_warm_start_is_taught_what_is_easy() -> None:
    mixture = puzzles.Problems(("addition2", "reversal"))
    problems = jax.jit(jax.vmap(mixture.draw))(jax.random.split(jax.random.key(0), 60))
    easy = np.asarray(jax.jit(jax.vmap(mixture.easy))(problems))
    for prompt, answer, kind, found in zip(*map(np.asarray, problems), easy, strict=True):
        text, answer_text = puzzles.decode(prompt), puzzles.decode(answer)
        if kind == 0:
            a, b = text.rstrip("=").split("+")
            assert found == all(int(x) + int(y) < 10 for x, y in zip(a, b, strict=True))
        else:
            assert found == (len(answer_text) <= 4)
