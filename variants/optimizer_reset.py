"""Reset of Adam at each batch: a structural loop axis.

m, v and t are Adam's moments and step count, as in `optimizer`. Each rollout makes a new batch with
a new loss.
"""

from variants.registry import Axis

AXIS = Axis("optimizer_reset", summary="whether Adam is reset at each batch", structural=True)

AXIS.declare(
    "none",
    formula="m, v and t go on",
    source="every library's default",
    summary="Adam's state lasts for the whole training",
)
AXIS.declare(
    "batch",
    formula="t = 0 before the first step on a batch; m and v go on",
    source="Adam-Rel (Ellis et al. 2024, arXiv 2412.17113)",
    summary="restarts the step count: the first steps on a batch are smaller",
)
AXIS.declare(
    "batch_moments",
    formula="m = 0, v = 0 and t = 0 before the first step on a batch",
    source="Adam-MR (Asadi et al. 2023, arXiv 2306.17833; compared with in 2412.17113)",
    summary="Adam forgets at each batch all that it knew",
)
