"""A process that imports once what the tests' processes need, and forks itself for each of them.

    python tests/forks.py serve SOCKET    waits at this descriptor; ends with its standard input
    python tests/forks.py -u -c PROGRAM   is Python, forked from there: what xdist starts

Knows nothing but the standard library until somebody asks, so that nothing here takes time.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ADDRESS = "TESTS_FORKS"


class Fork:
    """A fork that was asked for.

    arguments: of `forked.main`. files: what its standard input, output and errors are.
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
        self.pid = int(self._told.readline())

    def wait(self, seconds: float | None = None) -> int:
        """Its exit code, negative after a signal. Raises TimeoutError."""
        self._line.settimeout(seconds)
        with self._line:
            return int(self._told.readline())


def serve(descriptor: int) -> None:
    with socket.socket(fileno=descriptor) as listener:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that attend
        main: Callable[..., int] | None = None
        while True:
            ready, _, _ = select.select([listener, 0], [], [])
            if 0 in ready:  # whoever started this has ended
                return
            line, _ = listener.accept()
            if main is None:
                import imported  # noqa: F401
                from forked import main

                gc.freeze()  # else each fork's collections copy all of it
                gc.set_threshold(20_000, 20, 20)  # traces are many objects and little garbage
            with line:
                if not os.fork():
                    listener.close()
                    _attend(line, main)


def _attend(line: socket.socket, main: Callable[..., int]) -> None:
    """Fork once more, and tell the outcome."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, files, _, _ = socket.recv_fds(line, 1, 3)
    arguments, folder, environment = json.loads(line.makefile().read())
    if pid := os.fork():
        line.sendall(f"{pid}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        line.sendall(f"{code}\n".encode())
        os._exit(0)
    line.close()
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    os._exit(_exit_code(lambda: main(**arguments)))


def _exit_code(main: Callable[[], Any]) -> int:
    """What Python would exit with."""
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
    sys.stdout.flush()
    sys.stderr.flush()
    return code or 0


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        program = {"command": ["python", *sys.argv[sys.argv.index("-c") :]]}
        sys.exit(Fork(program, os.getcwd(), os.environ, (0, 1, 2)).wait())
