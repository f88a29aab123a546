"""Figures: they draw the numbers of the tables, readable, with the same bytes each time."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from layout import drawn_texts, faults
from matplotlib.colors import to_hex
from PIL import Image
from synthetic import realistic, synthetic_study

import ablations
from ablations import figures
from ablations.cli import main
from ablations.comparison import compare
from ablations.errors import UserError
from ablations.figures import FIGURES, learning, style
from ablations.runs import ALL_TASKS, Runs
from ablations.studies import fraction
from ablations.tables import TABLES

UNITS = {"reacher": 30.0, "hopper": 2000.0}
FACTORIAL = {
    "standard": {"gae_lambda": 0.9},
    "brax": {"gae_lambda": 0.5},
    "done_cut": {"gae_lambda": 0.9, "clip": True},
    "masked_truncation": {"gae_lambda": 0.5, "clip": True},
}
LONG = "a_variant_with_a_name_that_no_column_of_a_paper_holds@learning_rate=0.0003"
MINUS = "\N{MINUS SIGN}"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A study that has every figure but shares, with failed and missing runs."""
    results = tmp_path_factory.mktemp("stored")
    failed = {("hopper", "done_cut", 2): "loss is not finite"}
    options = {"units": UNITS, "points": 10, "noise": 20.0, "sets": FACTORIAL, "failed": failed}
    return synthetic_study(
        results, realistic(), missing=[("reacher", "brax", 7)], **options
    ), results


@pytest.fixture(scope="module")
def runs(stored) -> Runs:
    return Runs.read(stored[1], stored[0])


def curve(task: str, variant: str, seed: int, level: float, fails: bool = False) -> pd.DataFrame:
    random = np.random.default_rng([seed, *map(ord, task + variant)])
    step = np.arange(1, 21) * 5000
    value = level * (1 - np.exp(-step / 25_000)) + random.normal(0, 4) + random.normal(0, 2, 20)
    value[10:] = np.where(fails, np.inf, value[10:])
    return pd.DataFrame({"step": step, "value": value}).assign(
        task=task, variant=variant, seed=seed
    )


@pytest.fixture(scope="module")
def hard() -> Runs:
    """Failures, an outlier, one seed, identical runs, many variants, long names."""
    frames = []
    for task in ("cartpole", "inverted_double_pendulum_with_a_swing_up"):
        base = [curve(task, "baseline", seed, 100) for seed in range(8)]
        frames += base + [frame.assign(variant="identical") for frame in base]
        frames += [frame.assign(variant="shifted", value=frame.value + 1) for frame in base]
        frames += [curve(task, "fails", seed, 110, seed < 3) for seed in range(8)]
        frames += [curve(task, "outlier", seed, 100 + 90_000 * (seed == 1)) for seed in range(4)]
        frames += [curve(task, f"{LONG}{k}", s, 100 + 9 * k) for k in range(6) for s in (0, 1)]
        frames += [curve(task, "Rindfleischetikettierungsueberwachung", 0, 80)]
    return Runs.from_frame(pd.concat(frames), baseline="baseline")


def line_of(ax, color: str):
    """The line of a colour that is not one of many thin ones."""
    lines = [line for line in ax.get_lines() if to_hex(line.get_color()) == to_hex(color)]
    return next(line for line in lines if line.get_linewidth() > 0.6 and len(line.get_xdata()))


def thin_lines(ax, color: str) -> list:
    lines = [line for line in ax.get_lines() if line.get_linewidth() < 0.6]
    return [line for line in lines if to_hex(line.get_color()) == to_hex(color)]


def band_of(ax, color: str) -> np.ndarray:
    """The lower and the upper edge of a band, `[2, points]`."""
    bands = {to_hex(c.get_facecolor()[0]): c for c in ax.collections if len(c.get_facecolor())}
    by_x = pd.DataFrame(bands[to_hex(color)].get_paths()[0].vertices).groupby(0)[1]
    return np.array([by_x.min(), by_x.max()])


def looks(runs: Runs) -> dict[str, str]:
    return {v: look.color for v, look in style.looks_of(learning.groups_of(runs)).items()}


def intervals(ax) -> list[tuple[float, ...]]:
    """The intervals of a forest, from above: lines with two points on one height."""
    lines = [line for line in ax.get_lines() if len(set(line.get_ydata())) == 1]
    return [tuple(line.get_xdata()) for line in lines if len(line.get_xdata()) == 2]


def symbols(ax) -> list:
    return [line for line in ax.get_lines() if line.get_marker() in ("o", "X")]


def centers(ax) -> list[float]:
    return [symbol.get_xdata()[0] for symbol in symbols(ax)]


def titles(figure) -> list[str]:
    return [ax.get_title("left").replace("\n", " ") for ax in figure.axes]


def entries(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


# Numbers


def test_a_curve_is_the_mean_over_seeds_with_students_interval(runs) -> None:
    ax, color = figures.curves(runs).axes[1], looks(runs)["done_cut"]
    values = np.array([of.values for of in runs.curves_of("hopper", "done_cut").values()])
    assert len(values) == 7, "one failed"
    mean = values.mean(axis=0)
    np.testing.assert_allclose(line_of(ax, color).get_ydata(), mean)
    expected = scipy.stats.t.interval(0.95, 6, mean, scipy.stats.sem(values))
    np.testing.assert_allclose(band_of(ax, color), expected)


def test_a_smooth_curve_ends_at_the_score(runs) -> None:
    ax = figures.curves(runs, smooth=True).axes[1]
    for variant, color in looks(runs).items():
        last = line_of(ax, color).get_ydata()[-1]
        assert last == pytest.approx(runs.scores["hopper", variant].mean())


@pytest.mark.parametrize(("few", "options"), [(True, {}), (False, {"each_seed": True})])
def test_seeds_have_a_line_where_they_are_few_or_on_request(runs, few, options) -> None:
    runs = runs.below(learning.FEW - 1) if few else runs
    ax = figures.curves(runs, **options).axes[1]
    drawn = {tuple(line.get_ydata()) for line in thin_lines(ax, style.INK)}
    assert drawn == {tuple(of.values) for of in runs.curves_of("hopper", "standard").values()}
    assert not ax.collections, "no band"


def test_a_point_needs_a_value_from_half_of_the_seeds() -> None:
    nan = np.nan
    rows = [[nan, nan, 1.0, 2.0], [nan, 2.0, 3.0, 2.0], [nan, 4.0, 5.0, 2.0]]
    points = [(seed, step, x) for seed, row in enumerate(rows) for step, x in enumerate(row)]
    frame = pd.DataFrame(
        [(variant, *point) for variant in "ab" for point in points],
        columns=["variant", "seed", "step", "value"],
    )
    ax = figures.curves(Runs.from_frame(frame, baseline="a")).axes[0]
    for color in (style.INK, style.COLORS[0]):
        line = line_of(ax, color)
        assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 2, 3], [3.0, 3.0, 2.0])


def test_no_panel_has_more_variants_than_there_are_colours(hard) -> None:
    groups = learning.groups_of(hard)
    assert [group[0] for group in groups] == ["baseline"] * 2
    others = sorted(v for group in groups for v in group[1:])
    assert others == sorted({*hard.variants} - {"baseline"})
    drawn = figures.curves(hard)
    assert len(drawn.axes) == len(groups) * len(hard.tasks)
    assert "fails (6 failed)" in entries(drawn)


def test_groups_with_their_own_baseline_get_their_own_panels(study_runs) -> None:
    finals = {(t, v): [1.0, 2.0] for t in ("hopper", "ant") for v in "abcd"}
    runs = study_runs(finals, versus={"c": "c", "d": "c"}, noise=0.1)
    for drawn in (figures.curves(runs), FIGURES["diagnostics"](runs)):
        assert entries(drawn) == ["a", "b", "c", "d"]
        keys = drawn.legends[0].get_lines()
        assert len({(key.get_color(), key.get_linestyle()) for key in keys}) == 4
        assert len(drawn.axes) == 4


@pytest.mark.parametrize(
    ("others", "expected"),
    [(8, {"all"}), (29, {f"all: v{k} to v{k + 5}" for k in (0, 6, 12, 18)} | {"all: v24 to v28"})],
)
def test_panels_name_their_variants_if_looks_repeat(others, expected) -> None:
    variants = ["base", *(f"v{k}" for k in range(others))]
    points = [(v, 0, step, 1.0) for v in variants for step in (1, 2)]
    frame = pd.DataFrame(points, columns=["variant", "seed", "step", "value"])
    drawn = figures.curves(Runs.from_frame(frame, baseline="base"))
    assert {*titles(drawn)} == expected


def test_levels_are_level_lines(runs) -> None:
    drawn = figures.curves(runs, levels={"hopper": {"threshold": 123.0}})
    flat = [line.get_ydata()[0] for line in drawn.axes[1].get_lines() if len(line.get_xdata()) == 2]
    assert flat == [123.0]
    assert entries(drawn)[-1] == "threshold"


@pytest.mark.parametrize("several", [True, False])
def test_differences_are_those_of_the_comparison(runs, several) -> None:
    if not several:
        kept = {"standard": "standard", "done_cut": "standard"}
        runs = replace(runs.where(runs.runs.variant.isin(kept)), versus=kept)
    rows = compare(runs).query("variant != baseline")
    ax = FIGURES["differences"](runs, 5.5).axes[0]
    low, high = ax.get_xlim()
    inside = (100 * rows[["share_low", "share_high"]]).clip(low, high)
    np.testing.assert_allclose(intervals(ax), inside)
    np.testing.assert_allclose(centers(ax), [x for x in 100 * rows.share if low <= x <= high])
    assert (ax.patches[0].get_x(), ax.patches[0].get_width()) == pytest.approx((-5, 10))
    texts = [label.get_text() for label in ax.child_axes[0].get_yticklabels()]
    numbers = [float(re.split(r"[ ,]", text.replace(MINUS, "-"))[0]) for text in texts]
    np.testing.assert_allclose(numbers, 100 * rows.share, atol=0.51)
    dots = np.concatenate([c.get_offsets() for c in ax.collections])
    assert len(dots) == rows.pairs.sum()
    assert dots[:, 0].sum() == pytest.approx(100 * (rows.share * rows.pairs).sum())


def test_differences_of_a_metric_without_a_direction_are_in_its_units(stored) -> None:
    runs = Runs.read(stored[1], stored[0], "loss/value")
    rows = compare(runs).query("variant != baseline")
    drawn = FIGURES["differences"](runs)
    for ax, (_, of) in zip(drawn.axes, rows.groupby("task", sort=False), strict=True):
        np.testing.assert_allclose(centers(ax), of.difference)
        assert "loss" in ax.get_xlabel()


CASES = pd.DataFrame(
    [
        ("better", 0.2, 0.1, 0.3, "better", "", "+20 [10, 30]"),
        ("worse", -0.2, -0.3, -0.1, "worse", "", f"{MINUS}20 [{MINUS}30, {MINUS}10]"),
        ("equivalent", 0.001, -0.02, 0.02, "equivalent", "", "+0.1"),
        ("open", 0.1, -0.2, 0.4, "inconclusive", "", "+10"),
        ("fails", 0.1, 0.05, 0.15, "failed", "3 more runs failed", "+10"),
        ("identical", 0.0, 0.0, 0.0, "equivalent", "identical", "identical"),
        ("one", 0.1, np.nan, np.nan, "inconclusive", "one seed", "+10, one seed"),
        ("nothing", np.nan, np.nan, np.nan, "inconclusive", "no common seed", "no common seed"),
        ("far", 90.0, -900.0, 1080.0, "inconclusive", "", "+9,000"),
        ("beyond", -90.0, -100.0, -80.0, "worse", "", f"{MINUS}9,000"),
        *((f"more {i}", 0.0, -0.3, 0.3, "inconclusive", "", "+0") for i in range(12)),
    ],
    columns=["label", "share", "share_low", "share_high", "verdict", "note", "text"],
)


def test_a_forest_shows_verdicts_notes_and_outliers() -> None:
    drawn = figures.forest(CASES, width=5.5)
    ax = drawn.axes[0]
    low, high = ax.get_xlim()
    assert high == -low < 50, "for the bulk"
    texts = [label.get_text().replace("\n", " ") for label in ax.child_axes[0].get_yticklabels()]
    assert all(text.startswith(x) for text, x in zip(texts, CASES.text, strict=True))
    by_row = {round(s.get_ydata()[0], 6): s for s in symbols(ax)}
    for row, at in zip(CASES.itertuples(), ax.get_yticks(), strict=True):
        symbol = by_row.get(round(at, 6))
        if row.label in ("nothing", "far", "beyond"):
            assert symbol is None, row.label
            continue
        assert symbol.get_color() == style.VERDICT_COLORS[row.verdict]
        hollow = row.verdict == "inconclusive"
        assert (symbol.get_markerfacecolor() == "white") == hollow, row.label
        assert (symbol.get_marker() == "X") == (row.verdict == "failed")
    arrows = [(line.get_marker(), line.get_xdata()[0]) for line in ax.get_lines()]
    expected = [("<", low), (">", high), ("<", low)]
    assert [arrow for arrow in arrows if arrow[0] in "<>"] == expected
    assert entries(drawn) == [*style.VERDICT_COLORS, "within ±5%"]


def test_groups_of_a_forest_have_headings_in_their_order() -> None:
    drawn = figures.forest(CASES.iloc[:4].assign(part=["z", "z", "a", "a"]), group="part")
    height = {text.strip(): upper for text, _, upper, *_ in drawn_texts(drawn)}
    order = ["z", CASES.text[0], CASES.text[1], "a"]
    assert sorted(order, key=height.get) == order


def test_improvement_is_that_of_the_table(runs) -> None:
    expected = 100 * TABLES["improvement"](runs).filter(like="improvement")
    ax = FIGURES["improvement"](runs).axes[0]
    np.testing.assert_allclose(intervals(ax), expected.iloc[:, 1:])
    np.testing.assert_allclose(centers(ax), expected.iloc[:, 0])
    assert ax.get_xlim() == (0, 100)


def test_aggregates_are_those_of_the_table_with_a_dot_per_seed(runs) -> None:
    expected = TABLES["aggregates"](runs)
    drawn = FIGURES["aggregates"](runs)
    assert titles(drawn) == ["task IQM ↑", "IQM ↑", "mean ↑", "optimality gap ↓"], "two tasks"
    for ax, title in zip(drawn.axes, titles(drawn), strict=True):
        name = title[:-2].replace(" ", "_")
        ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]
        np.testing.assert_allclose(ends, expected[[f"{name}_low", f"{name}_high"]])
        points = [line.get_xdata()[0] for line in ax.get_lines() if line.get_marker() == "|"]
        np.testing.assert_allclose(points, expected[name])
        assert [len(c.get_offsets()) for c in ax.collections] == list(expected.n)


def test_profiles_are_shares_of_runs(runs) -> None:
    ax = FIGURES["profiles"](runs).axes[0]
    scores = np.concatenate(list(runs.normalised("standard").values()))
    for cut, share in np.column_stack(line_of(ax, style.INK).get_data()):
        assert share == pytest.approx(np.mean(scores > cut))
    assert len(ax.collections) == len(runs.variants)


def test_efficiency_ends_at_the_mean_over_tasks(study_runs) -> None:
    runs = study_runs(realistic(), units=UNITS, points=10)  # curves end at their scores
    rows = compare(runs).query("task == @ALL_TASKS").set_index("variant")
    ax = FIGURES["efficiency"](runs).axes[0]
    for variant, color in looks(runs).items():
        assert line_of(ax, color).get_xdata()[-1] == 1
        assert line_of(ax, color).get_ydata()[-1] == pytest.approx(rows["mean"][variant])
        ends = rows.loc[variant, ["mean_low", "mean_high"]].astype(float)
        np.testing.assert_allclose(band_of(ax, color)[:, -1], ends)


def test_sensitivity_is_the_means_along_a_number(runs) -> None:
    rows = compare(runs).set_index(["task", "variant"])
    drawn = FIGURES["sensitivity"](runs)
    assert titles(drawn) == ["reacher", "hopper", ALL_TASKS]
    for ax, task in zip(drawn.axes, titles(drawn), strict=True):
        row = rows.loc[task]
        assert [label.get_text() for label in ax.get_xticklabels()] == ["0.5", "0.9"]
        joined = [line.get_ydata().astype(float) for line in ax.get_lines()]
        pairs = ["brax", "standard"], ["masked_truncation", "done_cut"]
        np.testing.assert_allclose(joined, [row["mean"][pair] for pair in pairs])
        bars = [bar[:, 1] for c in ax.collections if hasattr(c, "get_segments")
                for bar in c.get_segments()]  # fmt: skip
        expected = sorted(zip(row.mean_low, row.mean_high, strict=True))
        np.testing.assert_allclose(sorted(map(tuple, bars)), expected)
        center, margin = row["mean"]["standard"], row.margin["brax"]
        edges = [[center - margin] * 4, [center + margin] * 4]
        np.testing.assert_allclose(band_of(ax, style.MARGIN), edges)


def test_effects_are_those_of_the_table(runs) -> None:
    table = TABLES["effects"](runs)
    ends = 100 * table[table.kind == "main"][["share_low", "share_high"]]
    np.testing.assert_allclose(intervals(FIGURES["effects"](runs).axes[0]), ends)


def test_a_fraction_has_its_effects_and_curves_by_default(study_runs) -> None:
    changes = {name: {name: "on"} for name in ("first", "second", "third", "fourth")}
    finals, sets = {}, {}
    for k, (name, of) in enumerate(fraction(changes).items()):
        finals["hopper", name] = list(np.random.default_rng(k).normal(len(of.sets), 0.1, 6))
        sets[name] = {change: of.sets.get(change, "off") for change in changes}
    drawn = figures.draw(study_runs(finals, sets=sets))
    assert list(drawn) == ["effects", "curves"]
    names = [label.get_text() for label in drawn["effects"].axes[0].get_yticklabels()]
    assert names == [f"{name} = on" for name in sorted(changes)]


def test_diagnostics_leave_out_what_never_changes(runs) -> None:
    drawn = FIGURES["diagnostics"](runs)
    assert titles(drawn) == ["value (loss), reacher", "value (loss), hopper"]


# Layout


@pytest.mark.parametrize(
    ("which", "width"),
    [
        *(("hard", 2.5), ("runs", 5.5)),
        *(pytest.param(*of, marks=pytest.mark.long) for of in (("hard", 5.5), ("runs", 3.25))),
    ],
)
def test_no_text_is_cut_and_none_covers_another(request, which, width) -> None:
    drawn = figures.draw(request.getfixturevalue(which), (), width)
    assert len(drawn) > 5
    for name, figure in drawn.items():
        assert figure.get_figwidth() == style.inches(width)
        assert faults(figure) == [], name
        for ax in figure.axes:
            assert ax.get_window_extent().width / figure.dpi > 0.35, name


def test_what_is_cut_or_covered_is_found(runs) -> None:
    figure = figures.curves(runs)
    figure.text(0, 0.5, "long " * 99)
    assert len(faults(figure)) > 1


def test_text_is_wrapped_to_the_width_that_it_has() -> None:
    text = style.wrapped(LONG, 1.0)
    assert text.replace("\n", " ").startswith("a variant with a name")
    assert style.text_width(text) <= 1.0
    assert style.wrapped("W" * 40, 0.5).replace("\n", "") == "W" * 40
    assert style.words("done_cut@rate=1e-3") == "done cut, rate = 1e-3"


# Files


def svg_text(path) -> str:
    return "\n".join(ElementTree.parse(path).getroot().itertext())


def test_the_command_writes_whole_files_with_text_as_text(stored, tmp_path, capsys) -> None:
    _, results = stored
    command = f"figure gae --results {results} --output {tmp_path}/o --kind curves profiles"
    main([*command.split(), "--format", "svg", "pdf", "--smooth", "--width", "neurips"])
    names = [f"gae_{name}.{form}" for name in ("curves", "profiles") for form in ("svg", "pdf")]
    assert [line.rpartition("/")[2] for line in capsys.readouterr().out.split()] == names
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == sorted(names)
    text = svg_text(tmp_path / "o" / "gae_curves.svg")
    for part in ("hopper", "done cut (1 failed)", "environment steps", "400k", "return (training)"):
        assert part in text
    data = (tmp_path / "o" / "gae_curves.pdf").read_bytes()
    assert b"/CIDFontType2" in data, "Type 42"
    assert b"/Type3" not in data
    main(["figure", "gae", "--results", str(results), "--metric", "loss/value", "--kind", "curves"])
    assert (results / "figures" / "gae_loss_value_curves.png").exists()


def test_the_style_holds_when_a_figure_is_saved_and_leaves_no_trace(runs, tmp_path) -> None:
    before = dict(mpl.rcParams)
    figures.curves(runs, "icml-column").savefig(tmp_path / "a.png")
    assert Image.open(tmp_path / "a.png").size[0] == round(3.25 * 300)
    assert dict(mpl.rcParams) == before


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["<b>$x$ & 0.00025 co", "\u4e2d\u6587 \U0001f600"])
def test_any_name_is_drawn_as_it_is(name, tmp_path) -> None:
    frame = pd.DataFrame({"variant": name, "seed": [0, 1], "step": [1, 1], "value": [1.0, 2.0]})
    drawn = figures.curves(Runs.from_frame(frame, baseline=name))
    assert name in svg_text(figures.write(drawn, tmp_path / "a")[0])


# What a study has


def test_a_study_has_the_figures_that_it_can_have(runs, stored) -> None:
    drawn = ablations.figure("gae", results=stored[1], each_seed=True)
    assert list(drawn) == [name for name in FIGURES if name != "shares"]
    alone = runs.where(runs.runs.variant == "standard")
    alone = replace(alone, versus={"standard": "standard"}, plan=None)
    assert list(figures.draw(alone)) == ["curves", "aggregates", "profiles", "efficiency"]


@pytest.mark.parametrize(("count", "gaps"), [(1, [1, 2]), (2, [0, 2]), (4, [])])
def test_variants_without_a_score_leave_a_gap(count, gaps, study_runs) -> None:
    missing = [("hopper", v, seed) for v in list(FACTORIAL)[:count] for seed in range(8)]
    runs = study_runs(realistic(), units=UNITS, points=10, sets=FACTORIAL, missing=missing)
    ax = FIGURES["sensitivity"](runs).axes[1]
    assert [np.isfinite(line.get_ydata().astype(float)).sum() for line in ax.get_lines()] == gaps


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda runs: figures.draw(runs, (), "nips"), "2 to 20 inches, or one of icml-column"),
        (lambda runs: figures.draw(runs, ["curve"]), "did you mean 'curves'"),
        (lambda runs: figures.draw(runs, ["shares"]), "does not explain a gap"),
        (lambda runs: figures.encoded(figures.curves(runs), "sgv"), "did you mean 'svg'"),
    ],
)
def test_bad_input(runs, ask, message) -> None:
    with pytest.raises(UserError, match=message):
        ask(runs)
