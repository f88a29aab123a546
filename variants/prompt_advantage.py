"""Advantages of sampled completions, token by token, where several completions answer one prompt.

Shapes: P prompts, K samples of each, L tokens. rewards R [P, K]. token_kl [P, K, L]: log π(token) -
log π_ref(token) by the policy that sampled. mask [P, K, L]: 1 at the tokens of the completion, and
it may have holes. The advantages [P, K, L] are exactly 0 where the mask is 0.

1. Each sample gets a value a [P, K]: its reward, less a baseline and divided by a scale if the
   choice has them, then clipped to ±advantage_clip (None: no clip). greedy_rewards [P] are the
   rewards of the greedy completions, transformed like the others (None: 0).
2. Each token gets the return to go G_t = a - β Σ_{t' ≥ t} kl_t', with β = kl_coefficient and a
   discount of 1; a is paid at the last token. β is 1 if kl_placement has already multiplied
   token_kl by its coefficient.
3. Choices with token statistics standardise G over all valid tokens of the batch. A long sample
   then counts more than a short one, so a prompt whose samples are all right gets advantages
   other than 0. Statistics over samples ignore lengths and masks.

A constant set gives exactly 0, and so does a group of K = 1. The rewards decide whether a set is
constant: by rounding, a constant 0.9 has a tiny std, which an epsilon of 1e-9 turns into advantages
of 59. The KL term is subtracted from the token's return in any case.

ddof and epsilon: None means the value in the source of each choice. Token statistics divide by
sqrt(max(var, ε)) with ε = 1e-8 and ddof 0. All others divide by std + ε: per_prompt with
prompt_epsilon and ddof 1, per_prompt_mean_batch_std with samples_epsilon and ddof 1, the two names
that end in batch_samples with 1e-8 and ddof 0. per_prompt_mean_batch_std_whitened does both, and
adds 1e-8 to the variance of its tokens, of ddof 1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from variants.advantage_statistics import standardised
from variants.registry import Axis, Number
from variants.rules import conflict_where
from variants.shapes import Array, Scalar, floats, require_equal_shapes

SAMPLES_EPSILON = Number(
    1e-4, 0.0, 1.0, "ε of prompt_advantage=per_prompt_mean_batch_std, added to the std"
)


AXIS = Axis(
    "prompt_advantage",
    summary="the baseline and the scale of a completion's reward",
    inputs={
        "rewards": floats(3, 2),
        "token_kl": floats(3, 2, 4),
        "mask": floats(3, 2, 4),
        "kl_coefficient": floats(),
        "ddof": floats(),
        "epsilon": floats(),
        "greedy_rewards": floats(3),
    },
    defaults={"kl_coefficient": 1.0, "ddof": None, "epsilon": None, "greedy_rewards": None},
    numbers={
        "advantage_clip": Number(
            1e6, 1e-6, 1e6, "bound of a sample's advantage before KL and token statistics"
        )
    },
)


class Completions(NamedTuple):
    """Inputs of every choice."""

    rewards: Array
    token_kl: Array
    mask: Array
    kl_coefficient: Scalar
    advantage_clip: Scalar | None

    def clipped(self, values: Array) -> Array:
        """Values within ±advantage_clip."""
        if self.advantage_clip is None:
            return values
        return jnp.clip(values, -self.advantage_clip, self.advantage_clip)

    def returns_to_go(self, values: Array) -> Array:
        """a - β Σ_{t' ≥ t} kl_t' at valid tokens, 0 elsewhere; values a [P, K] -> [P, K, L]."""
        valid = self.mask > 0
        require_equal_shapes(token_kl=self.token_kl, mask=self.mask)
        require_equal_shapes(rewards=values, first_tokens=self.mask[..., 0])
        later = jnp.cumsum(jnp.flip(valid, axis=-1), axis=-1, dtype=jnp.int32)
        last = valid & (jnp.flip(later, axis=-1) == 1)
        # Summed from the last token on, as the libraries do: where all rewards are equal, only the
        # rounding of this sum distinguishes tokens.
        price = self.kl_coefficient * jnp.where(valid, self.token_kl, 0)
        paid = jnp.where(last, values[..., None], 0) - price
        return jnp.where(valid, jax.lax.cumsum(paid, axis=2, reverse=True), 0)


def _constant_prompts(rewards: Array) -> Array:
    """Return bool [P, 1]: whether all rewards of a prompt are equal."""
    return jnp.max(rewards, -1, keepdims=True) == jnp.min(rewards, -1, keepdims=True)


def _less_prompt_mean(rewards: Array) -> Array:
    centred = rewards - jnp.mean(rewards, axis=-1, keepdims=True)
    return jnp.where(_constant_prompts(rewards), 0, centred)


def _divided_by_std(
    centred: Array, samples: Array, ddof: Scalar | None, epsilon: Scalar | None
) -> Array:
    """centred / (std + ε), with the std of all P·K samples; 0 where those are constant."""
    return standardised(
        centred,
        squares=jnp.sum(jnp.square(samples - jnp.mean(samples))),
        count=samples.size,
        constant=jnp.max(samples) == jnp.min(samples),
        ddof=0 if ddof is None else ddof,
        epsilon=1e-8 if epsilon is None else epsilon,
    )


def centred_tokens(returns: Array, mask: Array) -> tuple[Array, Array, Array]:
    """Subtract the mean over valid tokens from returns of any shape.

    Returns the centred returns, the number of valid tokens, and whether two of them differ.
    """
    valid = mask > 0
    count = jnp.sum(valid, dtype=returns.dtype)
    mean = jnp.sum(jnp.where(valid, returns, 0)) / jnp.maximum(count, 1)
    highest = jnp.max(jnp.where(valid, returns, -jnp.inf))
    lowest = jnp.min(jnp.where(valid, returns, jnp.inf))
    differ = (count > 1) & (highest != lowest)
    return jnp.where(valid & differ, returns - mean, 0), count, differ


def standardised_tokens(
    returns: Array, mask: Array, *, ddof: Scalar | None = None, epsilon: Scalar | None = None
) -> Array:
    """(G - mean G) / sqrt(max(var G, ε)) over the valid tokens, 0 elsewhere; of any shape."""
    centred, count, differ = centred_tokens(returns, mask)
    degrees = count - (0 if ddof is None else ddof)
    defined = differ & (degrees > 0)
    variance = jnp.sum(jnp.square(centred)) / jnp.where(degrees > 0, degrees, 1)
    floored = jnp.maximum(jnp.where(defined, variance, 1), 1e-8 if epsilon is None else epsilon)
    return jnp.where(defined, centred / jnp.sqrt(floored), 0)


@AXIS.choice(
    "none",
    pack=Completions,
    formula="a = R",
    source="REINFORCE (Williams 1992)",
    summary="the reward as it is, without a baseline",
)
def none(completions: Completions) -> Array:
    return completions.returns_to_go(completions.clipped(completions.rewards))


@AXIS.choice(
    "per_prompt",
    pack=Completions,
    formula="a = (R - mean_p R) / (std_p R + ε),  p: samples of a prompt,  ε = prompt_epsilon",
    source=(
        "GRPO (Shao et al. 2024, https://arxiv.org/abs/2402.03300); OpenRLHF group_norm (ε 1e-9), "
        "verl (1e-6), TRL (1e-4)"
    ),
    summary="mean and std of each prompt: easy and hard prompts weigh the same",
    numbers={
        "prompt_epsilon": Number(
            1e-9, 0.0, 1.0, "ε of prompt_advantage=per_prompt, added to a prompt's std"
        )
    },
)
def per_prompt(
    completions: Completions, *, ddof: Scalar | None, epsilon: Scalar | None, prompt_epsilon: Scalar
) -> Array:
    centred = _less_prompt_mean(completions.rewards)
    values = standardised(
        centred,
        squares=jnp.sum(jnp.square(centred), axis=-1, keepdims=True),
        count=centred.shape[-1],
        constant=_constant_prompts(completions.rewards),
        ddof=1 if ddof is None else ddof,
        epsilon=prompt_epsilon if epsilon is None else epsilon,
    )
    return completions.returns_to_go(completions.clipped(values))


@AXIS.choice(
    "batch",
    pack=Completions,
    formula="(G - mean G) / sqrt(max(var G, ε)) over all valid tokens,  a = R",
    source=(
        "REINFORCE++ (Hu 2025, https://arxiv.org/abs/2501.03262); OpenRLHF reinforce, verl (ddof 1)"
    ),
    summary="one mean and one scale for all tokens of the batch, no matter the prompt",
)
def batch(completions: Completions, *, ddof: Scalar | None, epsilon: Scalar | None) -> Array:
    returns = completions.returns_to_go(completions.clipped(completions.rewards))
    return standardised_tokens(returns, completions.mask, ddof=ddof, epsilon=epsilon)


@AXIS.choice(
    "batch_mean",
    pack=Completions,
    formula="G - mean G over all valid tokens,  a = R",
    source="OpenRLHF reinforce with no_advantage_std_norm",
    summary="batch without its scale",
)
def batch_mean(completions: Completions) -> Array:
    returns = completions.returns_to_go(completions.clipped(completions.rewards))
    return centred_tokens(returns, completions.mask)[0]


@AXIS.choice(
    "batch_samples",
    pack=Completions,
    formula="a = (R - mean R) / (std R + ε) over the P·K samples",
    source="how articles describe REINFORCE++; batch counts tokens instead of samples",
    summary="one mean and one scale for all samples of the batch, each counted once",
)
def batch_samples(
    completions: Completions, *, ddof: Scalar | None, epsilon: Scalar | None
) -> Array:
    rewards = completions.clipped(completions.rewards)
    values = _divided_by_std(rewards - jnp.mean(rewards), rewards, ddof, epsilon)
    return completions.returns_to_go(values)


@AXIS.choice(
    "per_prompt_baseline_batch",
    pack=Completions,
    formula="(G - mean G) / sqrt(max(var G, ε)) over all valid tokens,  a = R - mean_p R",
    source="REINFORCE++-baseline; OpenRLHF reinforce_baseline, verl (ddof 1)",
    summary="the prompt's mean as a baseline, the scale of the batch",
)
def per_prompt_baseline_batch(
    completions: Completions, *, ddof: Scalar | None, epsilon: Scalar | None
) -> Array:
    values = completions.clipped(_less_prompt_mean(completions.rewards))
    returns = completions.returns_to_go(values)
    return standardised_tokens(returns, completions.mask, ddof=ddof, epsilon=epsilon)


@AXIS.choice(
    "per_prompt_baseline_batch_mean",
    pack=Completions,
    formula="G - mean G over all valid tokens,  a = R - mean_p R",
    source="OpenRLHF reinforce_baseline with no_advantage_std_norm",
    summary="per_prompt_baseline_batch without its scale",
)
def per_prompt_baseline_batch_mean(completions: Completions) -> Array:
    values = completions.clipped(_less_prompt_mean(completions.rewards))
    return centred_tokens(completions.returns_to_go(values), completions.mask)[0]


@AXIS.choice(
    "per_prompt_baseline_batch_samples",
    pack=Completions,
    formula="a = (b - mean b) / (std b + ε) over the P·K samples,  b = R - mean_p R",
    source="TRL (RLOO with normalize_advantages, ddof 1, up to the factor K/(K-1) of b)",
    summary="per_prompt_baseline_batch with each sample counted once",
)
def per_prompt_baseline_batch_samples(
    completions: Completions, *, ddof: Scalar | None, epsilon: Scalar | None
) -> Array:
    """G_t with a = clip(b / (std b + ε)).

    The mean of b is 0, and is not computed, so that a constant prompt gets exactly 0.
    """
    baselined = _less_prompt_mean(completions.rewards)
    values = _divided_by_std(baselined, baselined, ddof, epsilon)
    return completions.returns_to_go(completions.clipped(values))


@AXIS.choice(
    "leave_one_out",
    pack=Completions,
    formula="a = R - the mean of the prompt's other K - 1",
    source=(
        "RLOO (Ahmadian et al. 2024, https://arxiv.org/abs/2402.14740); OpenRLHF; verl and TRL "
        "where no KL is in the reward: with it they compare what is left (kl_placement=sample_k1)"
    ),
    summary="an unbiased baseline: it leaves the sample itself out",
)
def leave_one_out(completions: Completions) -> Array:
    """G_t with a = clip(K/(K-1) · (R - mean_p R)), which is the same."""
    samples = completions.rewards.shape[-1]
    values = _less_prompt_mean(completions.rewards) * (samples / max(samples - 1, 1))
    return completions.returns_to_go(completions.clipped(values))


@AXIS.choice(
    "per_prompt_mean",
    pack=Completions,
    formula="a = R - mean_p R",
    source="Dr. GRPO (Liu et al. 2025, https://arxiv.org/abs/2503.20783); TRL scale_rewards none",
    summary="the prompt's mean as a baseline, rewards unscaled",
)
def per_prompt_mean(completions: Completions) -> Array:
    values = completions.clipped(_less_prompt_mean(completions.rewards))
    return completions.returns_to_go(values)


@AXIS.choice(
    "per_prompt_mean_batch_std",
    pack=Completions,
    formula=(
        "a = (R - mean_p R) / (std R + ε),  std of the raw rewards of all P·K samples,  "
        "ε = samples_epsilon"
    ),
    source=(
        "Lite PPO (Liu et al. 2025, https://arxiv.org/abs/2508.08221) in ROLL, its framework "
        "(norm_mean_type group, norm_std_type batch: ε 1e-6); TRL scale_rewards batch (ε 1e-4)"
    ),
    summary="the prompt's mean as a baseline, the std of the batch's rewards as the scale",
    numbers={"samples_epsilon": SAMPLES_EPSILON},
)
def per_prompt_mean_batch_std(
    completions: Completions,
    *,
    ddof: Scalar | None,
    epsilon: Scalar | None,
    samples_epsilon: Scalar,
) -> Array:
    values = _divided_by_std(
        _less_prompt_mean(completions.rewards),
        completions.rewards,
        1 if ddof is None else ddof,
        samples_epsilon if epsilon is None else epsilon,
    )
    return completions.returns_to_go(completions.clipped(values))


@AXIS.choice(
    "greedy",
    pack=Completions,
    formula="a = R - R(ŷ),  ŷ: the prompt's greedy completion",
    source="ReMax (Li et al. 2023, https://arxiv.org/abs/2310.10505); verl (adv_estimator remax)",
    summary="the greedy completion as a baseline, which costs one more completion per prompt",
)
def greedy(completions: Completions, *, greedy_rewards: Array | None) -> Array:
    baseline = 0.0 if greedy_rewards is None else greedy_rewards[:, None]
    return completions.returns_to_go(completions.clipped(completions.rewards - baseline))


@AXIS.choice(
    "per_prompt_mean_batch_std_whitened",
    pack=Completions,
    formula=(
        "clip((G - mean G) / sqrt(var G + 1e-8)) over all valid tokens,\n"
        "a as in per_prompt_mean_batch_std, not clipped"
    ),
    source="ROLL's page on Lite PPO (whiten_advantages, then advantage_clip)",
    summary="per_prompt_baseline_batch with ddof 1, clipped at the end: the rewards' scale cancels",
    numbers={"samples_epsilon": SAMPLES_EPSILON},
)
def per_prompt_mean_batch_std_whitened(
    completions: Completions,
    *,
    ddof: Scalar | None,
    epsilon: Scalar | None,
    samples_epsilon: Scalar,
) -> Array:
    returns = per_prompt_mean_batch_std(
        completions._replace(advantage_clip=None),
        ddof=ddof,
        epsilon=epsilon,
        samples_epsilon=samples_epsilon,
    )
    centred, count, differ = centred_tokens(returns, completions.mask)
    variance = jnp.sum(jnp.square(centred)) / jnp.maximum(count - 1, 1)
    whitened = jnp.where(differ, centred / jnp.sqrt(jnp.where(differ, variance, 1) + 1e-8), 0)
    return completions.clipped(whitened)


GROUP_STATISTICS = frozenset(
    {"leave_one_out", *(name for name in AXIS if name.startswith("per_prompt"))}
)


@conflict_where(
    "prompt_advantage={prompt_advantage} compares the samples of a prompt, and "
    "samples_per_prompt={samples_per_prompt} leaves nothing to compare: set "
    "samples_per_prompt to 2 or more, or prompt_advantage=none, batch, batch_mean or "
    "batch_samples"
)
def group_statistics_need_a_group(*, prompt_advantage: str, samples_per_prompt: int) -> bool:
    return samples_per_prompt < 2 and prompt_advantage in GROUP_STATISTICS
