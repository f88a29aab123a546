"""Compare numbers and hashes with a reference that an earlier commit wrote.

    python benchmarks/guard.py write FOLDER                       # at the earlier commit
    python benchmarks/guard.py compare FOLDER [--allow-gone]      # at the later one
    python benchmarks/guard.py compare FOLDER --only hashes,tables

Use it around a refactoring. FOLDER is outside the repository and has a JSON file per part:

    hashes   the hash of every run and the name of every plan of every study, profile and preset,
             and the checksum of every archive (a minute)
    tables   the numbers of every comparison of every archive in results/ (two minutes), equal to
             1e-9 of their interval's width, and the verdicts
    bits     a digest of every column of the curves of newly trained smoke runs (ten minutes)

`compare` prints a line for every study, archive, run or test file that differs, and exits with 1.
Items that the later commit lacks are `gone`; --allow-gone tolerates them.

If a command, a flag or a column is renamed, adapt the constants below; the reference stays
unchanged.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import io
import json
import math
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.sync = lambda: None  # what is unpacked here need not last
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.getenv("PYTHONPATH"))))

STATUS = ("status", "--format", "json")  # [{"task": ..., "variant": ..., "seed": ..., "hash": ...}]
TABLE = ("table", "--format", "json")  # {"rows": [{column: value}]}, or the list of rows alone
KINDS = ("comparison", "effects", "shares")
# The first of these columns in a row is its difference; <column>_low, or low, is its lower end.
DIFFERENCES = ("difference", "effect", "share")
LABELS = ("task", "variant", "detail", "factor", "level")
BASES = {"ppo": "gae", "pqn": "q_learning", "language": "prompt_normalization"}  # of presets
TRAINED = """
gae value_clipping prompt_normalization q_learning single_choices_discrete trivial_policies
"""
COMMAND_STUDY = """
study = {name = "walk", claim = "speed helps", baseline = "slow", margin = 0.05, seeds = 2}
command.run = "python walk.py {seed} {pace}"
command.curve = "stdout"
command.step = "step"
command.metric = "return"
variants = {slow = {pace = 1}, fast = {pace = 3}}
"""
COMMAND = """
import sys
for k in range(1, 9):
    print(f"step={k} return={k / 3 * int(sys.argv[2]) + int(sys.argv[1]) / 7}")
"""
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # ten thousand small files

Items = dict[str, dict[str, Any]]  # what may be gone -> its values by name
Part = dict[str, Items]  # name of a file of the reference -> its items


def command(*words: str) -> Any:
    """Return the JSON that a command prints, run in this process; None if it rejects its input."""
    from ablations.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(words))
        except SystemExit as end:
            code = end.code
    if code == 2:
        return None
    if code:
        raise RuntimeError(f"ablations {' '.join(words)}: exit {code}\n{err.getvalue()}")
    return json.loads(out.getvalue())


def plan_name(study: str, profile: str, base: str) -> str:
    """Return the name of a plan, which is also the name of its archive."""
    from ablations.records import digest
    from ablations.request import Request

    return digest(Request(study, profile, base=base or None).flags())


def hashes(results: str, request: tuple[str, str, str]) -> tuple[str, dict[str, str]]:
    """Return the plan's name and the hash of each run; results is an empty folder."""
    study, profile, base = request
    flags = ["--base", base] if base else []
    rows = command(*STATUS, study, "--profile", profile, *flags, "--results", results)
    if rows is None:
        return " ".join(request), {}
    runs = {f"{row['task']} {row['variant']} {row['seed']}": row["hash"] for row in rows}
    return " ".join(request), {"the plan": plan_name(*request), **runs}


def write_hashes(scratch: Path) -> Part:
    """Plan every study at every profile, and one study with every preset as its base."""
    from ablations.presets import presets
    from ablations.studies import studies

    requests = [(study, profile, "") for study, of in studies().items() for profile in of.profiles]
    requests += [(preset, "smoke", "") for preset in presets()]
    requests += [(BASES[of.trainer], "smoke", preset) for preset, of in presets().items()]
    items = dict(spread(functools.partial(hashes, str(scratch / "results")), requests))
    for path in archives():
        items[str(path.relative_to(ROOT))] = {"sha256": sha256(path.read_bytes())}
    return {"hashes": items}


def archives() -> list[Path]:
    return sorted((ROOT / "results").glob("**/archive/*.parquet"))


def sha256(data: bytes | str) -> str:
    data = data.encode() if isinstance(data, str) else data
    return hashlib.sha256(data).hexdigest()[:16]


def tables(scratch: Path, path: Path) -> list[tuple[str, dict[str, Any], dict[str, str]]]:
    """Return the name, numbers and verdicts of each kind of table of an archive.

    Untrained policies are beside it, as effects are measured in what the baseline learned.
    """
    folder = scratch / "alone" / path.stem
    (folder / "archive").mkdir(parents=True)
    study = path.stem.rpartition("-")[0]
    needed = (
        {path}
        if study == "trivial_policies"
        else {path, *path.parent.glob("trivial_policies-*.parquet")}
    )
    for file in needed:
        shutil.copy(file, folder / "archive")
        shutil.copy(f"{file}.sha256", folder / "archive")
    made = []
    for kind in KINDS:
        printed = command(*TABLE, study, "--kind", kind, "--results", str(folder))
        rows = [] if printed is None else printed if isinstance(printed, list) else printed["rows"]
        name = f"{path.relative_to(ROOT)} {kind}"
        made.append((name, *numbers_and_words(rows)))
    shutil.rmtree(folder)
    return made


def numbers_and_words(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
    numbers: dict[str, Any] = {}
    words: dict[str, str] = {}
    for row in rows:
        label = " | ".join(row[name] for name in LABELS if isinstance(row.get(name), str))
        while label in numbers:
            label += "'"
        column = next((name for name in DIFFERENCES if name in row), "difference")
        numbers[label] = {name: row.get(name) for name in ("n", "mean", "p")} | {
            "difference": row.get(column),
            "low": row.get(f"{column}_low", row.get("low")),
            "high": row.get(f"{column}_high", row.get("high")),
        }
        words[label] = row.get("verdict")
    return numbers, words


def write_tables(scratch: Path) -> Part:
    every = [made for one in spread(functools.partial(tables, scratch), archives()) for made in one]
    return {
        "tables": {name: numbers for name, numbers, _ in every},
        "words": {name: words for name, _, words in every},
    }


def spread(function: Callable[[Any], Any], inputs: list[Any]) -> Iterator[Any]:
    """Yield the results of a function, computed by two processes."""
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=30) as pool:
        yield from pool.imap(function, inputs)


def write_bits(scratch: Path) -> Part:
    """Train smoke runs of one seed and a study of a command; return digests of their curves."""
    import pyarrow.parquet

    os.chdir(scratch)
    Path("walk.toml").write_text(COMMAND_STUDY)
    Path("walk.py").write_text(COMMAND)
    items: Items = {}
    smoke = ["--profile", "smoke", "--seeds", "1"]
    for study, flags in [*((name, smoke) for name in TRAINED.split()), ("walk.toml", [])]:
        program = [sys.executable, "-m", "ablations.cli", "run", study, *flags, "--quiet"]
        if (code := subprocess.run(program, check=False).returncode) not in (0, 1):  # 1: one failed
            print(f"bits: {study} did not train: exit {code}", file=sys.stderr)
            continue
        for row in command(*STATUS, study, *flags):
            curve = Path("results", "cells", row["hash"], "curve.parquet")
            columns = pyarrow.parquet.read_table(curve).to_pydict() if curve.exists() else {}
            digests = {name: sha256(json.dumps(values)) for name, values in columns.items()}
            name = f"{study} {row['task']} {row['variant']} {row['seed']}"
            items[name] = {"state": row["state"], **digests}
    return {"bits": items}


PARTS = {"hashes": write_hashes, "tables": write_tables, "bits": write_bits}


def equal(old: Any, new: Any) -> bool:
    """Return whether values are equal; numbers of a row to 1e-9 of its interval's width."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return bool(old == new)
    width = abs((old["high"] or 0) - (old["low"] or 0)) if old["low"] is not None else 0.0
    return all(
        value == new[name]
        or (
            value is not None
            and new[name] is not None
            and math.isclose(value, new[name], rel_tol=1e-9, abs_tol=1e-9 * width)
        )
        for name, value in old.items()
    )


def differences(part: str, before: Items, after: Items) -> Iterator[tuple[bool, str]]:
    """Yield whether the item is gone, and a line about it, for each item that differs."""
    for name, old in before.items():
        if name not in after:
            yield True, f"gone     {part}: {name}"
            continue
        new = after[name]
        keys = [key for key in old.keys() | new.keys() if not equal(old.get(key), new.get(key))]
        if keys:
            key = min(keys)
            some = f"{len(keys)} of {len(old)}, such as " if len(keys) > 1 else ""
            yield False, f"changed  {part}: {name}: {some}{key}: {old.get(key)} -> {new.get(key)}"
    if added := after.keys() - before.keys():
        print(f"new      {part}: {len(added)}, such as {min(added)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("verb", choices=("write", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--allow-gone", action="store_true", help="allow missing items")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for part in options.only.split(","):
        with tempfile.TemporaryDirectory(dir=MEMORY) as scratch:
            files = PARTS[part](Path(scratch))
        for name, items in files.items():
            path = options.folder / f"{name}.json"
            if options.verb == "write":
                path.write_text(json.dumps(items, indent=0))
                print(f"{path}: {len(items)}")
            else:
                found = list(differences(name, json.loads(path.read_text()), items))
                print(*(line for _, line in found), f"{name}: {len(found)} differ", sep="\n")
                wrong += sum(not (gone and options.allow_gone) for gone, _ in found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
