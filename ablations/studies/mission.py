"""The four questions the suite was built for, on Brax's locomotion tasks."""

from dataclasses import replace

from ablations.studies.definition import Study, Variant
from ablations.studies.profiles import control, evidence
from ablations.studies.value_clipping import RETURN_STD

CHOICES = {
    "baseline": Variant(
        {}, summary="GAE, value coefficient 0.25, no value clip, minibatch statistics"
    ),
    "brax_gae": Variant({"advantage": "brax"}, summary="Brax's GAE: one extra TD step"),
    "batch_statistics": Variant(
        {"advantage_scope": "batch"}, summary="advantages standardised over the whole batch"
    ),
    "return_scaling": Variant(
        RETURN_STD, summary="rewards divided by the running std of their return, as CleanRL does"
    ),
    "value_clip": Variant(
        {"value_clip": "pessimistic", **RETURN_STD},
        versus="return_scaling",
        summary="the value loss clipped at 0.2 standard deviations of the return",
    ),
    "shared_0.25": Variant({"torso": "shared"}, summary="one torso for policy and critic"),
    "shared_0.5": Variant(
        {"torso": "shared", "value_coefficient": 0.5},
        versus="shared_0.25",
        summary="twice the value coefficient, where the torso is shared",
    ),
}
# A block is one range of seeds of the variants, and the range that the baseline has beside it.
# The seeds from 500 on replicate those from 100 on.
BLOCKS = (
    (range(100, 113), range(200, 213)),
    (range(113, 126), range(213, 226)),
    (range(500, 513), range(600, 613)),
    (range(513, 526), range(613, 626)),
)
SEEDS = tuple(seed for seeds, _ in BLOCKS for seed in seeds)
BASELINE_SEEDS = tuple(sorted(seed for block in BLOCKS for seeds in block for seed in seeds))
# The score is the mean of all evaluations, which measures learning over the whole run. The
# co-endpoint is the mean of the last three (`--score last`).
EVIDENCE = replace(
    evidence(CHOICES, seeds=len(SEEDS))["evidence"],
    seeds=SEEDS,
    baseline_seeds=BASELINE_SEEDS,
    evaluations=20,
    evaluation_envs=16,
    score="mean",
)

STUDY = Study(
    name="mission",
    title="Four details of PPO on Brax's locomotion tasks",
    claim=(
        "Brax's extra TD step after GAE, the coefficient of the value loss where a torso is "
        "shared, clipping of the value loss, and the scope of advantage statistics change how "
        "well PPO learns."
    ),
    claim_source="Brax, CleanRL, Stable-Baselines3, RSL-RL and TorchRL disagree in all four",
    baseline="baseline",
    variants=CHOICES,
    metric="evaluation/return",
    profiles=control(quick=CHOICES, paper=CHOICES) | {"evidence": EVIDENCE},
)
