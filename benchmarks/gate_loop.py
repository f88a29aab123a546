"""An agent's loop of 20 candidates, of which 18 do nothing, run for real by four rules.

    python benchmarks/gate_loop.py [--nights 4]

writes results/reference/gate_loop.md. The trainer is REINFORCE on a bandit, a process a run. A
candidate that does nothing draws other random numbers, as an edit of real code does; the 7th and
the 14th raise the learning rate by 40%, worth about two standard deviations of a run. The loops:

- the ledger: `gate --ledger`, budget 5% over 20 candidates
- gate alone: `gate --require better` against the best so far, 5% for each candidate
- the rule of rigor.py (github.com/trevin-creator/autoresearch-mlx, commit c59286c): 3 runs; out if
  the first is no better than the best's mean, kept if a bootstrap of both means has 95% for better
- better mean of 3 seeds

Each accepts into a best of its own, whose arguments the next candidate builds on.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ablations.cli import main as ablations

OUT = Path(__file__).parents[1] / "results" / "reference" / "gate_loop.md"
CANDIDATES, HELPFUL, RAISE = 20, (7, 14), 1.4
TRAINER = """\
import argparse
import random
from math import exp

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--edit", default="")
options = parser.parse_args()
rng = random.Random(f"{options.seed} {options.edit}")
logits, total = [0.0] * 3, 0.0
for _ in range(300):
    chances = [exp(x) for x in logits]
    arm = rng.choices(range(3), chances)[0]
    reward = (0.0, 0.5, 1.0)[arm] + rng.gauss(0, 0.3)
    total += reward / 300
    for other in range(3):
        share = chances[other] / sum(chances)
        logits[other] += options.lr * (reward - 0.5) * ((other == arm) - share)
print("score:", total)
"""


@dataclass
class Loop:
    """What a rule accepted on one night. runs: processes that trained."""

    false: int = 0
    found: int = 0
    runs: int = 0


Judge = Callable[[list[str], list[str]], tuple[bool, int]]  # candidate, best -> accepted, runs


def arguments(lr: float, edit: str) -> list[str]:
    return ["--lr", f"{lr:g}", *(["--edit", edit] if edit else [])]


def train(seed: int, words: list[str]) -> float:
    """One run, as an agent would start it."""
    command = [sys.executable, "-S", "-E", "bandit.py", "--seed", str(seed), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def gate(*words: str) -> dict[str, object]:
    """The verdict of `ablations gate --json`."""
    said = io.StringIO()
    with redirect_stdout(said):
        ablations(["gate", "--json", "--metric", "score", *words])
    text = said.getvalue()
    return json.loads(text[text.index("{") :]) if "{" in text else {}


def loop(night: int, judge: Judge) -> Loop:
    """Play one night of candidates."""
    count, lr, edit = Loop(), 0.05, f"n{night}"
    best = arguments(lr, edit)
    for number in range(1, CANDIDATES + 1):
        helps = number in HELPFUL
        words = arguments(lr * (RAISE if helps else 1), f"n{night}c{number}")
        accepted, runs = judge(words, best)
        count.runs += runs
        if accepted:
            count.found += helps
            count.false += not helps
            best, lr = words, lr * (RAISE if helps else 1)
    return count


COMMAND = ["--", sys.executable, "-S", "-E", "bandit.py", "--seed", "{seed}"]


def cells() -> int:
    return sum(1 for _ in Path("results/cells").glob("*")) if Path("results").is_dir() else 0


def by_ledger(words: list[str], best: list[str]) -> tuple[bool, int]:
    before = cells()
    if not Path("night.jsonl").exists():
        terms = ["--ledger", "night.jsonl", "--margin", "0.03", "--candidates", str(CANDIDATES)]
        gate(*terms, *COMMAND, *best)
    told = gate("--ledger", "night.jsonl", *COMMAND, *words)
    return bool(told["accepted"]), cells() - before


def by_gate(words: list[str], best: list[str]) -> tuple[bool, int]:
    before = cells()
    fixed = ["--margin", "0.03", "--require", "better"]
    # What the baseline has more comes last, and the last of two arguments counts.
    told = gate(*fixed, f"--against={' '.join(best)}", *COMMAND, *words)
    return told["verdict"] == "better", cells() - before


class Rigor:
    """The rule of rigor.py."""

    def __init__(self) -> None:
        self.best: list[float] = []

    def __call__(self, words: list[str], best: list[str]) -> tuple[bool, int]:
        runs = 0
        if not self.best:
            self.best, runs = [train(seed, best) for seed in range(3)], 3
        first = train(0, words)
        if first <= np.mean(self.best):
            return False, runs + 1
        ours = [first, train(1, words), train(2, words)]
        rng = np.random.default_rng(1234)
        means = [rng.choice(side, (20_000, 3)).mean(axis=1) for side in (ours, self.best)]
        keep = bool((means[0] > means[1]).mean() >= 0.95)
        self.best = ours if keep else self.best
        return keep, runs + 3


class Means:
    """The better mean of three seeds."""

    def __init__(self) -> None:
        self.best: float | None = None

    def __call__(self, words: list[str], best: list[str]) -> tuple[bool, int]:
        runs = 3
        if self.best is None:
            self.best, runs = float(np.mean([train(seed, best) for seed in range(3)])), 6
        mean = float(np.mean([train(seed, words) for seed in range(3)]))
        keep = mean > self.best
        self.best = max(mean, self.best)
        return keep, runs


@contextmanager
def folder() -> Iterator[None]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as path:
        os.chdir(path)
        try:
            Path("bandit.py").write_text(TRAINER)
            yield
        finally:
            os.chdir(before)


RULES: dict[str, Callable[[], Judge]] = {
    "gate --ledger": lambda: by_ledger,
    "gate --require better, 5% each": lambda: by_gate,
    "rigor.py, 3 seeds, P(better) ≥ 95%": Rigor,
    "better mean of 3 seeds": Means,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=4)
    parser.add_argument("--rule", default="", help="these alone, by a part of their name: printed")
    options = parser.parse_args()
    nulls = options.nights * (CANDIDATES - len(HELPFUL))
    lines = [
        "# An agent's loop of 20 candidates, 18 of which do nothing",
        "",
        f"`python benchmarks/gate_loop.py --nights {options.nights}`: REINFORCE on a bandit, "
        f"a process a run; {options.nights} nights, so {nulls} candidates that do nothing and "
        f"{options.nights * len(HELPFUL)} that raise the learning rate by 40%.",
        "",
        "| rule | false accepts | nights with one | gains found | runs a night |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, rule in RULES.items():
        if options.rule not in name:
            continue
        nights = []
        for night in range(options.nights):
            with folder():
                nights.append(loop(night, rule()))
        lines.append(
            f"| {name} | {sum(n.false for n in nights)} of {nulls} "
            f"| {sum(n.false > 0 for n in nights)} of {options.nights} "
            f"| {sum(n.found for n in nights)} of {options.nights * len(HELPFUL)} "
            f"| {np.mean([n.runs for n in nights]):.0f} |"
        )
        print(lines[-1], flush=True)
    if not options.rule:
        OUT.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
