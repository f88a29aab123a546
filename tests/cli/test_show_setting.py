"""`ablations show SETTING`."""

from __future__ import annotations

import shlex

import pytest

import variants
from ablations import cli
from ablations.commands.settings import setting_lines, setting_names
from ablations.presets import presets
from ablations.trainers import trainers


def test_every_setting_is_described() -> None:
    for name in setting_names():
        text = "\n".join(setting_lines(name))
        if name in variants.axes():
            for choice in variants.axis(name).values():
                assert f"\n{choice.name}: {choice.summary}" in text
                assert choice.source in text
                assert choice.formula.splitlines()[0].strip() in text
        else:
            assert any(f" of {trainer}: " in text for trainer in trainers())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("advantage", "--tasks fast"),
        ("q_target", "--tasks cartpole"),
        ("kl_coefficient", "--tasks addition"),
    ],
)
def test_the_command_that_tries_a_setting_runs(name, words, capsys) -> None:
    assert cli.main(["show", name]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    first, *command = shlex.split(last.removeprefix("try it: "))
    assert first == "ablations"
    assert words in last
    assert cli.main([*command, "--dry-run"]) == 0


@pytest.mark.parametrize(
    ("name", "preset"), [("value_clip", "cleanrl"), ("discount", "sb3"), ("torso", "rsl_rl")]
)
def test_who_has_which_value(name, preset) -> None:
    value = presets()[preset].values().get(name, "separate")
    lines = list(setting_lines(name))
    if name == "value_clip":
        lines = "\n".join(lines).partition(f"\n{value}: ")[2].partition("\n\n")[0].splitlines()
        assert any(preset in line for line in lines if "used by" in line)
    else:
        assert any(preset in line and line.split()[0] == f"{value}" for line in lines)


def test_a_name_of_the_field_shows_our_setting(capsys) -> None:
    assert cli.main(["show", "gamma"]) == 0
    assert "a number of ppo: 0.97" in capsys.readouterr().out
