"""`ablations explain`, from its flags to its table, on the toy."""

from __future__ import annotations

import csv
import io
import re

ENDS = ("toy/up", "toy/down")
NAME = "toy.up_to_down"
FLAGS = ("--quiet", "--cluster", "debug")

MARKDOWN = ("--format", "markdown")


def test_a_gap_is_explained_and_seeds_are_added(shell) -> None:
    flags = ("--set", "rate=0.2", "--steps", "100")
    said = shell("explain", *ENDS, *flags, "--seeds", "2", "--dry-run").stdout
    assert ": 1 detail, switched in a random order per seed, 2 seeds" in said
    assert "up → down" in said
    assert "4 runs: 0 done, 4 to run" in said
    assert "1 program to compile" in said, "a choice that is data needs no program of its own"
    assert not shell.curves()

    first = shell("explain", *ENDS, *flags, "--seeds", "2", *FLAGS, *MARKDOWN).stdout
    assert "| line | the whole gap | toy/up → toy/down |" in " ".join(first.split())
    old = shell.curves()
    assert len(old) == 4
    more = shell("explain", *ENDS, *flags, "--seeds", "3", *FLAGS, "--format", "csv").stdout
    made = more.strip().rpartition("\n\n")[2]  # below what the worker in this process says
    gap, share = csv.DictReader(io.StringIO(made))
    assert (gap["n"], share["detail"]) == ("3", "toy_direction")
    assert float(gap["share"]) == float(share["share"]) == float(share["alone"]) < 0
    new = shell.curves()
    assert len(new) == 6
    assert {name: new[name] for name in old} == old

    by_name = shell("table", NAME, "--format", "csv").stdout
    assert by_name.strip() == made
    fewer = shell("table", NAME, *flags, "--seeds", "2", "--format", "csv").stdout
    assert next(csv.DictReader(io.StringIO(fewer.strip())))["n"] == "2"
    assert f"{NAME}_shares.svg" in shell("figure", NAME, "--format", "svg").stdout
    page = shell("report", NAME).stdout.strip()
    text = (shell.folder / page).read_text()
    assert "From toy/up to toy/down" in text
    assert "toy_direction" in text
    assert re.search(r'id="[^"]*\.shares"', text)
