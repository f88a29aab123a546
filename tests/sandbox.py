"""Run a command over files that may be anybody's, where it can do no harm, and see what it did.

A command runs in a forked child: in a folder of its own, with an alarm, with a bound on its memory,
and with an audit hook that notes whatever is written outside of the results or executed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import walk

MEMORY = 1_000_000_000
SECONDS = 60
EXECUTED = "executed"  # the file that planted code makes
# What a command may write beside the units of its plans and what it unpacks of archives.
WRITES = {
    "figure": ("figures",),
    "report": ("report",),
    "export": ("export", "archive"),
    "baseline": ("baselines",),
    "import": ("cells", "plans"),
    "clean": ("cells", "work", "cache", "code", "set-aside"),
    "run": ("cells", "plans", "work", "cache", "set-aside", "differences"),
    "check": ("checks",),
}

RUNS = "run,seed,step,return\n" + "".join(
    f"{run},{seed},{step},{step * drift + seed}\n"
    for run, drift in (("a", 1), ("b", 2))
    for seed in range(3)
    for step in (1, 2, 3, 4)
)


@dataclass
class Outcome:
    """What became of a command. harm: what it must not do, a word each with what it did it to."""

    code: int | None = None
    out: str = ""
    err: str = ""
    harm: list[tuple[str, str]] = field(default_factory=list)
    megabytes: int = 0

    @property
    def word(self) -> str:
        if self.harm:
            return self.harm[0][0]
        if self.code == 2:
            return "refused"
        return "left out" if "left out: " in self.err else "answered"


def preload() -> None:
    """Import here what each child would import anew, matplotlib's list of fonts included."""
    for name in (
        *("ablations.cli", "ablations.figures", "ablations.report.page", "ablations.io.imports"),
        *("ablations.commands.results", "ablations.commands.watching"),
        *("ablations.commands.checking", "ablations.commands.importing"),
        *("ablations.figures.checks", "ablations.engine.status", "ablations.engine.local"),
        *("ablations.engine.plan", "ablations.trainers.command"),
        *("ablations.engine.stored", "ablations.engine.clean"),
        *("ablations.regression.baselines", "ablations.gate.run"),
        *("ablations.policies", "ablations.engine.checkpoints"),
        *("ablations.engine.slurm.cluster", "ablations.presets.verl"),
        *("pandas.io.formats.csvs", "pyarrow.pandas_compat", "tensorboardX"),
        *("tensorboard.compat.tensorflow_stub", "tensorboard.util.tensor_util"),
        *("pandas", "pyarrow.parquet", "matplotlib.pyplot", "sqlite3"),
    ):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # children share what is never written


def build(folder: Path) -> Path:
    """Make a folder with a study that ran, imported runs, an archive and a baseline."""
    folder.mkdir(parents=True)
    for name, text in {**walk.FILES, "runs.csv": RUNS}.items():
        (folder / name).write_text(text)
    (folder / "results").mkdir()
    made = (
        ["run", "walk.toml", "--cluster", "debug"],
        ["import", "runs.csv", "--study", "theirs"],
        ["export", "walk", "--format", "archive"],
        ["check", "b", "--save", "walk"],
        ["table", "walk", "theirs"],
    )
    with child() as (inside, answer):
        if inside:
            os.chdir(folder)
            from ablations.cli import main

            with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
                answer(json.dumps([main(words) for words in made]))
    assert json.loads(answer.text) == [0] * len(made), answer.text
    return folder


def run(folder: Path, words: Sequence[str]) -> Outcome:
    """Run a command in a folder, whose `results` are its results."""
    return run_all([(folder, words)])[0]


def run_all(commands: Sequence[tuple[Path, Sequence[str]]]) -> list[Outcome]:
    """Run commands, each in a folder of its own, in one child after the other: the next one where
    one ends the child."""
    before = [snapshot(folder) for folder, _ in commands]
    # A child begins with the memory of the process of tests that it is forked from.
    inherited = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    outcomes: list[Outcome] = []
    while len(outcomes) < len(commands):
        with child() as (inside, answer):
            if inside:
                for folder, words in commands[len(outcomes) :]:
                    answer(json.dumps(_watched(folder, words)) + "\n")
        for line in answer.text.splitlines():
            done = json.loads(line)
            harm = [tuple(one) for one in done["harm"]]
            outcomes.append(Outcome(done["code"], done["out"], done["err"], harm, answer.megabytes))
        if len(outcomes) < len(commands):
            kind = {signal.SIGALRM: "hang", signal.SIGKILL: "memory"}.get(answer.signal, "died")
            harm = [(kind, f"signal {answer.signal}")]
            outcomes.append(Outcome(harm=harm, megabytes=answer.megabytes))
    for state, (folder, words), outcome in zip(before, commands, outcomes, strict=True):
        if (outcome.megabytes - inherited) * 1e6 > MEMORY:
            outcome.harm.append(("memory", f"{outcome.megabytes} MB"))
        if any(folder.parent.rglob(EXECUTED)):
            outcome.harm.append(("executed", "planted code"))
        for path in _changed(state, snapshot(folder)):
            if not _may_change(path, words[0]):
                outcome.harm.append(("wrote", path))
    return outcomes


def snapshot(folder: Path) -> dict[str, tuple[int, ...]]:
    """Path -> what a change of it changes, of files, links and pipes."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in (*files, *folders):
            path = os.path.join(root, name)
            about = os.lstat(path)
            if not os.path.isdir(path) or os.path.islink(path):
                state = (about.st_size, about.st_mtime_ns, about.st_mode, about.st_ino)
                found[os.path.relpath(path, folder)] = state
    return found


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))


def _may_change(path: str, command: str) -> bool:
    parts = Path(path).parts
    if parts[0] == "home":
        return True  # this user's cache
    if parts[0] != "results":
        return False
    if len(parts) == 4 and parts[1] == "plans":
        return True  # units, and what an archive brings
    if len(parts) >= 3 and parts[1] == "cells":
        return True
    return len(parts) > 1 and parts[1] in WRITES.get(command, ())


class _Answer:
    """What a child says, through a pipe, before it ends."""

    def __init__(self, pipe: int = -1):
        self._pipe, self.text, self.signal, self.megabytes = pipe, "", 0, 0

    def __call__(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self._pipe, data) :]


@contextlib.contextmanager
def child() -> Iterator[tuple[bool, _Answer]]:
    """The body once in a forked child, which ends with it, and once here, after it ended."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        try:
            os.close(reading)
            yield True, _Answer(writing)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    answer = _Answer()
    with os.fdopen(reading, "rb") as pipe:
        answer.text = pipe.read().decode(errors="replace")
    _, status, used = os.wait4(pid, 0)
    answer.signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    answer.megabytes = used.ru_maxrss // 1000
    yield False, answer


def _watched(folder: Path, words: Sequence[str]) -> dict[str, Any]:
    """Run a command in this process, of which nothing else is wanted any more."""
    import ablations.cli

    os.chdir(folder)
    os.environ["XDG_CACHE_HOME"] = str(folder / "home")
    harm: list[tuple[str, str]] = []
    out, err = io.StringIO(), io.StringIO()
    if _HOOK.folder is None:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        sys.addaudithook(_HOOK)
    _HOOK.watch(folder, harm, words[0])
    signal.alarm(SECONDS)
    code: int | None = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = ablations.cli.main(words)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except MemoryError:
            harm.append(("memory", traceback.format_exc()[-400:]))
        except BaseException:
            harm.append(("traceback", traceback.format_exc()[-1500:]))
    signal.alarm(0)
    if "Traceback (most recent" in err.getvalue():
        harm.append(("traceback", err.getvalue()[-1500:]))
    if code == 2 and (err.getvalue().count("ablations: ") < 1 or not _is_lines(err.getvalue())):
        harm.append(("no line", err.getvalue()[-400:]))
    return {
        "code": code,
        "out": out.getvalue()[-4000:],
        "err": err.getvalue()[-4000:],
        "harm": harm,
    }


def _is_lines(text: str) -> bool:
    """Whether each line of a refusal is one of ours."""
    return all(line.startswith("ablations: ") for line in text.splitlines())


class _Hook:
    """Notes what is executed, and what is opened for writing outside of the results."""

    EXECUTES = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "pickle.find_class")
    CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink")

    folder: str | None = None

    def watch(self, folder: Path, harm: list[tuple[str, str]], command: str) -> None:
        self.runs = command == "run"
        self.inside = tuple(str(folder / part) for part in ("results", "home"))
        self.folder, self.harm = str(folder), harm

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in self.EXECUTES and not self._is_ours(event, arguments):
            self.harm.append(("executed", f"{event} {arguments[:2]!r}"[:300]))
        elif event == "exec" and str(self.folder) in getattr(arguments[0], "co_filename", ""):
            self.harm.append(("executed", arguments[0].co_filename))
        elif event in self.CHANGES:
            descriptor = next((one for one in arguments[1:] if type(one) is int and one > 2), None)
            within = descriptor is not None and event in ("os.remove", "os.rmdir")
            folder = os.readlink(f"/proc/self/fd/{descriptor}") if within else ""
            self._require_inside(event, os.path.join(folder, os.fsdecode(arguments[0])))
        elif event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self._require_inside(event, arguments[0])

    def _is_ours(self, event: str, arguments: tuple[Any, ...]) -> bool:
        """git asks about our own checkout, and `run` runs the user's own command."""
        called = os.path.basename(str(arguments[0]))
        return event == "subprocess.Popen" and (called == "git" or (self.runs and called == "cp"))

    def _require_inside(self, event: str, path: object) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        text = os.path.abspath(os.fsdecode(path))
        elsewhere = ("/dev/", "/proc/", sys.prefix)
        caches = ("matplotlib", "fontconfig", "__pycache__")
        if text.startswith((*self.inside, *elsewhere)) or any(name in text for name in caches):
            return
        self.harm.append(("wrote outside", f"{event} {text}"))


_HOOK = _Hook()


def copied(base: Path, folder: Path) -> Path:
    """A copy of a folder that `build` made."""
    shutil.copytree(base, folder, symlinks=True)
    return folder
