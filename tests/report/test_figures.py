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
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.font_manager import FontEntry
from synthetic import realistic, synthetic_study

import ablations
from ablations.core.files import SetAside
from ablations.curve import Curve
from ablations.errors import UserError
from ablations.records import cell_folder
from ablations.report import page
from ablations.report.figures import study_figures, style, write_figures
from ablations.report.figures.aggregates import intervals, profiles
from ablations.report.figures.curves import curves, diagnostics
from ablations.report.figures.differences import differences, improvement
from ablations.report.figures.effects import effects
from ablations.report.figures.style import COLORS, VERDICTS, verdict_style
from ablations.report.formats.numbers import verdict_class
from ablations.report.results import Results
from ablations.report.scores import Cell, Scores, diagnostic_scores, moves, scores
from ablations.report.series import points
from ablations.report.statistics import aggregate, aggregate_interval
from ablations.report.tables import sheet, table
from ablations.report.units import normalised, units
from ablations.studies import fraction

UNITS = {"reacher": 30.0, "hopper": 2000.0}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    results = tmp_path_factory.mktemp("drawn")
    plan = synthetic_study(
        results,
        realistic(),
        units=UNITS,
        points=10,
        failed={("hopper", "done_cut", 2): "loss is not finite"},
        missing=[("reacher", "brax", 7)],
    )
    return plan, results


@pytest.fixture(scope="module")
def files(drawn, tmp_path_factory):
    plan, results = drawn
    return write_figures(plan, results, tmp_path_factory.mktemp("files"), formats=style.FORMATS)


def svg_text(path) -> str:
    """All text of an SVG, which must be text and not outlines."""
    return "\n".join(ElementTree.parse(path).getroot().itertext())


def lines(axes) -> dict:
    """Lines of variants, by name."""
    return {x.get_label(): x for x in axes.get_lines() if not x.get_label().startswith("_")}


def bounds(axes) -> list[tuple[float, float]]:
    """Ends of the intervals along x."""
    bars = [one for one in axes.collections if isinstance(one, LineCollection)]
    return [tuple(end[0] for end in bar.get_segments()[0]) for bar in bars]


def points_of(axes, size: float) -> list:
    """Symbols of a size: one for each estimate, or one for each seed."""
    return [one for one in axes.get_lines() if one.get_markersize() == size]


def test_figures_are_written_whole_and_under_their_names(files) -> None:
    names = ("curves", "differences", "improvement", "intervals", "profiles", "efficiency")
    names += ("diagnostics",)
    formats = ("svg", "png", "pdf")
    assert [path.name for path in files] == [
        f"gae_{name}.{format}" for name in names for format in formats
    ]
    assert sorted(files[0].parent.iterdir()) == sorted(files)
    heads = {path.suffix: path.read_bytes()[:5] for path in files}
    assert heads == {".svg": b"<?xml", ".png": b"\x89PNG\r", ".pdf": b"%PDF-"}


def test_text_stays_text(drawn, files) -> None:
    plan, _ = drawn
    curves, forest = (svg_text(path) for path in files[:6:3])
    for part in (*plan.tasks, *plan.variants, "environment steps", "400k", "(1 failed)"):
        assert part in curves, part
    assert "Generalised advantage estimation" in curves
    assert "return (training)" in curves
    for part in ("brax", "worse", "undecided", "all tasks", "margin", "in what was learned"):
        assert part in forest, part


def test_same_records_same_bytes_in_another_process(drawn, files, tmp_path) -> None:
    """Whatever the order of the cells."""
    _, results = drawn
    program = (
        "import sys; from pathlib import Path\n"
        "from msgspec import structs\n"
        "from ablations.records import read_plan\n"
        "from ablations.report.figures import write_figures\n"
        "results, folder = map(Path, sys.argv[1:])\n"
        "plan = read_plan(results, 'gae')\n"
        "turned = structs.replace(plan, cells=plan.cells[::-1])\n"
        "write_figures(turned, results, folder, formats=('svg', 'png', 'pdf'))"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(results), str(tmp_path / "there")],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        check=True,
    )
    for path in files:
        assert path.read_bytes() == (tmp_path / "there" / path.name).read_bytes(), path.name
    assert str(results).encode() not in files[0].read_bytes()


def test_a_line_is_the_iqm_of_the_cells_that_finished(drawn) -> None:
    plan, results = drawn
    found = scores(Results(plan, results))
    done = [cell.curve.values for cell in found.of("hopper", "done_cut") if cell.status == "done"]
    steps, middle, low, high = points(found, "hopper", "done_cut")
    assert len(done) == 7
    np.testing.assert_array_equal(steps, np.arange(1, 11) * 40_000)
    np.testing.assert_allclose(middle, scipy.stats.trim_mean(done, 0.25, axis=0))
    assert np.all((low < middle) & (middle < high))
    line = lines(curves(plan, found).axes[1])["done_cut"]
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
    drawn = lines(curves(plan, scores(Results(plan, results))).axes[0]).values()
    assert len({line.get_color() for line in drawn}) == 6
    assert len({str(line._unscaled_dash_pattern) for line in drawn}) == 6


def test_groups_with_their_own_baseline_get_their_own_panels(study) -> None:
    finals = {(t, v): [1.0, 2.0] for t in ("hopper", "ant") for v in ("a", "b", "c", "d")}
    plan, results = study(finals, versus={"c": "c", "d": "c"})
    drawn = [lines(axes) for axes in curves(plan, scores(Results(plan, results))).axes]
    assert [list(names) for names in drawn] == [["a", "b"], ["a", "b"], ["c", "d"], ["c", "d"]]
    assert {next(iter(names.values())).get_color() for names in drawn} == {COLORS["v0"]}


def test_the_margin_is_shaded_and_the_intervals_are_those_of_the_table(drawn) -> None:
    plan, results = drawn
    made, found = table(Results(plan, results)), scores(Results(plan, results))
    forest = differences(plan, made, found, units(Results(plan, results)))
    assert [axes.get_title() for axes in forest.axes] == ["reacher", "hopper", "all tasks"]
    for axes, margin in zip(forest.axes, (1.5, 100.0, 0.05), strict=True):
        (band,) = axes.patches
        assert (band.get_x(), band.get_width()) == pytest.approx((-margin, 2 * margin))
        rows = [row for row in made.of(axes.get_title()) if row.baseline]
        assert bounds(axes) == [(row.difference_low, row.difference_high) for row in rows]
        estimates, dots = points_of(axes, 5.5), points_of(axes, 1.8)
        assert [one.get_xdata()[0] for one in estimates] == [row.difference for row in rows]
        assert [one.get_color() for one in estimates] == [
            verdict_style(row.verdict).color for row in rows
        ]
        assert [one.get_markerfacecolor() == "white" for one in estimates] == [
            verdict_style(row.verdict).hollow for row in rows
        ]
        assert [len(each.get_xdata()) for each in dots] == [row.n_pairs for row in rows]
        means = [np.mean(each.get_xdata()) for each in dots]
        np.testing.assert_allclose(means, [row.difference for row in rows])


def test_one_variant_has_nothing_to_compare(study, tmp_path) -> None:
    plan, results = study({("hopper", "a"): [1.0]})
    written = write_figures(plan, results, tmp_path / "out", formats=["svg"])
    assert [path.name for path in written] == ["gae_curves.svg", "gae_diagnostics.svg"]
    assert "One seed." in svg_text(written[0])


def test_a_study_that_has_not_run_still_draws(study, tmp_path) -> None:
    finals = {("hopper", "a"): [1.0], ("hopper", "b"): [1.0]}
    plan, results = study(finals, missing=[("hopper", "a", 0), ("hopper", "b", 0)])
    assert "(1 missing)" in svg_text(
        write_figures(plan, results, tmp_path / "o", formats=["svg"])[0]
    )


def test_another_metric_has_its_own_file(drawn, tmp_path) -> None:
    plan, results = drawn
    written = write_figures(plan, results, tmp_path / "out", metric="loss/value", formats=["svg"])
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
    assert list(study_figures(Results(plan, results), scores(Results(plan, results)))) == [
        *("curves", "differences", "improvement", "intervals", "profiles", "efficiency"),
        *("sensitivity", "effects", "diagnostics"),
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
    for name, drawn in ablations.figure(plan.study.name, results=results).items():
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
    drawn = intervals(plan, found, learned).axes
    assert [axes.get_title() for axes in drawn][:2] == ["IQM, mean over tasks", "IQM, pooled"]
    for axes, statistic in zip(drawn, ("task_iqm", "iqm", "mean", "optimality_gap"), strict=True):
        for bar, point, variant in zip(
            axes.patches, points_of(axes, 12), plan.variants, strict=True
        ):
            rows = normalised(plan, found, learned, variant)
            ends = (bar.get_x(), bar.get_x() + bar.get_width())
            assert ends == pytest.approx(aggregate_interval(rows, statistic))
            assert point.get_xdata()[0] == pytest.approx(aggregate(rows, statistic))


def test_profiles_are_shares_of_runs(whole) -> None:
    plan, results = whole
    found = scores(Results(plan, results))
    learned = units(Results(plan, results))
    line = lines(profiles(plan, found, learned).axes[0])["standard"]
    runs = np.concatenate(normalised(plan, found, learned, "standard"))
    for cut, share in zip(*line.get_data(), strict=True):
        assert share == pytest.approx(np.mean(runs > cut))


def test_improvement_is_that_of_the_table(whole) -> None:
    plan, results = whole
    made = table(Results(plan, results))
    axes = improvement(plan, made).axes[1]
    rows = [row for row in made.rows if row.task == "hopper" and row.baseline]
    assert bounds(axes) == [(row.improvement_low, row.improvement_high) for row in rows]


def test_the_effect_matrix_has_main_effects_on_its_diagonal(whole) -> None:
    plan, results = whole
    made = sheet("effects", Results(plan, results))
    axes = effects(plan, made, "training/return").axes[1]
    expected = [row for row in made.records() if row["task"] == "hopper"]
    reach = max(abs(row["effect"]) for row in expected)
    by_kind = {(row["kind"], row["factor"]): row["effect"] / reach for row in expected}
    sign = {to_rgb(COLORS["up"]): 1, to_rgb(COLORS["down"]): -1}
    values = {}
    for cell, text in zip(axes.patches, axes.texts, strict=True):
        *color, strength = cell.get_facecolor()
        place = (text.get_position()[1], text.get_position()[0])
        values[place] = sign[tuple(color)] * strength
        assert text.get_text().strip("(")[0] == ("+" if values[place] > 0 else "-")
    assert values[1, 0] == by_kind["interaction", "lambda \u00d7 clip"]
    assert {values[0, 0], values[1, 1]} == {by_kind["main", "lambda"], by_kind["main", "clip"]}
    assert len(values) == 3


def test_of_a_fraction_the_main_effects_are_drawn_with_their_intervals(study) -> None:
    changes = {name: {name: "on"} for name in ("first", "second", "third", "fourth")}
    finals, sets = {}, {}
    for k, (name, one) in enumerate(fraction(changes).items()):
        finals["hopper", name] = list(np.random.default_rng(k).normal(len(one.sets), 0.1, 6))
        sets[name] = {change: one.sets.get(change, "off") for change in changes}
    plan, results = study(finals, sets=sets)
    made = sheet("effects", Results(plan, results))
    (axes,) = effects(plan, made, "training/return").axes
    rows = [row for row in made.records() if row["kind"] == "main"]
    assert bounds(axes) == [(row["low"], row["high"]) for row in rows]
    estimates = points_of(axes, 5.5)
    assert [one.get_xdata()[0] for one in estimates] == [row["effect"] for row in rows]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [f"{name} = on" for name in sorted(changes)]
    assert "better" in [row["verdict"] for row in rows]
    assert [one.get_color() for one in estimates] == [
        verdict_style(row["verdict"]).color for row in rows
    ]
    assert axes.get_xlabel() == "effect, return (training)"


def test_diagnostics_leave_out_what_never_moves_and_what_a_trainer_has_not(whole) -> None:
    plan, results = whole
    found = diagnostic_scores(Results(plan, results))
    assert list(found) == ["loss/value", "training/length"]
    assert not moves(found["training/length"])
    names = {axes.get_ylabel() for axes in diagnostics(plan, found).axes}
    assert names == {"value\n(loss)", ""}, "once for panels side by side"


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
    for axes, group in zip(drawn.axes, ("ab", "cd"), strict=True):
        assert axes.get_title() == f"hopper\nvs {group[0]}"
        assert list(lines(axes)) == list(group)
    names = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert names == ["vs a:", "a", "b", "vs c:", "c", "d"]


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
        assert [axes.get_title() for axes in drawn.axes] == names


def test_where_nothing_was_learned_there_is_nothing_normalised_to_draw(study) -> None:
    plan, results = study(realistic(), units={"reacher": 0.0, "hopper": 0.0})
    found = scores(Results(plan, results))
    learned = units(Results(plan, results))
    assert intervals(plan, found, learned) is None
    assert profiles(plan, found, learned) is None


def test_markup_in_names_is_drawn_as_it_is(study, tmp_path) -> None:
    name = "<b>$x_1$ & co"
    plan, results = study({("hopper", name): [1.0, 2.0]}, title="50$ & <i>")
    path = write_figures(plan, results, tmp_path / "out", formats=["svg"])[0]
    assert name in svg_text(path)
    assert not re.search(r"<(b|i)>", path.read_text())


def test_each_verdict_has_a_colour_on_the_page() -> None:
    css = (page.HERE / "page.css").read_text()
    assert css.count("--worse: #") == 3, "light, and dark by choice or by the system"
    for verdict in VERDICTS:
        assert f".{verdict_class(verdict)}" in css


def test_characters_that_the_font_lacks_give_no_warning(study, tmp_path, recwarn) -> None:
    plan, results = study({("hopper", "\u4e2d\u6587 \U0001f600"): [1.0, 2.0]}, title="\u0e01")
    path, *_ = write_figures(plan, results, tmp_path / "out", formats=["svg", "png"])
    assert "\u4e2d\u6587 \U0001f600" in svg_text(path)
    assert [str(one.message) for one in recwarn] == []


def test_where_the_font_has_every_letter_no_other_is_opened(drawn, monkeypatch) -> None:
    plan, results = drawn
    fonts = style.font_manager.fontManager
    ours = [font for font in fonts.ttflist if font.name.startswith("DejaVu")]
    monkeypatch.setattr(fonts, "ttflist", [*ours, FontEntry("/no/such/font", name="none")])
    assert curves(plan, scores(Results(plan, results))).legends, "with lines of a label"


def test_bad_input(drawn, tmp_path) -> None:
    plan, results = drawn
    with pytest.raises(UserError, match="did you mean 'svg'"):
        write_figures(plan, results, tmp_path / "out", formats=["sgv"])
    with pytest.raises(UserError, match="did you mean 'training/length'"):
        write_figures(plan, results, tmp_path / "out", metric="training/lenght")
    assert not (tmp_path / "out").exists()


def test_a_cell_whose_record_is_damaged_is_missing(study) -> None:
    plan, results = study(realistic(seeds=2, tasks=["hopper"]))
    cell = plan.cells[0]
    (cell_folder(results, cell.hash) / "curve.parquet").write_bytes(b"PAR1")
    read = Results(plan, results)
    with pytest.warns(SetAside, match=f"record {cell.hash} is damaged"):
        figure = study_figures(read, scores(read), only=["curves"])["curves"]
    entries = [text.get_text() for text in figure.legends[0].get_texts()]
    assert f"{cell.variant}\n(1 missing)" in entries


@pytest.mark.parametrize(("far", "drawn"), [(1.7e308, False), (1e302, False), (1e299, True)])
def test_values_further_than_an_axis_end_in_a_line(far, drawn, study, tmp_path) -> None:
    finals = {("t", "a"): [-far] * 3, ("t", "b"): [far] * 3}
    plan, results = study(finals, baseline="a", points=10)
    if drawn:
        assert write_figures(plan, results, tmp_path)
    else:
        with pytest.raises(UserError, match=r"gae: training/return reaches .*e\+30"):
            write_figures(plan, results, tmp_path)
        assert page.write([plan], results).exists()
