"""Figures of many variants, for a paper's column, and with every seed."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from synthetic import realistic

import ablations
from ablations.errors import UserError
from ablations.report.figures import study_figures, style
from ablations.report.figures.aggregates import profiles, sample_efficiency
from ablations.report.figures.curves import curves
from ablations.report.results import Results
from ablations.report.scores import scores
from ablations.report.series import LINES_OF_A_PANEL, efficiency, families, ordered
from ablations.report.statistics import aggregate, aggregate_interval
from ablations.report.units import normalised, units

UNITS = {"reacher": 30.0, "hopper": 2000.0}


@pytest.fixture
def forty(study):
    finals = {("hopper", f"v{i}"): [float(i), i + 1.0] for i in range(40)}
    return study(finals, points=3)


def test_no_panel_has_more_lines_than_there_are_colours(forty) -> None:
    plan, results = forty
    found = scores(Results(plan, results))
    groups = families(plan)
    assert [family.name for family in groups] == [f"vs v0 ({part})" for part in range(1, 7)]
    assert all(family.variants[0] == "v0" for family in groups)
    assert ordered(plan) == list(plan.variants)
    panels = [axes.get_lines() for axes in curves(plan, found).axes]
    assert sum(len(lines) - 1 for lines in panels) + 1 == 40
    for lines in panels:
        assert len({line.get_color() for line in lines}) == len(lines) <= LINES_OF_A_PANEL


def test_seeds_are_drawn_on_demand(forty) -> None:
    plan, results = forty
    found = scores(Results(plan, results))
    for axes in curves(plan, found, each_seed=True).axes:
        faint = [line for line in axes.get_lines() if line.get_alpha()]
        assert len(faint) == 2 * (len(axes.get_lines()) - len(faint))
        assert not axes.collections
    first = found.curves("hopper", "v0")[0].values
    np.testing.assert_array_equal(faint[0].get_ydata(), first)


def test_efficiency_ends_at_the_aggregate_of_the_last_points(study) -> None:
    plan, results = study(realistic(), units=UNITS, points=10)
    found = scores(Results(plan, results))
    learned = units(Results(plan, results))
    lines = efficiency(plan, found, learned)
    assert list(lines) == list(plan.variants)
    for variant, (share, middle, low, high) in lines.items():
        rows = normalised(plan, found, learned, variant)  # curves stand still over the last tenth
        assert share[-1] == 1
        assert middle[-1] == pytest.approx(aggregate(rows))
        expected = aggregate_interval(rows, replicates=2_000)
        assert (low[-1], high[-1]) == pytest.approx(expected)
    rows = []
    for task in plan.tasks:  # half of training is the fifth of ten points
        unit = learned.of(task, "brax")
        rows.append(
            [(cell.curve.values[4] - unit.low) / unit.size for cell in found.of(task, "brax")]
        )
    assert lines["brax"][1][4] == pytest.approx(aggregate(rows))


def test_one_task_has_no_efficiency_over_tasks(study) -> None:
    plan, results = study(realistic(tasks=["hopper"]), units=UNITS)
    found = scores(Results(plan, results))
    assert sample_efficiency(plan, found, units(Results(plan, results))) is None


@pytest.mark.parametrize("width", ["icml-column", 5.5])
def test_a_figure_for_a_paper_is_as_wide_as_asked_and_all_in_it(study, width) -> None:
    sets = {"standard": 0.9, "brax": 0.95, "done_cut": 1.0, "masked_truncation": 0.8}
    _, results = study(
        realistic(), units=UNITS, points=4, sets={v: {"gae_lambda": x} for v, x in sets.items()}
    )
    for name, drawn in ablations.figure("gae", results=results, width=width).items():
        canvas = FigureCanvasAgg(drawn)
        canvas.draw()
        expected = style.WIDTHS.get(width, width)
        assert drawn.get_size_inches()[0] == pytest.approx(expected), name
        assert not drawn.get_suptitle(), name
        assert not drawn.texts, name
        box = drawn.get_tightbbox(canvas.get_renderer())
        assert -0.02 < box.x0 < box.x1 < expected + 0.02, (name, box)
        assert -0.02 < box.y0 < box.y1 < drawn.get_size_inches()[1] + 0.02, (name, box)
        for axis in drawn.axes:
            if axis.axison:
                assert axis.get_window_extent().width / drawn.dpi > 0.5, name


def test_long_names_are_broken_where_they_join() -> None:
    assert style.broken("vs none@learning_rate=0.0001") == "vs none@\nlearning_rate=0.0001"
    assert style.broken("done_cut@x=1") == "done_cut@x=1"
    assert style.broken("per_minibatch_normalised_advantages") == (
        "per_minibatch_\nnormalised_\nadvantages"
    )


def test_the_legend_of_diagnostics_is_whole_however_many_it_names(study) -> None:
    finals = {("hopper", f"variant_{i}"): [float(i), i + 1.0] for i in range(14)}
    plan, results = study(finals, points=4, noise=0.1)
    read = Results(plan, results)
    (drawn,) = study_figures(read, scores(read), only=["diagnostics"]).values()
    canvas = FigureCanvasAgg(drawn)
    canvas.draw()
    (legend,) = drawn.legends
    box = legend.get_window_extent(canvas.get_renderer())
    assert box.y0 >= 0
    assert box.x1 <= drawn.bbox.x1
    names = [text.get_text() for text in legend.get_texts() if text.get_text().strip()]
    assert len(names) == 14 + 2 + 1  # the baseline twice, under two names


def test_fonts_survive_wherever_a_figure_is_saved(study, tmp_path) -> None:
    plan, results = study(realistic(variants=2, tasks=["hopper"]), units=UNITS, points=4)
    drawn = ablations.figure("gae", results=results, width="neurips")["profiles"]
    drawn.savefig(tmp_path / "a.pdf")
    drawn.savefig(tmp_path / "a.svg")
    data = (tmp_path / "a.pdf").read_bytes()
    assert b"/CIDFontType2" in data  # what Type 42 is in a PDF
    assert b"/Type3" not in data
    assert ">normalised score τ<" in (tmp_path / "a.svg").read_text()
    found = scores(Results(plan, results))
    learned = units(Results(plan, results))
    assert profiles(plan, found, learned).get_suptitle()  # alone it has its title


def test_a_width_is_inches_or_a_known_name(study, tmp_path) -> None:
    study(realistic(variants=2, tasks=["hopper"]), points=4)
    for wrong in ("nips", 0.1, "-3", float("nan")):
        with pytest.raises(UserError, match="2 to 20 inches, or one of icml-column"):
            ablations.figure("gae", results=tmp_path, width=wrong)
