"""The page: its sections, and what it does in a browser without network."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import complaints, opened, requests
from msgspec.structs import replace
from outline import Outline
from synthetic import realistic, synthetic_study

from ablations.core.files import SetAside
from ablations.errors import UserError
from ablations.records import cell_folder, usable_record
from ablations.report import page

UNITS = {"reacher": 30.0, "hopper": 2000.0}
NASTY = '<script>alert("x")</script>&</script><img src=x onerror=alert(1)>'
FORMULA = {
    "choice": "standard",
    "summary": "cut at every end",
    "formula": "A = δ + g l (1-done) A'\nδ = r + g (1-d) V' - V",
    "source": "Schulman et al. 2016",
}
FACTORIAL = {
    f"{torso}_{c}": {"value_coefficient": c, "torso": torso}
    for torso in ("separate", "shared")
    for c in (0.25, 0.5)
}


def studies(results: Path, points: int = 20) -> list:
    """A plain study with failures, gaps and nasty names, and a factorial with two groups."""
    plain = synthetic_study(
        results,
        realistic(),
        units=UNITS,
        points=points,
        failed={("hopper", "done_cut", 3): f"NaN in {NASTY}"},
        missing=[("reacher", "masked_truncation", 7)],
        title=f"Advantages {NASTY}",
        claim=f"a claim {NASTY}",
        summary=NASTY,
        formulas={"standard": {"advantage": FORMULA}},
    )
    finals = realistic(random_seed=1, tasks=["hopper"])
    names = dict(zip(("standard", "brax", "done_cut", "masked_truncation"), FACTORIAL, strict=True))
    grid = synthetic_study(
        results,
        {(task, names[v]): values for (task, v), values in finals.items()},
        name="value_1",
        title="Value-loss coefficient",
        units=UNITS,
        points=points,
        sets=FACTORIAL,
        versus={"shared_0.25": "shared_0.25", "shared_0.5": "shared_0.25"},
    )
    return [plain, grid]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, Path]:
    """results folder, page of two studies."""
    results = tmp_path_factory.mktemp("results")
    return results, page.write(studies(results), results)


@pytest.fixture(scope="module")
def outline(made) -> Outline:
    return Outline(made[1].read_text())


def test_the_page_loads_nothing_and_escapes_names(made, outline) -> None:
    text = made[1].read_text()
    assert all(value.startswith("data:") for value in outline.loads)
    assert len(outline.ids) == len(set(outline.ids))
    assert "default-src 'none'" in text
    assert "script" not in outline.tags
    assert NASTY not in text
    assert NASTY in outline.text
    assert "nan" not in outline.text.lower().replace("nan in", "")


def test_findings_and_sections_have_verdicts_formulas_tables_and_failures(outline) -> None:
    findings = outline.text[: outline.text.index("Better, worse:")]
    for part in ("done_cut is worse on hopper", "1 worse", "94 finished runs, 1 failed, 1 missing"):
        assert part in " ".join(findings.split()), part
    for part in (
        *("a claim", "Andrychowicz et al. 2021", "A = δ + g l (1-done) A'", "Schulman et al. 2016"),
        *("hopper, done_cut, seed 3: step 200,000: NaN in", "worse (1 more run failed than of"),
        *("7 of 8", "1 of 64 runs are missing", "value_coefficient = 0.5"),
        *("Effects of the settings", "Sample efficiency", "Seeds needed", "Stability"),
    ):
        assert part in outline.text, part
    kinds = {identity.partition(".")[2] for identity in outline.ids if identity.startswith("value")}
    assert kinds >= {"curves", "differences", "sensitivity", "effects", "diagnostics"}
    assert outline.tags.count("img") == outline.tags.count("source") == 7 + 8


def test_a_study_that_cannot_be_shown_spoils_no_other(tmp_path) -> None:
    finals = {("hopper", "a"): [1.0, 2.0, 4.0], ("hopper", "b"): [2.0, 3.0, 9.0]}
    plan = synthetic_study(tmp_path, finals, points=4)
    damaged = plan.cells[0].hash
    (cell_folder(tmp_path, damaged) / "curve.parquet").write_bytes(b"PAR1")
    with pytest.warns(SetAside, match=f"record {damaged} is damaged"):
        shown = page.section(plan, tmp_path)
    assert (shown["problem"], shown["runs"][damaged]) == ("", "missing")
    named = replace(plan, study=replace(plan.study, metric="training/lenght"))
    with pytest.warns(SetAside):
        shown = page.section(named, tmp_path)
    assert "did you mean 'training/length'" in shown["problem"]
    assert "tables" not in shown
    with pytest.raises(UserError, match="at least one study"):
        page.render([], tmp_path)


def test_small_studies_and_shared_runs_have_a_page(tmp_path) -> None:
    one = synthetic_study(tmp_path, {("hopper", "a"): [1.0], ("hopper", "b"): [2.0]}, name="one")
    nothing = synthetic_study(
        tmp_path,
        {("ant", "a"): [1.0, 2.0], ("ant", "b"): [2.0, 3.0]},
        name="nothing",
        missing=[("ant", v, s) for v in "ab" for s in (0, 1)],
    )
    again = replace(one, study=replace(one.study, name="ONE", title="Again"))
    count = sum(getattr(usable_record(tmp_path, c.hash), "status", "") == "done" for c in one.cells)
    outline = Outline(page.render([one, nothing, again], tmp_path))
    text = " ".join(outline.text.split())
    assert f"3 studies, {count} finished runs, 4 missing" in text, "shared runs count once"
    assert {"one", "ONE"} <= set(outline.ids)
    assert "inconclusive (one seed)" in text
    assert "There is no finished comparison yet." in text


# In a browser

BROWSER = pytest.mark.inputs(
    *("ablations/report", "ablations/figures", "ablations/tables", "ablations/comparison.py"),
    *("ablations/runs.py", "ablations/stats", "tests/browser.py", "tests/synthetic.py"),
)


def unfold(page) -> None:
    page.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")


@pytest.fixture(scope="module")
def browser(made):
    with opened() as driver:
        driver.get(made[1].as_uri())
        yield driver


@BROWSER
def test_every_figure_is_shown_without_a_request_or_a_complaint(made, browser) -> None:
    unfold(browser)
    widths = browser.execute_script(
        "return [...document.querySelectorAll('figure img')].map((each) => each.naturalWidth)"
    )
    assert len(widths) == 7 + 8
    assert min(widths) > 600
    assert complaints(browser) == []
    asked = [url for url in requests(browser) if not url.startswith("data:")]
    assert set(asked) <= {made[1].as_uri()}


@BROWSER
@pytest.mark.parametrize("colours", [pytest.param("light", marks=pytest.mark.long), "dark"])
def test_axe_finds_nothing_serious(browser, colours: str) -> None:
    axe = pytest.importorskip("axe_core_python", reason="needs axe-core-python")
    unfold(browser)
    features = [{"name": "prefers-color-scheme", "value": colours}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen", "features": features})
    # The page's own policy forbids eval, which a driver's injection does not need.
    browser.execute_script((Path(axe.__file__).parent / "axe.min.js").read_text())
    violations = browser.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {resultTypes: ['violations']}).then((r) => done(r.violations))"
    )
    assert [
        (each["id"], [node["target"] for node in each["nodes"]][:4])
        for each in violations
        if each["impact"] in ("serious", "critical")
    ] == []


@BROWSER
def test_a_screen_shows_tables_whole_and_a_phone_scrolls_each_by_itself(
    tmp_path, desktop, phone
) -> None:
    names = {"brax": "per_minibatch_normalised_advantages", "done_cut": "a, gae_lambda=0.95"}
    finals = {
        (task, names.get(variant, variant)): [1e3 * value for value in values]
        for (task, variant), values in realistic(tasks=("reacher", "ant_in_the_maze")).items()
    }
    plan = synthetic_study(tmp_path, finals, units={"reacher": 1e5})
    path = page.write([plan], tmp_path)
    widths = (
        "return [...document.querySelectorAll('.scroll')].map("
        "(each) => [each.scrollWidth, each.clientWidth])"
    )
    for driver, width in ((desktop, 1280), (phone, 390)):
        driver.get(path.as_uri())
        unfold(driver)
        assert driver.execute_script("return document.documentElement.scrollWidth") == width
        assert complaints(driver) == []
    assert all(whole <= seen for whole, seen in desktop.execute_script(widths))
    wider = [whole > seen for whole, seen in phone.execute_script(widths)]
    shown = (
        "return [...document.querySelectorAll('.scroll')].map((each) => {"
        "const cue = each.previousElementSibling;"
        "return cue?.className === 'swipe' && cue.getClientRects().length > 0})"
    )
    assert wider[0]
    assert phone.execute_script(shown) == wider, "a line says which tables go on to the right"
    assert not any(desktop.execute_script(shown))
    # Row names stay in view, and the pictures are those for a phone.
    left = (
        "const table = document.querySelector('.scroll'); table.scrollLeft = 200;"
        "return table.querySelector('tbody tr:not(.task) th').getBoundingClientRect().left"
    )
    assert 0 <= phone.execute_script(left) < 40
    size = "return document.querySelector('figure img').naturalWidth"
    assert phone.execute_script(size) < 400 < desktop.execute_script(size)
