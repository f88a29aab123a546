"""Every command: the module that has it, and its line in the help of all commands."""

from __future__ import annotations

from ablations.cli.arguments import Command

COMMANDS = {
    "Run": {
        "run": Command("running", "train the missing runs of a study"),
        "sweep": Command("sweeping", "compare values of any setting, or presets"),
        "explain": Command("explaining", "which settings cause the gap between two presets"),
        "status": Command(
            "watching",
            "state of every run; --cancel removes jobs from the queue",
            "of its studies",
            only_reads=True,
        ),
        "work": Command("running", "train runs of a stored plan, beside workers elsewhere"),
    },
    "Analyse": {
        "table": Command("results", "print the comparison", "of its studies", only_reads=True),
        "figure": Command("results", "draw figures", "of its studies", only_reads=True),
        "report": Command(
            "results",
            "write one page with every study, or the published answers",
            "of its studies",
            only_reads=True,
        ),
        "show": Command(
            "describe", "describe a study, component, preset, setting, task or run", "nothing"
        ),
        "list": Command(
            "catalogue", "list studies, tasks, presets, components, trainers or runs", "nothing"
        ),
    },
    "Design": {
        "validate": Command("examining", "whether a baseline learns enough on a task"),
        "tune": Command("examining", "choose hyperparameters of each variant on separate seeds"),
    },
    "Test": {
        "check": Command("checking", "compare new runs with stored curves, or store curves"),
        "gate": Command("gating", "run a command before and after a change and compare"),
    },
    "Data": {
        "import": Command("exchanging", "read runs that were trained elsewhere"),
        "export": Command("exchanging", "write runs for other tools", only_reads=True),
        "render": Command("results", "show saved policies, as a page or a GIF", only_reads=True),
        "clean": Command("watching", "delete temporary files, or a study", "nothing"),
    },
}
