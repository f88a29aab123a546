"""Executes a notebook and stores its output, or writes it as Markdown.

python docs/site/notebook.py docs/notebook.ipynb        runs in the folder of the notebook
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def execute(cells: list[dict[str, Any]]) -> None:
    """Run the code cells in order, in one namespace, and keep what each prints as its output."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            count += 1
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("".join(cell["source"]), f"<cell {count}>", "exec"), namespace)
            text = printed.getvalue().splitlines(keepends=True)
            cell["execution_count"] = count
            cell["outputs"] = (
                [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
            )


def markdown(path: Path) -> str:
    """Return a notebook as a page: its text, its code, and what that printed."""
    return "\n\n".join(_parts(json.loads(path.read_text())["cells"])) + "\n"


def _parts(cells: list[dict[str, Any]]) -> Iterator[str]:
    for place, cell in enumerate(cells):
        text = "".join(cell["source"])
        yield text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
        if place == 0:
            yield "[Download the notebook](notebook.ipynb)."
        for output in cell.get("outputs", ()):
            yield f"```text\n{''.join(output['text']).rstrip()}\n```"


def main() -> None:
    """Execute the notebook that is named, in its folder, and write it back."""
    path = Path(sys.argv[1]).absolute()
    os.chdir(path.parent)
    notebook = json.loads(path.read_text())
    execute(notebook["cells"])
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
