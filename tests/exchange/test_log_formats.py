"""Logs as other tools write them, by `import` and as a study's curve; and what is done to files."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from ablations import exchange, logs, parquet
from ablations.errors import UserError
from ablations.exchange import Options, import_runs
from ablations.exchange.places import Place
from ablations.exchange.sources import Rule, read_all
from ablations.records import read_plan

SAMPLES = Path(__file__).parent / "samples"
PANEL = "charts/episodic_return"

# path, options, metric; task, run, seed -> points, first step, last step, last value.
CASES = [
    (
        "sb3/progress.csv",
        {},
        "rollout/ep_rew_mean",
        {("task", "sb3", 0): (8, 2048, 16384, 140.4241)},
    ),
    ("sb3/0.monitor.csv", {}, "r", {("CartPole-v1", "sb3", 0): (30, 15, 3159, 194.0)}),
    (
        "zoo",
        {},
        "results",
        {
            ("CartPole-v1", "a2c", 1): (6, 10_000, 60_000, 477.555264),
            ("CartPole-v1", "a2c", 2): (6, 10_000, 60_000, 479.471767),
            ("CartPole-v1", "a2c", 3): (6, 10_000, 60_000, 479.692025),
            ("CartPole-v1", "ppo", 1): (6, 10_000, 60_000, 541.593579),
            ("CartPole-v1", "ppo", 2): (6, 10_000, 60_000, 540.554535),
            ("CartPole-v1", "ppo", 3): (6, 10_000, 60_000, 540.231841),
        },
    ),
    (
        "zoo/*/*_1/evaluations.npz",
        {"pattern": "{run}/{task}_{seed}", "metric": "ep_lengths"},
        "ep_lengths",
        {
            ("CartPole-v1", "a2c", 1): (6, 10_000, 60_000, None),
            ("CartPole-v1", "ppo", 1): (6, 10_000, 60_000, None),
        },
    ),
    (
        "panel.csv",
        {},
        PANEL,
        {
            ("CartPole-v1", "ppo", 1): (9, 500, 5500, 329.42276),
            ("CartPole-v1", "ppo", 2): (9, 500, 6000, 364.062239),
            ("CartPole-v1", "ppo_no_norm", 1): (9, 500, 6000, 296.672271),
            ("CartPole-v1", "ppo_no_norm", 2): (9, 1000, 6000, 299.477277),
        },
    ),
    (
        "rsl_rl/2026-02-01_10-22-33",
        {"pattern": "{task}/{}"},
        "Train/mean_reward",
        {("rsl_rl", "run", 0): (58, 2, 59, None)},
    ),
    (
        "marl_eval",
        {},
        "mean_episode_return",
        {
            ("cartpole", "ff_dqn", 42): (8, 62_500, 500_000, 49.508386),
            ("cartpole", "ff_dqn", 43): (8, 62_500, 500_000, 49.909299),
            ("cartpole", "ff_ppo", 42): (8, 62_500, 500_000, 62.009742),
            ("cartpole", "ff_ppo", 43): (8, 62_500, 500_000, 62.767745),
        },
    ),
    (
        "trl/checkpoint-40/trainer_state.json",
        {},
        "reward",
        {("task", "trl", 0): (8, 5, 40, 0.8)},
    ),
    ("trl/console.txt", {}, "reward", {("task", "trl", 0): (8, 1, 8, 0.8)}),
    (
        "spinningup",
        {},
        "AverageEpRet",
        {
            ("task", "ppo_hopper", 0): (10, 4000, 40_000, 275.0),
            ("task", "ppo_hopper", 10): (10, 4000, 40_000, 275.0),
        },
    ),
    (
        "spinningup/*/progress.txt",
        {"seed_from": "config.json:seed", "pattern": "{}-ppo_{task}_s{}", "step": "Epoch"},
        "AverageEpRet",
        {("hopper", "run", 0): (10, 0, 9, 275.0), ("hopper", "run", 10): (10, 0, 9, 275.0)},
    ),
    (
        "stdout/brax.txt",
        {},
        "eval/episode_reward",
        {("task", "brax", 0): (5, 1_000_000, 5_000_000, 1050.0)},
    ),
    ("stdout/sb3.txt", {}, "rollout/ep_rew_mean", {("task", "sb3", 0): (5, 2048, 10_240, 65.5)}),
    ("stdout/cleanrl.txt", {}, "episodic_return", {("task", "cleanrl", 0): (5, 512, 2560, 45.0)}),
]


def imported(path: Path | str, results: Path, **options) -> dict[Place, tuple]:
    """Import; return task, run, seed -> points, first step, last step, last value."""
    lines: list[str] = []
    plan = import_runs([path], "mine", results, Options(**options), say=lines.append)
    long = exchange.frame(plan, results, [plan.study.metric])
    found = {}
    for (task, run, seed), rows in long.dropna(subset="value").groupby(["task", "variant", "seed"]):
        steps = (len(rows), int(rows.step.iloc[0]), int(rows.step.iloc[-1]))
        found[task, run, seed] = (*steps, rows.value.iloc[-1])
        told = f"task {task}, run {run}, seed {seed}: {steps[0]} point"
        assert any(told in line and f"{steps[2]:,}" in line for line in lines)
    return found


@pytest.mark.parametrize(("path", "options", "metric", "runs"), CASES, ids=[c[0] for c in CASES])
def test_a_sample_by_import(tmp_path, path: str, options: dict, metric: str, runs: dict) -> None:
    found = imported(SAMPLES / path, tmp_path, **options)
    assert found.keys() == runs.keys()
    for place, (points, first, last, value) in runs.items():
        expected = found[place][3] if value is None else pytest.approx(value)
        assert found[place] == (points, first, last, expected)
    assert read_plan(tmp_path, "mine").study.metric == metric


STEPS = {
    "sb3/progress.csv": "time/total_timesteps",
    "sb3/0.monitor.csv": "step",
    "trl/checkpoint-40/trainer_state.json": "step",
    "stdout/brax.txt": "num_steps",
    "stdout/sb3.txt": "time/total_timesteps",
    "stdout/cleanrl.txt": "global_step",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", [c for c in CASES if len(c[3]) == 1], ids=lambda case: case[0])
def test_a_sample_as_a_curve(tmp_path, case, packed: bool) -> None:
    """The same points as by import, of packed files too."""
    name, _, metric, runs = case
    path = SAMPLES / name
    if packed and path.is_file():
        path = tmp_path / f"{path.name}.gz"
        path.write_bytes(gzip.compress((SAMPLES / name).read_bytes()))
    ((points, first, last, value),) = runs.values()
    found = logs.find(str(path))
    assert found is not None
    log = logs.read(found, metric, STEPS.get(name))
    own = [(step, row[metric]) for step, row in log.points if metric in row]
    assert (len(own), own[0][0], own[-1][0]) == (points, first, last)
    assert value is None or own[-1][1] == pytest.approx(value)
    end = logs.latest(found, metric, STEPS.get(name))
    assert end is not None
    assert end[1] == pytest.approx(own[-1][1])


def test_names_alone_make_no_seed_of_a_date_or_a_rate(tmp_path) -> None:
    with pytest.raises(UserError, match=r"no seed in .*10-22-33.*--pattern.*--seed-from") as error:
        import_runs([SAMPLES / "rsl_rl"], "mine", tmp_path)
    assert "\n" not in str(error.value)
    found = imported(SAMPLES / "rsl_rl", tmp_path, pattern="{}/{run}")
    assert {seed for _, _, seed in found} == {0}, "a pattern that names every run"


@pytest.mark.parametrize("name", ["scores.json", "scores.npz", "curves.npz"])
def test_scores_of_rliable_are_paired_by_their_rows(tmp_path, name: str) -> None:
    lines: list[str] = []
    plan = import_runs([SAMPLES / "rliable" / name], "mine", tmp_path, say=lines.append)
    assert any("rows of one number are compared as pairs" in line for line in lines)
    long = exchange.frame(plan, tmp_path)
    ends = long.groupby(["variant", "task", "seed"]).value.last()
    told = json.loads((SAMPLES / "rliable" / "scores.json").read_text())
    for run, rows in told.items():
        for seed, row in enumerate(rows):
            for task, value in enumerate(row, 1):
                assert ends[run, f"task_{task}", seed] == pytest.approx(value)
    assert len(long) == 30 * (5 if name == "curves.npz" else 1)


def test_two_runs_of_a_database_with_one_name_are_refused(tmp_path) -> None:
    with pytest.raises(UserError, match=r"aa11.*both run 'ppo' on 'walker', seed 1: rename"):
        import_runs([SAMPLES / "walker.db"], "mine", tmp_path)


@pytest.mark.parametrize("format", ["csv", "parquet", "marl-eval"])
def test_what_export_writes_is_read_back(tmp_path, format: str) -> None:
    before = imported(SAMPLES / "zoo", tmp_path)
    path = tmp_path / f"out.{format}"
    exchange.export([read_plan(tmp_path, "mine")], tmp_path, path, format, ["results"])
    assert imported(path, tmp_path / "again") == before
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    if format != "parquet":
        assert imported(packed, tmp_path / "packed") == before


def test_several_files_are_read_together(tmp_path) -> None:
    """As a shell gives them, which resolves patterns itself."""
    paths = sorted((SAMPLES / "zoo").glob("*/*/evaluations.npz"))
    plan = import_runs(paths, "mine", tmp_path)
    assert (list(plan.tasks), set(plan.variants)) == (["CartPole-v1"], {"a2c", "ppo"})
    assert plan.seeds == (1, 2, 3)


SEED_FILES = [
    ("config.json", '{"algo": {"seed": 7}}', "algo.seed", 7),
    ("config.json", '{"seed":\t0}', "seed", 0),
    ("args.yml", "env: x\nseed: 12\n", "seed", 12),
    ("config.json", '{"seed": true}', "seed", None),
    ("config.json", '{"seed": 1.5}', "seed", None),
    ("args.yml", "seed: 1\nseed: 2\n", "seed", None),
    ("other.json", '{"seed": 1}', "seed", None),
]


@pytest.mark.parametrize(("name", "text", "key", "seed"), SEED_FILES)
def test_a_seed_beside_the_log(tmp_path, name: str, text: str, key: str, seed: int | None) -> None:
    folder = tmp_path / "ppo"
    folder.mkdir()
    (folder / name).write_text(text)
    (folder / "progress.csv").write_text("step,return\n1,2\n2,3\n")
    wanted = Options(seed_from=f"{name if name != 'other.json' else 'gone.json'}:{key}")
    if seed is None:
        with pytest.raises(UserError, match=r"no '|has no seed"):
            import_runs([folder / "progress.csv"], "mine", tmp_path, wanted)
    else:
        plan = import_runs([folder / "progress.csv"], "mine", tmp_path, wanted)
        assert plan.seeds == (seed,)


def sqlite() -> bytes:
    return (SAMPLES / "walker.db").read_bytes()


REFUSED = [
    ("x.csv", pickle.dumps({"return": [1]}), "a pickle, which runs code"),
    ("x.wandb", b":W&B\xe1\xbe\x00" + b"\0" * 50, "W&B run's own log: .*history"),
    ("x.h5", b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    ("x.csv", b'"global_step","a - r","a - r"\n1,2,3\n', "two columns 'a - r'"),
    ("x.csv", b"seconds,a - r\n0.5,2\n", "seconds must be a whole number"),
    ("x.csv", b"step,return,seed\n1,2,1\n2,3,2\n", "has no column 'run'"),
    ("x.jsonl", b'{"step": 1, "seed": 1}\n{"step": 2, "seed": 2}\n', "several seeds"),
    ("x.csv", b"step;return\n10;1,5\n", "line 2: return must be a number, not '1,5'"),
    ("x.npz", None, "has no timesteps, and is no file of scores: it has a, b"),
    ("x.csv.gz", gzip.compress(b"step,return\n1,2\n", mtime=0)[:-12], "cannot be unpacked"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "says"), REFUSED)
def test_what_cannot_be_read_says_what_it_is(tmp_path, name: str, data, says: str) -> None:
    path = tmp_path / name
    if data is None:
        np.savez(path, a=np.zeros((2, 3)), b=np.zeros((2, 4)))
    else:
        path.write_bytes(data)
    with pytest.raises(UserError, match=says) as error:
        import_runs([path], "mine", tmp_path / "results")
    assert "\n" not in str(error.value)
    assert name in str(error.value)
    assert not (tmp_path / "results").exists()


def test_databases_and_tables_of_several_runs_are_no_curve(tmp_path) -> None:
    with pytest.raises(UserError, match="a database: `ablations import`"):
        logs.read(SAMPLES / "walker.db", "return")
    (tmp_path / "x.csv").write_bytes(parquet.encode({"step": [1]}))
    with pytest.raises(UserError, match="a Parquet file: `ablations import`"):
        logs.read(tmp_path / "x.csv", "return")
    (tmp_path / "aim").mkdir()
    (tmp_path / "aim" / "CURRENT").write_text("MANIFEST-000004\n")
    with pytest.raises(UserError, match="RocksDB"):
        import_runs([tmp_path / "aim"], "mine", tmp_path)


def test_a_metric_that_ends_early_says_so(tmp_path) -> None:
    path = tmp_path / "a_1.csv"
    path.write_text(
        "step,eval,loss\n" + "".join(f"{i},{i if i < 6 else ''},1\n" for i in range(10))
    )
    lines: list[str] = []
    import_runs([path], "mine", tmp_path, Options(metric="eval"), say=lines.append)
    assert any("eval: the last value is at step 5 of 9" in line for line in lines)


@pytest.mark.parametrize("kind", ["csv", "tsv", "txt", "log", "dat", "jsonl", "CSV"])
@pytest.mark.parametrize("mark", ",\t;")
def test_a_table_is_one_whatever_it_is_called(tmp_path, kind: str, mark: str) -> None:
    path = tmp_path / f"log.{kind}"
    path.write_text("\n".join(mark.join(row) for row in (["step", "r"], ["1", "0.5"], ["2", "1"])))
    if kind == "jsonl":
        with pytest.raises(UserError, match="is no JSON"):
            logs.read(path, "r", "step")
        return
    assert [(step, row["r"]) for step, row in logs.read(path, "r", "step").points] == [
        (1, 0.5),
        (2, 1.0),
    ]


# Files that were shuffled, doubled, cut, renamed

TRUTH = {
    (run, seed): {step: round(run_place + seed + step / 7, 4) for step in range(10, 90, 10)}
    for run_place, run in enumerate(("ppo", "a2c"))
    for seed in (1, 2)
}


def lines_of(kind: str, points: dict[int, float]) -> tuple[list[str], list[str]]:
    """A run's log: the lines it begins with, and its pieces that belong together."""
    if kind == "csv":
        return ["step,return,loss\n"], [f"{s},{r},0.5\n" for s, r in points.items()]
    if kind == "jsonl":
        return [], [json.dumps({"step": s, "return": r}) + "\n" for s, r in points.items()]
    if kind == "txt":
        return ["start\n"], [f"step={s} return={r} ok\n" for s, r in points.items()]
    bar = "-" * 20 + "\n"
    return [bar], [f"| step | {s} |\n| return | {r} |\n{bar}" for s, r in points.items()]


def write_all(folder: Path, kind: str, change) -> None:
    """Write every run; change: takes the pieces of the first file and returns those to write."""
    for number, ((run, seed), points) in enumerate(TRUTH.items()):
        head, pieces = lines_of(kind, points)
        path = folder / f"{run}_{seed}" / f"progress.{'txt' if kind == 'table' else kind}"
        path.parent.mkdir()
        path.write_text("".join([*head, *(change(pieces) if number == 0 else pieces)]))


def one_line(error: UserError) -> None:
    assert "\n" not in str(error)


def right_or_refused(path: Path, *, whole: bool) -> None:
    """Every value that is read is one of its own run's, at its step; or one line refuses."""
    notes: list[str] = []
    try:
        (read,) = read_all([path], Rule(metric="return"), notes)
    except UserError as error:
        one_line(error)
        return
    for (_, run, seed), curve in read.curves.items():
        values = curve.values["return"]
        found = {int(s): v for s, v in zip(curve.steps, values, strict=True) if not np.isnan(v)}
        truth = TRUTH[run, seed]
        assert found.items() <= truth.items()
        assert found == truth or not whole or any("left out" in note for note in notes)
        assert list(found) == sorted(truth)[: len(found)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["csv", "jsonl", "txt", "table"])
def test_what_is_done_to_a_log_is_read_right_or_refused(tmp_path, kind: str, seed: int) -> None:
    dice = random.Random(f"{kind}{seed}")

    def shuffled(pieces: list[str]) -> list[str]:
        return dice.sample(pieces, len(pieces))

    def doubled(pieces: list[str]) -> list[str]:
        at = dice.randrange(len(pieces))
        return [*pieces[: at + 1], pieces[at], *pieces[at + 1 :]]

    def cut(pieces: list[str]) -> list[str]:
        kept = dice.randrange(1, len(pieces))
        return [*pieces[:kept], pieces[kept][: dice.randrange(3)]]

    for change in (shuffled, doubled, cut):
        folder = tmp_path / change.__name__
        folder.mkdir()
        write_all(folder, kind, change)
        right_or_refused(folder, whole=change is not cut)


@pytest.mark.parametrize("name", ["ppo-1", "ppo_seed1", "ppo_2026-02-01", "2026-02-01_ppo_s1"])
def test_a_second_file_of_a_run_is_never_merged(tmp_path, name: str) -> None:
    write_all(tmp_path, "csv", lambda pieces: pieces)
    shutil.copytree(tmp_path / "a2c_2", tmp_path / name)
    notes: list[str] = []
    if name != "ppo_2026-02-01":
        with pytest.raises(UserError, match="--pattern"):
            list(read_all([tmp_path], Rule(), notes))
    else:
        (read,) = read_all([tmp_path], Rule(), notes)
        assert len(read.curves) == 5
        assert any("no seed in 'ppo_2026-02-01'" in note for note in notes)


def test_names_of_files_count_where_they_differ(tmp_path) -> None:
    about = '#{"env_id": "Ant-v4"}\nr,l,t\n1.5,10,0.1\n'
    (tmp_path / "ppo_2.monitor.csv").write_text(about)
    assert imported(tmp_path / "ppo_2.monitor.csv", tmp_path / "a") == {
        ("Ant-v4", "ppo", 2): (1, 10, 10, 1.5)
    }
    (tmp_path / "ppo_2.csv").write_text("step,return\n1,2\n")
    (tmp_path / "ppo_2.csv.gz").write_bytes(gzip.compress(b"step,return\n1,2\n"))
    paths = [tmp_path / "ppo_2.csv", tmp_path / "ppo_2.csv.gz"]
    with pytest.raises(UserError, match="both run 'ppo' on 'task', seed 2"):
        import_runs(paths, "mine", tmp_path / "b")


def test_a_copy_under_another_seed_has_a_line(tmp_path) -> None:
    write_all(tmp_path, "csv", lambda pieces: pieces)
    shutil.copytree(tmp_path / "a2c_2", tmp_path / "a2c_3")
    notes: list[str] = []
    list(read_all([tmp_path], Rule(), notes))
    assert "seeds 2 and 3 of 'a2c' on 'task' have the same curve: a copy?" in notes


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["long", "panel"])
def test_what_is_done_to_a_table_of_runs_is_read_right_or_refused(tmp_path, kind, seed) -> None:
    dice = random.Random(seed)
    steps = sorted(next(iter(TRUTH.values())))
    if kind == "long":
        rows = [[run, s, step, v] for (run, s), at in TRUTH.items() for step, v in at.items()]
        head = ["run", "seed", "step", "return"]
    else:
        rows = [[step, *(at[step] for at in TRUTH.values())] for step in steps]
        head = ["Step", *(f"{run}_{s} - return" for run, s in TRUTH)]
    for change in ("shuffled", "doubled", "cut"):
        if change == "shuffled":
            own = dice.sample(rows, len(rows))
        elif change == "doubled":
            own = [*rows, rows[dice.randrange(len(rows))]]
        else:
            own = rows[: dice.randrange(1, len(rows))]
        text = io.StringIO()
        csv.writer(text).writerows([head, *own])
        path = tmp_path / f"{change}.csv"
        path.write_text(text.getvalue())
        if change == "doubled":
            with pytest.raises(UserError, match=r"second time|twice"):
                list(read_all([path], Rule(), []))
        right_or_refused(path, whole=change != "cut")


def mlflow_run(store: Path, key: str, name: str, seed: int, values: list[str]) -> None:
    run = store / "438" / key
    for folder in ("metrics/eval", "params", "tags"):
        (run / folder).mkdir(parents=True, exist_ok=True)
    (run / "meta.yaml").write_text(f"run_id: {key}\nrun_name: {name}\nstatus: 3\n")
    (run / "params" / "seed").write_text(str(seed))
    (run / "params" / "env_id").write_text("Hopper-v4")
    lines = [f"{1700000000000 + k} {value} {10 * k}" for k, value in enumerate(values, 1)]
    (run / "metrics" / "eval" / "return").write_text("\n".join(lines) + "\n")
    (run / "metrics" / "loss").write_text("1700000000000 0.5 1\n")


def test_mlflows_file_store(tmp_path) -> None:
    store = tmp_path / "mlruns"
    for k, (name, gain) in enumerate({"ppo": 1, "ppo_norm": 2}.items()):
        for seed in (3, 7):
            values = [f"{gain * step + seed}" for step in range(1, 6)]
            mlflow_run(store, f"{k}{seed}" * 16, name, seed, values)
    (store / "438" / "meta.yaml").write_text("experiment_id: '438'\nname: mine\n")
    found = imported(store, tmp_path, metric="eval/return")
    assert found == {
        ("Hopper-v4", name, seed): (5, 10, 50, 5 * gain + seed)
        for name, gain in {"ppo": 1, "ppo_norm": 2}.items()
        for seed in (3, 7)
    }


def test_a_damaged_metric_of_mlflow_is_named(tmp_path) -> None:
    mlflow_run(tmp_path / "mlruns", "a" * 32, "ppo", 1, ["1", "2", "half"])
    with pytest.raises(UserError, match=r"metrics/eval/return', line 3: no metric of MLflow's"):
        imported(tmp_path / "mlruns", tmp_path, metric="eval/return")
