"""Order in which each epoch takes the units of a batch: a loop axis.

p_e is a new permutation for epoch e; o_e is the order of the units.
"""

from variants.registry import Axis
from variants.rules import inert_where

AXIS = Axis(
    "minibatch_order", summary="which permutation cuts a batch into minibatches at each epoch"
)

AXIS.declare(
    "redrawn",
    formula="o_e = p_e",
    source="Brax, Stable-Baselines3, PureJaxRL, Rejax, TorchRL",
    summary="a new permutation for every epoch",
)
AXIS.declare(
    "reused",
    formula="o_e = p_1",
    source="RSL-RL (rsl_rl/storage/rollout_storage.py)",
    summary="one permutation per batch: every epoch has the same minibatches in the same order",
)
AXIS.declare(
    "shuffled_on",
    formula="o_e = o_(e-1)[p_e],  o_0 = 0, 1, 2, ...",
    source="CleanRL (np.random.shuffle of one index array, in place)",
    summary="each epoch shuffles the order of the one before: the same in distribution as redrawn",
)
AXIS.declare(
    "kept",
    formula="o_e = 0, 1, 2, ...",
    source="verl (actor.shuffle false, its default); OpenRLHF with train.dynamic_batch_enable",
    summary="nothing is shuffled: every epoch takes the batch in the order it was collected in",
)


@inert_where(
    "redrawn, reused and shuffled_on have the same first epoch, and epochs=1", "minibatch_order"
)
def one_epoch_has_one_order(*, minibatch_order: str, epochs: int) -> bool:
    return epochs == 1 and minibatch_order != "kept"
