"""Presets as one uses them: by name, against each other, and one of one's own."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from ablations.errors import UserError
from ablations.presets import Preset, definition, preset, presets
from ablations.tasks import Task, task
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
TASKS |= {"purejaxql": "cartpole", "purejaxql_minatar": "breakout", "rejax_pqn": "cartpole"}
# What no library of language models has: it trains models that are there, at rates for their size.
OUR_OWN = {"learning_rate", "layers", "width", "heads", "mlp_width", "warm_start_steps"}


def test_every_library_is_there() -> None:
    assert presets().keys() >= TASKS.keys()
    with pytest.raises(UserError, match="did you mean 'cleanrl'"):
        preset("clean_rl")


def on(name: str) -> tuple[Preset, Task]:
    """A preset and the task that it is tried on: `name`, or "name on task"."""
    name, _, where = name.partition(" on ")
    where_tried = task(where or TASKS[name])
    return preset(name).on(where_tried), where_tried


DISCRETE = [f"{name} on cartpole" for name in ("cleanrl", "purejaxrl", "rejax", "sb3")]
TRIED = [*sorted(TASKS), *DISCRETE, *(f"{name[:-8]}breakout" for name in DISCRETE)]


@pytest.mark.parametrize("name", TRIED)
def test_preset_is_a_composition(name: str) -> None:
    """Its settings exist and fit together, and it says where it read each."""
    one, where = on(name)
    config = trainer(one.trainer).resolve(where, one.values())
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
    for name in TRIED:
        one, where = on(name)
        definition = trainer(one.trainer)
        config = definition.resolve(where, one.values())
        names = [*config["choices"], *config["numbers"], *config["structure"]]
        silent = set(names) - one.values().keys()
        excused = OUR_OWN if name in LANGUAGE else {"old_value"}
        assert silent <= definition.inert(config, silent).keys() | excused, (name, silent)


@pytest.mark.parametrize("name", ["brax", "rsl_rl", "torchrl"])
def test_a_preset_for_vectors_alone_is_refused_on_whole_actions(name: str) -> None:
    says = f"preset '{name}' needs continuous actions, .* both are cleanrl, purejaxrl, rejax"
    with pytest.raises(UserError, match=says):
        preset(name).on(task("cartpole"))
    assert preset(name).on(task("fast")) is preset(name)


def test_arguments_of_the_library_s_own() -> None:
    changed = preset("cleanrl").values(clip_coef=0.3, clip_vloss=False, target_kl=0.01)
    assert changed["clip_epsilon"] == 0.3
    assert changed["value_clip"] == "none"
    assert (changed["kl_stop"], changed["target_kl"]) == ("epoch", 0.01)
    assert preset("torchrl").values(clip_value=True)["old_value"] == "epoch"
    off = preset("torchrl").values(normalize_observation=False)
    assert off["observation_normalization"] == "none"
    adaptive = {"normalize_observations": True, "learning_rate_schedule": "ADAPTIVE_KL"}
    assert preset("brax").values(**adaptive)["observation_normalization"] == "after"
    assert preset("brax").values(num_envs=512, policy_hidden_layer_sizes=(8,))["num_envs"] == 512
    assert preset("rsl_rl").values(std_type="log")["policy_std"] == "clamped_exp_parameter"
    assert preset("sb3").values(use_sde=True, sde_sample_freq=1)["policy_std"] == "gsde"
    fixed = preset("rsl_rl").values(desired_kl=None)
    assert fixed["learning_rate_schedule"] == "constant"
    assert preset("rejax").values(max_grad_norm=0.5)["gradient_clip"] == "element_wise"
    with pytest.raises(UserError, match="did you mean 'clip_coef'"):
        preset("cleanrl").values(clip_coeff=0.3)


@pytest.mark.parametrize(
    ("name", "arguments", "settings"),
    [
        (
            "trl_grpo",
            {"importance_sampling_level": "sequence", "beta": 0.04, "use_bias_correction_kl": 0},
            {"policy_loss": "gspo", "kl_placement": "loss_k3"},
        ),
        ("trl_grpo", {"beta": 0.04}, {"kl_placement": "loss_k3_corrected", "kl_clip": 1e30}),
        ("trl_grpo", {"loss_type": "cispo", "epsilon_high": 5.0}, {"ratio_cap": 5.0}),
        (
            "trl_grpo",
            {"loss_type": "luspo", "importance_sampling_level": "sequence"},
            {"policy_loss": "gspo", "policy_loss_reduction": "sequence_sum"},
        ),
        ("trl_grpo", {"delta": 1.5}, {"policy_loss": "dual_clip_higher", "dual_clip": 1.5}),
        (
            "trl_grpo",
            {"gradient_accumulation_steps": 2, "steps_per_generation": 8, "num_iterations": 3},
            {"prompts": 8, "num_minibatches": 4, "epochs": 3, "minibatch_order": "reused"},
        ),
        (
            "trl_rloo",
            {},
            {"policy_loss": "clip_sequence", "policy_loss_reduction": "sequence_mean"},
        ),
        ("verl_grpo", {}, {"log_ratio_clip": 20.0, "kl_clip": 10.0, "minibatch_order": "kept"}),
        ("verl_grpo", {"clip_ratio": 0.5, "clip_ratio_high": None}, {"clip_epsilon_high": 0.5}),
        ("verl_grpo", {"kl_loss_type": "mse"}, {"kl_placement": "loss_k2", "kl_clip": 1e30}),
        ("openrlhf_reinforce_pp", {}, {"num_minibatches": 8, "completion_unit": "samples"}),
        (
            "openrlhf_reinforce_pp_baseline",
            {"algo.kl.estimator": "k1"},
            {"kl_placement": "loss_k1"},
        ),
        ("openrlhf_reinforce_pp", {"actor.eps_clip_low_high": (0.2, 0.3)}, {"clip_epsilon": 0.2}),
        (
            "openrlhf_reinforce_pp",
            {"actor.dual_clip": 4.0},
            {"policy_loss": "dual_clip", "dual_clip": 4.0},
        ),
        (
            "lite_ppo",
            {"whiten_advantages": False, "loss_agg_mode": "token-mean"},
            {
                "prompt_advantage": "per_prompt_mean_batch_std",
                "policy_loss_reduction": "token_mean",
            },
        ),
    ],
)
def test_arguments_of_language_libraries(
    name: str, arguments: dict[str, Any], settings: dict[str, Any]
) -> None:
    """What they become is a composition."""
    found = preset(name).values(**arguments)
    assert {key: found[key] for key in settings} == settings
    trainer("language").resolve(task("arithmetic"), {"samples_per_prompt": 2, **found})


# Of a library's arguments, values that no setting expresses, and what is said of them.
REFUSED = [
    ("brax", {"num_envs": 256}, "unrolled several times.*512, batch_size"),
    ("brax", {"bootstrap_on_timeout": True}, "before reward_scaling.*leave it at False"),
    ("rejax", {"normalize_rewards": True, "gamma": 0.9}, "set it to gamma, or normalize_rewards"),
    ("rejax_pqn", {"normalize_observations": True}, "not normalised.*leave it at False"),
    ("purejaxql", {"NORM_INPUT": True}, "a batch norm of observations.*leave it at False"),
    ("purejaxql_minatar", {"HIDDEN_SIZE": 64}, "argument of preset 'purejaxql_minatar'"),
    ("rsl_rl", {"distribution": "BetaDistribution"}, "leave it at GaussianDistribution"),
    ("sb3", {"learning_rate": lambda left: 3e-4 * left}, "learning_rate as a schedule.*a number"),
    ("sb3", {"batch_size": 60}, "smaller last minibatch of 2048.*choose a divisor"),
    ("sb3", {"norm_reward": True, "gamma": 0.9}, "own gamma, 0.99, beside gamma=0.9"),
    ("sb3", {"use_sde": True}, "gSDE.*set sde_sample_freq=1"),
    ("torchrl", {"mini_batch_size": 60}, "does not divide a batch of 2048"),
    ("torchrl", {"anneal_clip_epsilon": True}, "falls with the learning rate.*leave it at False"),
    ("trl_grpo", {"delta": 1.1}, r"delta=1.1 .* 1 \+ 0.2 or more"),
    ("trl_grpo", {"gradient_accumulation_steps": 4, "steps_per_generation": 2}, "divide"),
    ("trl_grpo", {"generation_batch_size": 8, "steps_per_generation": 1}, "give one"),
    ("trl_grpo", {"loss_type": "bnpo", "gradient_accumulation_steps": 2}, "use 1, or dapo"),
    ("trl_grpo", {"entropy_coef": 0.1}, "entropy_coef=0.1 .* leave it at 0.0"),
    ("trl_grpo", {"beta": 0.1, "importance_sampling_level": "sequence"}, "correction_kl=False"),
    (
        "trl_grpo",
        {"loss_type": "cispo", "importance_sampling_level": "sequence"},
        "use token, or dapo",
    ),
    ("verl_grpo", {"ppo_mini_batch_size": 300}, "1024 in steps of 300"),
    ("openrlhf_reinforce_pp", {"reward.clip_range": (0, 1)}, "a range around 0"),
    (
        "openrlhf_reinforce_pp_baseline",
        {"actor.policy_loss_type": "gspo"},
        "actor.policy_loss_type=ppo",
    ),
    ("openrlhf_reinforce_pp", {"eps_clip": 0.3}, "did you mean 'actor.eps_clip'"),
    # of another type, or 0 where something is divided by it
    (
        "torchrl",
        {"mini_batch_size": 0},
        "invalid mini_batch_size=0 of preset 'torchrl': the library's defaults are",
    ),
    ("sb3", {"use_sde": "yes"}, "use_sde='yes' of preset 'sb3': expected true or false"),
]


@pytest.mark.parametrize(
    ("name", "arguments", "says"), REFUSED, ids=lambda x: x if isinstance(x, str) else "-".join(x)
)
def test_arguments_without_a_setting_are_refused(name: str, arguments: dict, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        preset(name).values(**arguments)
    assert "\n" not in str(error.value)


def test_what_no_setting_expresses_is_said_of_each_preset() -> None:
    for name in ("brax", "rsl_rl", "sb3", "torchrl"):
        module = importlib.import_module(f"ablations.presets.{name}")
        for argument in module.UNEXPRESSED:
            assert argument in " ".join(module.PRESET.in_words)
            usual = module.PRESET.arguments[argument]
            other = not usual if isinstance(usual, bool) else "other"
            with pytest.raises(UserError, match=f"{argument}={other}"):
                module.PRESET.values(**{argument: other})


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
    assert preset("mine").on(task("cartpole")) is mine  # which says nothing of vectors
    with pytest.raises(UserError, match="registered twice"):
        definition.register(mine)


def test_explain_two_presets_of_language_models() -> None:
    """At the task's own prompts, samples and steps per batch; training starts where the task's
    does."""
    from ablations.engine import explanation

    asked = explanation.request("trl_grpo", "openrlhf_reinforce_pp", (), {"tasks": ("arithmetic",)})
    made = explanation.plan(asked)
    assert made.study.metric == "evaluation/greedy_accuracy"
    about = made.study.explanation
    assert {"prompt_advantage", "kl_placement", "learning_rate_schedule"} <= about.details.keys()
    assert about.held["warm_start_steps"] > 0
