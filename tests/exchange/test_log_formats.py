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
        {"pattern": "{run}{seed}"},
        "rollout/ep_rew_mean",
        {("task", "sb", 3): (8, 2048, 16384, 140.4241)},
    ),
    (
        "zoo",
        {"pattern": "{run}/{task}_{seed}"},
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
        {"pattern": "{task}__{run}__{seed}__{}"},
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
        {"pattern": "{run}/{}_{seed}-{}"},
        "Train/mean_reward",
        {("task", "rsl_rl", 10): (58, 2, 59, None)},
    ),
    (
        "spinningup",
        {"pattern": "2026-02-01_10-22-33-{run}_{task}_s{seed}", "step": "Epoch"},
        "AverageEpRet",
        {("hopper", "ppo", 0): (10, 0, 9, 275.0), ("hopper", "ppo", 10): (10, 0, 9, 275.0)},
    ),
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


# path, column of steps, metric; points, first step, last step, last value.
CURVES = [
    ("sb3/progress.csv", "time/total_timesteps", "rollout/ep_rew_mean", (8, 2048, 16384, 140.4241)),
    ("rsl_rl/2026-02-01_10-22-33", None, "Train/mean_reward", (58, 2, 59, None)),
    ("stdout/brax.txt", "num_steps", "eval/episode_reward", (5, 1_000_000, 5_000_000, 1050.0)),
    ("stdout/cleanrl.txt", "global_step", "episodic_return", (5, 512, 2560, 45.0)),
]


@pytest.mark.parametrize(("name", "step", "metric", "run"), CURVES)
def test_a_sample_as_a_curve(name: str, step: str | None, metric: str, run: tuple) -> None:
    points, first, last, value = run
    found = logs.find(str(SAMPLES / name))
    assert found is not None
    log = logs.read(found, metric, step)
    own = [(step, row[metric]) for step, row in log.points if metric in row]
    assert (len(own), own[0][0], own[-1][0]) == (points, first, last)
    assert value is None or own[-1][1] == pytest.approx(value)
    end = logs.latest(found, metric, step)
    assert end is not None
    assert end[1] == pytest.approx(own[-1][1])


UNSTATED = [
    ("rsl_rl", None, "states the run and seed of '2026-02-01_10-22-33': .*--pattern '{run}/{task}"),
    ("rsl_rl", "{run}_{}", "states the seed of '2026"),
    ("zoo", "{task}_{seed}", "states the run of 'a2c/CartPole-v1_1'"),
    ("panel.csv", None, "states the run and seed of 'CartPole-v1__ppo__1__17"),
    ("sb3/progress.csv", "{task}/{run}_{seed}", "'samples/sb3' does not fit"),
    ("stdout/brax.txt", "{run}_{seed}", "'brax.txt' is neither a table .* nor JSON lines"),
]


@pytest.mark.parametrize(("name", "pattern", "says"), UNSTATED)
def test_no_run_or_seed_is_guessed(tmp_path, name: str, pattern: str | None, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        import_runs([SAMPLES / name], "mine", tmp_path / "results", Options(pattern=pattern))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "results").exists()


def test_json_lines_that_state_their_run(tmp_path) -> None:
    about = {"env_id": "Ant-v4", "algo": "ppo", "seed": 3}
    lines = [json.dumps({**about, "step": step, "return": step / 2}) for step in (10, 20)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert imported(tmp_path / "a.jsonl", tmp_path) == {("Ant-v4", "ppo", 3): (2, 10, 20, 10.0)}
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, lines[1].replace("ppo", "sac")]))
    with pytest.raises(UserError, match="several values of run"):
        import_runs([tmp_path / "a.jsonl"], "mine", tmp_path)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_what_export_writes_is_read_back(tmp_path, format: str) -> None:
    before = imported(SAMPLES / "zoo", tmp_path, pattern="{run}/{task}_{seed}")
    path = tmp_path / f"out.{format}"
    exchange.export([read_plan(tmp_path, "mine")], tmp_path, path, format, ["results"])
    assert imported(path, tmp_path / "again") == before


def test_several_files_are_read_together(tmp_path) -> None:
    """As a shell gives them, which resolves patterns itself."""
    paths = sorted((SAMPLES / "zoo").glob("*/*/evaluations.npz"))
    plan = import_runs(paths, "mine", tmp_path, Options(pattern="{run}/{task}_{seed}"))
    assert (list(plan.tasks), set(plan.variants)) == (["CartPole-v1"], {"a2c", "ppo"})
    assert plan.seeds == (1, 2, 3)


REFUSED = [
    ("x.csv", pickle.dumps({"return": [1]}), "a pickle, which runs code"),
    ("x.wandb", b":W&B\xe1\xbe\x00" + b"\0" * 50, "W&B run's own log: .*history"),
    ("x.h5", b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    ("x.csv", b'"global_step","a - r","a - r"\n1,2,3\n', "two columns 'a - r'"),
    ("x.csv", b"seconds,a - r\n0.5,2\n", "seconds must be a whole number"),
    ("x.csv", b"step,return,seed\n1,2,1\n2,3,2\n", "has no column 'run'"),
    ("x.jsonl", b'{"step": 1, "seed": 1}\n{"step": 2, "seed": 2}\n', "several seeds"),
    ("x.csv", b"step;return\n10;1,5\n", "line 2: return must be a number, not '1,5'"),
    ("x.csv", b"step;return\n10;9,125\n", "line 2: return must be a number, not '9,125'"),
    ("x.csv", b"run;seed;step;return\na;1;10;9,125\n", "return must be a number, not '9,125'"),
    ("x.csv", b"iter,return\n10,1\n", "no known column of steps: name it with --step"),
    ("x.csv", b"mode,step,return\ntrain,1,9\neval,1,2\n", "line 3: a second value of return"),
    ("x.jsonl", b'{"step": 1, "return": 1}\n{"step": 1, "return": 2}\n', "line 2: a second value"),
    ("x.jsonl", b'[{"step": 1,\n"return": 1}]\n', "line 1 is no JSON"),
    ("x.npz", None, "has no timesteps: it has a, b"),
    ("x.csv.gz", gzip.compress(b"step,return\n1,2\n", mtime=0), "compressed: unpack it"),
    ("x.csv", "step,return\n1,2\n".encode("utf-16"), "save it in the encoding UTF-8"),
    ("x.db", b"SQLite format 3\0" + b"\0" * 50, "a database: write its table as CSV"),
    ("0.monitor.csv", b'#{"env_id": "a"}\nr,l,t\n1,1,1\n', "the environments of one run"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "says"), REFUSED)
def test_what_cannot_be_read_says_what_it_is(tmp_path, name: str, data, says: str) -> None:
    path = tmp_path / "a_1" / name
    path.parent.mkdir()
    if data is None:
        np.savez(path, a=np.zeros((2, 3)), b=np.zeros((2, 4)))
    else:
        path.write_bytes(data)
    with pytest.raises(UserError, match=says) as error:
        import_runs([path], "mine", tmp_path / "results", Options(pattern="{run}_{seed}/{}"))
    assert "\n" not in str(error.value)
    assert name in str(error.value)
    assert not (tmp_path / "results").exists()


def test_tables_of_several_runs_are_no_curve(tmp_path) -> None:
    (tmp_path / "x.csv").write_bytes(parquet.encode({"step": [1]}))
    with pytest.raises(UserError, match="a Parquet file: `ablations import`"):
        logs.read(tmp_path / "x.csv", "return")


DOWNLOADS = "Wall time,Step,Value\n1.5,100,2.0\n2.5,200,3.0\n"


def test_the_csv_downloads_of_tensorboard(tmp_path) -> None:
    for seed in (0, 1):
        name = f"run-ppo_{seed}-tag-charts_episodic_return.csv"
        (tmp_path / name).write_text(DOWNLOADS)
    found = imported(tmp_path, tmp_path, pattern="run-{run}_{seed}-tag-{}")
    assert found == {("task", "ppo", seed): (2, 100, 200, 3.0) for seed in (0, 1)}


def test_a_metric_that_ends_early_says_so(tmp_path) -> None:
    path = tmp_path / "a_1.csv"
    path.write_text(
        "step,eval,loss\n" + "".join(f"{i},{i if i < 6 else ''},1\n" for i in range(10))
    )
    lines: list[str] = []
    wanted = Options(metric="eval", pattern="{run}_{seed}")
    import_runs([path], "mine", tmp_path, wanted, say=lines.append)
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
    return ["start\n"], [f"step={s} return={r} ok\n" for s, r in points.items()]


def write_all(folder: Path, kind: str, change) -> None:
    """Write every run; change: takes the pieces of the first file and returns those to write."""
    for number, ((run, seed), points) in enumerate(TRUTH.items()):
        head, pieces = lines_of(kind, points)
        path = folder / f"{run}_{seed}" / f"progress.{kind}"
        path.parent.mkdir()
        path.write_text("".join([*head, *(change(pieces) if number == 0 else pieces)]))


def one_line(error: UserError) -> None:
    assert "\n" not in str(error)


def curves_in(path: Path, notes: list[str]) -> dict[tuple[str, int], dict[int, float]]:
    """Return run, seed -> step -> value; of printed lines as the curve of a command is read."""
    if path.is_dir() and (printed := sorted(path.glob("*/*.txt"))):
        return {
            (each.parent.name[:-2], int(each.parent.name[-1])): {
                step: row["return"]
                for step, row in logs.read(each, "return", "step").points
                if "return" in row
            }
            for each in printed
        }
    (read,) = read_all([path], Rule(metric="return", pattern="{run}_{seed}"), notes)
    return {
        (run, seed): {
            int(step): value
            for step, value in zip(curve.steps, curve.values["return"], strict=True)
            if not np.isnan(value)
        }
        for (_, run, seed), curve in read.curves.items()
    }


def right_or_refused(path: Path, *, whole: bool) -> None:
    """Every value that is read is one of its own run's, at its step; or one line refuses."""
    notes: list[str] = []
    try:
        curves = curves_in(path, notes)
    except UserError as error:
        one_line(error)
        return
    for place, found in curves.items():
        truth = TRUTH[place]
        assert found.items() <= truth.items()
        assert found == truth or not whole or any("left out" in note for note in notes)
        assert list(found) == sorted(truth)[: len(found)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["csv", "jsonl", "txt"])
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


@pytest.mark.parametrize("pattern", ["{run}{}{seed}", "{run}_{seed}"])
def test_a_second_file_of_a_run_is_never_merged(tmp_path, pattern: str) -> None:
    write_all(tmp_path, "csv", lambda pieces: pieces)
    shutil.copytree(tmp_path / "a2c_2", tmp_path / "ppo-1")
    with pytest.raises(UserError, match=r"both run 'p.*: tell them|does not fit"):
        list(read_all([tmp_path], Rule(pattern=pattern), []))


def test_names_of_files_count_where_they_differ(tmp_path) -> None:
    for name in ("ppo_2.csv", "ppo_3.csv"):
        (tmp_path / name).write_text("step,return\n1,2\n")
    (read,) = read_all([tmp_path], Rule(pattern="{run}_{seed}"), [])
    assert set(read.curves) == {("task", "ppo", 2), ("task", "ppo", 3)}
    whole = Rule(pattern="{task}/{run}_{seed}.csv")
    (read,) = read_all([tmp_path], whole, [])
    assert set(read.curves) == {(tmp_path.name, "ppo", 2), (tmp_path.name, "ppo", 3)}


def test_a_folder_behind_a_link_has_the_name_of_the_link(tmp_path) -> None:
    write_all(tmp_path, "csv", lambda pieces: pieces)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "other_7.csv").symlink_to(tmp_path / "ppo_1" / "progress.csv")
    found = imported(tmp_path / "logs", tmp_path / "results", pattern="{run}_{seed}")
    assert set(found) == {("task", "other", 7)}


def test_a_copy_under_another_seed_has_a_line(tmp_path) -> None:
    write_all(tmp_path, "csv", lambda pieces: pieces)
    shutil.copytree(tmp_path / "a2c_2", tmp_path / "a2c_3")
    notes: list[str] = []
    list(read_all([tmp_path], Rule(pattern="{run}_{seed}"), notes))
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
                list(read_all([path], Rule(pattern="{run}_{seed}"), []))
        right_or_refused(path, whole=change != "cut")
