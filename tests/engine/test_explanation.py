"""What lies between two compositions, and the cells that an explanation of it needs: on a synthetic
trainer, whose score is a known function of its configuration and whose cells are never trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import variants
from ablations import studies, tasks, trainers
from ablations.core.plan import Detail, Explanation
from ablations.engine import explanation
from ablations.engine.explanation import order
from ablations.engine.job import cells_of, distinct
from ablations.errors import UserError
from ablations.records import Plan, Record, write_plan, write_record
from ablations.request import Request
from ablations.runs import Runs
from ablations.tables import table_of
from ablations.tables.shares import change

STYLE = variants.register(variants.Axis("explained_style", summary="a choice that brings a number"))
STYLE.declare("plain", formula="0", source="this file", summary="reads nothing more")
STYLE.declare(
    "bold",
    formula="explained_weight",
    source="this file",
    summary="brings a number",
    numbers={"explained_weight": variants.Number(1.0, 0.0, 10.0, "of bold")},
)
SHAPE = variants.register(variants.Axis("explained_shape", summary="compiled in", structural=True))
SHAPE.declare("round", formula="0", source="this file", summary="goes with either")
SHAPE.declare("square", formula="0", source="this file", summary="needs ink")
INK = variants.register(variants.Axis("explained_ink", summary="what square needs"))
INK.declare("none", formula="0", source="this file", summary="no ink")
INK.declare("black", formula="0", source="this file", summary="ink")


@variants.conflict
def square_needs_ink(*, explained_shape: str, explained_ink: str) -> str | None:
    if explained_shape == "square" and explained_ink == "none":
        return "explained_shape=square needs ink"
    return None


@variants.inert
def nothing_is_blurred(*, explained_blur: float, explained_paper: float) -> dict[str, str]:
    return {} if explained_paper else {"explained_blur": "without paper nothing is blurred"}


DECLARED = [
    ("explained_style", str, trainers.component("plain")),
    ("explained_shape", str, trainers.component("round")),
    ("explained_ink", str, trainers.component("none")),
    *(
        (f"explained_{name}", float, trainers.number(0.0, 0.0, 10.0, "a number"))
        for name in ("a", "b", "c", "blur", "paper")
    ),
    ("explained_width", int, trainers.static(1, "structure", low=1)),
]
trainers.register(
    trainers.TrainerSpec(
        name="explained",
        summary="scores by a formula",
        hyperparameters=dataclasses.make_dataclass("Settings", DECLARED),
        make=lambda **_: None,
        iteration_steps=lambda structure: 10,
    )
)
tasks.register(
    tasks.Task("explained_task", "nothing", make=lambda settings: None, settings={}, steps=100)
)
START = {"explained_a": 1.0, "explained_b": 0.0}
END = {
    "explained_a": 3.0,
    "explained_b": 2.0,
    "explained_style": "bold",
    "explained_weight": 4.0,
    "explained_shape": "square",
    "explained_ink": "black",
    "explained_blur": 5.0,
}
studies.register(
    studies.Study(
        name="explained",
        title="Explained",
        claim="",
        claim_source="",
        baseline="start",
        variants={
            "start": studies.Variant(START),
            "end": studies.Variant(END),
            "twin": studies.Variant({**START, "explained_c": 0.0}),
            "wide": studies.Variant({**END, "explained_width": 2}),
        },
        margin=0.05,
        trainer="explained",
        profiles={"quick": studies.Profile(("explained_task",), seeds=3, steps=100, points=10)},
    )
)
JOINED = "explained_shape + explained_ink"
DETAILS = {"explained_style", JOINED, "explained_a", "explained_b", "explained_blur"}


def explain(end: str = "end", together: Any = (), **selection: Any) -> Plan:
    return explanation.plan(explanation.request("start", end, together, selection))


def score(config: Mapping[str, Any]) -> float:
    """a alone is worth 1 each; b and bold are worth more together; ink and shape 3; no blur."""
    choices = {axis: one["name"] for axis, one in config["choices"].items()}
    numbers = config["numbers"]
    bold = choices["explained_style"] == "bold"
    return float(
        numbers["explained_a"]
        + (10 + 2 * numbers["explained_weight"] * (numbers["explained_b"] == 2) if bold else 0)
        + numbers["explained_b"]
        + 3 * (choices["explained_ink"] == "black")
        + np.random.default_rng(config["seed"]).normal()
    )


def train(plan: Plan, results: Path) -> None:
    """Writes every cell's record, as if it had run."""
    write_plan(results, plan)
    for cell in distinct(cells_of(plan)):
        rising = score(cell.config) - np.linspace(1, 0, 10)
        columns = {"step": 10 * np.arange(1, 11), "training/return": rising}
        write_record(results, Record(cell.hash, cell.config, "done"), columns)


def test_details_are_what_differs_and_can_be_set_apart() -> None:
    found = explain().study.explanation
    assert found.details.keys() == DETAILS
    assert found.details["explained_style"] == Detail(
        settings={"explained_style": ("plain", "bold")},
        brings={"explained_style": ({}, {"explained_weight": 4.0})},
    ), "a number that only one of them reads comes with the choice that brings it"
    assert found.details[JOINED].settings.keys() == {"explained_shape", "explained_ink"}
    assert found.held == {"explained_width": 1}


def test_a_change_in_words() -> None:
    details = explain().study.explanation.details
    assert change(details["explained_style"]) == "plain → bold (explained_weight 4)"
    assert change(details[JOINED]) == "round → square, none → black"
    back = explanation.plan(explanation.request("end", "explained/start", (), {"seeds": 1}))
    style = back.study.explanation.details["explained_style"]
    assert change(style) == "bold (explained_weight 4) → plain"
    assert back.study.name == "end_to_explained.start"


def test_a_cell_is_what_is_switched() -> None:
    plan = explain(seeds=2)
    about = plan.study.explanation
    by_place = {(cell.variant, cell.seed): cell.config for cell in plan.cells}
    for seed in (0, 1):
        steps = about.orders[str(seed)]
        assert sorted(steps) == sorted(DETAILS)
        ways = {"order": steps, "reverse": steps[::-1]}
        for way, switched in ways.items():
            for count in range(1, len(steps)):
                assert by_place[f"{way} {count}", seed] == composed(switched[:count], about, seed)
        for one in steps:
            assert by_place[f"start + {one}", seed] == composed([one], about, seed)
            rest = [other for other in steps if other != one]
            assert by_place[f"end - {one}", seed] == composed(rest, about, seed)
        assert by_place["end", seed] == composed(steps, about, seed)


def composed(switched: list[str], about: Explanation, seed: int) -> dict[str, Any]:
    """The configuration, from the values alone; blur never acts here, and is at its default."""
    values = {**START, "explained_weight": 4.0}
    for detail in switched:
        values |= {n: b for n, (_, b) in about.details[detail].settings.items()}
    values.pop("explained_blur", None)
    made = trainers.trainer("explained").resolve(tasks.task("explained_task"), values)
    run = {"iteration_steps": 10, "updates_per_chunk": 1, "points": 10}
    return made | {"run": {**run, "evaluations": 5, "evaluation_envs": 16}, "seed": seed}


def test_seeds_can_be_added() -> None:
    """The orders are the seeds' own: more of them need no old cell again, and none is lost."""
    few, many = explain(seeds=3), explain(seeds=8)
    orders = [plan.study.explanation.orders for plan in (few, many)]
    assert orders[0].items() <= orders[1].items()
    assert {c.hash for c in few.cells} <= {c.hash for c in many.cells}
    assert len({tuple(one) for one in orders[1].values()}) > 4, "each seed has another"


def test_orders_are_even() -> None:
    """Each detail is as often first as the others, and one that leaves does not move the rest."""
    names = ["p", "q", "r", "s"]
    orders = [order(names, seed) for seed in range(4000)]
    for name in names:
        first = sum(one[0] == name for one in orders)
        assert abs(first - 1000) < 5 * np.sqrt(4000 * 0.25 * 0.75)
    assert all(
        order(names[:3], s) == tuple(n for n in one if n != "s") for s, one in enumerate(orders)
    )


def test_shares_of_a_known_score(tmp_path: Path) -> None:
    plan = explain(seeds=12)
    train(plan, tmp_path)
    frame = table_of(Runs.read(tmp_path, plan))
    rows = {row["detail"]: row for row in frame.to_dict("records")}
    truth = {
        "explained_a": (2.0, 2.0, 2.0),
        "explained_b": (2.0 + 4.0, 2.0, 2.0 + 8.0),
        "explained_style": (10.0 + 4.0, 10.0, 10.0 + 8.0),
        JOINED: (3.0, 3.0, 3.0),
    }
    for detail, values in truth.items():
        row = rows[detail]
        assert (row["share"], row["alone"], row["removed"]) == pytest.approx(values), detail
        assert row["interaction"] == pytest.approx(values[2] - values[1])
    blur = rows["explained_blur"]
    assert [blur[n] for n in ("share", "alone", "removed", "interaction")] == [0.0] * 4
    assert (blur["verdict"], blur["note"]) == ("equivalent", "does not act")
    assert list(frame.detail)[-1] == "explained_blur"
    gap = rows["the whole gap"]
    assert gap["share"] == pytest.approx(sum(rows[d]["share"] for d in DETAILS))
    assert gap["n"] == gap["n_planned"] == 12
    assert frame.attrs["summary"].startswith("explained_task: start → end is +25")


def test_compositions_that_train_alike_are_one_cell() -> None:
    plan = explain(seeds=1)
    cells = {cell.variant: cell.hash for cell in plan.cells}
    assert cells["start + explained_blur"] == cells["start"]
    assert cells["end - explained_blur"] == cells["end"]
    steps = plan.study.explanation.orders["0"]
    place = steps.index("explained_blur")
    around = [cells.get(f"order {k}", cells["start"]) for k in (place, place + 1)]
    assert around[0] == around[1] or place + 1 == len(steps)


def test_details_switch_together_where_it_is_wanted() -> None:
    found = explain(together=[["explained_a", "explained_b"]]).study.explanation.details
    assert "explained_a + explained_b" in found
    assert len(found) == len(DETAILS) - 1


def test_a_flag_holds_for_both() -> None:
    found = explain(set={"explained_a": 3.0}).study.explanation
    assert "explained_a" not in found.details
    assert found.details.keys() == DETAILS - {"explained_a"}


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"end": "twin"}, "identical"),
        ({"end": "ends"}, "unknown preset or variant 'ends'"),
        ({"end": "gae/brax"}, "of the trainer 'explained'"),
        ({"together": [["explained_c"]]}, "differing detail"),
        ({"set": {"explained_width": 2, "explained_z": 1}}, "explained_z"),
        ({"variants": ("start",)}, "--variants"),
        ({"profile": "paper"}, "profile"),
    ],
)
def test_what_makes_no_sense_is_said(asked: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        explain(**asked)


def test_structure_of_a_variant_is_a_detail_and_presets_share_theirs() -> None:
    assert "explained_width" in explain(end="wide").study.explanation.details
    request = explanation.request(
        "brax", "sb3", (), {"tasks": ("fast",), "seeds": 1, "steps": 1000}
    )
    held = explanation.plan(request).study.explanation.held
    own = tasks.task("fast").hyperparameters["ppo"]
    assert held["num_envs"] == own["num_envs"]
    assert Request(request.study, **request.flags()) == request
