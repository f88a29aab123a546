"""Which choices of prompt_advantage compare a sample with others of its prompt."""

from __future__ import annotations

from variants.rules import conflict

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


@conflict
def group_statistics_need_a_group(*, prompt_advantage: str, samples_per_prompt: int) -> str | None:
    if samples_per_prompt < 2 and prompt_advantage in GROUP_STATISTICS:
        return (
            f"prompt_advantage={prompt_advantage} compares the samples of a prompt, and "
            f"samples_per_prompt={samples_per_prompt} leaves nothing to compare: set "
            f"samples_per_prompt to 2 or more, or prompt_advantage=none, batch, batch_mean or "
            f"batch_samples"
        )
    return None
