"""Change formulas one at a time, run the tests of their folder, and list the changes that pass.

    python benchmarks/mutants.py ablations/stats tests/stats [--number 100] [--seed 0]

A mutant has one operator, comparison, number or condition changed in a copy of this checkout. The
sample is drawn from all places with the seed. It is killed if a test fails or takes ten minutes.
Tests that mutate formulas themselves are left out: they fail at any change of the text.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAIRS = ((ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE))
PAIRS += ((ast.Eq, ast.NotEq), (ast.And, ast.Or), (ast.Pow, ast.Mult), (ast.In, ast.NotIn))
OTHER = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}


def changed(node: ast.AST) -> str:
    """Change a node in place and return the change; "" if nothing of it is mutated."""
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OTHER:
        node.op = OTHER[type(node.op)]()
        return type(node.op).__name__
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
        node.ops[0] = OTHER[type(node.ops[0])]()
        return type(node.ops[0]).__name__
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        node.value += 1
        return f"constant {node.value}"
    if isinstance(node, ast.IfExp):
        node.body, node.orelse = node.orelse, node.body
        return "branches"
    return ""


def mutant(path: Path, index: int) -> tuple[str, str]:
    """Return the place of a mutant and the text of its file."""
    tree = ast.parse(path.read_text())
    node = [*ast.walk(tree)][index]
    place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
    return f"{place}: {changed(node)}", ast.unparse(tree)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("code", type=Path)
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    code = ROOT / asked.code
    files = sorted(code.rglob("*.py")) if code.is_dir() else [code]
    sites = [
        (path, index)
        for path in files
        for index, node in enumerate(ast.walk(ast.parse(path.read_text())))
        if changed(node)
    ]
    drawn = random.Random(asked.seed).sample(sites, min(asked.number, len(sites)))
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        left_out = (".git", ".venv", ".mypy_cache", "cells", "plans")
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*left_out), dirs_exist_ok=True)
        run = ["timeout", "600", sys.executable, "-m", "pytest", "-x", "-n0", "--all", *asked.tests]
        os.environ["PYTHONPATH"] = folder

        def passes(tests: str) -> bool:  # 5: the words select no test
            command = [*run, "-k", f"{tests} and not mutat and not unchanged"]
            return subprocess.run(command, cwd=folder, capture_output=True).returncode in (0, 5)

        if not passes("test"):
            sys.exit("the tests fail without a change")
        for path, index in drawn:
            where, text = mutant(path, index)
            target = Path(folder) / path.relative_to(ROOT)
            target.write_text(text)
            if passes(path.stem) and passes(f"not {path.stem}"):  # its own tests first
                survived.append(where)
                print(where, flush=True)
            shutil.copy(path, target)
    print(f"{asked.code}: {len(drawn) - len(survived)} of {len(drawn)} mutants killed")


if __name__ == "__main__":
    main()
