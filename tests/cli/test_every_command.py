"""Every command that reads, on every kind of study: it answers, or says in one line why it cannot.

`render` of what can be drawn needs JAX and is in tests/episode/test_render.py, `check` that trains
in tests/regression/test_check_command.py.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import each_kind
import forked
import pytest
from each_kind import Answer

FORMATS = ("latex", "csv", "html", "json")
NO_FACTORIAL = "is not a factorial"
NO_GAP = "does not explain a gap"
NO_POLICIES = "has no saved policies"

# command -> part of the line that refuses it, on kinds that REFUSED does not name; "": it answers
COMMANDS = {
    "table {name}": "",
    "table {argument} {flags} {plugin}": "",
    **{f"table {{name}} --format {format}": "" for format in FORMATS},
    "table {name} --kind comparison": "",
    "table {name} --kind diagnostics": "",
    "table {name} --kind effects": NO_FACTORIAL,
    "table {name} --kind efficiency": "",
    "table {name} --kind power": "",
    "table {name} --kind shares": NO_GAP,
    "table {name} --kind stability": "",
    "table {name} --score auc": "",
    "table {name} --metric nope": "unknown metric 'nope': known: ",
    "table {name} --tasks nope {plugin}": "unknown task",
    "table {name} --variants nope {plugin}": "unknown variant of '",
    "table {name} --output tables": "",
    "figure {name} --format svg": "",
    "figure {name} --metric nope": "unknown metric 'nope'",
    "report {name}": "",
    "status {name}": "",
    "status {name} --format json": "",
    "status {name} --profile nope {plugin}": "unknown profile of '",
    "export {name}": "",
    "export {name} --format parquet": "",
    "export {name} --format archive": "",
    "export {name} --metric nope": "unknown metric 'nope'",
    "check b --save {name}": "",
    "check b --records results": "",
    "check b --records results --format markdown": "",
    "show {name} {plugin}": "",
    "show {argument} {flags} {plugin}": "",
    "show {cell}": "",
    "render {name} {plugin}": NO_POLICIES,
    "run {argument} {flags} {plugin} --dry-run": "",
    "tune {name} --show {plugin}": "nothing was tuned for '",
    "status {name} --cancel": "",
    "clean {name}": "",
    "clean": "",
    "clean --yes": "",
}
SAVE = "check b --save {name}"
RENDER = "render {name} {plugin}"
POWER, EFFICIENCY = "table {name} --kind power", "table {name} --kind efficiency"
STABILITY = "table {name} --kind stability"
RUN, TUNE = "run {argument} {flags} {plugin} --dry-run", "tune {name} --show {plugin}"
NO_POWER = {POWER: "has no comparison with finished runs, or its metric has no margin"}
NO_STUDY = {RUN: "unknown study '", TUNE: "unknown study '"}
NO_VALUE = {
    **NO_POWER,
    **dict.fromkeys((EFFICIENCY, STABILITY), "has no finished run"),
}
NO_METRIC_KNOWN = {
    f"{command} --metric nope": "" for command in ("table {name}", "figure {name}", "export {name}")
}
NO_RECORD = {
    **NO_VALUE,
    **NO_METRIC_KNOWN,
    "show {cell}": "unknown study, variant, preset, setting, task or cell",
}
ALL_RUNS = "'mine' was imported: it has all of its runs and no selection of them"
IMPORTED = {
    "table {name} --tasks nope {plugin}": ALL_RUNS,
    "table {name} --variants nope {plugin}": ALL_RUNS,
    "status {name} --profile nope {plugin}": ALL_RUNS,
    **NO_STUDY,
    RENDER: "has no saved policies: it was imported",
}
TWO_TASKS = {RENDER: "ran on several tasks ("}
EXPLAINED = {
    **NO_STUDY,
    "table {name} --kind shares": "",
    "table {name} --variants nope {plugin}": "an explanation is of the two that it names",
}
FEW = {SAVE: "is too small"}
COMMAND = {
    RENDER: "has no saved policies: a command trained it",
    TUNE: "unknown study '",
}
OTHERWISE = (
    "table {name} --tasks nope {plugin}",
    "table {name} --variants nope {plugin}",
    "status {name} --profile nope {plugin}",
)
# kind -> command -> as in COMMANDS
REFUSED: dict[str, dict[str, str]] = {
    "on two tasks": TWO_TASKS,
    "preset": {
        **NO_POWER,
        TUNE: "unknown study 'cleanrl'",
    },
    "factorial": {
        "table {name} --kind effects": "",
    },
    "fraction": {
        **FEW,
        "table {name} --kind effects": "",
    },
    "language": {TUNE: ""},
    "explanation": EXPLAINED,
    "explanation of presets": {**EXPLAINED, **FEW, **NO_POWER},
    "failures": {SAVE: "failed: ValueError: no more"},
    "nothing but failures": {
        **NO_VALUE,
        **NO_METRIC_KNOWN,
        SAVE: "every seed of toy/line/up diverged",
    },
    "one seed": {**NO_POWER, **FEW},
    "one variant": {
        **NO_POWER,
    },
    "without the baseline": {
        **NO_POWER,
        RENDER: "unknown variant of 'toy' 'up': known: down",
    },
    "NaN": {**NO_POWER, SAVE: "every seed of toy/line/down diverged"},
    "nothing but NaN": {**NO_VALUE, SAVE: "has no final score"},
    "infinite": {**NO_POWER, SAVE: "a curve is infinite"},
    "constant": NO_POWER,
    "one point": NO_POWER,
    "no records": {
        **NO_RECORD,
        SAVE: "no runs of toy/line/up",
        RENDER: "has no record yet",
    },
    "some records": {
        **NO_POWER,
        SAVE: "missing (seed 0, ...)",
        RENDER: "has no record yet",
    },
    "no cells": {
        **NO_RECORD,
        SAVE: "the plan has no runs to store",
        RENDER: "its plan is empty",
    },
    "wide CSV": {**IMPORTED, **TWO_TASKS},
    "uneven CSV": {**IMPORTED, SAVE: "failed: ended early"},
    "CSV of one number": {**IMPORTED, **NO_POWER},
    "odd names": IMPORTED,
    **dict.fromkeys(("npz", "event files", "exported and imported"), IMPORTED),
    "archive of an import": {**IMPORTED, **TWO_TASKS},
    "command": {
        **NO_POWER,
        **COMMAND,
        **dict.fromkeys(OTHERWISE, "name its study file instead, which was 'walk.toml'"),
    },
    "gate": {
        **NO_POWER,
        **COMMAND,
        **dict.fromkeys(OTHERWISE, "and nothing defines it here"),
        RUN: "unknown study 'gate'",
    },
}

for one in (
    *("nothing but failures", "no records", "no cells", "uneven CSV", "CSV of one number", "npz"),
    *("odd names", "event files", "archive", "archive of an import", "command", "gate"),
):
    recorded_nothing = {
        "table {name} --kind diagnostics": "has no finished run that logged diagnostics"
    }
    REFUSED[one] = REFUSED.get(one, {}) | recorded_nothing

PROGRAM = f"""
import json, sys
sys.path[:0] = [{str(Path(each_kind.__file__).parent)!r}]
import each_kind
each_kind.main(*json.loads({{asked!r}}))
"""


def expected(kind: str) -> dict[str, str]:
    """command -> part of the line that refuses it."""
    commands = {**COMMANDS, **REFUSED.get(kind, {})}
    if commands[SAVE]:
        of_baseline = [one for one in commands if one.startswith("check b --r")]
        commands |= dict.fromkeys(of_baseline, "no baseline 'b' in")
    return commands


def ask(kind: str, commands: list[str], folder: Path) -> dict[str, Answer]:
    program = PROGRAM.format(asked=json.dumps([kind, commands]))
    done = forked.run(["python", "-c", program], folder, os.environ)
    assert not done.returncode, done.stderr
    told = [Answer(*one) for one in json.loads(done.stdout)]
    return dict(zip(commands, told, strict=True))


def fault(answer: Answer, refused: str) -> str:
    """What is wrong with an answer; "" where nothing is."""
    code, out, err = answer
    if code is None or "Traceback" in out + err:
        return f"a traceback: {err.strip().splitlines()[-1]}"
    if "Warning" in err:
        return f"a warning: {err.strip()}"
    if code == 2:
        if not re.fullmatch(r"ablations: [^\n]+\n", err):
            return f"not one line: {err!r}"
        if re.search(r"KeyError|IndexError|\{'|\w+\(", err):
            return f"words of Python: {err}"
        if not refused:
            return f"refused: {err.strip()}"
    if refused and refused not in err:
        return f"it does not say '{refused}', but {code}: {(err or out).strip()[:200]}"
    return "" if code in (0, 1, 2) else f"exit code {code}"


@pytest.mark.parametrize("kind", each_kind.EVERY)
def test_every_command(kind: str, tmp_path: Path) -> None:
    commands = expected(kind)
    found = ask(kind, list(commands), tmp_path)
    faults = {command: fault(found[command], refused) for command, refused in commands.items()}
    wrong = [f"{command}: {why}" for command, why in faults.items() if why]
    assert not wrong, f"{kind}:\n" + "\n".join(wrong)


HOSTILE = {
    "report": "",
    "status": "",
    "table toy mine --output tables": "",
    "export toy mine": "",
    "export toy --output folder": "cannot write 'folder': Is a directory",
    "export toy --format parquet --output file/runs": "cannot write 'file': File exists",
    "export toy --format archive --output file": "cannot write 'file': File exists",
    "table toy --output file": "cannot write 'file/toy.md': File exists",
    "figure toy --output file": "cannot make the folder 'file': File exists",
    "table toy --seeds 3": "give the --plugin that does, or no selection for its last run",
    "table mine --seeds 3": "'mine' was imported: it has all of its runs",
    "table mine --variants nope": "'mine' was imported: it has all of its runs",
    "table toy/up": "unknown study 'toy/up': did you mean",
    "show mine": "",
    "run mine": "unknown study 'mine'",
    "explain mine/ours mine/theirs": "unknown preset or variant 'mine/ours'",
    "import runs.csv --study toy": "study 'toy' was trained here: import under another name",
    "import folder --study new": "no TensorBoard event files or other logs in 'folder'",
}
TWO = """
from pathlib import Path
import os, shutil

each_kind.of_toy()
each_kind.wide_csv()
shutil.copy("r.csv", "runs.csv")
Path("file").touch()
Path("folder").mkdir()
each_kind.draw_once(rendered=False)
from ablations import studies
studies.definition._STUDIES.clear()  # as where no plugin is given
answers = [each_kind.answer(one.split()) for one in json.loads({asked!r})]
for plan in Path("results/plans/mine").glob("*.json"):
    plan.write_text("{{}}")
again = ("report", "import r.csv --study mine", "report")
answers += [each_kind.answer(one.split()) for one in again]
json.dump(answers, sys.stdout)
"""


def test_two_kinds_in_a_folder_and_what_does_not_fit(tmp_path: Path) -> None:
    head = PROGRAM.rpartition("each_kind.main")[0]
    program = (head + TWO).format(asked=json.dumps(list(HOSTILE)))
    done = forked.run(["python", "-c", program], tmp_path, os.environ)
    assert not done.returncode, done.stderr
    *found, damaged, _, mended = [Answer(*one) for one in json.loads(done.stdout)]
    faults = {
        command: why
        for (command, refused), answer in zip(HOSTILE.items(), found, strict=True)
        if (why := fault(answer, refused))
    }
    assert not faults
    assert not damaged.code
    assert "left out: the plan 'results/plans/mine/" in damaged.err
    assert not fault(mended, ""), "a damaged plan of imported runs is written by importing again"
