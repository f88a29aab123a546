"""Numbers that a study varies: what is drawn along them."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex

from ablations.report.figures.sensitivity import sensitivity
from ablations.report.results import Results
from ablations.report.scores import scores
from ablations.report.sensitivity import Line, Panel, panels
from ablations.report.tables import table
from ablations.report.units import units

RATES = (1e-4, 3e-4, 1e-3)
UNITS = {"reacher": 30.0, "hopper": 2000.0}


def crossed(study, seeds: int = 6, **options):
    """Two clips at three rates on two tasks: `none` is as good at any rate, `replace` is best at
    another one on each task. In units: 1, and 1.2 at its best, 0.6 else."""
    random = np.random.default_rng(1)
    finals, sets, versus = {}, {}, {}
    for task, unit in UNITS.items():
        best = {"reacher": 1e-4, "hopper": 1e-3}[task]
        for rate in RATES:
            for clip in ("none", "replace"):
                name = f"{clip}@learning_rate={rate:g}"
                score = 1.0 if clip == "none" else 1.2 if rate == best else 0.6
                finals[task, name] = unit * (score + 0.01 * random.normal(size=seeds))
                sets[name] = {"value_clip": clip, "learning_rate": rate}
                versus[name] = f"none@learning_rate={rate:g}"
    options = {"units": UNITS, "sets": sets, "versus": versus, "points": 10, **options}
    return study(finals, name="clipping", **options)


def read(plan, results):
    found = scores(Results(plan, results))
    return found, units(Results(plan, results))


def test_a_line_is_the_means_of_the_table_along_the_number(study) -> None:
    plan, results = crossed(study)
    made = table(Results(plan, results))
    shown = panels(plan, made)
    assert [(panel.number, panel.title) for panel in shown] == [
        ("learning_rate", "reacher"),
        ("learning_rate", "hopper"),
    ]
    found, learned = read(plan, results)
    drawn = sensitivity(plan, made, found, learned)
    for axes, panel in zip(drawn.axes, shown, strict=True):
        assert [line.name for line in panel.lines] == ["value_clip=none", "value_clip=replace"]
        lines = [one for one in axes.get_lines() if not one.get_label().startswith("_")]
        bars = [one for one in axes.collections if isinstance(one, LineCollection)]
        for line, mine in zip(panel.lines, lines, strict=True):
            rows = [made.entry(panel.task, variant) for variant in line.variants]
            assert list(mine.get_ydata()) == [row.mean for row in rows]
            assert line.values == RATES
            np.testing.assert_allclose(mine.get_xdata(), np.log10(RATES), atol=0.02)
            own = [bar for bar in bars if to_hex(bar.get_color()[0]) == mine.get_color().lower()]
            ends = [tuple(bar.get_segments()[0][:, 1]) for bar in own]
            assert ends == [(row.low, row.high) for row in rows]
        dots = [one.get_ydata() for one in axes.get_lines() if one not in lines]
        assert [len(each) for each in dots] == 6 * [6]
        # Each rate has its own baseline, so the margin follows it.
        values, below, above = panel.band
        heads = [made.entry(panel.task, variant) for variant in panel.lines[0].variants]
        assert values == RATES
        assert below == pytest.approx([row.mean - 0.05 * row.unit for row in heads])
        assert above == pytest.approx([row.mean + 0.05 * row.unit for row in heads])


def test_where_all_are_compared_with_one_there_is_one_margin_and_a_panel_over_tasks(study) -> None:
    values = (0.5, 0.9, 1.0)
    sets = {f"gae_lambda={value}": {"gae_lambda": value} for value in values}
    finals = {(task, name): [1.0, 2.0, 3.0] for task in UNITS for name in sets}
    plan, results = study(finals, units=UNITS, sets=sets, vary={"gae_lambda": values})
    made = table(Results(plan, results))
    shown = panels(plan, made)
    assert [panel.title for panel in shown] == ["reacher", "hopper", "all tasks"]
    for panel in shown:
        assert [line.name for line in panel.lines] == [""]
        row = made.entry(panel.task, "gae_lambda=0.5")
        assert panel.band[1] == pytest.approx([row.mean - row.margin] * 3)
        assert list(panel.places.values()) == list(values)


def test_values_that_lie_too_close_stand_one_after_the_other() -> None:
    def places(*values: float) -> list[float]:
        line = Line("", values, tuple(map(str, values)))
        return list(Panel("x", "task", "", (line,), None).places.values())

    assert places(0.0, 0.5, 1.0) == [0.0, 0.5, 1.0]
    assert places(0.01, 0.1, 1.0) == pytest.approx([-2, -1, 0])
    assert places(0.5, 0.9, 0.99, 0.995, 1.0) == [0, 1, 2, 3, 4]


def test_what_changes_the_environment_is_another_panel_and_no_number_of_its_own(study) -> None:
    sets = {
        f"{value}@{length}": {"gae_lambda": value, "episode_length": length}
        for length in (100, 1000)
        for value in (0.9, 1.0)
    }
    finals = {("hopper", name): [1.0, 2.0, 3.0] for name in sets}
    plan, results = study(
        finals,
        sets=sets,
        task_settings={n: {"episode_length": s["episode_length"]} for n, s in sets.items()},
        versus={name: "0.9@" + name.partition("@")[2] for name in sets},
    )
    shown = panels(plan, table(Results(plan, results)))
    assert [(panel.number, panel.title) for panel in shown] == [
        ("gae_lambda", "hopper, episode_length=100"),
        ("gae_lambda", "hopper, episode_length=1000"),
    ]
    assert [line.variants for line in shown[0].lines] == [("0.9@100", "1.0@100")]


def test_variants_that_differ_in_no_number_alone_have_no_panel(study) -> None:
    sets = {"a": {"advantage": "standard"}, "b": {"advantage": "brax", "gae_lambda": 0.9}}
    plan, results = study({("hopper", name): [1.0, 2.0] for name in sets}, sets=sets)
    made = table(Results(plan, results))
    assert panels(plan, made) == []
    assert sensitivity(plan, made, *read(plan, results)) is None
