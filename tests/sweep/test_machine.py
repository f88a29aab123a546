"""What makes a CPU's bits the same everywhere: flags of workers, and products of one form alone.

That the bits are the same is measured by tests/benchmarks/portable_bits.py, which takes minutes.
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
from ablations.sweep import machine

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


def test_no_function_is_left_to_what_a_processor_approximates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An AMD's inverse square root and an Intel's differ in the last bits."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)  # as users compile, not as tests do
    environment = machine.worker_environment(accelerator=False)
    if machine.PORTABLE not in environment.get("XLA_FLAGS", ""):
        pytest.skip("not on a processor without AVX2")
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
    [
        ("ppo", "fast", {}),
        ("ppo", "fast", {"torso": "shared"}),
        ("language", "arithmetic", {}),
    ],
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


def test_arithmetic_names_the_flags_that_a_user_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("XLA_FLAGS", machine.PORTABLE)
    assert machine.arithmetic() == f"x86-64 with AVX2, no approximations, order {machine.ORDER}"
    more = "--xla_dump_to=/somewhere --xla_cpu_max_isa=AVX512"
    wanted = f"{machine.processor()}, --xla_cpu_max_isa=AVX512, order {machine.ORDER}"
    for flags in (more, f"{machine.PORTABLE} {more}"):
        monkeypatch.setenv("XLA_FLAGS", flags)
        assert machine.arithmetic() == wanted
    monkeypatch.delenv("XLA_FLAGS")
    assert machine.arithmetic() == f"{machine.processor()}, order {machine.ORDER}"


def test_arithmetic_names_the_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(platform="cpu")])
    assert machine.arithmetic() == f"{machine.processor()}, order {machine.ORDER}"
    card = SimpleNamespace(platform="gpu", device_kind="NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(jax, "devices", lambda: [card])
    assert machine.arithmetic() == f"NVIDIA H100 80GB HBM3, order {machine.ORDER}"


def test_a_call_of_the_host_is_seen_in_the_text_of_a_program() -> None:
    def calls(x):
        jax.debug.print("{}", x)
        return x

    assert CALL.search(jax.jit(calls).lower(1.0).as_text())


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


def test_xla_folds_no_transposition_into_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    if machine.PORTABLE not in machine.worker_environment(accelerator=False).get("XLA_FLAGS", ""):
        pytest.skip("not on a processor without AVX2")
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


def test_xla_fuses_no_stack_of_components_into_what_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if machine.PORTABLE not in machine.worker_environment(accelerator=False).get("XLA_FLAGS", ""):
        pytest.skip("not on a processor without AVX2")
    text = compiled_by_a_worker(STACK, monkeypatch)
    loops = re.findall(r"^%\S+ \(.*?\) -> .*? \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert any(" concatenate(" in loop for loop in loops)
    assert not any(" concatenate(" in loop and " sqrt(" in loop for loop in loops)
