"""The statistic, table, figure and log format of docs/examples/extend/analysis.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ablations import Runs, format_table, import_runs, stats
from ablations.figures import FIGURES, draw, write
from ablations.io.formats import FORMATS
from ablations.tables import TABLES, table_of

FILE = Path(__file__).parents[2] / "docs" / "examples" / "extend" / "analysis.py"
DICTIONARIES: tuple[dict[str, Any], ...] = (stats.AGGREGATES, TABLES, FIGURES, FORMATS)


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the file, and take back what it adds."""
    for dictionary, name in zip(
        DICTIONARIES, ("worst task", "failures", "strips", ".kv"), strict=True
    ):
        monkeypatch.setitem(dictionary, name, None)  # so that it is removed afterwards
    exec(FILE.read_text(), {})


@pytest.fixture
def runs() -> Runs:
    """Return runs that climb to 1, those of the variant to 0.5 on the second of two tasks."""
    rows = [
        (task, variant, seed, step, level * step / 10 + 0.01 * seed)
        for task in ("easy", "hard")
        for variant in ("baseline", "other")
        for level in [0.5 if (task, variant) == ("hard", "other") else 1.0]
        for seed in range(4)
        for step in range(11)
    ]
    frame = pd.DataFrame(rows, columns=["task", "variant", "seed", "step", "value"])
    return Runs.from_frame(frame, baseline="baseline")


def test_a_statistic_is_a_column_with_an_interval_and_a_panel(runs: Runs) -> None:
    row = table_of(runs, "aggregates").set_index("variant").loc["other"]
    assert row["worst_task"] == pytest.approx(np.mean(runs.normalised("other")["hard"]))
    assert row["worst_task_low"] < row["worst_task"] < row["worst_task_high"]
    titles = [ax.get_title("left") for ax in draw(runs, ["aggregates"])["aggregates"].axes]
    assert any("worst task" in title.replace("\n", " ") for title in titles)


def test_a_table_is_written_in_every_format(runs: Runs) -> None:
    frame = table_of(runs, "failures")
    assert list(frame.failed) == [0] * 4
    for form in ("terminal", "markdown", "latex", "html", "csv", "json"):
        assert "other" in format_table(frame, form)


def test_a_figure_is_drawn_and_written(runs: Runs, tmp_path: Path) -> None:
    figure = draw(runs, ["strips"])["strips"]
    drawn = np.concatenate([points.get_offsets()[:, 0] for points in figure.axes[1].collections])
    hard = runs.runs[runs.runs.task == "hard"].score
    assert sorted(drawn) == pytest.approx(sorted(hard))
    files = write(figure, tmp_path / "strips", ("svg", "png"))
    assert [path.name for path in files if path.stat().st_size] == ["strips.svg", "strips.png"]


def test_logs_of_a_format_are_found_and_read(tmp_path: Path) -> None:
    for variant, top in (("a", 1.0), ("b", 2.0)):
        lines = [f"step={10 * k} return={top * k}\n" for k in range(1, 11)]
        (tmp_path / f"{variant}_0.kv").write_text("".join(lines))
    results = tmp_path / "results"
    import_runs(tmp_path, "mine", results, pattern="{variant}_{seed}", baseline="a")
    scores = Runs.read(results, "mine").runs.set_index("variant").score
    assert dict(scores) == {"a": pytest.approx(10.0), "b": pytest.approx(20.0)}
