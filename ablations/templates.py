"""Templates of HTML pages."""

from __future__ import annotations

from pathlib import Path

import jinja2


def templates(folder: Path) -> jinja2.Environment:
    """Return the templates of a folder. They escape all values."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
