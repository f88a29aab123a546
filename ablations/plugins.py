"""Load modules of the user's that register choices, axes, tasks, trainers or studies."""

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

    A module is looked for in the current folder too.

    Raises:
        UserError: one does not import.
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
                f"the plugin '{name}' does not import: {type(error).__name__}: {text}"
            ) from error
        _loaded[name] = _digest(module)


@contextlib.contextmanager
def _current_folder_first() -> Iterator[None]:
    """Look for modules in the current folder first, and afterwards last.

    What is imported later may be a module of Python's that a file there is named as.
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
    """Return the names of the loaded plugins, which a worker has to load too."""
    return tuple(_loaded)


def digests() -> dict[str, str]:
    """Return the digest of each loaded plugin's source, for the provenance of records."""
    return dict(_loaded)


def edited(used: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Yield a line for each plugin that was edited between the records that are shown together.

    used: the plugins of each record, module -> digest, as `digests` gives them.
    """
    states: dict[str, Counter[str]] = {}
    for record in used:
        for name, state in record.items():
            states.setdefault(name, Counter())[state] += 1
    for name, found in states.items():
        (usual, _), *others = found.most_common()
        if others:
            yield (
                f"plugin '{name}' was edited in between: {sum(n for _, n in others)} of "
                f"{count(found.total(), 'cell')} ran with {', '.join(one for one, _ in others)} "
                f"(the most: {usual}); `run --fresh` computes all of them again"
            )


def _digest(module: ModuleType) -> str:
    """Digest the Python files of a module's top-level package, as they are now."""
    top = sys.modules[module.__name__.partition(".")[0]].__file__ or module.__file__ or ""
    path = Path(top)
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    there = [(file.relative_to(path.parent), file) for file in files if file.is_file()]
    return digest_of_files(there)[:16]
