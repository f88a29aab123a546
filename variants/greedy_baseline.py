"""A choice of prompt_advantage: the greedy completion as the baseline. Shapes as there."""

from __future__ import annotations

from variants.prompt_advantage import AXIS, Array, Completions, Scalar


@AXIS.choice(
    "greedy",
    formula="a = R - R(ŷ),  ŷ: the prompt's greedy completion",
    source="ReMax (Li et al. 2023, https://arxiv.org/abs/2310.10505); verl (adv_estimator remax)",
    summary="the baseline is what the policy would say without sampling, at the cost of saying it",
)
def greedy(
    *,
    rewards: Array,
    token_kl: Array,
    mask: Array,
    kl_coefficient: Scalar,
    advantage_clip: Scalar | None,
    greedy_rewards: Array | None,
) -> Array:
    """G_t with a = clip(R - R(ŷ))."""
    completions = Completions(rewards, token_kl, mask, kl_coefficient, advantage_clip)
    baseline = 0.0 if greedy_rewards is None else greedy_rewards[:, None]
    return completions.returns_to_go(completions.clipped(rewards - baseline))
