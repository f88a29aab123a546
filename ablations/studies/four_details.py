"""A factorial of four details: estimator, value coefficient, value clip, advantage statistics."""

from ablations.studies.advantage_normalization import NORMALIZERS
from ablations.studies.definition import Study, Variant
from ablations.studies.profiles import claims, control

FACTORIAL = {
    f"{advantage},{coefficient:g},{clip},{scope}": Variant(
        {
            "advantage": advantage,
            "value_coefficient": coefficient,
            "value_clip": clip,
            **NORMALIZERS[scope].sets,
        },
        grid=True,
    )
    for advantage in ("standard", "brax")
    for coefficient in (0.25, 0.5)
    for clip in ("none", "pessimistic")
    for scope in ("minibatch", "batch", "per_group")
}

STUDY = Study(
    name="four_details",
    title="Four details and their interactions",
    claim=(
        "Advantage estimator, value coefficient, value clip and the scope of advantage "
        "statistics each matter by themselves, whatever the others are."
    ),
    claim_source="what ablations of one detail at a time take for granted",
    baseline="standard,0.25,none,minibatch",
    variants=FACTORIAL,
    profiles=control(quick=FACTORIAL, paper=FACTORIAL, reset_group_size=8)
    | claims(FACTORIAL, ("reacher", "inverted_double_pendulum"), reset_group_size=8),
)
