"""Templates of pages, in Markdown and HTML."""

from __future__ import annotations

import textwrap
from pathlib import Path

import jinja2

from ablations.report.formats.markdown import markdown_text

WIDTH = 110


def templates(folder: Path, *, html: bool = False) -> jinja2.Environment:
    """Return the templates of a folder, with the filters `md`, of plain text, and `wrap`.

    html: their values are escaped, and the page has no line break at its end.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        autoescape=html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not html,
    )
    environment.filters |= {"md": markdown_text, "wrap": _wrapped}
    return environment


def _wrapped(text: str) -> str:
    words = " ".join(text.split())
    return textwrap.fill(words, WIDTH, break_long_words=False, break_on_hyphens=False)
