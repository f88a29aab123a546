"""What all tests share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forked
import pytest

TOY = Path(__file__).parent / "sweep" / "toy.py"
PUBLISHED = "cells/[!.]*"  # a folder with a dot is still being written


def pytest_configure(config: pytest.Config) -> None:
    """One compilation cache for all processes of the tests, kept between runs; and programs that
    compile in half the time, as they run for moments."""
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    if config.cache is not None:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))


# Files that take longest, or mostly wait, begin first, or the other processes wait for them.
FIRST = (
    "test_survival.py",
    "test_submission.py",
    "test_docs.py",
    "test_language.py",
    "test_ppo.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


# Files whose tests share nothing but their fixtures: any process may run any of them.
APART = ("test_survival.py", "test_submission.py", "test_docs.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file is one process's, as its tests share programs and fixtures."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return nodeid if Path(file).name in APART else file

    return ByFile(config, log)


@pytest.fixture(scope="module", autouse=True)
def _forget_programs() -> Iterator[None]:
    """Programs that one file compiled are of no use to the next; they add up to gigabytes."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()


class Shell:
    """Runs `ablations` as a user would: a process of its own in an empty folder, with the toy
    plugin. Programs of real trainers are shared by all; the toy's are each shell's own and can be
    counted.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.results = folder / "results"
        self.toys = {"TOY_DEATHS": str(folder / "deaths"), "TOY_HURRY": str(folder / "hurry")}
        self.environment = dict(os.environ) | self.toys
        self.programs = self.environment.pop("JAX_COMPILATION_CACHE_DIR", None)

    def command(self, *arguments: str, plugin: bool = True) -> list[str]:
        with_plugin = ["--plugin", "toy"] if plugin else []
        return [sys.executable, "-m", "ablations.cli", *arguments, *with_plugin]

    def start(self, *arguments: str, **keywords: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # whatever the shell ignores in which the tests run
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **keywords,  # type: ignore[call-overload]
        )

    def __call__(
        self, *arguments: str, code: int = 0, plugin: bool = True
    ) -> subprocess.CompletedProcess[str]:
        environment = dict(self.environment)
        if not plugin and self.programs:
            environment["JAX_COMPILATION_CACHE_DIR"] = self.programs
        command = self.command(*arguments, plugin=plugin)[3:]
        done = forked.run(["ablations", *command], self.folder, environment)
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def hurry(self) -> None:
        """From now on no toy is slow."""
        (self.folder / "hurry").touch()

    def curves(self) -> dict[str, bytes]:
        """Every published curve by its cell, to the byte."""
        found = self.results.glob(f"{PUBLISHED}/curve.parquet")
        return {path.parent.name: path.read_bytes() for path in found}

    def policies(self) -> dict[str, bytes]:
        """Every saved policy by its cell and step, to the byte."""
        found = self.results.glob(f"{PUBLISHED}/policies/*.npz")
        return {f"{path.parts[-3]}/{path.name}": path.read_bytes() for path in found}


@pytest.fixture(scope="session")
def shells(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Shell]:
    def make() -> Shell:
        folder = tmp_path_factory.mktemp("shell")
        (folder / "toy.py").write_text(TOY.read_text())
        (folder / "deaths").write_text("0")
        return Shell(folder)

    return make


@pytest.fixture
def shell(shells: Callable[[], Shell]) -> Shell:
    return shells()
