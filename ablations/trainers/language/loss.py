"""The loss of one minibatch of completions: the page to check against the papers."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ablations.trainers.choices import apply
from ablations.trainers.language.completions import Special, masked_log_probs, read
from ablations.trainers.language.decoder import Decoder
from ablations.trainers.losses import (
    mean,
    ratio_metrics,
    share_that_counts,
    value_loss,
)
from ablations.trainers.products import dense_product
from ablations.trainers.trainer import Metrics, Tree, Variant


class Batch(NamedTuple):
    """P prompts with K completions of L tokens each; everything is 0 outside the mask.

    prompts: int32 [P, S]. tokens: int32 [P, K, L]. The rest float32 [P, K, L].
    mask: 1 up to and with the end token. log_prob, reference_log_prob: of the tokens, by the policy
    that wrote them and by the reference. advantage: constant to the gradient.
    old_value, target: the critic's at rollout, and what it should have been; 0 without a critic.
    """

    prompts: jax.Array
    tokens: jax.Array
    mask: jax.Array
    log_prob: jax.Array
    reference_log_prob: jax.Array
    advantage: jax.Array
    old_value: jax.Array
    target: jax.Array


def single(batch: Batch) -> Batch:
    """Return the same completions, of P·K prompts with one each."""
    samples = batch.tokens.shape[1]
    prompts = jnp.repeat(batch.prompts, samples, axis=0)
    return Batch(prompts, *(leaf.reshape(-1, 1, leaf.shape[-1]) for leaf in batch[1:]))


def values(
    critic: Tree,
    decoder: Decoder,
    special: Special,
    prompts: jax.Array,
    tokens: jax.Array,
    mask: jax.Array,
) -> jax.Array:
    """Return the critic's V [B, L] before each token of completions [B, L], 0 outside the mask."""
    features = read(decoder, critic["decoder"], prompts, special, tokens, mask)
    return dense_product(features, critic["head"][:, None])[..., 0] * mask


def language_loss(
    parameters: Tree,
    decoder: Decoder,
    special: Special,
    batch: Batch,
    key: jax.Array,
    variant: Variant,
    step_tokens: jax.Array | None = None,
) -> tuple[jax.Array, Metrics]:
    """Compute loss = policy loss + β KL loss - c_e entropy + c_v E[value loss].

    The last is over all tokens, where there is a critic, the others over tokens as
    policy_loss_reduction says.

    key: for the policy loss that draws. step_tokens: the mean number of tokens of the steps on the
        batch that these completions are part of; None: of this one alone.
    Returns the scalar loss and scalar metrics; means over tokens are over those of the mask.
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
    features = read(decoder, parameters["policy"], batch.prompts, special, tokens, mask)
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
        value = values(parameters["critic"], decoder, special, batch.prompts, tokens, mask)
        critic_loss, found = value_loss(
            value=value,
            target=batch.target.reshape(mask.shape),
            old_value=batch.old_value.reshape(mask.shape),
            variant=variant,
            mask=mask,
        )
        loss, metrics = loss + critic_loss, metrics | found
    return loss, metrics | {"loss/total": loss}
