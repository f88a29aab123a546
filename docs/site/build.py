"""Builds the site of these pages, without network. The build fails if a link leads nowhere.

    python docs/site/build.py [FOLDER]       by default site/

The site has the folders of the repository, so that links mean the same in both. It has the pages of `nav` and everything
that they link to: pages, pictures, files, and a listing for each folder.
"""

from __future__ import annotations

import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

SITE = Path(__file__).parent
ROOT = SITE.parents[1]
sys.path.insert(0, str(SITE))
STATIC = (
    *(f"docs/site/{name}" for name in ("extra.css", "extra.js", "iframe-worker.js")),
    "LICENSE",
)
TEXTS = {".py": "python", ".toml": "toml", ".txt": "text"}
# A search finds answers before pages that hold everything.
BOOSTS = {"results/details/": 3, "results/reference/": 0.5}
LINK = re.compile(r"(?<=\]\()([^)\s#]+)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# An interval, with its estimate, stays on one line. Code is left as it is.
INTERVAL = re.compile(
    rf"{FENCE.pattern}|`[^`]*`|(?:[+\u2212-]?[\d.]+%? )?\[[+\u2212-]?[\d.]+, [+\u2212-]?[\d.]+\]",
    FENCE.flags,
)


def settings() -> dict[str, Any]:
    """Return the settings in mkdocs.yml."""
    from mkdocs.utils.yaml import yaml_load

    with (SITE / "mkdocs.yml").open() as file:
        return yaml_load(file)


def pages_of(nav: Any) -> Iterator[str]:
    """Yield the paths that a navigation names, relative to the repository."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        yield from pages_of([*nav.values()])
    else:
        for each in nav:
            yield from pages_of(each)


def targets(page: Path, text: str) -> Iterator[Path]:
    """Yield what a page links to within the repository."""
    for target in LINK.findall(FENCE.sub("", text)):
        if "://" not in target and not target.startswith("mailto:"):
            yield (page.parent / target).resolve()


def listing(folder: Path) -> str:
    """Write a page that lists the files of a folder, with the text of code and text files."""
    lines = [f"# {folder.relative_to(ROOT)}", ""]
    for file in sorted(f for f in folder.iterdir() if f.is_file() and f.suffix != ".sha256"):
        language = TEXTS.get(file.suffix)
        lines.append(f"- `{file.name}`" if language is None else f"\n## {file.name}\n")
        if language is not None:
            lines += [f"```{language}", file.read_text().rstrip(), "```"]
    return "\n".join([*lines, ""])


def stage(folder: Path) -> None:
    """Copy the pages of the site, and everything that they link to, into a folder."""
    import generate

    generated = generate.pages()
    waiting = [ROOT / name for name in (*pages_of(settings()["nav"]), *STATIC)]
    staged: set[Path] = set()
    while waiting:
        path = waiting.pop()
        name = str(path.relative_to(ROOT))
        if path in staged or not (path.exists() or name in generated):
            continue  # mkdocs names a link that leads nowhere
        staged.add(path)
        to = folder / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            to.mkdir(exist_ok=True)
            (to / "index.md").write_text(listing(path))
        elif path.suffix == ".md":
            text = generated.get(name) or path.read_text()
            waiting += targets(path, text)
            boost = next((b for start, b in BOOSTS.items() if name.startswith(start)), 1)
            head = f"---\nsearch: {{boost: {boost}}}\n---\n"
            text = INTERVAL.sub(_unbroken, text)
            to.write_text(head + LINK.sub(partial(_page, path), text))
        else:
            shutil.copy(path, to)


def _page(page: Path, link: re.Match[str]) -> str:
    """Replace a link to a folder by a link to its listing, and a link to a notebook by a link to its page."""
    target = link[1]
    folder = "://" not in target and (page.parent / target).is_dir()
    if target.endswith(".ipynb") and page.name != "notebook.md":
        return target.removesuffix("ipynb") + "md"
    return f"{target.rstrip('/')}/index.md" if folder else target


def _unbroken(found: re.Match[str]) -> str:
    """Return an interval with spaces that do not break; code as it is."""
    return found[0] if found[0].startswith("`") else found[0].replace(" ", "\N{NO-BREAK SPACE}")


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def build(site: Path) -> list[str]:
    """Build the site into a folder and return the warnings of mkdocs."""
    from mkdocs.commands.build import build as build_pages
    from mkdocs.config import load_config

    complaints = _Warnings()
    logger = logging.getLogger("mkdocs")
    logger.addHandler(complaints)
    with tempfile.TemporaryDirectory() as staged:
        stage(Path(staged))
        config = load_config(
            str(SITE / "mkdocs.yml"), docs_dir=staged, site_dir=str(site.absolute())
        )
        config.plugins.on_startup(command="build", dirty=False)
        build_pages(config)
    logger.removeHandler(complaints)
    return complaints.lines


def main() -> int:
    """Build; print what is wrong."""
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"
    complaints = build(site)
    for line in complaints:
        print(line, file=sys.stderr)
    print(f"{site / 'index.html'}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
