"""What there is, in words: axes, studies, tasks; a study, a variant, a cell with its formulas."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import variants as registry
from ablations import studies, tasks, trainers
from ablations.errors import UserError, unknown
from ablations.records import Record, read_record
from ablations.request import PROFILE, Request
from ablations.sweep.plan import plan

KINDS = ("axes", "studies", "tasks", "trainers")


def catalogue(kind: str) -> dict[str, Any]:
    """Everything of one kind by name, as plain data."""
    if kind == "axes":
        return {
            name: {
                "summary": axis.summary,
                "choices": {
                    choice.name: {
                        "summary": choice.summary,
                        "formula": choice.formula,
                        "source": choice.source,
                        "revision": choice.revision,
                    }
                    for choice in axis.values()
                },
            }
            for name, axis in registry.axes().items()
        }
    if kind == "studies":
        return {
            name: {
                "title": study.title,
                "claim": study.claim,
                "baseline": study.baseline,
                "variants": list(study.variants),
                "profiles": {
                    p: {
                        "tasks": list(profile.tasks),
                        "seeds": profile.seeds,
                        "steps": profile.steps,
                    }
                    for p, profile in study.profiles.items()
                },
            }
            for name, study in studies.studies().items()
        }
    if kind == "tasks":
        return {
            name: {
                "summary": task.summary,
                "settings": dict(task.settings),
                "hyperparameters": {t: dict(h) for t, h in task.hyperparameters.items()},
                "source": task.source,
                "steps": task.steps,
                "score_range": list(task.score_range),
                "revision": task.revision,
            }
            for name, task in tasks.tasks().items()
        }
    if kind == "trainers":
        return {
            name: {
                "summary": one.summary,
                "axes": dict(one.axes),
                "numbers": {
                    n: {"default": c.default, "from": c.low, "to": c.high, "summary": c.summary}
                    for n, c in one.known_numbers().items()
                },
                "structure": {
                    n: {"default": o.default, "allowed": o.allowed, "summary": o.summary}
                    for n, o in one.structure.items()
                },
            }
            for name, one in trainers.trainers().items()
        }
    raise unknown("kind", kind, KINDS)


def catalogue_text(kind: str) -> str:
    lines: list[str] = []
    for name, one in catalogue(kind).items():
        lines.append(f"{name}: {one.get('title') or one['summary']}")
        if kind == "axes":
            lines += [f"    {c:<20} {o['summary']}" for c, o in one["choices"].items()]
        elif kind == "studies":
            few = one["variants"][:6]
            more = len(one["variants"]) - len(few)
            lines.append(f"    variants  {', '.join(few)}{f' and {more} more' if more else ''}")
            lines += [
                f"    {p:<9} {p_['seeds']} seeds on {', '.join(p_['tasks'])}"
                for p, p_ in one["profiles"].items()
            ]
        elif kind == "tasks":
            settings = ", ".join(f"{n}={v}" for n, v in one["settings"].items())
            lines.append(f"    settings  {settings}")
        else:
            for table in ("numbers", "structure"):
                lines += [f"    {n}={o['default']}: {o['summary']}" for n, o in one[table].items()]
    return "\n".join(lines)


def show(name: str, results: Path, profile: str = PROFILE) -> str:
    """A study, a variant ("gae/brax", or its name alone where only one study has it), or a cell
    (its hash, or the beginning of it), resolved."""
    known = studies.studies()
    if name in known:
        return _study(name, profile)
    study, _, variant = name.rpartition("/")
    owners = [s for s in known if variant in known[s].variants and study in ("", s)]
    if len(owners) == 1:
        return _variant(owners[0], variant, profile)
    if len(owners) > 1:
        choices = ", ".join(f"{owner}/{variant}" for owner in owners)
        raise UserError(f"several studies have a variant '{name}': say which one: {choices}")
    if record := _find_cell(name, results):
        return _cell(record)
    every = [*known, *(f"{s}/{v}" for s in known for v in known[s].variants)]
    raise unknown("study, variant or cell", name, every)


def _study(name: str, profile: str) -> str:
    study = studies.study(name)
    resolved = plan(Request(name, profile))
    lines = [
        f"{name}: {study.title}",
        f"claim     {study.claim}",
        f"stated in {study.claim_source}",
        f"baseline  {study.baseline}",
        f"margin    {study.margin:g} of a task's score unit: "
        + ", ".join(
            f"{study.margin * t['score_unit']:.3g} on {n}" for n, t in resolved.tasks.items()
        ),
        f"profile   {profile}: {len(resolved.cells)} cells, {len(resolved.seeds)} seeds, "
        + ", ".join(f"{t['steps']:,} steps on {n}" for n, t in resolved.tasks.items()),
        "",
    ]
    for variant in resolved.variants:
        lines += [*_variant_lines(resolved, variant), ""]
    return "\n".join(lines).rstrip()


def _variant(study: str, variant: str, profile: str) -> str:
    resolved = plan(Request(study, profile))
    if variant not in resolved.variants:
        resolved = plan(Request(study, profile, variants=(variant, studies.study(study).baseline)))
    lines = _variant_lines(resolved, variant)
    for task in resolved.tasks:
        config = _config(resolved, task, variant)
        lines += ["", f"on {task}:", *_config_lines(config)]
    return "\n".join(lines)


def _cell(record: Record) -> str:
    lines = [f"cell {record.hash}: {record.status}"]
    if record.reason:
        lines.append(f"reason     {record.reason}")
    lines.append(f"seed       {record.config['seed']}")
    lines += _config_lines(record.config)
    lines.append("provenance")
    lines += [f"    {name:<20} {value}" for name, value in record.provenance.items()]
    return "\n".join(lines)


def _variant_lines(resolved: Any, variant: str) -> list[str]:
    described = resolved.variants[variant]
    baseline = described["versus"] or resolved.study["baseline"]
    lines = [f"{variant}" + (f": {described['summary']}" if described["summary"] else "")]
    task = next(iter(resolved.tasks))
    mine = _config(resolved, task, variant)
    if variant == baseline:
        lines.append("    a baseline; it sets")
        different = dict(described["sets"])
    else:
        lines.append(f"    differs from {baseline} in")
        theirs = _flat(_config(resolved, task, baseline)) if baseline in resolved.variants else {}
        different = {n: v for n, v in _flat(mine).items() if theirs.get(n) != v}
    for name, value in different.items():
        lines.append(f"    {name} = {value}")
        if name in mine["choices"]:
            choice = registry.axis(name)[value]
            lines += [
                f"        {line.strip()}" for line in choice.formula.splitlines() if line.strip()
            ]
            lines.append(f"        ({choice.source})")
    return lines


def _config_lines(config: Mapping[str, Any]) -> list[str]:
    task = config["task"]
    if "imported" in config:
        told = {"task": task["name"], "run": config["variant"], **(config["imported"] or {})}
        return ["imported", *(f"    {name:<26} {value}" for name, value in told.items())]
    sections: dict[str, Mapping[str, Any]] = {
        f"task {task['name']} (revision {task['revision']})": task["settings"],
        "choices": {
            n: f"{c['name']} (revision {c['revision']})" for n, c in config["choices"].items()
        },
        "numbers": {n: f"{v:g}" for n, v in config["numbers"].items()},
        "structure": config["structure"],
        "run": config["run"],
    }
    lines = []
    for title, values in sections.items():
        lines.append(title)
        lines += [f"    {name:<26} {value}" for name, value in values.items()]
    return lines


def _config(resolved: Any, task: str, variant: str) -> Mapping[str, Any]:
    return next(c["config"] for c in resolved.cells if (c["task"], c["variant"]) == (task, variant))


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    choices = {name: choice["name"] for name, choice in config["choices"].items()}
    return choices | dict(config["numbers"]) | dict(config["structure"])


def _find_cell(name: str, results: Path) -> Record | None:
    if len(name) < 4 or not set(name) <= set("0123456789abcdef"):
        return None
    found = sorted(path.name for path in (results / "cells").glob(f"{name}*"))
    if len(found) > 1:
        raise UserError(f"several cells begin with '{name}': {', '.join(found[:5])}")
    return read_record(results, found[0]) if found else None
