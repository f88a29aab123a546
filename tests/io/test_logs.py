"""A command's own log: every format gives the same points; printed names and numbers, logs that
grow, restart or end in nothing; bins that seeds share."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from ablations.curve import Curve
from ablations.errors import UserError
from ablations.io import logs
from ablations.io.formats import RESULT, number, pairs
from ablations.io.logs import BINS, binned

SAMPLES = Path(__file__).parent / "samples"
STEPS = [10, 20, 30]
RETURNS = [1.0, 2.5, 4.0]


def judged(path: Path, metric: str, step: str | None = None, restarts: int = 0) -> dict:
    curve, _ = logs.read(path, metric, step, restarts=restarts)
    return dict(zip(curve.steps.tolist(), curve.values.tolist(), strict=True))


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


PAIRS = list(zip(STEPS, RETURNS, strict=True))
TEXTS = {
    "log.csv": "time, step ,return,note\n" + "".join(f"0,{s},{r},x\n" for s, r in PAIRS),
    "log.tsv": "step\treturn\n" + "".join(f"{s}\t{r}\n" for s, r in PAIRS),
    "semicolons.csv": "step;return\n" + "".join(f"{s};{r}\n" for s, r in PAIRS),
    "log.CSV": "\ufeffstep,return\r\n" + "".join(f"{s},{r}\r\n" for s, r in PAIRS),
    "log.jsonl": "".join(json.dumps({"step": s, "return": r}) + "\n" for s, r in PAIRS),
    "log.log": "start\n"
    + "".join(f"[{s}] step={s} loss: -1e-3 return: {r} ok\n" for s, r in PAIRS),
    "log.txt": "".join(f"  {json.dumps({'step': s, 'return': r})}\nwords\n" for s, r in PAIRS),
    "bar.txt": "".join(f"step: {s} return: {r}\r" for s, r in PAIRS),
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_format_gives_the_same_points(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, TEXTS[name])
    assert judged(path, "return", "step") == dict(PAIRS)
    assert logs.latest(path, "return", "step") == (30, 4.0)
    assert list(judged(path, "return")) == [1, 2, 3], "rows are counted"


# path, column of steps, metric; points, first step, last step, last value.
CURVES = [
    ("brax.txt", "num_steps", "eval/episode_reward", (5, 1_000_000, 5_000_000, 1050.0)),
    ("cleanrl.txt", "global_step", "episodic_return", (5, 512, 2560, 45.0)),
]


@pytest.mark.parametrize(("name", "step", "metric", "run"), CURVES)
def test_printed_samples(name: str, step: str, metric: str, run: tuple) -> None:
    path = SAMPLES / "stdout" / name
    own = judged(path, metric, step)
    assert (len(own), min(own), max(own), own[max(own)]) == run
    assert logs.latest(path, metric, step) == run[2:]


def test_a_line_that_is_being_written_is_not_there_yet(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", "step,return,length\n10,1,5\n20,2")
    assert logs.latest(path, "return", "step") == (10, 1.0)
    assert judged(path, "return", "step") == {10: 1.0}
    path = written(tmp_path / "log.jsonl", '{"step": 10, "return": 1}\n{"step": 20, "ret')
    assert logs.latest(path, "return", "step") == (10, 1.0)
    assert logs.latest(written(path, b"\x00\xff\x00PNG\x01" * 99), "return", "step") is None


def test_what_lies_beyond_a_restart_is_dropped(tmp_path: Path) -> None:
    text = "step,return\n10,1\n20,2\n30,3\nstep,return\n20,5\n30,6\n"
    path = written(tmp_path / "log.csv", text)
    with pytest.raises(UserError, match="line 6: steps go back from 30 to 20"):
        logs.read(path, "return", "step")
    assert judged(path, "return", "step", restarts=1) == {10: 1, 20: 5, 30: 6}
    twice = written(path, f"{text}20,7\n40,8\n")
    assert judged(twice, "return", "step", restarts=2) == {10: 1, 20: 7, 40: 8}


def test_several_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        written(tmp_path / name, "x\n")
    with pytest.raises(UserError, match=r"matches several logs: a\.csv, b\.csv"):
        logs.find(f"{tmp_path}/*.csv")
    assert logs.find(f"{tmp_path}/*.json") is None


def test_a_named_column_has_the_steps_and_rows_without_the_metric_count_for_nothing(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "log.csv", "step,total,return,loss\n7,100,1,5\n8,150,,6\n9,200,2,7\n")
    assert judged(path, "return", "total") == {100: 1, 200: 2}


# Names of printed metrics

LINES = [
    ("train return: 5", {"train return": 5}),
    ("eval return: 7", {"eval return": 7}),
    ("[eval] return: 7", {"[eval] return": 7}),
    ("Eval | return: 7", {"Eval | return": 7}),
    ("return (mean of 10): 7", {"return (mean of 10)": 7}),
    ("eval/return: 7, eval/length = 3", {"eval/return": 7, "eval/length": 3}),
    ("step: 1 train return: 9.0 eval return: 7", {"step": 1, "train return": 9, "eval return": 7}),
    ("2026-01-02 10:22:33,123 - INFO - eval return: 5", {"INFO - eval return": 5}),
    ("INFO:root:eval return: 5", {"INFO:root:eval return": 5}),
    ("Epoch 3/10: eval return: 7, loss=2", {"Epoch": 3, "eval return": 7, "loss": 2}),
    ("[12] step=1200 loss: 1 return: 2 ok", {"step": 1200, "loss": 1, "return": 2}),
    (" 5/40 [00:05, 1.1s/it]{'b': 1, \"the r\": 5}", {"b": 1, "the r": 5}),
    ("50%|##| 5/10 [00:05<00:05, 1.00it/s, loss=0.5, r=3]", {"loss": 0.5, "r": 3}),
    ("time: 5 s, return: 3 (best: 4)", {"time": 5, "return": 3, "best": 4}),
    ("r: computing, x: None", {}),
    ("10:22:33", {}),
]


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_a_printed_name_is_the_text_before_the_colon(line: str, expected: dict) -> None:
    read = {name: number(value) for name, value in pairs(line).items() if name}
    assert {name: value for name, value in read.items() if value is not None} == expected


MIXED = [
    "step: {0} train return: 5\nstep: {0} eval return: 7\n",
    "step={0} eval return=7\nstep={0} train return=5\n",
    "step: {0}, train return: 5, eval return: 7\n",
    '{{"step": {0}, "train return": 5, "eval return": 7}}\n',
]


@pytest.mark.parametrize("lines", MIXED)
def test_two_names_never_mix(tmp_path: Path, lines: str) -> None:
    path = written(tmp_path / "log.txt", "".join(lines.format(step) for step in STEPS))
    assert judged(path, "train return", "step") == dict.fromkeys(STEPS, 5.0)
    assert judged(path, "eval return", "step") == dict.fromkeys(STEPS, 7.0)
    with pytest.raises(UserError, match=r"has no column 'return'.*eval return"):
        logs.read(path, "return", "step")


KINDS = [
    "eval step: {0} return: 7\ntrain step: {0} return: 5\n",
    "[eval] step={0} return=7\n[train] step={1} return=5\n",
    "train {{'step': {0}, 'return': 5}}\neval {{'step': {0}, 'return': 7}}\n",
    '{{"mode": "train", "step": {0}, "return": 5}}\n{{"mode": "eval", "step": {1}, "return": 7}}\n',
]


@pytest.mark.parametrize("lines", KINDS)
def test_lines_of_two_kinds_are_refused(tmp_path: Path, lines: str) -> None:
    path = written(tmp_path / "log.txt", "".join(lines.format(t, t + 5) for t in STEPS))
    step = "step" if "{{" in lines else None
    with pytest.raises(UserError, match=r"has return on rows of several kinds .*eval"):
        logs.read(path, "return", step)


def test_episodes_that_end_at_one_step_count(tmp_path: Path) -> None:
    path = written(tmp_path / "log.txt", "step: 1 r: 1\nstep: 1 r: 3\nstep: 2 r: 5\n")
    assert binned(logs.read(path, "r", "step")[0], "r") == {"step": [1, 2], "r": [2.0, 5.0]}


# Numbers

NUMBERS = [
    *(("9,839.45", 9839.45), ("-1,234,567", -1234567.0), ("1_000", 1000.0), ("1e3", 1000.0)),
    *(("-1.5E-3", -0.0015), (".5", 0.5), ("5.", 5.0), ("+5", 5.0), ("\u22125", -5.0), ("007", 7.0)),
    *(("NaN", math.nan), ("NAN", math.nan), ("-nan", math.nan)),
    *(("Inf", math.inf), ("Infinity", math.inf), ("-inf", -math.inf), ("1e999", math.inf)),
]
NOT_NUMBERS = [
    *("9,84", "9,839", "0,512", "12,34,567", "1,2345", "1.234,5", "1'234", "1.2.3", "1\u202f234"),
    *("1__0", "98%", "5ms", "5k", "0x1F", "1e", "10:22:33", "3->4", "5-6", "nan%", "8/10"),
    *("tensor(3.0)", "tensor(nan, device='cuda:0')", "np.float64(3.0)", "[3.0, 4]", "array([-.5])"),
]


@pytest.mark.parametrize(("text", "value"), NUMBERS)
@pytest.mark.parametrize(
    "line",
    [
        *("{}", "r: {}", "a=1,r={}, b=2", "[9] r = {}; b", "r: \x1b[1m{}\x1b[0m", "'r': '{}'"),
        *("global_step=1, r=[{}]", " 5/40 [00:05, 1.1s/it]{{'b': 1, 'r': {}, 'c': 0.5}}"),
    ],
)
def test_numbers_are_read_as_they_stand(tmp_path: Path, line: str, text: str, value: float) -> None:
    path = written(tmp_path / "log.txt", line.format(text) + "\n")
    (read,) = judged(path, RESULT if line == "{}" else "r").values()
    assert read == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize("text", NOT_NUMBERS)
@pytest.mark.parametrize("line", ["r: {}", "a=1,r={} b=2", "step 9: r={}."])
def test_what_is_no_number_is_never_read_in_part(tmp_path: Path, line: str, text: str) -> None:
    path = written(tmp_path / "log.txt", "r: 1\n" + line.format(text) + "\n")
    with pytest.raises(UserError, match="r must be a number"):
        logs.read(path, "r")


@pytest.mark.parametrize(
    ("name", "text"),
    [("log.txt", "step: 1 r: 9.0 r: 0.7\n"), ("log.csv", "step,r, r\n1,9.0,0.7\n")],
)
def test_two_values_of_one_name_are_refused(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(UserError, match=r"9\.0 and 0\.7|two columns 'r'"):
        logs.read(written(tmp_path / name, text), "r", "step")


def test_lone_numbers_are_results(tmp_path: Path) -> None:
    lines = "3.11.4\n1,0.5,3\n2026-01-02\n98%\n984\n"
    assert judged(written(tmp_path / "log.txt", lines), RESULT) == {1: 984.0}


# Fields that stay empty

EMPTY = [
    # rows with a value, and without; whether the run has diverged
    ("vvvvvvvvvvvv........", True),
    ("vvvvvvvvvvvvvvvvvvv.", False),  # a summary after them
    ("vvvv.", False),
    ("vvvvvvv..", True),
    ("v...v...v...v...v...", False),  # logged less often
    ("v..v..v..v..........", True),
    ("....vvvvvvvvvvvvvvvv", False),
]


@pytest.mark.parametrize(("rows", "diverged"), EMPTY)
@pytest.mark.parametrize(
    ("name", "step"), [("l.csv", "step"), ("l.csv", None), ("l.jsonl", "step")]
)
def test_fields_that_stay_empty(tmp_path: Path, rows, diverged, name: str, step) -> None:
    values = [place + 1 if kind == "v" else None for place, kind in enumerate(rows)]
    if name == "l.csv":
        lines = [f"{at},{'' if v is None else v},7" for at, v in enumerate(values, 1)]
        text = "\n".join(["step,r,x", *lines]) + "\n"
    else:
        objects = [{"step": at, "r": v, "x": 7} for at, v in enumerate(values, 1)]
        text = "\n".join(map(json.dumps, objects)) + "\n"
    read = list(judged(written(tmp_path / name, text), "r", step).values())
    assert [v for v in read if math.isfinite(v)] == [v for v in values if v is not None]
    assert math.isnan(read[-1]) == diverged


def test_a_metric_that_ends_early_says_so(tmp_path: Path) -> None:
    rows = [{"step": t, "loss": 1, **({"r": t} if t < 6 else {})} for t in range(10)]
    path = written(tmp_path / "log.jsonl", "\n".join(map(json.dumps, rows)))
    assert logs.read(path, "r", "step")[1] == ["the steps after 5 of 9 have no r"]


# Bins


def log_of(steps: list[int], values: list[float]) -> Curve:
    return Curve(np.array(steps), np.array(values, float))


def test_a_bin_is_the_mean_of_what_is_logged_in_it() -> None:
    rng = np.random.default_rng(0)
    steps = np.sort(rng.integers(1, 10_001, 3000))
    values = rng.normal(size=3000)
    found = binned(log_of(steps.tolist(), values.tolist()), "r", 10_000)
    assert found["step"] == list(range(200, 10_001, 200))
    for place, end in enumerate(found["step"]):
        inside = (steps > end - 200) & (steps <= end)
        assert found["r"][place] == pytest.approx(values[inside].mean())


@pytest.mark.parametrize("steps", [0, 5000])
def test_a_regular_log_stays_as_it_is(steps: int) -> None:
    at = list(range(500, 5001, 500))
    assert binned(log_of(at, list(range(10))), "r", steps)["step"] == at


def test_runs_of_about_one_length_share_their_steps() -> None:
    """Where the length is unknown, and episodes end whenever they do."""
    rng = np.random.default_rng(0)
    made = [np.sort(rng.integers(1, 50_000 - cut, 400)).tolist() for cut in (0, 300, 900)]
    found = [set(binned(log_of(at, [0.0] * 400), "r")["step"]) for at in made]
    assert len(set.intersection(*found)) >= 0.9 * max(map(len, found))


@pytest.mark.parametrize("last", [1, 9, 49, 50, 51, 99, 100, 12_345, 10**9])
def test_bins_are_few_and_cover_the_run(last: int) -> None:
    for steps in (0, last):
        at = sorted({1, last})
        ends = binned(log_of(at, [0.0] * len(at)), "r", steps)["step"]
        assert len(ends) <= BINS + 1
        assert ends[-1] >= last


def test_a_run_that_overshoots_a_little_is_as_long_as_the_others() -> None:
    """Complete rollouts end after the steps that were asked for."""
    exact, longer, twice = (
        binned(log_of(list(range(100, end, 100)), [0.0] * ((end - 1) // 100)), "r", 10_000)["step"]
        for end in (10_001, 10_301, 20_001)
    )
    assert longer == exact
    assert twice[-1] == 20_000


def test_odd_steps_and_values_leave_gaps() -> None:
    assert len(binned(log_of([10**12, 2 * 10**12, 10**13], [1, 2, 3]), "r", 100)["step"]) == 3
    found = binned(log_of([10, 20, 30], [1.0, math.nan, 3.0]), "r", 30)
    assert found == {"step": [10, 30], "r": [1.0, 3.0]}
