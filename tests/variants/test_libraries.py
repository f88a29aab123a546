# ruff: noqa: RUF001  # the formulas are in Greek
"""The axes and choices that libraries' presets need, against oracles and the libraries' numbers;
and mutations of them, each of which some check notices.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import coefficient_checks
import critic_checks
import library_checks
import pytest
from test_mutations import Mutation, require_noticed

import variants
import variants.action_distribution
import variants.advantage_statistics
import variants.bias_init
import variants.critic_head
import variants.entropy_estimate
import variants.entropy_schedule
import variants.gradient_clip
import variants.kl_stop
import variants.learning_rate_schedule
import variants.learning_rate_warmup
import variants.mean_perturbation
import variants.observation_scaling
import variants.penalty_schedule
import variants.policy_std
import variants.reward_scaling

CHECKS: dict[ModuleType, tuple[Callable[[ModuleType], None], ...]] = {
    variants.action_distribution: library_checks.ACTION_DISTRIBUTION,
    variants.policy_std: library_checks.POLICY_STD,
    variants.observation_scaling: library_checks.OBSERVATION_SCALING,
    variants.bias_init: library_checks.BIAS_INIT,
    variants.kl_stop: library_checks.KL_STOP,
    variants.reward_scaling: library_checks.REWARD_SCALING,
    variants.gradient_clip: library_checks.GRADIENT_CLIP,
    variants.advantage_statistics: library_checks.ADVANTAGE_STATISTICS,
    variants.entropy_estimate: library_checks.ENTROPY_ESTIMATE,
    variants.critic_head: critic_checks.CRITIC_HEAD,
    variants.penalty_schedule: coefficient_checks.PENALTY_SCHEDULE,
    variants.entropy_schedule: coefficient_checks.ENTROPY_SCHEDULE,
    variants.learning_rate_warmup: coefficient_checks.WARMUP,
    variants.mean_perturbation: coefficient_checks.MEAN_PERTURBATION,
    variants.learning_rate_schedule: library_checks.LEARNING_RATE_SCHEDULE,
}

_actions = variants.action_distribution
_std = variants.policy_std
_scaling = variants.observation_scaling
_bias = variants.bias_init
_stop = variants.kl_stop
_rewards = variants.reward_scaling
_gradients = variants.gradient_clip
_advantages = variants.advantage_statistics
_entropy = variants.entropy_estimate
_rates = variants.learning_rate_schedule
_penalty = variants.penalty_schedule
_head = variants.critic_head
_bonus = variants.entropy_schedule
_means = variants.mean_perturbation
_warmup = variants.learning_rate_warmup

MUTATIONS = (
    Mutation("a log density without log σ", _actions.normal_log_prob, " - jnp.log(std)", ""),
    Mutation(
        "scored after the clip", _actions.normal, "std, x), jnp", "std, jnp.clip(x, -1, 1)), jnp"
    ),
    Mutation(
        "a slope that saturates",
        _actions.log_tanh_slope,
        "2.0 * (math.log(2.0) - x - jax.nn.softplus(-2.0 * x))",
        "jnp.log(1 - jnp.square(jnp.tanh(x)))",
    ),
    Mutation("unclipped is clipped", _actions.normal_unclipped, "._replace(action=x)", ""),
    Mutation(
        "scored where it was drawn", _actions.tanh_normal_inverted, "jnp.arctanh(action)", "x"
    ),
    Mutation("a Beta with poles", _actions.beta, "1.0 + jax.nn.softplus", "jax.nn.softplus"),
    Mutation("the entropy of x", _actions.Beta.entropy, " + math.log(2.0)", ""),
    Mutation("a divergence by the other's ψ", _actions.Beta.kl, "psi(a + b)", "psi(c + d)"),
    Mutation(
        "a mean for a mode",
        _actions.Beta.mode,
        "above / jnp.where(flat, 1.0, above + below)",
        "self.alpha / (self.alpha + self.beta)",
    ),
    Mutation("a flat mode of 0/0", _actions.Beta.mode, "above + below <= 0.0", "above > jnp.inf"),
    Mutation(
        "drawn by the other parameter",
        _actions.Beta.sample,
        "self.alpha, self.beta",
        "self.beta, self.alpha",
    ),
    Mutation("samples on the bounds", _actions.Beta.sample, "EDGE, 1.0 - EDGE", "0.0, 1.0"),
    Mutation("another smallest std", _std.softplus_head, "+ MIN_STD", "+ 10 * MIN_STD"),
    Mutation("starts at σ = 0 + s", _std.clamped_parameter, "jnp.clip(initial_std + ", "jnp.clip("),
    Mutation(
        "a head that starts elsewhere",
        _std.shifted_softplus_head,
        "initial_std + jnp.log(-jnp.expm1(-jnp.asarray(initial_std)))",
        "jnp.log(initial_std)",
    ),
    Mutation("a σ that may be 0", _std.gsde, "variance + 1e-6", "variance"),
    Mutation("a variance for a σ", _std.gsde, "jnp.exp(2.0 * ", "jnp.exp("),
    Mutation("a head without its floor", _std.exp_head, "head), std_low)", "head), 0.0)"),
    Mutation(
        "a log std without bounds",
        _std.clamped_exp_parameter,
        "jnp.clip(initial_log_std + parameter, low, high)",
        "initial_log_std + parameter",
    ),
    Mutation(
        "a std without its floor", _std.exp_parameter, "parameter), std_low)", "parameter), 0.0)"
    ),
    Mutation(
        "clipped, then scaled",
        _scaling.epsilon_clipped,
        "observation=observation,",
        "observation=jnp.clip(observation, -observation_clip, observation_clip),",
    ),
    Mutation(
        "ε added to the std",
        _scaling.epsilon,
        "jnp.sqrt(variance + observation_epsilon)",
        "(jnp.sqrt(variance) + observation_epsilon)",
    ),
    Mutation(
        "ε added to the variance",
        _scaling.std_epsilon,
        "(jnp.sqrt(variance) + observation_std_epsilon)",
        "jnp.sqrt(variance + observation_std_epsilon)",
    ),
    Mutation("biases of a square root more", _bias.torch_uniform, "math.sqrt(fan_in)", "fan_in"),
    Mutation("stops at the target", _stop.minibatch, "1.5 * ", ""),
    Mutation("stops within the epoch", _stop.epoch, " & last_of_epoch", ""),
    Mutation(
        "truncation cuts",
        _rewards.leaking_return_std_per_environment,
        "1 - termination, discount",
        "0 * termination, discount",
    ),
    Mutation(
        "shared statistics", _rewards.leaking_return_std_per_environment, "_absorb_apart", "_absorb"
    ),
    Mutation("truncation leaks all", _rewards.leaking_return_std, " * (1 - truncation)", ""),
    Mutation(
        "the last reward is dropped",
        _rewards._leaking,
        "discount * state.running * keeps + reward",
        "(discount * state.running + reward) * keeps",
    ),
    Mutation("no prior", _rewards._absorb_apart, " + PRIOR_COUNT", ""),
    Mutation(
        "PyTorch's ε forgotten",
        _gradients.global_norm,
        "squares)) + gradient_norm_epsilon",
        "squares))",
    ),
    Mutation(
        "one norm for both",
        _gradients.per_network,
        "in gradients.items()",
        "in global_norm(gradients=gradients, max_gradient_norm=max_gradient_norm, "
        "gradient_norm_epsilon=gradient_norm_epsilon).items()",
    ),
    Mutation(
        "an added floor",
        _advantages.all_floored,
        "jnp.maximum(std, advantage_std_low)",
        "(std + advantage_std_low)",
    ),
    Mutation("ddof 0", _advantages.all_floored, "advantages.size - ddof", "advantages.size"),
    Mutation(
        "half the surprise",
        _entropy.negative_log_density,
        "0.5 * jnp.square(noise)",
        "0.25 * jnp.square(noise)",
    ),
    Mutation(
        "the slope forgotten", _entropy.negative_log_density, "surprise + log_slope(x)", "surprise"
    ),
    Mutation("a price that falls where it moved", _penalty.adaptive_kl, "2.0 * pen", "0.5 * pen"),
    Mutation("the target is a bound", _penalty.adaptive_kl, "1.5 * penalty_kl", "penalty_kl"),
    Mutation("a wider range", _penalty.adaptive_kl, "penalty_kl / 1.5", "penalty_kl / 2.0"),
    Mutation("a price without bounds", _penalty.adaptive_kl, "LOW, HIGH", "0.0, jnp.inf"),
    Mutation(
        "a bonus for entropy that is there",
        _bonus.target,
        "entropy_target - entropy",
        "entropy - entropy_target",
    ),
    Mutation("a step of the factor itself", _bonus.target, "bonus * jnp.exp(", "bonus + ("),
    Mutation("a bonus without bounds", _bonus.target, "LOW, HIGH", "0.0, jnp.inf"),
    Mutation("a line from elsewhere", _bonus.linear, "initial *", "1.0 *"),
    Mutation("beyond the end", _bonus.linear, "jnp.clip(progress, 0, 1)", "progress"),
    Mutation("half the width", _means.uniform, "(2 * noise - 1)", "(noise - 0.5)"),
    Mutation("means that rise", _means.uniform, "(2 * noise - 1)", "noise"),
    Mutation("half a wave", _rates.cosine, "jnp.pi *", "0.5 * jnp.pi *"),
    Mutation(
        "a wave that rises again", _rates.cosine, "jnp.clip(step_progress, 0, 1)", "step_progress"
    ),
    Mutation("rises beyond its peak", _warmup.linear, "jnp.minimum(1.0, ", "(1.0 * "),
    Mutation(
        "falls from the start", _warmup.linear, "jnp.maximum(share - warmup_share, 0.0)", "share"
    ),
    Mutation("never reaches 0", _warmup.linear, "jnp.maximum(1.0 - warmup_share, 1e-6)", "1.0"),
    Mutation("rises for ever", _warmup.linear, "jnp.isinf(total), 1.0", "jnp.isinf(total), 0.0"),
    Mutation("a target of another width", _head.hl_gauss, "value_smoothing * 2.0", "1.0"),
    Mutation(
        "masses that miss some", _head.hl_gauss, " / (below[..., -1:] - below[..., :1])", " / 2"
    ),
    Mutation(
        "bins by their lower edge", _head.hl_gauss, "0.5 * (edges[1:] + edges[:-1])", "edges[1:]"
    ),
    Mutation("one neighbour", _head.two_hot, "jnp.abs(centres - centre)", "(centres - centre)"),
    Mutation(
        "beyond the range", _head.two_hot, "jnp.clip(targets, -value_range", "jnp.clip(targets, -99"
    ),
    Mutation("the other tail", _head.quantiles, "(error < 0)", "(error > 0)"),
    Mutation("quantiles from 0 on", _head.quantiles, "+ 0.5) / count", "+ 0.0) / count"),
    Mutation("a median's weight", _head.quantiles, "jnp.abs(middle - (error < 0))", "0.5"),
    Mutation(
        "of the outputs themselves",
        _head._cross_entropy,
        "log_softmax(outputs)",
        "log_softmax(0 * outputs)",
    ),
    Mutation("0 raises the rate", _rates.adaptive_exact_kl, "exact_kl > ROUNDING", "exact_kl > -1"),
    Mutation(
        "anneals beyond the end",
        _rates.linear_per_step,
        "jnp.clip(step_progress, 0, 1)",
        "step_progress",
    ),
)


@pytest.mark.parametrize(
    ("module", "check"),
    [(module, check) for module, checks in CHECKS.items() for check in checks],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_formula(module, check):
    check(module)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.mistake)
def test_mutation_is_noticed(mutation):
    require_noticed(mutation, CHECKS)


def test_refused_combinations():
    per_step = {"observation_statistics": "per_step"}
    (complaint,) = variants.conflicts(per_step | {"observation_normalization": "before"})
    assert "set observation_normalization=after" in complaint
    assert not variants.conflicts(per_step | {"observation_normalization": "after"})
    (complaint,) = variants.conflicts({"old_value": "epoch", "advantage_timing": "iteration"})
    assert "set advantage_timing=epoch" in complaint


def test_what_cannot_act_is_named():
    found = variants.inert_settings({"observation_normalization": "none"})
    assert {"observation_statistics", "observation_scaling"} <= found.keys()
    assert "minibatch_order" in variants.inert_settings({"minibatch_order": "reused", "epochs": 1})
    epoch = {"old_value": "epoch", "epochs": 2}
    assert "old_value" in variants.inert_settings(epoch | {"value_clip": "none"})
    assert "old_value" not in variants.inert_settings(epoch | {"value_clip": "pessimistic"})
