"""Logs: every format gives the same rows; growing, broken and irregular ones; bins of other seeds'
steps.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from ablations import logs
from ablations.errors import UserError
from ablations.logs import numbers
from ablations.logs.bins import BINS, binned
from ablations.logs.order import Part, in_order

STEPS = [10, 20, 30]
RETURNS = [1.0, 2.5, 4.0]


def write(path: Path) -> Path:
    pairs = list(zip(STEPS, RETURNS, strict=True))
    lines = {
        "csv": "time, step ,return,note\n" + "".join(f"0,{s},{r},x\n" for s, r in pairs),
        "tsv": "step\treturn\n" + "".join(f"{s}\t{r}\n" for s, r in pairs),
        "jsonl": "".join(json.dumps({"step": s, "return": r}) + "\n" for s, r in pairs),
        "log": "start\n"
        + "".join(f"[{s}] step={s} loss: -1e-3 return: {r} ok\n" for s, r in pairs),
        "txt": "".join(f"  {json.dumps({'step': s, 'return': r})}\nwords\n" for s, r in pairs),
    }
    path.write_text(lines[path.suffix[1:]])
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "log", "txt"])
def test_every_format_gives_the_same_rows(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"log.{kind}")
    found = logs.read(path, "return", "step")
    assert [step for step, _ in found.points] == STEPS
    assert [row["return"] for _, row in found.points] == RETURNS
    assert logs.latest(path, "return", "step") == (30, 4.0)
    unnumbered = logs.read(path, "return")
    assert [step for step, _ in unnumbered.points][-1] == 3, "rows are counted"


def test_event_files_of_tensorboard(tmp_path: Path) -> None:
    tensorboardx = pytest.importorskip("tensorboardX")
    writer = tensorboardx.SummaryWriter(str(tmp_path / "runs" / "ppo__1"))
    for step, value in zip(STEPS, RETURNS, strict=True):
        writer.add_scalar("charts/return", value, step)
        writer.add_scalar("loss", -value, step)
    writer.close()
    path = logs.find(f"{tmp_path}/runs/*")
    assert path is not None
    found = logs.read(path, "charts/return")
    assert [(s, row["charts/return"]) for s, row in found.points] == list(
        zip(STEPS, RETURNS, strict=True)
    )
    assert logs.latest(path, "charts/return", None) == (30, 4.0)


def test_evaluations_of_stable_baselines3(tmp_path: Path) -> None:
    results = np.array([[1.0, 3.0], [4.0, 6.0]])
    path = tmp_path / "evaluations.npz"
    np.savez(path, timesteps=[100, 200], results=results, ep_lengths=results * 10)
    found = logs.read(path, "results", "timesteps")
    assert [(s, row["results"], row["ep_lengths"]) for s, row in found.points] == [
        (100, 2.0, 20.0),
        (200, 5.0, 50.0),
    ]


def test_a_line_that_is_being_written_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,return,length\n10,1,5\n20,2")
    assert logs.latest(path, "return", "step") == (10, 1.0)
    assert logs.read(path, "return", "step").last == 10
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 10, "return": 1}\n{"step": 20, "ret')
    assert logs.latest(path, "return", "step") == (10, 1.0)


def test_the_end_of_a_long_log_is_found_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,return\n" + "".join(f"{i},{i % 7}\n" for i in range(1, 100_001)))
    assert logs.latest(path, "return", "step") == (100_000, 100_000 % 7)
    path.write_text("step,return\n10,1\n")  # written anew, shorter
    assert logs.latest(path, "return", "step") == (10, 1.0)


def test_names_that_are_repeated_when_a_run_goes_on(tmp_path: Path) -> None:
    """What lies beyond where it goes on from is forgotten."""
    path = tmp_path / "log.csv"
    path.write_text("step,return\n10,1\n20,2\n30,3\nstep,return\n20,5\n30,6\n")
    with pytest.raises(UserError, match="step goes back from 30 to 20"):
        logs.read(path, "return", "step")
    found = logs.read(path, "return", "step", restarts=1)
    assert [(s, row["return"]) for s, row in found.points] == [(10, 1), (20, 5), (30, 6)]


def test_several_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("x\n")
    with pytest.raises(UserError, match=r"is several: a\.csv, b\.csv"):
        logs.find(f"{tmp_path}/*.csv")
    assert logs.find(f"{tmp_path}/*.json") is None


def test_a_column_called_step_is_not_the_steps(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,total,return\n7,100,1\n8,200,2\n")
    assert binned(logs.read(path, "return", "total"), "return")["step"] == [100, 200]


# Numbers

NUMBERS = [
    ("9,839.45", 9839.45),
    ("-1,234,567", -1234567.0),
    ("1_000", 1000.0),
    ("1e3", 1000.0),
    ("-1.5E-3", -0.0015),
    (".5", 0.5),
    ("5.", 5.0),
    ("+5", 5.0),
    ("\u22125", -5.0),
    ("007", 7.0),
    ("NaN", math.nan),
    ("NAN", math.nan),
    ("-nan", math.nan),
    ("nan(ind)", math.nan),
    ("Inf", math.inf),
    ("Infinity", math.inf),
    ("-inf", -math.inf),
    ("1e999", math.inf),
]
NONE = [
    *(
        "9,84",
        "9,839",
        "0,512",
        "12,34,567",
        "1,2345",
        "1.234,5",
        "1'234",
        "1.2.3",
        "1\u202f234",
        "1__0",
    ),
    *("98%", "5ms", "5k", "0x1F", "1e", "10:22:33", "3->4", "5-6", "nan%", "8/10"),
    *("tensor(3.0)", "tensor(nan, device='cuda:0')", "np.float64(3.0)", "[3.0, 4]", "array([-.5])"),
]


@pytest.mark.parametrize(("text", "value"), NUMBERS)
@pytest.mark.parametrize(
    "line",
    [
        *("{}", "r: {}", "a=1,r={}, b=2", "[9] r = {}; b", "r: \x1b[1m{}\x1b[0m"),
        *(
            "global_step=1, r=[{}]",
            " 5/40 [00:05, 1.1s/it]{{'b': 1, 'r': {}, 'c': 0.5}}",
            "'r': '{}'",
        ),
    ],
)
def test_numbers_are_read_as_they_stand(tmp_path: Path, line: str, text: str, value: float) -> None:
    path = tmp_path / "log.txt"
    path.write_text(line.format(text) + "\n")
    name = logs.formats.RESULT if line == "{}" else "r"
    ((_, row),) = logs.read(path, name).points
    assert row[name] == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize("text", NONE)
@pytest.mark.parametrize("line", ["r: {}", "a=1,r={} b=2", "step 9: r={}."])
def test_what_is_no_number_is_never_read_in_part(tmp_path: Path, line: str, text: str) -> None:
    path = tmp_path / "log.txt"
    path.write_text("r: 1\n" + line.format(text) + "\n")
    with pytest.raises(UserError, match="r must be a number"):
        logs.read(path, "r")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.txt", "step: 1 train r: 9.0 val r: 0.7\n"),
        ("log.csv", "step,r, r\n1,9.0,0.7\n"),
        ("log.txt", '{"step": 1, "eval": {"r": 9.0}, "eval.r": 0.7}\n'),
    ],
)
def test_two_values_of_one_name_are_none(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UserError, match=r"must be a number, not '9\.0 and 0\.7'"):
        logs.read(path, "eval.r" if "eval" in text else "r", "step")
    path.write_text(text.replace("0.7", "9.0"))
    assert logs.read(path, "eval.r" if "eval" in text else "r", "step").last == 1


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
def test_fields_that_stay_empty(
    tmp_path: Path, rows: str, diverged: bool, name: str, step: str | None
) -> None:
    path = tmp_path / name
    values = [place + 1 if kind == "v" else None for place, kind in enumerate(rows)]
    if name == "l.csv":
        lines = [f"{at},{'' if value is None else value},7" for at, value in enumerate(values, 1)]
        path.write_text("\n".join(["step,r,x", *lines]) + "\n")
    else:
        lines = [
            f'{{"step": {at}, "r": {json.dumps(v)}, "x": 7}}' for at, v in enumerate(values, 1)
        ]
        path.write_text("\n".join(lines) + "\n")
    judged = [row["r"] for _, row in logs.read(path, "r", step).points if "r" in row]
    finite = [value for value in judged if math.isfinite(value)]
    assert finite == [value for value in values if value is not None]
    assert math.isnan(judged[-1]) == diverged


def test_lines_end_where_they_do(tmp_path: Path) -> None:
    """Not within texts of JSON; progress bars end theirs by going back."""
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1, "r": 1, "by": "a\u2028b\x85c"}\n', encoding="utf-8")
    assert logs.read(path, "r", "step").points == ((1, {"r": 1.0}),)
    path = tmp_path / "log.txt"
    path.write_bytes(b"step: 1 r: 1\rstep: 2 r: 2\r\nstep: 3 r: 3")
    assert [at for at, _ in logs.read(path, "r", "step").points] == [1, 2, 3]


def test_words_after_the_name_are_no_values(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("r: computing\nr: information\nr: None\nr: 9.5±0.3 of step: 3/10\n")
    assert logs.read(path, "r", "step").points == ((3, {"r": 9.5}),)


@pytest.mark.parametrize("text", ["1'234.5", "1.234,5", "0,5", "1.234.567", "1\u202f234"])
def test_lone_numbers_of_other_countries_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.txt"
    path.write_text(f"984\n{text}\n")
    with pytest.raises(UserError, match="result must be a number"):
        logs.read(path, "result")


def test_versions_and_lists_on_a_line_are_no_results(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("3.11.4\n1,0.5,3\n2026-01-02\n98%\n984\n")
    assert logs.read(path, "result").points == ((1, {"result": 984.0}),)


@pytest.mark.parametrize("unit", ["a", "a/", "a ", "x=1", "1,", "x=", "=", "x=("])
def test_a_line_of_a_megabyte_takes_no_hours(unit: str) -> None:
    """Its time grows with its length; else this never ends."""
    assert len(numbers.pairs(unit * (10**6 // len(unit)))) < 10**6


# Steps that go back


def part(steps: list[int], began: float = 0.0, name: str = "f") -> Part:
    points = [(step, began + place) for place, step in enumerate(steps)]
    return Part(name, points, began, began + len(steps) - 1)


ONE_WRITER = [
    ([1, 2, 3], [1, 2, 3], ""),
    ([0, 100, 200, 300, 200, 200, 300], [0, 100, 200, 200, 300], "2 earlier points left out"),
    ([0, 90, 180, 270, 130, 220, 310], [0, 90, 130, 220, 310], "2 earlier points left out"),
    ([100, 102, 101, 103], [100, 101, 102, 103], "1 point written late"),
    ([10, 8, 12, 14], [8, 10, 12, 14], "1 point written late"),
    (
        [step + lag for step in range(0, 400, 20) for lag in (15, 0)],
        sorted([*range(0, 400, 20), *range(15, 400, 20)]),
        "written late",
    ),
]


@pytest.mark.parametrize(("written", "kept", "note"), ONE_WRITER)
def test_steps_that_go_back_in_one_file(written: list[int], kept: list[int], note: str) -> None:
    notes: list[str] = []
    assert [step for step, _ in in_order("r", [part(written)], notes)] == kept
    assert note in "".join(notes)


TWO = [
    ([[1, 2, 3], [4, 5]], [0, 0, 0, 1, 1], ""),
    ([[1, 2, 3, 4], [3, 4, 5]], [0, 0, 1, 1, 1], "2 earlier points up to step 4 left out"),
    ([[1, 2], [1, 2, 3, 4]], [1, 1, 1, 1], "2 earlier points up to step 2 left out"),
    ([[1, 2, 3, 4, 5], [3, 4], [4, 5, 6]], [0, 0, 1, 2, 2, 2], "left out"),
    ([[], [1, 2]], [1, 1], ""),
]


@pytest.mark.parametrize(("files", "sources", "note"), TWO)
def test_a_run_that_goes_on_in_another_file(files: list, sources: list[int], note: str) -> None:
    notes: list[str] = []
    parts = [part(steps, 1000.0 * place) for place, steps in enumerate(files)]
    found = in_order("r", parts, notes)
    assert [int(value // 1000) for _, value in found] == sources
    assert [step for step, _ in found] == sorted(step for step, _ in found)
    assert note in "".join(notes)


REFUSED = [
    ([part([*range(30), *range(20)])], "begins again at step 0 after step 29"),
    ([part([*range(10)] * 30)], "begins again"),
    ([part([2**31 - 1, -(2**31)])], "a counter that overflowed"),
    ([part([1, 2, 3], 0.0), part([1, 2, 3], 9.0)], "two runs in one place"),
    ([part([1, 2, 3], 0.0), part([1, 2], 9.0)], "two runs in one place"),
    ([part([10, 20, 30], 0.0), part([11, 21, 31], 1.0)], "two runs in one place"),
]


@pytest.mark.parametrize(("parts", "says"), REFUSED)
def test_what_may_be_two_runs_is_refused(parts: list[Part], says: str) -> None:
    with pytest.raises(UserError, match=says):
        in_order("r", parts)


def test_the_judged_tag_has_its_own_steps(tmp_path: Path) -> None:
    """Another tag at seconds goes further; two episodes that end at one step both count."""
    tensorboardx = pytest.importorskip("tensorboardX")
    writer = tensorboardx.SummaryWriter(str(tmp_path))
    for step in range(1, 6):
        writer.add_scalar("r", step, step)
        writer.add_scalar("r", step + 2, step)
        writer.add_scalar("r/time", step, step * 7)
        writer.add_scalar("wraps", step, step % 3)
        writer.add_scalar("step", 100 * step, step)
    writer.close()
    found = logs.read(tmp_path, "r")
    assert found.last == 5
    assert binned(found, "r")["r"] == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert any("wraps" in note for note in found.notes)


@pytest.mark.parametrize("cut", [0, 5, 30])
def test_an_event_file_that_ends_in_zeros_is_read_up_to_there(tmp_path: Path, cut: int) -> None:
    """As the last block of a file is after a crash of its machine."""
    tensorboardx = pytest.importorskip("tensorboardX")
    writer = tensorboardx.SummaryWriter(str(tmp_path))
    for step in range(1, 21):
        writer.add_scalar("r", step, step)
    writer.close()
    (path,) = tmp_path.glob("*tfevents*")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - cut] + bytes(4096))
    found = logs.read(tmp_path, "r")
    assert found.last == 20 - (cut > 0)
    assert any("ends in zeros" in note for note in found.notes)
    path.write_bytes(whole[: len(whole) // 2] + bytes(64) + whole[len(whole) // 2 :])
    with pytest.raises(UserError, match="damaged"):
        logs.read(tmp_path, "r")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"\x00\xff\x00PNG\x01\x02" * 100)
    with pytest.raises(UserError):
        logs.read(path, "return", "step")
    assert logs.latest(path, "return", "step") is None


# Bins


def log_of(steps: list[int], values: list[float]) -> logs.Log:
    return logs.Log(tuple((s, {"r": v}) for s, v in zip(steps, values, strict=True)))


def test_a_bin_is_the_mean_of_what_is_logged_in_it() -> None:
    rng = np.random.default_rng(0)
    steps = np.sort(rng.integers(1, 10_000, 777))
    values = rng.normal(size=777)
    found = binned(log_of(steps.tolist(), values.tolist()), "r", 10_000)
    width = 10_000 / BINS
    assert found["step"] == [round(width * (k + 1)) for k in range(BINS)]
    for k, value in enumerate(found["r"]):
        inside = values[(steps > width * k) & (steps <= width * (k + 1))]
        assert value == pytest.approx(inside.mean())


@pytest.mark.parametrize("steps", [0, 5000])
def test_a_regular_log_stays_as_it_is(steps: int) -> None:
    at = list(range(500, 5001, 500))
    assert binned(log_of(at, list(range(10))), "r", steps)["step"] == at


def test_runs_of_about_one_length_share_their_steps() -> None:
    """Where the length is not told, and episodes end whenever they do."""
    rng = np.random.default_rng(0)
    found = [
        set(
            binned(log_of(np.sort(rng.integers(1, 50_000 - cut, 400)).tolist(), [0.0] * 400), "r")[
                "step"
            ]
        )
        for cut in (0, 300, 900)
    ]
    assert len(set.intersection(*found)) >= 0.9 * max(map(len, found))


@pytest.mark.parametrize("last", [1, 9, 49, 50, 51, 99, 100, 12_345, 10**9])
def test_bins_are_few_and_cover_the_run(last: int) -> None:
    for steps in (0, last):
        ends = binned(log_of([1, last] if last > 1 else [1], [0.0] * (1 + (last > 1))), "r", steps)
        assert len(ends["step"]) <= BINS + 1
        assert ends["step"][-1] >= last


def test_a_run_that_overshoots_a_little_is_as_long_as_the_others() -> None:
    """Whole rollouts end after the steps that were asked for."""
    exact = binned(log_of(list(range(100, 10_001, 100)), [0.0] * 100), "r", 10_000)
    longer = binned(log_of(list(range(100, 10_301, 100)), [0.0] * 103), "r", 10_000)
    assert longer["step"] == exact["step"]
    twice = binned(log_of(list(range(100, 20_001, 100)), [0.0] * 200), "r", 10_000)
    assert twice["step"][-1] == 20_000


def test_steps_that_count_something_else_make_no_millions_of_bins() -> None:
    found = binned(log_of([10**12, 2 * 10**12, 10**13], [1.0, 2.0, 3.0]), "r", 100)
    assert len(found["step"]) == 3


def test_what_is_no_number_leaves_a_gap() -> None:
    found = binned(log_of([10, 20, 30], [1.0, math.nan, 3.0]), "r", 30)
    assert found == {"step": [10, 30], "r": [1.0, 3.0]}
