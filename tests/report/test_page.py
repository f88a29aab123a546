"""The page: what it says, and what it does in a browser without network."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from browser import complaints, opened, requests
from msgspec.structs import replace
from synthetic import realistic, synthetic_study

from ablations.cli import main
from ablations.core.files import SetAside
from ablations.errors import UserError
from ablations.records import cell_folder, read_results
from ablations.report import page
from ablations.report.page.content import section
from ablations.report.results import Results
from ablations.report.tables import default_kind
from ablations.studies import fraction

UNITS = {"reacher": 30.0, "hopper": 2000.0}
NASTY = '<script>alert("x")</script>&</script><img src=x onerror=alert(1)>'
FORMULAS = {
    "standard": {
        "advantage": {
            "choice": "standard",
            "summary": "cut at every end",
            "formula": "A = δ + g l (1-done) A'\nδ = r + g (1-d) V' - V",
            "source": "Schulman et al. 2016",
        }
    }
}
FACTORIAL = {
    f"{torso}_{c}": {"value_coefficient": c, "torso": torso}
    for torso in ("separate", "shared")
    for c in (0.25, 0.5)
}


def studies(results: Path, count: int = 2, points: int = 20) -> list:
    """A plain study with failures and gaps and nasty names, and a factorial with two groups."""
    plans = [
        synthetic_study(
            results,
            realistic(),
            units=UNITS,
            points=points,
            failed={("hopper", "done_cut", 3): f"NaN in {NASTY}"},
            missing=[("reacher", "masked_truncation", 7)],
            title=f"Advantages {NASTY}",
            claim=f"a claim {NASTY}",
            summary=NASTY,
            formulas=FORMULAS,
        )
    ]
    names = dict(zip(("standard", "brax", "done_cut", "masked_truncation"), FACTORIAL, strict=True))
    for place in range(1, count):
        finals = realistic(random_seed=place)
        plans.append(
            synthetic_study(
                results,
                {(task, names[v]): values for (task, v), values in finals.items()},
                name=f"value_{place}",
                title=f"Value-loss coefficient {place}",
                units=UNITS,
                points=points,
                sets=FACTORIAL,
                versus={"shared_0.25": "shared_0.25", "shared_0.5": "shared_0.25"},
            )
        )
    return plans


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, Path]:
    """results folder, page of two studies."""
    results = tmp_path_factory.mktemp("results")
    return results, page.write(studies(results), results)


class Outline(HTMLParser):
    """Tags, ids, attributes that load something, and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name.startswith("on"):
                self.handlers.append(name)
            elif name in ("src", "href", "srcset", "data") and tag != "a":
                self.loads.append(value)

    def handle_data(self, data):
        if self.tags and self.tags[-1] not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def outline(made) -> Outline:
    return Outline(made[1].read_text())


def test_the_page_is_whole_and_loads_nothing(made, outline) -> None:
    assert all(value.startswith("data:") for value in outline.loads)
    assert len(outline.ids) == len(set(outline.ids))
    assert not outline.handlers
    text = made[1].read_text()
    assert "default-src 'none'" in text
    assert "nan" not in outline.text.lower().replace("nan in", "")


def test_names_from_configurations_are_escaped(made, outline) -> None:
    text = made[1].read_text()
    assert NASTY not in text
    assert NASTY in outline.text
    assert "script" not in outline.tags


def test_the_scorecard_says_claim_source_verdict_interval_and_seeds(outline) -> None:
    card = outline.text[: outline.text.index("How to read the verdicts")]
    for part in (
        "a claim",
        "Andrychowicz et al. 2021",
        "worse",
        "[-0.1",
        "7 of 8",
        "in what was learned",
    ):
        assert part in card, part


def test_a_study_shows_formulas_tables_and_failures(outline) -> None:
    for part in (
        "A = δ + g l (1-done) A'",
        "Schulman et al. 2016",
        "done_cut on hopper, seed 3 at step 200,000",
        "7 of 8",
        "Sample efficiency",
        "Seeds needed",
        "Effects of what the variants set",
        "incomplete: 1 of 64 cells have not run",
        "value_coefficient = 0.5",
    ):
        assert part in outline.text, part
    assert outline.tags.count("img") == 7 + 9  # a factorial of one number and one other axis


def test_a_fraction_of_a_factorial_is_told_by_its_effects(study) -> None:
    changes = {name: {name: "on"} for name in ("first", "second", "third", "fourth")}
    finals, sets = {}, {}
    for k, (name, one) in enumerate(fraction(changes).items()):
        gain = 2.0 * ("third" in one.sets)
        finals["hopper", name] = list(np.random.default_rng(k).normal(gain, 0.001, 4))
        sets[name] = {change: one.sets.get(change, "off") for change in changes}
    plan, results = study(finals, sets=sets)
    told = section(Results(plan, results), "many")
    assert told.summary == "hopper: third = on is better; 3 equivalent"
    assert [one.key for one in told.charts] == ["many/effects", "many/curves"]
    assert "mix_1" not in told.table
    assert default_kind(plan) == "effects"


def test_same_records_same_bytes_in_another_process(made, tmp_path) -> None:
    results, path = made
    program = (
        "import sys; from pathlib import Path; from ablations.records import read_plan\n"
        "from ablations.report import page\nresults = Path(sys.argv[1])\n"
        "plans = [read_plan(results, study) for study in sys.argv[3:]]\n"
        "Path(sys.argv[2]).write_text(page.render(plans, results))\n"
        "assert not {'jax', 'brax', 'variants'} & set(sys.modules)"
    )
    other = tmp_path / "other.html"
    subprocess.run(
        [sys.executable, "-c", program, str(results), str(other), "gae", "value_1"],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        check=True,
    )
    assert other.read_bytes() == path.read_bytes()
    assert str(results) not in path.read_text()


def test_a_cell_whose_record_is_damaged_is_missing(tmp_path) -> None:
    plan = studies(tmp_path)[0]
    cell = plan.cells[0]
    (cell_folder(tmp_path, cell.hash) / "curve.parquet").write_bytes(b"PAR1")
    with pytest.warns(SetAside, match=f"record {cell.hash} is damaged"):
        told = section(Results(plan, tmp_path), "one")
    assert (told.problem, told.runs[cell.hash]) == (None, "missing")


def test_a_metric_that_records_lack_spoils_only_its_own_study(tmp_path) -> None:
    one, *others = studies(tmp_path)
    named = replace(one, study=replace(one.study, metric="training/lenght"))
    text = page.render([named, *others], tmp_path)
    assert "did you mean" in text
    assert "Value-loss coefficient 1" in Outline(text).text
    with pytest.raises(UserError, match="at least one study"):
        page.render([], tmp_path)


def test_small_studies_have_a_page(tmp_path) -> None:
    one = synthetic_study(tmp_path, {("hopper", "a"): [1.0]}, name="one")
    nothing = synthetic_study(
        tmp_path,
        {("ant", "a"): [1.0, 2.0], ("ant", "b"): [2.0, 3.0]},
        name="nothing",
        missing=[("ant", v, s) for v in "ab" for s in (0, 1)],
    )
    text = Outline(page.render([one, nothing], tmp_path)).text
    assert "one seed: no interval" in text
    assert "4 still missing" in text


def test_a_cell_of_two_studies_is_counted_once(tmp_path) -> None:
    (one,) = studies(tmp_path, count=1)
    renamed = replace(one, study=replace(one.study, name="again", title="Again"))
    count = sum(record.status == "done" for _, record in read_results(tmp_path, one) if record)
    text = page.render([one, renamed], tmp_path)
    assert f"2 studies, {count} finished runs" in Outline(text).text


def test_the_command_writes_the_page_and_says_where(tmp_path, capsys) -> None:
    synthetic_study(tmp_path, {("hopper", "a"): [1.0, 2.0]})
    assert main(["report", "--results", str(tmp_path)]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.is_relative_to(tmp_path)
    assert "hopper" in path.read_text()
    assert main(["report", "--results", str(tmp_path / "none")]) == 2
    assert "nothing has run" in capsys.readouterr().err


def test_the_page_of_four_studies_is_small(tmp_path) -> None:
    """Of four like the larger of these, at twice the points of a run at the quick profile."""
    _, plan = studies(tmp_path, points=40)
    whole = len(page.render([plan], tmp_path).encode())
    assert 4 * whole < 6_000_000


# In a browser


def unfold(page) -> None:
    """Open all that is folded."""
    page.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")


@pytest.fixture(scope="module")
def browser(made):
    with opened() as driver:
        driver.get(made[1].as_uri())
        yield driver


def test_every_figure_is_shown_without_a_request_or_a_complaint(made, browser) -> None:
    unfold(browser)
    widths = browser.execute_script(
        "return [...document.querySelectorAll('figure img')].map((one) => one.naturalWidth)"
    )
    assert len(widths) == 7 + 9
    assert min(widths) > 200
    assert complaints(browser) == []
    asked = [url for url in requests(browser) if not url.startswith("data:")]
    assert set(asked) <= {made[1].as_uri()}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser, theme: str) -> None:
    axe = pytest.importorskip("axe_core_python", reason="needs axe-core-python")
    unfold(browser)
    browser.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
    script = (Path(axe.__file__).parent / "axe.min.js").read_text()
    # The page's own policy forbids eval, which a driver's injection does not need.
    browser.execute_script(script)
    found = browser.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {resultTypes: ['violations']}).then((r) => done(r.violations))"
    )
    serious = [
        (one["id"], one["impact"], [node["target"] for node in one["nodes"]][:4])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_a_phone_scrolls_only_downwards(made, phone) -> None:
    phone.get(made[1].as_uri())
    unfold(phone)
    assert phone.execute_script("return document.documentElement.scrollWidth") == 390
    assert complaints(phone) == []


OVERLAPS = """
const box = (one) => {
  const range = document.createRange();
  range.selectNodeContents(one);
  return range.getBoundingClientRect();
};
const cross = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
const seen = [...document.querySelectorAll(arguments[1])].map((one) =>
  [...one.querySelectorAll(arguments[0])].filter((b) => b.getClientRects().length).map(box));
const crossed = seen.filter((of) => of.some((a, i) => of.slice(i + 1).some((b) => cross(a, b))));
return [seen.filter((of) => of.length > 1).length > 0, crossed.length];
"""


@pytest.fixture(scope="module")
def long_names(tmp_path_factory) -> Path:
    """The page of a study of three tasks, with names that are long."""
    results = tmp_path_factory.mktemp("long")
    names = {"brax": "per_minibatch_normalised_advantages", "done_cut": "a, gae_lambda=0.95"}
    found = realistic(tasks=("reacher", "hopper", "ant_in_the_maze"))
    finals = {
        (task, names.get(variant, variant)): [1e3 * value for value in values]
        for (task, variant), values in found.items()
    }
    plan = synthetic_study(results, finals, units=dict.fromkeys(("reacher", "hopper"), 1e5))
    path = results / "long.html"
    path.write_text(page.render([plan], results))
    return path


def test_a_table_of_three_tasks_fits_a_screen(long_names, desktop) -> None:
    desktop.get(long_names.as_uri())
    unfold(desktop)
    widths = desktop.execute_script(
        "return [...document.querySelectorAll('.scroll')].map("
        "(one) => [one.scrollWidth, one.clientWidth])"
    )
    assert len(widths) > 1
    assert all(whole <= seen for whole, seen in widths)


def test_a_phone_shows_the_words_of_a_row_beside_each_other(long_names, phone) -> None:
    phone.get(long_names.as_uri())
    unfold(phone)
    assert phone.execute_script(OVERLAPS, "th, td", ".scores tbody tr") == [True, 0]
    card = "const card = document.querySelector('.card .scroll'); return"
    assert phone.execute_script(f"{card} card.scrollWidth <= card.clientWidth")


def test_print_is_dark_on_white_whatever_the_theme(browser) -> None:
    browser.execute_script("document.documentElement.dataset.theme = 'dark'")
    colours = (
        "const style = getComputedStyle(document.querySelector(arguments[0]));"
        "return style.getPropertyValue(arguments[1])"
    )
    assert browser.execute_script(colours, "body", "background-color") == "rgb(19, 22, 26)"
    for scheme in ("dark", "light"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": "print", "features": features}
        )
        try:
            assert (
                browser.execute_script(colours, "body", "background-color") == "rgb(255, 255, 255)"
            )
            assert browser.execute_script(colours, "body", "color") == "rgb(0, 0, 0)"
            assert browser.execute_script(colours, ".chip.worse", "color") == "rgb(163, 58, 0)"
        finally:
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_print_leaves_out_what_is_folded_and_takes_few_sheets(browser) -> None:
    def sheets(unfolded: bool) -> int:
        browser.execute_script(
            "for (const one of document.querySelectorAll('details.more')) one.open = arguments[0]",
            unfolded,
        )
        return len(re.findall(rb"/Type\s*/Page[^s]", base64.b64decode(browser.print_page())))

    studies = len(browser.find_elements("css selector", "section.study"))
    few = sheets(unfolded=False)
    assert few <= 3 * studies, "the main job's five studies: 15"
    assert sheets(unfolded=True) > few, "what the reader opens is printed"
