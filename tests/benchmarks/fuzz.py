"""Mutate whatever the suite reads from disk, and run the commands that read it.

    python tests/benchmarks/fuzz.py --count 5000 --seed 0 --jobs 2 --tally results/reference/fuzz.md

Fails on a traceback, a hang, a write outside of the results or by a command that reads, on anything
executed, and on more than a gigabyte. Each input is made from the seed and its number alone:
`--only N` runs that one, and prints what it did.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import sandbox

from ablations.records import digest

Mutation = Callable[[random.Random, Path], None]

AT_ONCE = 20  # inputs of one process
HASH = "{cell}"  # in a command: the hash of the cell that was mutated
READS = ("table walk", "status walk --json", "export walk", "clean", "run walk.toml --dry-run")
LOGS = ("csv", "jsonl", "json", "txt", "npz", "tsv")
HARMLESS = ("answered", "left out", "refused")
HARMS = ("traceback", "no line", "hang", "died", "memory", "executed", "wrote", "wrote outside")

LEGEND = """\
Answered: as if nothing were wrong, or with what the change says. Left out: answered, with a line
for each file that is not used. Refused: exit code 2 and one line.\
"""

LOG_STUDY = """\
[study]
name = "logged"
baseline = "only"
seeds = 1

[command]
run = "cp -r log.{kind} {{folder}}/log.{kind} --suffix={{seed}}"
curve = "{{folder}}/log.{kind}"
{step}metric = "return"

[variants]
only = {{}}
"""


# Values and texts that hurt somewhere

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308, float("nan")),
    *(float("inf"), -float("inf"), "", " ", "x", "x" * 5000, "../../../escaped", "/etc/passwd"),
    *("a\0b", "a\nb", "\ud800", "[/x]", "\x1b[31m", "<b>", "nan", "1e999", "0" * 16),
    *([], {}, [[]], [None], {"": {}}, {"name": 1}, ["a", 1], [1, 2, 3], {"a": [1e308, "x"]}),
)
WORDS = (
    *("nan", "inf", "-inf", "1e999", "-1", "0", "1.5", "true", "[]", "{}", '""', '"../../x"'),
    *('"""', "[study]", "= = =", "\0", "\ud7ff", "9" * 500, '"' + "x" * 3000 + '"'),
    *("1_000", "2020-01-01", "[1, 2]", "{ a = 1 }", "'", "\ufeff", "é", "[" * 3000),
)


def _bytes(rng: random.Random, data: bytes) -> bytes:
    """One way in which bytes get damaged."""
    if not data:
        return b"\0"
    at, length = rng.randrange(len(data)), rng.randint(1, 40)
    kind = rng.randrange(7)
    if kind == 0:
        changed = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    return (
        data[:at],
        data[:at] + rng.randbytes(length) + data[at:],
        data[:at] + data[at + length :],
        data[:at] + data[at : at + length] * 50 + data[at:],
        data[:at] + b"\0" * length + data[at + length :],
        b"",
    )[kind - 1]


def _json(rng: random.Random, value: Any) -> Any:
    """The value with one of its parts another, gone, or under another name."""
    places = list(_places(value))
    holder, name = rng.choice(places) if places else (None, None)
    if holder is None:
        return rng.choice(VALUES)
    kind = rng.random()
    if kind < 0.7:
        holder[name] = json.loads(json.dumps(rng.choice(VALUES)))
    elif kind < 0.8:
        del holder[name]
    elif kind < 0.87:
        other, part = rng.choice(places)
        holder[name] = other[part]
    elif kind < 0.94 and isinstance(holder, dict):
        holder[rng.choice(("x", "", "\ud800", "name", "../x"))] = holder.pop(name)
    else:
        deep: Any = 1
        for _ in range(rng.choice((40, 200))):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
        holder[name] = deep
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for name, inner in (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    ):
        yield value, name
        yield from _places(inner)


def _in_text(rng: random.Random, path: Path) -> None:
    """A word of a text file becomes another."""
    text = path.read_text()
    words = list(re.finditer(r'"[^"\n]*"|[^\s,=\[\]]+|[\[\]=,]', text))
    word = rng.choice(words)
    path.write_text(text[: word.start()] + rng.choice(WORDS) + text[word.end() :])


def _no_file(rng: random.Random, path: Path) -> None:
    """In place of the file something else."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    kind = rng.randrange(7)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to(path.name)
    elif kind == 3:
        path.symlink_to("/dev/zero")
    elif kind == 4:
        path.symlink_to("nowhere")
    elif kind == 5:
        with path.open("wb") as file:
            file.truncate(1_100_000_000)
    else:
        path.write_text(
            rng.choice(("[" * 50_000, '{"a":' * 50_000, "9" * 50_000, "null", '""', "{}"))
        )


def _written(value: Any) -> str:
    """JSON, also of what Python refuses to write."""
    return json.dumps(value)


# What is mutated


def _any_file(rng: random.Random, path: Path) -> None:
    if rng.random() < 0.3:
        _no_file(rng, path)
    else:
        path.write_bytes(_bytes(rng, path.read_bytes()))


def _signed(fields: Any) -> Any:
    """With the checksum that a writer of such a record or plan would give it."""
    if isinstance(fields, dict):
        fields.pop("checksum", None)
        whole = json.dumps(json.loads(json.dumps(fields)), sort_keys=True)
        fields["checksum"] = hashlib.sha256(whole.encode()).hexdigest()
    return fields


def _record(rng: random.Random, folder: Path) -> str:
    cell = _cell(rng, folder)
    path = cell / "record.json"
    if rng.random() < 0.3:
        _any_file(rng, path)
        return cell.name
    fields = _json(rng, json.loads(path.read_text()))
    name = cell.name
    if isinstance(fields, dict) and rng.random() < 0.6:  # somebody else's, but whole
        try:
            name = fields["hash"] = digest(fields["config"])
        except (KeyError, TypeError, ValueError):
            name = cell.name
    path.write_text(_written(_signed(fields)))
    if name != cell.name:
        cell.rename(cell.with_name(name))
        _edit_plan(folder, lambda plan: _point(plan, cell.name, name, fields["config"]))
    return name


def _point(plan: Any, old: str, new: str, config: Any) -> Any:
    for cell in plan["cells"]:
        if cell["hash"] == old:
            cell |= {"hash": new, "config": config}
    return plan


def _cell(rng: random.Random, folder: Path) -> Path:
    (path,) = (folder / "results" / "plans" / "walk").glob("*.json")
    hashes = [cell["hash"] for cell in json.loads(path.read_text())["cells"]]
    return folder / "results" / "cells" / rng.choice(hashes)


def _edit_plan(folder: Path, edit: Callable[[Any], Any]) -> None:
    (path,) = (folder / "results" / "plans" / "walk").glob("*.json")
    fields = edit(json.loads(path.read_text()))
    path.write_text(_written(_signed(fields)))
    try:
        name = digest(fields["request"])
        path.rename(path.with_name(f"{name}.json"))
        (path.parent / "last").write_text(name)
    except (KeyError, TypeError, ValueError):
        pass


def _plan(rng: random.Random, folder: Path) -> None:
    if rng.random() < 0.25:
        (path,) = (folder / "results" / "plans" / "walk").glob("*.json")
        _any_file(rng, path)
    else:
        _edit_plan(folder, partial(_json, rng))


def _beside_plan(rng: random.Random, folder: Path) -> None:
    pattern = rng.choice(("last", "*.unit", "*.unit"))
    (path,) = (folder / "results" / "plans" / "walk").glob(pattern)
    if pattern == "last" or rng.random() < 0.4:
        _any_file(rng, path)
    else:
        path.write_text(_written(_json(rng, json.loads(path.read_text()))))


def _curve(rng: random.Random, folder: Path) -> None:
    cell = _cell(rng, folder)
    _any_file(rng, cell / "curve.parquet")
    if (cell / "curve.parquet").is_file() and rng.random() < 0.7:
        data = b"" if (cell / "curve.parquet").is_symlink() else _head(cell / "curve.parquet")
        fields = json.loads((cell / "record.json").read_text())
        fields["curve"]["sha256"] = hashlib.sha256(data).hexdigest()
        (cell / "record.json").write_text(json.dumps(_signed(fields)))


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(10_000_000)


def _archive(rng: random.Random, folder: Path) -> None:
    (path,) = (folder / "results" / "archive").glob("walk-*.parquet")
    for part in rng.choice((("cells",), ("cells", "plans"))):
        shutil.rmtree(folder / "results" / part)
    beside = path.with_name(f"{path.name}.sha256")
    if rng.random() < 0.4:
        _archived(rng, path)
    else:
        _any_file(rng, path if rng.random() < 0.9 else beside)
    if path.is_file() and not path.is_symlink() and rng.random() < 0.85 and beside.is_file():
        beside.write_text(hashlib.sha256(_head(path)).hexdigest())


def _archived(rng: random.Random, path: Path) -> None:
    """Another plan or record in a whole archive."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    about = json.loads((table.schema.metadata or {})[b"ablations"])
    rows = table.to_pydict()
    if rng.random() < 0.4:
        about = _json(rng, about)
    else:
        name = rng.choice(("record", "config"))
        place = rng.randrange(len(rows[name]))
        rows[name][place] = _written(_json(rng, json.loads(rows[name][place])))
    if rng.random() < 0.2:
        rows[rng.choice(list(rows))] = [None] * table.num_rows
    text = json.dumps(about).encode()
    made = pyarrow.table(rows).replace_schema_metadata({"ablations": text})
    pyarrow.parquet.write_table(made, path, compression=rng.choice(("zstd", "snappy", "none")))


def _heartbeat(rng: random.Random, folder: Path) -> None:
    cell = _cell(rng, folder)
    shutil.rmtree(cell)
    work = folder / "results" / "work" / cell.name
    beat = {"host": "h", "pid": 1, "phase": "p", "step": 1, "steps": 2, "rate": 1.0, "score": None}
    work.mkdir(parents=True)
    path = work / "heartbeat.json"
    path.write_text(json.dumps({**beat, "time": 4e9, "start": 0}))
    if rng.random() < 0.4:
        _any_file(rng, path)
    else:
        path.write_text(_written(_json(rng, json.loads(path.read_text()))))


def _baseline(rng: random.Random, folder: Path) -> None:
    path = (
        folder / "results" / "baselines" / "b" / f"baseline.{rng.choice(('json', 'json', 'csv'))}"
    )
    if rng.random() < 0.3:
        _any_file(rng, path)
    elif path.suffix == ".json":
        path.write_text(_written(_json(rng, json.loads(path.read_text()))))
    else:
        _in_text(rng, path)
    data = path.with_suffix(".csv")
    described = path.with_suffix(".json")
    if path.suffix == ".csv" and data.is_file() and not data.is_symlink() and rng.random() < 0.7:
        fields = json.loads(described.read_text())
        text = _head(data).decode(errors="replace")
        fields["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        described.write_text(json.dumps(fields))


def _of_text(name: str, rng: random.Random, folder: Path) -> None:
    path = folder / name
    if rng.random() < 0.35:
        _any_file(rng, path)
    else:
        for _ in range(rng.randint(1, 3)):
            _in_text(rng, path)


def _runs(kind: str, rng: random.Random, folder: Path) -> None:
    path = folder / f"runs.{kind}"
    if kind in ("csv", "tsv"):
        path.write_text(sandbox.RUNS.replace(",", "\t" if kind == "tsv" else ","))
        _of_text(path.name, rng, folder)
    elif kind == "npz":
        _evaluations(folder / "runs.npz")
        _any_file(rng, path)
    elif kind == "events":
        (path / "a" / "seed0").mkdir(parents=True)
        _events(path / "a" / "seed0" / "events.out.tfevents.1.h.1")
        _any_file(rng, path / "a" / "seed0" / "events.out.tfevents.1.h.1")
    else:
        _trackio(path)
        _any_file(rng, path)


def _log(kind: str, rng: random.Random, folder: Path) -> None:
    step = "" if kind in ("npz",) else 'step = "step"\n'
    text = LOG_STUDY.format(kind=kind, step=step)
    if kind == "npz":
        text = text.replace('"return"', '"results"').replace("metric", 'step = "timesteps"\nmetric')
    (folder / "logged.toml").write_text(text)
    path = folder / f"log.{kind}"
    points = [{"step": i, "return": i / 2, "x": {"y": 1}} for i in range(1, 9)]
    if kind == "npz":
        _evaluations(path)
        _any_file(rng, path)
        return
    between = "\t" if kind == "tsv" else ","
    path.write_text(
        f"step{between}return\n" + "".join(f"{p['step']}{between}{p['return']}\n" for p in points)
        if kind in ("csv", "tsv")
        else json.dumps(points)
        if kind == "json"
        else "".join(f"{json.dumps(p)}\n" for p in points)
        if kind == "jsonl"
        else "".join(f"step: {p['step']} return: {p['return']}\n" for p in points)
    )
    _of_text(path.name, rng, folder)


def _evaluations(path: Path) -> None:
    import numpy

    steps = numpy.arange(1, 9) * 10
    numpy.savez(path, timesteps=steps, results=numpy.ones((8, 3)), ep_lengths=numpy.ones((8, 3)))


def _events(path: Path) -> None:
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(path.parent / "made")) as writer:
        for step in range(1, 9):
            writer.add_scalar("rollout/ep_rew_mean", step / 2, step)
    (made,) = (path.parent / "made").glob("*")
    made.rename(path)
    (path.parent / "made").rmdir()


def _trackio(path: Path) -> None:
    import sqlite3

    with sqlite3.connect(path) as base:
        base.execute(
            "CREATE TABLE metrics (id INTEGER, timestamp TEXT, run_name TEXT, step INTEGER,"
            " metrics TEXT)"
        )
        for step in range(1, 9):
            row = (step, "2020-01-01T00:00:00", "a", step, json.dumps({"return": step}))
            base.execute("INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", row)
    base.close()


NAMES = (
    "../x",
    "/abs",
    "..",
    ".",
    "",
    "a/b",
    "a\nb",
    "x" * 300,
    "-x",
    "é",
    "\udcff",
    "CON",
    "a b",
    "{x}",
)
ASKED = (
    *("table {name}", "status {name}", "import runs.csv --study={name}", "report {name}"),
    *("show {name}", "policies {name}", "check {name} --records results"),
    *("table walk --metric={name}", "table walk --results={name}"),
    *(
        "export {name}",
        "check {name} --save walk",
        "import {name} --study=x",
        "clean --results={name}",
    ),
    *("run {name} --dry-run", "table walk --tasks={name}"),
)


@dataclass(frozen=True)
class Reader:
    """What is mutated, and the commands that read it."""

    mutate: Callable[[random.Random, Path], object]
    commands: tuple[str, ...]
    share: int = 10


READERS: dict[str, Reader] = {
    "record": Reader(_record, (*READS, f"show {HASH}", f"policies {HASH}", "policies walk"), 20),
    "curve": Reader(_curve, ("table walk", "export walk", "run walk.toml --dry-run")),
    "plan": Reader(_plan, (*READS, "status", "table walk --kind power", "show walk"), 25),
    "unit, last plan": Reader(_beside_plan, ("table walk", "status", "clean", "export")),
    "archive": Reader(_archive, ("table walk", "status", "export walk"), 15),
    "heartbeat": Reader(
        _heartbeat, ("status walk", "status walk --json", "clean", "cancel walk"), 8
    ),
    "baseline": Reader(_baseline, ("check b --records results",), 12),
    "study file": Reader(
        partial(_of_text, "walk.toml"),
        ("run walk.toml --dry-run", "table walk.toml", "show walk.toml"),
    ),
    **{
        f"import .{kind}": Reader(partial(_runs, kind), (f"import runs.{kind} --study other",), 4)
        for kind in ("csv", "tsv", "npz", "events", "db")
    },
    **{
        f"log .{kind}": Reader(partial(_log, kind), ("run logged.toml --cluster debug --quiet",), 2)
        for kind in LOGS
    },
    "names": Reader(lambda rng, folder: None, ASKED, 8),
}


# The campaign


@dataclass
class Done:
    """An input, the command that read it, and what that did."""

    number: int
    reader: str
    words: tuple[str, ...]
    folder: Path
    outcome: sandbox.Outcome = field(default_factory=sandbox.Outcome)


APART = ("study file", "log", "names")  # what a process remembers of them


def some(base: Path, seed: int, numbers: Sequence[int]) -> list[Done]:
    """Make inputs from the seed and their numbers, and run a command over each."""
    with tempfile.TemporaryDirectory(dir=base.parent) as place:
        made = [_made(base, seed, number, Path(place) / str(number)) for number in numbers]
        groups = [[one for one in made if not one.reader.startswith(APART)]]
        groups += [[one] for one in made if one.reader.startswith(APART)]
        for group in groups:
            outcomes = sandbox.run_all([(one.folder, one.words) for one in group])
            for one, outcome in zip(group, outcomes, strict=True):
                one.outcome = outcome
                if any(one.folder.parent.parent.rglob("escaped*")):
                    outcome.harm.append(("wrote outside", "escaped"))
    return made


def _made(base: Path, seed: int, number: int, place: Path) -> Done:
    """An input, and the command that is to read it."""
    rng = random.Random(f"{seed}/{number}")
    name = rng.choices(list(READERS), [reader.share for reader in READERS.values()])[0]
    folder = sandbox.copied(base, place / "a" / "in")
    try:
        cell = READERS[name].mutate(rng, folder)
    except (ValueError, KeyError, TypeError, AttributeError):
        cell = None  # a mutation that Python itself cannot write
    command = rng.choice(READERS[name].commands)
    asked = rng.choice(NAMES).replace("\0", "")
    words = tuple(word.format(name=asked, cell=cell) for word in command.split())
    return Done(number, name, words, folder)


def campaign(base: Path, seed: int, numbers: range, jobs: int = 1) -> Iterator[Done]:
    """Run inputs, in `jobs` processes."""
    parts = [numbers[at : at + AT_ONCE] for at in range(0, len(numbers), AT_ONCE)]
    if jobs == 1:
        for part in parts:
            yield from some(base, seed, part)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for done in pool.imap_unordered(partial(some, base, seed), parts):
            yield from done


def tally(done: list[Done], seed: int) -> str:
    """A table: reader x inputs x outcomes, and the most memory."""
    head = ("reader", "inputs", *HARMLESS, *HARMS, "peak MB")
    rows = [head, ("---", *["---:"] * (len(head) - 1))]
    for name in (*READERS, "all"):
        mine = [one for one in done if name in (one.reader, "all")]
        words = Counter(one.outcome.word for one in mine)
        peak = max((one.outcome.megabytes for one in mine), default=0)
        rows.append((name, len(mine), *(words[word] for word in (*HARMLESS, *HARMS)), peak))
    table = "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)
    command = f"python tests/benchmarks/fuzz.py --count {len(done)} --seed {seed}"
    return (
        f"# Mutated files, and what commands do with them\n\n`{command}`\n\n{table}\n\n{LEGEND}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--tally", type=Path)
    options = parser.parse_args()
    sandbox.preload()
    numbers = (
        range(options.count) if options.only is None else range(options.only, options.only + 1)
    )
    done = []
    with tempfile.TemporaryDirectory() as place:
        base = sandbox.build(Path(place) / "base")
        for this in campaign(base, options.seed, numbers, options.jobs):
            done.append(this)
            if this.outcome.harm or options.only is not None:
                print(
                    f"input {this.number}, {this.reader}: {' '.join(this.words)!r}: {this.outcome}"
                )
                sys.stdout.flush()
            if options.tally and len(done) % 200 == 0:
                print(f"{len(done)} inputs", file=sys.stderr, flush=True)
                options.tally.write_text(tally(done, options.seed))
    text = tally(done, options.seed)
    print(text)
    if options.tally:
        options.tally.write_text(text)
    return int(any(this.outcome.harm for this in done))


if __name__ == "__main__":
    sys.exit(main())
