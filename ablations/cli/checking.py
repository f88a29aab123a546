"""The commands `baseline` and `check`: sweep trains, regression compares, this prints."""

from __future__ import annotations

import argparse
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.errors import UserError
from ablations.request import Request

if TYPE_CHECKING:
    from ablations.records import Plan
    from ablations.regression.baselines import Baseline
    from ablations.regression.check import Check
    from ablations.regression.curves import Curves
    from ablations.regression.from_records import Train, Wanted


def stem_of(results: Path, name: str) -> Path:
    """results/baselines/<name>/baseline, without its suffix; or in a folder given as a path."""
    folder = Path(name) if os.sep in name else results / "baselines" / name
    return folder / "baseline"


def save(plans: Sequence[Plan], results: Path, name: str, reason: str | None) -> str:
    """Stores the curves of some plans as a baseline; what to print."""
    from ablations.records import read_record
    from ablations.regression import baselines
    from ablations.regression import from_records as cells
    from ablations.regression.looks import FEWEST_OLD

    if not re.fullmatch(r"\w[\w.-]*", name):
        raise UserError(
            f"a baseline's name has letters, digits, '.', '_' and '-' alone, not '{name}'"
        )
    groups: dict[str, Any] = {}
    for plan in plans:
        groups |= cells.groups(plan, results)
    few = min(len(group.curves) for group in groups.values())
    if few < FEWEST_OLD:
        raise UserError(
            f"a baseline of {few} seeds says too little: `ablations run` with --seeds 24 first "
            f"(at least {FEWEST_OLD})"
        )
    first = read_record(results, plans[0].cells[0]["hash"])
    provenance = {} if first is None else first.provenance
    kept = ("versions", "commit", "changed", "processor", "device")
    made = baselines.updated(
        stem_of(results, name),
        name,
        groups,
        reason=reason,
        provenance={key: provenance[key] for key in kept if key in provenance},
        requests=[{"study": plan.study["name"], **plan.request} for plan in plans],
    )
    lines = [f"{name}: {len(groups)} curves of {few} seeds: {made.history[-1]['reason']}"]
    return "\n".join([*lines, str(stem_of(results, name).parent)])


def listing(results: Path) -> str:
    """Every baseline, a line each."""
    from ablations.regression import baselines

    lines = []
    for path in sorted((results / "baselines").glob("*/baseline.json")):
        one = baselines.read(path.with_suffix(""), path.parent.name)
        seeds = min(len(group.curves) for group in one.groups.values())
        last = one.history[-1]
        lines.append(
            f"{path.parent.name}: {', '.join(one.groups)}; {seeds} seeds; version "
            f"{len(one.history)} of {last['date']}: {last['reason']}"
        )
    return "\n".join(lines) or f"no baselines in '{results / 'baselines'}'"


def show(results: Path, name: str) -> str:
    """A baseline: its curves' scores, its history, where it comes from, what a check would take."""
    from ablations.regression import baselines, check
    from ablations.regression import from_records as cells
    from ablations.regression import messages as words
    from ablations.regression.curves import scores

    one = baselines.read(stem_of(results, name), name)
    lines = [name]
    for where, group in one.groups.items():
        curves = group.curves
        lines.append(
            f"  {where}: {group.metric}, {len(curves)} seeds, {len(curves.steps)} points up to "
            f"step {curves.steps[-1]:,.0f}"
        )
        for score, values in scores(curves).items():
            lines.append(
                f"    {words.SCORE_NAMES[score]}: {values.mean():.4g} ± {values.std(ddof=1):.2g} "
                f"between seeds"
            )
        terms = cells.terms(group)
        made, unit = check.layout(curves, terms)
        lines.append(f"    a check: {words.plan_line('', made, unit, terms).lstrip(': ')}")
    lines.append("  history")
    lines += [f"    {version['date']}  {version['reason']}" for version in one.history]
    lines.append("  provenance")
    lines += [f"    {what:<10} {value}" for what, value in one.provenance.items()]
    return "\n".join(lines)


@dataclass(frozen=True)
class Asked:
    """The flags of `ablations check`. seeds: bound; exact: bits alone count."""

    alpha: float
    effect: float
    seeds: int
    paired: bool
    exact: bool
    records: Path | None
    format: str
    figures: Path | None
    workers: int | None


def check(names: Sequence[str], results: Path, asked: Asked) -> int:
    """Exit code 1 where something got worse (or, with exact, where a bit differs)."""
    from ablations.regression import baselines

    found = {name: baselines.read(stem_of(results, name), name) for name in names}
    total = sum(len(one.groups) for one in found.values())
    worse = 0
    for name, baseline in found.items():
        if not baseline.requests:
            raise UserError(f"'{name}' is a baseline of pytest: `pytest` checks it")
        worse += _check_one(name, baseline, results, asked, total)
    return 1 if worse else 0


def _check_one(name: str, baseline: Baseline, results: Path, asked: Asked, total: int) -> int:
    from ablations.regression import from_records as cells
    from ablations.regression import messages as words
    from ablations.regression.check import layout

    quiet = asked.format == "markdown"
    terms = {
        where: cells.terms(
            group,
            alpha=asked.alpha / total,
            effect=asked.effect,
            most=asked.seeds,
            paired=asked.paired,
        )
        for where, group in baseline.groups.items()
    }
    if not quiet and not asked.exact and asked.records is None:
        for where, group in baseline.groups.items():
            made, unit = layout(group.curves, terms[where])
            print(words.plan_line(where, made, unit, terms[where]), flush=True)
    folder = results / "checks" / Path(name).name
    if asked.records is not None:
        given = _given(baseline, asked.records)
        checks = {} if asked.exact else cells.check_given(baseline, terms, given)
    else:
        train = _trainer(baseline, folder, results, asked.workers, quiet)
        if asked.exact:
            firsts = {
                tuple(where.split("/", 2)): group.curves.seeds[:1]
                for where, group in baseline.groups.items()
            }
            given = {"/".join(k): v for k, v in train(firsts).items()}  # type: ignore[arg-type]
            checks = {}
        else:
            checks = cells.check_all(baseline, terms, train)
    made_by = _made_by(baseline, asked.records or folder / "records")
    if asked.exact:
        return _exact(baseline, given, made_by)
    return _tell(name, baseline, checks, asked.figures or folder, asked.format, made_by)


def _exact(baseline: Baseline, given: Mapping[str, Curves], made_by: str) -> int:
    from ablations.regression.curves import first_difference, require_same_steps

    different = 0
    for where, group in baseline.groups.items():
        now = given[where]
        if now.failed:
            seed, reason = next(iter(now.failed.items()))
            print(f"{where}: differs: seed {seed} failed: {reason}")
            different += 1
            continue
        require_same_steps(now, group.curves)
        shared = [seed for seed in now.seeds if seed in group.curves.seeds]
        if not shared:
            raise UserError(f"{where}: no seed in common with the baseline: nothing to compare")
        if (differs := first_difference(now, group.curves)) is None:
            plural = "" if len(shared) == 1 else "s"
            print(f"{where}: identical, to the bit, on {len(shared)} seed{plural}")
        else:
            print(f"{where}: seed {differs[0]} differs from step {differs[1]:,.0f} on; {made_by}")
            different += 1
    return different


def _tell(
    name: str,
    baseline: Baseline,
    checks: Mapping[str, Check],
    folder: Path,
    format: str,
    made_by: str,
) -> int:
    from ablations.regression import figures
    from ablations.regression import messages as words

    metrics = {where: group.metric for where, group in baseline.groups.items()}
    shown = Path(name).name
    try:
        drawn = figures.write(folder, f"{shown}_curves", shown, checks, metrics, ("svg", "png"))[-1]
    except OSError as error:
        raise UserError(f"cannot write to '{folder}': {error.strerror}") from None
    lines = [words.line(where, found) for where, found in checks.items()]
    for where, found in checks.items():
        if found.differs is not None:
            seed, step = found.differs
            lines.append(f"{where}: bits differ from step {step:,.0f} on (seed {seed}); {made_by}")
    if format == "markdown":
        print(words.markdown(shown, checks, lines, str(drawn)))
    else:
        print("\n".join(["", words.text(checks), "", words.caption(list(checks.values()))]))
        print("\n".join(["", *lines, f"figure: {drawn}"]))
    return sum(found.verdict == "worse" for found in checks.values())


def _made_by(baseline: Baseline, records: Path) -> str:
    """Whether what made the records is what made the baseline, in words."""
    import json

    path = next((records / "cells").glob("*/record.json"), None)
    if path is None:
        return "made by an unknown version"
    now, then = json.loads(path.read_text())["provenance"], baseline.provenance
    changed = [
        f"{name} {before} → {now.get('versions', {}).get(name, 'none')}"
        for name, before in then.get("versions", {}).items()
        if now.get("versions", {}).get(name) != before
    ]
    changed += [
        f"{what} {then.get(what)} → {now.get(what)}"
        for what in ("processor", "device")
        if now.get(what) != then.get(what)
    ]
    return f"not made alike: {', '.join(changed)}" if changed else "versions and machine are alike"


def _trainer(
    baseline: Baseline, folder: Path, results: Path, workers: int | None, quiet: bool
) -> Train:
    """Trains cells anew, in a folder of their own: an old record says nothing about this code."""
    from ablations import plugins
    from ablations.regression import from_records as cells
    from ablations.sweep import local

    plugins.load()
    fresh = folder / "records"
    shutil.rmtree(fresh, ignore_errors=True)
    # Compiled programs are named by what is in them, so the old ones may serve.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str((results / "cache").resolve()))

    def train(wanted: Wanted) -> dict[tuple[str, str, str], Curves]:
        plans = []
        for request in baseline.requests:
            mine = {k: v for k, v in wanted.items() if k[0] == request["study"]}
            if mine:
                most = 1 + max(max(seeds) for seeds in mine.values())
                plan = _plan(request, most)
                for _, task, variant in mine:
                    config = cells.configuration(plan, task, variant)
                    where = cells.key(request["study"], task, variant)
                    cells.require_same_settings(baseline, where, config)
                plans.append(cells.with_seeds(plan, mine))
        local.run(plans, fresh, workers=workers, quiet=quiet)
        return {
            where: cells.read(plan, fresh, where[1], where[2], seeds)
            for plan in plans
            for where, seeds in wanted.items()
            if where[0] == plan.study["name"]
        }

    return train


def _plan(request: Mapping[str, Any], seeds: int) -> Plan:
    from ablations.sweep.plan import plan

    flags = dict(request)
    return plan(
        Request(
            study=flags["study"],
            profile=flags["profile"],
            tasks=None if flags["tasks"] is None else tuple(flags["tasks"]),
            variants=None if flags["variants"] is None else tuple(flags["variants"]),
            seeds=seeds,
            steps=flags["steps"],
            set=flags["set"],
        )
    )


def _given(baseline: Baseline, records: Path) -> dict[str, Curves]:
    """The curves in a results folder, of the last plan of each study there."""
    from ablations.records import read_plan
    from ablations.regression import from_records as cells

    found = {}
    for where in baseline.groups:
        study, task, variant = where.split("/", 2)
        plan = read_plan(records, study)
        if (task, variant) not in cells.pairs(plan):
            raise UserError(
                f"the last run of '{study}' in '{records}' has no {variant} on {task}: the "
                f"baseline '{baseline.name}' does"
            )
        cells.require_same_settings(baseline, where, cells.configuration(plan, task, variant))
        found[where] = cells.read(plan, records, task, variant)
    return found


def add_commands(command: Any, selection: Any, positive: Any, plans: Any) -> None:
    """Adds `baseline` and `check` to the parser of `ablations`.

    command, selection, positive: as in `cli`; plans: options -> the plans that the flags mean.
    """

    def _save(options: argparse.Namespace) -> None:
        print(save(plans(options), options.results, options.name, options.reason))

    def _listing(options: argparse.Namespace) -> None:
        print(listing(options.results))

    def _show(options: argparse.Namespace) -> None:
        print(show(options.results, options.baseline))

    def _check(options: argparse.Namespace) -> int:
        if not 0 < options.alpha < 0.5:
            raise UserError(f"--alpha must be between 0 and 0.5, not {options.alpha:g}")
        if not 0 < options.effect < float("inf"):
            raise UserError(f"--effect must be above 0, not {options.effect:g}")
        wanted = Asked(
            alpha=options.alpha,
            effect=options.effect,
            seeds=options.seeds,
            paired=options.paired,
            exact=options.exact,
            records=options.records,
            format=options.format,
            figures=options.figures,
            workers=options.workers,
        )
        return check(options.baselines, options.results, wanted)

    from ablations.regression import ALPHA, EFFECT, MOST_SEEDS

    one = command("baseline save", _save, "store curves, for `check` to compare with")
    selection(one, "+")
    one.add_argument("--name", required=True)
    one.add_argument("--reason", help="why; an update needs one, and keeps it")
    command("baseline list", _listing, "every baseline")
    one = command("baseline show", _show, "a baseline's scores, history and provenance")
    one.add_argument("baseline", metavar="BASELINE")

    one = command("check", _check, "train again and compare with baselines; exit code 1: got worse")
    one.add_argument("baselines", nargs="+", metavar="BASELINE", help="a name, or a folder")
    one.add_argument(
        "--alpha",
        type=float,
        default=ALPHA,
        help=f"chance of a false alarm, over all curves together; default: {ALPHA}",
    )
    one.add_argument(
        "--effect",
        type=float,
        default=EFFECT,
        help=f"smallest loss worth catching, of the task's range of returns; default: {EFFECT}",
    )
    one.add_argument(
        "--seeds",
        type=positive,
        default=MOST_SEEDS,
        metavar="N",
        help=f"at most so many; default: {MOST_SEEDS}",
    )
    one.add_argument("--paired", action="store_true", help="compare seed by seed")
    one.add_argument(
        "--exact", action="store_true", help="one seed; exit code 1 where any bit differs"
    )
    one.add_argument(
        "--records", type=Path, metavar="DIR", help="compare these records; train nothing"
    )
    one.add_argument("--format", choices=("text", "markdown"), default="text")
    one.add_argument("--figures", type=Path, metavar="DIR", help="default: checks/ in the results")
    one.add_argument("--workers", type=positive, metavar="N", help="default: one per core")
