"""What Slurm's commands print when something is odd, by stand-ins for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ablations.cli import main

STUDY = """\
study = {name = "s", baseline = "a", seeds = 2}
command = {run = "true {seed} {x}", curve = "stdout", step = "step", metric = "r", depends = []}
variants = {a = {x = 1}, b = {x = 2}}
"""
CLUSTER = '[ -n "$CLUSTERS" ] && echo "CLUSTER: north"\n'
TIMED_OUT = "Socket timed out on send/recv operation"
COMMANDS = {
    "sinfo": "",
    "scontrol": 'echo "MaxArraySize            = 1001"',
    "scancel": "",
    "srun": "",
    "squeue": CLUSTER
    + f'[ -n "$SILENT" ] && {{ echo "slurm_load_jobs error: {TIMED_OUT}" >&2; exit 0; }}\n'
    + "cat comments",
    "sbatch": 'case "$*" in *--test-only*) exit 0;; esac\n'
    + 'grep -h -- --comment "$@" '
    + "| sed \"s/^.*--comment='\\([^']*\\)'.*/7|RUNNING|None|\\1/\" >> comments\n"
    + f'case "$ANSWER" in\n  bare) echo 7;;\n  timeout) echo "sbatch: error: {TIMED_OUT}" >&2; '
    + 'exit 1;;\n  *) echo "Submitted batch job 7";;\nesac',
}


@pytest.fixture(autouse=True)
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    (tmp_path / "bin").mkdir()
    for name, text in COMMANDS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "s.toml").write_text(STUDY)
    (tmp_path / "comments").touch()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)


def submit(capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert main(["run", "s.toml", "--cluster", "slurm"]) == code
    told = capsys.readouterr()
    return told.err if code else told.out


def jobs() -> int:
    return len(Path("comments").read_text().splitlines())


@pytest.mark.parametrize("answer", ["Submitted", "bare", "timeout"])
def test_a_job_that_slurm_took_is_submitted_once_whatever_sbatch_says(
    answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANSWER", answer)
    assert "4 submitted" in submit(capsys)
    assert "4 queued; nothing to submit" in submit(capsys)
    assert jobs() == 1


def test_nothing_is_submitted_while_the_queue_is_not_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(capsys)
    monkeypatch.setenv("SILENT", "1")
    says = f"squeue does not answer ({TIMED_OUT})"
    assert says in submit(capsys, code=2)
    assert jobs() == 1
    assert main(["status", "s.toml"]) == 0
    assert says in capsys.readouterr().err


def test_a_job_that_may_have_been_taken_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANSWER", "timeout")
    squeue = Path("bin/squeue").read_text()
    Path("bin/squeue").write_text("#!/bin/sh\n")  # the controller does not show it yet
    assert "wait a minute and try again" in submit(capsys, code=2)
    Path("bin/squeue").write_text(squeue)
    assert "4 queued; nothing to submit" in submit(capsys)
    assert jobs() == 1


def test_lines_that_name_a_cluster_are_no_jobs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLUSTERS", "1")
    assert "4 submitted" in submit(capsys)
    assert main(["status", "s.toml"]) == 0
    assert "4 runs: RUNNING" in capsys.readouterr().out
