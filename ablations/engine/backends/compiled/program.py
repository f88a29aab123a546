"""Compile one program, and train runs in it, from their last checkpoint to their end.

Knows the form of a trainer and nothing of RL.
"""

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
from ablations.engine.checkpoints import (
    Checkpoint,
    Snapshots,
    Spent,
    as_provenance,
    discard_after,
    newest,
    save,
)
from ablations.engine.claims import Claim
from ablations.engine.job import Cell, CheckpointPolicy, Lane, Result, Saved, TrainingFailed
from ablations.errors import UserError, count
from ablations.trainers import TracedConfig, Trainer, Tree, trainer
from ablations.trainers.leaves import Mismatch, from_arrays, to_arrays
from ablations.trainers.revisions import compose

LARGE_BYTES = 2**20
Lift: TypeAlias = Callable[[Callable[..., Tree]], Callable[..., Tree]]
Metrics: TypeAlias = Mapping[str, jax.Array]  # of all lanes, or numbers of one
Keys: TypeAlias = tuple[jax.Array, jax.Array]


def pass_large_constants(
    init: Callable[..., Tree], inputs: Sequence[Tree], lift: Lift
) -> tuple[Callable[..., Tree], list[np.ndarray]]:
    """Return `init` of (constants, *inputs), lifted over lanes, and its large constants.

    What a function closes over is written into its program: of a large model more than XLA reads.
    Small constants stay where they are.
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
    """Return the memory that a compiled function takes at once on each device.

    Inputs, what it computes on its way, and outputs, less those that are written over inputs; 0
    where XLA does not say.
    """
    about = function.memory_analysis()
    if about is None:
        return 0
    kept = about.output_size_in_bytes - about.alias_size_in_bytes
    return int(about.argument_size_in_bytes + about.temp_size_in_bytes + kept)


def bytes_there() -> int | None:
    """Return the memory of each accelerator that JAX may use; None: the device does not say."""
    limit: int | None = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    return limit


def checked_chunk(
    trainer: Trainer,
) -> Callable[[Tree, TracedConfig], tuple[Tree, Metrics, jax.Array]]:
    """Return a trainer's chunk that also tells whether the policy is still finite."""

    def chunk(state: Tree, variant: TracedConfig) -> tuple[Tree, Metrics, jax.Array]:
        state, metrics = trainer.chunk(state, variant)
        leaves = jax.tree.leaves(trainer.policy(state))
        finite = [jnp.isfinite(x).all() for x in leaves if jnp.issubdtype(x.dtype, jnp.inexact)]
        return state, metrics, jnp.stack(finite).all()

    return chunk


class Program:
    """The compiled functions of one structure on one task, for a fixed number of lanes.

    With one lane the arrays have no lane axis: the very program that a notebook would compile. With
    more, every array has a leading lane axis, sharded over the visible devices when they divide it.

    accelerator: nothing is kept apart for the bits of a CPU.
    lanes: as many as asked, or as many as fit into the memory of the device. locks: a folder that
    workers share, who compile the functions by turns; None: this one compiles alone. Raises
    UserError where one lane does not fit.
    """

    def __init__(
        self,
        cell: Cell,
        *,
        lanes: int = 1,
        accelerator: bool = False,
        locks: Path | None = None,
    ):
        """Compile the program of a run, or load it from the cache."""
        self.lanes = lanes
        definition = trainer(cell.config["trainer"]["name"])
        fixed = definition.compiled_in(cell.config, cell.varied)
        self.trainer, self._as_data = compose(cell.config, fixed)
        choices = definition.completed(cell.config)["choices"]
        self._names = {axis: choices[axis]["name"] for axis in fixed} if accelerator else {}
        self.compile_seconds = 0.0
        self._compile(cell, cell.program(), locks)
        while (there := bytes_there()) is not None and self._needed > there:
            self._shrink(cell, there)
            self._compile(cell, cell.program(), locks)

    @property
    def _needed(self) -> int:
        """Return the bytes on each device, as XLA tells before any function has run."""
        kept = sum(
            buffer.nbytes for buffer in self._constants
        )  # of `init`, which are among its inputs
        later = [
            bytes_needed(buffer) for buffer in (self._chunk, self._measure) if buffer is not None
        ]
        return max(bytes_needed(self._init), kept + max(later))

    def _shrink(self, cell: Cell, there: int) -> None:
        """Leave out the lanes that do not fit into the memory of a device."""
        devices = len(jax.devices())
        has = f"{self._needed / 1e9:,.1f} GB of the accelerator's {there / 1e9:,.1f}"
        if self.lanes <= devices:
            raise UserError(f"one lane of {cell.task} needs {has}: lower num_envs or the networks")
        fit = self.lanes * there // self._needed // devices * devices
        fit = max(devices, min(fit, self.lanes - devices))
        wanted = count(self.lanes, "lane")
        print(f"notice: {wanted} of {cell.task} need {has}: {fit} run side by side", flush=True)
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
        # Outputs too: what a lane does not decide (a counter) would else lie whole on every device,
        # and the next chunk expects its shard.
        jit: Callable[..., jax.stages.Wrapped] = jax.jit
        if self._sharding is not None:
            jit = partial(jax.jit, out_shardings=self._sharding)
        functions: dict[str, Compiled] = {}

        def state() -> Tree:
            """Return the shapes of a state, also while another process compiles `init`."""
            init = functions.get("init")
            lane_state = init.about if init else self._one_state_of(lift(self.trainer.init), *begin)
            return lane_state if self.lanes == 1 else jax.tree.map(self._shape, lane_state)

        def compile_init() -> Compiled:
            function, self._constants = pass_large_constants(self.trainer.init, begin, lift)
            inputs = self._constants, *begin
            compiled = jit(function).lower(*inputs).compile()
            lane_state = self._one_state_of(function, *inputs)
            return Compiled(compiled, lane_state, lasts=not self._constants)

        def compile_chunk() -> Compiled:
            lifted = jit(lift(checked_chunk(self.trainer)), donate_argnums=0)
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
        # What `start` makes for a seed is kept; its own program is compiled with the others.
        by_turns({**parts, "start": lambda: self._given([cell])}, locks)
        self._init, self._one_state, _ = functions["init"]
        self._chunk = functions["chunk"].function
        self._measure = functions["measure"].function if cell.measured else None

    def _one_state_of(self, init: Callable[..., Tree], *inputs: Tree) -> Tree:
        """Return the shapes of a lane's state."""
        whole = jax.eval_shape(init, *inputs)
        if self.lanes == 1:
            return whole
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), whole)

    def _lift(self, function: Callable[..., Tree]) -> Callable[..., Tree]:
        """Return a function (state or key, variant, ...) of one lane over all lanes.

        On an accelerator compiled choices are names: `choices.fix` then keeps nothing apart from
        what is around it, which is for the bits of a CPU.
        """

        @wraps(function)
        def named(first: Tree, variant: TracedConfig, *rest: Tree) -> Tree:
            choices = {**variant.choices, **self._names}
            return function(first, variant._replace(choices=choices), *rest)

        return jax.vmap(named) if self.lanes > 1 else named

    def training(
        self, cells: Sequence[Cell], results: Path, checkpoints: CheckpointPolicy
    ) -> Training:
        """Return a batch of at most `lanes` of its runs; see `Prepared`."""
        return Training(self, cells, results, checkpoints)

    def abandon(self) -> None:
        """Do nothing: it runs in this process alone."""

    def start(self, cells: Sequence[Cell], saved: Sequence[Saved] | None = None) -> Block:
        """Return at most `lanes` equally long runs, ready to train in parallel.

        Args:
            cells: of this program.
            saved: where each of them goes on from, all at one point; None: from the beginning.

        Raises:
            leaves.Mismatch: a state is not one of this program.
        """
        keys, measuring_keys, data = self._inputs(cells)
        if saved is None:
            state = self._init(self._constants, keys, data, *self._given(cells))
            return Block(self, cells, state, measuring_keys, data)
        states = [from_arrays(checkpoint.state, self._one_state) for checkpoint in saved]
        states += [states[-1]] * (self.lanes - len(states))
        state = states[0] if self.lanes == 1 else jax.tree.map(lambda *x: jnp.stack(x), *states)
        state = self._place(jax.tree.map(jnp.asarray, state))
        return Block(self, cells, state, measuring_keys, data, saved)

    def _inputs(self, cells: Sequence[Cell]) -> tuple[jax.Array, jax.Array, TracedConfig]:
        """Return the keys of training and of measuring, and the variants, of a padded block."""
        block = self._padded(cells)
        seeds = np.array([cell.config["seed"] for cell in block], np.uint32)
        training, measuring = _keys(seeds if self.lanes > 1 else seeds[0])
        configs = [cell.config for cell in block]
        data = jax.tree.map(lambda *leaves: np.stack(leaves), *map(self._as_data, configs))
        if self.lanes == 1:
            data = jax.tree.map(lambda x: x[0], data)
        return self._place(training), self._place(measuring), self._place(data)

    def _padded(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return a run for each lane, repeating the last."""
        return [*cells, *[cells[-1]] * (self.lanes - len(cells))]

    def _given(self, cells: Sequence[Cell]) -> tuple[Tree, ...]:
        """Return what the trainer gives to init, of a padded block."""
        if self.trainer.start is None:
            return ()
        given = [self.trainer.start(cell.config["seed"]) for cell in self._padded(cells)]
        whole = given[0] if self.lanes == 1 else jax.tree.map(lambda *x: np.stack(x), *given)
        return (self._place(whole),)

    def _shape(self, array: jax.ShapeDtypeStruct | jax.Array) -> jax.ShapeDtypeStruct:
        """Return the shape of an array of one lane over all lanes, where that lies."""
        lanes = (self.lanes,) if self.lanes > 1 else ()
        return jax.ShapeDtypeStruct((*lanes, *array.shape), array.dtype, sharding=self._sharding)

    def _place(self, tree: Tree) -> Tree:
        return tree if self._sharding is None else jax.device_put(tree, self._sharding)

    @property
    def _sharding(self) -> jax.sharding.NamedSharding | None:
        devices = jax.devices()
        if self.lanes == 1 or len(devices) == 1 or self.lanes % len(devices):
            return None
        mesh = jax.sharding.Mesh(np.array(devices), ("lanes",))
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("lanes"))


class Block:
    """Runs that train in parallel, in the lanes of a program.

    point: how many chunks are done. lanes: the curve of each run so far.
    """

    def __init__(
        self,
        program: Program,
        cells: Sequence[Cell],
        state: Tree,
        measuring_keys: jax.Array,
        data: TracedConfig,
        saved: Sequence[Saved] | None = None,
    ):
        """Take the states of runs, ready to train."""
        self._program = program
        self._state = state
        self._measuring_keys = measuring_keys
        self._data = data
        self._cell = cells[0]  # in what is asked of it, all are alike
        self._measured = self._cell.measured
        self.point = saved[0].point if saved else 0
        self.lanes = (
            [checkpoint.lane.copy() for checkpoint in saved] if saved else [Lane() for _ in cells]
        )

    @property
    def step(self) -> int:
        """Return the steps done, of each cell."""
        return self._cell.step_at(self.point)

    @property
    def finished(self) -> bool:
        """Return whether every run is at its end, or has diverged."""
        return self.point == self._cell.points or all(lane.diverged for lane in self.lanes)

    def advance(self) -> None:
        """Run a chunk of training and the measurement that follows; add a row to each curve."""
        program = self._program
        self._state, metrics, finite = program._chunk(self._state, self._data)
        self.point += 1
        measured = {}
        if self.point in self._measured and program._measure is not None:
            key = program._place(_fold_in(self._measuring_keys, self.point))
            measured = program._measure(self._state, self._data, key)
        self._append(metrics | measured)
        self._note_divergence(finite)

    def _append(self, metrics: Metrics) -> None:
        values = {name: np.atleast_1d(value) for name, value in jax.device_get(metrics).items()}
        for index, lane in enumerate(self.lanes):
            if values and lane.diverged is None:
                row = {name: finite_or_none(value[index]) for name, value in values.items()}
                lane.append(self.step, row)

    def _note_divergence(self, finite: jax.Array) -> None:
        for lane, ok in zip(self.lanes, np.atleast_1d(finite), strict=False):
            if lane.diverged is None and not ok:
                lane.diverged = (self._cell.step_at(self.point - 1), self.step)

    def saved(self, index: int) -> Saved:
        """Return the state from which a run can resume, on the host."""
        state = to_arrays(self._lane_of(self._state, index))
        return Saved(self.point, self.lanes[index].copy(), state)

    def policy(self, index: int) -> dict[str, np.ndarray]:
        """Return the arrays of a run's policy, on the host."""
        return to_arrays(self._program.trainer.policy(self._lane_of(self._state, index)))

    def _lane_of(self, tree: Tree, index: int) -> Tree:
        return tree if self._program.lanes == 1 else jax.tree.map(lambda x: x[index], tree)


@jax.jit
def _keys(seeds: jax.Array) -> Keys:
    """Return the keys to train and to evaluate with, of seeds or of one."""

    def of_one(seed: jax.Array) -> Keys:
        training, evaluating = jax.random.split(jax.random.key(seed))
        return training, evaluating

    return of_one(seeds) if seeds.ndim == 0 else jax.vmap(of_one)(seeds)


@jax.jit
def _fold_in(keys: jax.Array, point: int) -> jax.Array:
    if keys.ndim == 0:
        return jax.random.fold_in(keys, point)
    return jax.vmap(lambda key: jax.random.fold_in(key, point))(keys)


def finite_or_none(value: np.floating) -> float | None:
    """Return a number as a curve holds it: None where it is not finite."""
    return float(value) if np.isfinite(value) else None


class Training:
    """A block of runs, at its last checkpoint or at its beginning."""

    def __init__(
        self, program: Program, cells: Sequence[Cell], results: Path, checkpoints: CheckpointPolicy
    ) -> None:
        """Load the last checkpoint that all runs have, or start at the beginning."""
        self.cells = cells
        self.results = results
        self.checkpoints = checkpoints
        found, refused = newest(results, cells)
        try:
            self.block = program.start(
                cells, [checkpoint.saved for checkpoint in found] if found else None
            )
        except Mismatch as why:
            refused.append(f"checkpoints of {cells[0].hash} are refused: {why}")
            found, self.block = None, program.start(cells)
        for cell in cells:
            discard_after(results, cell.hash, self.block.point)
        self._spent = (
            [checkpoint.spent for checkpoint in found] if found else [Spent() for _ in cells]
        )
        if found:
            step = self.block.step
            self._spent = [
                replace(checkpoint, resumed=(*checkpoint.resumed, step))
                for checkpoint in self._spent
            ]
        self._notify(refused, resumed=found is not None)
        self.snapshots = [Snapshots(results, cell, checkpoints.snapshots) for cell in cells]
        self._first_step = self._saved_step = self.block.step
        self._began = self._saved_at = time.monotonic()

    def _notify(self, refused: Sequence[str], *, resumed: bool) -> None:
        for line in refused:
            print(f"notice: {line}", flush=True)
        if resumed or refused:
            where = f"go on at step {self.block.step:,}" if resumed else "start at the beginning"
            print(f"notice: {', '.join(cell.hash for cell in self.cells)} {where}", flush=True)

    def run(self, claims: Sequence[Claim], stopping: Callable[[], bool]) -> None:
        """Run to the end of the block; see `RunningBatch`."""
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

    def lane(self, index: int) -> Lane:
        """Return the curve of a run so far."""
        return self.block.lanes[index]

    def result(self, index: int) -> Result:
        """Return how a run ended, with the policies that it kept."""
        lane, snapshots = self.lane(index), self.snapshots[index]
        kept = snapshots.finish(lane)
        if lane.diverged is None:
            return Result(lane.columns, policies=kept, folder=snapshots.folder)
        first, last = lane.diverged
        reason = f"parameters were no longer finite between steps {first} and {last}"
        return Result(lane.columns, "diverged", reason, last, kept, snapshots.folder)

    @property
    def seconds(self) -> float:
        """Return the seconds of training in this process."""
        return max(time.monotonic() - self._began, 1e-9)

    @property
    def rate(self) -> float:
        """Return the steps per second of each run, in this process."""
        return (self.block.step - self._first_step) / self.seconds

    def cost(self, index: int) -> Provenance:
        """Return the speed of the runs in this process, and the cost of one over all processes."""
        rate = round(self.rate * len(self.cells))
        return {"steps_per_second": rate, **as_provenance(self._spent[index], self.seconds)}

    def _keep_policies(self) -> None:
        for index, snapshots in enumerate(self.snapshots):
            if snapshots.wanted(self.block.point, self.lane(index)):
                snapshots.write(self.block.step, self.block.policy(index))

    def _checkpoint_is_due(self) -> bool:
        """Return whether a checkpoint is due; the end needs none, as the record is next."""
        if self.block.finished:
            return False
        minutes, steps = self.checkpoints.minutes, self.checkpoints.steps
        by_time = minutes and time.monotonic() - self._saved_at >= 60 * minutes
        by_steps = steps and self.block.step - self._saved_step >= steps
        return bool(by_time or by_steps)

    def _save(self) -> None:
        for index, snapshots in enumerate(self.snapshots):
            spent, lane = self._spent[index], self.lane(index)
            snapshots.flush()
            so_far = replace(spent, seconds=spent.seconds + self.seconds)
            checkpoint = Checkpoint(self.block.saved(index), so_far, snapshots.score(lane))
            after = save(self.results, self.cells[index], checkpoint, self.checkpoints.checkpoints)
            # seconds are those of earlier processes; this one's are added when they are told
            self._spent[index] = replace(after, seconds=spent.seconds)
            snapshots.prune(lane)
        self._saved_at, self._saved_step = time.monotonic(), self.block.step
