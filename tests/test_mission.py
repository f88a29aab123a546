"""The design of the study `mission`."""

from __future__ import annotations

from ablations.request import Request
from ablations.sweep.plan import plan
from benchmarks.mission import BLOCKS


def _hashes(study: str, *flags: str) -> list[str]:
    given = {
        flag.removeprefix("--"): value for flag, value in zip(flags[::2], flags[1::2], strict=True)
    }
    return [cell.hash for cell in plan(Request(study, **given)).cells]


def test_blocks_are_the_design_each_run_once() -> None:
    selections = [of for block in BLOCKS for of in block.selections if of[0] == "mission"]
    ran = [name for of in selections if "1020-1039" not in of for name in _hashes(*of)]
    design = _hashes("mission", "--profile", "evidence")
    assert sorted(ran) == sorted(design)
    assert len(design) == len(set(design)) == 3 * 416
