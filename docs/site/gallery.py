"""Draws the pictures of docs/figures.md with the command that the page shows before each.

python docs/site/gallery.py [NAME ...]       writes docs/gallery/*.svg
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLDER = DOCS / "gallery"
SHOWN = re.compile(r"`([^`]+)`\n\n!\[[^]]*\]\(gallery/([\w.]+)\)$", re.M)
SCRIPT = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.M | re.S)


def pictures() -> dict[str, str]:
    """Return the command of each picture, which ends the paragraph before it, by its file."""
    shown = SHOWN.findall((DOCS / "figures.md").read_text())
    return {picture: command for command, picture in shown}


def draw(picture: str, command: str) -> None:
    """Run the command of a picture in an empty folder, and keep the file that it writes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "results" / "archive").mkdir(parents=True)
        (folder / "results" / "reference").symlink_to(ROOT / "results" / "reference")
        if command.startswith("ablations figure "):
            for study in (command.split()[2], "trivial_policies"):
                for file in (ROOT / "results" / "archive").glob(f"{study}-*"):
                    shutil.copy(file, folder / "results" / "archive")
        for script, content in SCRIPT.findall((DOCS / "learning-curves.md").read_text()):
            (folder / script).write_text(content)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
        )
        if done.returncode not in (0, 1):  # 1: the check of changed code fails, as it should
            raise SystemExit(f"{command}\n{done.stdout}\n{done.stderr}")
        stem, suffix = picture.split(".")
        drawn = [p for p in folder.rglob(f"*.{suffix}") if "reference" not in p.parts]
        if not drawn:
            raise SystemExit(f"{picture} was not drawn\n{done.stdout}\n{done.stderr}")
        shutil.copy(min(drawn, key=lambda p: stem not in p.name), FOLDER / picture)


def main() -> None:
    """Draw the pictures that are named, or all."""
    for picture, command in pictures().items():
        if len(sys.argv) < 2 or picture.split(".")[0] in sys.argv:
            print(picture, flush=True)
            draw(picture, command)


if __name__ == "__main__":
    main()
