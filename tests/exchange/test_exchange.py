"""Runs out and in: round trips, other tools' formats, and what cannot be read."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

import ablations
from ablations import exchange
from ablations.cli import main
from ablations.errors import UserError
from ablations.exchange import Options, import_runs
from ablations.exchange.places import Place, Stated, placed
from ablations.logs.order import Part
from ablations.logs.tensorboard import Events, joined
from ablations.records import read_plan
from ablations.report.results import Results
from ablations.report.tables import table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "report"))

from synthetic import realistic, synthetic_study

UNITS = {"reacher": 30.0, "hopper": 2000.0}


@pytest.fixture
def ran(tmp_path: Path):
    failed = {("hopper", "brax", 2): "NaN"}
    missing = [("reacher", "brax", 7)]
    return synthetic_study(
        tmp_path, realistic(), units=UNITS, points=10, failed=failed, missing=missing
    )


def csv_file(path: Path, rows: int = 5, seeds: int = 6) -> Path:
    random = np.random.default_rng(0)
    lines = ["run,seed,step,return,loss"]
    for run, effect in (("ours", 3.0), ("theirs", 0.0)):
        for seed in range(seeds):
            for row in range(1, rows + 1):
                value = row + effect + 0.3 * random.normal()
                lines.append(f"{run},{seed},{row * 1000},{value:.6f},{1 / row:.4f}")
    path.write_text("\n".join(lines) + "\n")
    return path


# Out


def test_a_frame_has_every_cell_once_per_step_and_metric(ran, tmp_path) -> None:
    long = exchange.frame(ran, tmp_path)
    assert list(long.columns) == [
        *("study", "task", "variant", "seed", "status", "step", "metric", "value"),
        *("failure", "reason"),
    ]
    assert not long.duplicated(["task", "variant", "seed", "step", "metric"]).any()
    done = long[long.status == "done"]
    assert len(done) == (64 - 2) * 10 * 3
    assert set(long.status) == {"done", "failed", "missing"}
    failed = long[long.status == "failed"].iloc[0]
    assert (failed.step, failed.seed, pandas.isna(failed.value)) == (200_000, 2, True)
    assert (failed.failure, failed.reason) == ("diverged", "NaN")
    only = exchange.frame(ran, tmp_path, ["training/return"])
    assert set(only.metric.dropna()) == {"training/return"}
    with pytest.raises(UserError, match="did you mean 'training/return'"):
        exchange.frame(ran, tmp_path, ["training/retrun"])


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_files_hold_the_frame_and_are_the_same_bytes_again(ran, tmp_path, format: str) -> None:
    path, again = tmp_path / f"a.{format}", tmp_path / f"b.{format}"
    exchange.export([ran], tmp_path, path, format)
    exchange.export([ran], tmp_path, again, format)
    assert path.read_bytes() == again.read_bytes()
    read = pandas.read_csv(path) if format == "csv" else pandas.read_parquet(path)
    expected = exchange.frame(ran, tmp_path)
    assert list(read.columns) == list(expected.columns)
    np.testing.assert_array_equal(
        read.value.to_numpy(float, na_value=np.nan), expected.value.to_numpy(float)
    )


def test_a_study_that_goes_out_and_comes_in_gives_the_same_table(ran, tmp_path) -> None:
    path = tmp_path / "runs.csv"
    exchange.export([ran], tmp_path, path, "csv")
    options = Options(metric="training/return", baseline="standard")
    import_runs([path], "again", tmp_path, options)
    back, here = (ablations.table(name, results=tmp_path) for name in ("again", "gae"))
    pandas.testing.assert_frame_equal(
        here.drop(columns=["study", "metric"], errors="ignore"),
        back.drop(columns=["study", "metric"], errors="ignore"),
    )
    brax = back[(back.task == "hopper") & (back.variant == "brax")].iloc[0]
    assert (brax.n, brax.missing, brax.failed) == (7, 0, 1)


@pytest.mark.parametrize(
    ("seed", "status", "step", "message"),
    [
        ("1.0", "failed", "20.0", None),  # as pandas writes them again
        ("1", "failed", "inf", "must be whole numbers, not '1' and 'inf'"),
        ("x", "failed", "20", "whole number"),
        ("1", "crashed", "20", "a status is done, failed or missing, not 'crashed'"),
    ],
)
def test_an_export_that_was_edited(tmp_path, seed, status, step, message: str | None) -> None:
    lines = ["task,variant,seed,status,step,metric,value", "t,a,0.0,done,10.0,return,1"]
    (tmp_path / "r.csv").write_text("\n".join([*lines, f"t,a,{seed},{status},{step},,\n"]))
    if message is None:
        plan = import_runs([tmp_path / "r.csv"], "mine", tmp_path)
        entry = table(Results(plan, tmp_path)).entry("t", "a")
        assert (entry.n, entry.n_failed) == (1, 1)
        return
    with pytest.raises(UserError, match=message):
        import_runs([tmp_path / "r.csv"], "mine", tmp_path)


# In: CSV


def test_runs_of_a_csv_file_get_our_statistics(tmp_path) -> None:
    plan = import_runs(
        [csv_file(tmp_path / "r.csv")],
        "mine",
        tmp_path,
        Options(baseline="theirs"),
    )
    assert plan == read_plan(tmp_path, "mine")
    assert list(plan.variants) == ["ours", "theirs"]
    made = table(Results(plan, tmp_path))
    row = made.entry("task", "ours")
    assert (row.n, row.verdict, row.margin) == (6, "better", pytest.approx(0.2, abs=0.02))
    assert row.difference == pytest.approx(3, abs=0.5)


def test_importing_again_replaces_and_the_same_data_are_the_same_cells(tmp_path) -> None:
    path = csv_file(tmp_path / "r.csv")
    first = import_runs([path], "mine", tmp_path)
    assert import_runs([path], "mine", tmp_path) == first
    path.write_text(path.read_text().replace("ours,0,1000,", "ours,0,1000,1"))
    changed = import_runs([path], "mine", tmp_path)
    assert sum(a.hash != b.hash for a, b in zip(first.cells, changed.cells, strict=True)) == 1


def test_each_task_has_the_margin_of_what_its_baseline_learned(tmp_path) -> None:
    text = csv_file(tmp_path / "r.csv").read_text()
    other = "\n".join(f"b,{line}" for line in text.splitlines()[1:])
    first = "\n".join(f"a,{line}" for line in text.splitlines()[1:])
    (tmp_path / "r.csv").write_text(f"env_id,{text.splitlines()[0]}\n{first}\n{other}\n")
    made = table(Results(import_runs([tmp_path / "r.csv"], "mine", tmp_path), tmp_path))
    assert {row.task for row in made.rows} == {"a", "b", "all tasks"}
    assert made.entry("a", "theirs").margin == made.entry("b", "theirs").margin > 0
    options = Options(margin=0.02, margin_in_metric=True)
    made = table(Results(import_runs([tmp_path / "r.csv"], "exact", tmp_path, options), tmp_path))
    assert {row.margin for row in made.rows} == {0.02}


def test_a_run_that_ends_before_the_others_has_failed(tmp_path) -> None:
    path = csv_file(tmp_path / "r.csv")
    lines = [line for line in path.read_text().splitlines() if not line.startswith("ours,1,5000")]
    path.write_text("\n".join(lines))
    options = Options(baseline="theirs")
    made = table(Results(import_runs([path], "mine", tmp_path, options), tmp_path))
    row = made.entry("task", "ours")
    assert (row.n, row.n_failed, row.n_empty, row.n_planned) == (5, 1, 0, 6)
    assert row.verdict == "unstable"
    assert any("seed 1 at step 4,000: ended early" in note for note in made.notes)


def test_a_seed_that_one_run_lacks_is_missing(tmp_path) -> None:
    path = csv_file(tmp_path / "r.csv")
    lines = [line for line in path.read_text().splitlines() if not line.startswith("theirs,4,")]
    path.write_text("\n".join(lines))
    made = table(Results(import_runs([path], "mine", tmp_path), tmp_path))
    assert made.entry("task", "theirs").n_missing == 1
    assert made.entry("task", "theirs").n_pairs == 5


def test_every_run_keeps_its_own_steps(tmp_path) -> None:
    random = np.random.default_rng(1)
    lines, steps = ["algorithm,seed,global_step,return"], {}
    for run in ("a", "b"):
        for seed in range(3):
            steps[run, seed] = np.sort(random.choice(10_000, 400, replace=False))
            lines += [f"{run},{seed},{step},{2 * step}" for step in steps[run, seed]]
    (tmp_path / "r.csv").write_text("\n".join(lines))
    import_runs([tmp_path / "r.csv"], "mine", tmp_path)
    long = exchange.frame(read_plan(tmp_path, "mine"), tmp_path)
    for (run, seed), rows in long.groupby(["variant", "seed"]):
        assert rows.step.tolist() == steps[run, seed].tolist()
    assert (long.value == 2 * long.step).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("run,seed,return\na,0,1\n", "no column 'step'"),
        ("run,seed,step,return\na,zero,1,1\n", "line 2: seed must be a whole number, not 'zero'"),
        ("run,seed,step,return\na,0,1,1\na,0,1.5,2\n", "line 3: step must be a whole number"),
        ("run,seed,step,return\na,0,1,high\n", "line 2: return must be a number, not 'high'"),
        ("run,seed,step,return\na,0,1,1\na,0,1,2\n", "line 3: the same run, seed and step"),
        ("run,seed,step,gain\na,0,1,1\n", "'return'.*gain"),
        ("run,seed,step,return\na,0,1e308,1\n", "line 2: step must be a whole number up to"),
        ("run,seed,step,return\na,0,18446744073709551615,1\n", "line 2: step must be a whole"),
        ("run,seed,step,return\na,-1,1,1\n", "line 2: seed must be a whole number"),
        ("run,seed,step,return\n,0,1,1\n", "line 2: run is empty"),
        ("run,seed,step,return\n007,7,1,1\n007,07,1,1\n", "line 3: the same run, seed and step"),
        ('run,seed,step,return\na,0,1,"1,2345"\n', "line 2: return must be a number"),
        ("run,seed,step,return\na,0,1,98%\n", "line 2: return must be a number, not '98%'"),
        ("run,seed,step,return\na,0,1,1,5\nb,0,1,1,5\n", "cannot read"),
        ("run,seed,step,return,return\na,0,1,1,2\n", "has two columns 'return'"),
        ("run,seed,step,return, return\na,0,1,1,2\n", "has two columns 'return'"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "r.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        import_runs([path], "mine", tmp_path)
    assert not (tmp_path / "plans" / "mine").exists()


NAMES = [
    ["None", "NA", "nan", "null", "n/a", "NaN", "<NA>", "True"],
    ["1.10", "1.1", "1.100", "1"],
    ["3e-4", "0.0003", "3E-4"],
    ["007", "7", "0x7"],
    ["0.9", "0.90", "0.900", "=0.9", "+0.9", "-x"],
    ["1e5", "100000", "100_000"],
    ["2026-02-01", "inf", "-0", "0"],
]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize(("column", "long"), [("run", False), ("task", True)])
def test_names_are_text(tmp_path, names: list[str], column: str, long: bool) -> None:
    kept = "run" if column == "task" else "task"
    lines = [f"{column},{kept},seed,step,{'metric,value' if long else 'return'}"]
    for place, name in enumerate(names):
        for step in (1, 2):
            value = f"return,{place}" if long else str(place)
            lines.append(f" {name} ,same,0,{step},{value}")
    (tmp_path / "r.csv").write_text("\n".join(lines))
    plan = import_runs([tmp_path / "r.csv"], "mine", tmp_path)
    assert list(plan.variants if column == "run" else plan.tasks) == names
    frame = exchange.frame(plan, tmp_path)
    values = frame[frame.step == 2].set_index("variant" if column == "run" else "task").value
    assert dict(values) == {name: place for place, name in enumerate(names)}


def test_the_column_of_steps_is_the_one_that_is_named(tmp_path) -> None:
    (tmp_path / "r.csv").write_text("algo,seed,step,frames,return\na,0,1,250,1\na,0,2,500,2\n")
    plan = import_runs([tmp_path / "r.csv"], "mine", tmp_path, Options(step="frames"))
    assert sorted(set(exchange.frame(plan, tmp_path).step)) == [250, 500]
    with pytest.raises(UserError, match="did you mean 'frames'"):
        import_runs([tmp_path / "r.csv"], "mine", tmp_path, Options(step="frame"))
    (tmp_path / "r.csv").write_text("algo,seed,iteration,return\na,0,1,1\na,0,2,2\n")
    plan = import_runs([tmp_path / "r.csv"], "mine", tmp_path)
    assert exchange.frame(plan, tmp_path).step.tolist() == [1, 2]


def test_lines_that_repeat_the_names_are_left_out_with_a_line(tmp_path) -> None:
    head = "run,seed,step,return\n"
    (tmp_path / "r.csv").write_text(f"{head}a,0,1,1\n{head}a,1,1,2\n")
    told: list[str] = []
    plan = import_runs([tmp_path / "r.csv"], "mine", tmp_path, say=told.append)
    assert exchange.frame(plan, tmp_path).value.tolist() == [1.0, 2.0]
    assert "left out: 1 line with the names of the columns" in told
    (tmp_path / "r.csv").write_text(f"{head}a,0,1,1\n{head}a,1,1,high\n")
    with pytest.raises(UserError, match="line 4: return must be a number"):
        import_runs([tmp_path / "r.csv"], "mine", tmp_path)


def test_metrics_called_like_columns_are_left_out_with_a_line(tmp_path) -> None:
    lines = ["run,seed,step,metric,value"]
    lines += [f"a,0,1,{metric},2" for metric in ("return", "seed", "run", "length")]
    (tmp_path / "r.csv").write_text("\n".join(lines))
    told: list[str] = []
    plan = import_runs([tmp_path / "r.csv"], "mine", tmp_path, say=told.append)
    assert set(exchange.frame(plan, tmp_path).metric) == {"return", "length"}
    assert told[-1].endswith("called like other columns: seed, run")


def test_a_file_as_others_write_it(tmp_path) -> None:
    """A BOM, CRLF, tabs, quotes, padding, thousands, rows in any order."""
    rows = ["run,seed,step,return", '"a", 1, 2000 ,"9,839.45"', "a,1, 1000,1e3", "b,01,1000,nan"]
    rows += ["b,1,2000,5"]
    tabs = [row.replace('"9,839.45"', "9839.45").replace(",", "\t") for row in rows]
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(rows).encode())
    (tmp_path / "b.txt").write_text("\n".join(tabs))
    for name in ("a.csv", "b.txt"):
        plan = import_runs([tmp_path / name], "mine", tmp_path)
        frame = exchange.frame(plan, tmp_path).set_index(["variant", "step"])
        assert frame.value["a", 1000] == 1000
        assert frame.value["a", 2000] == 9839.45


def test_lower_is_better_where_import_is_told(tmp_path) -> None:
    path = csv_file(tmp_path / "r.csv")
    path.write_text(path.read_text().replace(",return,loss", ",cost,x"))
    options = Options(metric="cost", better="lower", baseline="theirs")
    made = table(Results(import_runs([path], "mine", tmp_path, options), tmp_path))
    assert made.metric == "-cost"
    row = made.entry("task", "ours")
    assert (row.verdict, row.difference) == ("worse", pytest.approx(-3, abs=0.5))
    with pytest.raises(UserError, match="did you mean 'lower'"):
        import_runs([path], "mine", tmp_path, Options(metric="cost", better="lowr"))


def test_import_says_what_it_took_for_what_before_it_writes(tmp_path) -> None:
    path = csv_file(tmp_path / "r.csv", seeds=10)
    path.write_text(path.read_text().replace("run,", "note,run,").replace("\n", "\nx,", 100))
    lines: list[str] = []

    def say(line: str) -> None:
        assert not (tmp_path / "results" / "plans").exists()
        lines.append(line)

    import_runs([path], "mine", tmp_path / "results", say=say)
    assert lines[0] == "'r.csv': task task, run ours, seed 0: 5 points, step 1,000 to 5,000"
    assert lines[12:] == ["and 8 more runs", "left out, as no columns of numbers: note"]


def test_other_bad_input(ran, tmp_path) -> None:
    path = csv_file(tmp_path / "r.csv")
    with pytest.raises(UserError, match="import under another name"):
        import_runs([path], "gae", tmp_path)
    with pytest.raises(UserError, match="did you mean 'theirs'"):
        import_runs([path], "mine", tmp_path, Options(baseline="their"))
    with pytest.raises(UserError, match="letters, digits"):
        import_runs([path], "../mine", tmp_path)
    with pytest.raises(UserError, match="no such file"):
        import_runs([tmp_path / "gone.csv"], "mine", tmp_path)
    with pytest.raises(UserError, match="twice"):
        import_runs([path, path], "mine", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no TensorBoard event files"):
        import_runs([tmp_path / "empty"], "mine", tmp_path)


# In: TensorBoard


def events(folder: Path, points: list[tuple[int, float]], tag: str = "charts/episodic_return"):
    """Written by tensorboardX, which is another implementation of the format."""
    writer_module = pytest.importorskip("tensorboardX")
    writer = writer_module.SummaryWriter(str(folder))
    writer.add_text("hyperparameters", "not a number")
    for step, value in points:
        writer.add_scalar(tag, value, step)
        writer.add_scalar("losses/value", value / 2, step)
    writer.close()


def parts_of(folder: Path) -> dict[str, list[Part]]:
    found = Events(folder)
    found.read_on()
    return found.parts()


def test_event_files_are_read_as_another_library_wrote_them(tmp_path) -> None:
    points = [(0, 1.5), (128, -2.25), (3_000_000_000, 1e-3)]
    events(tmp_path / "run", points)
    found = joined(parts_of(tmp_path / "run"))
    assert [step for step, _ in found["charts/episodic_return"]] == [0, 128, 3_000_000_000]
    values = [value for _, value in found["charts/episodic_return"]]
    np.testing.assert_allclose(values, [1.5, -2.25, 1e-3], rtol=1e-6)
    assert set(found) == {"charts/episodic_return", "losses/value"}


def test_a_file_that_is_being_written_is_read_up_to_its_last_whole_record(tmp_path) -> None:
    events(tmp_path / "run", [(step, step) for step in range(20)])
    (path,) = (tmp_path / "run").glob("*tfevents*")
    path.write_bytes(path.read_bytes()[:-7])
    assert len(joined(parts_of(tmp_path / "run"))["charts/episodic_return"]) >= 19
    whole = path.read_bytes()
    middle = bytearray(whole)
    middle[len(whole) // 2] ^= 1
    for damaged in (b"\x07" + whole, middle):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="no TensorBoard event file, or it is damaged"):
            joined(parts_of(tmp_path / "run"))


def test_what_a_run_had_beyond_its_restart_is_dropped(tmp_path) -> None:
    """Two episodes that end at one step both count."""
    points = [(0, 0.0), (100, 1.0), (200, 9.0), (300, 9.0), (200, 2.0), (200, 4.0), (300, 3.0)]
    events(tmp_path / "run_0", points)
    wanted = Options(pattern="{run}_{seed}")
    import_runs([tmp_path], "mine", tmp_path / "results", wanted)
    long = exchange.frame(read_plan(tmp_path / "results", "mine"), tmp_path / "results")
    returns = long[long.metric == "charts/episodic_return"]
    assert returns.value.tolist() == [0.0, 1.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("folders", "pattern"),
    [
        (["Hopper__ppo__{seed}__17", "Hopper__sac__{seed}__18"], "{task}__{run}__{seed}__{}"),
        (["Hopper/ppo/seed_{seed}", "Hopper/sac/seed_{seed}"], "{task}/{run}/seed_{seed}"),
        (["Hopper/ppo_{seed}", "Hopper/sac_{seed}"], "{task}/{run}_{seed}"),
        (["x-{seed}-Hopper-ppo", "y-{seed}-Hopper-sac"], "{}-{seed}-{task}-{run}"),
    ],
)
def test_folders_name_task_run_and_seed(tmp_path, folders: list[str], pattern) -> None:
    for place, folder in enumerate(folders):
        for seed in (0, 1, 12):
            name = folder.format(seed=seed)
            events(tmp_path / "runs" / name, [(step * 100, place + step) for step in range(1, 6)])
    plan = import_runs([tmp_path / "runs"], "tb", tmp_path, Options(pattern=pattern))
    assert list(plan.tasks) == ["Hopper"]
    assert set(plan.variants) == {"ppo", "sac"}
    assert plan.seeds == (0, 1, 12)
    assert plan.study.metric == "charts/episodic_return"
    long = exchange.frame(plan, tmp_path)
    assert set(long.metric) == {"charts/episodic_return", "losses/value"}
    assert long[(long.variant == "sac") & (long.step == 300)].value.max() == 4


def test_runs_that_cannot_be_told_apart_are_refused(tmp_path) -> None:
    for name in ("a_1", "a__1"):
        events(tmp_path / "runs" / name, [(1, 1.0)])
    with pytest.raises(UserError, match="both run 'a' on 'task', seed 1: tell them apart"):
        import_runs([tmp_path / "runs"], "tb", tmp_path, Options(pattern="{run}{}{seed}"))
    with pytest.raises(UserError, match="does not fit"):
        import_runs([tmp_path / "runs"], "tb", tmp_path, Options(pattern="{run}/{seed}"))
    with pytest.raises(UserError, match=r"\{seed\}"):
        import_runs([tmp_path / "runs"], "tb", tmp_path, Options(pattern="{run}_{sed}"))
    with pytest.raises(UserError, match="losses/value"):
        import_runs([tmp_path / "runs"], "tb", tmp_path, Options(metric="losses/valu"))


SEEDS = [
    ("CartPole-v1/on_3", "{task}/{run}_{seed}", ("CartPole-v1", "on", 3)),
    ("ppo/CartPole-v1_1", "{run}/{task}_{seed}", ("CartPole-v1", "ppo", 1)),
    ("gamma0.99_4", "{run}_{seed}", ("task", "gamma0.99", 4)),
    ("2026-02-01_10-22-33_ppo_seed7", "{}-33_{run}_seed{seed}", ("task", "ppo", 7)),
    ("seed=12/ppo", "seed={seed}/{run}", ("task", "ppo", 12)),
    ("algo=ppo,seed=3", "algo={run},seed={seed}", ("task", "ppo", 3)),
    ("Hopper/sac/007", "{task}/{run}/{seed}", ("Hopper", "sac", 7)),
]


@pytest.mark.parametrize(("name", "pattern", "place"), SEEDS)
def test_seeds_that_names_say(tmp_path, name: str, pattern: str, place: Place) -> None:
    assert list(placed({tmp_path: name}, pattern, {tmp_path: Stated()})) == [place]
    with pytest.raises(UserError, match="no column states the run and seed of"):
        placed({tmp_path: name}, None, {tmp_path: Stated()})


def test_what_a_column_states_counts_before_the_name(tmp_path) -> None:
    stated = {tmp_path: Stated("Hopper", None, 5)}
    assert list(placed({tmp_path: "a/b_1"}, "{task}/{run}_{seed}", stated)) == [("Hopper", "b", 5)]


def test_runs_that_are_left_out_or_resumed_have_a_line(tmp_path) -> None:
    events(tmp_path / "runs" / "a_0", [(step, step) for step in range(1, 11)])
    (path,) = (tmp_path / "runs" / "a_0").iterdir()
    path.rename(path.with_name("events.out.tfevents.1.host"))
    events(tmp_path / "runs" / "a_0", [(step, step) for step in range(6, 21)])
    events(tmp_path / "runs" / "b_0", [(step, step) for step in range(1, 21)])
    events(tmp_path / "runs" / "c_0", [(1, 1.0)], tag="other")
    lines: list[str] = []
    wanted = Options(pattern="{run}_{seed}", metric="charts/episodic_return")
    import_runs([tmp_path / "runs"], "mine", tmp_path, wanted, say=lines.append)
    assert any("'a_0': 'charts/episodic_return' goes on from step 6" in line for line in lines)
    assert "left out: 'c_0' has no charts/episodic_return" in lines
    (path,) = (tmp_path / "runs" / "b_0").iterdir()
    path.rename(path.with_name("events.out.tfevents.1.host"))
    events(tmp_path / "runs" / "b_0", [(step, step) for step in range(1, 21)])
    with pytest.raises(UserError, match=r"b_0.*two runs in one place"):
        import_runs([tmp_path / "runs"], "mine", tmp_path, wanted)


# The commands


def test_the_commands_import_and_export_without_jax(tmp_path, capsys) -> None:
    results = str(tmp_path / "results")
    path = csv_file(tmp_path / "r.csv")
    program = (
        "import sys\nfrom ablations.cli import main\n"
        "code = main(sys.argv[1:])\nprint('jax' in sys.modules)\nsys.exit(code)"
    )
    arguments = ["import", str(path), "--study", "mine", "--baseline", "theirs"]
    arguments += ["--results", results]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    assert "2 runs with 6 seeds" in done.stdout
    assert done.stdout.strip().endswith("False")
    assert main(["table", "mine", "--results", results]) == 0
    assert "better" in capsys.readouterr().out
    assert main(["status", "mine", "--results", results]) == 0
    assert main(["export", "mine", "--results", results, "--format", "parquet"]) == 0
    assert Path(capsys.readouterr().out.strip().splitlines()[-1]).name == "runs.parquet"
    assert main(["export", "mine", "--results", results, "--metric", "retrun"]) == 2
    assert "did you mean 'return'" in capsys.readouterr().err
    cell = next(iter((tmp_path / "results" / "cells").iterdir())).name
    assert main(["show", cell, "--results", results]) == 0
    assert "r.csv" in capsys.readouterr().out
    arguments = ["show", "mine", "--results", results]
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.modules['jax'] = None\n" + program, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ours\n    compared with theirs\n\ntheirs\n    a baseline\n" in done.stdout


def test_nan_is_not_a_number_that_is_exported(tmp_path) -> None:
    (tmp_path / "r.csv").write_text("run,seed,step,return\na,0,1,\na,0,2,nan\na,0,3,1\n")
    plan = import_runs([tmp_path / "r.csv"], "mine", tmp_path)
    assert not any(math.isnan(v) for v in exchange.frame(plan, tmp_path).value)


# In: Stable-Baselines3


def test_evaluations_of_stable_baselines3(tmp_path) -> None:
    for run, shift in (("on", 0.0), ("off", 1.0)):
        for seed in (0, 1):
            folder = tmp_path / "runs" / "CartPole-v1" / f"{run}_{seed}"
            folder.mkdir(parents=True)
            results = shift + seed + np.arange(12.0).reshape(4, 3)
            steps = np.array([100, 200, 300, 400])
            lengths = np.ones((4, 3), int)
            np.savez(
                folder / "evaluations.npz", timesteps=steps, results=results, ep_lengths=lengths
            )
    wanted = Options(pattern="{task}/{run}_{seed}")
    plan = import_runs([tmp_path / "runs"], "sb3", tmp_path, wanted)
    assert (list(plan.tasks), set(plan.variants), plan.seeds) == (
        ["CartPole-v1"],
        {"on", "off"},
        (0, 1),
    )
    long = exchange.frame(plan, tmp_path)
    mine = long[(long.variant == "off") & (long.seed == 1) & (long.metric == "results")]
    assert list(mine.step) == [100, 200, 300, 400]
    assert list(mine.value) == [3.0, 6.0, 9.0, 12.0]
    (tmp_path / "runs" / "CartPole-v1" / "on_0" / "evaluations.npz").write_bytes(b"PK\x03\x04 no")
    with pytest.raises(UserError, match="is no file of NumPy arrays"):
        import_runs([tmp_path / "runs"], "sb3", tmp_path)


def test_evaluations_that_hold_none_are_left_out_with_a_line(tmp_path) -> None:
    for name, steps in (("on_1", []), ("on_2", [1, 2]), ("off_1", [1, 2]), ("off_2", [1, 2])):
        (tmp_path / "runs" / name).mkdir(parents=True)
        results = np.zeros((len(steps), 3))
        np.savez(tmp_path / "runs" / name / "evaluations.npz", timesteps=steps, results=results)
    lines: list[str] = []
    wanted = Options(pattern="{run}_{seed}")
    plan = import_runs([tmp_path / "runs"], "mine", tmp_path, wanted, say=lines.append)
    assert "left out: 'on_1' has no results" in lines
    assert table(Results(plan, tmp_path)).entry("task", "on").n_missing == 1
    for name in ("on_2", "off_1", "off_2"):
        (tmp_path / "runs" / name / "evaluations.npz").unlink()
    with pytest.raises(UserError, match="nothing that is read as a value"):
        import_runs([tmp_path / "runs"], "mine", tmp_path)
