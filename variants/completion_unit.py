"""Unit that stays together when completions are cut into minibatches: a structural loop axis.

A batch has P prompts with K completions each, and m minibatches. A minibatch of single completions
has other shapes than a minibatch of whole prompts.
"""

from variants.registry import Axis
from variants.rules import conflict_where

AXIS = Axis(
    "completion_unit",
    summary="what stays together when a batch of completions is cut into minibatches",
    structural=True,
)

AXIS.declare(
    "prompts",
    formula="P/m of the P prompts, all K completions of each",
    source="verl (ppo_mini_batch_size counts prompts)",
    summary="the completions of a prompt are learned from in one step",
)
AXIS.declare(
    "samples",
    formula="P·K/m of the P·K completions",
    source="TRL (shuffle_sequence_dict), OpenRLHF (a DataLoader over its replay buffer)",
    summary="single completions: the completions of one prompt are spread over the steps",
)


@conflict_where(
    "prompts={prompts} is not divisible by num_minibatches={num_minibatches}: change one of "
    "them, or set completion_unit=samples"
)
def prompts_are_cut_into_equal_parts(
    *, completion_unit: str, prompts: int, num_minibatches: int
) -> bool:
    return completion_unit == "prompts" and prompts % num_minibatches > 0


@conflict_where(
    "prompts={prompts} times samples_per_prompt={samples_per_prompt} is not divisible by "
    "num_minibatches={num_minibatches}: change one of them"
)
def samples_are_cut_into_equal_parts(
    *, completion_unit: str, prompts: int, samples_per_prompt: int, num_minibatches: int
) -> bool:
    return completion_unit == "samples" and prompts * samples_per_prompt % num_minibatches > 0
