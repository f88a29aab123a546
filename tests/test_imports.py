"""Imports run one way: read from the source, so that a function's own imports count too."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import digests
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("ablations", "variants")

# What a room may import of ours, besides itself. A room is a file or folder of `ablations`; "" is
# the front door, `ablations` itself.
COMMON = {"core", "errors", "git", "names", "parameters", "plugins", "private", "records"}
COMMON |= {"request"}
ALLOWED = {
    "errors": set(),
    "plugins": {"core", "errors"},
    "names": {"errors"},
    "private": {"errors"},
    "git": set(),
    "curve": set(),
    "parquet": set(),
    "core": {"errors", "names"},
    "records": {"core", "errors", "names", "parquet"},
    "parameters": {"core", "errors"},
    "request": {"errors", "parameters"},
    "stats": {"errors"},
    "spreadsheets": set(),
    "templates": set(),
    "scoring": {"curve", "stats"},
    "runs": {"core", "curve", "errors", "io", "plugins", "records", "scoring", "stats"},
    "comparison": {"errors", "records", "runs", "scoring", "stats"},
    "tables": {"comparison", "runs", "scoring", "spreadsheets", "stats", *COMMON},
    "figures": {"comparison", "curve", "regression", "runs", "scoring", "stats", "tables", *COMMON},
    "validation": {"core", "figures", "runs", "scoring", "stats", "studies", "engine", "tables"}
    | {"tasks", *COMMON},
    "tuning": {"runs", "scoring", "stats", "studies", "engine", "tables", *COMMON},
    "tasks": {"errors", "presets"},  # whose settings are a task's own
    "environments": {"errors", "tasks"},
    "studies": {"core", "errors", "names"},
    "presets": {"errors"},
    "trainers": {"core", "environments", "variants", "tasks", "errors", "records"},
    "engine": {"trainers", "tasks", "studies", "presets", "stats", "io", "curve"} | COMMON,
    "report": {"figures", "runs", "stats", "tables", "templates", *COMMON},
    "until": {"comparison", "core", "errors", "records", "runs", "stats", "engine"},
    "answers": {"comparison", "figures", "presets", "runs", "scoring", "stats", "studies", "tables"}
    | COMMON,
    "gate": {"engine", "trainers", "studies", "runs", "stats", *COMMON},
    # Figure and table of a check that fails.
    "regression": {"curve", "figures", "runs", "scoring", "stats", "tables", *COMMON},
    # Imported runs have their learned ranges stored.
    "io": {"core", "curve", "errors", "names", "parquet", "parameters", "private", "records"}
    | {"runs", "spreadsheets", "studies"},
    # They hold or show what a worker has saved: its file of a policy, its compilation cache.
    "loading": {"environments", "presets", "engine", "trainers", "tasks", *COMMON},
    "episode": {"environments", "loading", "engine", "tasks", "templates", "trainers"} | COMMON,
}
ABOVE_ALL = {"", "cli", "commands"}
# Of the engine, what these two may see.
OF_THE_ENGINE = {
    "loading": {"ablations.engine.checkpoints"},
    "episode": {"ablations.engine.machine"},
}

# extra, or "late" for what would make every start slower -> (module, what only its functions
# import): a package of it, or a module of ours that imports such a package at its top. Nothing else
# is imported by functions.
DELAYED: Mapping[str, Sequence[tuple[str, str]]] = {
    "gymnax": [("ablations.tasks.gymnax", "gymnax")],
    "playground": [("ablations.tasks.playground", "mujoco_playground")],
    "late": [
        ("ablations.cli", "cyclopts"),
        ("ablations.cli", "ablations.parameters"),
        ("ablations.cli", "ablations.trainers"),
        ("ablations.cli", "ablations.trainers.values"),
        ("ablations.commands.checking", "ablations.figures"),
        ("ablations.commands.designing", "ablations.figures"),
        ("ablations.commands.results", "ablations.answers.pages"),
        ("ablations.commands.results", "ablations.figures"),
        ("ablations.commands.results", "ablations.report.page"),
        ("ablations.parquet", "pyarrow"),
        ("ablations.regression.baselines", "ablations.runs"),
        ("ablations.regression.check", "pandas"),
        ("ablations.regression.fixture", "ablations.figures"),
        ("ablations.regression.fixture", "ablations.tables.formats"),
        ("ablations.tables.formats", "rich"),
        ("ablations.tables.formats", "tabulate"),
        ("ablations.validation", "ablations.figures"),
    ],
    "slurm": [("ablations.engine.slurm.submit", "submitit")],
    "tensorboard": [("ablations.io.tensorboard", "tensorboard")],
    "test": [("ablations.regression.plugin", "ablations.regression.fixture")],
    "train": [
        ("ablations.commands.rendering", "ablations.episode.film"),
        ("ablations.commands.rendering", "ablations.episode.page"),
        ("ablations.commands.rendering", "ablations.episode.rollout"),
        ("ablations.commands.rendering", "ablations.episode.scene"),
        ("ablations.commands.rendering", "ablations.loading"),
        ("ablations.episode.film", "mujoco"),
        ("ablations.engine.backends.compiled", "ablations.engine.backends.compiled.program"),
        ("ablations.engine.backends.compiled", "jax"),
        ("ablations.engine.checkpoints", "jax"),
        ("ablations.engine.checkpoints", "flax"),
        ("ablations.engine.machine", "jax"),
        ("ablations.tasks.control", "brax"),
        ("ablations.tasks.control", "jax"),
        ("ablations.tasks.control", "mujoco"),
        ("ablations.tasks.control", "ablations.tasks.cart"),
        ("ablations.tasks.language.problems", "ablations.tasks.language.puzzles"),
        ("ablations.trainers.spec", "variants"),
        ("ablations.trainers.spec", "variants.absent"),
    ],
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
        if room(other) == "engine" and mine in OF_THE_ENGINE:
            assert other in OF_THE_ENGINE[mine], f"{module} imports {other}"


def test_nothing_imports_the_command_line() -> None:
    for module in FILES:
        if room(module) != "cli":
            assert "cli" not in map(room, imports(module)), module


def test_executors_know_no_backend_and_backends_no_executor() -> None:
    names = ("local", "worker", "slurm")
    executors, backends = (
        tuple(f"ablations.engine.{n}" for n in names),
        "ablations.engine.backends.",
    )
    for mine, theirs in ((executors, backends), (backends, executors)):
        for module in (name for name in FILES if name.startswith(mine)):
            assert not [name for name in imports(module) if name.startswith(theirs)], module


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Neither when they are imported nor when their functions are called."""
    seen: dict[str, bool] = {}  # module -> whether all that it imports has been looked at
    way: list[str] = []

    def visit(module: str) -> None:
        way.append(module)
        seen[module] = False
        for other in sorted(imports(module)):
            if other not in seen:
                visit(other)
            else:
                assert seen[other], f"a circle: {' -> '.join([*way[way.index(other) :], other])}"
        seen[module] = True
        way.pop()

    for module in FILES:
        if module not in seen:
            visit(module)


def delayed(module: str) -> set[str]:
    """The packages, and the modules of ours, that only functions of a module import."""
    found = set()
    tree = ast.parse(FILES[module].read_text())
    at_top = [*_statements(tree, False)]
    for node in _statements(tree, True):
        if node not in at_top:
            found |= {_imported(node, alias) for alias in node.names}
    return found


def _imported(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    """The module of ours that a statement imports, or the package of others."""
    name = alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
    if name.partition(".")[0] not in PACKAGES:
        return name.partition(".")[0]
    return name if name in FILES else name.rpartition(".")[0]


def test_functions_import_what_an_extra_brings_at_the_edges_alone() -> None:
    found = {(module, other) for module in FILES for other in delayed(module)}
    listed = [edge for edges in DELAYED.values() for edge in edges]
    assert sorted(found) == sorted(listed), "import it at the top, or name the edge in DELAYED"


def test_files_that_are_skipped_where_nothing_changed_name_all_that_they_import() -> None:
    """Of ours: modules of the packages and of the tests (digests.RESTS_ON), but the front door."""
    beside = {path.stem: path for path in (ROOT / "tests").rglob("*.py")}
    for path, inputs in digests.RESTS_ON.items():
        todo, found = [path], {path}
        while todo:
            for node in _statements(ast.parse(todo.pop().read_text()), True):
                for alias in node.names:
                    module = _imported(node, alias)
                    other = FILES.get(module) or beside.get(module)
                    if other and module != "ablations" and other not in found:
                        found.add(other)
                        todo.append(other)
        named = {file for one in inputs for file in (ROOT / one).rglob("*.py")}
        named = {file for file in named if not file.name.startswith("test_")}
        named |= {ROOT / one for one in inputs}
        missing = sorted(str(one.relative_to(ROOT)) for one in found - named - {path})
        assert not missing, f"{path.name} rests on {', '.join(missing)}: name it in RESTS_ON"
