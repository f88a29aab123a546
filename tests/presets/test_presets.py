"""Presets as one uses them: by name, against each other, and one of one's own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ablations.errors import UserError
from ablations.presets import definition, preset, presets
from ablations.tasks import task
from ablations.trainers import trainer

LIBRARIES = {"brax", "cleanrl", "sb3", "rsl_rl", "torchrl", "purejaxrl", "rejax"}


def test_every_library_is_there() -> None:
    assert presets().keys() >= LIBRARIES
    with pytest.raises(UserError, match="did you mean 'cleanrl'"):
        preset("clean_rl")


@pytest.mark.parametrize("name", sorted(LIBRARIES))
def test_preset_is_a_composition(name: str) -> None:
    """Its settings exist and fit together, and it says where it read each."""
    one = preset(name)
    config = trainer(one.trainer).resolve(task("fast"), one.values())
    read = {
        **{axis: choice["name"] for axis, choice in config["choices"].items()},
        **config["numbers"],
        **config["structure"],
    }
    for setting, (value, file) in one.read().items():
        assert "." in file, f"{setting} was read in no file"
        if setting in read:
            assert read[setting] == value
    assert one.in_words


def test_preset_says_all_that_it_reads() -> None:
    """No default of ours decides what a library does, but where there is nothing to decide."""
    for name in sorted(LIBRARIES):
        one = preset(name)
        definition = trainer(one.trainer)
        config = definition.resolve(task("fast"), one.values())
        names = [*config["choices"], *config["numbers"], *config["structure"]]
        silent = set(names) - one.values().keys()
        assert silent <= definition.inert(config, silent).keys() | {"old_value"}, (name, silent)


def test_arguments_of_the_library_s_own() -> None:
    changed = preset("cleanrl").values(clip_coef=0.3, clip_vloss=False, target_kl=0.01)
    assert changed["clip_epsilon"] == 0.3
    assert changed["value_clip"] == "none"
    assert (changed["kl_stop"], changed["target_kl"]) == ("epoch", 0.01)
    assert preset("torchrl").values(clip_value=True)["old_value"] == "epoch"
    assert preset("rejax").values(max_grad_norm=0.5)["gradient_clip"] == "element_wise"
    with pytest.raises(UserError, match="did you mean 'clip_coef'"):
        preset("cleanrl").values(clip_coeff=0.3)


def test_a_preset_of_one_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definition, "_REGISTERED", {})
    mine = definition.Preset(
        name="mine",
        library="a paper",
        arguments={"lr": 1e-3},
        settings=lambda a: {"learning_rate": (a["lr"], "paper.pdf")},
        in_words=(),
    )
    definition.register(mine)
    assert preset("mine").values(lr=0.1) == {"learning_rate": 0.1}
    with pytest.raises(UserError, match="registered twice"):
        definition.register(mine)


def test_presets_are_read_without_jax() -> None:
    script = (
        "import sys; from ablations.presets import presets; presets(); "
        "sys.exit('jax' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    from ablations.cli import main

    assert not main(["list", "presets", "--json"])
    listed = json.loads(capsys.readouterr().out)
    assert listed["cleanrl"]["settings"]["ddof"]["value"] == 1.0
    assert not main(["show", "cleanrl"])
    shown = capsys.readouterr().out
    assert "cleanrl/ppo_continuous_action.py" in shown
    assert not main(["show", "cleanrl", "--against", "brax"])
    differences = capsys.readouterr().out
    assert "max(error(V), error(V_clip))" in differences
    assert "minibatch_unit" in differences
    assert "    torso" not in differences
