"""PPO of seven libraries, each with its defaults, with equal budgets and networks."""

from ablations.studies.definition import Study, Variant
from ablations.studies.profiles import claims, control, evidence

LIBRARIES = {
    "brax": "Brax",
    "cleanrl": "CleanRL",
    "purejaxrl": "PureJaxRL",
    "rejax": "Rejax",
    "rsl_rl": "RSL-RL",
    "sb3": "Stable-Baselines3",
    "torchrl": "TorchRL",
}
DEFAULTS = {
    name: Variant(preset=name, summary=f"{library} as it comes")
    for name, library in LIBRARIES.items()
}

LIBRARY_DEFAULTS = Study(
    name="library_defaults",
    title="Library defaults",
    claim=(
        "PPO is one algorithm, so libraries that agree on tasks, steps, environments, "
        "minibatches and networks should learn alike, whatever their defaults for the rest."
    ),
    claim_source=(
        "what comparisons of algorithms assume; doubted by Huang et al. 2022, The 37 "
        "Implementation Details of PPO"
    ),
    baseline="cleanrl",
    variants=DEFAULTS,
    profiles=control(quick=DEFAULTS, paper=DEFAULTS)
    | claims(DEFAULTS, ("reacher", "inverted_double_pendulum", "hopper"))
    | evidence(DEFAULTS, seeds=40),
    geometry="common",
)

# The runs of `ablations validate`: the baseline, and every library's preset
CANDIDATES = {"baseline": Variant({}, summary="the task's own settings"), **DEFAULTS}

EXAM = Study(
    name="exam",
    title="Validation of tasks",
    claim="A detail can only be judged on a task that the baseline learns.",
    claim_source="docs/evidence.md",
    baseline="baseline",
    variants=CANDIDATES,
    metric="evaluation/return",
    profiles=control(quick=("baseline",), paper=CANDIDATES) | evidence(CANDIDATES, seeds=5),
    geometry="common",
)
