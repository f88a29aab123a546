"""Compiled functions that outlive their process: the same bits, never those of other code."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ablations import plugins
from ablations.engine.backends.compiled import BACKEND
from ablations.engine.backends.compiled import executables as compiled
from ablations.engine.backends.compiled.executables import Compiled, by_turns, find_or_make, place
from ablations.engine.job import Cell, JobSpec


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)


class Maker:
    """Compiles x -> tanh(x) + 1, and counts how often."""

    def __init__(self, lasts: bool = True) -> None:
        self.made = 0
        self.lasts = lasts

    def __call__(self) -> Compiled:
        self.made += 1
        function = jax.jit(lambda x: {"y": jnp.tanh(x) + 1}, donate_argnums=0)
        shape = jax.ShapeDtypeStruct((8,), jnp.float32)
        return Compiled(function.lower(shape).compile(), {"shape": shape}, self.lasts)


X = np.linspace(-3, 3, 8, dtype=np.float32)


def test_what_is_found_computes_what_was_kept(cache) -> None:
    maker, path = Maker(), place("chunk", "mine", 1)
    assert path is not None
    assert path.parent == cache
    first, second = find_or_make(path, maker), find_or_make(path, maker)
    assert maker.made == 1
    given = jnp.asarray(X)
    np.testing.assert_array_equal(first.function(jnp.asarray(X))["y"], second.function(given)["y"])
    assert given.is_deleted(), "an argument that was given away is used again"
    assert second.about == first.about


def test_who_comes_while_another_compiles_waits_and_finds_it(cache, monkeypatch) -> None:
    first, second, path = Maker(), Maker(), place("mine")
    late, find, looked = [], compiled._find, threading.Event()

    def find_and_tell(path: Path) -> Compiled | None:
        found = find(path)
        if threading.current_thread() is thread:
            looked.set()
        return found

    def make() -> Compiled:
        thread.start()
        assert looked.wait(600)
        return first()

    thread = threading.Thread(target=lambda: late.append(find_or_make(path, second)))
    monkeypatch.setattr(compiled, "_find", find_and_tell)
    find_or_make(path, make)
    thread.join()
    assert (first.made, second.made) == (1, 0)
    np.testing.assert_allclose(late[0].function(jnp.asarray(X))["y"], np.tanh(X) + 1, atol=1e-6)


@pytest.mark.parametrize("content", [b"", b"nonsense", None], ids=["empty", "other", "half"])
def test_a_file_that_cannot_be_read_counts_as_none(cache, content: bytes | None) -> None:
    maker, path = Maker(), place("mine")
    find_or_make(path, maker)
    path.write_bytes(path.read_bytes()[:100] if content is None else content)
    find_or_make(path, maker)
    find_or_make(path, maker)
    assert maker.made == 2


def test_a_cache_that_cannot_be_written_stops_no_run(cache, monkeypatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compiled, "write_atomically", full)
    found = find_or_make(place("mine"), Maker())
    np.testing.assert_allclose(found.function(jnp.asarray(X))["y"], np.tanh(X) + 1, atol=1e-6)


def test_what_another_process_cannot_use_is_not_kept(cache) -> None:
    maker = Maker(lasts=False)
    find_or_make(place("mine"), maker)
    find_or_make(place("mine"), maker)
    assert maker.made == 2
    assert not list(cache.glob("*.program"))


def test_other_code_settings_or_processors_have_other_files(cache, monkeypatch) -> None:
    names = {place("mine"), place("mine", 2), place("other")}
    for name in ("_code", "versions", "processor"):
        with monkeypatch.context() as changed:
            changed.setattr(compiled, name, lambda: {"what": "else"})
            names.add(place("mine"))
    with monkeypatch.context() as changed:
        changed.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")
        names.add(place("mine"))
    with jax.default_matmul_precision("highest"):
        names.add(place("mine"))
    assert len(names) == 8
    assert place("mine") in names


def test_the_code_of_a_program_is_in_its_name(tmp_path: Path, monkeypatch) -> None:
    for folder in compiled.OURS:
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(compiled, "OUR_ROOT", tmp_path)
    digests = {compiled._code.__wrapped__()}
    for folder in compiled.OURS:
        for text in ("a = 1", "a = 2"):
            (tmp_path / folder / "new.py").write_text(text)
            digests.add(compiled._code.__wrapped__())
    assert len(digests) == 1 + 2 * len(compiled.OURS)


def test_programs_of_plugins_are_not_kept(cache, monkeypatch) -> None:
    monkeypatch.setattr(plugins, "_loaded", {"mine": "digest"})
    assert place("mine") is None


class Planted:
    """Unpickling it leaves a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


def test_code_in_a_results_folder_is_never_loaded(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    program = SimpleNamespace(lanes=1, compile_seconds=0.0)
    monkeypatch.setattr(
        "ablations.engine.backends.compiled.program.Program", lambda *_, **__: program
    )
    monkeypatch.setattr(Cell, "program", "p")
    results, trace = tmp_path / "results", tmp_path / "executed"
    before = jax.config.jax_compilation_cache_dir
    try:
        cell = Cell("s", "t", "v", 0, "0" * 16, {"trainer": "ppo"})
        BACKEND.prepare(cell, JobSpec("run", str(results), (cell,)), 1)
        kept = place("mine")
        (results / "cache").mkdir(parents=True)
        planted = zlib.compress(pickle.dumps(Planted(trace)))
        (results / "cache" / kept.name).write_bytes(planted)
        maker = Maker()
        find_or_make(place("mine"), maker)
        assert (maker.made, trace.exists()) == (1, False)
        assert kept.parent == tmp_path / "home" / "rl-ablations" / "programs"
        kept.write_bytes(planted)  # there it would be
        find_or_make(place("mine"), maker)
        assert trace.exists()
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


QR = """
import sys, jax, jax.numpy as jnp
from ablations.engine.backends.compiled.executables import Compiled, find_or_make, place
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
def make():
    print("made")
    matrix = jax.ShapeDtypeStruct((2, 2), jnp.float32)
    return Compiled(jax.jit(jnp.linalg.qr).lower(matrix).compile())
print(find_or_make(place("qr"), make).function(jnp.eye(2)).R[0, 0])
"""


def test_another_process_finds_lapack_too(tmp_path: Path) -> None:
    """A program that calls LAPACK crashes in a process where nothing has looked for it."""
    command = [sys.executable, "-c", QR, str(tmp_path)]
    said = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert said == [["made", "1.0"], ["1.0"]]


def test_what_another_makes_is_waited_for_only_when_all_else_is_made(tmp_path) -> None:
    told: list[str] = []
    begun, released = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        assert released.wait(300)
        told.append("theirs")

    def other() -> None:
        told.append("other")
        released.set()

    thread = threading.Thread(target=by_turns, args=({"a": slow}, tmp_path))
    thread.start()
    assert begun.wait(300)
    by_turns({"a": lambda: told.append("ours"), "b": other}, tmp_path)
    thread.join()
    assert told == ["other", "theirs", "ours"]
