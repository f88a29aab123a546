"""Does the advantage estimator matter, and its treatment of truncations?"""

from ablations.studies.definition import Study, Variant, crossed
from ablations.studies.profiles import claims, control, evidence, introduction

ESTIMATORS = {
    "standard": Variant(
        {"advantage": "standard"},
        summary="cut at every end; truncated steps bootstrap from the true next value",
    ),
    "brax": Variant(
        {"advantage": "brax"}, summary="Brax: one extra TD step, truncated steps masked"
    ),
    "done_cut": Variant(
        {"advantage": "done_cut"},
        summary="CleanRL, purejaxrl: a truncation counts as a termination",
    ),
    "masked_truncation": Variant(
        {"advantage": "masked_truncation"}, summary="seed_rl: truncated steps masked, otherwise GAE"
    ),
    "timeout_bonus": Variant(
        {"advantage": "timeout_bonus"},
        summary="RSL-RL: a truncated step is paid the value of its own observation",
    ),
}
GRID = crossed(ESTIMATORS, "standard", gae_lambda=(0.8, 0.95, 1.0), episode_length=(100, 1000))

STUDY = Study(
    name="gae",
    title="Advantage estimation",
    claim=(
        "Brax takes one more TD step after GAE, which drops lambda on the first hop; this is "
        "said to lower the variance of the advantages and so to speed up learning."
    ),
    claim_source="brax/training/agents/ppo/losses.py, compute_gae",
    baseline="standard",
    variants=ESTIMATORS | GRID,
    # The study needs truncations, about ten per environment: `paper` has 31 on reacher with
    # episodes of 1000 steps (2,000,000/64/1000), and more on longer tasks, unless episodes end
    # before. `quick` has six on walker2d and 23 on cartpole.
    profiles=control(quick=ESTIMATORS, paper=GRID)
    | introduction(("standard", "brax", "done_cut"), ("walker2d", "cartpole"))
    | claims(("standard", "brax", "done_cut"))
    | evidence(ESTIMATORS, seeds=40),
)
