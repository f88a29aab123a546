"""Compare the time of a whole study with rejax over seeds, plain vmap and Brax's ppo.train.

    python benchmarks/peers.py [--task hopper] [--peers rejax vmap brax] [--steps 491520]
        [--seeds 8] [--variants 4] [--rounds 3] [--runs 4] [--networks small]
        [--output results/reference/speed/peers.md]

The study varies gae_lambda, which changes no program in any library. Our side is the real command
with records, policies and checkpoints, from an empty results folder and an empty cache of programs.
It has the peer's preset and arguments. Neither side evaluates. Peers run with XLA's default flags,
each in its own environment. The peer vmap is our own chunk, in this environment. A round measures
our side and then each peer. The page has the median over rounds of the ratios.

Peers keep no programs on disk, which is JAX's default, except to measure the time to a first
iteration. Brax then compiles again for each run, so only --runs of its runs are measured. The rest
count as the mean of the measured runs after the first. Brax is also measured with programs on disk:
the first run of each variant, and one more run as an estimate of the others.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PEERS = ("rejax", "vmap", "brax")
# Besides the versions of requirements-test.lock, which hold for all. Rejax's environments of Brax
# lack what later versions of gymnax ask of a state.
PACKAGES = {"rejax": ("rejax==0.1.3", "gymnax==0.0.9", "brax==0.14.2"), "brax": ("brax==0.14.2",)}
# Ours: a study whose baseline sets nothing but what both presets have.
STUDY, BASELINE = "value_coefficient", "separate_0.25"
LAMBDAS = (0.95, 0.9, 0.8, 1.0)
NUM_ENVS, UNROLL, MINIBATCHES, EPOCHS = 64, 32, 4, 4
# name -> hidden layers of the policy and of the value function, and the activation. brax: what
# Brax's trainer has by default.
NETWORKS: dict[str, tuple[list[int], list[int], str]] = {
    "small": ([64, 64], [64, 64], "tanh"),
    "brax": ([32] * 4, [256] * 5, "swish"),
}
EPISODE_LENGTH = 1000
ITERATION = NUM_ENVS * UNROLL
WORKERS = 2
PLATFORM = os.environ.get("PEERS_ON", "cpu")  # cuda: on a GPU, with jax[cuda12]
# What each library is called with, by its own names; its preset says what that is here.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "rejax": {
        "num_envs": NUM_ENVS,
        "num_steps": UNROLL,
        "num_minibatches": MINIBATCHES,
        "num_epochs": EPOCHS,
        "learning_rate": 3e-4,
        "gamma": 0.99,
        "normalize_observations": True,
    },
    "brax": {
        "batch_size": NUM_ENVS // MINIBATCHES,
        "num_minibatches": MINIBATCHES,
        "unroll_length": UNROLL,
        "num_updates_per_batch": EPOCHS,
        "learning_rate": 3e-4,
        "discounting": 0.99,
        "entropy_cost": 1e-2,
        "normalize_observations": True,
    },
}
OURS_WITH_VMAP = {
    "num_envs": NUM_ENVS,
    "unroll_length": UNROLL,
    "num_minibatches": MINIBATCHES,
    "epochs": EPOCHS,
}
SETTINGS = {"episode_length": EPISODE_LENGTH, "random_elapsed_steps": False}
# name -> (what it is, how it is printed). Less is better but for the rates.
MEASURES = {
    "seconds": ("whole study, s", "{:.1f}"),
    "rate": ("steps/s of the study", "{:,.0f}"),
    "compile": ("compiling, s", "{:.1f}"),
    "steady": ("steady steps/s", "{:,.0f}"),
    "cold": ("to the first iteration, cold, s", "{:.1f}"),
    "warm": ("the same, warm, s", "{:.1f}"),
    "megabytes": ("peak RSS, MB", "{:,.0f}"),
}
RATES = ("rate", "steady")

Spec = Mapping[str, Any]
Measured = dict[str, Any]


def networks_of(spec: Spec) -> dict[str, Any]:
    policy, value, activation = NETWORKS[spec["networks"]]
    return {"policy_layers": policy, "value_layers": value, "activation": activation}


# What a peer does, in a process and an environment of its own. These import nothing of ours.


def run_rejax(spec: Spec) -> Measured:
    """Train with one program over all seeds; the hyperparameters of variants are its arguments."""
    import jax
    import jax.numpy as jnp
    from rejax import PPO

    layers, _, activation = NETWORKS[spec["networks"]]
    algorithm = PPO.create(
        env=f"brax/{spec['task']}",
        env_params={"backend": "spring", "episode_length": EPISODE_LENGTH},
        agent_kwargs={"activation": activation, "hidden_layer_sizes": tuple(layers)},
        total_timesteps=spec["steps"],
        eval_freq=spec["steps"],
        skip_initial_evaluation=True,
        **ARGUMENTS["rejax"],
    ).replace(eval_callback=lambda *_: jnp.zeros(()))

    def with_lambda(value: float) -> Any:
        return algorithm.replace(gae_lambda=jnp.float32(value))

    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(spec["seeds"]))
    began = time.time()
    train = jax.vmap(lambda one, key: one.train(key)[0], in_axes=(None, 0))
    compiled = jax.jit(train).lower(with_lambda(LAMBDAS[0]), keys).compile()
    ready = time.time()
    for value in spec["lambdas"]:
        jax.block_until_ready(compiled(with_lambda(value), keys))
    trained = time.time()
    found = {"compile": ready - began, "trained_at": trained, "training": trained - ready}
    return found


def run_vmap(spec: Spec) -> Measured:
    """Train all variants and seeds with our specialised chunk under one vmap."""
    import jax
    import jax.numpy as jnp

    from ablations import make_trainer

    trainer, variant = make_trainer(
        spec["task"],
        updates_per_chunk=spec["steps"] // spec["points"] // ITERATION,
        **OURS_WITH_VMAP,
        **networks_of(spec),
        **SETTINGS,
    )
    lanes = len(spec["lambdas"]) * spec["seeds"]
    values = jnp.repeat(jnp.float32(jnp.array(spec["lambdas"])), spec["seeds"])
    numbers = {n: jnp.full(lanes, x, jnp.float32) for n, x in variant.numbers.items()}
    variants = variant._replace(
        numbers=numbers | {"gae_lambda": values},
        iterations=jnp.full(lanes, variant.iterations, jnp.float32),
    )
    axes = jax.tree.map(lambda _: 0, variants)._replace(choices=None)
    keys = jax.vmap(jax.random.key)(jnp.tile(jnp.arange(spec["seeds"]), len(spec["lambdas"])))
    began = time.time()
    init = jax.jit(jax.vmap(trainer.init, in_axes=(0, axes)))
    state = init(keys, variants)
    chunk = jax.jit(jax.vmap(trainer.chunk, in_axes=(0, axes)), donate_argnums=0)
    compiled = chunk.lower(state, variants).compile()
    ready = time.time()
    for _ in range(spec["points"]):
        state, _ = jax.block_until_ready(compiled(state, variants))
    trained = time.time()
    found = {"compile": ready - began, "trained_at": trained, "training": trained - ready}
    return found


def stand_in_for_device_put_replicated(tree: Any, devices: list[Any]) -> Any:
    """Stack one copy per device, as jax.device_put_replicated did before JAX 0.10.

    Brax 0.14.2 still calls it.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    mesh = jax.sharding.Mesh(np.array(devices), ("i",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    return jax.tree.map(
        lambda x: jax.device_put(jnp.stack([jnp.asarray(x)] * len(devices)), sharding), tree
    )


def run_brax(spec: Spec) -> Measured:
    """Train run after run in one process; each is traced, and without programs on disk compiled."""
    import brax.envs
    import jax
    from brax.training.agents.ppo import networks, train

    if not hasattr(jax, "device_put_replicated"):
        jax.device_put_replicated = stand_in_for_device_put_replicated
    runs = [(value, seed) for seed in range(spec["seeds"]) for value in spec["lambdas"]]
    runs = runs[: spec["runs"]]
    policy_layers, value_layers, activation = NETWORKS[spec["networks"]]
    seconds, points = [], []
    for value, seed in runs:
        marks = [time.time()]
        _, parameters, _ = train.train(
            environment=brax.envs.get_environment(spec["task"], backend="spring"),
            num_timesteps=spec["steps"],
            num_evals=spec["points"] + 1,
            run_evals=False,
            policy_params_fn=lambda *_, marks=marks: marks.append(time.time()),
            episode_length=EPISODE_LENGTH,
            num_envs=NUM_ENVS,
            gae_lambda=value,
            seed=seed,
            network_factory=functools.partial(
                networks.make_ppo_networks,
                policy_hidden_layer_sizes=tuple(policy_layers),
                value_hidden_layer_sizes=tuple(value_layers),
                activation=getattr(jax.nn, activation),
            ),
            **ARGUMENTS["brax"],
        )
        jax.block_until_ready(parameters)
        seconds.append(time.time() - marks[0])
        # Between callbacks: the start, the first part, which is compiled, and the other parts.
        points += [b - a for a, b in itertools.pairwise(marks[2:])]
    steady = statistics.median(points) if points else None
    found: Measured = {
        "trained_at": time.time(),
        "training": sum(seconds),
        "runs": seconds,
        "steady": spec["steps"] / spec["points"] / steady if steady else None,
        "compile": max(seconds[0] - steady * spec["points"], 0.0) if steady else None,
    }
    return found


SIDES = {"rejax": run_rejax, "vmap": run_vmap, "brax": run_brax}


# The parent: it makes environments, takes turns, and never starts JAX.


def environment_of(peer: str, folder: Path) -> Path:
    """Return the Python of a peer's environment, and create the environment if it is missing."""
    if peer not in PACKAGES:
        return Path(sys.executable)
    lock = (ROOT / "requirements-test.lock").read_text()
    own = {package.partition("==")[0] for package in PACKAGES[peer]}
    pins = re.findall(r"^([\w.-]+==[^\s;]+)", lock, re.M)
    pins = [pin for pin in pins if pin.partition("==")[0] not in own]
    place = folder / peer
    packages = [*PACKAGES[peer], *(["jax[cuda12]"] if PLATFORM == "cuda" else [])]
    wanted = "\n".join([sys.version, *packages, *pins])
    made = place / "made-of.txt"
    python = place / "bin" / "python"
    if made.exists() and made.read_text() == wanted:
        return python
    print(f"making the environment of {peer} in {place}", file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    venv.create(place, with_pip=True)
    constraints = place / "constraints.txt"
    constraints.write_text("\n".join(pins) + "\n")
    pip = [python, "-m", "pip", "install", "--quiet", "-c", constraints, *packages]
    done = subprocess.run([str(part) for part in pip], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{peer} cannot be installed:\n{done.stderr[-3000:]}")
    made.write_text(wanted)
    return python


def family(process: int) -> list[int]:
    """Return a process and all its descendants, from Linux's /proc."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        children = []
    return [process, *(one for child in children for one in family(int(child)))]


def resident(process: int) -> float:
    """Return the resident memory in MB."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def timed(
    command: Sequence[str], environment: Mapping[str, str]
) -> tuple[str, float, float, list[tuple[float, float]]]:
    """Run a command; return its output, start, seconds and memory.

    Memory is a list of (time, resident MB of all its processes), five times a second.
    """
    seen: list[tuple[float, float]] = []
    ended = threading.Event()
    began = time.time()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )

        def watch() -> None:
            while not ended.wait(0.2):
                seen.append((time.time(), sum(map(resident, family(process.pid)))))

        watcher = threading.Thread(target=watch)
        watcher.start()
        printed, _ = process.communicate()
        seconds = time.time() - began
        ended.set()
        watcher.join()
        if process.returncode:
            errors.seek(0)
            sys.exit(f"{' '.join(command)[:400]}\n{printed[-2000:]}\n{errors.read()[-4000:]}")
    return printed, began, seconds, seen


def base_environment(cache: Path | None) -> dict[str, str]:
    """Return the environment without variables that change a side; cache: folder of programs."""
    dropped = ("XLA_FLAGS", "NPROC", "OMP_NUM_THREADS", "PYTHONPATH", "JAX_COMPILATION_CACHE_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    place = {} if cache is None else {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    return kept | {"JAX_PLATFORMS": PLATFORM} | place


def peer_once(peer: str, python: Path, spec: Spec, cache: Path | None) -> Measured:
    """Measure one process of a peer, from its start to the end of training."""
    environment = base_environment(cache)
    if peer not in PACKAGES:
        environment["PYTHONPATH"] = str(ROOT)
    command = [str(python), str(Path(__file__).resolve()), "--side", peer, "--spec"]
    printed, began, _, seen = timed([*command, json.dumps(spec)], environment)
    found: Measured = json.loads(printed.splitlines()[-1])
    runs = len(spec["lambdas"]) * spec["seeds"]
    steps = spec["steps"] * runs
    seconds = found["trained_at"] - began
    if "runs" in found:  # of Brax, which are the first few of them
        measured = found["runs"]
        # Which runs are like those that are missing: all that compile, or the one that need not.
        alike = measured[1:] if cache is None else measured[len(spec["lambdas"]) :]
        seconds += statistics.mean(alike or measured) * (runs - len(measured))
    found.setdefault("steady", steps / found["training"])
    peak = max(megabytes for at, megabytes in seen if at <= found["trained_at"])
    return found | {"seconds": seconds, "rate": steps / seconds, "megabytes": peak}


def settings_as(peer: str, spec: Spec) -> tuple[list[str], dict[str, Any]]:
    """Return flags and settings that make our command do what the peer does."""
    from ablations.presets import preset

    if peer not in ARGUMENTS:
        return [], {**OURS_WITH_VMAP, **networks_of(spec), **SETTINGS}
    library = preset(peer)
    asked = {**library.values(**ARGUMENTS[peer]), **networks_of(spec)}
    default = library.values()
    changed = {n: x for n, x in asked.items() if n not in default or default[n] != x}
    return ["--base", peer, "--geometry", "own"], {**changed, **SETTINGS}


def ours_once(peer: str, spec: Spec, cache: Path) -> Measured:
    flags, sets = settings_as(peer, spec)
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        command = [sys.executable, "-m", "ablations.cli", "run", STUDY, "--quiet", *flags]
        command += ["--tasks", spec["task"], "--seeds", str(spec["seeds"])]
        command += ["--steps", str(spec["steps"]), "--set", "evaluations=0"]
        command += ["--workers", str(WORKERS), "--results", str(results)]
        values = ",".join(f"{value:g}" for value in spec["lambdas"])
        if len(spec["lambdas"]) > 1:
            command += ["--vary", f"gae_lambda={values}"]
        else:
            command += ["--variants", BASELINE]
            sets["gae_lambda"] = spec["lambdas"][0]
        sets["points"] = spec["points"]
        command += ["--set", *(f"{n}={json.dumps(x).strip(chr(34))}" for n, x in sets.items())]
        environment = base_environment(cache) | {"PYTHONPATH": str(ROOT)}
        _, _, seconds, seen = timed(command, environment)
        records = [json.loads(p.read_text()) for p in results.glob("cells/[!.]*/record.json")]
        steps = spec["steps"] * len(spec["lambdas"]) * spec["seeds"]
        about = [record["provenance"] for record in records]
        failed = [record["reason"] for record in records if record["status"] != "done"]
        if failed or len(records) * spec["steps"] != steps:
            sys.exit(f"{len(records)} cells have records, of which failed: {failed}")
        training = sum(one["seconds"] for one in about) / min(WORKERS, len(records))
        found = {
            "seconds": seconds,
            "rate": steps / seconds,
            "compile": max(one["compile_seconds"] for one in about),
            "steady": steps / training,
            "megabytes": max(megabytes for _, megabytes in seen),
        }
    return found


def first_iteration(measure: Callable[[Path], Measured]) -> Measured:
    """Return the seconds to the end of one iteration, with an empty and with a full cache."""
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (measure(Path(cache))["seconds"] for _ in range(2))
    return {"cold": cold, "warm": warm}


def in_turns(peer: str, python: Path, spec: Spec, rounds: int) -> list[tuple[Measured, Measured]]:
    """Return the measurements per round: ours, and the peer's."""
    # The first iteration of the study as each runs it: all lanes of a vmap, one run of the others.
    first = {**spec, "steps": ITERATION, "points": 1}
    one = {**first, "seeds": 1, "lambdas": spec["lambdas"][:1], "runs": 1}
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            ours = ours_once(peer, spec, Path(cache))
        ours |= first_iteration(lambda cache: ours_once(peer, one, cache))
        said(f"ours as {peer}", ours)
        start = one if peer == "brax" else {**first, "lambdas": spec["lambdas"][:1]}
        start = first if peer == "vmap" else start
        once = functools.partial(peer_once, peer, python)
        theirs = once(spec, None) | first_iteration(functools.partial(once, start))
        if peer == "brax":
            known = {**spec, "runs": len(spec["lambdas"]) + 1}
            with tempfile.TemporaryDirectory() as cache:
                theirs["kept"] = once(known, Path(cache))["seconds"]
        said(peer, theirs)
        found.append((ours, theirs))
    return found


def said(who: str, found: Measured) -> None:
    shown = [f"{label} {form_of(name, found[name])}" for name, (label, _) in MEASURES.items()]
    print(f"{who}: {', '.join(shown)}", file=sys.stderr, flush=True)


def form_of(name: str, value: float | None) -> str:
    return "-" if value is None else MEASURES[name][1].format(value)


def median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def advantage(name: str, ours: Measured, theirs: Measured) -> float | None:
    if not ours[name] or not theirs[name]:
        return None
    return ours[name] / theirs[name] if name in RATES else theirs[name] / ours[name]


def otherwise(rounds: Sequence[tuple[Measured, Measured]]) -> str:
    seconds = statistics.median(theirs["kept"] for _, theirs in rounds)
    ratio = statistics.median(theirs["kept"] / ours["seconds"] for ours, theirs in rounds)
    return (
        "With compiled programs kept on disk (JAX's default keeps those that compile for at least "
        f"a second), Brax's runs in one process would take {seconds:,.0f} s, {ratio:.1f} times as "
        "long as ours. This is estimated from the first run of each variant and one more."
    )


def page(
    found: Mapping[str, list[tuple[Measured, Measured]]], spec: Spec, asked: Any, machine: str
) -> str:
    heads = " | ".join(label for label, _ in MEASURES.values())
    rule = "|---" * (len(MEASURES) + 1) + "|"
    runs = len(spec["lambdas"]) * spec["seeds"]
    policy, value, activation = NETWORKS[spec["networks"]]
    ratios = [f"| against | {heads} |", rule]
    values = [f"| who | {heads} |", rule]
    for peer, rounds in found.items():
        row = " | ".join(form_of(name, median(o[name] for o, _ in rounds)) for name in MEASURES)
        values.append(f"| ours, as {peer} | {row} |")
        cells = []
        for name in MEASURES:
            known = [x for x in (advantage(name, *each) for each in rounds) if x is not None]
            cells.append(f"{statistics.median(known):.2f}" if known else "-")
            if len(known) > 1:
                cells[-1] += f" [{min(known):.2f}, {max(known):.2f}]"
        ratios.append(f"| {peer} | {' | '.join(cells)} |")
        row = " | ".join(form_of(name, median(t[name] for _, t in rounds)) for name in MEASURES)
        values.append(f"| {peer} | {row} |")
    chosen = f"--peers {' '.join(asked.peers)} "
    chosen += f"--task {asked.task} --steps {spec['steps']} --seeds {spec['seeds']} "
    chosen += f"--variants {len(spec['lambdas'])} --rounds {asked.rounds} --runs {asked.runs} "
    chosen += f"--networks {spec['networks']}"
    several = f"Each is the median of {asked.rounds} rounds [least, most]."
    spread = several if asked.rounds > 1 else "They are from one round."
    lines = [
        f"The time of a whole study: `python benchmarks/peers.py {chosen}`",
        "",
        f"- Study: {len(spec['lambdas'])} values of gae_lambda x {spec['seeds']} seeds = {runs} "
        f"runs of {spec['steps']:,} steps on {spec['task']} with spring physics and episodes of "
        f"{EPISODE_LENGTH} steps.",
        f"- Settings: {NUM_ENVS} environments x {UNROLL} steps, {MINIBATCHES} minibatches x "
        f"{EPOCHS} epochs, {activation} networks, {policy} for the policy and {value} for the "
        "value.",
        f"- Ours: the command `ablations run` with {WORKERS} workers and the peer's preset, timed "
        f"from its start to its end, from an empty cache of programs.",
        "- A peer: one process, timed from its start to the end of training. It keeps no programs "
        "on disk (JAX's default), except for the two columns of a first iteration.",
        f"- Neither side evaluates. {machine}",
        "",
        f"Ratios above 1 are in our favour. {spread} For seconds and MB the ratio is the peer's "
        "value over ours, for steps/s it is ours over the peer's.",
        "",
        *ratios,
        "",
        "Medians:",
        "",
        *values,
        "",
        "- *steps/s of the study*: the steps of all runs over the seconds of the whole study.",
        "- *compiling*: for Brax, the time of the first run beyond its steady steps; for ours, the "
        "longer time of the two workers.",
        "- *to the first iteration*: of the study, with as many parallel runs as that side has.",
        "- *peak RSS*: the sum over the processes of a side, where each counts shared pages.",
        "",
        *(
            [
                f"Brax: {min(asked.runs, runs)} of {runs} runs were measured. The time of the "
                "whole study is the start, the first run, and for each other run the mean of the "
                "other measured runs.",
                "",
            ]
            if "brax" in found and asked.runs < runs
            else []
        ),
        *([otherwise(found["brax"]), ""] if "brax" in found else []),
        f"Versions: {'; '.join(' '.join(PACKAGES[peer]) for peer in found if peer in PACKAGES)}, "
        "and those of requirements-test.lock.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", default="hopper")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--steps", type=int, default=491_520, help="steps of a run")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--variants", type=int, default=4, help=f"1 to {len(LAMBDAS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=4, help="measured runs of Brax")
    parser.add_argument(
        "--networks", choices=NETWORKS, default="small", help="brax: Brax's defaults"
    )
    parser.add_argument("--output", type=Path, help="also write the page here")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--spec", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:  # in a peer's environment, where our package is not
        print(json.dumps(SIDES[asked.side](asked.spec)), flush=True)
        return
    from pages import measured_on, write

    if asked.steps < ITERATION or asked.steps % ITERATION:
        parser.error(f"--steps {asked.steps} is not a multiple of an iteration's {ITERATION} steps")
    if not 1 <= asked.variants <= len(LAMBDAS):
        parser.error(f"--variants {asked.variants} is not within 1 and {len(LAMBDAS)}")
    policy, value, _ = NETWORKS[asked.networks]
    if policy != value and "rejax" in asked.peers:
        parser.error(f"--networks {asked.networks}: rejax gives both networks the same layers")
    if min(asked.seeds, asked.rounds, asked.runs) < 1:
        parser.error("--seeds, --rounds and --runs are at least 1")
    pythons = {peer: environment_of(peer, cache / "rl-ablations" / "peers") for peer in asked.peers}
    spec = {
        "task": asked.task,
        "steps": asked.steps,
        "points": math.gcd(asked.steps // ITERATION, 16),
        "seeds": asked.seeds,
        "lambdas": LAMBDAS[: asked.variants],
        "runs": asked.runs,
        "networks": asked.networks,
    }
    found, text, machine = {}, "", measured_on()
    for peer in asked.peers:
        found[peer] = in_turns(peer, pythons[peer], spec, asked.rounds)
        text = page(found, spec, asked, machine)
        if asked.output:
            write(asked.output, text)
    print(text)


if __name__ == "__main__":
    main()
