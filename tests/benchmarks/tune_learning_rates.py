"""The learning rate of every choice in the study prompt_normalization, by one rule.

    python tests/benchmarks/tune_learning_rates.py --output rates.csv

The rule: every choice is trained with each of `RATES` on the tasks of the study's `quick` profile,
for as long as there, on seeds that no profile reports (`FIRST_SEED` and on); a choice gets the rate
with the highest mean held-out accuracy over the last tenth of training, over seeds and tasks; of
equal ones the smaller. One rate per choice, not per task: that is how they are used. The file has a
row per run, and the rates that were chosen are printed.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import replace
from pathlib import Path

from ablations.records import Plan, digest, read_curve, read_results
from ablations.request import Request
from ablations.studies import crossed, register
from ablations.studies import definition as study
from ablations.studies.prompt_normalization import CHOICES
from ablations.sweep import local
from ablations.sweep.plan import plan

STUDY = "prompt_normalization"
RATES = (1e-4, 3e-4, 1e-3)
FIRST_SEED = 1000
SEEDS = 2


def tuning_plan(choices: list[str], seeds: int) -> Plan:
    """The cells of the rule: the study's variants crossed with the rates, on seeds of their own."""
    tuned = study(STUDY)
    variants = {name: tuned.variants[name] for name in choices}
    quick = tuned.profiles["quick"]
    register(
        replace(
            tuned,
            name=f"{STUDY}_rates",
            baseline=f"{choices[0]}@learning_rate={RATES[0]}",
            variants=crossed(variants, choices[0], learning_rate=RATES),
            profiles={"quick": replace(quick, variants=None, seeds=seeds)},
        )
    )
    made = plan(Request(f"{STUDY}_rates"))
    cells = []
    for cell in made.cells:
        config = {**cell["config"], "seed": FIRST_SEED + cell["seed"]}
        cells.append({**cell, "seed": config["seed"], "config": config, "hash": digest(config)})
    return replace(made, cells=tuple(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--choices", nargs="+", default=[*CHOICES])
    asked = parser.parse_args()

    made = tuning_plan(list(asked.choices), asked.seeds)
    local.run([made], asked.results)
    rows = []
    for cell, record in read_results(asked.results, made):
        assert record is not None
        accuracy = read_curve(asked.results, record).to_pydict()["evaluation/accuracy"]
        tenth = max(1, len(accuracy) // 10)
        choice, rate = cell["variant"].split("@learning_rate=")
        failed = record.status != "done"
        final = 0.0 if failed else sum(accuracy[-tenth:]) / tenth
        rows.append((choice, cell["task"], float(rate), cell["seed"], f"{final:.4f}"))

    asked.output.parent.mkdir(parents=True, exist_ok=True)
    with asked.output.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("choice", "task", "learning_rate", "seed", "final_accuracy"))
        writer.writerows(sorted(rows))
    for choice in asked.choices:
        means = {
            rate: sum(float(row[4]) for row in rows if row[0] == choice and row[2] == rate)
            for rate in RATES
        }
        count = sum(row[0] == choice and row[2] == RATES[0] for row in rows)
        best = max(RATES, key=lambda rate: (means[rate], -rate))
        shown = ", ".join(f"{rate:g}: {total / count:.3f}" for rate, total in means.items())
        print(f"{choice}: {best:g}  ({shown})")


if __name__ == "__main__":
    main()
