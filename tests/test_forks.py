"""Forks in place of new processes: they end as those do, and with whoever asked for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import forked
import forks
import pytest

ENDS = (
    "print('well')",
    "import sys; sys.exit(3)",
    "import sys; sys.exit('why')",
    "1 / 0",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "import atexit; atexit.register(print, 'last')",
    "import threading; threading.Timer(0.1, print, ['late']).start()",
    "def f(x: unknown): pass",
)


@pytest.mark.parametrize("program", ENDS)
def test_a_fork_ends_as_python_does(program: str, tmp_path: Path) -> None:
    alone = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    fork = forked.run(["python", "-c", program], tmp_path, dict(os.environ))
    assert (fork.returncode, fork.stdout) == (alone.returncode, alone.stdout)
    assert fork.stderr.splitlines()[-1:] == alone.stderr.splitlines()[-1:]


@pytest.mark.parametrize("flag", ["1", "0"])
def test_jax_has_the_flags_of_the_environment(flag: str, tmp_path: Path) -> None:
    program = (
        "import jax; print([jax.config.values[name] for name in "
        "('jax_platforms', 'jax_disable_most_optimizations', 'jax_compilation_cache_dir')])"
    )
    flags = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": flag}
    flags["JAX_COMPILATION_CACHE_DIR"] = "programs"
    said = forked.run(["python", "-c", program], tmp_path, dict(os.environ) | flags).stdout
    assert said == f"['cpu', {flag == '1'}, 'programs']\n"


def test_a_fork_ends_with_whoever_asked(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = f"import time; line = open({str(pipe)!r}, 'w'); time.sleep(1500)"
    asking = subprocess.Popen([sys.executable, forks.__file__, "-u", "-c", program])
    with open(pipe) as line:  # opens when the fork does
        asking.send_signal(signal.SIGKILL)
        asking.wait()
        assert line.read() == ""  # returns when the fork has ended


def test_a_fork_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    program = "import time; time.sleep(1500)"
    with pytest.raises(TimeoutError, match="python -c"):
        forked.Running(["python", "-c", program], tmp_path, os.environ).communicate(timeout=0.1)
