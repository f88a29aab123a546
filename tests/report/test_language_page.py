"""docs/language.md says what the tables of the archived runs say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ablations.cli import main

ROOT = Path(__file__).parents[2]
STUDIES = (
    *("prompt_normalization", "reward_scale", "few_prompts", "group_size", "batch_size"),
    *("policy_clipping", "language_defaults"),
)
METRICS = ("accuracy", "pass_at_4", "entropy", "return")
INTERVAL = r"[+-][\d.]+ \[[+-][\d.]+, [+-][\d.]+\]"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    (folder / "archive").mkdir()
    for study in STUDIES:
        for path in (ROOT / "results" / "archive").glob(f"{study}-*"):
            shutil.copy(path, folder / "archive")
    return folder


def test_every_interval_stands_in_a_table(results: Path, capsys) -> None:
    said = set(re.findall(INTERVAL, " ".join((ROOT / "docs" / "language.md").read_text().split())))
    asked = [(study,) for study in STUDIES]
    asked += [("prompt_normalization", "--metric", f"evaluation/{name}") for name in METRICS]
    for one in asked:
        command = ["table", *one, "--profile", "claims", "--results", str(results)]
        assert main(command) == 0
    printed = re.sub(r" *\| *", " ", capsys.readouterr().out)
    assert len(said) > 30
    missing = said - set(re.findall(INTERVAL, printed))
    assert not missing, f"no table has {sorted(missing)}"
