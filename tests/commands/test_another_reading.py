"""How a curve is read is no part of a command: another reading runs nothing again."""

from __future__ import annotations

import pytest

from ablations.cli import main
from ablations.records import read_plan

COUNTING = """\
out=$1 seed=$2 drift=$3
echo "$drift $seed" >> ../runs
echo "step,return,loss,ticks
1,$((drift + seed)),$seed,10
2,$((drift - seed)),9,20" > $out/log.csv
"""
IN_FOLDER = ("sh walk.sh {folder}", "sh counting.sh {folder}")


@pytest.fixture
def counted(folder):
    """A study whose command notes each of its runs in a file."""
    folder.write("counting.sh", COUNTING.replace("../runs", str(folder.path / "runs")))
    folder.edit = lambda *edits: folder.study(IN_FOLDER, *edits)
    folder.times = lambda: len((folder.path / "runs").read_text().splitlines())
    folder.edit()
    return folder


@pytest.mark.parametrize(
    ("edit", "column", "values"),
    [
        (('metric = "return"', 'metric = "loss"'), "loss", [0, 9]),
        (('metric = "return"', 'metric = "return"\nbetter = "lower"'), "-return", [-10, -10]),
        (('step = "step"', 'step = "ticks"'), "return", [10, 10]),
        (("log.csv", "*.csv"), "return", [10, 10]),
    ],
)
def test_another_reading_runs_nothing_again(counted, edit, column, values) -> None:
    assert counted.run().done == 6
    first = counted.records(read_plan(counted.results, "walk"))
    counted.edit(edit)
    assert counted.run().done == 6
    assert counted.times() == 6
    again = counted.records(read_plan(counted.results, "walk"))
    assert counted.curve(again["slow", 0])[column] == values
    assert {record.hash for record in again.values()}.isdisjoint(r.hash for r in first.values())
    for place, record in again.items():
        assert record.provenance["seconds"] == first[place].provenance["seconds"]
        assert (counted.results / "cells" / record.hash / "run" / "log.csv").exists()
    counted.edit()
    assert counted.run().found == 6, "set back, the first reading is there"


def test_what_cannot_be_read_is_read_under_another_name_and_not_run(counted, capsys) -> None:
    for wrong in ("retrun", "reward", "reward"):
        counted.edit(('metric = "return"', f'metric = "{wrong}"'))
        assert main(["run", "walk.toml", "--cluster", "debug", "--quiet"]) == 1
        said = capsys.readouterr().err
        assert (said.count("failed: "), said.count("reads them again")) == (6, 1)
    assert counted.times() == 6
    counted.edit()
    assert counted.run().done == 6
    assert counted.times() == 6


def test_what_cannot_be_read_twice_is_run_again(counted) -> None:
    broken = counted.path / "broken"
    text = (counted.path / "counting.sh").read_text()
    counted.write("counting.sh", f'{text}[ $3 = 12 ] && [ -e "{broken}" ] && rm $out/log.csv\n:\n')
    broken.touch()
    outcome = counted.run()
    assert (outcome.done, len(outcome.failed)) == (3, 3)
    broken.unlink()
    assert len(counted.run().failed) == 3
    assert counted.run().done == 6
    assert counted.times() == 9


def test_what_was_deleted_is_run_again_and_its_note_is_waste(counted) -> None:
    from ablations.engine.clean import delete, waste

    counted.run()
    for cell in (counted.results / "cells").iterdir():
        for path in (cell / "run").iterdir():
            path.unlink()
        (cell / "run").rmdir()
    counted.edit(('metric = "return"', 'metric = "loss"'))
    assert len([path for path in waste(counted.results) if path.parent.name == "ended"]) == 6
    delete(counted.results, waste(counted.results))
    assert counted.run().done == 6
    assert counted.times() == 12
