"""A process that imports once what the tests' processes need, and forks itself for each of them.

    python tests/forks.py serve DESCRIPTOR   listens at this socket; ends with its standard input
    python tests/forks.py -u -c PROGRAM      is Python, forked from there: what xdist starts

Imports the rest at the first request, so that the second form starts quickly. All forks have one
hash seed: what another seed may change needs a process of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# What the tests' processes would each import anew; none of it starts a thread.
IMPORTED = (
    *("ablations.cli", "ablations.commands.checking", "ablations.commands.describe"),
    *("ablations.commands.designing", "ablations.commands.gating", "ablations.commands.results"),
    *("ablations.commands.rendering", "ablations.commands.watching", "jax", "flax.linen", "optax"),
    *("variants", "ablations.trainers.revisions", "ablations.trainers.control.ppo"),
    *("ablations.trainers.language.trainer", "ablations.engine.backends.compiled.program"),
    *("ablations.engine.local", "ablations.tables", "ablations.figures", "ablations.report.page"),
    *("scipy.stats", "pandas", "pyarrow.parquet", "hypothesis"),
)
ADDRESS = "TESTS_FORKS"  # the environment variable with the path of the socket


class Fork:
    """A running fork. It is killed when nobody holds this object's end of the line any more.

    pid: of its process, which is reaped as soon as it ends. arguments: of `forked.main`. folder:
    where it runs. environment: all of it. files: what its standard input, output and errors are.
    """

    def __init__(
        self,
        arguments: Mapping[str, Any],
        folder: str,
        environment: Mapping[str, str],
        files: Sequence[int],
    ):
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(os.environ[ADDRESS])
        socket.send_fds(self._line, [b"."], files)
        self._line.sendall(json.dumps([arguments, folder, dict(environment)]).encode())
        self._line.shutdown(socket.SHUT_WR)
        self._told = self._line.makefile()
        self.pid = self._number()

    def wait(self, seconds: float | None = None) -> int:
        """Its exit code, negative after a signal. Kills it after so many seconds, and raises
        TimeoutError."""
        self._line.settimeout(seconds)
        with self._line, self._told:
            return self._number()

    def _number(self) -> int:
        line = self._told.readline()
        if not line:
            raise RuntimeError("no fork: the server of forks has ended, or could not fork")
        return int(line)


def serve(descriptor: int) -> None:
    with socket.socket(fileno=descriptor) as listener:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that attend
        main: Callable[..., Any] | None = None
        while True:
            ready, _, _ = select.select([listener, 0], [], [])
            if 0 in ready:  # whoever started this has ended
                return
            line, _ = listener.accept()
            if main is None:
                main = _imported()
                assert not _threads(), "a process with threads cannot be forked"
                gc.freeze()  # else each fork's collections copy all of it
                gc.set_threshold(20_000, 20, 20)  # traces are many objects and little garbage
            with line, contextlib.suppress(BlockingIOError):  # no room for a process
                if not os.fork():
                    listener.close()
                    _attend(line, main)


def _imported() -> Callable[..., Any]:
    for name in IMPORTED:
        importlib.import_module(name)
    from ablations.tasks.control import quiet

    with quiet():
        importlib.import_module("brax.envs")
    from forked import main

    return main


def _threads() -> set[str]:
    """Names of this process's other threads, but for that of jemalloc (pyarrow's), which forks."""
    others = [one for one in Path("/proc/self/task").iterdir() if one.name != str(os.getpid())]
    return {(one / "comm").read_text().strip() for one in others} - {"jemalloc_bg_thd"}


def _attend(line: socket.socket, main: Callable[..., Any]) -> None:
    """Fork once more, and tell the outcome. Does not return."""
    with contextlib.suppress(OSError):  # whoever asked has ended
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _, files, _, _ = socket.recv_fds(line, 1, 3)
        arguments, folder, environment = json.loads(line.makefile().read())
        pid = os.fork()
        if not pid:
            line.close()
            _become(files, folder, environment, lambda: main(**arguments))
        ended = os.pidfd_open(pid)
        with contextlib.suppress(OSError):  # then the line is closed, as the watch below sees
            line.sendall(f"{pid}\n".encode())
        watched = select.poll()
        watched.register(line, 0)  # only that it was closed
        watched.register(ended, select.POLLIN)
        if ended not in dict(watched.poll()):
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        line.sendall(f"{code}\n".encode())
    os._exit(0)


def _become(
    files: Sequence[int], folder: str, environment: Mapping[str, str], main: Callable[[], Any]
) -> None:
    """Does not return."""
    code = 1
    try:
        for place, file in enumerate(files):
            os.dup2(file, place)
            os.close(file)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        code = _exit_code(main)
    finally:
        os._exit(code)


def _exit_code(main: Callable[[], Any]) -> int:
    """Runs it to its end, as Python does, and returns what Python would exit with."""
    try:
        code = main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code or 0


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the fork gets it too
        program = {"command": ["python", *sys.argv[sys.argv.index("-c") :]]}
        sys.exit(Fork(program, os.getcwd(), os.environ, (0, 1, 2)).wait())
