"""Compile a program and train runs in it. Independent of RL: it only knows `Trainer`."""

from __future__ import annotations

import itertools
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from msgspec.structs import replace

from ablations.core.record import Provenance
from ablations.engine.backends.compiled.executables import Compiled, by_turns, find_or_make, place
from ablations.engine.checkpoints import Snapshots, Spent, discard_after, newest, save
from ablations.engine.claims import Claim
from ablations.engine.job import Cell, CheckpointPolicy, Lane, Result, Saved, TrainingFailed
from ablations.errors import UserError, count
from ablations.trainers import TracedConfig, Trainer, Tree, trainer
from ablations.trainers.leaves import Mismatch, from_arrays, to_arrays
from ablations.trainers.revisions import compose

LARGE_BYTES = 2**20
Lift: TypeAlias = Callable[[Callable[..., Tree]], Callable[..., Tree]]
Metrics: TypeAlias = Mapping[str, jax.Array]  # numbers, or arrays over parallel runs
Keys: TypeAlias = tuple[jax.Array, jax.Array]


def pass_large_constants(
    init: Callable[..., Tree], inputs: Sequence[Tree], lift: Lift
) -> tuple[Callable[..., Tree], list[np.ndarray]]:
    """Return `init` of (constants, *inputs), lifted over parallel runs, and its large constants.

    Constants of a closure are part of its program; XLA cannot read the program of a large model.
    """
    whole, shape = jax.make_jaxpr(lift(init), return_shape=True)(*inputs)
    large = [np.asarray(constant).nbytes > LARGE_BYTES for constant in whole.consts]
    if not any(large):
        return lambda _, *inputs: lift(init)(*inputs), []

    def with_constants(passed: Sequence[Tree], *inputs: Tree) -> Tree:
        rest = iter(passed)
        constants = [
            next(rest) if is_large else constant
            for is_large, constant in zip(large, whole.consts, strict=True)
        ]
        leaves = jax.core.eval_jaxpr(whole.jaxpr, constants, *jax.tree.leaves(inputs))
        return jax.tree.unflatten(jax.tree.structure(shape), leaves)

    return with_constants, list(itertools.compress(whole.consts, large))


def bytes_needed(function: jax.stages.Compiled) -> int:
    """Return the memory of a compiled function on each device; 0: unknown to XLA."""
    about = function.memory_analysis()
    if about is None:
        return 0
    kept = about.output_size_in_bytes - about.alias_size_in_bytes
    return int(about.argument_size_in_bytes + about.temp_size_in_bytes + kept)


def bytes_there() -> int | None:
    """Return the memory of each accelerator that JAX may use; None: unknown."""
    limit: int | None = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    return limit


def checked_chunk(
    trainer: Trainer,
) -> Callable[[Tree, TracedConfig], tuple[Tree, Metrics, jax.Array]]:
    """Return a trainer's chunk that also returns whether the policy is finite."""

    def chunk(state: Tree, variant: TracedConfig) -> tuple[Tree, Metrics, jax.Array]:
        state, metrics = trainer.chunk(state, variant)
        leaves = jax.tree.leaves(trainer.policy(state))
        finite = [jnp.isfinite(x).all() for x in leaves if jnp.issubdtype(x.dtype, jnp.inexact)]
        return state, metrics, jnp.stack(finite).all()

    return chunk


class Program:
    """The compiled functions of some static settings and a task, for a number of parallel runs.

    A single run has no leading axis, so its program is that of a notebook. Several parallel runs
    are the leading axis of all arrays.

    lanes: the number of parallel runs, which may be reduced to fit the memory. accelerator: omit
    the barriers that keep the bits of a CPU. locks: a shared folder, in which workers compile the
    functions in turns. Raises UserError: one run does not fit the memory.
    """

    def __init__(
        self, cell: Cell, *, lanes: int = 1, accelerator: bool = False, locks: Path | None = None
    ):
        self.lanes = lanes
        definition = trainer(cell.config["trainer"]["name"])
        fixed = definition.compiled_in(cell.config, cell.varied)
        self.trainer, self._as_data = compose(cell.config, fixed)
        choices = definition.completed(cell.config)["choices"]
        self._names = {axis: choices[axis]["name"] for axis in fixed} if accelerator else {}
        self.compile_seconds = 0.0
        self._compile(cell, cell.program, locks)
        while (there := bytes_there()) is not None and self._needed > there:
            self._shrink(cell, there)
            self._compile(cell, cell.program, locks)

    @property
    def _needed(self) -> int:
        """Return the bytes that XLA needs."""
        constants = sum(buffer.nbytes for buffer in self._constants)  # inputs of `init`
        later = [bytes_needed(part) for part in (self._chunk, self._measure) if part is not None]
        return max(bytes_needed(self._init), constants + max(later))

    def _shrink(self, cell: Cell, there: int) -> None:
        """Reduce the number of parallel runs to fit the memory of a device."""
        needs = f"{self._needed / 1e9:,.1f} GB of the accelerator's {there / 1e9:,.1f}"
        if self.lanes == 1:
            raise UserError(f"one run of {cell.task} needs {needs}: lower num_envs or the networks")
        fit = max(1, min(self.lanes * there // self._needed, self.lanes - 1))
        runs = count(self.lanes, "parallel run")
        print(f"notice: {runs} of {cell.task} need {needs}; now {fit} in parallel", flush=True)
        self.lanes = fit

    def _compile(self, cell: Cell, name: str, locks: Path | None) -> None:
        lift = self._lift
        keys, measuring_keys, data = self._inputs([cell])
        given = []
        if self.trainer.start is not None:
            known = self.trainer.given is not None
            like = self.trainer.given if known else self.trainer.start(cell.config["seed"])
            given = [jax.tree.map(self._shape, like)]
        begin = (keys, data, *given)
        self._constants: list[np.ndarray] = []
        functions: dict[str, Compiled] = {}

        def state() -> Tree:
            """Return the shapes of a state, even if another process compiles `init`."""
            init = functions.get("init")
            lane_state = init.about if init else self._one_state_of(lift(self.trainer.init), *begin)
            return lane_state if self.lanes == 1 else jax.tree.map(self._shape, lane_state)

        def compile_init() -> Compiled:
            function, self._constants = pass_large_constants(self.trainer.init, begin, lift)
            inputs = self._constants, *begin
            compiled = jax.jit(function).lower(*inputs).compile()
            lane_state = self._one_state_of(function, *inputs)
            return Compiled(compiled, lane_state, lasts=not self._constants)

        def compile_chunk() -> Compiled:
            lifted = jax.jit(lift(checked_chunk(self.trainer)), donate_argnums=0)
            return Compiled(lifted.lower(state(), data).compile())

        def compile_measure() -> Compiled:
            measure = jax.jit(lift(self.trainer.evaluate))
            return Compiled(measure.lower(state(), data, measuring_keys).compile())

        def make(part: str, maker: Callable[[], Compiled]) -> None:
            started = time.monotonic()
            functions[part] = find_or_make(place(part, name, self.lanes), maker)
            self.compile_seconds += time.monotonic() - started

        makers = {"init": compile_init, "chunk": compile_chunk}
        if cell.measured:
            makers["measure"] = compile_measure
        parts = {part: partial(make, part, maker) for part, maker in makers.items()}
        # `start` has its own program, which is compiled with the others.
        by_turns({**parts, "start": lambda: self._given([cell])}, locks)
        self._init, self._one_state, _ = functions["init"]
        self._chunk = functions["chunk"].function
        self._measure = functions["measure"].function if cell.measured else None

    def _one_state_of(self, init: Callable[..., Tree], *inputs: Tree) -> Tree:
        """Return the shapes of one run's state."""
        whole = jax.eval_shape(init, *inputs)
        if self.lanes == 1:
            return whole
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), whole)

    def _lift(self, function: Callable[..., Tree]) -> Callable[..., Tree]:
        """Vectorize a function (state or key, variant, ...) of one run.

        On an accelerator compiled choices are names, for which `choices.fix` adds no barriers.
        """

        @wraps(function)
        def named(first: Tree, variant: TracedConfig, *rest: Tree) -> Tree:
            choices = {**variant.choices, **self._names}
            return function(first, variant._replace(choices=choices), *rest)

        return jax.vmap(named) if self.lanes > 1 else named

    def start(self, cells: Sequence[Cell], saved: Sequence[Saved] | None = None) -> Block:
        """Return at most `lanes` runs of equal length, ready to train in parallel.

        cells: runs of this program.
        saved: their saved states at one point; None: start from the beginning.
        Raises leaves.Mismatch: a state does not fit this program.
        """
        keys, measuring_keys, data = self._inputs(cells)
        if saved is None:
            state = self._init(self._constants, keys, data, *self._given(cells))
            return Block(self, cells, state, measuring_keys, data)
        states = [from_arrays(checkpoint.state, self._one_state) for checkpoint in saved]
        states += [states[-1]] * (self.lanes - len(states))
        state = states[0] if self.lanes == 1 else jax.tree.map(lambda *x: jnp.stack(x), *states)
        state = jax.tree.map(jnp.asarray, state)
        return Block(self, cells, state, measuring_keys, data, saved)

    def _inputs(self, cells: Sequence[Cell]) -> tuple[jax.Array, jax.Array, TracedConfig]:
        """Return the keys of training and evaluation, and the variants, of padded runs."""
        block = self._padded(cells)
        seeds = np.array([cell.config["seed"] for cell in block], np.uint32)
        training, measuring = _keys(seeds if self.lanes > 1 else seeds[0])
        configs = [cell.config for cell in block]
        data = jax.tree.map(lambda *leaves: np.stack(leaves), *map(self._as_data, configs))
        if self.lanes == 1:
            data = jax.tree.map(lambda x: x[0], data)
        return training, measuring, data

    def _padded(self, cells: Sequence[Cell]) -> list[Cell]:
        """Repeat the last run to get `lanes` runs."""
        return [*cells, *[cells[-1]] * (self.lanes - len(cells))]

    def _given(self, cells: Sequence[Cell]) -> tuple[Tree, ...]:
        """Return the trainer's further inputs of init, of padded runs."""
        if self.trainer.start is None:
            return ()
        given = [self.trainer.start(cell.config["seed"]) for cell in self._padded(cells)]
        return (given[0] if self.lanes == 1 else jax.tree.map(lambda *x: np.stack(x), *given),)

    def _shape(self, array: jax.ShapeDtypeStruct | jax.Array) -> jax.ShapeDtypeStruct:
        """Return the shape of one run's array over all parallel runs."""
        lanes = (self.lanes,) if self.lanes > 1 else ()
        return jax.ShapeDtypeStruct((*lanes, *array.shape), array.dtype)


class Block:
    """Parallel runs of a program. point: how many chunks are done. lanes: the curves."""

    def __init__(
        self,
        program: Program,
        cells: Sequence[Cell],
        state: Tree,
        measuring_keys: jax.Array,
        data: TracedConfig,
        saved: Sequence[Saved] | None = None,
    ):
        self._program = program
        self._state = state
        self._measuring_keys = measuring_keys
        self._data = data
        self._cell = cells[0]  # the others have equal lengths and evaluations
        self._measured = self._cell.measured
        self.point = saved[0].point if saved else 0
        self.lanes = (
            [checkpoint.lane.copy() for checkpoint in saved] if saved else [Lane() for _ in cells]
        )

    @property
    def step(self) -> int:
        """Return the steps that each run has done."""
        return self._cell.step_at(self.point)

    @property
    def finished(self) -> bool:
        """Return whether all runs are complete, or all have diverged."""
        return self.point == self._cell.points or all(lane.diverged for lane in self.lanes)

    def advance(self) -> None:
        """Run a chunk of training and its evaluation; add a row to each curve."""
        program = self._program
        self._state, metrics, finite = program._chunk(self._state, self._data)
        self.point += 1
        measured = {}
        if self.point in self._measured and program._measure is not None:
            key = _fold_in(self._measuring_keys, self.point)
            measured = program._measure(self._state, self._data, key)
        rows = jax.device_get(metrics | measured)
        values = {name: np.atleast_1d(value) for name, value in rows.items()}
        ok = np.atleast_1d(finite)
        for index, lane in enumerate(self.lanes):
            if lane.diverged is not None:
                continue
            if values:
                row = ((name, value[index]) for name, value in values.items())
                lane.append(self.step, {n: float(x) if np.isfinite(x) else None for n, x in row})
            if not ok[index]:
                lane.diverged = (self._cell.step_at(self.point - 1), self.step)

    def saved(self, index: int) -> Saved:
        """Return the state of a run, on the host."""
        state = to_arrays(self._lane_of(self._state, index))
        return Saved(self.point, self.lanes[index].copy(), state)

    def policy(self, index: int) -> dict[str, np.ndarray]:
        """Return the arrays of a run's policy, on the host."""
        return to_arrays(self._program.trainer.policy(self._lane_of(self._state, index)))

    def _lane_of(self, tree: Tree, index: int) -> Tree:
        return tree if self._program.lanes == 1 else jax.tree.map(lambda x: x[index], tree)


@jax.jit
def _keys(seeds: jax.Array) -> Keys:
    """Return the keys of training and evaluation, for one seed or several."""

    def of_one(seed: jax.Array) -> Keys:
        training, evaluating = jax.random.split(jax.random.key(seed))
        return training, evaluating

    return of_one(seeds) if seeds.ndim == 0 else jax.vmap(of_one)(seeds)


@jax.jit
def _fold_in(keys: jax.Array, point: int) -> jax.Array:
    if keys.ndim == 0:
        return jax.random.fold_in(keys, point)
    return jax.vmap(lambda key: jax.random.fold_in(key, point))(keys)


class Training:
    """Parallel runs, started from their last common checkpoint or from the beginning."""

    def __init__(
        self, program: Program, cells: Sequence[Cell], results: Path, checkpoints: CheckpointPolicy
    ) -> None:
        self.cells = cells
        self.results = results
        self.checkpoints = checkpoints
        found, refused = newest(results, cells)
        try:
            self.block = program.start(cells, [saved for saved, _ in found] if found else None)
        except Mismatch as why:
            refused.append(f"checkpoints of {cells[0].hash} are refused: {why}")
            found, self.block = None, program.start(cells)
        for cell in cells:
            discard_after(results, cell.hash, self.block.point)
        step = self.block.step
        self._spent = [
            replace(spent, resumed=(*spent.resumed, step)) for _, spent in found or ()
        ] or [Spent() for _ in cells]
        for line in refused:
            print(f"notice: {line}", flush=True)
        if found or refused:
            where = f"continue at step {self.block.step:,}" if found else "start from the beginning"
            print(f"notice: {', '.join(cell.hash for cell in cells)} {where}", flush=True)
        self.snapshots = [Snapshots(results, cell, checkpoints.snapshots) for cell in cells]
        self._first_step = self._saved_step = self.block.step
        self._began = self._saved_at = time.monotonic()

    def abandon(self) -> None:
        """Do nothing: a program has no further processes."""

    def run(
        self, claims: Sequence[Claim], stopping: Callable[[], bool]
    ) -> list[tuple[Result, Provenance]]:
        """Run to the end; see `RunningBatch`."""
        steps = self.cells[0].steps
        for claim in claims:
            claim.start = self.block.step
        while not self.block.finished:
            try:
                self.block.advance()
            except Exception as error:
                traceback.print_exc()
                raise TrainingFailed(error) from error
            self._keep_policies()
            for cell, lane, claim in zip(self.cells, self.block.lanes, claims, strict=True):
                score = lane.columns.get(cell.metric, [None])[-1]
                claim.beat("training", self.block.step, steps, self.rate, score)
            stop = stopping()
            if stop or self._checkpoint_is_due():
                self._save()
            if stop:
                raise SystemExit(143)
        rate = round(self.rate * len(self.cells))
        return [
            (
                self._result(index),
                {"steps_per_second": rate, **self._spent[index].provenance(self.seconds)},
            )
            for index in range(len(self.cells))
        ]

    def _result(self, index: int) -> Result:
        lane, snapshots = self.block.lanes[index], self.snapshots[index]
        kept = snapshots.finish(lane)
        if lane.diverged is None:
            return Result(lane.columns, policies=kept, folder=snapshots.folder)
        first, last = lane.diverged
        reason = f"parameters were no longer finite between steps {first} and {last}"
        return Result(lane.columns, "diverged", reason, last, kept, snapshots.folder)

    @property
    def seconds(self) -> float:
        """Return the training time in this process."""
        return max(time.monotonic() - self._began, 1e-9)

    @property
    def rate(self) -> float:
        """Return the steps per second of each run in this process."""
        return (self.block.step - self._first_step) / self.seconds

    def _keep_policies(self) -> None:
        for index, snapshots in enumerate(self.snapshots):
            if snapshots.wanted(self.block.point, self.block.lanes[index]):
                snapshots.write(self.block.step, self.block.policy(index))

    def _checkpoint_is_due(self) -> bool:
        """Return whether a checkpoint is due; a finished run needs only its record."""
        if self.block.finished:
            return False
        minutes, steps = self.checkpoints.minutes, self.checkpoints.steps
        by_time = minutes and time.monotonic() - self._saved_at >= 60 * minutes
        by_steps = steps and self.block.step - self._saved_step >= steps
        return bool(by_time or by_steps)

    def _save(self) -> None:
        for index, snapshots in enumerate(self.snapshots):
            cell, spent, saved = self.cells[index], self._spent[index], self.block.saved(index)
            so_far = replace(spent, seconds=spent.seconds + self.seconds)
            save(self.results, cell, saved, so_far)
            snapshots.prune(self.block.lanes[index])
        self._saved_at, self._saved_step = time.monotonic(), self.block.step
