"""Runs `ablations`, or a Python program that uses it, in forks of a process that has imported it: a
process of its own for every command, as a user's, without the seconds of CPU that its imports take.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import forks

from ablations.engine import worker
from ablations.engine.local import Workers
from ablations.engine.machine import PORTABLE_JAXLIB

_STARTED = Workers._start
# Where programs are kept and serve many commands: they take longer to compile than the other tests'
# and less to run.
_SHARED = "--xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true"


def with_shared_programs(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of commands that train what others of the tests train too."""
    if not version("jaxlib").startswith(PORTABLE_JAXLIB):
        return dict(environment)
    optimised = {k: v for k, v in environment.items() if k != "JAX_DISABLE_MOST_OPTIMIZATIONS"}
    return optimised | {"XLA_FLAGS": f"{environment.get('XLA_FLAGS', '')} {_SHARED}".strip()}


@contextlib.contextmanager
def serving() -> Iterator[None]:
    """Runs the server of forks, for this process and those that it starts."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[forks.ADDRESS] = f"{folder}/socket"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.environ[forks.ADDRESS])
            listener.listen(64)
            server = subprocess.Popen(
                [sys.executable, forks.__file__, "serve", str(listener.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                # The same code as this process, and no thread of OpenBLAS
                env=os.environ
                | {
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    "OPENBLAS_NUM_THREADS": "1",
                },
            )
        try:
            yield
        finally:
            del os.environ[forks.ADDRESS]
            server.communicate()


class Running:
    """A command that runs in a fork, with as much of `subprocess.Popen` as the tests need.

    command: "ablations" and its arguments, or "python", "-c" and a program. one_core: as on a
        machine that has one, so that `run` takes one worker. Killed when nobody holds this.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        one_core: bool = False,
    ):
        self.command, self.returncode = list(command), 0
        self._out = tempfile.TemporaryFile("a+")  # noqa: SIM115  # until `communicate`
        self._err = tempfile.TemporaryFile("a+")  # noqa: SIM115
        arguments = {"command": self.command, "one_core": one_core, "workers_are_forks": True}
        given = {name: one for name, one in environment.items() if name != forks.ADDRESS}
        with open(os.devnull) as nothing:
            files = [file.fileno() for file in (nothing, self._out, self._err)]
            self._fork = forks.Fork(arguments, str(folder), given, files)
        self.pid = self._fork.pid

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Return None while it runs, else 0."""
        return None if os.path.exists(f"/proc/{self.pid}") else 0

    def communicate(self, timeout: float = 1500) -> tuple[str, str]:
        """Wait for its end, and return what it wrote. timeout: seconds, against hanging; a busy
        machine is no reason to fail."""
        try:
            self.returncode = self._fork.wait(timeout)
        except TimeoutError:
            raise TimeoutError(f"{' '.join(self.command)}: {timeout} s") from None
        with self._out, self._err:
            for file in (self._out, self._err):
                file.seek(0)
            return self._out.read(), self._err.read()


def run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], one_core: bool = False
) -> CompletedProcess[str]:
    """Run a command as `Running` does, and return its outcome as `subprocess.run` does."""
    running = Running(command, folder, environment, one_core)
    out, err = running.communicate()
    return CompletedProcess(running.command, running.returncode, out, err)


def main(command: list[str], one_core: bool = False, workers_are_forks: bool = False) -> Any:
    """What a fork does, in its folder and environment."""
    if one_core:
        os.sched_setaffinity(0, {random.choice(list(os.sched_getaffinity(0)))})
    sys.path[0] = os.getcwd()
    import jax

    # Of what JAX reads when it is imported, what the tests set
    jax.config.update("jax_platforms", os.environ.get("JAX_PLATFORMS"))
    jax.config.update("jax_compilation_cache_dir", os.environ.get("JAX_COMPILATION_CACHE_DIR"))
    quick = os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS") == "1"
    jax.config.update("jax_disable_most_optimizations", quick)
    if workers_are_forks:
        Workers._start = _start_worker  # type: ignore[method-assign]
    if command[0] == "python":
        sys.argv = command[1:2]
        return exec(
            compile(command[2], "<string>", "exec", dont_inherit=True), {"__name__": "__main__"}
        )
    sys.argv = command
    from ablations.cli import main

    return main(command[1:])


class _Worker:
    """A fork of this process, with as much of `subprocess.Popen` as `Workers` needs."""

    def __init__(self, workers: Workers, index: int):
        workers.logs.mkdir(parents=True, exist_ok=True)
        workers._log(index).touch()
        self._process = multiprocessing.get_context("fork").Process(
            target=_work, args=(workers, index)
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


def _start_worker(workers: Workers, index: int) -> Any:
    """What `Workers._start` does, without imports. A process with threads is not forked."""
    return _Worker(workers, index) if threading.active_count() == 1 else _STARTED(workers, index)


def _work(workers: Workers, index: int) -> None:
    os.setsid()
    log = os.open(workers._log(index), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    environment = workers.job.backend.environment(workers.job, index)
    os.environ.clear()
    os.environ.update(environment)
    sys.exit(worker.main([str(workers.path), str(index), str(os.getppid())]))
