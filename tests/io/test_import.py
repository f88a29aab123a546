"""Runs that were trained elsewhere: every format, columns and names that state them, refusals."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic import realistic, synthetic_study

from ablations.comparison import compare
from ablations.errors import Note, UserError
from ablations.io.export import export, frame
from ablations.io.imports import import_runs
from ablations.records import read_plan
from ablations.runs import Runs

SAMPLES = Path(__file__).parent / "samples"
Place = tuple[str, str, int]


@pytest.fixture
def ran(tmp_path: Path):
    failed, missing = {("hopper", "brax", 2): "NaN"}, [("reacher", "brax", 7)]
    return synthetic_study(
        tmp_path,
        realistic(),
        units={"reacher": 30.0, "hopper": 2000.0},
        points=10,
        failed=failed,
        missing=missing,
    )


def csv_file(path: Path) -> Path:
    random = np.random.default_rng(0)
    lines = ["run,seed,step,return,loss"]
    for run, seed, row in product(("ours", "theirs"), range(6), range(1, 6)):
        value = row + 3.0 * (run == "ours") + 0.3 * random.normal()
        lines.append(f"{run},{seed},{row * 1000},{value:.6f},{1 / row:.4f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def curves(results: Path, study: str = "mine") -> dict[Place, dict[int, float]]:
    """Return (task, variant, seed) -> step -> value of the judged metric, as it was stored."""
    plan = read_plan(results, study)
    long = frame(plan, results, [plan.study.metric]).dropna(subset="value")
    return {
        place: dict(zip(rows.step.tolist(), rows.value.tolist(), strict=True))
        for place, rows in long.groupby(["task", "variant", "seed"])
    }


def row_of(plan, results: Path, variant: str, task: str = "task") -> pd.Series:
    table = compare(Runs.read(results, plan))
    return table[(table.task == task) & (table.variant == variant)].iloc[0]


# Export


def test_a_frame_has_every_run_once_per_step_and_metric(ran, tmp_path) -> None:
    long = frame(ran, tmp_path)
    assert list(long.columns[:8]) == [
        *("study", "task", "variant", "seed", "status", "step", "metric", "value")
    ]
    assert not long.duplicated(["task", "variant", "seed", "step", "metric"]).any()
    assert len(long[long.status == "done"]) == (64 - 2) * 10 * 3
    assert set(long.status) == {"done", "failed", "missing"}
    failed = long[long.status == "failed"].iloc[0]
    assert (failed.step, failed.seed, pd.isna(failed.value)) == (200_000, 2, True)
    assert (failed.failure, failed.reason) == ("diverged", "NaN")
    only = frame(ran, tmp_path, ["training/return"])
    assert set(only.metric.dropna()) == {"training/return"}
    with pytest.raises(UserError, match="did you mean 'training/return'"):
        frame(ran, tmp_path, ["training/retrun"])


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_exports_are_the_same_bytes_again(ran, tmp_path, format: str) -> None:
    path, again = tmp_path / f"a.{format}", tmp_path / f"b.{format}"
    export([ran], tmp_path, path, format)
    export([ran], tmp_path, again, format)
    assert path.read_bytes() == again.read_bytes()
    read = pd.read_csv(path) if format == "csv" else pd.read_parquet(path)
    expected = frame(ran, tmp_path)
    assert list(read.columns) == list(expected.columns)
    np.testing.assert_array_equal(
        read.value.to_numpy(float, na_value=np.nan), expected.value.to_numpy(float)
    )


# Tables of runs


def test_a_table_of_runs_gets_our_statistics(tmp_path) -> None:
    runs = import_runs(csv_file(tmp_path / "r.csv"), "mine", tmp_path, baseline="theirs")
    assert list(runs.variant.unique()) == ["ours", "theirs"]
    assert (set(runs.points), set(runs["last"]), set(runs.status)) == ({5}, {5000}, {"done"})
    plan = read_plan(tmp_path, "mine")
    row = row_of(plan, tmp_path, "ours")
    assert (row.n, row.verdict, row.margin) == (6, "better", pytest.approx(0.2, abs=0.02))
    assert row.difference == pytest.approx(3, abs=0.5)
    import_runs(tmp_path / "r.csv", "mine", tmp_path, baseline="theirs")
    assert read_plan(tmp_path, "mine") == plan
    changed = (tmp_path / "r.csv").read_text().replace("ours,0,1000,", "ours,0,1000,1")
    (tmp_path / "r.csv").write_text(changed)
    import_runs(tmp_path / "r.csv", "mine", tmp_path, baseline="theirs")
    pairs = zip(plan.cells, read_plan(tmp_path, "mine").cells, strict=True)
    assert sum(a.hash != b.hash for a, b in pairs) == 1


def test_each_task_has_a_margin_and_runs_may_end_early_or_be_missing(tmp_path) -> None:
    head, *rows = csv_file(tmp_path / "r.csv").read_text().splitlines()
    rows = [row for row in rows if not row.startswith(("ours,1,5000", "theirs,4,"))]
    lines = [f"{task},{row}" for task in ("a", "b") for row in rows]
    (tmp_path / "r.csv").write_text("\n".join([f"env_id,{head}", *lines]))
    runs = import_runs(tmp_path / "r.csv", "mine", tmp_path, baseline="theirs")
    runs = runs.set_index(["task", "variant", "seed"])
    assert runs.status["a", "ours", 1] == "failed"
    assert runs.reason["a", "ours", 1] == "ended early: its log stops at step 4,000 of 5,000"
    assert runs.status["b", "theirs", 4] == "missing"
    plan = read_plan(tmp_path, "mine")
    of_a, of_b = (row_of(plan, tmp_path, "ours", task) for task in ("a", "b"))
    assert (of_a.n, of_a.failed, of_a.pairs, of_a.verdict) == (5, 1, 4, "failed")
    assert of_a.margin == of_b.margin > 0
    import_runs(tmp_path / "r.csv", "exact", tmp_path, margin=0.02, margin_in_metric=True)
    assert row_of(read_plan(tmp_path, "exact"), tmp_path, "theirs", "a").margin == 0.02


NAMES = [
    ["None", "NA", "nan", "null", "n/a", "NaN", "<NA>", "True"],
    ["1.10", "1.1", "1.100", "1"],
    ["3e-4", "0.0003", "3E-4", "007", "7", "0x7"],
    ["0.9", "0.90", "0.900", "=0.9", "+0.9", "-x"],
    ["1e5", "100000", "100_000", "2026-02-01", "inf", "-0", "0"],
]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("column", ["run", "task"])
def test_names_are_text(tmp_path, names: list[str], column: str) -> None:
    kept = "run" if column == "task" else "task"
    lines = [f"{column},{kept},seed,step,return"]
    lines += [f" {name} ,same,0,{step},{k}" for k, name in enumerate(names) for step in (1, 2)]
    (tmp_path / "r.csv").write_text("\n".join(lines))
    import_runs(tmp_path / "r.csv", "mine", tmp_path)
    read = {place[column == "run"]: at[2] for place, at in curves(tmp_path).items()}
    assert read == {name: place for place, name in enumerate(names)}
    plan = read_plan(tmp_path, "mine")
    assert list(plan.variants if column == "run" else plan.tasks) == names


# How somebody writes a table of variants a and b, seeds 0 and 1, and steps 1 and 2: the names of
# the columns, and what import is told.
COLUMNS: list[tuple[str, dict[str, str]]] = [
    ("task,variant,seed,step,return", {}),
    ("env_id,algo,seed,global_step,episodic_return", {}),
    ("env,run,seed,iteration,reward", {}),
    ("game,method,repetition,epoch,gain", {"metric": "gain"}),
    ("environment,exp_name,trial,timesteps,score", {"seed": "trial"}),
    ("task,algorithm,seed,num_timesteps,ep_rew_mean", {}),
]


@pytest.mark.parametrize(("head", "told"), COLUMNS)
@pytest.mark.parametrize("mark", [",", "\t", ";"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_columns_are_known_by_usual_names_or_named(tmp_path, head, told, mark, encoding) -> None:
    rows = [(v, s, t) for v in "ab" for s in (0, 1) for t in (1, 2)]
    lines = [head.split(","), *(["T", v, str(s), str(t), f"{s + t}.125"] for v, s, t in rows)]
    text = "\r\n".join(mark.join(line) for line in lines)
    (tmp_path / "r.csv").write_bytes(text.encode(encoding))
    named = dict(zip(("task", "variant", "seed", "step"), head.split(","), strict=False))
    if "game" in head:
        with pytest.raises(UserError, match=r"states the variant and seed .*--variant and --seed"):
            import_runs(tmp_path / "r.csv", "mine", tmp_path)
        told = {**named, **told}
    import_runs(tmp_path / "r.csv", "mine", tmp_path, **told)
    expected = {("T", v, s): {1: s + 1.125, 2: s + 2.125} for v in "ab" for s in (0, 1)}
    assert curves(tmp_path) == expected


def test_a_table_as_spreadsheets_write_it(tmp_path) -> None:
    """Quotes, padding, thousands, no values, rows in any order, repeated names."""
    rows = ["run,seed,step,return", '"a", 1, 2000 ,"9,839.45"', "a,1, 1000,1e3", "b,01,1000,nan"]
    rows += ["\ufeffrun,seed,step,return", "", "b,1,2000,5"]
    (tmp_path / "r.csv").write_text("\n".join(rows))
    import_runs(tmp_path / "r.csv", "mine", tmp_path)
    found = curves(tmp_path)
    assert found["task", "a", 1] == {1000: 1000.0, 2000: 9839.45}
    assert found["task", "b", 1] == {2000: 5.0}


# Logs of one run each

PANEL = "charts/episodic_return"
# path, options, metric; task, variant, seed -> points, first step, last step, last value.
CASES = [
    (
        "sb3/progress.csv",
        {"pattern": "{variant}{seed}"},
        "rollout/ep_rew_mean",
        {("task", "sb", 3): (8, 2048, 16384, 140.4241)},
    ),
    (
        "zoo",
        {"pattern": "{variant}/{task}_{seed}"},
        "results",
        {
            ("CartPole-v1", run, seed): (6, 10_000, 60_000, last)
            for run, ends in (
                ("a2c", (477.555264, 479.471767, 479.692025)),
                ("ppo", (541.593579, 540.554535, 540.231841)),
            )
            for seed, last in enumerate(ends, 1)
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
        {"pattern": "{task}__{variant}__{seed}__{}"},
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
        {"pattern": "{variant}/{}_{seed}-{}"},
        "Train/mean_reward",
        {("task", "rsl_rl", 10): (58, 2, 59, None)},
    ),
    (
        "spinningup",
        {"pattern": "2026-02-01_10-22-33-{variant}_{task}_s{seed}", "step": "Epoch"},
        "AverageEpRet",
        {("hopper", "ppo", 0): (10, 0, 9, 275.0), ("hopper", "ppo", 10): (10, 0, 9, 275.0)},
    ),
]


@pytest.mark.parametrize(("path", "options", "metric", "runs"), CASES, ids=[c[0] for c in CASES])
def test_samples(tmp_path, path: str, options: dict, metric: str, runs: dict) -> None:
    paths = sorted(SAMPLES.glob(path)) if "*" in path else SAMPLES / path  # as a shell gives them
    import_runs(paths, "mine", tmp_path, **options)
    found = curves(tmp_path)
    assert read_plan(tmp_path, "mine").study.metric == metric
    assert found.keys() == runs.keys()
    for place, (points, first, last, value) in runs.items():
        steps = list(found[place])
        assert (len(steps), steps[0], steps[-1]) == (points, first, last)
        assert value is None or found[place][last] == pytest.approx(value)


def test_json_lines_of_several_runs_and_rows_without_the_metric(tmp_path) -> None:
    rows = [
        {"env_id": "Ant-v4", "algo": algo, "seed": 3, "step": step, name: step / 2}
        for algo in ("ppo", "sac")
        for step in (10, 20)
        for name in ("return", "loss")
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    import_runs(tmp_path / "a.jsonl", "mine", tmp_path)
    expected = {10: 5.0, 20: 10.0}
    assert curves(tmp_path) == {("Ant-v4", algo, 3): expected for algo in ("ppo", "sac")}


# Names of files and folders

PATTERNS = [
    ("CartPole-v1/on_3/log.csv", "{task}/{variant}_{seed}", ("CartPole-v1", "on", 3)),
    ("ppo/CartPole-v1_1/log.csv", "{run}/{task}_{seed}", ("CartPole-v1", "ppo", 1)),
    ("gamma0.99_4.csv", "{variant}_{seed}", ("task", "gamma0.99", 4)),
    ("ppo_2.csv", "{task}/{variant}_{seed}.csv", ("logs", "ppo", 2)),
    ("2026-02-01_10-22-33_ppo_seed7.csv", "{}-33_{variant}_seed{seed}", ("task", "ppo", 7)),
    ("seed=12/ppo.csv", "seed={seed}/{variant}", ("task", "ppo", 12)),
    ("algo=ppo,seed=3/progress.csv", "algo={variant},seed={seed}", ("task", "ppo", 3)),
    ("Hopper/sac/007/metrics.csv", "{task}/{variant}/{seed}", ("Hopper", "sac", 7)),
]


@pytest.mark.parametrize(("name", "pattern", "place"), PATTERNS)
def test_names_state_what_no_column_does(tmp_path, name: str, pattern: str, place: Place) -> None:
    path = tmp_path / "logs" / name
    path.parent.mkdir(parents=True)
    path.write_text("step,return\n1,2\n")
    import_runs(tmp_path / "logs", "mine", tmp_path, pattern=pattern)
    assert list(curves(tmp_path)) == [place]
    with pytest.raises(UserError, match=r"states the variant and seed of '.*--pattern '\{"):
        import_runs(tmp_path / "logs", "mine", tmp_path)
    path.write_text("step,return,seed,env\n1,2,5,Ant\n")
    import_runs(tmp_path / "logs", "mine", tmp_path, pattern=pattern)
    assert list(curves(tmp_path)) == [("Ant", place[1], 5)], "columns count before names"
    path.write_text("step,return,seed,run\n1,2,5,a\n")
    with pytest.warns(Note, match="--pattern is not used for "):
        import_runs(tmp_path / "logs", "mine", tmp_path, pattern=pattern)


def logs_of(root: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        (root / name).mkdir(parents=True)
        (root / name / "progress.csv").write_text(f"step,return\n1,{number}\n2,{number}\n")
    return root


def test_runs_that_cannot_be_told_apart_are_refused(tmp_path) -> None:
    root = logs_of(tmp_path / "runs", "a_1", "a__1")
    for pattern, why in (
        ("{variant}{}{seed}", "both run 'a' on 'task', seed 1: name their difference"),
        ("{variant}/{seed}", "'runs/a_1' does not match the pattern"),
        ("{variant}_{sed}", r"\{seed\}"),
        ("{seed}_{seed}", r"has '\{seed\}' twice"),
        (None, rf"states the variant and seed of '{root}/a_1/progress.csv'"),
    ):
        with pytest.raises(UserError, match=why):
            import_runs(root, "mine", tmp_path, pattern=pattern)


FOLDERS = [
    ("{variant}_{seed}", "'.*ppo/run_0/.* and '.*sac/run_2/.* are in folders that the pattern"),
    ("{variant}/{}_{seed}", [("task", "ppo", 0), ("task", "sac", 2)]),
    ("{task}/{variant}_{seed}", [("ppo", "run", 0), ("sac", "run", 2)]),
    ("{}/{variant}_{seed}", [("task", "run", 0), ("task", "run", 2)]),
]


@pytest.mark.parametrize(("pattern", "found"), FOLDERS)
def test_folders_that_differ_are_described(tmp_path, pattern: str, found) -> None:
    root = logs_of(tmp_path / "runs", "ppo/run_0", "sac/run_2")
    if isinstance(found, list):
        import_runs(root, "mine", tmp_path, pattern=pattern)
        assert [*curves(tmp_path)] == found
        return
    with pytest.raises(UserError, match=found) as refused:
        import_runs(root, "mine", tmp_path, pattern=pattern)
    assert all(
        f"'{advised}'" in str(refused.value)
        for advised in ("{variant}/{}_{seed}", "{}/{variant}_{seed}")
    )


# What is refused, in one line that names the file

LONG = "run,seed,step,return\n"
REFUSED: list[tuple[str, bytes | str | None, str]] = [
    ("r.csv", LONG, "has no values"),
    ("r.csv", "run,seed,return\na,0,1\n", "name it with --step; columns: return"),
    ("r.csv", f"{LONG}a,zero,1,1\n", "line 2: seed must be a whole number, not 'zero'"),
    ("r.csv", f"{LONG}a,0,1,1\na,0,,2\n", "line 3: step must be a whole number, but is empty"),
    ("r.csv", f"{LONG}a,0,1,high\n", "line 2: return must be a number, not 'high'"),
    ("r.csv", f"{LONG}a,0,1,1\n{LONG}a,0,1,2\n", "line 4: two values for step 1; give each"),
    ("r.csv", "run,seed,step,a,b,c\na,0,1,x,1,1\n", "name one with --metric: b, c"),
    ("r.csv", "run,seed,hash,record,return\na,0,1,x,1\n", "put it into archive/ of the"),
    ("r.csv", f"{LONG}a,0,1,1,5\nb,0,1,1,5\n", "line 2: 5 fields, but the header has 4 names"),
    ("r.csv", "run,seed,step,return, return\na,0,1,1,2\n", "has two columns 'return'"),
    ("r.csv", "run;seed;step;return\na;1;10;9,125\n", "return must be a number, not '9,125'"),
    ("r.csv", "run,seed,step,mode,return\na,1,1,train,9\na,1,2,eval,1\n", "of several kinds"),
    ("r.csv", f"{LONG}caf\xe9,0,1,1\n".encode("latin-1"), "not text in UTF-8: save"),
    ("x.wandb", b":W&B\xe1\xbe\x00" + b"\0" * 50, "unknown ending '.wandb'; .*docs/own-runs.md"),
    ("x.csv", '"global_step","a - r","a - r"\n1,2,3\n', "two columns 'a - r'"),
    ("x.csv", "mode,step,return\ntrain,1,9\neval,2,2\n", "of several kinds .'eval', 'train'"),
    ("x.csv", "step,return\n2,9\n1,2\n", "line 3: steps go back from 2 to 1: does the file"),
    ("x.npz", None, "has no array 'timesteps'; it has a, b"),
    ("x.parquet", b"PAR1" * 9, "is not a Parquet file"),
    ("x.csv", gzip.compress(b"step,return\n1,2\n", mtime=0), "not text in UTF-8: save"),
    ("x.csv", "step,return\n1,2\n".encode("utf-16"), "not text in UTF-8: save"),
    ("x.log", "step=1 return=2\n", "'.log'; known endings: .csv, .*docs/own-runs.md"),
    ("0.monitor.csv", '#{"env_id": "a"}\nr,l,t\n1,1,1\n', "environments of one run"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "says"), REFUSED)
def test_what_is_refused(tmp_path, name: str, data, says: str) -> None:
    path = tmp_path / "a_1" / name
    path.parent.mkdir()
    if data is None:
        np.savez(path, a=np.zeros((2, 3)), b=np.zeros((2, 4)))
    else:
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    pattern = "{variant}_{seed}" + ("" if "a_1 - r" in str(data) else "/{}")
    with pytest.raises(UserError, match=says) as error:
        import_runs(path, "mine", tmp_path / "results", pattern=pattern)
    assert "\n" not in str(error.value)
    assert name in str(error.value)
    assert not (tmp_path / "results").exists()


# Files that were shuffled, doubled, cut

TRUTH = {
    (run, seed): {step: round(place + seed + step / 7, 4) for step in range(10, 90, 10)}
    for place, run in enumerate(("ppo", "a2c"))
    for seed in (1, 2)
}


def pieces_of(kind: str) -> dict[str, tuple[list[str], list[str]]]:
    """Return file -> the lines it begins with, and its pieces that belong together."""
    if kind == "long":
        rows = [f"{r},{s},{t},{v}\n" for (r, s), at in TRUTH.items() for t, v in at.items()]
        return {"runs.csv": ([LONG], rows)}
    if kind == "panel":
        head = [",".join(["Step", *(f"{run}_{s} - return" for run, s in TRUTH)]) + "\n"]
        steps = next(iter(TRUTH.values()))
        rows = [",".join(map(str, [t, *(at[t] for at in TRUTH.values())])) + "\n" for t in steps]
        return {"runs.csv": (head, rows)}
    line: Callable[[int, float], str] = {
        "csv": lambda t, v: f"{t},{v},0.5\n",
        "jsonl": lambda t, v: json.dumps({"step": t, "return": v}) + "\n",
    }[kind]
    head = ["step,return,loss\n"] if kind == "csv" else []
    return {
        f"{run}_{seed}/progress.{kind}": (head, [line(t, v) for t, v in at.items()])
        for (run, seed), at in TRUTH.items()
    }


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["csv", "jsonl", "long", "panel"])
def test_what_is_done_to_a_log_is_read_right_or_refused(tmp_path, kind: str, seed: int) -> None:
    """Every value that is read is one of its own run's, at its step; or one line refuses."""
    dice = random.Random(f"{kind}{seed}")
    changes: dict[str, Callable[[list[str]], list[str]]] = {
        "shuffled": lambda pieces: dice.sample(pieces, len(pieces)),
        "doubled": lambda pieces: [*pieces, dice.choice(pieces)],
        "cut": lambda pieces: [*pieces[: (at := dice.randrange(1, len(pieces)))], pieces[at][:2]],
    }
    for change, done in changes.items():
        root = tmp_path / change
        for number, (name, (head, pieces)) in enumerate(pieces_of(kind).items()):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join([*head, *(pieces if number else done(pieces))]))
        try:
            import_runs(root, "mine", root, pattern="{variant}_{seed}")
        except UserError:
            continue
        assert change != "doubled"
        for (_, run, of), found in curves(root).items():
            assert found.items() <= TRUTH[run, of].items()
            assert found == TRUTH[run, of] or change == "cut"
