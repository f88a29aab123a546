"""A study whose command prints one outcome, 0 or 1: from the file to the table."""

from __future__ import annotations

import json
import sys

from scipy import stats

from ablations.cli import main

STUDY = f"""\
[study]
name = "grasp"
claim = "a wider grip holds more often"
baseline = "narrow"
seeds = 12
margin_in_metric = 0.05

[command]
run = "{sys.executable} -S -E grasp.py {{seed}} {{grip}}"
curve = "stdout"
metric = "success"

[variants]
narrow = {{grip = 3}}
wide = {{grip = 12}}
"""
SCRIPT = 'import sys\nprint("success:", int(int(sys.argv[1]) < int(sys.argv[2])))\n'


def test_outcomes_of_a_command_are_compared_exactly(folder, capsys) -> None:
    folder.write("grasp.py", SCRIPT)
    folder.study(name="grasp.toml", text=STUDY)
    assert folder.run("grasp.toml").failed == []
    capsys.readouterr()
    assert main(["table", "grasp.toml", "--format", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    rows = {row["variant"]: row for row in made["rows"]}
    for variant, successes in (("narrow", 3), ("wide", 12)):
        of = stats.binomtest(successes, 12).proportion_ci(0.95, "exact")
        assert abs(rows[variant]["mean_low"] - of.low) < 1e-9
        assert abs(rows[variant]["mean_high"] - of.high) < 1e-9
    wide = rows["wide"]
    assert (wide["difference"], wide["p"]) == (0.75, 2 * 0.5**9)
    assert wide["verdict"] == "better"
    assert 0.05 < wide["difference_low"] < 0.75 < wide["difference_high"] < 1
    assert "Success rates on task have exact intervals" in made["caption"]
