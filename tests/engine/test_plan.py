"""From flags to cells: schedules, hashes, what shares a program and what does not."""

from __future__ import annotations

import dataclasses
import itertools
import math
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablations import make_trainer, presets, studies, tasks, trainers
from ablations.cli import app
from ablations.core.record import Configuration
from ablations.engine.backends.compiled import BACKEND
from ablations.engine.job import Cell, cells_of
from ablations.engine.plan import plan
from ablations.errors import UserError
from ablations.records import Plan, digest
from ablations.request import Request
from ablations.runs import Runs
from ablations.studies import Variant, crossed
from ablations.tables import table_of
from ablations.tasks import task


def cells(study: str = "gae", **flags) -> tuple[Cell, ...]:
    return cells_of(plan(Request(study, "smoke", **flags)))


@settings(deadline=None)  # the first example imports JAX
@given(steps=st.integers(1, 3_000_000), points=st.integers(1, 60), evaluations=st.integers(0, 80))
def test_a_run_has_at_least_its_steps_and_less_than_a_chunk_more(
    steps, points, evaluations
) -> None:
    sets = {"points": points, "evaluations": evaluations}
    cell = cells(seeds=1, variants=("brax",), steps=steps, set=sets)[0]
    assert steps <= cell.steps < steps + cell.step_at(1)
    assert cell.step_at(cell.points) == cell.steps
    assert len(cell.measured) == min(evaluations, cell.points)
    assert cell.measured <= set(range(1, cell.points + 1))
    if evaluations:
        assert cell.points in cell.measured
        evaluated = sorted(cell.measured)
        gaps = {b - a for a, b in itertools.pairwise(evaluated)}
        assert not gaps or max(gaps) - min(gaps) <= 1


def test_a_variant_may_multiply_the_learning_rate_of_each_task() -> None:
    made = plan(Request("many_details_validated", "evidence", seeds=1))
    rates = {(cell.task, cell.config["numbers"]["learning_rate"]) for cell in made.cells}
    assert rates == {
        ("cartpole", 1e-3),
        ("cartpole", 1e-3 / 3),
        ("acrobot", 3e-4),
        ("acrobot", 3e-4 / 3),
    }


def test_a_multiple_of_what_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Variant({"torso": "x1/3"})
    study = dataclasses.replace(studies.study("gae"), variants={"a": Variant({}), "b": shared})
    monkeypatch.setitem(
        studies.definition._STUDIES, "gae", dataclasses.replace(study, baseline="a")
    )
    with pytest.raises(UserError, match="multiplies the task's own torso"):
        plan(Request("gae", "smoke", variants=("a", "b")))


def test_the_layers_of_a_configuration() -> None:
    """Trainer < task < profile < --set; a variant's own settings cannot be overridden."""
    config = cells(seeds=1)[0].config
    reacher = plan(Request("gae", "claims", tasks=("reacher",), seeds=1)).cells[0].config
    known = trainers.trainer("ppo").known_numbers()
    assert config["numbers"]["gae_lambda"] == known["gae_lambda"].default
    own = task("reacher").hyperparameters["ppo"]
    assert reacher["numbers"]["discount"] == own["discount"]
    assert reacher["task"]["settings"]["episode_length"] == 50
    changed = plan(
        Request("gae", "claims", tasks=("reacher",), seeds=1, set={"episode_length": 70})
    )
    assert changed.cells[0].config["task"]["settings"]["episode_length"] == 70


def test_what_a_profile_puts_in_place_of_a_tasks_own_is_beneath_a_librarys() -> None:
    def first(study: str, **flags: Any) -> Configuration:
        return (
            plan(Request(study, "quick", tasks=("halfcheetah",), seeds=1, **flags)).cells[0].config
        )

    assert task("halfcheetah").hyperparameters["ppo"]["discount"] == 0.97
    assert first("gae")["numbers"]["discount"] == 0.99
    assert first("gae")["structure"]["num_minibatches"] == 16
    assert first("gae", set={"discount": 0.9})["numbers"]["discount"] == 0.9
    library = first("gae", base="brax")
    assert library["numbers"]["discount"] == presets.preset("brax").values()["discount"] == 0.9
    assert first("brax")["numbers"]["discount"] == 0.9
    assert "discount" not in first("trivial_policies").get("numbers", {})


def test_all_variants_and_seeds_of_a_structure_share_a_program() -> None:
    assert len({cell.program for cell in cells()}) == 1
    both = [*cells(), *cells(set={"learning_rate": 0.1})]
    assert len({cell.program for cell in both}) == 1
    assert len({cell.program for cell in cells("value_coefficient")}) == 2, "separate and shared"


@pytest.mark.parametrize(
    ("axis", "choice"),
    [("advantage_timing", "epoch"), ("value_clip", "replace"), ("advantage", "done_cut")],
)
def test_a_program_switches_over_what_its_plan_varies(axis: str, choice: str) -> None:
    """Seeds and numbers are data in any case."""
    config = cells()[0].config
    changed = config | {"choices": {**config["choices"], axis: {"name": choice, "revision": 1}}}
    assert BACKEND.program(config, ()) != BACKEND.program(changed, ())
    for varied in (None, (axis,)):
        assert BACKEND.program(config, varied) == BACKEND.program(changed, varied)
    number = config | {"seed": 9, "numbers": {**config["numbers"], "learning_rate": 0.1}}
    assert BACKEND.program(config, ()) == BACKEND.program(number, ())


def test_two_studies_share_the_cell_of_their_common_variant() -> None:
    gae = {cell.hash for cell in cells("gae") if cell.variant == "standard"}
    other = {c.hash for c in cells("value_coefficient") if c.variant == "separate_0.25"}
    assert gae == other


@pytest.mark.parametrize("study", ["gae", "value_clipping", "single_choices", "what_matters"])
def test_a_profile_that_scores_evaluations_judges_them(study: str) -> None:
    """As docs/evidence.md says, and not the return of training, which is the study's metric."""
    assert plan(Request(study, "evidence", seeds=1)).study.metric == "evaluation/return"
    assert plan(Request("gae", "claims", seeds=1)).study.metric == "training/return"


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"profile": "paper", "tasks": ("fast", "reacher"), "seeds": 3, "steps": 4096},
        {
            "seeds": "4-6",
            "variants": ("standard",),
            "set": {"policy_layers": [8, 8], "torso": "shared"},
        },
        {"vary": {"gae_lambda": [0.5, 1.0], "policy_layers": [[8], [8, 8]]}, "geometry": "own"},
        {"until": "decided", "most_seeds": 12, "base": "brax"},
        {"seeds": "0-2,5-5,9-10"},
    ],
)
def test_the_command_of_a_request_asks_for_it(asked: dict) -> None:
    request = Request("gae", **asked)
    words = shlex.split(request.command())
    assert words[:3] == ["ablations", "run", "gae"]
    _, bound, _ = app("run").parse_args(words[2:], exit_on_error=False, print_error=False)
    assert Request("gae", **bound.kwargs) == request


def test_crossing_compares_at_the_same_levels() -> None:
    grid = crossed({"a": Variant({"x": 1}), "b": Variant({"x": 2})}, "a", y=(1, 2), z=("u",))
    assert list(grid) == ["a@y=1,z=u", "b@y=1,z=u", "a@y=2,z=u", "b@y=2,z=u"]
    assert grid["b@y=2,z=u"].sets == {"x": 2, "y": 2, "z": "u"}
    assert grid["b@y=2,z=u"].versus == "a@y=2,z=u"


def test_a_table_of_a_variant_and_itself_is_refused_but_a_grid_may_have_one() -> None:
    study = studies.study("gae")
    same = {"standard": Variant({}), "again": Variant({})}
    twice = dataclasses.replace(study, variants=same)
    with pytest.raises(UserError, match=r"'again' and 'standard'.* nothing to compare") as refused:
        cells(variants=tuple(same), brought=(twice,))
    assert "\n" not in str(refused.value)
    grid = crossed(same, "standard", discount=(0.9, 0.95))
    baseline = "standard@discount=0.9"
    crossed_ = dataclasses.replace(study, variants=grid, baseline=baseline)
    planned = plan(Request("gae", "smoke", seeds=1, variants=tuple(grid), brought=(crossed_,)))
    assert len({cell.hash for cell in cells_of(planned)}) == 2
    assert planned.variants["again@discount=0.95"].same_as == "standard@discount=0.95"
    assert planned.variants[baseline].same_as == baseline


def test_what_nothing_reads_is_refused() -> None:
    """No variant of this study clips its values."""
    assert "value_clip_range" not in cells(seeds=1)[0].config["numbers"]
    with pytest.raises(UserError, match="--set value_clip_range changes nothing in 'gae'"):
        cells(seeds=1, set={"value_clip_range": 0.1})
    assert cells(seeds=1, set={"value_clip": "replace", "value_clip_range": 0.1})


def test_what_is_read_and_cannot_act_is_refused_where_it_is_set() -> None:
    """With one gradient step per iteration the policy ratio is 1."""
    one_step = {"num_minibatches": 1, "epochs": 1}
    assert cells(seeds=1, set=one_step), "never about a default"
    with pytest.raises(UserError, match="--set policy_loss changes nothing in 'gae'"):
        cells(seeds=1, set={**one_step, "policy_loss": "none"})
    with pytest.raises(UserError, match="value_clip, which variants set, changes nothing"):
        cells("value_clipping", seeds=1, set=one_step)


# A library's settings under a study, and a preset as a study of its own


def planned(study: str, **flags: Any) -> Plan:
    return plan(Request(study, "smoke", **{"seeds": 1, **flags}))


def config(made: Plan, variant: str) -> dict[str, Any]:
    return next(cell.config for cell in made.cells if cell.variant == variant)


def flat(config: dict[str, Any]) -> dict[str, Any]:
    choices = {axis: one["name"] for axis, one in config["choices"].items()}
    return {**choices, **config["numbers"], **config["structure"]}


PPO = {name for name, one in presets.presets().items() if one.trainer == "ppo"}
TASKS = {"ppo": "fast", "pqn": "cartpole", "language": "arithmetic"}


@pytest.mark.parametrize("name", sorted(presets.presets()))
def test_a_preset_is_a_study_of_one_variant(name: str) -> None:
    """As the trainer of that preset has it; the sizes of language models are the profile's."""
    one = presets.preset(name)
    where, values = TASKS[one.trainer], one.values()
    made = planned(name, tasks=(where,) if one.trainer == "language" else None)
    assert list(made.variants) == [name] == [made.study.baseline]
    assert list(made.tasks) == [where]
    alone = trainers.trainer(one.trainer).resolve(tasks.task(where), values)
    found = config(made, name)
    assert [found[part] for part in ("choices", "numbers")] == [alone["choices"], alone["numbers"]]
    own = values.keys() if one.trainer == "language" else alone["structure"].keys()
    options = [{n: x for n, x in of["structure"].items() if n in own} for of in (found, alone)]
    assert options[0] == options[1]
    if one.trainer == "ppo":
        assert make_trainer("fast", preset=name)[0].steps_per_chunk == math.prod(
            alone["structure"][size] for size in ("num_envs", "unroll_length")
        )


def test_a_base_lies_under_the_study_and_a_flag_over_it() -> None:
    """Preset < study < --set < variant."""
    plain, based = planned("gae"), planned("gae", base="cleanrl", set={"num_envs": 4})
    library = presets.preset("cleanrl").values()
    for variant in ("standard", "brax"):
        of = flat(config(based, variant))
        assert of["advantage"] == variant, "a variant's own"
        assert of["num_envs"] == 4, "a flag's"
        own = {n: v for n, v in library.items() if n in of and n not in ("advantage", "num_envs")}
        assert {name: of[name] for name in own} == own
        assert "return_std" in of["reward_scaling"]
        assert flat(config(plain, variant))["reward_scaling"] == "constant"
    hashes = [{cell.hash for cell in made.cells} for made in (plain, based)]
    assert hashes[0].isdisjoint(hashes[1])
    assert plain.name != based.name


def test_a_base_is_said(tmp_path: Any) -> None:
    made = planned("gae", base="cleanrl")
    assert "cleanrl" in table_of(Runs.read(tmp_path, made)).attrs["caption"]
    assert made.study.base == "cleanrl"
    assert "inside the settings of cleanrl" in made.study.title
    assert made.request["base"] == "cleanrl"
    assert Request("gae", **made.request).flags() == made.request
    assert planned("gae").study.base is None


def test_common_geometry_is_the_tasks() -> None:
    own, common = (planned("gae", base="brax", geometry=g) for g in ("own", "common"))
    task = tasks.task("fast").hyperparameters["ppo"]
    of = config(common, "brax")["structure"]
    options = trainers.trainer("ppo").structure
    assert of == {name: task.get(name, options[name].default) for name in of}
    assert config(own, "brax")["structure"]["policy_layers"] == [32] * 4
    assert config(common, "brax")["numbers"] == config(own, "brax")["numbers"]


def test_library_defaults_has_every_library_in_one_geometry() -> None:
    study = studies.study("library_defaults")
    assert {one.preset for one in study.variants.values()} == PPO - {"ours"}
    made = planned("library_defaults")
    structures = {digest(cell.config["structure"]) for cell in made.cells}
    assert len(structures) == 1
    for name in study.variants:
        of = flat(config(made, name))
        for setting, value in presets.preset(name).values().items():
            if setting in of and setting not in trainers.trainer("ppo").structure:
                assert of[setting] == value, (name, setting)


def test_levels_of_a_preset_are_inside_it() -> None:
    made = planned("sb3", vary={"clip_epsilon": [0.1, 0.2]})
    assert list(made.variants) == ["clip_epsilon=0.1", "clip_epsilon=0.2"]
    of = flat(config(made, "clip_epsilon=0.1"))
    assert (of["clip_epsilon"], of["adam_epsilon"]) == (0.1, 1e-5)


@pytest.mark.parametrize(
    ("study", "flags", "complaint"),
    [
        ("prompt_normalization", {"base": "sb3"}, "of the trainer 'ppo'"),
        ("sb3", {"base": "cleanrl"}, "presets themselves"),
        ("gae", {"geometry": "common"}, "--base"),
        ("gae", {"base": "sb3", "geometry": "square"}, "geometry"),
        ("sb_3", {}, "unknown study 'sb_3'"),
    ],
)
def test_what_makes_no_sense_is_said(study: str, flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        planned(study, **flags)
