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
LANGUAGE = {
    "openrlhf_reinforce_pp",
    "openrlhf_reinforce_pp_baseline",
    "trl_grpo",
    "trl_dr_grpo",
    "trl_rloo",
    "verl_grpo",
    "lite_ppo",
}
TASKS = {name: "arithmetic" if name in LANGUAGE else "fast" for name in LIBRARIES | LANGUAGE}
# What no library of language models has: it trains models that are there, at rates for their size.
OUR_OWN = {"learning_rate", "layers", "width", "heads", "mlp_width", "warm_start_steps"}


def test_every_library_is_there() -> None:
    assert presets().keys() >= LIBRARIES | LANGUAGE
    with pytest.raises(UserError, match="did you mean 'cleanrl'"):
        preset("clean_rl")


@pytest.mark.parametrize("name", sorted(TASKS))
def test_preset_is_a_composition(name: str) -> None:
    """Its settings exist and fit together, and it says where it read each."""
    one = preset(name)
    config = trainer(one.trainer).resolve(task(TASKS[name]), one.values())
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
    for name in sorted(TASKS):
        one = preset(name)
        definition = trainer(one.trainer)
        config = definition.resolve(task(TASKS[name]), one.values())
        names = [*config["choices"], *config["numbers"], *config["structure"]]
        silent = set(names) - one.values().keys()
        excused = OUR_OWN if name in LANGUAGE else {"old_value"}
        assert silent <= definition.inert(config, silent).keys() | excused, (name, silent)


def test_arguments_of_the_library_s_own() -> None:
    changed = preset("cleanrl").values(clip_coef=0.3, clip_vloss=False, target_kl=0.01)
    assert changed["clip_epsilon"] == 0.3
    assert changed["value_clip"] == "none"
    assert (changed["kl_stop"], changed["target_kl"]) == ("epoch", 0.01)
    assert preset("torchrl").values(clip_value=True)["old_value"] == "epoch"
    assert preset("rejax").values(max_grad_norm=0.5)["gradient_clip"] == "element_wise"
    sequences = preset("trl_grpo").values(importance_sampling_level="sequence", beta=0.04)
    assert (sequences["policy_loss"], sequences["kl_placement"]) == ("gspo", "loss_k3")
    assert preset("trl_grpo").values(loss_type="cispo", epsilon_high=5.0)["ratio_cap"] == 5.0
    assert preset("trl_dr_grpo").values()["policy_loss_reduction"] == "constant_length"
    assert preset("openrlhf_reinforce_pp").values()["num_minibatches"] == 8
    assert "prompt_epsilon" not in preset("verl_grpo").values(norm_adv_by_std_in_grpo=False)
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


def test_explain_two_presets_of_language_models() -> None:
    """At the task's own prompts, samples and steps per batch; training starts where the task's
    does."""
    from ablations.sweep import explanation

    asked = explanation.request("trl_grpo", "openrlhf_reinforce_pp", (), {"tasks": ("arithmetic",)})
    made = explanation.plan(asked)
    assert made.study["metric"] == "evaluation/greedy_accuracy"
    about = made.study["explanation"]
    assert {"prompt_advantage", "kl_placement", "learning_rate_schedule"} <= about["details"].keys()
    assert about["held"]["warm_start_steps"] > 0
