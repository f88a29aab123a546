"""Figures: what they draw, and that the same records give the same bytes."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.stats
from matplotlib.backends.backend_agg import FigureCanvasAgg
from synthetic import realistic

import ablations
from ablations.curve import Curve
from ablations.errors import UserError
from ablations.records import DamagedRecord, cell_folder
from ablations.report.figures import (
    COLORS,
    DASHES,
    FORMATS,
    curves,
    diagnostics,
    differences,
    draw,
    effect_matrix,
    figure,
    improvement,
    intervals,
    main_effects,
    profiles,
)
from ablations.report.figures.style import UNDECIDED, VERDICT_COLORS, style
from ablations.report.results import Results
from ablations.report.scores import Cell, Scores, diagnostic_scores, moves, scores
from ablations.report.series import points
from ablations.report.statistics import aggregate, aggregate_interval
from ablations.report.tables import sheet, table
from ablations.report.units import normalised, units
from ablations.studies import fraction

UNITS = {"reacher": 30.0, "hopper": 2000.0}


@pytest.fixture
def drawn(study):
    return study(
        realistic(),
        units=UNITS,
        points=10,
        failed={("hopper", "done_cut", 2): "loss is not finite"},
        missing=[("reacher", "brax", 7)],
    )


def svg_text(path) -> str:
    """All text of an SVG, which must be text and not outlines."""
    return "\n".join(ElementTree.parse(path).getroot().itertext())


def test_figures_are_written_whole_and_under_their_names(drawn, tmp_path) -> None:
    plan, results = drawn
    written = figure(plan, results, tmp_path / "out", formats=("svg", "png", "pdf"))
    names = ("curves", "differences", "improvement", "intervals", "profiles", "efficiency")
    names += ("diagnostics",)
    stems = [f"gae_{name}" for name in names]
    assert [path.name for path in written] == [
        f"{stem}.{format}" for stem in stems for format in ("svg", "png", "pdf")
    ]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        path.name for path in written
    )
    heads = {path.suffix: path.read_bytes()[:5] for path in written}
    assert heads == {".svg": b"<?xml", ".png": b"\x89PNG\r", ".pdf": b"%PDF-"}


def test_text_of_the_curves_stays_text(drawn, tmp_path) -> None:
    plan, results = drawn
    text = svg_text(figure(plan, results, tmp_path / "out", formats=["svg"])[0])
    for part in (*plan.tasks, *plan.variants, "environment steps", "400k", "(1 failed)"):
        assert part in text, part
    assert "Generalised advantage estimation" in text
    assert "return (training)" in text


def test_text_of_the_forest_plot_stays_text(drawn, tmp_path) -> None:
    plan, results = drawn
    text = svg_text(figure(plan, results, tmp_path / "out", formats=["svg"])[1])
    for part in ("brax", "worse", "undecided", "all tasks", "margin", "in what was learned"):
        assert part in text, part


def test_same_records_same_bytes_in_another_process(drawn, tmp_path) -> None:
    plan, results = drawn
    turned = dataclasses.replace(plan, cells=plan.cells[::-1])
    here = figure(turned, results, tmp_path / "here", formats=FORMATS)
    program = (
        "import sys; from pathlib import Path; from ablations.records import read_plan\n"
        "from ablations.report.figures import figure\n"
        "results, folder = map(Path, sys.argv[1:])\n"
        "figure(read_plan(results, 'gae'), results, folder, formats=('svg', 'png', 'pdf'))"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(results), str(tmp_path / "there")],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        check=True,
    )
    assert {path.suffix for path in here} == {".svg", ".png", ".pdf"}
    for path in here:
        assert path.read_bytes() == (tmp_path / "there" / path.name).read_bytes(), path.name
    assert str(results).encode() not in here[0].read_bytes()


def test_a_line_is_the_iqm_of_the_cells_that_finished(drawn) -> None:
    plan, results = drawn
    found = scores(Results(plan, results))
    done = [cell.curve.values for cell in found.of("hopper", "done_cut") if cell.status == "done"]
    steps, middle, low, high = points(found, "hopper", "done_cut")
    assert len(done) == 7
    np.testing.assert_array_equal(steps, np.arange(1, 11) * 40_000)
    np.testing.assert_allclose(middle, scipy.stats.trim_mean(done, 0.25, axis=0))
    assert np.all((low < middle) & (middle < high))
    panel = curves(plan, found).axes[1]
    line = panel.lines[list(plan.variants).index("done_cut")]
    np.testing.assert_allclose(line.get_ydata(), middle)


def test_a_point_needs_a_value_from_half_of_the_seeds() -> None:
    nan = np.nan
    values = [[nan, nan, 1.0], [nan, 2.0, 3.0], [nan, 4.0, 5.0]]
    cells = tuple(
        Cell("t", "v", seed, "done", 1.0, curve=Curve(np.array([1, 2, 3]), np.array(row)))
        for seed, row in enumerate(values)
    )
    steps, middle, low, _ = points(Scores("m", "final", cells, ()), "t", "v")
    assert (steps.tolist(), middle.tolist()) == ([2, 3], [3.0, 3.0])
    assert np.isfinite(low).all()
    assert len(points(Scores("m", "final", (), ()), "t", "v")[0]) == 0


def test_variants_differ_in_colour_and_in_dash(study) -> None:
    plan, results = study(realistic(seeds=2, variants=6, tasks=["hopper"]))
    lines = curves(plan, scores(Results(plan, results))).axes[0].lines
    assert len({line.get_color() for line in lines}) == 6
    assert (
        len({str(line.get_linestyle()) + str(line._unscaled_dash_pattern) for line in lines}) == 6
    )
    assert len(set(COLORS)) == len(COLORS) == 8
    assert len(DASHES) == 6


def test_groups_with_their_own_baseline_get_their_own_panels(study) -> None:
    finals = {(t, v): [1.0, 2.0] for t in ("hopper", "ant") for v in ("a", "b", "c", "d")}
    plan, results = study(finals, versus={"c": "c", "d": "c"})
    panels = curves(plan, scores(Results(plan, results))).axes
    assert [len(panel.lines) for panel in panels] == [2, 2, 2, 2]
    assert {panel.lines[0].get_color() for panel in panels} == {COLORS[0]}


def test_the_margin_is_shaded_and_the_intervals_are_those_of_the_table(drawn) -> None:
    plan, results = drawn
    frame = ablations.table("gae", results=results)
    found = scores(Results(plan, results))
    forest = differences(plan, table(Results(plan, results)), found, units(Results(plan, results)))
    assert [panel.get_title() for panel in forest.axes] == ["reacher", "hopper", "all tasks"]
    for panel, margin in zip(forest.axes, (1.5, 100.0, 0.05), strict=True):
        band = panel.patches[0].get_extents().transformed(panel.transData.inverted())
        assert (band.x0, band.x1) == pytest.approx((-margin, margin))
        rows = frame[(frame.task == panel.get_title()) & frame.baseline.notna()]
        drawn_bounds = [line.get_xdata() for line in panel.lines if len(line.get_xdata()) == 2][1:]
        np.testing.assert_allclose(drawn_bounds, rows[["difference_low", "difference_high"]])
        dots = [line.get_xdata() for line in panel.lines if line.get_marker() == "."]
        assert [len(each) for each in dots] == rows["n_pairs"].tolist()
        np.testing.assert_allclose([np.mean(each) for each in dots], rows["difference"])


def test_one_variant_has_nothing_to_compare(study, tmp_path) -> None:
    plan, results = study({("hopper", "a"): [1.0]})
    written = figure(plan, results, tmp_path / "out", formats=["svg"])
    assert [path.name for path in written] == ["gae_curves.svg", "gae_diagnostics.svg"]
    assert "one seed" in svg_text(written[0])


def test_a_study_that_has_not_run_still_draws(study, tmp_path) -> None:
    finals = {("hopper", "a"): [1.0], ("hopper", "b"): [1.0]}
    plan, results = study(finals, missing=[("hopper", "a", 0), ("hopper", "b", 0)])
    assert "(1 missing)" in svg_text(figure(plan, results, tmp_path / "o", formats=["svg"])[0])


def test_another_metric_has_its_own_file(drawn, tmp_path) -> None:
    plan, results = drawn
    written = figure(plan, results, tmp_path / "out", metric="loss/value", formats=["svg"])
    assert written[0].name == "gae_loss_value_curves.svg"
    assert "value (loss)" in svg_text(written[0])


FACTORIAL = {
    "standard": {"lambda": 0.9},
    "brax": {"lambda": 0.5},
    "done_cut": {"lambda": 0.9, "clip": True},
    "masked_truncation": {"lambda": 0.5, "clip": True},
}


@pytest.fixture
def whole(study):
    """A study that has every figure there is."""
    return study(realistic(), units=UNITS, sets=FACTORIAL, points=10)


def test_a_study_has_every_figure_that_it_can_have(whole) -> None:
    plan, results = whole
    with style():
        names = [name for name, _ in draw(Results(plan, results))]
    assert names == [
        *("curves", "differences", "improvement", "intervals", "profiles", "efficiency"),
        *("sensitivity", "plane", "effects", "diagnostics"),
    ]


@pytest.mark.parametrize("tasks", [["hopper"], ["reacher", "hopper"]])
def test_nothing_is_cut_off(study, tasks: list[str]) -> None:
    plan, results = study(
        realistic(tasks=tasks),
        units=UNITS,
        sets=FACTORIAL,
        points=6,
        title="A rather long title of a study that asks something in many words",
    )
    with style():
        for name, drawn in draw(Results(plan, results)):
            canvas = FigureCanvasAgg(drawn)
            canvas.draw()
            box = drawn.get_tightbbox(canvas.get_renderer())
            width, height = drawn.get_size_inches()
            assert -0.02 < box.x0 < box.x1 < width + 0.02, (name, box)
            assert -0.02 < box.y0 < box.y1 < height + 0.02, (name, box)


def test_aggregates_are_drawn_with_their_intervals(whole) -> None:
    plan, results = whole
    found = scores(Results(plan, results))
    learned = units(Results(plan, results))
    drawn = intervals(plan, found, learned)
    assert [panel.get_title() for panel in drawn.axes][:2] == [
        "IQM, mean over tasks",
        "IQM, pooled",
    ]
    for panel, statistic in zip(
        drawn.axes, ("task_iqm", "iqm", "mean", "optimality_gap"), strict=True
    ):
        lines = [line for line in panel.lines if line.get_marker() == "|"]
        for bar, line, variant in zip(panel.patches, lines, plan.variants, strict=True):
            rows = normalised(plan, found, learned, variant)
            low, high = aggregate_interval(rows, statistic)
            assert (bar.get_x(), bar.get_x() + bar.get_width()) == pytest.approx((low, high))
            assert line.get_xdata()[0] == pytest.approx(aggregate(rows, statistic))


def test_profiles_are_shares_of_runs(whole) -> None:
    plan, results = whole
    found = scores(Results(plan, results))
    learned = units(Results(plan, results))
    line = profiles(plan, found, learned).axes[0].lines[0]
    runs = np.concatenate(normalised(plan, found, learned, "standard"))
    for cut, share in zip(line.get_xdata(), line.get_ydata(), strict=True):
        assert share == pytest.approx(np.mean(runs > cut))


def test_improvement_is_that_of_the_table(whole) -> None:
    plan, results = whole
    made = table(Results(plan, results))
    panel = improvement(plan, made).axes[1]
    drawn = [list(line.get_xdata()) for line in panel.lines if len(line.get_xdata()) == 2][1:]
    rows = [row for row in made.rows if row.task == "hopper" and row.baseline]
    assert drawn == [[row.improvement_low, row.improvement_high] for row in rows]


def test_the_effect_matrix_has_main_effects_on_its_diagonal(whole) -> None:
    plan, results = whole
    effects = sheet("effects", Results(plan, results))
    drawn = effect_matrix(plan, effects)
    panel = drawn.axes[1]
    values = panel.images[0].get_array()
    expected = [row for row in effects.dataframe().itertuples() if row.task == "hopper"]
    by_kind = {(row.kind, row.factor): row.effect for row in expected}
    diagonal = {values[0, 0], values[1, 1]}
    assert diagonal == {by_kind["main", "lambda"], by_kind["main", "clip"]}
    assert values[1, 0] == by_kind["interaction", "lambda \u00d7 clip"]
    assert values.mask[0, 1]


def test_of_a_fraction_the_main_effects_are_drawn_with_their_intervals(study) -> None:
    changes = {name: {name: "on"} for name in ("first", "second", "third", "fourth")}
    finals, sets = {}, {}
    for k, (name, one) in enumerate(fraction(changes).items()):
        finals["hopper", name] = list(np.random.default_rng(k).normal(len(one.sets), 0.1, 6))
        sets[name] = {change: one.sets.get(change, "off") for change in changes}
    plan, results = study(finals, sets=sets)
    effects = sheet("effects", Results(plan, results))
    assert effect_matrix(plan, effects) is None
    with style():
        (panel,) = main_effects(plan, effects, "training/return").axes
    lines = [line.get_xdata() for line in panel.lines[1:]]
    rows = effects.records()
    assert [list(line) for line in lines[::2]] == [[row["low"], row["high"]] for row in rows]
    assert [list(line) for line in lines[1::2]] == [[row["effect"]] for row in rows]
    assert [name.get_text() for name in panel.get_yticklabels()] == [
        f"{name} = on" for name in sorted(changes)
    ]
    words = [row["verdict"] for row in rows]
    assert "better" in words
    assert [line.get_color() for line in panel.lines[1::2]] == [
        VERDICT_COLORS.get(word, UNDECIDED) for word in words
    ]
    assert panel.get_xlabel() == "effect, return (training)"


def test_diagnostics_leave_out_what_never_moves_and_what_a_trainer_has_not(whole) -> None:
    plan, results = whole
    found = diagnostic_scores(Results(plan, results))
    assert list(found) == ["loss/value", "training/length"]
    assert not moves(found["training/length"])
    drawn = diagnostics(plan, found)
    assert {panel.get_ylabel() for panel in drawn.axes} - {""} == {"value\n(loss)"}


def test_rounding_is_no_movement(whole) -> None:
    plan, results = whole
    found = diagnostic_scores(Results(plan, results))["training/length"]
    noisy = []
    for cell in found.cells:
        values = cell.curve.values + 1e-16 * cell.curve.steps
        noisy.append(dataclasses.replace(cell, curve=Curve(cell.curve.steps, values)))
    assert not moves(dataclasses.replace(found, cells=tuple(noisy)))


def test_diagnostics_tell_groups_apart(study) -> None:
    """Each group of variants begins with black, so two must not share a panel."""
    finals = {("hopper", v): [1.0, 2.0] for v in ("a", "b", "c", "d")}
    plan, results = study(finals, versus={"c": "c", "d": "c"}, noise=0.1)
    drawn = diagnostics(plan, diagnostic_scores(Results(plan, results)))
    assert [panel.get_title() for panel in drawn.axes] == ["hopper\nvs a", "hopper\nvs c"]
    for panel in drawn.axes:
        assert len({line.get_color() for line in panel.lines}) == len(panel.lines) == 2
    words = [text.get_text() for text in drawn.axes[1].get_legend().get_texts()]
    assert words == ["vs a:", "a", "b", "vs c:", "c", "d"]


def test_a_median_is_drawn_where_it_is_not_the_mean(study) -> None:
    for tasks, names in (
        (["hopper"], ["IQM, pooled", "mean", "optimality gap"]),
        (
            ["hopper", "ant", "reacher"],
            ["IQM, mean over tasks", "IQM, pooled", "mean", "median", "optimality gap"],
        ),
    ):
        plan, results = study(
            {(t, v): [1.0, 2.0, 3.0] for t in tasks for v in "ab"},
            name=f"of_{len(tasks)}",
        )
        found = scores(Results(plan, results))
        drawn = intervals(plan, found, units(Results(plan, results)))
        assert [panel.get_title() for panel in drawn.axes] == names


def test_where_nothing_was_learned_there_is_nothing_normalised_to_draw(study) -> None:
    plan, results = study(realistic(), units={"reacher": 0.0, "hopper": 0.0})
    found = scores(Results(plan, results))
    learned = units(Results(plan, results))
    assert intervals(plan, found, learned) is None
    assert profiles(plan, found, learned) is None


def test_markup_in_names_is_drawn_as_it_is(study, tmp_path) -> None:
    name = "<b>$x_1$ & co"
    plan, results = study({("hopper", name): [1.0, 2.0]}, title="50$ & <i>")
    path = figure(plan, results, tmp_path / "out", formats=["svg"])[0]
    assert name in svg_text(path)
    assert not re.search(r"<(b|i)>", path.read_text())


def test_bad_input(drawn, tmp_path) -> None:
    plan, results = drawn
    with pytest.raises(UserError, match="did you mean 'svg'"):
        figure(plan, results, tmp_path / "out", formats=["sgv"])
    with pytest.raises(UserError, match="did you mean 'training/length'"):
        figure(plan, results, tmp_path / "out", metric="training/lenght")
    (cell_folder(results, plan.cells[0].hash) / "curve.parquet").write_bytes(b"PAR1")
    with pytest.raises(DamagedRecord):
        figure(plan, results, tmp_path / "out")
    assert not (tmp_path / "out").exists()
