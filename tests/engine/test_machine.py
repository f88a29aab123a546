"""What makes a CPU's bits the same everywhere: flags of workers, and products of one form alone.

That the bits are the same is measured by benchmarks/portable_bits.py, which takes minutes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from ablations import make_trainer
from ablations.engine import machine

# The contracted axes of every product in the text of a program that JAX hands to XLA.
CONTRACTED = re.compile(
    r"stablehlo\.dot_general.*?(?:batching_dims = \[([\d, ]*)\] x \[[\d, ]*\], )?"
    r"contracting_dims = \[([\d, ]*)\] x \[([\d, ]*)\]"
)

# What it has of the host.
CALL = re.compile(r"callback|infeed|outfeed|stablehlo\.(send|recv)")

GRADIENT = """
import jax, jax.numpy as jnp
from ablations.trainers.products import affine, dense_product
def loss(kernel, inputs):
    hidden = jnp.tanh(dense_product(inputs, kernel))
    return (affine(hidden, kernel, kernel[0]) ** 2).sum()
shapes = jax.ShapeDtypeStruct((8, 8), "float32"), jax.ShapeDtypeStruct((32, 8), "float32")
print(jax.jit(jax.grad(loss, (0, 1))).lower(*shapes).compile().as_text())
"""


FUNCTIONS = """
import sys
import jax, jax.numpy as jnp
names = ("rsqrt", "sqrt", "exp", "expm1", "log", "log1p", "tanh", "logistic", "sin", "cos", "cbrt")
def every(x):
    more = [1 / x, jnp.arccos(x), jnp.arctan2(x, 2 * x)]
    return [getattr(jax.lax, name)(x) for name in names] + more
jax.block_until_ready(jax.jit(every)(jnp.linspace(0.1, 0.9, 64)))
"""


needs_avx2 = pytest.mark.skipif(not machine._portable(), reason="not on a processor without AVX2")


@needs_avx2
def test_no_function_is_left_to_what_a_processor_approximates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An AMD's inverse square root and an Intel's differ in the last bits."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)  # as users compile, not as tests do
    environment = machine.worker_environment(accelerator=False)
    for left_out, own in (("", False), ("--xla_cpu_enable_platform_dependent_math=false", True)):
        folder = tmp_path / str(own)
        flags = environment["XLA_FLAGS"].replace(left_out, "") + f" --xla_dump_to={folder}"
        subprocess.run(
            [sys.executable, "-c", FUNCTIONS],
            check=True,
            env=environment | {"XLA_FLAGS": flags, "JAX_ENABLE_COMPILATION_CACHE": "0"},
        )
        compiled = [path.read_text() for path in folder.glob("*every*.ir-with-opt.ll")]
        assert compiled
        assert any("llvm.x86." in text for text in compiled) is own


@pytest.mark.parametrize(
    ("trainer", "task", "structure"),
    [("ppo", "fast", {}), ("ppo", "fast", {"torso": "shared"}), ("language", "arithmetic", {})],
)
def test_a_chunk_never_calls_its_host_and_has_products_that_xla_compiles_itself(
    trainer, task, structure
) -> None:
    """[M, K] by [K, N], after the axes of a batch; in the gradients too. An accelerator that calls
    back waits for the host at every step."""
    composed, variant = make_trainer(task, trainer=trainer, **structure)
    key = jax.random.key(0)
    state = jax.eval_shape(composed.init, key, variant)
    text = jax.jit(composed.chunk).lower(state, variant).as_text()
    assert not CALL.search(text)
    found = CONTRACTED.findall(text)
    assert len(found) == text.count("stablehlo.dot_general") > 10
    for batch, left, right in found:
        axes = len(batch.split(",")) if batch else 0
        assert (left, right) == (str(axes + 1), str(axes))


@pytest.mark.parametrize(
    ("flags", "more", "named"),
    [
        (machine.PORTABLE, {}, None),
        ("", {}, "{cpu}, order {order}"),
        (
            "--xla_dump_to=/x --xla_cpu_max_isa=AVX512",
            {},
            "{cpu}, --xla_cpu_max_isa=AVX512, order {order}",
        ),
        (f"{machine.PORTABLE} --mine=1", {}, "{cpu}, --mine=1, order {order}"),
        # In a notebook, or with --cluster debug, JAX is as the shell has it.
        (machine.PORTABLE, {"JAX_ENABLE_X64": "1"}, "{cpu}, JAX_ENABLE_X64=1, order {order}"),
        (
            machine.PORTABLE,
            {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
            "{cpu}, JAX_DISABLE_MOST_OPTIMIZATIONS=1, order {order}",
        ),
    ],
)
def test_arithmetic_names_what_no_other_worker_has(
    flags: str, more: dict[str, str], named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAX_DISABLE_MOST_OPTIMIZATIONS", raising=False)
    for name, value in {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, **more}.items():
        monkeypatch.setenv(name, value)
    usual = "x86-64 with AVX2, no approximations, order {order}"
    wanted = (named or usual).format(cpu=machine.processor(), order=machine.ORDER)
    assert machine.arithmetic() == wanted


def test_every_setting_that_jax_reads_of_the_shell_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """JAX gives each setting the variable of its name: a new one in a new version is left out too,
    whatever it is called."""
    for name in os.environ:
        if name in machine.left_out_of_workers():
            monkeypatch.delenv(name)
    names = {name.upper() for name in jax.config.values}
    for name in names:
        monkeypatch.setenv(name, "1")
    assert set(machine.left_out_of_workers()) == names - machine.INHERITED
    assert len(names - machine.INHERITED) > 50
    assert names & machine.worker_environment(accelerator=False).keys() <= machine.INHERITED


@pytest.mark.parametrize("accelerator", [False, True])
def test_where_programs_run_and_the_users_flags_are_the_shell_s(
    accelerator: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_portable", lambda: True)
    given = {"JAX_PLATFORMS": "cuda,cpu", "JAX_PLATFORM_NAME": "gpu", "XLA_FLAGS": "--mine=1"}
    for name, value in {**given, "JAX_CUDA_VISIBLE_DEVICES": "1", "JAX_ENABLE_X64": "1"}.items():
        monkeypatch.setenv(name, value)
    found = machine.worker_environment(accelerator=accelerator)
    assert found["XLA_FLAGS"] == ("--mine=1" if accelerator else f"{machine.PORTABLE} --mine=1")
    assert found["JAX_PLATFORMS"] == ("cuda,cpu" if accelerator else "cpu")
    assert ("JAX_PLATFORM_NAME" in found) == accelerator
    assert found["JAX_CUDA_VISIBLE_DEVICES"] == "1"
    assert "JAX_ENABLE_X64" not in found


def test_the_question_for_accelerators_runs_no_code_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jax.py").write_text("open('ran', 'w')\ndef device_count(): return 8\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda,cpu")
    assert machine.accelerators() != 8
    assert not (tmp_path / "ran").exists()


def test_arithmetic_names_the_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XLA_FLAGS", "JAX_PLATFORMS", "JAX_DISABLE_MOST_OPTIMIZATIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(platform="cpu")])
    assert machine.arithmetic() == f"{machine.processor()}, order {machine.ORDER}"
    card = SimpleNamespace(platform="gpu", device_kind="NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(jax, "devices", lambda: [card])
    assert machine.arithmetic() == f"NVIDIA H100 80GB HBM3, order {machine.ORDER}"


def compiled_by_a_worker(code: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a script prints with the environment of a worker, as users compile, not as tests do."""
    for ours in ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS"):
        monkeypatch.delenv(ours, raising=False)
    environment = machine.worker_environment(accelerator=False)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return done.stdout


@needs_avx2
def test_xla_folds_no_transposition_into_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    text = compiled_by_a_worker(GRADIENT, monkeypatch)
    forms = re.findall(
        r" dot\(.*?lhs_contracting_dims=\{(\d)\}, rhs_contracting_dims=\{(\d)\}", text
    )
    assert len(forms) == 6
    assert set(forms) == {("1", "0")}
    assert "custom-call" not in text


STACK = """
import jax, jax.numpy as jnp
from ablations.trainers.control.batching import vmap_trailing
turned = lambda a, b: jnp.sqrt(jnp.cross(a, b) + a) * b
shape = jax.ShapeDtypeStruct((64, 3), "float32")
print(jax.jit(vmap_trailing(turned)).lower(shape, shape).compile().as_text())
"""


@needs_avx2
def test_xla_fuses_no_stack_of_components_into_what_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = compiled_by_a_worker(STACK, monkeypatch)
    loops = re.findall(r"^%\S+ \(.*?\) -> .*? \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert any(" concatenate(" in loop for loop in loops)
    assert not any(" concatenate(" in loop and " sqrt(" in loop for loop in loops)


def test_workers_import_brax_without_warp(tmp_path: Path) -> None:
    """MuJoCo MJX imports it wherever it is installed, which takes seconds."""
    (tmp_path / "warp.py").write_text("raise SystemExit('imported')")
    script = "from ablations.engine import worker; worker.without_warp(); import brax.envs"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
