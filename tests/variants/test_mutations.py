"""The checks notice what goes wrong in practice: each mutation of a formula fails one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import advantage_checks
import gradient_checks
import language_loss_checks
import multistep_checks
import network_checks
import policy_checks
import prompt_checks
import pytest
import q_checks
import reward_checks
import schedule_checks
import statistics_checks
import token_loss_checks
import value_checks

import variants.advantage
import variants.advantage_statistics
import variants.entropy_estimate
import variants.gradient_clip
import variants.kl_placement
import variants.learning_rate_schedule
import variants.multistep_advantage
import variants.network_init
import variants.policy_loss
import variants.policy_loss_reduction
import variants.prompt_advantage
import variants.q_return
import variants.reward_scaling
import variants.reward_transform
import variants.token_losses
import variants.value_clip
import variants.value_error
import variants.whitened_advantage

pytestmark = pytest.mark.inputs("variants", "tests/variants", "tests/golden")
CHECKS: dict[ModuleType, tuple[Callable[[ModuleType], None], ...]] = {
    variants.advantage: advantage_checks.ADVANTAGE,
    variants.multistep_advantage: multistep_checks.MULTISTEP,
    variants.value_error: value_checks.VALUE_ERROR,
    variants.value_clip: value_checks.VALUE_CLIP,
    variants.advantage_statistics: statistics_checks.ADVANTAGE_STATISTICS,
    variants.gradient_clip: gradient_checks.GRADIENT_CLIP,
    variants.policy_loss: policy_checks.POLICY_LOSS,
    variants.entropy_estimate: policy_checks.ENTROPY_ESTIMATE,
    variants.reward_scaling: reward_checks.REWARD_SCALING,
    variants.q_return: q_checks.Q_RETURN,
    variants.learning_rate_schedule: schedule_checks.LEARNING_RATE_SCHEDULE,
    variants.network_init: network_checks.NETWORK_INIT,
    variants.token_losses: token_loss_checks.TOKEN_LOSSES,
    variants.prompt_advantage: prompt_checks.PROMPT_ADVANTAGE,
    variants.whitened_advantage: prompt_checks.WHITENED_ADVANTAGE,
    variants.policy_loss_reduction: language_loss_checks.POLICY_LOSS_REDUCTION,
    variants.kl_placement: language_loss_checks.KL_PLACEMENT,
    variants.reward_transform: language_loss_checks.REWARD_TRANSFORM,
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
_policy = variants.policy_loss
_entropy = variants.entropy_estimate
_rewards = variants.reward_scaling
_q = variants.q_return
_rates = variants.learning_rate_schedule
_weights = variants.network_init
_prompt = variants.prompt_advantage
_reduction = variants.policy_loss_reduction
_kl = variants.kl_placement
_transform = variants.reward_transform
_tokens = variants.token_losses
_whitened = variants.whitened_advantage
_multistep = variants.multistep_advantage

MUTATIONS = (
    Mutation(
        "Q values of what follows a termination",
        _q._backwards,
        "ahead = jnp.where(going > 0, ahead, 0.0)",
        "ahead = ahead + 0.0",
    ),
    Mutation(
        "a Q return that goes on behind a time limit",
        _q._bootstrapped,
        "kept * (1 - truncation)",
        "kept",
    ),
    Mutation(
        "a time limit for a termination",
        _q._bootstrapped,
        "1 - termination, kept",
        "(1 - termination) * (1 - truncation), kept",
    ),
    Mutation(
        "cut at the action that explores, one step late",
        _q.watkins,
        "followed[1:], jnp.ones_like(followed[:1])",
        "followed",
    ),
    Mutation("purejaxql without its slip", _q._twice_the_last, "ahead[:-2], last", "ahead[:-1]"),
    Mutation("rejax on time", _q.rejax, "seen[1:-1], seen[:1]", "seen[:-1]"),
    Mutation(
        "brax without the truncation mask",
        _advantage.brax,
        "return _untruncated(temporal_difference(steps, next_targets), steps), targets",
        "return temporal_difference(steps, next_targets), targets",
    ),
    Mutation(
        "brax with lambda on the first hop",
        _advantage.brax,
        "return _untruncated(temporal_difference(steps, next_targets), steps), targets",
        "return targets - steps.values, targets",
    ),
    Mutation(
        "brax without a bootstrap at the last step",
        _advantage.brax,
        "steps.next_values[-1:]",
        "targets[-1:]",
    ),
    Mutation(
        "masked_truncation without the mask",
        _advantage.masked_truncation,
        "sum_backwards(_untruncated(delta, steps), decay)",
        "sum_backwards(delta, decay)",
    ),
    Mutation(
        "masked_truncation carried over a truncation",
        _advantage.masked_truncation,
        "(1 - steps.termination) * (1 - steps.truncation) * steps.gae_lambda",
        "(1 - steps.termination) * steps.gae_lambda",
    ),
    Mutation(
        "standard bootstraps from beyond a termination",
        _advantage.temporal_difference,
        "ahead = jnp.where(steps.termination > 0, 0.0, ahead)",
        "pass",
    ),
    Mutation(
        "a NaN beyond a termination times 0",
        _advantage.temporal_difference,
        "ahead = jnp.where(steps.termination > 0, 0.0, ahead)",
        "ahead = (1 - steps.termination) * ahead",
    ),
    Mutation(
        "a NaN beyond a truncation times 0",
        _advantage._untruncated,
        "jnp.where(steps.truncation > 0, 0.0, terms)",
        "terms * (1 - steps.truncation)",
    ),
    Mutation(
        "standard cut at terminations only",
        _advantage.standard,
        "gae_lambda * (1 - steps.termination) * (1 - steps.truncation)",
        "gae_lambda * (1 - steps.termination)",
    ),
    Mutation(
        "standard without lambda",
        _advantage.standard,
        "steps.discount * steps.gae_lambda * (1",
        "steps.discount * (1",
    ),
    Mutation(
        "standard's target without the value",
        _advantage.standard,
        "return advantages, advantages + steps.values",
        "return advantages, advantages + steps.next_values",
    ),
    Mutation(
        "done_cut bootstraps where truncated",
        _advantage.done_cut,
        "done = 1 - (1 - steps.termination) * (1 - steps.truncation)",
        "done = steps.termination",
    ),
    Mutation(
        "a bonus at every end",
        _advantage.timeout_bonus,
        "steps.values * steps.truncation",
        "steps.values * jnp.maximum(steps.truncation, steps.termination)",
    ),
    Mutation(
        "a bonus that is not discounted",
        _advantage.timeout_bonus,
        "steps.discount * steps.values",
        "steps.values",
    ),
    Mutation(
        "a bonus of the next value",
        _advantage.timeout_bonus,
        "steps.discount * steps.values *",
        "steps.discount * steps.next_values *",
    ),
    Mutation(
        "the sum runs forwards",
        _advantage.sum_backwards,
        "reverse=True",
        "reverse=False",
    ),
    Mutation(
        "a step too many", _multistep.n_step, "terms < bootstrap_steps", "terms <= bootstrap_steps"
    ),
    Mutation("steps beyond an end", _multistep.n_step, " * (1 - termination)", ""),
    Mutation("steps beyond a truncation", _multistep.n_step, " * (1 - truncation)", ""),
    Mutation("a product of bounds", _multistep._weigh, "_bounded(log_ratio, c)", "c"),
    Mutation("one bound for both", _multistep._weigh, "(log_ratio, c)", "(log_ratio, rho)"),
    Mutation("an unweighted error", _multistep._weigh, "weight * delta, kept", "delta, kept"),
    Mutation("a trace without λ", _multistep._weigh, "steps.gae_lambda * ", ""),
    Mutation("ratios that pass a truncation", _multistep._weigh, " * (1 - steps.truncation)", ""),
    Mutation(
        "a bound that overflows first",
        _multistep._bounded,
        "jnp.exp(jnp.minimum(log_ratio, jnp.log(bound)))",
        "jnp.exp(log_ratio) * jnp.minimum(1, bound / jnp.exp(log_ratio))",
    ),
    Mutation("no λ on the first hop", _multistep.vtrace, "steps.gae_lambda * ", ""),
    Mutation("its own ratio forgotten", _multistep.vtrace_weighted, "weighted.weight * ", ""),
    Mutation("the same step again", _multistep._later, "sums[1:]", "sums[:-1]"),
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
    Mutation(
        "none that clips",
        _clip.none,
        "error(values=values",
        "error(values=jnp.clip(values, targets - 0.2, targets + 0.2)",
    ),
    Mutation("ddof ignored", _statistics.standardised, "degrees = count - ddof", "degrees = count"),
    Mutation(
        "constant sets judged by their std",
        _statistics.standardised,
        "~constant & (degrees > 0)",
        "(squares > 0) & (degrees > 0)",
    ),
    Mutation("epsilon ignored", _statistics.standardised, "(std + epsilon)", "std"),
    Mutation(
        "a variance for a std",
        _statistics.standardised,
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
        "jnp.where(inside, 1, max_gradient_norm / norm)",
        "max_gradient_norm / norm",
    ),
    Mutation(
        "clipped from above alone",
        variants.gradient_clip.element_wise,
        "-limit.astype(leaf.dtype), limit",
        "-jnp.inf, limit",
    ),
    Mutation("the larger surrogate", _policy.clipped_surrogate, "jnp.minimum(", "jnp.maximum("),
    Mutation("a ratio of logs", _policy.clipped_surrogate, "jnp.exp(log_ratio)", "1 + log_ratio"),
    Mutation(
        "clipped from above alone", _policy.clipped_surrogate, "ratio, lowest,", "ratio, 0.0,"
    ),
    Mutation(
        "the fraction below alone", _policy.clipped_surrogate, "(ratio < lowest) | ", "False | "
    ),
    Mutation("a policy that climbs", _policy.clip, "-surrogate", "surrogate"),
    Mutation(
        "a lower bound of 1-ε", _policy.clip_lower_inverse, "1 / (1 + clip_epsilon), 1", "0.8, 1"
    ),
    Mutation(
        "bounded where A > 0 as well",
        _policy._bounded,
        "jnp.where(advantages < 0, bounded, surrogate)",
        "jnp.minimum(bounded, surrogate)",
    ),
    Mutation("a dual clip of the ratio", _policy._bounded, "dual_clip * advantages)", "dual_clip)"),
    Mutation(
        "the divergence of the other way",
        _policy.kl_penalty,
        "jnp.expm1(log_ratio) - log_ratio",
        "jnp.exp(log_ratio) * log_ratio - jnp.expm1(log_ratio)",
    ),
    Mutation(
        "a penalty that is paid out",
        _policy.kl_penalty,
        "surrogate + penalty_coefficient",
        "surrogate - penalty_coefficient",
    ),
    Mutation(
        "a penalty that cancels",
        _policy.kl_penalty,
        "jnp.expm1(log_ratio) - log_ratio",
        "jnp.exp(log_ratio) - 1 - log_ratio",
    ),
    Mutation("a parabola of another width", _policy.spo, "(2 * jnp", "(1 * jnp"),
    Mutation("pulled to 1 + ε alone", _policy.spo, "jnp.sign(advantages)", "1.0"),
    Mutation("a parabola in the log ratio", _policy.spo, "jnp.expm1(log_ratio)", "log_ratio"),
    Mutation("entropy of the mean's action", _entropy.one_sample, "mean + std * noise", "mean"),
    Mutation("entropy without the tanh", _entropy.one_sample, " + log_slope(x)", ""),
    Mutation(
        "the entropy of a variance", _entropy._normal_entropy, "jnp.log(std)", "jnp.log(std**2)"
    ),
    Mutation("a mean over dimensions", _entropy.closed_form, "jnp.sum(", "jnp.mean("),
    Mutation(
        "returns across episodes",
        _rewards.running_return_std,
        "jnp.where(ended, 0, state.running)",
        "state.running",
    ),
    Mutation("returns across truncations", _rewards.running_return_std, " | (truncation > 0)", ""),
    Mutation(
        "statistics of rewards",
        _rewards.running_return_std,
        "discount * state.running + reward",
        "reward",
    ),
    Mutation(
        "statistics of the step before",
        _rewards.running_return_std,
        "state = _absorb(state, discount * state.running + reward)\n"
        "        scaled = reward / jnp.sqrt(state.variance + EPSILON)",
        "scaled = reward / jnp.sqrt(state.variance + EPSILON)\n"
        "        state = _absorb(state, discount * state.running + reward)",
    ),
    Mutation(
        "rewards that are not clipped",
        _rewards.running_return_std,
        "jnp.clip(scaled, -reward_clip, reward_clip)",
        "scaled",
    ),
    Mutation(
        "a variance of means alone",
        _rewards._absorb,
        "jnp.var(running)",
        "0 * jnp.var(running)",
    ),
    Mutation(
        "a variance within steps alone",
        _rewards._absorb,
        "jnp.mean(running)",
        "state.mean",
    ),
    Mutation(
        "a moving average",
        _rewards._absorb,
        "weight = 1 / (state.steps.astype(jnp.float32) + 1 + PRIOR_COUNT / running.size)",
        "weight = 0.1",
    ),
    Mutation("a scale on top of none", _rewards.constant, "rewards * reward_scale", "rewards"),
    Mutation("faster when too far", _rates.adaptive_kl, "> 2 * desired_kl", "< 2 * desired_kl"),
    Mutation("a narrower band", _rates.adaptive_kl, "< desired_kl / 2", "< desired_kl"),
    Mutation(
        "no lowest rate",
        _rates.adaptive_kl,
        "jnp.maximum(rate / learning_rate_factor, learning_rate_low)",
        "rate / learning_rate_factor",
    ),
    Mutation(
        "no highest rate",
        _rates.adaptive_kl,
        "jnp.minimum(rate * learning_rate_factor, learning_rate_high)",
        "rate * learning_rate_factor",
    ),
    Mutation(
        "a rate that is forgotten",
        _rates.adaptive_kl,
        "rate = state.current",
        "rate = jnp.full_like(state.current, 1e-3)",
    ),
    Mutation(
        "a rate that rises",
        _rates.linear,
        "(1 - jnp.clip(progress, 0, 1))",
        "jnp.clip(progress, 0, 1)",
    ),
    Mutation("a rate below 0", _rates.linear, "jnp.clip(progress, 0, 1)", "progress"),
    Mutation("orthogonal without a gain", _weights.orthogonal, "gain * ", ""),
    Mutation("torch's bound by outputs", _weights.torch_uniform, "shape[0]", "shape[1]"),
    Mutation(
        "lecun's bound twice",
        _weights.lecun_uniform,
        "initializers.lecun_uniform()(key, shape)",
        "2 * initializers.lecun_uniform()(key, shape)",
    ),
    Mutation(
        "lecun for xavier",
        _weights.xavier_uniform,
        "initializers.xavier_uniform",
        "initializers.lecun_uniform",
    ),
    Mutation(
        "a higher clip that is not",
        _policy.clip_higher,
        "1 + clip_epsilon_high",
        "1 + clip_epsilon",
    ),
    Mutation(
        "a dual clip that is not higher",
        _policy.dual_clip_higher,
        "1 + clip_epsilon_high",
        "1 + clip_epsilon",
    ),
    Mutation(
        "a dual clip that bounds nothing, higher",
        _policy.dual_clip_higher,
        "-_bounded(surrogate, advantages, dual_clip)",
        "-surrogate",
    ),
    Mutation("KL that is paid out", _prompt.Completions.returns_to_go, " - price", " + price"),
    Mutation("KL of the past", _prompt.Completions.returns_to_go, "reverse=True", "reverse=False"),
    Mutation(
        "KL of padding",
        _prompt.Completions.returns_to_go,
        "jnp.where(valid, self.token_kl, 0)",
        "self.token_kl",
    ),
    Mutation(
        "KL that costs nothing",
        _prompt.Completions.returns_to_go,
        "self.kl_coefficient * ",
        "",
    ),
    Mutation(
        "advantages at padding",
        _prompt.Completions.returns_to_go,
        "jnp.where(valid, jax.lax.cumsum(paid, axis=2, reverse=True), 0)",
        "jax.lax.cumsum(paid, axis=2, reverse=True)",
    ),
    Mutation(
        "constant prompts judged by their mean",
        _prompt._less_prompt_mean,
        "jnp.where(_constant_prompts(rewards), 0, centred)",
        "centred",
    ),
    Mutation(
        "no scale of a prompt",
        _prompt.per_prompt,
        "jnp.sum(jnp.square(centred), axis=-1, keepdims=True)",
        "centred.shape[-1] - 1.0",
    ),
    Mutation("one ddof for all", _prompt.per_prompt, "1 if ddof is None", "0 if ddof is None"),
    Mutation(
        "one epsilon for all", _prompt.per_prompt, "prompt_epsilon if epsilon", "1 if epsilon"
    ),
    Mutation("a std of other samples", _prompt._divided_by_std, "samples - jnp", "centred - jnp"),
    Mutation("not clipped", _prompt.per_prompt, "completions.clipped(values)", "values"),
    Mutation(
        "clipped before the baseline",
        _prompt.per_prompt_mean,
        "completions.clipped(_less_prompt_mean(completions.rewards))",
        "_less_prompt_mean(completions.clipped(completions.rewards))",
    ),
    Mutation("a mean of all slots", _prompt.centred_tokens, "jnp.maximum(count, 1)", "mask.size"),
    Mutation(
        "equal tokens judged by their std", _prompt.centred_tokens, "(highest != lowest)", "True"
    ),
    Mutation(
        "no floor of the variance",
        _prompt.standardised_tokens,
        "jnp.maximum(jnp.where(defined, variance, 1), epsilon)",
        "jnp.where(defined, variance, 1)",
    ),
    Mutation(
        "an advantage of samples for tokens",
        _prompt.batch,
        "standardised_tokens(returns, completions.mask, ddof=ddof, epsilon=epsilon)",
        "completions.mask * _divided_by_std(completions.rewards, completions.rewards, ddof, "
        "epsilon)[..., None]",
    ),
    Mutation(
        "the std of what is left",
        _prompt.per_prompt_mean_batch_std,
        "rewards,\n        1 if",
        "_less_prompt_mean(rewards),\n        1 if",
    ),
    Mutation(
        "a baseline with the sample in it",
        _prompt.leave_one_out,
        "(samples / max(samples - 1, 1))",
        "1",
    ),
    Mutation("masked losses", _reduction._valid, "jnp.where(valid, losses, 0)", "losses"),
    Mutation("a mean of sums", _reduction.sequence_mean, " / jnp.maximum(lengths, 1)", ""),
    Mutation("empty samples counted", _reduction.sequence_mean, "lengths > 0", "lengths > -1"),
    Mutation(
        "the length that there is", _reduction.constant_length, "constant_length)", "losses.size)"
    ),
    Mutation("a token mean of slots", _reduction.token_mean, "jnp.sum(lengths)", "losses.size"),
    Mutation(
        "one divisor per step", _reduction.batch_token_mean, "step_tokens, 1", "mask.sum(), 1"
    ),
    Mutation("a price with a gradient", _kl._of_rewards, "jax.lax.stop_gradient(price)", "(price)"),
    Mutation("a free reward", _kl.reward_k1, "kl_coefficient * ", ""),
    Mutation("a free k2", _kl.loss_k2, "kl_coefficient * ", ""),
    Mutation("a free k3", _kl.loss_k3, "kl_coefficient * loss", "loss"),
    Mutation("k2 without its half", _kl._k2, "0.5 * ", ""),
    Mutation("a k2 without bound", _kl._k2, "jnp.minimum(0.5 * square, bound)", "0.5 * square"),
    Mutation("a k1 bounded above alone", _kl._k1, "-bound, bound", "-1e30, bound"),
    Mutation(
        "k3 of the other ratio",
        _kl._k3,
        "jax.lax.stop_gradient(reference_log_probs) - log_probs",
        "log_probs - jax.lax.stop_gradient(reference_log_probs)",
    ),
    Mutation("k3 that cancels", _kl._k3, "jnp.expm1(log_ratio)", "(jnp.exp(log_ratio) - 1)"),
    Mutation("a k3 without bound", _kl._k3, "- log_ratio, bound)", "- log_ratio, 1e30)"),
    Mutation(
        "an exponent without bound", _kl._k3, "-log_ratio_bound, log_ratio_bound", "-1e30, 1e30"
    ),
    Mutation(
        "a ratio that is constant",
        _kl.loss_k3_corrected,
        "jnp.exp(log_ratio) * ",
        "jax.lax.stop_gradient(jnp.exp(log_ratio)) * ",
    ),
    Mutation("no ratio", _kl.loss_k3_corrected, "jnp.exp(log_ratio) * ", ""),
    Mutation("a mean for a sum", _tokens._sequence_sum, "jnp.sum(", "jnp.mean("),
    Mutation("ratios of padding", _tokens._sequence_sum, "log_ratio * mask,", "log_ratio,"),
    Mutation(
        "one bound for both", _tokens.clip_sequence, "1 + clip_epsilon_high", "1 + clip_epsilon"
    ),
    Mutation("temperatures swapped", _tokens.sapo, "advantages > 0", "advantages < 0"),
    Mutation("a gate of another slope", _tokens.sapo, " * 4 / temperature", ""),
    Mutation(
        "clipped before it is whitened",
        _whitened.per_prompt_mean_batch_std_whitened,
        "advantage_clip=None",
        "advantage_clip=advantage_clip",
    ),
    Mutation(
        "whitened with ddof 0",
        _whitened.per_prompt_mean_batch_std_whitened,
        "jnp.maximum(count - 1, 1)",
        "jnp.maximum(count, 1)",
    ),
    Mutation(
        "scales by place", _transform.per_task_scale, "task_scales[task]", "task_scales[0 * task]"
    ),
    Mutation("a half range", _transform.plus_minus_one, "2 * rewards", "rewards"),
    Mutation("clipped above alone", _transform.clipped, "-reward_clip", "-jnp.inf"),
)


def mutant(mutation: Mutation | None, original: ModuleType) -> ModuleType:
    """The original's source, changed, as a module of its own that registers nothing."""
    source = inspect.getsource(original)
    if mutation is not None:
        function = inspect.getsource(mutation.function)
        assert function.count(mutation.old) == 1, f"{mutation.old!r} is not there exactly once"
        assert source.count(function) == 1
        source = source.replace(function, function.replace(mutation.old, mutation.new))
    module = ModuleType(original.__name__)
    axis = getattr(original, "AXIS", None)
    if axis is not None and "AXIS = register(" not in source:  # choices of another module's axis
        module.AXIS = variants.Axis(
            axis.name,
            summary=axis.summary,
            inputs=axis.inputs,
            numbers=axis.numbers,
            defaults=axis.defaults,
        )
        source = source.replace("AXIS,", "", 1)
    source = source.replace("AXIS = register(", "AXIS = (")
    with mock.patch.multiple(variants.rules, _CONFLICTS=[], _INERT=[]):
        exec(source, module.__dict__)
    return module


def require_noticed(mutation: Mutation, checks: Mapping[ModuleType, Sequence[Any]]) -> None:
    """Fails unless one of the checks of the mutated module does."""
    original = inspect.getmodule(mutation.function)
    assert original is not None
    mutated = mutant(mutation, original)
    for check in checks[original]:
        try:
            check(mutated)
        except AssertionError:
            return
    pytest.fail(f"nothing notices: {mutation.mistake}")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.mistake)
def test_mutation_is_noticed(mutation):
    require_noticed(mutation, CHECKS)


@pytest.mark.parametrize("original", CHECKS, ids=lambda module: module.__name__)
def test_unchanged_copy_passes(original):
    """What fails above fails for the mutation, not for the way the copy is made."""
    copy = mutant(None, original)
    assert copy.AXIS is not original.AXIS
    for check in CHECKS[original]:
        check(copy)
