"""Gymnax's tasks against rejax and PureJaxRL: a whole study's time, and what is learned.

    python tests/benchmarks/discrete.py speed [--tasks cartpole breakout] [--seeds 8] [--rounds 3]
        [--output results/reference/speed/discrete.md]
    python tests/benchmarks/discrete.py learning [--tasks cartpole breakout asterix] [--seeds 20]
        [--output results/reference/discrete.md]

    with --purejaxrl FOLDER, a checkout of it at 31756b1; without it speed is against rejax alone,
    and learning is ours alone

speed: four values of gae_lambda by some seeds, nobody evaluates. Ours is the real command, from an
empty folder and an empty cache of programs, composed as the peer; a peer is one process that
compiles once, for all values and seeds. Ratios are within a round, and their median is printed.
learning: the tasks' own settings at full length, against PureJaxRL's own script at the same ones:
the return of episodes that ended in the last tenth of training, and the mode's at the end; solved:
seeds whose mode has the most that the task pays.
Peers live in the environment of peers.py's rejax, as they need gymnax 0.0.9. Leave the machine
alone meanwhile: learning takes hours.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from peers import base_environment, environment_of, timed

LAMBDAS = (0.95, 0.9, 0.8, 1.0)
GYMNAX = {"cartpole": "CartPole-v1", "breakout": "Breakout-MinAtar", "asterix": "Asterix-MinAtar"}
STEPS = {"cartpole": 500_000, "breakout": 1_000_000, "asterix": 1_000_000}  # of a study's runs
SOLVED = {"cartpole": 500.0}
WORKERS = 2
# PureJaxRL's, of purejaxrl/ppo.py and examples/brax_minatar.ipynb; rejax has the same by its names
CLASSIC = {
    "LR": 2.5e-4,
    "NUM_ENVS": 4,
    "NUM_STEPS": 128,
    "UPDATE_EPOCHS": 4,
    "NUM_MINIBATCHES": 4,
    "GAMMA": 0.99,
    "GAE_LAMBDA": 0.95,
    "CLIP_EPS": 0.2,
    "ENT_COEF": 0.01,
    "VF_COEF": 0.5,
    "MAX_GRAD_NORM": 0.5,
    "ACTIVATION": "tanh",
    "ANNEAL_LR": True,
}
MINATAR = {**CLASSIC, "LR": 5e-3, "NUM_ENVS": 64, "NUM_MINIBATCHES": 8, "ACTIVATION": "relu"}
OF_REJAX = {
    "num_envs": "NUM_ENVS",
    "num_steps": "NUM_STEPS",
    "num_minibatches": "NUM_MINIBATCHES",
    "num_epochs": "UPDATE_EPOCHS",
    "learning_rate": "LR",
    "gamma": "GAMMA",
    "clip_eps": "CLIP_EPS",
    "vf_coef": "VF_COEF",
    "ent_coef": "ENT_COEF",
    "activation": "ACTIVATION",
}

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rl-ablations" / "peers"

Spec = Mapping[str, Any]


def arguments_of(peer: str, task: str) -> dict[str, Any]:
    theirs = CLASSIC if task == "cartpole" else MINATAR
    return theirs if peer == "purejaxrl" else {n: theirs[name] for n, name in OF_REJAX.items()}


# A peer, in a process and an environment of its own. These import nothing of ours.


def run_rejax(spec: Spec) -> dict[str, Any]:
    import jax.numpy as jnp
    from rejax import PPO

    given = dict(spec["arguments"])
    algorithm = PPO.create(
        env=GYMNAX[spec["task"]],
        agent_kwargs={"activation": given.pop("activation")},
        total_timesteps=spec["steps"],
        eval_freq=spec["steps"],
        skip_initial_evaluation=True,
        **given,
    ).replace(eval_callback=lambda *_: jnp.zeros(()))

    def train(value: Any, key: Any) -> Any:
        return algorithm.replace(gae_lambda=value).train(key)[0].actor_ts.params

    return trained(train, spec)


def run_purejaxrl(spec: Spec) -> dict[str, Any]:
    import jax.numpy as jnp

    for name in ("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training", "navix"):
        sys.modules[name] = ModuleType(name)
    sys.modules["brax"].envs = sys.modules["brax.envs"]
    training = sys.modules["brax.envs.wrappers.training"]
    training.EpisodeWrapper = training.AutoResetWrapper = object
    sys.path.insert(0, spec["purejaxrl"])
    from ppo import make_train

    run = {**spec["arguments"], "TOTAL_TIMESTEPS": spec["steps"], "ENV_NAME": GYMNAX[spec["task"]]}

    def train(value: Any, key: Any) -> Any:
        seen = make_train({**run, "GAE_LAMBDA": value})(key)["metrics"]
        last = seen["returned_episode"].at[: -(len(seen["returned_episode"]) // 10)].set(False)
        total = jnp.sum(jnp.where(last, seen["returned_episode_returns"], 0.0))
        return total / jnp.sum(last)

    return trained(train, spec)


def trained(train: Any, spec: Spec) -> dict[str, Any]:
    """All seeds at once, one value after the other, of one program."""
    import jax
    import jax.numpy as jnp

    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(spec["seeds"]))
    values = jnp.float32(jnp.array(spec["lambdas"]))
    compiled = jax.jit(jax.vmap(train, in_axes=(None, 0))).lower(values[0], keys).compile()
    found = [jax.block_until_ready(compiled(value, keys)) for value in values]
    returns = found[0].tolist() if spec["side"] == "purejaxrl" else None
    return {"trained_at": time.time(), "returns": returns}


SIDES = {"rejax": run_rejax, "purejaxrl": run_purejaxrl}


# The parent


def peer_once(python: Path, spec: Spec) -> dict[str, Any]:
    command = [str(python), str(Path(__file__).resolve()), "--side", json.dumps(spec)]
    printed, began, *_ = timed(command, base_environment(None))
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found | {"seconds": found["trained_at"] - began}


def ours_once(spec: Spec, results: Path, cache: Path) -> float:
    """Seconds of the command, composed as the peer is."""
    from ablations.presets import preset
    from ablations.tasks import task

    library = preset(spec["side"]).on(task(spec["task"]))
    usual, asked = library.values(), library.values(**spec["arguments"])
    sets = {name: x for name, x in asked.items() if usual.get(name) != x}
    command = [sys.executable, "-m", "ablations.cli", "run", "exam", "--variants", "baseline"]
    command += ["--base", spec["side"], "--geometry", "own", "--tasks", spec["task"], "--quiet"]
    command += ["--seeds", str(spec["seeds"]), "--steps", str(spec["steps"]), "--evaluations", "0"]
    command += ["--workers", str(WORKERS), "--results", str(results)]
    command += ["--vary", "gae_lambda=" + ",".join(f"{x:g}" for x in spec["lambdas"])]
    if sets:
        command += ["--set", *(f"{n}={json.dumps(x).strip(chr(34))}" for n, x in sets.items())]
    return timed(command, base_environment(cache))[2]


def speed(asked: argparse.Namespace, python: Path) -> str:
    rows = []
    for task in asked.tasks or ["cartpole", "breakout"]:
        for peer in SIDES if asked.purejaxrl else ("rejax",):
            spec = {
                "side": peer,
                "task": task,
                "arguments": arguments_of(peer, task),
                "steps": asked.steps or STEPS[task],
                "seeds": asked.seeds or 8,
                "lambdas": LAMBDAS,
                "purejaxrl": asked.purejaxrl,
            }
            times = []
            for _ in range(asked.rounds):
                with tempfile.TemporaryDirectory() as folder:
                    ours = ours_once(spec, Path(folder) / "results", Path(folder) / "cache")
                times.append((ours, peer_once(python, spec)["seconds"]))
            ratios = sorted(theirs / ours for ours, theirs in times)
            ours, theirs = (statistics.median(x) for x in zip(*times, strict=True))
            median = f"{statistics.median(ratios):.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}]"
            total = spec["steps"] * spec["seeds"] * len(LAMBDAS)
            rows.append(
                f"| {task} | {peer} | {median} | {ours:.1f} | {theirs:.1f} | {total / ours:,.0f} |"
            )
            print(rows[-1], file=sys.stderr, flush=True)
    head = "| task | against | times faster | ours, s | theirs, s | our steps/s |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows])


def learning(asked: argparse.Namespace, python: Path | None) -> str:
    from ablations import curves
    from ablations.tasks import task

    rows, seeds = [], asked.seeds or 20
    for name in asked.tasks or ["cartpole", "breakout", "asterix"]:
        steps = asked.steps or task(name).steps
        results = Path(asked.results)
        command = [sys.executable, "-m", "ablations.cli", "run", "exam", "--variants", "baseline"]
        command += ["--tasks", name, "--seeds", str(seeds), "--steps", str(steps), "--quiet"]
        command += ["--evaluations", "10", "--results", str(results)]
        timed(command, base_environment(results / "cache"))
        runs = curves("exam", results=results)  # of its last plan
        runs = runs[(runs["task"] == name) & (runs["variant"] == "baseline")]
        last = runs[runs["step"] > 0.9 * steps].groupby("seed")["training/return"].mean()
        mode = runs.groupby("seed")["evaluation/return"].last()
        spec: dict[str, Any] = {
            "side": "purejaxrl",
            "task": name,
            "arguments": arguments_of("purejaxrl", name),
            "steps": steps,
            "seeds": seeds,
            "lambdas": LAMBDAS[:1],
            "purejaxrl": asked.purejaxrl,
        }
        theirs = spread(peer_once(python, spec)["returns"]) if python else "not run"
        solved = f"{int((mode >= SOLVED[name]).sum())} of {seeds}" if name in SOLVED else ""
        shown = [name, f"{steps:,}", spread(last), theirs, spread(mode), solved]
        rows.append(f"| {' | '.join(shown)} |")
        print(rows[-1], file=sys.stderr, flush=True)
    head = "| task | steps | training, ours | training, PureJaxRL | the mode at the end | solved |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows])


def spread(values: Any) -> str:
    """Mean ± standard deviation over seeds."""
    values = [float(value) for value in values]
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.1f} ± {deviation:.1f}"


def main() -> None:
    if sys.argv[1:2] == ["--side"]:
        spec = json.loads(sys.argv[2])
        print(json.dumps(SIDES[spec["side"]](spec)), flush=True)
        return
    from pages import measured_on, write  # which import what peers do not have

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("speed", "learning"))
    parser.add_argument("--tasks", nargs="+", choices=GYMNAX)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--steps", type=int, help="of a run; default: see the text above")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--purejaxrl", type=lambda x: str(Path(x) / "purejaxrl"))
    parser.add_argument("--environments", type=Path, default=CACHE)
    parser.add_argument("--results", default="results", help="of learning: where its cells go")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    alone = asked.what == "learning" and not asked.purejaxrl
    python = None if alone else environment_of("rejax", asked.environments)
    table = {"speed": speed, "learning": learning}[asked.what](asked, python)
    shown = f"`python tests/benchmarks/discrete.py {' '.join(sys.argv[1:])}`"
    text = f"{measured_on()}\n\n{shown}\n\n{table}\n"
    print(text)
    if asked.output:
        write(asked.output, text)


if __name__ == "__main__":
    main()
