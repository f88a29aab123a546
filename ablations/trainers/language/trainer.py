"""Policy gradients on a language model, composed from the registry: REINFORCE++, GRPO, RLOO, PPO.

Read it from top to bottom: the settings; `Language.iteration`, one update, which samples K
completions of each of P prompts, checks them, estimates advantages of their tokens, and makes
`epochs` passes in minibatches; `language_loss`, the formula to check against the papers.

All randomness derives from the seed's key and the number of the iteration. So all variants of a
seed have the same prompts, sampling noise, reward noise and minibatches, and the same first policy,
which is also the reference (see `warm_start`).

Shapes: P prompts, K completions of each, B = P·K; L tokens of a completion; D width. A mask is 1 up
to and including the end token of a completion, and 0 after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Unpack

import jax
import jax.numpy as jnp

from ablations.core.plan import Settings as TaskSettings
from ablations.tasks.language import puzzles
from ablations.tasks.language.puzzles import Problem, Problems
from ablations.tasks.language.puzzles import reward as paid
from ablations.trainers import optimizer
from ablations.trainers.choices import apply, fix, matches
from ablations.trainers.language.completions import Completions, masked_log_probs, read, write
from ablations.trainers.language.decoder import Decoder, DecoderConfig
from ablations.trainers.language.warm_start import warm_start
from ablations.trainers.losses import mean, ratio_metrics, share_that_counts, value_loss, variance
from ablations.trainers.optimizer import Divergence, Learner, Rule, StepSettings, complaints_of
from ablations.trainers.products import dense_product
from ablations.trainers.shuffles import orders
from ablations.trainers.spec import TrainerSpec, component, number, number_default, static
from ablations.trainers.trainer import (
    Array,
    Metrics,
    Program,
    ResolvedSettings,
    Scalar,
    TracedConfig,
    Trainer,
    Tree,
)

EVALUATION_SAMPLES = 4  # of each prompt of an evaluation


@dataclass(frozen=True, kw_only=True)
class Settings(StepSettings):
    """Hyperparameters of the language trainer. A step of an episode is a token."""

    prompt_advantage: str = component("per_prompt")
    reward_transform: str = component("raw")
    policy_loss: str = component("clip")
    policy_loss_reduction: str = component("token_mean")
    kl_placement: str = component("none")
    gradient_clip: str = component("global_norm")
    learning_rate_schedule: str = component("constant")
    advantage: str = component("standard")
    token_statistics: str = component("standardised")
    value_error: str = component("squared")
    value_clip: str = component("none")
    completion_unit: str = component("prompts", neutral="prompts")
    minibatch_order: str = component("redrawn", neutral="redrawn")

    learning_rate: float = number(3e-4, 0.0, 1.0, "step size of Adam")
    entropy_coefficient: float = number(0.0, 0.0, 10.0, "factor on the mean entropy")
    value_coefficient: float = number(0.5, 0.0, 1e6, "factor on the mean value loss")
    critic_rate_factor: float = number(
        1.0, 0.0, 1e6, "the critic's learning rate over the policy's"
    )
    temperature: float = number(1.0, 1e-3, 1e3, "divides the logits, in sampling and in training")
    log_ratio_clip: float = number(
        1e30, 1e-6, 1e30, "bound of log π - log π_old in policy_loss; verl's and OpenRLHF's 20",
        neutral=1e30,
    )  # fmt: skip
    discount: float = number_default(1.0)
    gae_lambda: float = number_default(1.0)
    max_gradient_norm: float = number_default(1.0)

    prompts: int = static(16, "prompts of a batch", low=1)
    samples_per_prompt: int = static(4, "completions of each prompt", low=1)
    num_minibatches: int = static(1, "gradient steps per pass over a batch", low=1)
    epochs: int = static(1, "passes over a batch", low=1)
    critic: str = static(
        "none",
        "whether a decoder of its own estimates values: advantages are then those of the axis "
        "advantage, over tokens, instead of prompt_advantage",
        ("none", "separate"),
    )
    layers: int = static(2, "of the decoder", low=1)
    width: int = static(64, "of the decoder, a multiple of twice the heads", low=2)
    heads: int = static(4, "of attention", low=1)
    mlp_width: int = static(128, "of the hidden layer after attention", low=1)
    warm_start_steps: int = static(0, "supervised steps on right answers before training", low=0)


WITHOUT_CRITIC = {"prompt_advantage"}
WITH_CRITIC = {"advantage", "token_statistics", "value_error", "value_clip"} | {
    "value_coefficient", "critic_rate_factor",
}  # fmt: skip


def unread(resolved: ResolvedSettings) -> dict[str, str]:
    """Return the settings that the trainer does not read: name -> reason."""
    structure = resolved.structure
    if structure["critic"] == "separate":
        reasons = dict.fromkeys(WITHOUT_CRITIC, "a critic estimates advantages")
    else:
        reasons = dict.fromkeys(WITH_CRITIC, "there is no critic")
    if structure["num_minibatches"] == 1:
        reasons |= dict.fromkeys(
            ("completion_unit", "minibatch_order"), "the batch is one minibatch"
        )
    return reasons


def compiles(structure: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the axes to compile in, for shorter compilation of studies of the advantage.

    These studies take one step per batch, where choices of the loss hardly matter.
    """
    if not structure["num_minibatches"] == structure["epochs"] == 1:
        return ()
    of_the_loss = ("policy_loss", "policy_loss_reduction", "kl_placement")
    return (*of_the_loss, "gradient_clip", "learning_rate_schedule")


def check(*, structure: Mapping[str, Any], settings: TaskSettings) -> list[str]:
    """Return complaints about settings that do not fit together."""
    complaints = complaints_of(structure)
    width, heads = structure["width"], structure["heads"]
    if width % (2 * heads):
        complaints.append(
            f"width={width} is not a multiple of {2 * heads}, twice heads={heads}: each head "
            f"rotates pairs of entries"
        )
    if "kinds" not in settings:
        complaints.append(
            "the trainer 'language' needs a task with prompts: choose one such as addition"
        )
    return complaints


class State(NamedTuple):
    """The whole state of a run.

    learner: parameters {"policy"} and, with a critic, {"critic": {"decoder", "head" [D]}}.
    reference: parameters of the first policy. key: of the seed. iteration: uint32, iterations done.
    """

    learner: Learner
    reference: Tree
    key: Array
    iteration: Array

    @property
    def parameters(self) -> dict[str, Tree]:
        """Parameters of policy and critic."""
        parameters: dict[str, Tree] = self.learner.parameters
        return parameters


class Batch(NamedTuple):
    """P prompts with K completions of L tokens each; values are 0 outside the mask.

    prompts: int32 [P, S]. tokens: int32 [P, K, L]. The rest float32 [P, K, L].
    log_prob, reference_log_prob: of the tokens, by the policy that sampled and by the reference.
    advantage: without a gradient. old_value, target: the critic's value at rollout and its target,
    0 without a critic.
    """

    prompts: Array
    tokens: Array
    mask: Array
    log_prob: Array
    reference_log_prob: Array
    advantage: Array
    old_value: Array
    target: Array


@dataclass(frozen=True)
class Language:
    """The functions of the trainer for one task and its static settings.

    start: seed -> parameters of the first policy of all variants of the seed, the reference.
    evaluation_prompts: number of held-out prompts of an evaluation. fixed: axis -> compiled-in
    choice.
    """

    problems: Problems
    decoder: Decoder
    start: Callable[[int], Tree]
    settings: Settings
    length: int
    updates_per_chunk: int
    evaluation_prompts: int
    fixed: Mapping[str, str] = field(default_factory=dict)

    @property
    def rule(self) -> Rule:
        """How steps are taken."""
        return optimizer.rule_of(self.settings, self.fixed)

    @property
    def shape(self) -> tuple[int, int]:
        """P prompts and K completions of each."""
        return self.settings.prompts, self.settings.samples_per_prompt

    @property
    def trainer(self) -> Trainer:
        """The program in the form that the engine runs."""
        return Trainer(
            init=self.init,
            chunk=self.chunk,
            evaluate=self.evaluate,
            policy=self.policy,
            steps_per_chunk=self.updates_per_chunk * math.prod(self.shape),
            act=self.act,
            start=self.start,
            given=jax.eval_shape(self.decoder.init, jax.random.key(0)),
        )

    def init(self, key: Array, variant: TracedConfig, given: Tree = None) -> State:
        """Initialize networks and optimiser; given: the result of `start`, or None."""
        variant = fix(variant, self.fixed)
        reference = self.decoder.init(key) if given is None else jax.tree.map(jnp.asarray, given)
        parameters = {"policy": reference}
        if self.settings.critic == "separate":
            head = jnp.zeros(self.decoder.config.width)
            parameters["critic"] = {"decoder": reference, "head": head}
        learner = optimizer.start(parameters, variant, self.rule)
        return State(learner, reference, key, iteration=jnp.uint32(0))

    def chunk(self, state: State, variant: TracedConfig) -> tuple[State, Metrics]:
        """Run `updates_per_chunk` iterations.

        Metrics are means over iterations; policy/kl_reference is from the last iteration, which
        always evaluates the reference.
        """
        variant = fix(variant, self.fixed)
        count = self.updates_per_chunk
        keys = jax.vmap(lambda i: jax.random.fold_in(state.key, state.iteration + i))(
            jnp.arange(count, dtype=jnp.uint32)
        )
        # Drawn before the loop, or the compiler would fuse the draws into all their readers.
        problems = jax.vmap(
            lambda key: self.problems.train(jax.random.split(key)[0], state.key, self.shape[0])
        )(keys)

        def body(state: State, now: tuple[Array, Problem, Array]) -> tuple[State, Metrics]:
            key, problems, last = now
            return self.iteration(state, jax.random.split(key)[1], problems, last, variant)

        last = jnp.arange(count) == count - 1
        state, metrics = jax.lax.scan(body, state, (keys, problems, last))
        kl = metrics.pop("policy/kl_reference")[-1]
        return state, _means(metrics) | {"policy/kl_reference": kl}

    def iteration(
        self, state: State, key: Array, problems: Problem, last: Array, variant: TracedConfig
    ) -> tuple[State, Metrics]:
        """Sample completions of problems [P, ...], and update the policy.

        last: whether to evaluate the reference in any case.
        """
        key_samples, key_rewards, key_epochs = jax.random.split(key, 3)
        temperature = variant.numbers["temperature"]
        completions = self.sample(state.parameters["policy"], problems, key_samples, temperature)
        tokens = completions.tokens.reshape(*self.shape, self.length)
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
        self, policy: Tree, problems: Problem, key: Array, temperature: Scalar = 1.0
    ) -> Completions:
        """Sample K completions of each problem, [P·K, L]."""
        noise = self._noise(key, math.prod(self.shape))
        return write(self.decoder, policy, problems.prompt, self.shape[1], noise, temperature)

    def greedy_reward(self, policy: Tree, problems: Problem, variant: TracedConfig) -> Array:
        """Return the reward [P] of the policy's mode, without reward noise."""
        no_noise = jnp.zeros((self.length, 1, 1))
        found = write(self.decoder, policy, problems.prompt, 1, no_noise)
        correct = self.problems.correct(problems, found.tokens[:, None])
        return paid(correct, problems.kind, variant.task, None)[:, 0]

    def _noise(self, key: Array, count: int) -> Array:
        """Draw the noise of `write` for `count` completions."""
        return jax.random.gumbel(key, (self.length, count, self.decoder.config.vocabulary))

    def prepare(
        self,
        state: State,
        problems: Problem,
        completions: Completions,
        reward: Array,
        last: Array,
        variant: TracedConfig,
    ) -> tuple[Batch, Metrics]:
        """Return the whole batch for learning, and metrics; reward: [P, K], of the task."""
        tokens, mask, log_prob = completions
        shape = (*self.shape, self.length)

        # Only variants that read the reference evaluate it.
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

        def transformed(reward: Array) -> Tree:
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
        if self.settings.critic == "none":
            # Only prompt_advantage=greedy samples greedy completions.
            greedy = jax.lax.cond(
                jnp.asarray(matches("prompt_advantage", variant, "greedy")),
                lambda: transformed(
                    self.greedy_reward(state.parameters["policy"], problems, variant)[:, None]
                )[:, 0],
                lambda: jnp.zeros(self.shape[0]),
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
                state.parameters["critic"], self.decoder, problems.prompt, tokens, mask
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
        self, policy: Tree, prompts: Array, tokens: Array, mask: Array, temperature: Scalar = 1.0
    ) -> Array:
        """Return log π [B, L] of completions, 0 outside the mask."""
        features = read(self.decoder, policy, prompts, tokens, mask)
        return masked_log_probs(self.decoder, policy, features, tokens, mask, temperature)[0]

    def learn(
        self, state: State, batch: Batch, key: Array, variant: TracedConfig
    ) -> tuple[Learner, Metrics]:
        """Run `epochs` epochs of minibatch SGD on the batch; metrics [epochs, minibatches].

        completion_unit decides whether prompts with all their completions are shuffled, or single
        completions. One minibatch needs no order.
        """
        progress = state.iteration.astype(jnp.float32) / variant.iterations
        keys = jax.random.split(key, self.settings.epochs)
        step_tokens = jnp.maximum(jnp.sum(batch.mask), 1.0) / self.settings.num_minibatches

        def step(learner: Learner, part: Batch, key: Array) -> tuple[Learner, Metrics]:
            return self.gradient_step(learner, part, key, step_tokens, progress, variant)

        def whole(learner: Learner, key: Array) -> tuple[Learner, Metrics]:
            learner, metrics = step(learner, batch, key)
            return learner, {name: value[None] for name, value in metrics.items()}

        if self.settings.num_minibatches == 1:
            return jax.lax.scan(whole, state.learner, keys)

        units = batch if self.fixed["completion_unit"] == "prompts" else single(batch)
        order = orders(keys, units.prompts.shape[0], variant)

        def epoch(learner: Learner, now: tuple[Array, Array]) -> tuple[Learner, Metrics]:
            order, key = now
            return jax.lax.scan(
                lambda learner, now: step(
                    learner, jax.tree.map(lambda leaf: leaf[now[0]], units), now[1]
                ),
                learner,
                (
                    order.reshape(self.settings.num_minibatches, -1),
                    jax.random.split(key, self.settings.num_minibatches),
                ),
            )

        return jax.lax.scan(epoch, state.learner, (order, keys))

    def gradient_step(
        self,
        learner: Learner,
        batch: Batch,
        key: Array,
        step_tokens: Array,
        progress: Array,
        variant: TracedConfig,
    ) -> tuple[Learner, Metrics]:
        """Take one gradient step."""
        gradient, metrics = jax.grad(language_loss, has_aux=True)(
            learner.parameters, self.decoder, batch, key, variant, step_tokens
        )
        learner, step = optimizer.descend(
            learner,
            gradient,
            divergence=Divergence(metrics["policy/approximate_kl"]),
            progress=progress,
            steps=self.settings.epochs * self.settings.num_minibatches,
            variant=variant,
            factors={"critic": variant.numbers["critic_rate_factor"]},
            rule=self.rule,
        )
        return learner, metrics | step

    def evaluate(self, state: State, variant: TracedConfig, key: Array) -> Metrics:
        """Sample the greedy completion and `EVALUATION_SAMPLES` samples of held-out prompts.

        Greedy accuracy changes only if the most likely answer changes. A policy that becomes more
        certain of the same answers raises sampled accuracy and lowers pass@k. Prompts of a fixed
        training set do not count.
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
        """Return the policy to save."""
        return {"parameters": state.parameters["policy"]}

    def act(self, policy: dict[str, Tree], observation: Array, key: Array | None = None) -> Array:
        """Return a completion int32 [L] of a prompt [S]: the mode, or with a key a sample."""
        shape = (self.length, 1, self.decoder.config.vocabulary)
        noise = jnp.zeros(shape) if key is None else jax.random.gumbel(key, shape)
        prompts = jnp.asarray(observation, jnp.int32)[None]
        return write(self.decoder, policy["parameters"], prompts, 1, noise).tokens[0]


# Advantages and loss


def single(batch: Batch) -> Batch:
    """Return the same completions as P·K prompts with one completion each."""
    samples = batch.tokens.shape[1]
    prompts = jnp.repeat(batch.prompts, samples, axis=0)
    return Batch(prompts, *(leaf.reshape(-1, 1, leaf.shape[-1]) for leaf in batch[1:]))


def values(critic: Tree, decoder: Decoder, prompts: Array, tokens: Array, mask: Array) -> Array:
    """Return the critic's V [B, L] before each token of completions, 0 outside the mask."""
    features = read(decoder, critic["decoder"], prompts, tokens, mask)
    return dense_product(features, critic["head"][:, None])[..., 0] * mask


def token_advantages(
    reward: Array, price: Array, value: Array, mask: Array, variant: TracedConfig
) -> tuple[Array, Array]:
    """Estimate advantages and value targets [B, L] by `advantage`, 0 outside the mask.

    reward: [B], at the last token of the mask, which is terminal. price: [B, L], subtracted from
    the reward of each token. value: [B, L], before each token.
    """
    following = jnp.concatenate([mask[:, 1:], jnp.zeros_like(mask[:, :1])], axis=1)
    final = mask * (1.0 - following)
    next_value = jnp.concatenate([value[:, 1:], jnp.zeros_like(value[:, :1])], axis=1)
    advantage, target = apply(
        "advantage",
        variant,
        rewards=(final * reward[:, None] - price * mask).T,
        values=value.T,
        next_values=next_value.T,
        termination=jnp.maximum(final, 1.0 - mask).T,
        truncation=jnp.zeros_like(mask).T,
    )
    return advantage.T * mask, target.T * mask


def language_loss(
    parameters: Tree,
    decoder: Decoder,
    batch: Batch,
    key: Array,
    variant: TracedConfig,
    step_tokens: Array | None = None,
) -> tuple[Array, Metrics]:
    """Compute loss = policy loss + β KL loss - c_e entropy + c_v E[value loss], and scalar metrics.

    policy_loss_reduction averages the first three terms. The value loss, with a critic, and the
    metrics are means over the tokens of the mask.

    key: for policy losses that draw. step_tokens: mean number of tokens per step of the batch;
        None: the number in this step.
    """
    length = batch.tokens.shape[-1]
    tokens, mask, old_log_prob, reference_log_prob, advantage = (
        leaf.reshape(-1, length)
        for leaf in (
            batch.tokens,
            batch.mask,
            batch.log_prob,
            batch.reference_log_prob,
            batch.advantage,
        )
    )

    # Policy
    features = read(decoder, parameters["policy"], batch.prompts, tokens, mask)
    log_prob, entropies = masked_log_probs(
        decoder, parameters["policy"], features, tokens, mask, variant.numbers["temperature"]
    )
    log_ratio = log_prob - old_log_prob
    bound = variant.numbers["log_ratio_clip"]
    policy_losses, clip_fraction = apply(
        "policy_loss",
        variant,
        log_ratio=jnp.clip(log_ratio, -bound, bound),
        advantages=advantage,
        mask=mask,
        log_probs=log_prob,
        noise=lambda shape: jax.random.uniform(key, shape),
    )

    # Closeness to the reference
    price = apply(
        "kl_placement",
        variant,
        log_probs=log_prob,
        reference_log_probs=reference_log_prob,
        log_ratio=log_ratio,
    ).loss

    loss = apply(
        "policy_loss_reduction",
        variant,
        losses=policy_losses + price - variant.numbers["entropy_coefficient"] * entropies,
        mask=mask,
        constant_length=float(length),
        step_tokens=step_tokens,
    )
    metrics = {
        "loss/policy": loss,
        "policy/entropy": mean(entropies, mask),
        "policy/clip_fraction": share_that_counts(clip_fraction, mask),
        **ratio_metrics(log_ratio, mask),
    }
    if "critic" in parameters:
        value = values(parameters["critic"], decoder, batch.prompts, tokens, mask)
        critic_loss, found = value_loss(
            value=value,
            target=batch.target.reshape(mask.shape),
            old_value=batch.old_value.reshape(mask.shape),
            variant=variant,
            mask=mask,
        )
        loss, metrics = loss + critic_loss, metrics | found
    return loss, metrics | {"loss/total": loss}


# Metrics


def _means(metrics: Metrics) -> Metrics:
    """Average over the leading axes, ignoring NaN."""
    return {name: jnp.nanmean(value) for name, value in metrics.items()}


def average(of_prompt: Array, counts: Array | float = 1.0) -> Array:
    """Return the mean of [P] with weights counts [P]; NaN if all are 0."""
    of_prompt = of_prompt.astype(jnp.float32)
    weight = jnp.broadcast_to(counts, of_prompt.shape)
    total = jnp.sum(weight)
    return jnp.where(total > 0, jnp.sum(of_prompt * weight) / total, jnp.nan)


def accuracies(
    name: str, asked: Problems, problems: Problem, correct: Array, counts: Array | float = 1.0
) -> Metrics:
    """Return the share of correct completions [P, K], in all and per kind of problem (or NaN)."""
    weight = jnp.broadcast_to(counts, problems.kind.shape)
    right = jnp.mean(correct.astype(jnp.float32), axis=1)
    return {name: average(right, weight)} | {
        f"{name}_{kind}": average(right, weight * (problems.kind == index))
        for index, kind in enumerate(asked.kinds)
    }


def outcomes(
    prefix: str,
    asked: Problems,
    problems: Problem,
    correct: Array,
    reward: Array,
    mask: Array,
    counts: Array | float = 1.0,
) -> Metrics:
    """Return accuracy, mean reward and length of completions [P, K]; counts: weights [P]."""
    return {
        f"{prefix}/return": average(jnp.mean(reward, axis=1), counts),
        **accuracies(f"{prefix}/accuracy", asked, problems, correct, counts),
        f"{prefix}/length": jnp.sum(mask) / correct.size,
    }


def compose(**program: Unpack[Program[TaskSettings]]) -> Language:
    """Compose the trainer for one task and its static settings."""
    settings = Settings(**program["structure"])
    problems = program["task"].made(program["settings"])
    config = DecoderConfig(
        vocabulary=len(puzzles.VOCABULARY),
        width=settings.width,
        layers=settings.layers,
        heads=settings.heads,
        mlp_width=settings.mlp_width,
    )

    def start(seed: int) -> Tree:
        return warm_start(config, problems.kinds, settings.warm_start_steps, seed)

    return Language(
        problems=problems,
        decoder=Decoder(config),
        start=start,
        settings=settings,
        length=problems.response_length,
        updates_per_chunk=program["updates_per_chunk"],
        evaluation_prompts=program.get("evaluation_envs", 256),
        fixed={"completion_unit": SPEC.axes["completion_unit"], **program.get("choices", {})},
    )


SPEC = TrainerSpec(
    name="language",
    summary="policy gradients on a decoder-only transformer, on tasks with checked answers",
    hyperparameters=Settings,
    unread=unread,
    compiles=compiles,
    make=lambda **program: compose(**program).trainer,
    iteration_steps=lambda structure: structure["prompts"] * structure["samples_per_prompt"],
    step_unit="completion",
    ranked_by=("evaluation/greedy_accuracy", "training/accuracy"),
    check=check,
    revision=3,
)
