"""Does Q-learning without a replay buffer need layer normalisation, or a target network?"""

from ablations.studies.definition import Study, Variant
from ablations.studies.profiles import few_actions

PLAIN = {"network_normalization": "none"}
DETAILS = {
    "baseline": Variant({}, summary="LayerNorm, no target network, the task's lambda"),
    "no_layer_norm": Variant(PLAIN, summary="hidden layers as they are"),
    "hard_target": Variant({"q_target": "hard"}, summary="a copy every 16 iterations"),
    "polyak_target": Variant({"q_target": "polyak"}, summary="a copy that follows by a tenth"),
    "hard_target_no_layer_norm": Variant(
        {**PLAIN, "q_target": "hard"},
        versus="no_layer_norm",
        summary="a copy every 16 iterations, hidden layers as they are",
    ),
    "lambda_0": Variant({"q_lambda": 0.0}, summary="one reward, then the maximum"),
    "lambda_1": Variant({"q_lambda": 1.0}, summary="all rewards of a rollout"),
    "watkins": Variant({"q_return": "watkins"}, summary="rewards up to the next random action"),
    "purejaxql_return": Variant(
        {"q_return": "purejaxql"}, summary="as its authors' code adds rewards up"
    ),
    "rejax_return": Variant({"q_return": "rejax"}, summary="as Rejax adds rewards up"),
    "time_limit_terminal": Variant(
        {"q_truncation": "terminal"}, summary="a time limit is an end like any other"
    ),
    "adam": Variant({"optimizer": "adam"}, summary="Adam instead of RAdam"),
}
QUICK = tuple(name for name in DETAILS if name not in ("adam", "rejax_return"))

STUDY = Study(
    name="q_learning",
    title="Q-learning without a replay buffer",
    claim=(
        "With LayerNorm, Q-learning on parallel environments needs neither a target network "
        "nor a replay buffer; lambda between 0 and 1 is best."
    ),
    claim_source="Gallici et al. 2025, Simplifying Deep Temporal Difference Learning",
    baseline="baseline",
    variants=DETAILS,
    metric="evaluation/return",
    trainer="pqn",
    profiles=few_actions(quick=QUICK, paper=DETAILS),
)
