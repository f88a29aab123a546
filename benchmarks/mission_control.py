"""Controls of the published answers: a bug that must be found, a float order that must not be.

    ablations run mission_control --plugin benchmarks.mission_control --profile evidence
    python benchmarks/mission_control.py        # validation and controls of what is archived

As a plugin this module registers three choices of components and four studies: `mission_control`,
and `discrete_control`, `playground_control` and `language_control`, which have a bug only. As a
script it reads results/archive and prints, for each task of `mission` that has runs:

- whether the task passes validation: the baseline on seeds that no answer uses against the better
  untrained policy, in standard deviations between seeds, and the share of seeds at a ceiling;
- three controls, each as a difference in % of what the baseline learned, with a 95% interval: the
  bug, the other float order, and the second half of the baseline's seeds against the first.

It reads no variant of `mission` but the baseline.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from scipy import stats

import variants
from ablations.studies import Study, Variant, register, study
from ablations.studies.mission import BASELINE_SEEDS, CHOICES, EVIDENCE
from variants import prompt_advantage
from variants.advantage import AXIS, Steps, standard, temporal_difference
from variants.prompt_advantage import Completions

Array = jax.Array
ARCHIVES = Path(__file__).resolve().parents[1] / "results" / "archive"
VALIDATION = range(1020, 1040)
# Task -> the share that costs about 20% of what the baseline learned, chosen on seeds 1000 to 1019,
# which no answer uses, by `--vary shifted_share=0.5,0.75`. On walker2d, eight seeds lost 4%, 3% and
# 19% at 0.8, 0.85 and 0.9. On halfcheetah, eight seeds lost 20%, 26%, 63% and 85% at 0.4, 0.5, 0.75
# and 0.9. On cartpole, eight seeds lost 2%, 7%, 12% and 24% at 0.25, 0.5, 0.75 and 1. On acrobot,
# twenty seeds lost 6%, 17%, 24% and 37% there. On DM-Control, eight seeds lost 24%, 45% and 66%
# (cartpole_swingup), and 32%, 65% and 87% (reacher_easy), at 0.5, 0.75 and 1. On arithmetic, where
# it is the share of prompts, eight seeds lost 13%, 86% and 317% at 0.25, 0.5, 1.
SHARES = {
    **{"walker2d": 0.9, "halfcheetah": 0.4, "cartpole": 1.0, "acrobot": 0.5},
    **{"cartpole_swingup": 0.5, "reacher_easy": 0.5},
}
SHIFTED_PROMPTS = 0.25
CEILING = 0.005  # of the highest score, which two runs or more reach


@AXIS.choice(
    "shifted",
    formula="A[t+1] for A[t] in a share of the environments; the rest as standard",
    source="a mistake made on purpose: an index that is off by one",
    summary="some environments are credited with the advantage of their next step",
    numbers={"shifted_share": variants.Number(0.5, 0.0, 1.0, "share of the environments")},
)
def shifted(
    *,
    rewards: Array,
    values: Array,
    next_values: Array,
    termination: Array,
    truncation: Array,
    discount: Array | float,
    gae_lambda: Array | float,
    shifted_share: Array | float,
) -> tuple[Array, Array]:
    """Return what `standard` does, with advantages of the next step in some environments."""
    advantages, targets = standard(
        Steps(rewards, values, next_values, termination, truncation, discount, gae_lambda)
    )
    following = jnp.concatenate([advantages[1:], advantages[-1:]])
    environments = advantages.shape[1]
    wrong = jnp.arange(environments) < shifted_share * environments
    return jnp.where(wrong, following, advantages), targets


@AXIS.choice(
    "associative_scan",
    formula="standard",
    source="jax.lax.associative_scan; Blelloch 1990",
    summary="the same GAE, whose sums are taken in another order",
)
def associative_scan(
    *,
    rewards: Array,
    values: Array,
    next_values: Array,
    termination: Array,
    truncation: Array,
    discount: Array | float,
    gae_lambda: Array | float,
) -> tuple[Array, Array]:
    """Return what `standard` does, by a parallel scan instead of a sequential one."""
    steps = Steps(rewards, values, next_values, termination, truncation, discount, gae_lambda)
    deltas = temporal_difference(steps, next_values)
    decay = discount * gae_lambda * (1 - termination) * (1 - truncation)

    def combine(later: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[Array, Array]:
        return later[0] * now[0], now[1] + now[0] * later[1]

    _, advantages = jax.lax.associative_scan(combine, (decay, deltas), reverse=True)
    return advantages, advantages + values


@prompt_advantage.AXIS.choice(
    "shifted",
    pack=Completions,
    formula="R[k+1] for R[k] in a share of the prompts; the rest as per_prompt",
    source="a mistake made on purpose: an index that is off by one",
    summary="some prompts credit each sample with the reward of the next one",
    numbers={"shifted_prompts": variants.Number(0.5, 0.0, 1.0, "share of the prompts")},
)
def shifted_rewards(
    completions: Completions,
    *,
    ddof: Array | float | None,
    epsilon: Array | float | None,
    shifted_prompts: Array | float,
) -> Array:
    rewards = completions.rewards
    wrong = jnp.arange(len(rewards))[:, None] < shifted_prompts * len(rewards)
    shifted = jnp.where(wrong, jnp.roll(rewards, -1, axis=1), rewards)
    return prompt_advantage.per_prompt(
        completions._replace(rewards=shifted), ddof=ddof, epsilon=epsilon, prompt_epsilon=1e-9
    )


BUG = Variant(
    {"advantage": "shifted"},
    tuned={task: {"shifted_share": share} for task, share in SHARES.items()},
    summary="advantages of the next step in some environments",
)
register(
    Study(
        name="mission_control",
        title="Controls of the mission's comparisons",
        claim="A bug that costs about a fifth is found; another order of float sums is not.",
        claim_source="a test of the comparisons themselves",
        baseline="baseline",
        variants={
            "baseline": CHOICES["baseline"],
            "bug": BUG,
            "float_order": Variant(
                {"advantage": "associative_scan"}, summary="the same sums in another order"
            ),
        },
        margin=0.05,
        metric="evaluation/return",
        profiles={
            name: replace(EVIDENCE, variants=None, **changes)
            for name, changes in {
                "quick": {"tasks": ("walker2d",), "seeds": 5, "baseline_seeds": None},
                "evidence": {"baseline_seeds": None},
            }.items()
        },
    )
)


def _register_bug(
    name: str, of: str, baseline: str, seeds: tuple[int, ...], bug: Variant = BUG
) -> None:
    """Register a study of the bug alone, with tasks and settings of the study `of`."""
    judged = study(of)
    evidence = replace(judged.profiles["evidence"], variants=None, seeds=seeds)
    register(
        replace(
            judged,
            name=name,
            title=f"The bug, at the settings of {of}",
            claim="A bug that costs about a fifth is found.",
            claim_source="a test of the comparisons themselves",
            baseline="baseline",
            variants={"baseline": judged.variants[baseline], "bug": bug},
            profiles={"evidence": evidence},
        )
    )


_register_bug(
    "discrete_control", "single_choices_discrete", "bootstrapped", (*range(40), *range(500, 540))
)
_register_bug("playground_control", "single_choices_playground", "baseline", (*range(40),))
_register_bug(
    "language_control",
    "loss_details",
    "grpo",
    (*range(20),),
    Variant({"prompt_advantage": "shifted", "shifted_prompts": SHIFTED_PROMPTS}),
)


def scores() -> pd.DataFrame:
    """Return the archived runs that this page may read: task, variant, seed, score.

    score: the mean of all evaluations. task: its name and settings, as JSON.
    """
    frames = []
    for name in ("mission", "mission_control", "trivial_policies"):
        for path in sorted(ARCHIVES.glob(f"{name}-*.parquet")):
            table = pq.read_table(path).to_pandas()
            if "evaluation/return" in table:
                frames.append(table[table["record"].notna()])
    frame = pd.concat(frames, ignore_index=True)
    kept = ("baseline", "bug", "float_order", "zero", "uniform")
    frame = frame[frame["variant"].isin(kept)].drop_duplicates("hash")
    frame["score"] = frame["evaluation/return"].map(lambda x: np.nanmean(np.array(x, float)))
    frame["settings"] = frame["config"].map(
        lambda text: json.dumps(json.loads(text)["task"], sort_keys=True)
    )
    return frame[["task", "settings", "variant", "seed", "score"]]


def of_task(frame: pd.DataFrame) -> list[str]:
    """Return the lines of one task. frame: its runs, of the same settings."""
    by = {name: part.set_index("seed")["score"] for name, part in frame.groupby("variant")}
    floor = max(by["zero"].mean(), by["uniform"].mean())
    baseline = by["baseline"]
    lines = []
    held = baseline[baseline.index.isin(VALIDATION)]
    if len(held):
        lead = (held.mean() - floor) / held.std()
        top = (held >= held.max() - CEILING * abs(held.max())).sum()
        ceiling = top / len(held) if top > 1 else 0.0
        word = "passes" if lead >= 5 and ceiling <= 0.2 and len(held) == 20 else "does not pass"
        lines.append(
            f"validation: {word}; {len(held)} seeds, mean {held.mean():.1f}, standard deviation "
            f"{held.std():.1f}, untrained {floor:.1f}, {lead:.1f} standard deviations above it, "
            f"{ceiling:.0%} at a ceiling"
        )
    answering = baseline[baseline.index.isin(BASELINE_SEEDS)]
    learned = answering.mean() - floor
    for name in ("bug", "float_order"):
        if name in by:
            pairs = (by[name] - answering).dropna()
            lines.append(
                _line(name, stats.ttest_1samp(pairs, 0), pairs.mean(), learned, len(pairs))
            )
    first, second = answering[answering.index < 500], answering[answering.index >= 500]
    if min(len(first), len(second)) > 1:
        test = stats.ttest_ind(second, first, equal_var=False)
        halves = f"{len(first)} and {len(second)}"
        lines.append(_line("halves", test, second.mean() - first.mean(), learned, halves))
    return lines


def _line(name: str, test: object, difference: float, learned: float, seeds: object) -> str:
    low, high = test.confidence_interval(0.95)
    return (
        f"{name}: {100 * difference / learned:+.1f}% [{100 * low / learned:.1f}, "
        f"{100 * high / learned:.1f}], {seeds} seeds"
    )


if __name__ == "__main__":
    for (task, _), runs in scores().groupby(["task", "settings"]):
        if {"baseline", "zero", "uniform"} <= set(runs["variant"]):
            print(task, *of_task(runs), sep="\n  ")
