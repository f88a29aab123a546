"""Choices of prompt_advantage that compare a sample with others of its prompt."""

from __future__ import annotations

from variants.rules import conflict_where

GROUP_STATISTICS = frozenset(
    {
        "per_prompt",
        "per_prompt_baseline_batch",
        "per_prompt_baseline_batch_mean",
        "per_prompt_baseline_batch_samples",
        "leave_one_out",
        "per_prompt_mean",
        "per_prompt_mean_batch_std",
        "per_prompt_mean_batch_std_whitened",
    }
)


@conflict_where(
    "prompt_advantage={prompt_advantage} compares the samples of a prompt, and "
    "samples_per_prompt={samples_per_prompt} leaves nothing to compare: set "
    "samples_per_prompt to 2 or more, or prompt_advantage=none, batch, batch_mean or "
    "batch_samples"
)
def group_statistics_need_a_group(*, prompt_advantage: str, samples_per_prompt: int) -> bool:
    return samples_per_prompt < 2 and prompt_advantage in GROUP_STATISTICS
