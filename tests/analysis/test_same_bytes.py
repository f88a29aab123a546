"""The same records give the same tables, figures and page, to the byte, in any process."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

from msgspec import structs
from synthetic import realistic

from ablations import figures, format_table
from ablations.records import Plan, read_plan
from ablations.report import page
from ablations.runs import Runs
from ablations.tables import FORMATS, table_of

KINDS = ("curves", "differences", "aggregates")  # of each module of figures one
PROGRAM = """
import json, sys
from pathlib import Path
from test_same_bytes import made
print(json.dumps(made(Path(sys.argv[1]))))
assert not {"jax", "brax", "variants"} & set(sys.modules)
"""


def tables(results: Path, plan: Plan) -> list[str]:
    frame = table_of(Runs.read(results, plan))
    return [format_table(frame, form, width=80) for form in FORMATS]


def made(results: Path) -> list[str]:
    plan = read_plan(results, "gae")
    drawn = figures.draw(Runs.read(results, plan), KINDS).values()
    files = [figures.encoded(figure, form) for figure in drawn for form in figures.FORMATS]
    digests = [hashlib.sha256(file).hexdigest() for file in files]
    return [*tables(results, plan), *digests, page.render([plan], results)]


def test_the_same_records_give_the_same_bytes_in_any_process_and_order(study) -> None:
    finals = realistic(tasks=["hopper"], variants=2)
    plan, results = study(finals, units={"hopper": 2000.0}, points=10)
    environment = {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    there = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(results)],
        capture_output=True,
        env=os.environ | environment,
        check=True,
        text=True,
    )
    here = made(results)
    assert json.loads(there.stdout) == here
    assert not any(str(results) in text or "node" in text for text in here[: len(FORMATS)])
    assert str(results) not in here[-1]
    cells = random.Random(0).sample(plan.cells, len(plan.cells))
    assert tables(results, structs.replace(plan, cells=tuple(cells))) == here[: len(FORMATS)]
