"""What is somebody else's stays data, and what is the user's own stays where it is."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hostile import PRECIOUS

from ablations.cli import main
from ablations.core.plan import StoredStudy
from ablations.engine import claims
from ablations.engine.backends.command.code import checked_out
from ablations.engine.clean import delete, waste
from ablations.names import require_name
from ablations.records import Plan, Record, cell_folder, read_plan, write_plan, write_record


def said(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return out + err


# Names

LEAD_ELSEWHERE = ("../x", "/x", "..", ".", "a/b", "", "a\0b", "a\nb", "x" * 101)


@pytest.mark.parametrize("name", LEAD_ELSEWHERE)
def test_no_name_leads_out_of_the_results(name: str, folder, capsys) -> None:
    study = StoredStudy(name, "", "", "", "", 0.05, False, "return")
    with pytest.raises(Exception, match="letters, digits"):
        require_name("a name", name)
    with pytest.raises(Exception, match="letters, digits"):
        cell_folder(folder.results, name)
    with pytest.raises(Exception, match="letters, digits"):
        write_plan(folder.results, Plan({}, study, {}, {}, ()))
    before = sorted(folder.path.rglob("*"))
    folder.write("runs.csv", "run,seed,step,return\na,0,1,1\na,0,2,2\n")
    runs = str(folder.path / "runs.csv")
    gate = ["--margin", "1", "--against=x", "--", "sh", "walk.sh", "{seed}"]
    for words in (["import", runs, f"--study={name}"], ["gate", f"--name={name}", *gate]):
        assert main(words) == 2
    assert "letters, digits" in said(capsys)
    assert sorted(folder.path.rglob("*")) == sorted([*before, folder.path / "runs.csv"])


def test_a_gate_takes_no_name_of_a_study(folder, capsys) -> None:
    folder.run()
    asked = ["--margin", "1", "--against=x", "--", "sh", "walk.sh", "{seed}"]
    for name in ("gae", "walk"):
        assert main(["gate", "--name", name, *asked]) == 2
        assert f"'{name}' is a study already" in said(capsys)


# Code


def test_workers_import_nothing_from_the_current_folder(folder) -> None:
    """Neither another clone of the suite nor a file that is named as a module of Python's."""
    for name in ("ablations/__init__", "types", "logging", "random", "json", "variants/__init__"):
        folder.write(f"{name}.py", "raise SystemExit('imported from the current folder')")
    command = [sys.executable, "-P", "-m", "ablations.cli", "run", "walk.toml", "--workers", "1"]
    subprocess.run(command, cwd=folder.path, check=True, capture_output=True)
    assert {r.status for r in folder.records(read_plan(folder.results, "walk")).values()} == {
        "done"
    }


def test_a_worker_whose_driver_is_gone_before_it_starts_runs_nothing(folder) -> None:
    from ablations.engine.job import JobSpec
    from ablations.engine.local import _WORKER, OUR_ROOT
    from ablations.engine.prepare import prepare

    work = prepare(folder.plans(), folder.results)
    order = JobSpec("run", str(folder.results), work.todo)
    path = order.write(folder.path / "order.json")
    gone = subprocess.run(["sh", "-c", "echo $$"], check=True, capture_output=True, text=True)
    told = [str(OUR_ROOT), str(path), "0", gone.stdout.strip()]
    subprocess.run([sys.executable, "-P", "-c", _WORKER, *told], cwd=folder.path, check=False)
    assert len(order.left) == len(work.todo)


def test_a_gate_runs_the_commit_and_not_what_became_of_its_copy(folder) -> None:
    folder.commit("walk.sh")
    first = checked_out(folder.path, "HEAD")
    for edited in ("walk.sh", "random.py"):
        (first.here / edited).write_text("echo another")
    again = checked_out(folder.path, "HEAD")
    assert again.digest == first.digest
    assert (again.here / "walk.sh").read_text() == (folder.path / "walk.sh").read_text()
    assert not (again.here / "random.py").exists()


@pytest.mark.parametrize("setting", ["core.fsmonitor", "core.hooksPath", "hooks", "diff.external"])
def test_git_starts_no_program_that_a_repository_names(setting: str, folder, capsys) -> None:
    folder.write("more.py", "1\n")
    folder.commit("walk.sh", "more.py")
    program = folder.write("hooks/post-index-change", f"#!/bin/sh\ntouch {folder.path}/executed\n")
    program.chmod(0o755)
    if setting == "hooks":
        (folder.path / ".git/hooks").mkdir(exist_ok=True)
        shutil.copy(program, folder.path / ".git/hooks/post-index-change")
    else:
        named = program.parent if setting == "core.hooksPath" else program
        subprocess.run(["git", "config", setting, str(named)], cwd=folder.path, check=True)
    folder.write("more.py", "2\n")
    os.utime(folder.path / "walk.sh")
    folder.run()
    checked_out(folder.path, "HEAD")
    checked_out(folder.path, "HEAD")
    assert main(["table", "walk.toml"]) == main(["status", "walk.toml"]) == 0
    assert not (folder.path / "executed").exists()


NO_TEXT = os.fsdecode(b"caf\xe9")


def test_a_folder_whose_name_is_no_text(folder) -> None:
    here = folder.path / NO_TEXT
    folder.study(("drift helps", "drift helps \u03b4"), name=f"{NO_TEXT}/walk.toml")
    folder.write(f"{NO_TEXT}/walk.sh", (folder.path / "walk.sh").read_text())
    folder.commit(f"{NO_TEXT}/walk.sh")
    (here / "link.py").symlink_to(NO_TEXT)
    commands = (
        ["run", "walk.toml", "--results", str(here / "results")],
        *(["table", "walk"], ["status", "walk.toml"], ["export", "walk", "--format", "csv"]),
    )
    program = f"from ablations.cli import main; assert not any(map(main, {commands!a}))"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=here, env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "words",
    [
        *(["table", "LONG"], ["status", "LONG.toml"], ["show", "LONG"], ["run", "LONG"]),
        *(["import", "LONG.csv", "--study", "a"], ["table", "walk", "--output", "LONG"]),
        ["run", "walk.toml", "--results", "LONG"],
    ],
    ids=" ".join,
)
def test_a_name_of_300_letters_ends_in_a_line(words: list[str], folder, capsys) -> None:
    if "walk" in words:
        folder.run(seeds=1)
    said(capsys)
    assert main([word.replace("LONG", "n" * 300) for word in words]) == 2
    assert len(said(capsys).splitlines()) == 1


# Deletion


def test_clean_deletes_what_the_suite_made_and_nothing_else(folder, capsys) -> None:
    folder.run()
    ours = [folder.results / "cells" / ("0" * 16), folder.results / "work" / ("1" * 16)]
    ours.append(folder.results / "set-aside" / f"{'3' * 16}-{'4' * 8}")
    for path in ours:
        path.mkdir(parents=True)
        (path / "record.json").write_text("{}")
    theirs = [folder.write(f"results/{name}", "precious") for name in PRECIOUS]
    assert main(["clean", "--yes"]) == 0
    listed = said(capsys)
    assert all(str(path.relative_to(folder.path)) in listed for path in ours)
    assert not any(path.exists() for path in ours)
    assert all(path.read_text() == "precious" for path in theirs)


@pytest.mark.parametrize("part", ["cells", "work", "set-aside", "work/logs"])
def test_clean_follows_no_link(part: str, folder) -> None:
    folder.run()
    elsewhere = folder.path / "elsewhere"
    for name in ("0" * 16, f"{'0' * 16}-{'0' * 8}", f"f-{'0' * 16}.program", "00000000-0.log"):
        (elsewhere / name).mkdir(parents=True)
    target = folder.results / part
    if target.exists():
        target.rename(folder.path / "moved")
    target.parent.mkdir(exist_ok=True)
    target.symlink_to(elsewhere)
    delete(folder.results, waste(folder.results))
    assert len(list(elsewhere.iterdir())) == 4


def test_clean_leaves_a_folder_alone_in_which_nothing_ran(tmp_path: Path, capsys) -> None:
    precious = tmp_path / "work" / ("0" * 16)
    precious.mkdir(parents=True)
    assert main(["clean", "--yes", "--results", str(tmp_path)]) == 0
    assert "nothing to clean" in said(capsys)
    assert precious.exists()


# What is printed


def test_no_command_prints_what_a_terminal_obeys(folder, capsys) -> None:
    folder.run()
    plan = read_plan(folder.results, "walk")
    cell = plan.cells[0]
    shutil.rmtree(cell_folder(folder.results, cell.hash))
    odd = "\x1b[2Jgone\x9b31m\x07\u202e"
    log = {"log": [odd], "plugins": {odd: "a"}}
    failed = Record(cell.hash, cell.config, "failed", "error", odd, provenance=log)
    write_record(folder.results, failed, {"step": []})
    said(capsys)
    name = cell.hash
    for words in (
        ["table", "walk", "--caption"],
        ["status", "walk"],
        ["show", name],
        ["table", odd],
    ):
        main(words)
        shown = said(capsys)
        assert "gone" in shown
        assert all(c.isprintable() or c == "\n" for c in shown)
    assert main(["show", "walk.toml/fast"]) == 0
    assert re.search(r"\n    run +\w+ ", said(capsys)), "as one types it"


# Folders of a group


def test_what_a_group_may_write_is_what_the_umask_leaves(folder) -> None:
    before = os.umask(0o002)
    try:
        folder.run()
    finally:
        os.umask(before)
    paths = [path for path in folder.results.rglob("*") if not path.is_symlink()]
    assert len(paths) > 10
    for path in paths:
        assert path.stat().st_mode & 0o664 == 0o664, path


def test_archives_of_a_folder_that_cannot_be_written(folder, capsys, monkeypatch) -> None:
    folder.run()
    assert main(["export", "walk", "--format", "archive"]) == 0
    shutil.rmtree(folder.results / "cells")

    def closed(path: Path, *_: object, **keywords: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", closed)
    for command in ("table walk", "run walk.toml"):
        said(capsys)
        assert main(command.split()) == 2
        assert "cannot use" in said(capsys)


def test_runs_and_clean_without_flock(folder, capsys, monkeypatch) -> None:
    """Lustre mounted without -o flock, some NFS."""
    for number in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):

        def no_locks(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("fcntl.flock", no_locks)
        monkeypatch.setattr(claims, "_known", {})
        shutil.rmtree(folder.results, ignore_errors=True)
        assert folder.run().done == 6
        held = claims.hold(folder.results, "0" * 16)
        assert held is not None
        assert claims.hold(folder.results, "0" * 16) is None
        held.beat("compiling", 0, 1, 0.0, None, force=True)
        assert main(["clean", "--yes"]) == 0
        assert "Traceback" not in said(capsys)
        # Its holder was killed on another machine.
        lock = folder.results / "work" / ("0" * 16) / "lock"
        assert lock.exists()
        lock.with_name("heartbeat.json").unlink()
        os.utime(lock, (0, 0))
        assert claims.hold(folder.results, "0" * 16) is not None
