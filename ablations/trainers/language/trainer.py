"""Policy gradients on a language model, composed from the registry: REINFORCE++, GRPO, RLOO, PPO.

Read `Language` from top to bottom: a chunk is a scan over iterations; an iteration samples K
completions of each of P prompts, has them checked, values their tokens, and takes `epochs` passes
over them in minibatches; `loss.py` is the page to check against the papers.

Everything random comes from the seed's key and the number of the iteration, never from the variant,
so one seed gives every variant the same prompts, sampling noise, reward noise and minibatches, and
one policy to start from, which is also the reference: see `warm_start`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ablations.tasks.language.environment import Problems
from ablations.tasks.language.environment import reward as paid
from ablations.tasks.language.puzzles import Problem
from ablations.trainers import optimizer
from ablations.trainers.choices import apply, fix, matches
from ablations.trainers.language.advantages import token_advantages
from ablations.trainers.language.completions import (
    Completions,
    Special,
    masked_log_probs,
    read,
    write,
)
from ablations.trainers.language.decoder import Decoder
from ablations.trainers.language.loss import Batch, language_loss, single, values
from ablations.trainers.language.scores import accuracies, average, outcomes
from ablations.trainers.losses import mean, variance
from ablations.trainers.optimizer import Divergence, Learner, Rule
from ablations.trainers.shuffles import orders
from ablations.trainers.trainer import Metrics, Scalar, Tree, Variant

EVALUATION_SAMPLES = 4  # of each prompt of an evaluation


class State(NamedTuple):
    """All that training needs to go on.

    learner: its parameters are {"policy"} and, with a critic, {"critic": {"decoder", "head" [D]}}.
    reference: parameters of the policy that training started from.
    key: the seed's. iteration: uint32, how many are done.
    """

    learner: Learner
    reference: Tree
    key: jax.Array
    iteration: jax.Array

    @property
    def parameters(self) -> dict[str, Tree]:
        """Parameters of policy and critic."""
        parameters: dict[str, Tree] = self.learner.parameters
        return parameters


@dataclass(frozen=True)
class Language:
    """The functions of the trainer, closed over one task and one structure.

    start: seed -> parameters of the decoder, from which all variants of the seed start, and
    closeness to which is measured. prompts, samples: P and K. length: L, the longest completion.
    evaluation_prompts: how many held-out prompts an evaluation has. fixed: axis -> the choice that
    is compiled in. rule: how steps are taken.
    """

    problems: Problems
    decoder: Decoder
    start: Callable[[int], Tree]
    special: Special
    prompts: int
    samples: int
    length: int
    num_minibatches: int
    epochs: int
    critic: str
    updates_per_chunk: int
    evaluation_prompts: int
    fixed: Mapping[str, str] = field(default_factory=dict)
    rule: Rule = optimizer.ADAM

    def init(self, key: jax.Array, variant: Variant, given: Tree = None) -> State:
        """Initialize networks and optimiser.

        given: what `start` made for the seed; without it the networks are untaught.
        """
        variant = fix(variant, self.fixed)
        reference = self.decoder.init(key) if given is None else jax.tree.map(jnp.asarray, given)
        parameters = {"policy": reference}
        if self.critic == "separate":
            head = jnp.zeros(self.decoder.config.width)
            parameters["critic"] = {"decoder": reference, "head": head}
        learner = optimizer.start(parameters, variant, self.rule)
        return State(learner, reference, key, iteration=jnp.uint32(0))

    def chunk(self, state: State, variant: Variant) -> tuple[State, Metrics]:
        """Run `updates_per_chunk` iterations.

        Metrics are means over them; policy/kl_reference is of the last one, where nothing else asks
        for the reference's opinion.
        """
        variant = fix(variant, self.fixed)
        count = self.updates_per_chunk
        keys = jax.vmap(lambda i: jax.random.fold_in(state.key, state.iteration + i))(
            jnp.arange(count, dtype=jnp.uint32)
        )
        # Drawn ahead: within an iteration, the compiler would fuse them into all that reads them.
        problems = jax.vmap(
            lambda key: self.problems.train(jax.random.split(key)[0], state.key, self.prompts)
        )(keys)

        def body(state: State, now: tuple[jax.Array, Problem, jax.Array]) -> tuple[State, Metrics]:
            key, problems, last = now
            return self.iteration(state, jax.random.split(key)[1], problems, last, variant)

        last = jnp.arange(count) == count - 1
        state, metrics = jax.lax.scan(body, state, (keys, problems, last))
        kl = metrics.pop("policy/kl_reference")[-1]
        return state, _means(metrics) | {"policy/kl_reference": kl}

    def iteration(
        self, state: State, key: jax.Array, problems: Problem, last: jax.Array, variant: Variant
    ) -> tuple[State, Metrics]:
        """Sample completions of some problems [P, ...], and update the policy by them.

        last: whether closeness to the reference is to be measured in any case.
        """
        key_samples, key_rewards, key_epochs = jax.random.split(key, 3)
        temperature = variant.numbers["temperature"]
        completions = self.sample(state.parameters["policy"], problems, key_samples, temperature)
        tokens = completions.tokens.reshape(self.prompts, self.samples, self.length)
        correct = self.problems.correct(problems, tokens)
        reward = paid(correct, problems.kind, variant.task, key_rewards)
        batch, metrics = self.prepare(state, problems, completions, reward, last, variant)

        learner, learning = self.learn(state, batch, key_epochs, variant)
        state = state._replace(learner=learner, iteration=state.iteration + 1)
        return state, {
            **_means(learning),
            **metrics,
            **outcomes("training", self.problems, problems, correct, reward, completions.mask),
            "training/zero_variance_groups": jnp.mean(jnp.max(reward, 1) == jnp.min(reward, 1)),
        }

    def sample(
        self, policy: Tree, problems: Problem, key: jax.Array, temperature: Scalar = 1.0
    ) -> Completions:
        """Sample K completions of each problem, [P·K, L]."""
        noise = self._noise(key, self.prompts * self.samples)
        return write(
            self.decoder, policy, problems.prompt, self.special, self.samples, noise, temperature
        )

    def greedy_reward(self, policy: Tree, problems: Problem, variant: Variant) -> jax.Array:
        """Return what the mode of the policy is paid for each problem, [P]; without noise."""
        no_noise = jnp.zeros((self.length, 1, 1))
        found = write(self.decoder, policy, problems.prompt, self.special, 1, no_noise)
        correct = self.problems.correct(problems, found.tokens[:, None])
        return paid(correct, problems.kind, variant.task, None)[:, 0]

    def _noise(self, key: jax.Array, count: int) -> jax.Array:
        """Draw the noise with which `write` samples so many completions."""
        return jax.random.gumbel(key, (self.length, count, self.decoder.config.vocabulary))

    def prepare(
        self,
        state: State,
        problems: Problem,
        completions: Completions,
        reward: jax.Array,
        last: jax.Array,
        variant: Variant,
    ) -> tuple[Batch, Metrics]:
        """Return the whole batch as the epochs take it, and metrics of the policy.

        reward: [P, K], as it was paid. Advantages are per prompt or per batch, or with a critic
        those of GAE over tokens.
        """
        tokens, mask, log_prob = completions
        shape = (self.prompts, self.samples, self.length)

        # Two thirds of the time of an iteration are the gradient; a variant that does not look at
        # the reference does not pay for it.
        asked = last | ~jnp.asarray(matches("kl_placement", variant, "none"))
        reference_log_prob = jax.lax.cond(
            asked,
            lambda: self.log_probs(
                state.reference, problems.prompt, tokens, mask, variant.numbers["temperature"]
            ),
            lambda: log_prob,
        )
        kl = apply(
            "kl_placement", variant, log_probs=log_prob, reference_log_probs=reference_log_prob
        )

        def transformed(reward: jax.Array) -> Tree:
            return apply(
                "reward_transform",
                variant,
                rewards=reward,
                task=problems.kind,
                task_scales=1.0 / variant.task["reward_scales"],
            )

        of_samples = jnp.sum(kl.sample * mask, axis=-1).reshape(shape[:2])
        reward = transformed(reward) - of_samples

        old_value = target = jnp.zeros_like(mask)
        if self.critic == "none":
            # Only the choice that compares with greedy completions pays for writing them.
            greedy = jax.lax.cond(
                jnp.asarray(matches("prompt_advantage", variant, "greedy")),
                lambda: transformed(
                    self.greedy_reward(state.parameters["policy"], problems, variant)[:, None]
                )[:, 0],
                lambda: jnp.zeros(self.prompts),
            )
            advantage = apply(
                "prompt_advantage",
                variant,
                rewards=reward,
                token_kl=kl.reward.reshape(shape),
                mask=mask.reshape(shape),
                greedy_rewards=greedy,
            ).reshape(mask.shape)
        else:
            old_value = values(
                state.parameters["critic"],
                self.decoder,
                self.special,
                problems.prompt,
                tokens,
                mask,
            )
            advantage, target = token_advantages(
                reward.reshape(-1), kl.reward, old_value, mask, variant
            )
            advantage = apply("token_statistics", variant, advantages=advantage, mask=mask)

        batch = Batch(
            problems.prompt,
            *(leaf.reshape(shape) for leaf in (tokens, mask, log_prob, reference_log_prob)),
            *(
                jax.lax.stop_gradient(leaf).reshape(shape)
                for leaf in (advantage, old_value, target)
            ),
        )
        return batch, {
            "advantage/mean": mean(advantage, mask),
            "advantage/std": jnp.sqrt(variance(advantage, mask)),
            "advantage/largest": jnp.max(jnp.abs(advantage)),
            "policy/kl_reference": jnp.sum(log_prob - reference_log_prob) / mask.shape[0],
        }

    def log_probs(
        self,
        policy: Tree,
        prompts: jax.Array,
        tokens: jax.Array,
        mask: jax.Array,
        temperature: Scalar = 1.0,
    ) -> jax.Array:
        """Return log π [B, L] of completions that somebody wrote, 0 outside the mask."""
        features = read(self.decoder, policy, prompts, self.special, tokens, mask)
        return masked_log_probs(self.decoder, policy, features, tokens, mask, temperature)[0]

    def learn(
        self, state: State, batch: Batch, key: jax.Array, variant: Variant
    ) -> tuple[Learner, Metrics]:
        """Run `epochs` epochs of minibatch SGD on the batch; metrics [epochs, minibatches].

        A step of all prompts needs no order. Otherwise prompts are shuffled, with all their
        completions, or completions, whoever's they are.
        """
        progress = state.iteration.astype(jnp.float32) / variant.iterations
        keys = jax.random.split(key, self.epochs)
        step_tokens = jnp.maximum(jnp.sum(batch.mask), 1.0) / self.num_minibatches

        def step(learner: Learner, part: Batch, key: jax.Array) -> tuple[Learner, Metrics]:
            return self.gradient_step(learner, part, key, step_tokens, progress, variant)

        def whole(learner: Learner, key: jax.Array) -> tuple[Learner, Metrics]:
            learner, metrics = step(learner, batch, key)
            return learner, {name: value[None] for name, value in metrics.items()}

        if self.num_minibatches == 1:
            return jax.lax.scan(whole, state.learner, keys)

        units = batch if self.fixed["completion_unit"] == "prompts" else single(batch)
        order = orders(keys, units.prompts.shape[0], variant)

        def epoch(learner: Learner, now: tuple[jax.Array, jax.Array]) -> tuple[Learner, Metrics]:
            order, key = now
            return jax.lax.scan(
                lambda learner, now: step(
                    learner, jax.tree.map(lambda leaf: leaf[now[0]], units), now[1]
                ),
                learner,
                (
                    order.reshape(self.num_minibatches, -1),
                    jax.random.split(key, self.num_minibatches),
                ),
            )

        return jax.lax.scan(epoch, state.learner, (order, keys))

    def gradient_step(
        self,
        learner: Learner,
        batch: Batch,
        key: jax.Array,
        step_tokens: jax.Array,
        progress: jax.Array,
        variant: Variant,
    ) -> tuple[Learner, Metrics]:
        """Take one step of Adam down the gradient of the loss."""
        gradient, metrics = jax.grad(language_loss, has_aux=True)(
            learner.parameters, self.decoder, self.special, batch, key, variant, step_tokens
        )
        learner, step = optimizer.descend(
            learner,
            gradient,
            divergence=Divergence(metrics["policy/approximate_kl"]),
            progress=progress,
            steps=self.epochs * self.num_minibatches,
            variant=variant,
            factors={"critic": variant.numbers["critic_rate_factor"]},
            rule=self.rule,
        )
        return learner, metrics | step

    def evaluate(self, state: State, variant: Variant, key: jax.Array) -> Metrics:
        """Write the greedy completion and some samples of each of some held-out prompts.

        Greedy accuracy changes only where the likeliest answer does. Sampled accuracy also rises
        where a policy merely becomes surer of what it would have answered anyway, and pass@k falls
        then. Where the training set is fixed, prompts that stand in it do not count.
        """
        key_problems, key_samples = jax.random.split(key)
        count, samples = self.evaluation_prompts, EVALUATION_SAMPLES
        problems = self.problems.held_out(key_problems, count)
        # The first completion of each prompt is the greedy one.
        sampled = jnp.tile(jnp.arange(1 + samples) > 0, count).astype(jnp.float32)
        written = write(
            self.decoder,
            state.parameters["policy"],
            problems.prompt,
            self.special,
            1 + samples,
            self._noise(key_samples, count * (1 + samples)),
            variant.numbers["temperature"],
            sampled[:, None],
        )
        tokens = written.tokens.reshape(count, 1 + samples, self.length)
        correct = self.problems.correct(problems, tokens)
        reward = paid(correct, problems.kind, variant.task, None)
        new = self.problems.is_new(problems, state.key)
        greedy, correct, reward = correct[:, :1], correct[:, 1:], reward[:, 1:]
        mask = written.mask.reshape(tokens.shape)[:, 1:]
        log_probs = written.log_probs.reshape(tokens.shape)[:, 1:]
        return {
            **outcomes("evaluation", self.problems, problems, correct, reward, mask, new),
            **accuracies("evaluation/greedy_accuracy", self.problems, problems, greedy, new),
            f"evaluation/pass_at_{samples}": average(jnp.any(correct, axis=1), new),
            "evaluation/entropy": -jnp.sum(log_probs) / jnp.sum(mask),
        }

    def policy(self, state: State) -> dict[str, Tree]:
        """Return all that writing completions needs."""
        return {"parameters": state.parameters["policy"]}

    def act(
        self, policy: dict[str, Tree], observation: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
        """Write a completion int32 [L] of a prompt [S]: the mode, or a sample with a key."""
        shape = (self.length, 1, self.decoder.config.vocabulary)
        noise = jnp.zeros(shape) if key is None else jax.random.gumbel(key, shape)
        prompts = jnp.asarray(observation, jnp.int32)[None]
        return write(self.decoder, policy["parameters"], prompts, self.special, 1, noise).tokens[0]


def _means(metrics: Metrics) -> Metrics:
    """Average over the leading axes, without what is NaN for want of cases."""
    return {name: jnp.nanmean(value) for name, value in metrics.items()}
