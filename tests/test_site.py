"""The site of the docs: built offline, links that lead somewhere, search, and what axe finds."""

from __future__ import annotations

import copy
import functools
import http.server
import inspect
import json
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import complaints, requests

from ablations.comparison import COLUMNS, compare
from ablations.figures import FIGURES

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "site"
sys.path.insert(0, str(SITE))
build, gallery, generate, notebook = (
    pytest.importorskip(name, reason="needs the extra docs")
    if name == "build"
    else __import__(name)
    for name in ("build", "gallery", "generate", "notebook")
)

BUILT = pytest.mark.inputs(
    *("README.md", "docs", "results/README.md", "results/details", "variants"),
    *("ablations/*.py", "ablations/commands", "ablations/presets", "ablations/studies"),
    *("ablations/regression", "ablations/comparison.py", "ablations/tasks", "ablations/trainers"),
)
SCHEMES = {"light": "default", "dark": "slate"}
READ = (
    "index.html",
    "docs/tables.html",
    "docs/figures.html",
    "docs/reference/components.html",
    "docs/gate.html",
)
SEARCHES = {
    "Brax GAE": ("results/details/brax_gae.html", "docs/reference/components.html"),
    "clip_value": ("results/details/value_clip.html", "docs/reference/presets.html"),
    "number of seeds": ("docs/seeds.html", "docs/own-runs.html"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    lines = build.build(folder)
    assert not lines, "\n".join(lines)
    return folder


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=built)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_navigation_names_every_page() -> None:
    """A new page of docs/ needs a line in docs/site/mkdocs.yml."""
    pages = {str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")}
    pages = {p for p in pages if not p.startswith("docs/examples/")}
    named = list(build.pages_of(build.settings()["nav"]))
    assert pages <= set(named), f"missing from docs/site/mkdocs.yml: {sorted(pages - set(named))}"
    assert len(named) == len(set(named))


@BUILT
def test_links_lead_somewhere_and_nothing_is_loaded_from_outside(built: Path) -> None:
    """Of a link or an anchor that is not there the build of the fixture complains."""
    for page in built.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|link|iframe)[^>]*?(?:src|href)=\"(https?:[^\"]+)", page.read_text()
        )
        assert not loaded, f"{page.name}: {loaded}"
    assert max(p.stat().st_size for p in (ROOT / "docs").rglob("*") if p.is_file()) < 1_000_000


@pytest.mark.parametrize("link", ["nowhere.md", "tables.md#nowhere"])
def test_a_link_that_leads_nowhere_fails_the_build(
    link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(folder: Path) -> None:
        (folder / "docs").mkdir()
        (folder / "docs" / "tables.md").write_text("# Tables\n")
        (folder / "docs" / "seeds.md").write_text(f"# Seeds\n\n[x]({link})\n")

    monkeypatch.setattr(build, "stage", few)
    assert any(link in line for line in build.build(tmp_path / "site"))


def test_reference_has_every_command_function_choice_and_column() -> None:
    import ablations
    import variants

    pages = generate.pages()
    for command in ("run", "table", "gate", "import", "check"):
        assert f"## ablations {command}\n" in pages["docs/reference/commands.md"]
    for name in ablations.__all__:
        assert f"### ablations.{name}\n" in pages["docs/reference/python.md"]
    components = pages["docs/reference/components.md"]
    for axis in variants.axes().values():
        for choice in axis.values():
            part = components.split(f"### {axis.name}={choice.name}\n")[1]
            for line in choice.formula.splitlines():
                assert line.strip() in part.split("\n## ")[0]
    columns = (inspect.getdoc(compare) or "").partition("Columns:\n")[2].partition("\n\n")[0]
    described = ", ".join(names for names, _ in generate.entries(" ".join(columns.split())))
    assert sorted(described.split(", ")) == sorted(COLUMNS)


def test_gallery_shows_every_kind_of_figure() -> None:
    pictures = gallery.pictures()
    assert {p.name for p in gallery.FOLDER.iterdir()} == pictures.keys()
    assert {*FIGURES} <= {name.split(".")[0] for name in pictures}


def test_a_picture_of_the_gallery_is_drawn_by_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def words(file: Path) -> list[str]:
        return re.findall(r"<text[^>]*>([^<]+)", file.read_text())

    committed = words(gallery.FOLDER / "differences.svg")
    monkeypatch.setattr(gallery, "FOLDER", tmp_path)
    gallery.draw("differences.svg", gallery.pictures()["differences.svg"])
    assert len(committed) > 5
    assert words(tmp_path / "differences.svg") == committed


def test_notebook_prints_what_it_shows() -> None:
    cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())["cells"]
    executed = copy.deepcopy(cells)
    notebook.execute(executed)
    assert executed == cells
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    assert all(len([line for line in source if line.strip()]) <= 14 for source in code)


SEARCH = """
const [query, done] = arguments, input = document.querySelector("[data-md-component=search-query]");
input.focus();
input.value = query;
input.dispatchEvent(new Event("input", {bubbles: true}));
input.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
const results = () => [...document.querySelectorAll(".md-search-result__link")].map((a) => a.href);
const wait = () => results().length ? done(results()) : setTimeout(wait, 100);
wait();
"""


@BUILT
@pytest.mark.parametrize("served", [True, False], ids=["served", "from disk"])
@pytest.mark.parametrize("query", SEARCHES)
def test_search_finds(query: str, served: bool, address: str, built: Path, desktop: Any) -> None:
    address = address if served else f"{built.as_uri()}/"
    desktop.get(f"{address}index.html")
    found = desktop.execute_async_script(SEARCH, query)
    pages = [link.removeprefix(address).partition("?")[0].partition("#")[0] for link in found]
    # The theme lists a page once, with its other places below it.
    assert set(SEARCHES[query]) & set([*dict.fromkeys(pages)][:8]), pages
    assert all(link.startswith(address) for link in requests(desktop) if link.startswith("http"))
    assert not complaints(desktop)


@BUILT
@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "dark"),
        *(pytest.param(*of, marks=pytest.mark.long) for of in ((390, "light"), (1280, "dark"))),
        pytest.param(1280, "light", marks=pytest.mark.long),
    ],
)
def test_no_serious_fault_for_readers_with_other_means(
    width: int, scheme: str, address: str, desktop: Any
) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    axe = pytest.importorskip("axe_core_python", reason="needs axe-core-python")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text()
    feature = {"name": "prefers-color-scheme", "value": scheme}
    desktop.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    desktop.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    faults = []
    origin = {"origin": address.rstrip("/"), "storageTypes": "local_storage"}
    desktop.execute_cdp_cmd("Storage.clearDataForOrigin", origin)  # keeps the scheme that was shown
    for page in READ:
        desktop.get(address + page)
        WebDriverWait(desktop, 60).until(
            lambda d: (
                d.execute_script("return document.body.dataset.mdColorScheme") == SCHEMES[scheme]
            )
        )
        desktop.execute_script(script)
        found = desktop.execute_async_script(
            "axe.run({resultTypes: ['violations']}).then((r) => arguments[0](r.violations))"
        )
        wide = desktop.execute_script("return document.documentElement.scrollWidth > innerWidth")
        faults += [f"{page} scrolls sideways"] * wide
        faults += [
            f"{page} {v['id']}: {n['html'][:120]} {[a['message'][:120] for a in n['any']]}"
            for v in found
            if v["impact"] in ("serious", "critical")
            for n in v["nodes"][:3]
        ]
    desktop.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert not faults, "\n".join(faults)
