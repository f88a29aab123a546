"""Every command that reads, on every kind of study: it answers, or says in one line why it cannot.

`render` of what can be drawn needs JAX and is in tests/episode/test_render.py, `check` that trains
in tests/regression/test_check_command.py.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import each_kind
import forked
import pytest
from each_kind import Answer

POWER, EFFICIENCY, STABILITY, DIAGNOSTICS, EFFECTS, SHARES = (
    f"table {{name}} --kind {kind}"
    for kind in ("power", "efficiency", "stability", "diagnostics", "effects", "shares")
)
NO_METRIC = {f"{command} {{name}} --metric nope" for command in ("table", "figure", "export")}
CELL, SAVE = "show {cell}", "check b --save {name}"
CHECKS = {f"check b --records results{flag}" for flag in ("", " --format markdown")}
SHOW = "show {argument} {flags} {plugin}"
RENDER, TUNE = "render {name} {plugin}", "tune {name} --show {plugin}"
RUN = "run {argument} {flags} {plugin} --dry-run"
# What reads the numbers of runs
NUMBERS = (
    *(POWER, EFFICIENCY, STABILITY, DIAGNOSTICS, "table {name} --format json", "figure {name}"),
    *("table {name} --score auc", "report {name}", "export {name}", SAVE, *sorted(CHECKS), CELL),
)
# What reads a study, or its runs by flags
SELECTIONS = (
    *(EFFECTS, SHARES, RENDER, RUN, TUNE, "table {argument} {flags} {plugin}"),
    *(SHOW, "export {name} --format archive", "status {name}"),
)
OTHERS = (
    *("table {name}", "table {name} --format latex", "table {name} --format html"),
    *("table {name} --tasks nope {plugin}", "table {name} --variants nope {plugin}"),
    *("status {name} --format json", "status {name} --profile nope {plugin}", *sorted(NO_METRIC)),
    *("table {name} --output tables", "show {name} {plugin}", "status {name} --cancel"),
    *("clean {name}", "clean --yes"),
)
COMMANDS = (*NUMBERS, *SELECTIONS, *OTHERS)
REFUSED = {EFFECTS, SHARES, *NO_METRIC, RENDER, TUNE} | {x for x in COMMANDS if " nope " in x}
NO_VALUE = {POWER, EFFICIENCY, STABILITY, SAVE}
# kind -> of what commands it is otherwise than REFUSED says
OTHERWISE: dict[str, set[str]] = {
    "on two tasks": set(),
    "until decided": set(),
    "preset": {POWER, SHOW},
    "factorial": {EFFECTS},
    "fraction": {EFFECTS, SAVE},
    "language": {TUNE},
    "explanation": {SHARES, RUN},
    "failures": {SAVE},
    "nothing but failures": {*NO_VALUE, *NO_METRIC, DIAGNOSTICS},
    "one seed": {POWER, SAVE},
    "without the baseline": {POWER},
    "NaN": {POWER, SAVE},
    "nothing but NaN": NO_VALUE,
    "infinite": {POWER, SAVE},
    "constant": {POWER},
    "one point": {POWER},
    "some records": {POWER, SAVE},
    "no records": {*NO_VALUE, *NO_METRIC, CELL, DIAGNOSTICS},
    "no cells": {*NO_VALUE, *NO_METRIC, CELL, DIAGNOSTICS},
    "uneven CSV": {RUN, SAVE, DIAGNOSTICS},
    "odd names": {RUN, DIAGNOSTICS},
    "archive of an import": {RUN, DIAGNOSTICS},
    "command": {POWER, DIAGNOSTICS},
    "gate": {POWER, RUN, DIAGNOSTICS},
}

PROGRAM = f"""
import json, sys
sys.path[:0] = [{str(Path(each_kind.__file__).parent)!r}]
import each_kind
each_kind.main(*json.loads({{asked!r}}))
"""


def ask(kind: str, commands: Sequence[str], folder: Path) -> list[Answer]:
    program = PROGRAM.format(asked=json.dumps([kind, commands]))
    done = forked.run(["python", "-c", program], folder, os.environ)
    assert not done.returncode, done.stderr
    return [Answer(*answer) for answer in json.loads(done.stdout)]


def fault(answer: Answer, refused: bool | str) -> str:
    """What is wrong with an answer; "" where nothing is. refused: whether, or part of the line."""
    code, out, err = answer
    if code is None or "Traceback" in out + err:
        return f"a traceback: {err.strip().splitlines()[-1]}"
    if "Warning" in err:
        return f"a warning: {err.strip()}"
    if code not in (0, 1, 2) or (code == 2) != bool(refused):
        return f"exit code {code}: {(err or out).strip()[:200]}"
    if code == 2:
        if not re.fullmatch(r"ablations: [^\n]+\n", err):
            return f"not one line: {err!r}"
        if re.search(r"KeyError|IndexError|\{'|\w+\(", err):
            return f"words of Python: {err}"
    return (
        "" if refused is True or (refused or "") in err else f"it does not say '{refused}': {err}"
    )


@pytest.mark.parametrize("kind", each_kind.EVERY)
def test_every_command(kind: str, tmp_path: Path, run_all: bool) -> None:
    numbers, selections = kind in each_kind.NUMBERS, kind in each_kind.SELECTIONS
    short = (*NUMBERS, *(() if numbers else SELECTIONS))
    commands = short if (numbers or selections) and not run_all else COMMANDS
    refused = REFUSED ^ OTHERWISE[kind]
    if SAVE in refused:
        refused |= CHECKS
    answers = zip(commands, ask(kind, commands, tmp_path), strict=True)
    faults = {command: fault(answer, command in refused) for command, answer in answers}
    assert {command: why for command, why in faults.items() if why} == {}


HOSTILE = {
    "table toy mine --output tables": "",
    "export toy mine": "",
    "export toy --output folder": "cannot use 'folder': Is a directory",
    "export toy --format archive --output file": "cannot use 'file': File exists",
    "table toy --output file": "cannot use 'file': File exists",
    "figure toy --kind curves --output file": "cannot use 'file': File exists",
    "table toy --seeds 3": "name the --plugin that defines",
    "table mine --seeds 3": "'mine' is not defined here, and has not run",
    "explain mine/ours mine/theirs": "unknown preset or variant 'mine/ours'",
    "import runs.csv --study toy": "study 'toy' was trained here: import under another name",
    "import folder --study new": "no TensorBoard event files or other logs in 'folder'",
}
TWO = """
from pathlib import Path
import shutil

each_kind.of_toy()
each_kind.wide_csv()
shutil.copy("r.csv", "runs.csv")
Path("file").touch()
Path("folder").mkdir()
each_kind.draw_once(rendered=False)
from ablations import studies
studies.definition._STUDIES.clear()  # as where no plugin is given
answers = [each_kind.answer(words.split()) for words in json.loads({asked!r})]
for plan in Path("results/plans/mine").glob("*.json"):
    plan.write_text("{{}}")
again = ("status", "import r.csv --study mine", "status")
answers += [each_kind.answer(words.split()) for words in again]
json.dump(answers, sys.stdout)
"""


def test_two_kinds_in_a_folder_and_what_does_not_fit(tmp_path: Path) -> None:
    program = PROGRAM.rpartition("each_kind.main")[0] + TWO
    done = forked.run(
        ["python", "-c", program.format(asked=json.dumps([*HOSTILE]))], tmp_path, os.environ
    )
    assert not done.returncode, done.stderr
    *found, damaged, _, mended = [Answer(*answer) for answer in json.loads(done.stdout)]
    faults = map(fault, found, HOSTILE.values())
    assert {command: why for command, why in zip(HOSTILE, faults, strict=True) if why} == {}
    assert not damaged.code
    assert "left out: the plan 'results/plans/mine/" in damaged.err
    assert not fault(mended, ""), "a damaged plan of imported runs is written by importing again"
