"""Copy the code as it is submitted: jobs run the copy, also after later edits."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from ablations.core.files import digest_of_files
from ablations.records import folder_at_once

_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def copy_code(folder: Path, modules: Iterable[Path]) -> Path:
    """Copy top-level packages and modules into a folder named by their content; return it.

    Those installed for good (under site-packages) stay where they are, except for our own.

    Args:
        folder: under which the copy is made, if it is not there yet.
        modules: the file of each; of a package its __init__.py.
    """
    sources = sorted(set(filter(None, map(_source, modules))))
    files = [(path.relative_to(s.parent), path) for s in sources for path in _files(s)]
    final = folder / digest_of_files(files)[:16]
    if final.is_dir():
        return final
    with folder_at_once(final) as copy:
        for source in sources:
            if source.is_dir():
                shutil.copytree(source, copy / source.name, ignore=_LEFT_OUT)
            else:
                shutil.copy2(source, copy / source.name)
    return final


def _source(module: Path) -> Path | None:
    path = module.resolve()
    source = path.parent if path.name == "__init__.py" else path
    ours = source.name in ("ablations", "variants")
    return source if ours or not source.is_relative_to(sysconfig.get_path("purelib")) else None


def _files(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    return sorted(
        path
        for path in source.rglob("*")
        if path.is_file()
        and not any(
            part == "__pycache__" or part.startswith(".") for part in path.relative_to(source).parts
        )
    )
