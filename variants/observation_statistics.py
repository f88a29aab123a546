# ruff: noqa: RUF001  # the formulas are in Greek
"""Which observations the running statistics contain, and when they enter: a structural loop axis.

Sets are merged as by Chan, Golub and LeVeque (1979), see `variants.shapes`. "Per step": each step's
N observations enter before the policy gets them, and the batch stores them as normalised then. Per
step, the statistics start from 10⁻⁴ observations of mean 0 and variance 1.
"""

from variants.registry import Axis, Number
from variants.rules import conflict_where, inert_where

PER_BATCH = "per_batch"

AXIS = Axis(
    "observation_statistics",
    summary="which observations the running statistics hold, and when they take them in",
    structural=True,
)

AXIS.declare(
    PER_BATCH,
    formula="T·N observations at a time, those that the policy acted on",
    source="Brax (brax/training/agents/ppo/train.py), RSL-RL",
    summary="updated once per batch; observation_normalization says when",
)
AXIS.declare(
    "per_step",
    formula="N observations at a time, from the first reset on; those after a reset for final ones",
    source="Stable-Baselines3 (VecNormalize), PureJaxRL (NormalizeVecObservation)",
    summary="each observation is normalised with statistics that just took it in",
)
AXIS.declare(
    "per_step_after_first",
    formula="per_step without the very first observation, which is seen as it is",
    source="Rejax (rejax/algos/mixins.py)",
    summary="per_step, from the first step of training on",
)
AXIS.declare(
    "per_environment",
    formula="μ[n], σ[n] of each environment alone, its final observations included",
    source="CleanRL through Gymnasium's NormalizeObservation, one wrapper for each environment",
    summary="per_step, with separate statistics for each environment",
)
AXIS.declare(
    "per_step_forgetting",
    formula=(
        "n = βn⁻ + k,  S = βS⁻ + Σo,  Q = βQ⁻ + Σo²,  all from 0, with k observations at a time\n"
        "μ = S/n,  σ² = Q/n - μ²;  β = 1 - observation_forgetting"
    ),
    source=(
        "TorchRL's MuJoCo recipe (torchrl/envs/transforms/_normalization.py, VecNorm), β = 0.99999"
    ),
    summary="per_step, final observations included; the older an observation, the less it weighs",
    revision=2,
    numbers={
        "observation_forgetting": Number(
            1e-5, 1e-9, 0.5, "1 - β of observation_statistics=per_step_forgetting"
        )
    },
)


@conflict_where(
    "observation_statistics={observation_statistics} stores observations as they were "
    "normalised when the policy saw them, and observation_normalization=before normalises the "
    "batch again: set observation_normalization=after"
)
def what_was_normalised_is_kept(
    *, observation_statistics: str, observation_normalization: str
) -> bool:
    return observation_statistics != PER_BATCH and observation_normalization == "before"


@inert_where(
    "observation_normalization=none normalises nothing",
    "observation_statistics",
    "observation_scaling",
)
def nothing_is_normalised(*, observation_normalization: str) -> bool:
    return observation_normalization == "none"
