"""Study files: what is in a cell's hash, and what is refused, in a line, before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from ablations.engine.status import status
from ablations.engine.stored import planned
from ablations.errors import UserError

REFUSED = [
    ("{seed} ", "", "the command has no {seed}"),
    ("{folder} {seed}", "{seed}", "the command has no {folder}"),
    ('curve = "{folder}/log.csv"', 'curve = "log.csv"', "two runs would write one file"),
    ("{drift}", "{drfit}", "unknown placeholder of the command 'drift': did you mean 'drfit'?"),
    ('{drift}"', '{drift} | tee log"', "the command has '|', and no shell reads it"),
    ('{drift}"', '{drift} {steps}"', "set steps in [study]"),
    ("seeds = 3", "seeds = 0", "[study] seeds: expected a whole number >= 1"),
    ("seeds = 3", "sedes = 3", "[study] unknown key 'sedes': did you mean 'seeds'?"),
    ('name = "walk"', 'name = "gae"', "study 'gae' already exists"),
    ('metric = "return"\n', "", "metric is missing in [command]"),
    ('step = "step"', 'step = "step"\nresume = "--go-on"', "resume needs resume_if"),
    ('step = "step"', 'step = "step"\ndepends = ["lib"]', "depends names 'lib', which"),
    ("fast = {drift = 12}", "fast = {drift = 10}", "are identical"),
    ('{drift}"', 'x={drift}"\n#', "drift is a list, which needs an argument of its own"),
    ("seeds = 3", 'seeds = 3\ntasks = ["a", "b"]', "does not use {task}"),
]


@pytest.mark.parametrize(("old", "new", "says"), REFUSED, ids=[new for _, new, _ in REFUSED])
def test_bad_files_are_refused_in_a_line(folder, old: str, new: str, says: str) -> None:
    edits = [(old, new)]
    if "list" in says:
        edits.append(("{drift = 12}", "{drift = [1, 2]}"))
    folder.study(*edits)
    with pytest.raises(UserError) as error:
        folder.plans()
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert not folder.results.exists()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"set": {"drift": 1}}, "variants of 'walk' set it themselves"),
        ({"steps": 100}, "steps are set, and the command has no {steps}"),
        ({"set": {"evaluations": 2}}, "a command trains and evaluates by itself"),
        ({"tasks": "reacher"}, "unknown task of this command 'reacher'"),
        ({"base": "sb3"}, "preset 'sb3' is of the trainer 'ppo'"),
    ],
)
def test_flags_that_a_command_cannot_follow_are_refused(folder, flags: Any, says: str) -> None:
    with pytest.raises(UserError) as error:
        folder.plans(**flags)
    assert says in str(error.value)


def hashes(folder, **selection: Any) -> dict[tuple[str, int], str]:
    (one,) = folder.plans(**selection)
    return {(cell.variant, cell.seed): cell.hash for cell in one.cells}


def test_a_hash_covers_what_decides_and_nothing_else(folder) -> None:
    first = hashes(folder)
    assert len(set(first.values())) == 6
    same = [
        (("seeds = 3", "seeds = 3\nmargin = 0.1"),),
        (("drift helps", "another claim"),),
        (('step = "step"', 'step = "step"\ntimeout = "1h"'),),
        (('name = "walk"', 'name = "other"'),),
    ]
    for edits in same:
        folder.study(*edits)
        assert hashes(folder) == first, edits
    different = [
        (('{drift}"', '{drift} --new"'),),
        (('metric = "return"', 'metric = "return"\nbetter = "lower"'),),
        (('metric = "return"', 'metric = "return"\nenvironment = {X = "1"}'),),
        (("/log.csv", "/log2.csv"),),
    ]
    for edits in different:
        folder.study(*edits)
        assert not set(hashes(folder).values()) & set(first.values()), edits
    folder.study()
    assert hashes(folder) == first
    folder.write("walk.sh", (folder.path / "walk.sh").read_text() + "# edited\n")
    assert not set(hashes(folder).values()) & set(first.values()), "an edited script"


def test_a_setting_that_variants_share_is_part_of_the_hash(folder) -> None:
    folder.study(('{drift}"', '{drift} {lr}"\n'), ("[variants]", "[settings]\nlr = 1\n[variants]"))
    first = hashes(folder)
    assert hashes(folder, set={"lr": 1}) == first
    assert not set(hashes(folder, set={"lr": 2}).values()) & set(first.values())


def test_in_a_repository_all_of_it_counts_unless_depends_narrows_it(folder) -> None:
    folder.write("lib/part.py", "x = 1\n")
    folder.write("notes.md", "a\n")
    folder.write(".gitignore", "scratch.py\n")
    folder.commit()
    first = hashes(folder)
    folder.write("lib/part.py", "x = 2\n")
    assert hashes(folder) != first, "a tracked file, changed"
    folder.write("lib/part.py", "x = 1\n")
    assert hashes(folder) == first
    folder.write("lib/new.py", "x = 1\n")
    assert hashes(folder) != first, "a new file of Python"
    (folder.path / "lib" / "new.py").unlink()
    folder.write("scratch.py", "ignored\n")
    folder.write("output.txt", "what a command writes\n")
    assert hashes(folder) == first
    folder.run()
    assert hashes(folder) == first, "results are no code"

    folder.study(('step = "step"', 'step = "step"\ndepends = ["lib/"]'))
    narrow = hashes(folder)
    folder.write("notes.md", "b\n")
    assert hashes(folder) == narrow
    folder.write("lib/part.py", "x = 3\n")
    assert hashes(folder) != narrow
    folder.write("lib/part.py", "x = 1\n")
    folder.write("walk.sh", "# the file that the command names\n")
    assert hashes(folder) != narrow


def test_a_command_that_names_no_file_must_say_what_it_rests_on(folder) -> None:
    folder.study(("sh walk.sh {folder} {seed} {drift}", "echo {folder} {seed} {drift}"))
    with pytest.raises(UserError, match="names no local file"):
        folder.plans()
    folder.study(
        ("sh walk.sh {folder} {seed} {drift}", "echo {folder} {seed} {drift}"),
        ('step = "step"', 'step = "step"\ndepends = []'),
    )
    assert len(hashes(folder)) == 6


def test_a_study_file_is_known_to_its_request_alone(folder) -> None:
    """Two files may even have one name for their studies; neither joins those of the suite."""
    other = folder.study(("drift = 12", "drift = 13"), name="other.toml")
    first, second = folder.plans("walk.toml", other)
    assert [plan.variants["fast"].sets for plan in (first, second)] == [
        {"drift": 12},
        {"drift": 13},
    ]
    with pytest.raises(UserError, match="unknown study 'walk'"):
        folder.plans("walk")
    with pytest.raises(UserError, match=r"^'empty\.toml': missing key 'study'"):
        folder.plans(folder.study(name="empty.toml", text=""))


def test_a_named_file_whose_code_was_edited_shows_no_old_results(folder) -> None:
    folder.run()
    (named,) = planned(["walk.toml"], folder.results, {})
    assert {row["state"] for row in status([named], folder.results)[0]} == {"done"}
    folder.write("walk.sh", (folder.path / "walk.sh").read_text() + "# edited\n")
    (named,) = planned(["walk.toml"], folder.results, {})
    assert {row["state"] for row in status([named], folder.results)[0]} == {"missing"}
    (last,) = planned(["walk"], folder.results, {})
    assert {row["state"] for row in status([last], folder.results)[0]} == {"done"}


def test_vary_and_several_tasks(folder) -> None:
    folder.study(
        ('{drift}"', '{drift} {task}"'), ("seeds = 3", 'seeds = 2\ntasks = ["near", "far"]')
    )
    (one,) = folder.plans(vary={"drift": [1, 2, 3]}, tasks="far")
    assert list(one.variants) == ["drift=1", "drift=2", "drift=3"]
    assert {cell.task for cell in one.cells} == {"far"}
    assert len(one.cells) == 6
