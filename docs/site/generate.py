"""The reference pages, generated from the code: commands, functions, components, presets, studies."""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import notebook
from rich.console import Console

import ablations
import variants
from ablations import cli, presets, studies, tasks, trainers
from ablations.trainers import TrainerSpec
from ablations.trainers.values import FIELD_NAMES

DOCS = Path(__file__).parents[1]
HEAD = "Generated from the code.\n"


def pages() -> dict[str, str]:
    """Return the text of each page by its path in the repository."""
    made = {
        "commands": commands(),
        "python": functions(),
        "components": components(),
        "presets": listed_presets(),
        "studies": listed_studies(),
    }
    reference = {f"docs/reference/{name}.md": text for name, text in made.items()}
    return reference | {"docs/notebook.md": notebook.markdown(DOCS / "notebook.ipynb")}


def plain(text: str) -> str:
    """Escape Markdown and HTML, except in code, for a table."""
    parts = re.split(r"(`[^`]*`)", text)
    for place in range(0, len(parts), 2):
        part = parts[place].replace("&", "&amp;").replace("<", "&lt;")
        parts[place] = re.sub(r"([*_\[\]])", r"\\\1", part)
    return "".join(parts).replace("|", "\\|").replace("\n", " ")


def rows(heads: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Write a Markdown table."""
    heads = list(heads)
    body = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *body, ""])


# Commands


def commands() -> str:
    """Write the help of every command."""
    parts = [
        "# Commands",
        "",
        HEAD,
        "Exit codes: 0; 1 if runs failed or something got worse; 2 for bad input; 3 if a gate is undecided.",
        "",
        rows(
            ["command", ""],
            (
                (f"[`{name}`](#ablations-{name})", plain(command.summary))
                for name, command in cli.commands().items()
            ),
        ),
    ]
    for name in cli.commands():
        screen = io.StringIO()
        cli.app(name, rare=True).help_print([], console=Console(file=screen, width=80))
        parts.append(f"## ablations {name}\n\n```text\n{screen.getvalue().strip()}\n```\n")
    return "\n".join(parts)


# Python

_API = {
    "ablations": (ablations, ablations.__all__),
    "ablations.studies": (
        studies,
        ("Study", "Variant", "Profile", "Tuning", "register", "crossed", "fraction"),
    ),
    "ablations.tasks": (tasks, ("Task", "register")),
    "ablations.trainers": (
        trainers,
        ("Trainer", "TracedConfig", "TrainerSpec", "Option", "register"),
    ),
    "variants": (variants, ("axis", "axes", "Axis", "Choice", "Number", "register", "conflicts")),
}


def functions() -> str:
    """Write the functions and types that a user's code calls."""
    parts = [
        "# Python API",
        "",
        HEAD,
        "The functions of `ablations` accept the flags of the commands as keywords, see `Selection`.",
        "",
    ]
    for module, (holder, names) in _API.items():
        parts.append(f"## {module}\n")
        parts += [_documented(module, name, getattr(holder, name)) for name in names]
    from ablations.regression.fixture import LearningCurve

    parts.append("## The pytest fixture\n")
    parts.append(_documented("learning_curve", "check", LearningCurve.check))
    return "\n".join(parts)


def _documented(module: str, name: str, thing: Any) -> str:
    lines = [f"### {module}.{name}\n", "```python", _signature(name, thing), "```\n"]
    return "\n".join([*lines, docstring(inspect.getdoc(thing) or ""), ""])


def _signature(name: str, thing: Any) -> str:
    if inspect.isclass(thing) and not is_dataclass(thing) and thing.__init__ is object.__init__:
        return f"class {name}"
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return f"class {name}"
    if len(str(signature)) < 60:
        return _unquoted(f"{name}{signature}")
    parts: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if parameter.name != "self":
            parts.append(str(parameter))
    returns = (
        ""
        if signature.return_annotation is signature.empty
        else f" -> {signature.return_annotation}"
    )
    return _unquoted(f"{name}(\n    " + ",\n    ".join(parts) + f",\n){returns}")


def _unquoted(signature: str) -> str:
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", signature)


def docstring(text: str) -> str:
    """Write a docstring as Markdown: sections and "name: meaning" as lists, code as code."""
    out: list[str] = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("    "):
            out.append(f"```python\n{inspect.cleandoc(paragraph)}\n```")
            continue
        lines = paragraph.splitlines()
        if lines and lines[0] in ("Args:", "Returns:", "Raises:"):
            out.append(f"**{lines[0][:-1]}**")
            lines = inspect.cleandoc("\n".join(lines[1:])).splitlines()
        out.append(_entries(lines))
    return "\n\n".join(out)


NAMES = re.compile(r"(?:^|(?<=[.;] ))(\*{0,2}\w+(?:, \w+)*): ")


def entries(text: str) -> list[tuple[str, str]]:
    """Split "name: meaning. other, names: meaning." into pairs."""
    _, *parts = NAMES.split(text)
    return [
        (names, meaning.strip()) for names, meaning in zip(parts[::2], parts[1::2], strict=True)
    ]


def _entries(lines: list[str]) -> str:
    """Write "name: meaning" as a list; other text as it is."""
    text = " ".join(line.strip() for line in lines)
    before = NAMES.split(text)[0]
    listed = (f"- `{names}`: {plain(meaning)}" for names, meaning in entries(text))
    return "\n".join([*([plain(before), ""] if before else []), *listed])


# The registry


def components() -> str:
    """Write every component with its choices, formulas and sources, and the settings of trainers."""
    used: dict[tuple[str, str], list[str]] = {}
    for name, preset in presets.presets().items():
        for setting, value in preset.values().items():
            used.setdefault((setting, str(value)), []).append(name)
    parts = ["# Components and settings", "", HEAD]
    parts.append(
        "A component is a part of a trainer. Each of its choices is one pure function. `ablations show COMPONENT` prints the same.\n"
    )
    of = {
        axis: [t.name for t in trainers.trainers().values() if axis in t.axes]
        for axis in variants.axes()
    }
    parts.append(
        rows(
            ["component", "decides", "trainers"],
            (
                (f"[`{a.name}`](#{a.name})", plain(a.summary), ", ".join(of[a.name]))
                for a in variants.axes().values()
            ),
        )
    )
    parts.append("The [settings of the trainers](#settings-of-ppo) are at the end of the page.\n")
    for axis in variants.axes().values():
        parts.append(f"## {axis.name}\n\n{plain(axis.summary).capitalize()}.\n")
        for choice in axis.values():
            parts.append(f"### {axis.name}={choice.name}\n\n{plain(choice.summary)}\n")
            parts.append(f"```text\n{inspect.cleandoc(choice.formula)}\n```\n")
            if choice.numbers:
                parts.append(
                    rows(["hyperparameter", "default", "range", ""], _numbers(choice.numbers))
                )
            who = used.get((axis.name, choice.name))
            parts.append(
                f"Source: {plain(choice.source)}."
                + (f" Used by {', '.join(who)}." if who else "")
                + "\n"
            )
    for trainer in trainers.trainers().values():
        if isinstance(trainer, TrainerSpec) and trainer.axes:
            parts.append(f"## Settings of {trainer.name}\n\n{plain(trainer.summary)}\n")
            parts.append("Tasks and presets have their own defaults: `ablations show NAME`.\n")
            parts.append(
                rows(["hyperparameter", "default", "range", ""], _numbers(trainer.known_numbers()))
            )
            parts.append(
                rows(
                    ["static setting", "default", ""],
                    (
                        (f"`{n}`", f"`{o.default}`", plain(o.summary))
                        for n, o in trainer.structure.items()
                    ),
                )
            )
    return "\n".join(parts)


def _numbers(numbers: Mapping[str, variants.Number]) -> Iterator[tuple[str, ...]]:
    for name, number in numbers.items():
        yield (
            f"`{name}`",
            f"{number.default:g}",
            f"{number.low:g} to {number.high:g}",
            plain(number.summary),
        )


def listed_studies() -> str:
    """Write the studies and tasks that come with the suite."""
    parts = ["# Studies and tasks", "", HEAD, "## Studies\n"]
    parts.append(
        rows(
            ["study", "claim", "stated in"],
            (
                (f"`{s.name}`", plain(s.claim), plain(s.claim_source))
                for s in studies.studies().values()
            ),
        )
    )
    parts.append("## Tasks\n")
    parts.append(
        rows(["task", ""], ((f"`{t.name}`", plain(t.summary)) for t in tasks.tasks().values()))
    )
    return "\n".join(parts)


def listed_presets() -> str:
    """Write each library's own arguments, what they are here, and the names of the field."""
    parts = [
        "# Presets and library names",
        "",
        HEAD,
        "The arguments of each library, and the settings that they become. [Library presets](../presets.md) explains how presets are tested.\n",
    ]
    parts.append("## Library names\n\nThese names are accepted wherever settings are given.\n")
    named: dict[str, list[str]] = {}
    for theirs, ours in FIELD_NAMES.items():
        named.setdefault(ours, []).append(f"`{theirs}`")
    parts.append(
        rows(
            ["here", "elsewhere"],
            ((f"`{ours}`", ", ".join(theirs)) for ours, theirs in named.items()),
        )
    )
    sections = {
        name: preset
        for found, one in presets.presets().items()
        for name, preset in ((found, one), (f"{found} on discrete actions", one.discrete))
        if preset is not None
    }
    for name, preset in sections.items():
        parts.append(f"## {name}\n\n{plain(preset.library)}\n")
        parts.append(
            "Its arguments: "
            + ", ".join(f"`{a}={v!r}`" for a, v in preset.arguments.items())
            + ".\n"
        )
        read = preset.read().items()
        parts.append(
            rows(
                ["setting", "value", "read in"],
                ((f"`{s}`", f"`{v}`", plain(where)) for s, (v, where) in read),
            )
        )
        parts += [*(f"- {plain(words)}" for words in preset.in_words), ""]
    return "\n".join(parts)
