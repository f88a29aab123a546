"""Commands as cells: what a record holds, every way in which a command can go wrong, killing and
going on, and that none of it needs more than the base install.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ablations.comparison import compare
from ablations.engine.job import JobSpec, cells_of
from ablations.engine.status import status
from ablations.engine.worker import Worker
from ablations.records import read_plan
from ablations.runs import Runs


def until(ready: Callable[[], Any], seconds: float = 300) -> Any:
    """Waits for something to happen; a busy machine is no reason to fail."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := ready():
            return found
        time.sleep(0.01)
    raise AssertionError("it did not happen")


# What a record holds


def test_a_record_is_what_the_command_wrote(folder) -> None:
    assert folder.run().done == 6
    plan = read_plan(folder.results, "walk")
    for (variant, seed), record in folder.records(plan).items():
        drift = {"slow": 10, "fast": 12}[variant]
        curve = folder.curve(record)
        assert curve["step"] == [i * 100 for i in range(1, 21)]
        assert curve["return"] == [
            i * drift + (seed * 7919 + i * 104729) % 13 for i in range(1, 21)
        ]
        assert record.provenance["seconds"] > 0
        assert record.provenance["peak_megabytes"] > 0
        kept = folder.results / "cells" / record.hash / "run"
        assert (kept / "log.csv").exists(), "what the command left"
    rows = compare(Runs.read(folder.results, plan)).set_index("variant")
    assert rows.difference["fast"] == pytest.approx(2 * 19.5)
    assert folder.run().found == 6, "nothing runs twice"


def test_one_number_is_a_curve_of_one_point(folder) -> None:
    folder.script(
        'echo "training ..."; echo "accuracy: 0.9$seed"',
        ('curve = "{folder}/log.csv"\nstep = "step"', 'curve = "stdout"'),
        ('metric = "return"', 'metric = "accuracy"'),
        ("seeds = 1", "seeds = 3\nmargin_in_metric = 0.02"),
    )
    folder.run()
    plan = read_plan(folder.results, "walk")
    values = {seed: folder.curve(r)["accuracy"] for (_, seed), r in folder.records(plan).items()}
    assert values == {0: [0.90], 1: [0.91], 2: [0.92]}


def test_arguments_are_passed_as_they_are(folder) -> None:
    """No shell reads them; a list becomes arguments of its own."""
    folder.write(
        "walk.sh",
        'out=$1; shift 2; for one in "$@"; do echo "[$one]"; done > "$out/seen"\n'
        'echo "x,return" > $out/log.csv; echo "1,2" >> $out/log.csv\n',
    )
    folder.study(
        (
            '"sh walk.sh {folder} {seed} {drift}"',
            "'sh walk.sh {folder} {seed} a={drift} {list} {n}'",
        ),
        ("seeds = 3", "seeds = 1"),
        ("slow = {drift = 10}", "slow = {drift = '$HOME; \"x\" *', list = ['a b', 3], n = 1e-3}"),
        ("fast = {drift = 12}", "fast = {drift = true, list = [], n = ''}"),
        ('step = "step"', 'step = "x"'),
    )
    folder.run()
    seen = {}
    for (variant, _), record in folder.records(read_plan(folder.results, "walk")).items():
        path = folder.results / "cells" / record.hash / "run" / "seen"
        seen[variant] = path.read_text().splitlines()
    assert seen["slow"] == ['[a=$HOME; "x" *]', "[a b]", "[3]", "[0.001]"]
    assert seen["fast"] == ["[a=true]", "[]"]


def test_the_environment_is_declared_and_threads_are_shared(folder, monkeypatch) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "JAX_PLATFORMS", "NPROC"):
        monkeypatch.delenv(name, raising=False)
    folder.script(
        'echo "{\\"return\\": $X.$OMP_NUM_THREADS}"',
        ('curve = "{folder}/log.csv"\nstep = "step"', 'curve = "stdout"'),
        ('metric = "return"', 'metric = "return"\nenvironment = {X = "{seed}"}'),
    )
    folder.run(threads=3)
    (record,) = folder.records(read_plan(folder.results, "walk")).values()
    assert folder.curve(record) == {"step": [1], "return": [0.3]}


def test_a_curve_that_ends_in_nan_has_diverged(folder) -> None:
    folder.script('printf "step,return\\n1,5\\n2,nan\\n3,nan\\n" > $out/log.csv')
    record = folder.failure()
    assert (record.failure, record.failed_step) == ("diverged", 2)
    assert record.reason == "return is no finite number from step 2 on"


# What goes wrong

BAD = [
    ("exit 3", "the command ended with exit code 3"),
    ("kill -9 $$", "the command was killed by SIGKILL"),
    ("true", "the command succeeded, but did not write 'log.csv'"),
    (": > $out/log.csv", "'log.csv' is empty"),
    ('printf "step,return\\n9,1\\n1,2\\n" > $out/log.csv', "steps go back from 9 to 1"),
    ('printf "step,return\\n1.5,2\\n" > $out/log.csv', "step must be a whole number, not '1.5'"),
    ('printf "step,return\\n1,\\n" > $out/log.csv', "'log.csv' has no value of return"),
]


@pytest.mark.parametrize(("script", "says"), BAD, ids=[says for _, says in BAD])
def test_a_command_that_gives_no_curve_says_why(folder, script: str, says: str) -> None:
    folder.script(f"echo before it went wrong\n{script}")
    record = folder.failure()
    assert says in str(record.reason)
    assert record.failure == "error", "worth another try"
    assert record.provenance["log"][0] == "before it went wrong"


LONG = "9" * 400
ODD = [  # what a file of others' may hold, and why its run failed
    ("log.csv", "step,return\n1,nan\n2,inf\n", "return is no finite number from step 1 on"),
    ("log.jsonl", f'{{"step": 1, "return": {LONG}}}', "return is no finite number from step 1 on"),
    ("log.json", "[" * 10**5 + "]" * 10**5 + "\n", "line 1 is not a JSON object"),
    ("log.jsonl", '{"step": 1, "return": "\\ud800"}', "return must be a number"),
]


@pytest.mark.parametrize(("name", "text", "says"), ODD, ids=range(len(ODD)))
def test_an_odd_log_fails_its_cell_not_the_sweep(folder, name: str, text: str, says: str) -> None:
    folder.write(f"odd/{name}", text)
    folder.write("walk.sh", f"[ $3 = 12 ] && cp odd/{name} $1/{name} || cp log $1/{name}")
    rows = name.endswith("csv")
    folder.write("log", "step,return\n1,2\n" if rows else '{"step": 1, "return": 2}\n')
    folder.study(("{folder}/log.csv", f"{{folder}}/{name}"), ("seeds = 3", "seeds = 1"))
    outcome = folder.run()
    ((cell, record),) = outcome.failed
    assert (cell.config["structure"]["drift"], outcome.done) == (12, 1), "the other cell is done"
    assert says in str(record.reason)
    json.dumps(record.reason).encode()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ('printf "step,return\n50,1\n90,2\n"', None),
        ('printf "step,return\n50,1\n"', "its curve stops at step 50 of 100"),
        ('printf "step,return,x\n50,1,1\n100,,2\n"', "its curve stops at step 50 of 100"),
        ('printf "step,return\n25,1\n50,nan\n"', "return is no finite number from step 50 on"),
    ],
)
def test_a_run_that_ends_well_before_its_steps_has_failed(folder, script: str, reason) -> None:
    folder.script(
        f"{script} > $out/log.csv",
        ("{drift}", "{steps}"),
        ("slow = {drift = 10}", "slow = {}"),
        ('claim = "drift helps"', 'claim = "drift helps"\nsteps = 100'),
    )
    outcome = folder.run()
    reasons = [record.reason for _, record in outcome.failed]
    assert [reason in str(one) for one in reasons] == ([True] if reason else [])


def test_what_is_no_text_in_the_output_stays_out_of_the_log(folder) -> None:
    folder.script(
        "printf '\\000\\377\\033[31mred\\033[0m\\n 1%%\\r 99%%\\r100%%\\n'\n"
        "i=0; while [ $i -lt 30 ]; do echo line $i; i=$((i+1)); done\n"
        "printf 'last: \\000\\001\\377'; exit 1"
    )
    log = folder.failure().provenance["log"]
    assert len(log) == 12
    assert log[-2:] == ["line 29", "last: \ufffd"]
    assert json.dumps(log).isprintable()


def test_a_command_that_hangs_is_ended_with_all_it_started(folder) -> None:
    folder.script(
        "sleep 1000 & echo $! > $out/child\necho waiting; wait",
        ('step = "step"', 'step = "step"\ntimeout = 0.3'),
    )
    record = folder.failure()
    assert record.reason == "the command still ran after its timeout of 0.3 s"
    assert record.provenance["log"] == ["waiting"]
    (child,) = folder.results.glob("work/*/run/child")
    until(lambda: not alive(int(child.read_text())))


def test_what_a_command_leaves_in_the_background_is_ended_and_its_curve_grows_no_more(
    folder,
) -> None:
    folder.script(
        'printf "step,return\\n1,2\\n2,3\\n" > $out/log.csv\n'
        '(i=3; while true; do echo "$i,3" >> $out/log.csv; i=$((i + 1)); sleep 0.05; done) &\n'
        "echo $! > $out/child; sleep 0.1"
    )
    assert folder.run().done == 1
    (record,) = folder.records(read_plan(folder.results, "walk")).values()
    kept = folder.results / "cells" / record.hash / "run"
    until(lambda: not alive(int((kept / "child").read_text())))
    lines = (kept / "log.csv").read_text().splitlines()
    steps = folder.curve(record)["step"]
    assert int(lines[-1].partition(",")[0]) - steps[-1] <= 1, "it was ended before it was read"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end between the opening and the read
        return False


def test_a_script_that_is_gone_or_edited_meanwhile_loses_nothing(folder) -> None:
    from ablations.engine import local

    plans = folder.plans()
    text = (folder.path / "walk.sh").read_text()
    folder.write("walk.sh", text + "# edited\n")
    outcome = local.ThisProcess(quiet=True).run(plans, folder.results)
    assert len(outcome.failed) == 6
    assert "its code was edited after this run was planned" in str(outcome.failed[0][1].reason)
    folder.write("walk.sh", text)
    assert folder.run().done == 6, "set back, they run"


# Killing and going on

COUNTER = """\
import os, sys, time
out, go = sys.argv[1], sys.argv[2]
state = f"{out}/state"
first = int(open(state).read()) + 1 if "--resume" in sys.argv else 1
log = open(f"{out}/log.csv", "a" if first > 1 else "w", buffering=1)
if first == 1:
    log.write("step,return\\n")
open(f"{out}/starts", "a").write(f"{first}\\n")
for step in range(first, 41):
    log.write(f"{step},{step * 2}\\n")
    if step % 10 == 0:
        open(state + ".new", "w").write(str(step))
        os.replace(state + ".new", state)
    while step in (15, 25) and not os.path.exists(f"{go}{step}"):
        time.sleep(0.01)
"""


def counting(folder, *, resumes: bool) -> None:
    folder.write("count.py", COUNTER)
    how = 'resume = "--resume"\nresume_if = "{folder}/state"\n' if resumes else ""
    folder.study(
        (
            "sh walk.sh {folder} {seed} {drift}",
            f"{sys.executable} -S -E count.py {{folder}} {{go}} {{seed}}",
        ),
        ("seeds = 3", "seeds = 1"),
        ("fast = {drift = 12}\n", ""),
        ("{drift = 10}", f'{{go = "{folder.path}/go"}}'),
        ('step = "step"', f'{how}step = "step"'),
    )


RUN = [sys.executable, "-m", "ablations.cli", "run", "walk.toml", "--quiet"]


@pytest.mark.parametrize("resumes", [True, False])
def test_killed_twice_it_goes_on_as_its_command_can(
    folder, base_install: dict[str, str], resumes: bool
) -> None:
    """With -9, the whole session of it; with no module of the extras to import."""
    counting(folder, resumes=resumes)
    for step in (15, 25):
        process = subprocess.Popen(RUN, env=base_install, start_new_session=True)
        written = f"\n{step},{step * 2}\n"
        (log,) = until(
            lambda w=written: [
                path for path in folder.results.glob("work/*/run/log.csv") if w in path.read_text()
            ]
        )
        row = until(lambda: next(iter(running(folder)), None))
        assert row["variant"] == "slow"
        # nobody is asked first: the command, its worker and their parent
        pids = [int(p) for p in marked(log.parent)]
        assert pids
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        until(lambda pids=pids: not any(map(alive, pids)))
        (folder.path / f"go{step}").touch()
    done = subprocess.run(RUN, env=base_install, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = folder.records(read_plan(folder.results, "walk")).values()
    curve = folder.curve(record)
    assert curve["step"] == list(range(1, 41))
    assert curve["return"] == [2 * step for step in range(1, 41)]
    starts = (folder.results / "cells" / record.hash / "run" / "starts").read_text().split()
    assert starts == (["1", "11", "21"] if resumes else ["1"])
    assert record.provenance.get("resumed_at_steps", []) == ([15, 25] if resumes else [])


def marked(folder: Path) -> list[str]:
    """The processes of a cell's command."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"ABLATIONS_FOLDER={folder}".encode() in (entry / "environ").read_bytes():
                found.append(entry.name)
    return found


def running(folder) -> list[dict[str, Any]]:
    try:
        plan = read_plan(folder.results, "walk")
    except Exception:
        return []
    return [row for row in status([plan], folder.results)[0] if row["state"] == "running"]


def test_a_command_whose_worker_is_abandoned_has_not_failed(folder) -> None:
    """As by `kill -9` of the driver alone: what watches for that ends the command while the worker
    still waits for it."""
    folder.script("echo $$ > $out/pid; sleep 1000")
    (plan,) = folder.plans()
    order = JobSpec("run", str(folder.results), tuple(cells_of(plan)))
    worker = Worker(order, 0)

    def work() -> None:
        with contextlib.suppress(SystemExit):
            worker.run()

    waits = threading.Thread(target=work)
    waits.start()
    until(lambda: any(path.read_text() for path in folder.results.glob("work/*/run/pid")))
    worker.release()
    waits.join()
    assert not list(folder.results.glob("cells/*")), "the next run tries it, as if never begun"


def test_what_runs_says_how_far_it_is(folder, base_install: dict[str, str]) -> None:
    counting(folder, resumes=False)
    with subprocess.Popen(RUN, env=base_install, start_new_session=True) as process:
        (row,) = until(lambda: [row for row in running(folder) if row["step"] == 15])
        assert row["score"] == 30
        assert row["rate"] > 0
        for step in (15, 25):
            (folder.path / f"go{step}").touch()
        assert process.wait() == 0


def test_ctrl_c_ends_the_command_too(folder, base_install: dict[str, str]) -> None:
    counting(folder, resumes=True)
    process = subprocess.Popen(
        RUN,
        env=base_install,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    (run,) = until(lambda: list(folder.results.glob("work/*/run")))
    pids = until(lambda: marked(run))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "the same command continues" in errors
    assert not any(alive(int(pid)) for pid in pids)
