"""What all tests share."""

from __future__ import annotations

import contextlib
import gc
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import browser
import digests
import forked
import forks
import pytest
import synthetic
from digests import files

from ablations.engine.machine import PORTABLE_JAXLIB
from ablations.records import Plan

TOY = Path(__file__).parent / "engine" / "toy.py"
PUBLISHED = "cells/[!.]*"  # a folder with a dot is still being written


def pytest_configure(config: pytest.Config) -> None:
    """One compilation cache for all processes of the tests, kept between runs; programs that
    compile in a third of the time, as they run for moments; and one process that all fork from."""
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads spin while they wait
    gc.set_threshold(20_000, 20, 20)  # traces are many objects and little garbage
    if version("jaxlib").startswith(PORTABLE_JAXLIB):  # XLA ends a process over an unknown flag
        quick = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
        os.environ.setdefault("XLA_FLAGS", quick)
    if cache := getattr(config, "cache", None):  # none with -p no:cacheprovider
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache.mkdir("jax")))
    for mark in digests.MARKS:
        config.addinivalue_line("markers", mark)
    if not hasattr(config, "workerinput"):  # not one of the processes that xdist starts
        serving = forked.serving()
        serving.__enter__()
        config.add_cleanup(lambda: serving.__exit__(None, None, None))
        config.pluginmanager.register(digests.Passed())
        python = shlex.join([sys.executable, "-S", forks.__file__])
        if config.pluginmanager.hasplugin("xdist"):
            ours = f"popen//python={python}"
            config.option.tx = [ours if one == "popen" else one for one in config.option.tx]


# Files of more than 14 seconds in a run of all of them, by --durations: not for the inner loop. Of
# those kept although they take longer, each compares formulas or statistics with an oracle.
SLOW = files(
    {
        ".": "api docs hostile policies site until",
        "analysis": "page",
        "cli": "bad_input commands every_command explain light_install selection",
        "commands": "gate runs",
        "engine": "bits checkpoints run slurm_jobs",
        "engine/slurm": "submission survival",
        "episode": "episode_page render rollout",
        "figures": "figures",
        "io": "archives curves import",
        "presets": "normalizers updates",
        "regression": "check check_command our_trainers_still_learn plugin",
        "tasks": "playground tasks",
        "tasks/language": "puzzles",
        "trainers/control": "critic_and_statistics every_choice loop_mutations "
        "networks ppo states_and_minibatches",
        "trainers/language": "decoder language",
        "variants": "formulas mutations switching",
    }
)
# Files that take longest, or mostly wait, begin first, or the other processes wait for them.
FIRST = files(
    {
        "engine/slurm": "survival submission",
        ".": "docs",
        "answers": "pages",
        "trainers/language": "language",
        "trainers/control": "ppo",
        "engine": "run",
        "analysis": "page",
    }
)
# Files whose tests share nothing but their fixtures: any process may run any of them.
APART = files({"engine/slurm": "survival submission", ".": "docs", "cli": "every_command"})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out the files that take long")
    parser.addoption("--all", action="store_true", help="long forms, and tests of unchanged inputs")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """They are not even imported."""
    return True if config.getoption("--fast") and collection_path in SLOW else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    digests.skip_unchanged(items, bool(config.getoption("--all")))
    places = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish() -> None:
    """What was imported stays: no collection of garbage need look at it again."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file is one process's, as its tests share programs and fixtures."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return nodeid if config.rootpath / file in APART else file

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
        self.shared = self.environment.get("JAX_COMPILATION_CACHE_DIR")
        self.programs = folder / "programs"
        self.environment["JAX_COMPILATION_CACHE_DIR"] = str(self.programs)

    def command(self, *arguments: str, plugin: bool = True) -> list[str]:
        with_plugin = ["--plugin", "toy"] if plugin else []
        return [sys.executable, "-m", "ablations.cli", *arguments, *with_plugin]

    def start(self, *arguments: str) -> forked.Running:
        command = ["ablations", *self.command(*arguments)[3:]]
        return forked.Running(command, self.folder, self.environment)

    def __call__(
        self, *arguments: str, code: int = 0, plugin: bool = True
    ) -> subprocess.CompletedProcess[str]:
        environment = dict(self.environment)
        if not plugin and self.shared:
            environment["JAX_COMPILATION_CACHE_DIR"] = self.shared
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
def run_all(request: pytest.FixtureRequest) -> bool:
    """Whether campaigns take their long form."""
    return bool(request.config.getoption("--all"))


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


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., tuple[Plan, Path]]:
    """study(finals, **options) -> (plan, results folder); see `synthetic_study`."""

    def make(
        finals: Mapping[tuple[str, str], Sequence[float]], **options: Any
    ) -> tuple[Plan, Path]:
        return synthetic.synthetic_study(tmp_path, finals, **options), tmp_path

    return make


@pytest.fixture
def study_runs(study: Callable[..., tuple[Plan, Path]]) -> Callable[..., Any]:
    """study_runs(finals, **options) -> the runs of such a study, as they are read."""
    from ablations.runs import Runs

    def read(finals: Mapping[tuple[str, str], Sequence[float]], **options: Any) -> Runs:
        plan, results = study(finals, **options)
        return Runs.read(results, plan)

    return read


@pytest.fixture(scope="module")
def _drivers() -> Iterator[Callable[[bool], Any]]:
    """One browser of a desktop and one of a phone for all tests of a file."""
    with contextlib.ExitStack() as opened:
        yield cache(lambda phone: opened.enter_context(browser.opened(phone)))


@pytest.fixture
def desktop(_drivers: Callable[[bool], Any]) -> Iterator[Any]:
    yield from _blank(_drivers(False))


@pytest.fixture
def phone(_drivers: Callable[[bool], Any]) -> Iterator[Any]:
    yield from _blank(_drivers(True))


def _blank(driver: Any) -> Iterator[Any]:
    """A browser without a page, and without what was said of the last one."""
    browser.complaints(driver)
    browser.requests(driver)
    yield driver
    driver.get("about:blank")
