"""Imports run one way: read from the source, so that a function's own imports count too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("ablations", "variants")

# What a room may import of ours, besides itself. A room is a file or folder of `ablations`; "" is
# the front door, `ablations` itself.
COMMON = {"core", "errors", "git", "names", "plugins", "private", "records", "request"}
ALLOWED = {
    "errors": set(),
    "plugins": {"core", "errors"},
    "names": {"errors"},
    "private": set(),
    "git": set(),
    "distributions": set(),
    "curve": set(),
    "parquet": {"core"},
    "core": {"errors", "names"},
    "records": {"core", "errors", "names", "parquet"},
    "request": {"errors"},
    "selecting": {"errors", "request"},
    "looks": {"distributions"},
    "tasks": {"errors", "presets"},  # whose settings are a task's own
    "environments": {"errors", "tasks"},
    "studies": {"core", "errors", "names"},
    "presets": {"errors"},
    "logs": {"core", "curve", "errors"},
    "trainers": {"core", "environments", "variants", "tasks", "errors", "records"},
    "sweep": {"trainers", "tasks", "studies", "presets", "looks", "logs", "curve", *COMMON},
    "report": {"curve", "looks", "distributions", *COMMON - {"git", "private"}},
    "exam": {"core", "sweep", "report", "studies", "tasks", "errors", "records", "request"},
    "until": {"core", "sweep", "report", "looks", "errors", "records"},
    "tuning": {"sweep", "report", "studies", "errors", "records", "request"},
    "gate": {"sweep", "trainers", "studies", "report", "looks", "distributions", *COMMON},
    "noise": {"sweep", "trainers", "studies", "report", "distributions", *COMMON},
    # The intervals and the style of its figures.
    # And the readers of a night's metrics.
    "regression": {"curve", "report", "looks", "distributions", "exchange", "logs", *COMMON},
    # The scores that it exports.
    "exchange": {
        "core",
        "curve",
        "report",
        "logs",
        "errors",
        "names",
        "private",
        "records",
        "parquet",
    },
    # They hold or show what a worker has saved: its file of a policy, its compilation cache.
    "policies": {"environments", "sweep", "trainers", "tasks", *COMMON},
    "episode": {"environments", "policies", "report", "sweep", "trainers", "tasks", *COMMON},
}
ABOVE_ALL = {"", "cli"}
# Of the engine, what these two may see.
OF_THE_ENGINE = {
    "policies": {"ablations.sweep.snapshots", "ablations.sweep.checkpoints"},
    "episode": {"ablations.sweep.machine"},
}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {
    module_of(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))
}


@cache
def imports(module: str, *, inner: bool = True) -> frozenset[str]:
    """The modules of ours that a module imports; inner: also when its functions are called."""
    tree = ast.parse(FILES[module].read_text())
    found = set()
    for node in _statements(tree, inner):
        assert not getattr(node, "level", 0), f"{module}: a relative import"
        for alias in node.names:
            names = [alias.name]
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}", str(node.module)]
            known = [name for name in names if name in FILES]
            found.update(known[:1])
    return frozenset(found - {module})


def _statements(node: ast.AST, inner: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements, but for those that only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for other in child.orelse:
                yield from _statements(other, inner)
        elif inner or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _statements(child, inner)


def room(module: str) -> str:
    parts = module.split(".")
    return parts[0] if parts[0] != "ablations" else (parts[1] if len(parts) > 1 else "")


@pytest.mark.parametrize("module", [name for name in FILES if room(name) not in ABOVE_ALL])
def test_a_room_imports_only_what_is_below_it(module: str) -> None:
    mine = room(module)
    allowed = {mine} if mine == "variants" else {mine, *ALLOWED[mine]}
    for other in sorted(imports(module)):
        assert room(other) in allowed, f"{module} imports {other}"
        if room(other) == "sweep" and mine in OF_THE_ENGINE:
            assert other in OF_THE_ENGINE[mine], f"{module} imports {other}"


def test_nothing_imports_the_command_line() -> None:
    for module in FILES:
        if room(module) != "cli":
            assert "cli" not in map(room, imports(module)), module


def test_executors_know_no_backend_and_backends_no_executor() -> None:
    names = ("executor", "local", "crew", "worker", "slurm")
    executors, backends = tuple(f"ablations.sweep.{n}" for n in names), "ablations.sweep.backends."
    for mine, theirs in ((executors, backends), (backends, executors)):
        for module in (name for name in FILES if name.startswith(mine)):
            assert not [name for name in imports(module) if name.startswith(theirs)], module


def test_formats_know_tables_and_tables_no_format() -> None:
    for module, path in FILES.items():
        if path.parent.name == "tables":
            others = [name for name in imports(module) if name.startswith("ablations.report.form")]
            assert not others, f"{module} imports {others}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    """When they are imported: what a function imports when it is called closes no circle."""
    seen: dict[str, bool] = {}  # module -> whether all that it imports has been looked at
    way: list[str] = []

    def visit(module: str) -> None:
        way.append(module)
        seen[module] = False
        for other in sorted(imports(module, inner=False)):
            if other not in seen:
                visit(other)
            else:
                assert seen[other], f"a circle: {' -> '.join([*way[way.index(other) :], other])}"
        seen[module] = True
        way.pop()

    for module in FILES:
        if module not in seen:
            visit(module)


def test_the_check_sees_what_functions_import_and_not_what_type_checkers_do() -> None:
    code = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import hidden\n"
        "def f():\n    import inner\n"
        "import outer\n"
    )
    names = [one.names[0].name for one in _statements(ast.parse(code), True)]
    assert names == ["TYPE_CHECKING", "inner", "outer"]
    names = [one.names[0].name for one in _statements(ast.parse(code), False)]
    assert names == ["TYPE_CHECKING", "outer"]
