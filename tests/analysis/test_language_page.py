"""docs/language.md says what the tables of the archived runs say."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from ablations.cli import main

ROOT = Path(__file__).parents[2]
STUDIES = (
    *("prompt_normalization", "reward_scale", "few_prompts", "group_size", "batch_size"),
    *("policy_clipping", "language_defaults", "loss_details"),
)
METRICS = ("accuracy", "pass_at_4", "entropy", "return")
INTERVAL = r"([+-][\d.]+) \[([+-][\d.]+), ([+-][\d.]+)\]"
ENDS = ("difference", "difference_low", "difference_high")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    (folder / "archive").mkdir()
    for study in STUDIES:
        for path in (ROOT / "results" / "archive").glob(f"{study}-*"):
            shutil.copy(path, folder / "archive")
    return folder


@pytest.mark.inputs(
    *("docs/language.md", "results/archive", "ablations/comparison.py", "ablations/runs.py"),
    *("ablations/stats", "ablations/tables", "ablations/io/archives.py"),
)
def test_every_interval_stands_in_a_table(results: Path, capsys) -> None:
    text = " ".join((ROOT / "docs" / "language.md").read_text().split())
    told = set(re.findall(INTERVAL, text))
    asked: list[tuple[str, ...]] = [
        (study, "--profile", "claims") for study in STUDIES if study != "loss_details"
    ]
    for study, profile in (("prompt_normalization", "claims"), ("loss_details", "evidence")):
        metrics = [f"evaluation/{name}" for name in METRICS]
        asked += [(study, "--profile", profile, "--metric", metric) for metric in metrics]
    known: set[str] = set()
    for one in asked:
        assert main(["table", *one, "--results", str(results), "--format", "json"]) == 0
        for row in json.loads(capsys.readouterr().out)["rows"]:
            if row["difference_low"] is not None:
                known |= {" ".join(f"{row[end]:+.{n}f}" for end in ENDS) for n in (2, 3, 4, 5)}
    assert len(told) > 30
    missing = sorted({" ".join(each) for each in told} - known)
    assert not missing, missing
