"""Runs `ablations`, or a Python program that uses it, in forks of a process that has imported it: a
process of its own for every command, as a user's, without the seconds of CPU that its imports take.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from multiprocessing import forkserver
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from ablations.sweep import worker
from ablations.sweep.crew import Crew
from ablations.sweep.machine import PORTABLE_JAXLIB, worker_environment

_STARTED = Crew._start
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["imported"])


# Where programs are kept and serve many commands: they compile in 1.6 times the time of the other
# tests' and run in a quarter of it.
_SHARED = "--xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true"


def with_shared_programs(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of commands that train what others of the tests train too."""
    if not version("jaxlib").startswith(PORTABLE_JAXLIB):
        return dict(environment)
    optimised = {k: v for k, v in environment.items() if k != "JAX_DISABLE_MOST_OPTIMIZATIONS"}
    return optimised | {"XLA_FLAGS": f"{environment.get('XLA_FLAGS', '')} {_SHARED}".strip()}


def run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    seconds: float = 1500,
    one_core: bool = False,
) -> CompletedProcess[str]:
    """The outcome of a command in a folder, as `subprocess.run` tells it.

    command: "ablations" and its arguments, or "python", "-c" and a program. seconds: against
        hanging; a busy machine is no reason to fail. one_core: as on a machine that has one, so
        that `run` takes one worker.
    """
    with pytest.MonkeyPatch.context() as server:
        # What JAX reads when it is imported, and each command has its own
        server.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
        # The server of Python 3.11 does not look where this process does
        server.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        forkserver.ensure_running()
    with tempfile.TemporaryDirectory() as said:
        texts = Path(said) / "out", Path(said) / "err"
        process = _CONTEXT.Process(
            target=_main,
            args=(list(command), str(folder), dict(environment), *map(str, texts), one_core),
        )
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"{' '.join(command)}: {seconds} s")
        return CompletedProcess(
            list(command), process.exitcode, *(text.read_text() for text in texts)
        )


def _main(
    command: list[str],
    folder: str,
    environment: dict[str, str],
    out: str,
    err: str,
    one_core: bool,
) -> None:
    if one_core:
        os.sched_setaffinity(0, {random.choice(list(os.sched_getaffinity(0)))})
    assert "imported" in sys.modules, "the server has imported nothing"
    for path, descriptor in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, folder)
    sys.argv = command
    import jax

    if cache := environment.get("JAX_COMPILATION_CACHE_DIR"):
        jax.config.update("jax_compilation_cache_dir", cache)
    Crew._start = _start_worker  # type: ignore[method-assign]
    if command[0] == "python":
        exec(compile(command[2], "<string>", "exec"), {"__name__": "__main__"})
        sys.exit()
    from ablations.cli import main

    sys.exit(main(command[1:]))


class _Worker:
    """A fork of this process, with as much of `subprocess.Popen` as a crew needs."""

    def __init__(self, crew: Crew, index: int):
        crew.logs.mkdir(parents=True, exist_ok=True)
        crew._log(index).touch()
        self._process = multiprocessing.get_context("fork").Process(
            target=_work, args=(crew, index)
        )
        self._process.start()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> None:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("worker", timeout or 0.0)

    def send_signal(self, number: int) -> None:
        os.kill(self._process.pid or 0, number)

    def kill(self) -> None:
        self._process.kill()


def _start_worker(crew: Crew, index: int) -> Any:
    """What `Crew._start` does, without imports. A process with threads is not forked."""
    return _Worker(crew, index) if threading.active_count() == 1 else _STARTED(crew, index)


def _work(crew: Crew, index: int) -> None:
    os.setsid()
    log = os.open(crew._log(index), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.environ.update(worker_environment(accelerator=crew.order.accelerator))
    sys.exit(worker.main([str(crew.path), str(index)]))
