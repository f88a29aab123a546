"""From flags to cells: schedules, hashes, what shares a program and what does not."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablations import presets, studies, trainers
from ablations.cli import app
from ablations.core.record import Configuration
from ablations.engine.backends.compiled import BACKEND
from ablations.engine.job import Cell, cells_of
from ablations.engine.plan import plan
from ablations.errors import UserError
from ablations.request import Request
from ablations.studies import Variant, crossed
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
