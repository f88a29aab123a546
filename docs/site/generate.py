"""The pages that are made from the code: commands, functions, axes, settings, studies, columns."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import notebook

import ablations
import variants
from ablations import presets, studies, tasks, trainers
from ablations.cli import parser
from ablations.comparison import compare
from ablations.trainers import Definition
from ablations.trainers.field_names import FIELD_NAMES

DOCS = Path(__file__).parents[1]
HEAD = "Made from the code by `python docs/site/build.py`.\n"


def pages() -> dict[str, str]:
    """Return the text of each page by its path in the repository."""
    made = {
        "cli": commands(),
        "python": functions(),
        "axes": axes(),
        "settings": settings(),
        "studies": listed_studies(),
        "presets": listed_presets(),
        "tables": columns(),
    }
    reference = {f"docs/reference/{name}.md": text for name, text in made.items()}
    return reference | {"docs/notebook.md": notebook.markdown(DOCS / "notebook.ipynb")}


def plain(text: str) -> str:
    """Escape what Markdown and HTML would take for their own, outside of code and for cells of a table."""
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
    """Write every command with its flags."""
    subparsers = next(a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    summaries = {a.dest: a.help for a in subparsers._choices_actions}
    parts = [
        "# Commands",
        "",
        HEAD,
        "Exit codes: 0; 1 where cells failed or something got worse; 2 for bad input, with one line; 3 where a gate stays undecided.",
        "",
    ]
    parts.append(
        rows(
            ["command", ""],
            ((f"[`{n}`](#ablations-{n})", plain(h or "")) for n, h in summaries.items()),
        )
    )
    for command in subparsers.choices.values():
        parts += _command(command)
    return "\n".join(parts)


def _command(command: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## {command.prog}\n\n{plain(command.description or '')}\n"
    shown = [a for a in command._actions if a.help is not argparse.SUPPRESS and a.dest != "help"]
    yield rows(["argument", ""], [(f"`{_form(a)}`", plain(_help(command, a))) for a in shown])


def _form(action: argparse.Action) -> str:
    metavar = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    if not action.option_strings:
        return str(metavar)
    values = "" if action.nargs == 0 else f" {metavar}"
    return (
        ", ".join(action.option_strings) + values + (" ..." if action.nargs in ("+", "*") else "")
    )


def _help(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    return command._get_formatter()._expand_help(action) if action.help else ""


# Python

_API = {
    "ablations": (ablations, ablations.__all__),
    "ablations.studies": (
        studies,
        ("Study", "Variant", "Profile", "Tuning", "register", "crossed", "fraction"),
    ),
    "ablations.tasks": (tasks, ("Task", "register")),
    "ablations.trainers": (trainers, ("Trainer", "Variant", "Definition", "Option", "register")),
    "variants": (variants, ("axis", "axes", "Axis", "Choice", "Number", "register", "conflicts")),
}


def functions() -> str:
    """Write the functions and types that a user's code calls."""
    parts = [
        "# Python",
        "",
        HEAD,
        "The functions of `ablations` take the selection of the commands as keywords, see `Selection`.",
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


def axes() -> str:
    """Write every axis with its choices, their formulas and sources, and who uses them."""
    used: dict[tuple[str, str], list[str]] = {}
    for name, preset in presets.presets().items():
        for setting, value in preset.values().items():
            used.setdefault((setting, str(value)), []).append(name)
    parts = ["# Axes and choices", "", HEAD]
    parts.append(
        "An axis is a design decision; each of its choices is one pure function. In a terminal: `ablations show AXIS`.\n"
    )
    of = {
        axis: [t.name for t in trainers.trainers().values() if axis in t.axes]
        for axis in variants.axes()
    }
    parts.append(
        rows(
            ["axis", "decides", "of"],
            (
                (f"[`{a.name}`](#{a.name})", plain(a.summary), ", ".join(of[a.name]))
                for a in variants.axes().values()
            ),
        )
    )
    for axis in variants.axes().values():
        parts.append(f"## {axis.name}\n\n{plain(axis.summary).capitalize()}.\n")
        for choice in axis.values():
            parts.append(f"### {axis.name}={choice.name}\n\n{plain(choice.summary)}\n")
            parts.append(f"```text\n{inspect.cleandoc(choice.formula)}\n```\n")
            if choice.numbers:
                parts.append(rows(["number", "default", "range", ""], _numbers(choice.numbers)))
            who = used.get((axis.name, choice.name))
            parts.append(
                f"Source: {plain(choice.source)}."
                + (f" Used by {', '.join(who)}." if who else "")
                + "\n"
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


def settings() -> str:
    """Write the numbers and options of each trainer."""
    parts = [
        "# Settings of the trainers",
        "",
        HEAD,
        "What `--set NAME=VALUE` and a variant may say, beside the [choices of axes](axes.md). Tasks and presets have defaults of their own: `ablations show NAME`.\n",
    ]
    for trainer in trainers.trainers().values():
        if isinstance(trainer, Definition) and trainer.axes:
            parts.append(
                f"## {trainer.name}\n\n{plain(trainer.summary)}\n\n### Numbers of {trainer.name}\n"
            )
            parts.append(
                rows(["number", "default", "range", ""], _numbers(trainer.known_numbers()))
            )
            parts.append(
                f"### Structure of {trainer.name}\n\nEach value is a program of its own.\n"
            )
            parts.append(
                rows(
                    ["option", "default", ""],
                    (
                        (f"`{n}`", f"`{o.default}`", plain(o.summary))
                        for n, o in trainer.structure.items()
                    ),
                )
            )
    return "\n".join(parts)


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
        "# Presets, and the names of other libraries",
        "",
        HEAD,
        "What a library's arguments are here: [every library's PPO](../presets.md) says how each was proven. In a terminal: `ablations show PRESET`.\n",
    ]
    parts.append("## Names of the field\n\nUnderstood wherever settings are given.\n")
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
        for name, preset in (
            (found, one),
            (f"{found} where actions are whole numbers", one.discrete),
        )
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


def columns() -> str:
    """Write the columns of the files of a comparison."""
    parts = [
        "# Columns of tables",
        "",
        HEAD,
        "What a printed table shows, and what its verdicts mean, is in [reading a table](../tables.md). These are the columns of `ablations table STUDY --format csv` or `json`, and of the data frame of `ablations.table`; of `--kind effects` and the like the caption says them.\n",
    ]
    parts.append(
        rows(
            ["column", ""],
            (
                (", ".join(f"`{n}`" for n in names), plain(meaning))
                for names, meaning in column_meanings().items()
            ),
        )
    )
    return "\n".join(parts)


def column_meanings() -> dict[tuple[str, ...], str]:
    """Return the meaning of each group of columns, from the docstring of `compare`."""
    text = inspect.getdoc(compare).partition("Columns:\n")[2].partition("\n\n")[0]
    return {tuple(names.split(", ")): meaning for names, meaning in entries(" ".join(text.split()))}
