"""Compares the curves of two results folders, bit for bit, by study, task, variant and seed.

    python benchmarks/same_curves.py BEFORE AFTER [--renamed old=new ...] [--missing NAME ...]

For a change that must not alter training: run the same studies with the code before and after it,
then this. Columns that only one side has are named; so is, for each column, the largest difference.
Exit code 1 where a column that both have differs in a bit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet

Place = tuple[str, str, str, int]
KEYS = ("task", "variant", "seed", "hash")


def cells(results: Path) -> Iterator[tuple[Place, Path]]:
    """Every cell of the last plan of each study, and its curve."""
    for pointer in sorted((results / "plans").glob("*/last")):
        plan = json.loads((pointer.parent / f"{pointer.read_text().strip()}.json").read_text())
        for cell in plan["cells"]:
            # Objects in a plan of format 1, rows in one of format 2
            row = [cell[n] for n in KEYS] if isinstance(cell, dict) else cell
            place = (pointer.parent.name, *row[:3])
            yield place, results / "cells" / row[3] / "curve.parquet"


def columns(path: Path) -> dict[str, np.ndarray]:
    table = parquet.read_table(path)
    return {
        name: np.array([np.nan if v is None else v for v in table[name].to_pylist()], np.float64)
        for name in table.column_names
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--renamed", nargs="*", default=[], metavar="OLD=NEW")
    asked = parser.parse_args()
    renamed = dict(pair.split("=") for pair in asked.renamed)
    after = dict(cells(asked.after))
    equal, lost, worst = 0, [], dict[str, float]()
    one_sided: set[str] = set()
    for place, path in cells(asked.before):
        if place not in after:
            lost.append(place)
            continue
        old = {renamed.get(name, name): column for name, column in columns(path).items()}
        new = columns(after[place])
        one_sided |= old.keys() ^ new.keys()
        same = True
        for name in old.keys() & new.keys():
            if not np.array_equal(old[name], new[name], equal_nan=True):
                same = False
                gap = np.nanmax(np.abs(old[name] - new[name])) if len(old[name]) else 0.0
                worst[name] = max(worst.get(name, 0.0), float(gap))
        equal += same
    print(f"{equal} curves are equal bit for bit, {len(lost)} are not there after: {lost[:5]}")
    print(f"columns of one side alone: {sorted(one_sided) or 'none'}")
    for name, gap in sorted(worst.items()):
        print(f"differs: {name}, by at most {gap:g}")
    return int(bool(worst or lost))


if __name__ == "__main__":
    sys.exit(main())
