"""`ablations show SETTING`."""

from __future__ import annotations

import variants
from ablations import cli
from ablations.commands.describe import described
from ablations.trainers import every_setting, trainers


def test_every_setting_is_described(tmp_path) -> None:
    for name in sorted({*variants.axes(), *every_setting()}):
        text = "\n".join(described(name, tmp_path, {}))
        if name in variants.axes():
            for choice in variants.axis(name).values():
                assert f"\n{choice.name}: {choice.summary}" in text
                assert choice.source in text
                assert choice.formula.splitlines()[0].strip() in text
        else:
            assert any(f" of {trainer}: " in text for trainer in trainers())


def test_a_name_of_the_field_shows_our_setting_and_a_component_its_numbers(capsys) -> None:
    assert cli.main(["show", "gamma"]) == cli.main(["show", "policy_loss"]) == 0
    shown = capsys.readouterr().out
    assert "a hyperparameter of ppo: 0.97" in shown
    assert "ablations sweep discount=A,B" in shown
    assert "clip_epsilon_high=0.28 (0 to 10)" in shown
