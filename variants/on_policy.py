# the formulas are in Greek
"""Batches that are learned from by the very policy and critic that collected them.

One epoch of one minibatch is one gradient step per batch: π = π_old and V = V_old when it is taken.
What looks at how far they have moved cannot act there. Observations that are normalised anew before
the step are the exception: policy and critic see other inputs than when the batch was collected.
"""

from __future__ import annotations

WHERE = "with one epoch of one minibatch"


def on_policy(
    *,
    epochs: int,
    num_minibatches: int,
    observation_normalization: str,
    mean_perturbation: str = "none",
) -> bool:
    """Return whether π/π_old = 1 and V = V_old, but for rounding, at every gradient step."""
    one_step = epochs == 1 and num_minibatches == 1
    return one_step and observation_normalization != "before" and mean_perturbation == "none"
