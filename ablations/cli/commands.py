"""Every command: the module that has it, and what the help of all says of it."""

from __future__ import annotations

from ablations.cli.arguments import Command

COMMANDS = {
    "list": Command("catalogue", "what there is", "nothing"),
    "show": Command(
        "describe",
        "a study, variant, cell, preset, setting or task, resolved; published answers",
        "nothing",
    ),
    "run": Command("running", "run what a study needs and nobody has"),
    "status": Command(
        "watching",
        "the state of every run; --cancel takes jobs out of the cluster's queue",
        "of its studies",
        only_reads=True,
    ),
    "compare": Command(
        "comparing", "values of any setting, or libraries: a study by itself, and its table"
    ),
    "tune": Command(
        "examining",
        "choose each variant's learning rate, or what a study tunes, on seeds of its own",
    ),
    "exam": Command(
        "examining", "whether a baseline learns enough on tasks to judge details there"
    ),
    "explain": Command(
        "explaining", "which details make the gap between two presets, or two variants of studies"
    ),
    "table": Command("results", "the results in numbers", "of its studies", only_reads=True),
    "figure": Command(
        "results",
        "learning curves, differences and more, ready for a paper",
        "of its studies",
        only_reads=True,
    ),
    "report": Command(
        "results",
        "every study on one self-contained page, report/index.html; or the published answers",
        "of its studies",
        only_reads=True,
    ),
    "render": Command(
        "results", "episodes of saved policies, to watch: a page or a GIF", only_reads=True
    ),
    "export": Command(
        "exchanging", "runs for other tools, or as an archive to be committed", only_reads=True
    ),
    "import": Command("exchanging", "other people's runs, for our statistics and page"),
    "clean": Command(
        "watching",
        "delete temporary files, or a study with its own runs (dry run unless --yes)",
        "nothing",
    ),
    "check": Command(
        "checking",
        "train again and compare with stored curves (exit code 1: got worse), or store them",
    ),
    "gate": Command(
        "gating",
        "run a command before and after a change: no worse (exit code 0), worse (1), undecided (3)",
    ),
}
