"""Bad input: one clear line with what would be right, exit code 2, nothing lost."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import forked
import pytest

from ablations.cli import app

# Of bytecode: where files may not grow, Python leaves half of one in the sources' folder.
NO_CACHE = {"PYTHONDONTWRITEBYTECODE": "1"}


CASES = [
    ("run gea", "unknown study 'gea': did you mean 'gae'?"),
    ("run gae --tasks reecher", "unknown task 'reecher': did you mean 'reacher'?"),
    ("run gae --set value_cliip=none", "unknown setting 'value_cliip': did you mean 'value_clip'?"),
    ("run gae --set discount=1.5", "discount=1.5 is out of range: it goes from 0 to 1"),
    ("run gae --set discount=NaN", "discount must be a finite number, a text"),
    ("run gae --set discount", "--set takes name=value, not 'discount'"),
    ("run gae --set discount=0.9 --set discount=1", "discount is given twice: 0.9 and 1"),
    ("run gae --set policy_layers=64", "policy_layers must be a list"),
    ("run gae --set advantage_timing=minibatch advantage_scope=batch", "minibatch"),
    ("run gae --seeds 0", "ranges such as 8-31 or 0-9,20-29, each once, not 0"),
    ("run gae --until deicded", "unknown end of --until 'deicded': did you mean 'decided'?"),
    ("run gae --until decided --seeds 8", "--until decided chooses the seeds itself"),
    ("run gae --until decided --most-seeds 7", "most seeds must be from 8 (the first stage)"),
    ("run gae --most-seeds 32", "--most-seeds is for --until decided"),
    ("run gae --minutes 120", "--minutes is for --until decided"),
    ("run gae --until decided --fresh", "cannot be combined with --fresh"),
    ("run gae --until decided --variants brax", "nothing is compared in 'gae' with these flags"),
    ("run gae --vary discount", "--vary takes name=value,value,..., not 'discount'"),
    ("run gae --vary steps=100,200", "steps cannot be varied"),
    ("run gae --vary discount=0.9,1 --set discount=0.9", "discount is both set and varied"),
    ("run gae --vary discount=0.9,1 --set advantage=brax", "the baseline of 'gae' sets it itself"),
    (
        "run gae --variants brax --vary advantage=brax,standard",
        "--vary advantage: variants of 'gae' set it themselves (brax)",
    ),
    ("run gae --vary dual_clip=1,2", "--vary dual_clip changes nothing in 'gae'"),
    ("table prompt_normalization --set critic=separate", "are identical on arithmetic"),
    ("run gae --seed 3", "unknown flag --seed: did you mean --seeds?"),
    ("run gae --steps 0", "steps must be at least 1, not 0"),
    ("run", "name a study"),
    ("show brx", "did you mean"),
    ("show value clipping", "one value too many: clipping"),
    ("gate --steps 10 -- python x.py", "unknown flag --steps"),
    ("list axes", "known: components, presets, runs, studies, tasks, trainers; axes are comp"),
    ("show fast --seeds 3", "--seeds is for studies: omit it to show 'fast'"),
    ("table nosuch", "unknown study 'nosuch': `ablations list studies` names them"),
    ("show gae/discount=0.8 --vary discount=0.9,1", "gae --vary has no variant"),
    ("table gae", "'gae' has not run in 'results' and has no archive there: start with"),
    ("run exam --base cleanrl --tasks arithmetic", "choose a control task"),
    ("table gae --format word", 'Invalid value "word" for --format. Choose from: "markdown"'),
    ("table toy.csv", "import it by `ablations import toy.csv --study NAME`"),
    ("status", "no study has run in 'results'"),
    (
        "validate fast --rates quick",
        "--rates takes numbers above 0, such as 3e-4,1e-3, not 'quick'",
    ),
    ("validate fast --rates 1e-3,0", "numbers above 0, such as 3e-4,1e-3, not '1e-3,0'"),
    ("gate --rate abc", "--rate: 'abc' is not a number, such as 0.05 or 5%"),
    ("import a.csv --study a --better lower", "unknown flag --better (see"),
    ("table gae --wide", "unknown flag --wide: did you mean --columns?"),
    ("status --watch", "unknown flag --watch (see"),
    ("render gae --output x.mp4", "--output 'x.mp4' must end in .html or .gif"),
    ("validate fast --steps 4096", "add --steps 15360"),
    ("validate fast --presets nosuch", "exam has no variant 'nosuch'"),
    ("run toy --results toy.py", "folder 'toy.py': Not a directory; give another --results"),
    ("run toy --results /proc/self/x", "folder '/proc/self/x': No such file or directory; give"),
    ("run toy --cluster local partition=gpu", "partition=gpu is for --cluster slurm"),
    # What a newcomer types
    ("runn gae", "unknown command 'runn': did you mean 'run'?"),
    ("run hopper", "'hopper' is a task: give it by --tasks hopper"),
    ("run CartPole-v1", "'CartPole-v1' is a task of Gymnasium, not a study"),
    ("run gae_lambda", "'gae_lambda' is a setting: `ablations sweep gae_lambda=A,B` compares"),
    ("run toy.py", "'toy.py' is not a study: study files are TOML"),
    ("run lr", "'lr' is a setting: `ablations sweep learning_rate=A,B` compares it"),
    ("run gae --tasks CarRacing-v3", "is not among the tasks (`ablations list tasks`)"),
    ("run gae --tasks HalfCheetah-v4", "is 'halfcheetah' here, with Brax's physics"),
    ("run gae --total-timesteps 1e6", "unknown flag --total-timesteps: did you mean --steps?"),
    ("run cleanrl --lr 3e-4", "unknown flag --lr: a setting is given by --set lr=VALUE"),
    ("run gae --steps 1m", "'1m' is not a whole number, such as 8, 50k or 1e6"),
    ("run gae --profile full", "gae has no profile 'full'; it has claims, evidence, paper"),
    ("sweep gae_lambda", "or a setting with its values"),
    ("sweep gae_lambda=0.95", "give two values or more, such as gae_lambda=a,b"),
    ("sweep cleanrl", "name two presets, such as cleanrl sb3"),
    ("sweep observation_norm=none,after", "did you mean 'observation_normalization'?"),
    ("sweep gae_lambda=1,0.9 --variants a", "--variants is for studies"),
    ("sweep gae_lambda=1,0.9 --vary epochs=1,2", "--vary is for studies"),
    ("sweep prompt_advantage=batch,none torso=shared,separate", "no trainer has"),
    ("run sweep.activation", "`ablations sweep activation=A,B`"),
    ("table gae --latex", "unknown flag --latex: did you mean --format latex?"),
    ("import /dev/null --study other", "'/dev/null' is neither a file nor a folder"),
    ("import toy.py --study gae", "'gae' is a study of this suite: choose another --study name"),
    ("run gae --plugin no_such_module", "cannot import the plugin 'no_such_module'"),
]

PROGRAM = f"""
import json, sys
sys.path[:0] = [{str(Path(__file__).parent)!r}]
from each_kind import answer
print(json.dumps([answer(words) for words in {{asked!r}}]))
"""


@pytest.fixture(scope="module")
def answers(shells) -> dict[str, list[Any]]:
    """All in one process."""
    shell = shells()
    asked = [[*arguments.split(), "--plugin", "toy"] for arguments, _ in CASES]
    command = ["python", "-c", PROGRAM.format(asked=asked)]
    done = forked.run(command, shell.folder, shell.environment)
    assert not done.returncode, done.stderr
    assert not (shell.results / "cells").exists(), "refused only after it began"
    said = json.loads(done.stdout)
    return {arguments: one for (arguments, _), one in zip(CASES, said, strict=True)}


@pytest.mark.parametrize(("arguments", "says"), CASES)
def test_refused_in_one_line(answers, arguments: str, says: str) -> None:
    code, _, errors = answers[arguments]
    assert code == 2
    assert says in errors
    assert errors.startswith("ablations: ")
    assert errors.count("\n") == 1, f"more than a line: {errors}"


LONG = ("--set", "points=2000", "steps=20000")
STATE = ("--variants", "up", "--seeds", "1", "--workers", "1", "--keep-policies", "0")
STATE += ("--set", "ballast=4000", "--checkpoint-steps", "20")


@pytest.mark.parametrize(
    ("limit", "flags"),
    [(3_000, LONG), (16_000, LONG), (14_000, STATE)],
    ids=["for_the_plan", "for_a_record", "for_a_checkpoint"],
)
def test_no_room_left_is_one_line_and_loses_nothing(shell, limit: int, flags) -> None:
    shell("run", "toy", "--seeds", "1")
    before = shell.curves()
    done = subprocess.run(
        ["prlimit", f"--fsize={limit}", *shell.command("run", "toy", *flags)],
        cwd=shell.folder,
        env=shell.environment | NO_CACHE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("ablations: cannot write to 'results'")
    assert done.stderr.endswith("make room or give another --results; what is done is safe\n")
    assert done.stderr.count("\n") == 1
    assert not list(shell.results.glob("work/*/checkpoints/.*"))
    assert before.items() <= shell.curves().items()
    shell("run", "toy", *(flags if flags == STATE else ()))
    assert len(shell.curves()) == (3 if flags == STATE else 8)


@pytest.mark.parametrize(
    ("words", "against", "command"),
    [
        (["--against", "--no-norm", "--", "a"], "--no-norm", ["a"]),
        (["--against", "--lr 3e-4", "--most-seeds", "5"], "--lr 3e-4", []),
        (["--against", "--steps 5"], "--steps 5", []),
        (["--against", "-x", "--", "--against", "--no-norm"], "-x", ["--against", "--no-norm"]),
        (["--against=--no-norm", "a"], "--no-norm", ["a"]),
        (["--most-seeds", "5", "--against", "x", "a"], "x", ["a"]),
    ],
)
def test_a_text_may_begin_with_a_dash(words: list[str], against: str, command: list[str]) -> None:
    _, bound, _ = app("gate").parse_args(words, exit_on_error=False, print_error=False)
    assert (bound.kwargs["against"], [*bound.args]) == (against, command)
