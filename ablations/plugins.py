"""Loads plugins: a user's modules that register components, tasks, trainers or studies."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from ablations.core.files import digest_of_files
from ablations.errors import UserError, count

GROUP = "ablations.plugins"

_loaded: dict[str, str] = {}  # name -> digest


def load(names: Iterable[str] = ()) -> None:
    """Import the installed plugins (entry point group `ablations.plugins`) and the named modules.

    Modules may be in the current folder.

    Raises:
        UserError: a module cannot be imported.
    """
    for name in [*(point.value for point in entry_points(group=GROUP)), *names]:
        if name in _loaded:
            continue
        try:
            with _current_folder_first():
                module = importlib.import_module(name)
        except Exception as error:
            text = " ".join(str(error).split())
            raise UserError(
                f"cannot import the plugin '{name}': {type(error).__name__}: {text}"
            ) from error
        _loaded[name] = _digest(module)


@contextlib.contextmanager
def _current_folder_first() -> Iterator[None]:
    """Put the current folder first in the search path, and last afterwards.

    Otherwise a file there could replace a module of Python in later imports.
    """
    if "" in sys.path:
        sys.path.remove("")
    sys.path.insert(0, "")
    try:
        yield
    finally:
        sys.path.remove("")
        sys.path.append("")


def loaded() -> tuple[str, ...]:
    """Return the names of the loaded plugins, which workers must load too."""
    return tuple(_loaded)


def digests() -> dict[str, str]:
    """Return the digest of each loaded plugin's source, for the provenance of records."""
    return dict(_loaded)


def edited(used: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Yield a note for each plugin that was edited between records.

    `used` has the plugins of each record, module -> digest (see `digests`).
    """
    states: dict[str, Counter[str]] = {}
    for record in used:
        for name, state in record.items():
            states.setdefault(name, Counter())[state] += 1
    for name, counts in states.items():
        (usual, _), *others = counts.most_common()
        if others:
            yield (
                f"plugin '{name}' was edited between runs: {sum(n for _, n in others)} of "
                f"{count(counts.total(), 'run')} used {', '.join(state for state, _ in others)} "
                f"(most: {usual}); `run --fresh` trains all of them again"
            )


def _digest(module: ModuleType) -> str:
    top = sys.modules[module.__name__.partition(".")[0]].__file__ or module.__file__ or ""
    path = Path(top)
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    named = [(file.relative_to(path.parent), file) for file in files if file.is_file()]
    return digest_of_files(named)[:16]
