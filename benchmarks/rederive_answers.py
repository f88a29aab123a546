"""Re-derive every published answer from the archives, without any code of this package.

    python benchmarks/rederive_answers.py

Reads results/questions.toml and results/archive, computes effect, interval and verdict of each
answer with NumPy, pandas and SciPy, and compares them with results/answers.csv. Prints the answers
that differ in a digit that is printed; exit code 1 if there is one.
"""

import functools
import itertools
import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from scipy.stats import t as student

RESULTS = Path(__file__).resolve().parents[1] / "results"
FLAGS = ("profile", "steps", "set", "vary", "base", "geometry")
MARGIN = 0.05


@functools.cache
def scores(study: str, given: str) -> tuple[dict, dict, str]:
    """Return score -> table of a study [seed, (task, variant)], what variants set, the baseline."""
    flags, plans = json.loads(given), []
    for path in sorted((RESULTS / "archive").glob(f"{study}-*.parquet")):
        plan = json.loads(pq.read_metadata(path).metadata[b"ablations"])["plan"]
        if all((plan["request"].get(f) or None) == (flags.get(f) or None) for f in FLAGS):
            plans.append((path, plan))
    tasks, sets, frames = {}, {}, []
    for path, plan in plans:
        tasks = plan["tasks"] | tasks
        sets = {name: each["sets"] for name, each in plan["variants"].items()} | sets
        table = pq.read_table(path).to_pandas()
        metric = plan["study"]["metric"]
        table = table[[plan["tasks"][task] == tasks[task] for task in table["task"]]]
        curves = [np.array(x, float) for x in table[metric]]
        curves = [curve[~np.isnan(curve)] for curve in curves]
        done = [json.loads(text)["status"] == "done" for text in table["record"].fillna("{}")]
        for score, last in (("mean", 0), ("last", 3), ("final", 1)):
            means = [c[-last:].mean() if ok else np.nan for c, ok in zip(curves, done, strict=True)]
            table[score] = means
        table["score"] = table[plan["study"].get("score") or "final"]
        columns = ["task", "variant", "seed", "score", "mean"]
        frames.append(table[columns].astype({"seed": int}))
    if not frames:
        return {}, {}, ""
    runs = pd.concat(frames).drop_duplicates(["task", "variant", "seed"])
    runs = runs[runs["seed"] < 1000]
    tables = {s: runs.pivot_table(s, "seed", ["task", "variant"]) for s in ("score", "mean")}
    return tables, sets, plans[0][1]["study"]["baseline"]


def interval(center: float, error: float, freedom: float, level: float) -> tuple:
    reach = student.isf(level / 2, freedom) * error
    return center, center - reach, center + reach


def single(y: np.ndarray, x: np.ndarray, every: np.ndarray) -> tuple:
    """Pairs (y, x); the baseline's other seeds adjust the difference by regression (Cochran)."""
    n, pairs = len(y), y - x
    if n < 8 or len(every) <= n:
        return pairs.mean(), pairs.std(ddof=1) / n**0.5, n - 1
    off, gap = x - x.mean(), every.mean() - x.mean()
    slope = off @ y / (off @ off)
    left = y - y.mean() - slope * off
    own = left @ left / (n - 2) * (1 / n + gap**2 / (off @ off))
    shared = (slope - 1) ** 2 * every.var(ddof=1) / len(every)
    freedom = (own + shared) ** 2 / (own**2 / (n - 2) + shared**2 / (len(every) - 1))
    center = y.mean() + slope * gap - every.mean()
    return center, (own + shared) ** 0.5, freedom


def combined(tasks: list) -> tuple:
    """Mean of independent (center, error, degrees of freedom), one per task."""
    centers, errors, freedoms = np.array(tasks).T
    total = (errors**2).sum()
    freedom = total**2 / (errors**4 / freedoms).sum()
    return centers.mean(), total**0.5 / len(tasks), freedom


def fraction(y: np.ndarray, design: np.ndarray, factor: int, level: float) -> tuple:
    """Main effect of a column of a design [settings, factors] of signs; y [seeds, settings]."""
    n, settings = y.shape
    products = [a * b for a, b in itertools.combinations(design.T, 2)]
    model = np.column_stack([np.ones(settings), design, *products])
    basis, sizes, _ = np.linalg.svd(model, full_matrices=False)
    basis, means = basis[:, sizes > 1e-6], y.mean(axis=0)
    weights, errors = 2 * design[:, factor] / settings, []
    if n > 1:
        own = y - y.mean(axis=1, keepdims=True) - means + means.mean()
        each = (own**2).sum(axis=0) / (n - 1)
        freedom = (n + 1) * each.sum() ** 2 / (each**2).sum()
        freedom = min(max(freedom, n - 1.0), (n - 1) * (settings - 1))
        errors.append((each.sum() / (settings - 1) / n, freedom))
    if (unused := settings - basis.shape[1]) >= 5:
        left = means - basis @ (basis.T @ means)
        errors.append((left @ left / unused, unused))
    variance, freedom = max(errors)
    spread = (y @ weights).var(ddof=1) / n if n > 1 else 0.0
    error = max(spread, variance * (weights @ weights)) ** 0.5
    return interval(weights @ means, error, freedom, level)


def answer(question: dict, tasks: dict) -> tuple:
    """Return share, low, high and verdict."""
    tables, sets, baseline = scores(question["study"], json.dumps(question["run"]))
    factor = question.get("factor", "").split(", ")[0]
    names = list(sets) if factor else [question["variant"], question["versus"]]
    chosen = {}
    for name in question["tasks"] if tables else ():
        task, about = tasks[name].get("runs", name), tasks[name].get("validation")
        table = tables["mean" if tasks[name].get("score") == "mean" else "score"]
        if not about or about["lead"] < 5 or about["ceiling"] > 20:
            continue
        if {(task, each) for each in names} <= set(table.columns):
            top, end = about["score"], (task, question.get("range_of") or baseline)
            if not factor and end in table:
                top = table[end].mean()
            chosen[name] = table[task][names] / (top - about["floor"])
    seeds = {name: set(frame.dropna().index) for name, frame in chosen.items()}
    kept = [n for n in chosen if len(seeds[n]) > 1] or [n for n in chosen if seeds[n]]
    if not kept:
        return (np.nan,) * 3, ""
    columns = {}  # settings with the same signs are one factor
    for key in dict.fromkeys(key for each in sets.values() for key in each):
        signs = tuple(1 if key in each else -1 for each in sets.values())
        columns.setdefault(signs, []).append(key)

    def effect(of: list, level: float) -> tuple:
        common = sorted(set.intersection(*(seeds[name] for name in of)))
        every = np.mean([chosen[name].loc[common] for name in of], axis=0)
        if factor:
            number = next(i for i, keys in enumerate(columns.values()) if factor in keys)
            return fraction(every, np.array(list(columns)).T, number, level / len(columns))
        groups = [of] if all(seeds[name] == set(common) for name in of) else [[n] for n in of]
        parts = []
        for group in groups:
            own = sorted(set.intersection(*(seeds[name] for name in group)))
            pairs = np.mean([chosen[name].loc[own] for name in group], axis=0)
            base = pd.concat([chosen[name].iloc[:, 1] for name in group], axis=1).dropna()
            parts.append(single(pairs[:, 0], pairs[:, 1], base.mean(axis=1).to_numpy()))
        return interval(*combined(parts), level)

    center, low, high = effect(kept, 0.05)
    if question.get("reverse"):
        center, low, high = -center, -high, -low
    alone = [effect([name], 0.05 / len(kept)) for name in kept]
    if any(a[1] > 0 for a in alone) and any(a[2] < 0 for a in alone):
        return (center, low, high), "inconclusive"
    if low > -MARGIN and high < MARGIN:
        return (center, low, high), "equivalent"
    word = "better" if low > 0 else "worse" if high < 0 else "inconclusive"
    return (center, low, high), word


def main() -> int:
    content = tomllib.loads((RESULTS / "questions.toml").read_text())
    tasks = {task["name"]: task for task in content["task"]}
    comparisons = [each for detail in content["detail"] for each in detail["comparison"]]
    published, wrong = pd.read_csv(RESULTS / "answers.csv").set_index("id"), 0
    for question in comparisons:
        ours, verdict = answer(question, tasks)
        row = published.loc[question["id"]]
        theirs = row[["share", "share_low", "share_high"]].to_numpy(float)
        same = np.allclose(ours, theirs, atol=5e-4, equal_nan=True)
        if not same or verdict != (row["verdict"] if isinstance(row["verdict"], str) else ""):
            wrong += 1
            print(question["id"], verdict, *ours, "published:", row["verdict"], *theirs)
    print(f"{len(published) - wrong} of {len(published)} answers re-derived")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
