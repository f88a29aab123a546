"""Room for new details: at its neutral value a detail is in no configuration, hash or program."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import variants
from ablations import studies, tasks, trainers
from ablations.commands.describe import described
from ablations.engine import explanation
from ablations.engine.backends.compiled import BACKEND
from ablations.engine.job import cells_of
from ablations.engine.plan import plan
from ablations.errors import UserError
from ablations.records import Plan, digest
from ablations.request import Request
from ablations.tables.effects import settings_of
from ablations.trainers import Trainer, TrainerSpec, component, number, static
from ablations.trainers.revisions import compose, require_current
from ablations.trainers.spec import BUILT_IN

GOLDEN = Path(__file__).parents[1] / "golden" / "hashes.json"
SCALAR = jax.ShapeDtypeStruct((), jnp.float32)
TEXTS = {"formula": "-", "source": "here", "summary": "a toy"}
AWAY = {"toy_loop": "on", "toy_fn": "double", "toy_number": 0.5, "toy_option": 2}
AT = {"toy_loop": "off", "toy_fn": "same", "toy_number": 0.0, "toy_option": 1}


@pytest.fixture(autouse=True)
def registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(variants.registry, "_AXES", dict(variants.registry._AXES))
    for module, name in (
        ("ablations.trainers.spec", "_REGISTERED"),
        ("ablations.tasks.task", "_TASKS"),
        ("ablations.studies.definition", "_STUDIES"),
    ):
        whole = importlib.import_module(module)
        if hasattr(whole, name):
            monkeypatch.setattr(whole, name, dict(getattr(whole, name)))


def new_axes() -> None:
    """A loop axis, and one with functions, of which a choice brings a number."""
    loop = variants.register(variants.Axis("toy_loop", summary="a toy"))
    for name in ("off", "on"):
        loop.declare(name, **TEXTS)
    fn = variants.register(variants.Axis("toy_fn", summary="a toy", inputs={"x": SCALAR}))
    fn.choice("same", **TEXTS)(lambda *, x: x)
    number = variants.Number(2.0, 0.0, 9.0, "a factor")
    double = fn.choice("double", **TEXTS, numbers={"toy_factor": number})
    double(lambda *, x, toy_factor: x * toy_factor)


def with_details(spec: TrainerSpec) -> TrainerSpec:
    """The trainer with an axis of each kind, a number and an option more."""
    base: Any = spec.hyperparameters

    @dataclass(frozen=True, kw_only=True)
    class Settings(base):
        toy_loop: str = component("off", neutral="off")
        toy_fn: str = component("same", neutral="same")
        toy_number: float = number(0.0, 0.0, 1.0, "a toy", neutral=0.0)
        toy_option: int = static(1, "a toy", low=1, neutral=1)

    return replace(spec, hyperparameters=Settings)


def shipped(smallest: bool = False) -> dict[str, str]:
    """Study and profile -> a digest of the hashes of its runs with one seed, and of its program.

    smallest: of the profiles with one task each, which are planned in seconds."""
    found = {}
    sources = "".join(p.read_text() for p in Path(studies.__file__).parent.glob("*.py"))
    for name, study in studies.studies().items():
        if f'"{name}"' not in sources:  # of another test
            continue
        for profile, of in study.profiles.items():
            if smallest and len(of.tasks) > 1:
                continue
            made = plan(Request(name, profile, seeds=1))
            for variant in made.variants.values():
                assert (variant.versus or made.study.baseline) in made.variants
            cells = cells_of(made)
            program = cells[0].backend.program(cells[0].config)
            names = [*sorted(cell.hash for cell in cells), program]
            found[f"{name} {profile}"] = digest(names)
    return found


def test_runs_keep_their_hashes_and_a_new_detail_renames_none(
    monkeypatch: pytest.MonkeyPatch, run_all: bool
) -> None:
    """`python tests/trainers/test_neutral.py` writes the golden list again, for a new study."""
    narrow = [cell.program for cell in cells_of(plan(Request("gae", "smoke", seeds=1)))]
    new_axes()
    for name in ("ppo", "language"):
        module = importlib.import_module(BUILT_IN[name])
        monkeypatch.setattr(module, "SPEC", with_details(module.SPEC))
    golden, found = json.loads(GOLDEN.read_text()), shipped(smallest=not run_all)
    assert len({name.partition(" ")[0] for name in found}) > 20
    assert found == (golden if run_all else {name: golden[name] for name in found})
    made = plan(Request("gae", "smoke", seeds=1))
    assert [cell.program for cell in cells_of(made)] == narrow
    assert plan(Request("gae", "smoke", seeds=1, set=AT)).cells == (
        plan(Request("gae", "smoke", seeds=1)).cells
    ), "set to what is neutral anyway"
    here = {cell.hash for cell in plan(Request("gae", "smoke", seeds=1)).cells}
    for name, value in AWAY.items():
        there = plan(Request("gae", "smoke", seeds=1, set={name: value})).cells
        assert here.isdisjoint(cell.hash for cell in there), name
        assert (
            sum(name in there[0].config[part] for part in ("choices", "numbers", "structure")) == 1
        )


def test_a_number_that_a_choice_of_before_now_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    before = plan(Request("gae", "smoke")).cells
    axis = variants.axis("policy_loss")
    number = variants.Number(0.0, 0.0, 1.0, "a toy", neutral=0.0)
    clip = replace(axis["clip"], numbers={**axis["clip"].numbers, "toy_slope": number})
    monkeypatch.setitem(axis._choices, "clip", clip)
    monkeypatch.setitem(axis._known_numbers, "toy_slope", number)
    assert plan(Request("gae", "smoke")).cells == before
    assert plan(Request("gae", "smoke", set={"toy_slope": 1})).cells != before


# A trainer of the user's


def make(*, structure: Any, updates_per_chunk: int, choices: Any, **_: Any) -> Trainer:
    """A walk whose details act where it has them."""

    def chunk(state: Any, variant: Any) -> Any:
        pace = variant.numbers["pace"]
        if "toy_fn" in variant.choices:
            pace = variants.axis("toy_fn").apply(
                choices.get("toy_fn", variant.choices["toy_fn"]),
                x=pace,
                toy_factor=variant.numbers["toy_factor"],
            )
        for _ in range(structure.get("toy_option", 1)):
            state = state * 1.1 + pace + variant.numbers.get("toy_number", 0.0)
        return state, {"training/return": state}

    return Trainer(
        init=lambda key, variant: jax.random.normal(key),
        chunk=chunk,
        evaluate=lambda state, variant, key: {"evaluation/return": state},
        policy=lambda state: state,
        steps_per_chunk=updates_per_chunk,
    )


@dataclass(frozen=True, kw_only=True)
class Plain:
    gradient_clip: str = component("none")
    pace: float = number(0.3, 0.0, 9.0, "of a step")
    size: int = static(3, "a toy", low=1)


PLAIN = TrainerSpec(
    name="toy",
    hyperparameters=Plain,
    make=make,
    iteration_steps=lambda structure: structure["size"] * structure.get("toy_option", 1),
)
TASK = tasks.Task(name="toy_line", summary="a line", make=lambda s: None, settings={}, steps=30)


@pytest.fixture
def toy() -> TrainerSpec:
    """A plugin's trainer with the details, and a study of them."""
    new_axes()
    definition = trainers.register(with_details(PLAIN))
    tasks.register(TASK)
    studies.register(
        studies.Study(
            name="toy",
            title="toys",
            claim="-",
            claim_source="-",
            baseline="without",
            variants={
                "without": studies.Variant({}),
                **{name: studies.Variant({name: value}) for name, value in AWAY.items()},
                "all": studies.Variant(AWAY),
            },
            margin=0.05,
            trainer="toy",
            profiles={"quick": studies.Profile(tasks=("toy_line",), seeds=2)},
        )
    )
    return definition


def trained(definition: TrainerSpec, values: Mapping[str, Any]) -> float:
    """Where its walk is after a chunk, with the axes as data."""
    config = definition.resolve(TASK, values) | {
        "run": {"updates_per_chunk": 1, "evaluation_envs": 1, "points": 2}
    }
    data = definition.data(config)
    composed = definition.make(
        task=TASK,
        settings={},
        structure=definition.completed(config)["structure"],
        updates_per_chunk=1,
        evaluation_envs=1,
        choices={},
    )
    state = jax.jit(composed.init)(jax.random.key(0), data)
    return float(np.asarray(jax.jit(composed.chunk)(state, data)[0]))


def test_a_new_detail_moves_no_bit(toy: TrainerSpec) -> None:
    before = trained(PLAIN, {})
    assert trained(toy, {}) == trained(toy, AT) == before
    for name in ("toy_fn", "toy_number", "toy_option"):
        assert trained(toy, {name: AWAY[name]}) != before, name


def test_what_is_left_out_is_neutral_and_not_the_default(toy: TrainerSpec) -> None:
    """A default may change later: what was named by its absence stays what it was."""

    @dataclass(frozen=True, kw_only=True)
    class Changed(Plain):
        toy_loop: str = component("off", neutral="off")
        toy_fn: str = component("double", neutral="same")
        toy_number: float = number(0.5, 0.0, 1.0, "a toy", neutral=0.0)
        toy_option: int = static(2, "a toy", low=1, neutral=1)

    changed = replace(toy, hyperparameters=Changed)
    assert changed.resolve(TASK, AT) == PLAIN.resolve(TASK, {})
    assert trained(changed, AT) == trained(PLAIN, {})
    assert trained(changed, {}) == trained(toy, {n: v for n, v in AWAY.items() if n != "toy_loop"})
    config = changed.resolve(TASK, {})
    assert config["choices"]["toy_fn"]["name"] == "double"
    assert config["numbers"].keys() == {"pace", "toy_number", "toy_factor"}


def test_the_whole_composition_is_seen_again(toy: TrainerSpec) -> None:
    config = toy.resolve(TASK, {})
    assert config == PLAIN.resolve(TASK, {})
    whole = toy.completed(config)
    assert {n: whole["choices"][n]["name"] for n in ("toy_loop", "toy_fn")} == {
        "toy_loop": "off",
        "toy_fn": "same",
    }
    assert list(whole["choices"]) == list(toy.axes)
    assert whole["numbers"] == {"pace": 0.3, "toy_number": 0.0}, "toy_factor is read by no choice"
    assert whole["structure"] == {"size": 3, "toy_option": 1}
    assert toy.completed(whole) == whole
    assert toy.inert(config, AT) == {}
    assert toy.schedule(config, steps=9, points=3, evaluations=0, evaluation_envs=1)["points"] == 3


def test_a_bumped_revision_of_the_neutral_choice_is_named(
    toy: TrainerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = toy.resolve(TASK, {})
    choices = variants.axis("toy_fn")._choices
    monkeypatch.setitem(choices, "same", replace(choices["same"], revision=2))
    assert toy.resolve(TASK, {})["choices"]["toy_fn"] == {"name": "same", "revision": 2}
    with pytest.raises(UserError, match="toy_fn=same is of revision 1, now 2"):
        require_current(config)


def test_programs_of_details(toy: TrainerSpec) -> None:
    """Options, and axes that are compiled in, part programs; what is neutral names none."""
    specialised = replace(toy, compiles=lambda structure: ("toy_fn",) * structure["toy_option"])
    trainers.register(specialised, again=True)
    run = {"run": {"updates_per_chunk": 1, "evaluation_envs": 1}}
    variety: tuple[dict[str, Any], ...] = ({}, {"toy_fn": "double"}, {"toy_option": 2})
    names = [BACKEND.program(specialised.resolve(TASK, values) | run) for values in variety]
    assert len(set(names)) == 3
    config = specialised.resolve(TASK, {}) | run
    assert specialised.compiled_in(config) == ("toy_fn",)
    everywhere = specialised.compiled_in(config, ())
    assert set(everywhere) == set(specialised.completed(config)["choices"])
    composed, as_data = compose(config | {"run": {**run["run"], "points": 2}}, fixed=("toy_fn",))
    data = as_data(config)
    assert float(composed.chunk(jnp.float32(0), data)[0]) == pytest.approx(0.3)
    trainers.register(PLAIN, again=True)
    assert BACKEND.program(PLAIN.resolve(TASK, {}) | run) == names[0]


def configs(made: Plan) -> dict[str, Mapping[str, Any]]:
    return {cell.variant: cell.config for cell in made.cells}


def test_plans_show_and_explanations_see_details(toy: TrainerSpec) -> None:
    made = plan(Request("toy"))
    assert made.variants["without"].formulas["toy_fn"].choice == "same"
    assert made.variants["toy_fn"].formulas["toy_fn"].choice == "double"
    assert settings_of(made)["without"] == AT, "what a variant leaves out has its value"
    assert settings_of(made)["toy_number"] == {**AT, "toy_number": 0.5}
    lines = "\n".join(described("toy/without", Path("results"), {}))
    assert "toy_fn                     same" in lines
    assert "toy_option                 1" in lines
    assert "toy_fn = double" in "\n".join(described("toy/toy_fn", Path("results"), {}))
    gap = explanation.plan(explanation.request("toy/without", "toy/all", (), {"seeds": 1}))
    details = gap.study.explanation.details
    assert {name: one.settings[name] for name, one in details.items()} == {
        name: (AT[name], AWAY[name]) for name in AWAY
    }
    assert details["toy_fn"].brings == {"toy_fn": ({}, {"toy_factor": 2.0})}
    there = configs(gap)
    assert there["toy/without"] == configs(made)["without"] | {"seed": 0}
    assert there["toy/all"] == configs(made)["all"] | {"seed": 0}
    assert there["toy/all - toy_fn"]["choices"].keys() == {"gradient_clip", "toy_loop"}


def test_a_variant_that_sets_what_is_neutral_is_its_baseline(toy: TrainerSpec) -> None:
    same = {"without": studies.Variant({}), "at": studies.Variant({"toy_number": 0.0})}
    studies.register(replace(studies.study("toy"), name="same", variants=same))
    with pytest.raises(UserError, match="are identical on toy_line"):
        plan(Request("same"))


def test_neutral_values_that_cannot_be(toy: TrainerSpec) -> None:
    with pytest.raises(variants.RegistrationError, match="neutral value lies within its bounds"):
        variants.Number(1.0, 0.5, 2.0, "a toy", neutral=0.0)

    @dataclass(frozen=True)
    class Misspelt:
        toy_loop: str = component("off", neutral="of")

    with pytest.raises(UserError, match="unknown choice 'of'"):
        replace(toy, hyperparameters=Misspelt).resolve(TASK, {})


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(shipped(), indent=1, sort_keys=True) + "\n")
