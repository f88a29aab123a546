"""Compare Gymnax's tasks with rejax and PureJaxRL: CPU time of training, and what is learned.

    python benchmarks/discrete.py steady [--tasks cartpole breakout] [--seeds 8] [--rounds 7]
        [--output results/reference/speed/discrete_steady.md]
    python benchmarks/discrete.py learning [--tasks cartpole breakout asterix] [--seeds 20]
        [--first 0] [--output results/reference/discrete.md]

--purejaxrl FOLDER is a checkout of PureJaxRL at 31756b1. Without it, steady compares with rejax
only and learning trains our side only. Peers run in the environment of rejax in peers.py, because
they need gymnax 0.0.9.

- steady: CPU seconds of a few updates without start and compilation, taken in turns. Our side
  trains one run, as a worker does. A peer trains all seeds under vmap. Each has one thread,
  because two threads of XLA can deadlock (PureJaxRL, Breakout, eight seeds).
- learning: the tasks' own settings at full length, compared with PureJaxRL's script at the same
  settings and one thread. The table has the return of episodes that ended in the last tenth of
  training, its difference with a 95% Welch interval (the sides share no random number), and the
  mode's return at the end. *solved* counts seeds whose mode has the highest possible return.
  --results keeps the trained seeds (PureJaxRL's in purejaxrl/) and --output keeps the rows of other
  tasks, so an interrupted command can be repeated. This takes hours.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from peers import base_environment, environment_of, timed

GAE_LAMBDA = 0.95
GYMNAX = {"cartpole": "CartPole-v1", "breakout": "Breakout-MinAtar", "asterix": "Asterix-MinAtar"}
SOLVED = {"cartpole": 500.0}
ONE_THREAD = {"NPROC": "1", "OMP_NUM_THREADS": "1"}
OF_REJAX = {  # PureJaxRL's names of rejax's arguments
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
    from ablations.presets.purejaxrl import MINATAR, OF_DISCRETE

    theirs = {**OF_DISCRETE.arguments, **({} if task == "cartpole" else MINATAR)}
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
    """Train the seeds of `each` one by one, or all seeds in one program, for `steady`."""
    import jax
    import jax.numpy as jnp

    train = functools.partial(train, GAE_LAMBDA)
    if each := spec.get("each"):
        one = jax.jit(jax.vmap(train))
        return {"returns": [one(jax.random.PRNGKey(seed)[None]).item() for seed in each]}
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(spec["seeds"]))
    compiled = jax.jit(jax.vmap(train)).lower(keys).compile()
    return by_turns(lambda: jax.block_until_ready(compiled(keys)))


SIDES = {"rejax": run_rejax, "purejaxrl": run_purejaxrl}


def by_turns(run: Callable[[], Any]) -> None:
    """Print the CPU seconds so far, then of one run per line of input; then end the process."""
    print("ready", time.process_time(), flush=True)
    run()
    while sys.stdin.readline():
        started = time.process_time()
        run()
        print(time.process_time() - started, flush=True)
    os._exit(0)


def run_ours(spec: Spec) -> None:
    from ablations.engine.machine import worker_environment

    os.environ |= worker_environment(accelerator=False)  # before JAX starts
    import jax

    from ablations.presets import preset
    from ablations.tasks import task
    from ablations.trainers import trainer
    from ablations.trainers.revisions import compose

    on, definition = task(spec["task"]), trainer("ppo")
    library = preset(spec["side"]).on(on)
    config = definition.resolve(on, library.values(**spec["arguments"]))
    config["run"] = {"updates_per_chunk": spec["updates"], "evaluation_envs": 1}
    composed, as_data = compose(config, definition.compiled_in(config))
    variant = as_data(config)
    state = jax.jit(composed.init)(jax.random.key(0), variant)
    chunk = jax.jit(composed.chunk, donate_argnums=0).lower(state, variant).compile()

    def run() -> None:
        nonlocal state
        state, _ = jax.block_until_ready(chunk(state, variant))

    by_turns(run)


# The parent


def trained_by_peer(python: Path, spec: Spec) -> list[float]:
    """Return the returns of the seeds."""
    command = [str(python), str(Path(__file__).resolve()), "--side", json.dumps(spec)]
    printed, *_ = timed(command, base_environment(None) | ONE_THREAD)
    return json.loads(printed.splitlines()[-1])["returns"]


def commit() -> str:
    from ablations.engine.provenance import of_checkout

    return of_checkout().get("commit", "")[:7]


UPDATES = {"cartpole": 24, "breakout": 2, "asterix": 2}  # of a turn


def steady(asked: argparse.Namespace, python: Path) -> str:
    rows: list[list[str]] = []
    for task in asked.tasks or ["cartpole", "breakout"]:
        for peer in SIDES if asked.purejaxrl else ("rejax",):
            arguments = arguments_of(peer, task)
            of_update = arguments_of("purejaxrl", task)
            steps = UPDATES[task] * of_update["NUM_ENVS"] * of_update["NUM_STEPS"]
            seeds = asked.seeds or 8
            spec = {
                "side": peer,
                "task": task,
                "arguments": arguments,
                "updates": UPDATES[task],
                "steps": steps,
                "seeds": seeds,
                "purejaxrl": asked.purejaxrl,
            }
            sides = [turns_of(sys.executable, "--ours", spec), turns_of(python, "--side", spec)]
            begun = [float(answer(side, "ready").split()[1]) for side in sides]
            rates: list[tuple[float, float]] = []
            for number in range(asked.rounds):
                took = [0.0, 0.0]
                for place in (0, 1) if number % 2 else (1, 0):
                    print("go", file=sides[place].stdin, flush=True)
                    took[place] = float(answer(sides[place], ""))
                rates.append((steps / took[0], steps * seeds / took[1]))
            for side in sides:
                side.communicate()
            ratios = sorted(ours / its for ours, its in rates)
            shown = [task, peer, f"{statistics.median(ratios):.2f}"]
            shown[-1] += f" [{ratios[0]:.2f}, {ratios[-1]:.2f}]"
            shown += [f"{statistics.median(x):,.0f}" for x in zip(*rates, strict=True)]
            shown += [f"{seconds:.0f}" for seconds in begun]
            rows.append(shown)
            print(*shown, file=sys.stderr, flush=True)
    return "\n".join(markdown(STEADY, rows))


STEADY = (
    *("task", "against", "ours over theirs", "our steps per CPU second", "theirs"),
    *("our start and compilation, CPU s", "theirs"),
)


def turns_of(python: Path | str, side: str, spec: Spec) -> subprocess.Popen[str]:
    """Start a process that trains for each line of input."""
    return subprocess.Popen(
        [str(python), str(Path(__file__).resolve()), side, json.dumps(spec)],
        env=base_environment(None) | ONE_THREAD,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def answer(process: subprocess.Popen[str], start: str) -> str:
    """Return the next line with this start; exit if the process has ended."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(start):
            return line
    sys.exit(f"{process.args!r} ended with {process.wait()}")


def learning(asked: argparse.Namespace, python: Path | None) -> str:
    from ablations import curves
    from ablations.tasks import task

    rows = {tuple(row[:3]): Learned(*row) for row in kept_rows(asked.output)}
    seeds = range(asked.first, asked.first + (asked.seeds or 20))
    these = f"{seeds[0]}-{seeds[-1]}"
    for name in asked.tasks or ["cartpole", "breakout", "asterix"]:
        steps = asked.steps or task(name).steps
        results = Path(asked.results)
        command = [sys.executable, "-m", "ablations.cli", "run", "exam", "--variants", "baseline"]
        command += ["--tasks", name, "--seeds", these, "--steps", str(steps), "--quiet"]
        command += ["--set", "evaluations=10", "--results", str(results)]
        timed(command, base_environment(results / "cache"))
        runs = curves("exam", results=results)  # of its last plan
        runs = runs[(runs["task"] == name) & (runs["variant"] == "baseline")]
        last = runs[runs["step"] > 0.9 * steps].groupby("seed")["training/return"].mean()
        mode = runs.groupby("seed")["evaluation/return"].last()
        theirs, apart = "not run", ""
        if python:
            peer = purejaxrl_of(python, asked, name, steps, seeds)
            theirs, apart = spread(peer), difference(last, peer)
        solved = f"{int((mode >= SOLVED[name]).sum())} of {len(seeds)}" if name in SOLVED else ""
        row = Learned(name, f"{steps:,}", these, spread(last), theirs)
        rows[row[:3]] = row._replace(mode=spread(mode), solved=solved, commit=commit(), apart=apart)
        print(*row, file=sys.stderr, flush=True)
    return "\n".join([*markdown(HEAD, rows.values()), "", PUBLISHED])


class Learned(NamedTuple):
    task: str
    steps: str
    seeds: str
    ours: str
    theirs: str
    mode: str = ""
    solved: str = ""
    commit: str = ""
    apart: str = ""


HEAD = Learned(
    *("task", "steps", "seeds", "training, ours", "training, PureJaxRL", "the mode at the end"),
    *("solved", "commit", "ours - PureJaxRL [95%]"),
)
PUBLISHED = """\
Each row is from `--tasks TASK --steps STEPS --first FIRST --seeds NUMBER`. The learning rate falls
to 0 over these steps. Values are mean ± standard deviation over seeds. Compilation (threads, other
outputs) changes the result of a seed of PureJaxRL's script, so its seeds are not reproducible.

PureJaxRL's own results, at 31756b1, have no number to compare with: a figure of Breakout in its
README (docs/minatar_plot_seconds.png) that ends near 40 without a number of steps, a curve of Space
Invaders in examples/brax_minatar.ipynb, and nothing on Asterix. The comparison is therefore with
PureJaxRL's script, run here."""


def kept_rows(page: Path | None) -> list[list[str]]:
    if page is None or not page.exists():
        return []
    lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[2:]]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def purejaxrl_of(
    python: Path, asked: argparse.Namespace, name: str, steps: int, seeds: range
) -> list[float]:
    """Return the returns of seeds of PureJaxRL's script, and keep them with the results.

    Those that are missing are trained by one process, one after the other.
    """
    folder = Path(asked.results) / "purejaxrl"
    kept = {seed: folder / f"{name}_{steps}_{seed}.json" for seed in seeds}
    if missing := [seed for seed in seeds if not kept[seed].exists()]:
        spec: dict[str, Any] = {
            "side": "purejaxrl",
            "task": name,
            "arguments": arguments_of("purejaxrl", name),
            "steps": steps,
            "each": missing,
            "purejaxrl": asked.purejaxrl,
        }
        returns = trained_by_peer(python, spec)
        folder.mkdir(parents=True, exist_ok=True)
        for seed, value in zip(missing, returns, strict=True):
            kept[seed].write_text(json.dumps({"returns": [value]}))
    return [float(json.loads(path.read_text())["returns"][0]) for path in kept.values()]


def spread(values: Any) -> str:
    """Format mean ± standard deviation over seeds, or the value of one seed."""
    values = [float(value) for value in values]
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{deviation}"


def difference(ours: Any, theirs: Any) -> str:
    """Format ours minus theirs with its 95% interval; empty with one seed."""
    from ablations.stats import welch

    if min(len(ours), len(theirs)) < 2:
        return ""
    found = welch(list(ours), list(theirs))
    return f"{found.difference:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"


FOLDERS = ("--purejaxrl", "--environments", "--results")
TABLES: dict[str, Callable[[argparse.Namespace, Any], str]] = {
    "steady": steady,
    "learning": learning,
}


def main() -> None:
    if sys.argv[1:2] == ["--side"]:
        spec = json.loads(sys.argv[2])
        print(json.dumps(SIDES[spec["side"]](spec)), flush=True)
        return
    if sys.argv[1:2] == ["--ours"]:
        run_ours(json.loads(sys.argv[2]))
        return
    from pages import measured_on, write  # which import what peers do not have

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=TABLES)
    parser.add_argument("--tasks", nargs="+", choices=GYMNAX)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--first", type=int, default=0, help="the first seed of `learning`")
    parser.add_argument("--steps", type=int, help="steps of a run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--purejaxrl", type=lambda x: str(Path(x) / "purejaxrl"))
    parser.add_argument("--environments", type=Path, default=CACHE)
    parser.add_argument("--results", default="results", help="where `learning` stores its runs")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    alone = asked.what == "learning" and not asked.purejaxrl
    python = None if alone else environment_of("rejax", asked.environments)
    table = TABLES[asked.what](asked, python)
    given = zip(["", *sys.argv], sys.argv, strict=False)  # folders are this machine's
    words = ["FOLDER" if before in FOLDERS else word for before, word in given][1:]
    shown = f"`python benchmarks/discrete.py {' '.join(words)}`"
    text = f"{measured_on()}\n\n{shown}\n\n{table}\n"
    print(text)
    if asked.output:
        write(asked.output, text)


if __name__ == "__main__":
    main()
