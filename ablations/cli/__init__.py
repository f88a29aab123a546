"""The front door: parses, calls one function, prints.

What a command needs is imported when it runs: `ablations table` starts neither JAX nor a trainer.
"""

from __future__ import annotations

import argparse
import errno
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ablations.errors import UserError
from ablations.request import PROFILE, Request, parse_settings

if TYPE_CHECKING:
    from ablations.records import Plan

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
FORMATS = {"markdown": "md", "latex": "tex", "csv": "csv", "html": "html", "json": "json"}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see `{self.prog} --help`)")


class _Version(argparse.Action):
    def __call__(self, *_: Any) -> NoReturn:
        from importlib.metadata import version

        print(f"rl-ablations {version('rl-ablations')}")
        sys.exit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 1 where cells failed or something got worse, 2 for bad input, 130 after
    Ctrl-C.
    """
    try:
        options = _parser().parse_args(arguments)
        if options.plugin:
            from ablations import plugins

            plugins.load(options.plugin)
        return options.command(options) or 0
    except UserError as error:
        print(f"ablations: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if error.name not in ("jax", "flax", "optax", "brax"):
            raise
        print(
            f"ablations: this command needs {error.name}: pip install 'rl-ablations[train]'",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print("ablations: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        where = f"'{error.filename}'" if error.filename else f"to '{options.results}'"
        print(
            f"ablations: cannot write {where}: {error.strerror}: make room or give another "
            f"--results; what is done is safe",
            file=sys.stderr,
        )
        return 2


def _list(options: argparse.Namespace) -> None:
    from ablations.cli import describe

    _load_installed_plugins()
    if options.json:
        print(json.dumps(describe.catalogue(options.kind), indent=1, ensure_ascii=False))
    else:
        print(describe.catalogue_text(options.kind))


def _show(options: argparse.Namespace) -> None:
    from ablations.cli import describe

    _load_installed_plugins()
    print(describe.show(options.name, options.results, options.profile))


def _table(options: argparse.Namespace) -> None:
    from ablations.report import formats, tables

    for plan in _plans(options):
        if options.kind == "comparison":
            table = tables.table(plan, options.results, metric=options.metric, score=options.score)
            text = formats.render(table, options.format)
        else:
            sheet = tables.sheet(options.kind, plan, options.results, metric=options.metric)
            text = formats.render(sheet, options.format)
        if options.output:
            _write(options.output / f"{plan.study['name']}.{FORMATS[options.format]}", text)
        else:
            print(f"{text}\n")


def _diagnose(options: argparse.Namespace) -> None:
    from ablations.report import formats
    from ablations.report.tables import diagnostics
    from ablations.sweep import diagnosis

    plans = _resolved(options)
    diagnosis.run(plans, options.results, workers=options.workers, quiet=options.quiet)
    for plan in plans:
        jobs = diagnosis.jobs(plan)
        measured = diagnostics.read_measured(
            diagnosis.folder(options.results), ((job.task, job.seed, job.hash) for job in jobs)
        )
        found = [
            diagnostics.estimates_sheet(plan, measured, jobs[0].reference),
            diagnostics.training_sheet(plan, options.results),
        ]
        for sheet in found:
            if sheet is None:
                continue
            text = formats.render(sheet, options.format)
            if options.output:
                name = f"{sheet.study}_{sheet.kind}.{FORMATS[options.format]}"
                _write(options.output / name, text)
            else:
                print(f"{text}\n")


def _figure(options: argparse.Namespace) -> None:
    from ablations.report import figures

    folder = options.output or options.results / "figures"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder '{folder}': {error.strerror}") from None
    for plan in _plans(options):
        for path in figures.figure(
            plan, options.results, folder, metric=options.metric, formats=options.format
        ):
            print(path)


def _report(options: argparse.Namespace) -> None:
    if options.watch:
        _watch(options)
        return
    from ablations.report import page

    print(page.write(_plans(options), options.results))


def _watch(options: argparse.Namespace) -> None:
    from ablations.report.page.live import Live
    from ablations.sweep.status import status

    asked = list(options.studies)

    def plans() -> list[Plan]:
        options.studies = list(asked)
        return _plans(options)

    def running(plans: Sequence[Plan]) -> list[dict[str, Any]]:
        return [row for row in status(plans, options.results).rows if row["state"] == "running"]

    plans()
    with Live(plans, options.results, running, options.port) as server:
        print(f"{server.address} follows the records in '{options.results}'; Ctrl-C ends it")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def _render(options: argparse.Namespace) -> None:
    from ablations.episode import render as rendering

    _load_installed_plugins()
    (plan,) = _plans(options)
    made = rendering.render(
        plan,
        options.results,
        task=options.task,
        variants=options.variant or [None],
        seed=options.seed,
        snapshots=options.snapshots,
        format=options.format,
        output=options.output,
        length=options.length,
    )
    for note in made.notes:
        print(note, file=sys.stderr)
    print(made.path)


def _export(options: argparse.Namespace) -> None:
    from ablations import exchange

    suffix = {"csv": ".csv", "parquet": ".parquet", "marl-eval": ".json"}[options.format]
    path = options.output or options.results / "export" / f"runs{suffix}"
    exchange.export(_plans(options), options.results, path, options.format, options.metric)
    print(path)


def _import(options: argparse.Namespace) -> None:
    from ablations import exchange

    wanted = exchange.Options(
        metric=options.metric,
        baseline=options.baseline,
        margin=options.margin,
        pattern=options.pattern,
        title=options.title,
        claim=options.claim,
        claim_source=options.source,
    )
    plan = exchange.import_runs(options.paths, options.study, options.results, wanted)
    print(
        f"{len(plan.variants)} runs with {len(plan.seeds)} seeds on {', '.join(plan.tasks)}: "
        f"`ablations table {options.study}` and `ablations report {options.study}` know them now"
    )


def _policies(options: argparse.Namespace) -> None:
    from ablations import policies

    where = {"task": options.task, "variant": options.variant, "seed": options.seed}
    cell = options.results / "cells" / options.name
    if not (options.name and (cell / "record.json").exists()):
        cell = policies.find_cell(options.name, results=options.results, **where)
    if options.brax is None:
        print(policies.listing(cell))
        return
    step = int(options.step) if options.step.isdecimal() else options.step
    policy = policies.load_policy(cell, step)
    try:
        print(policy.save_for_brax(options.brax))
    except OSError as error:
        raise UserError(f"cannot write '{options.brax}': {error.strerror}") from None


def _clean(options: argparse.Namespace) -> None:
    from ablations.sweep.clean import delete, waste

    found = waste(options.results)
    if not found:
        print(f"nothing to clean in '{options.results}'")
    for one in found:
        print(f"{one.bytes / 1e6:9.1f} MB  {len(one.paths):5}  {one.what}")
    if options.yes:
        delete(options.results, found)
    elif found:
        print("`ablations clean --yes` deletes these")


def _write(path: Path, text: str) -> None:
    from ablations.records import write_atomically

    try:
        write_atomically(path, text if text.endswith("\n") else text + "\n")
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None


def _requests(options: argparse.Namespace) -> list[Request]:
    return [
        Request(
            study=study,
            profile=options.profile or PROFILE,
            tasks=None if options.tasks is None else tuple(options.tasks),
            variants=None if options.variants is None else tuple(options.variants),
            seeds=options.seeds,
            steps=options.steps,
            set=_settings(options),
        )
        for study in options.studies
    ]


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    settings = parse_settings(options.set or [])
    if options.evaluations is not None:
        settings["evaluations"] = options.evaluations
    return settings


def _resolved(options: argparse.Namespace) -> list[Plan]:
    _load_installed_plugins()
    return [_resolve(request) for request in _requests(options)]


def _resolve(request: Request) -> Plan:
    from ablations.sweep.plan import plan

    return plan(request)


def _plans(options: argparse.Namespace) -> list[Plan]:
    """The plans that the selection flags mean: as stored by `run` where it ran with the same flags,
    which needs no JAX; resolved again where it did not; without flags the last that ran."""
    from ablations.records import digest, read_plan

    if not options.studies:
        options.studies = sorted(
            path.parent.name for path in (options.results / "plans").glob("*/last")
        )
        if not options.studies:
            raise UserError(
                f"nothing has run in '{options.results}': start with `ablations run STUDY`, "
                f"or name another folder with --results"
            )
    flags = (
        options.profile,
        options.tasks,
        options.variants,
        options.seeds,
        options.steps,
        options.evaluations,
        options.set,
    )
    if all(flag is None for flag in flags):
        return [read_plan(options.results, study) for study in options.studies]
    found = []
    for request in _requests(options):
        name = digest(request.flags())
        if (options.results / "plans" / request.study / f"{name}.json").exists():
            found.append(read_plan(options.results, request.study, name))
        else:
            _load_installed_plugins()
            found.append(_resolve(request))
    return found


def _load_installed_plugins() -> None:
    from ablations import plugins

    plugins.load()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ablations",
        description="Does this RL implementation detail matter? Paired ablations, honest tables.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print it and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    families: dict[str, Any] = {}

    def command(name: str, function: Any, summary: str) -> argparse.ArgumentParser:
        """ "clean"; or "baseline save", one of a family."""
        family, _, own = name.rpartition(" ")
        if family and family not in families:
            families[family] = commands.add_parser(
                family, help=f"what to do with a {family}"
            ).add_subparsers(title="commands", metavar="COMMAND", required=True)
        one = (families[family] if family else commands).add_parser(
            own, help=summary, description=summary[0].upper() + summary[1:] + "."
        )
        one.set_defaults(command=function)
        one.add_argument(
            "--results", type=Path, default=Path("results"), metavar="DIR", help="default: results"
        )
        one.add_argument(
            "--plugin",
            action="append",
            metavar="MODULE",
            help="a module of yours that registers choices, tasks or studies",
        )
        return one

    one = command("list", _list, "what there is")
    one.add_argument("kind", nargs="?", default="studies", help="axes, studies, tasks or trainers")
    one.add_argument("--json", action="store_true")

    one = command("show", _show, "the resolved configuration: formulas, coefficients, differences")
    one.add_argument("name", metavar="STUDY|VARIANT|CELL")
    one.add_argument("--profile", default=PROFILE)

    from ablations.cli import checking as cli_check
    from ablations.cli import running as cli_sweep

    numbers = {"positive": _positive, "natural": _natural, "minutes": _minutes}
    cli_sweep.add_commands(command, _selection, numbers, _resolved, _plans)

    one = command("table", _table, "the results in numbers")
    _selection(one, "+")
    one.add_argument(
        "--kind",
        choices=("comparison", "effects", "efficiency", "power"),
        default="comparison",
        help="what of a study: its comparisons (default), the effects of a factorial, sample "
        "efficiency, or the seeds it needs",
    )
    one.add_argument("--format", choices=FORMATS, default="markdown")
    one.add_argument("--metric", help="another column of the curves, such as evaluation/return")
    one.add_argument("--score", choices=("final", "auc"), default="final")
    one.add_argument(
        "--output", type=Path, metavar="DIR", help="write <study>.md, .tex, ... there instead"
    )

    one = command("diagnose", _diagnose, "bias and variance of advantages, and what training met")
    _selection(one, "+")
    one.add_argument("--format", choices=FORMATS, default="markdown")
    one.add_argument("--output", type=Path, metavar="DIR", help="write files there instead")
    one.add_argument("--workers", type=_positive, metavar="N", help="default: one per core")
    one.add_argument("--quiet", action="store_true", help="no progress on stderr")

    one = command("figure", _figure, "learning curves, differences and more, ready for a paper")
    _selection(one, "+")
    one.add_argument(
        "--format",
        nargs="+",
        choices=("svg", "png", "pdf"),
        default=["svg", "png"],
        help="default: svg png",
    )
    one.add_argument("--metric", help="another column of the curves, such as evaluation/return")
    one.add_argument(
        "--output", type=Path, metavar="DIR", help="default: figures/ in the results folder"
    )

    one = command("report", _report, "every study on one self-contained page, report/index.html")
    _selection(one, "*")
    one.add_argument(
        "--watch", action="store_true", help="serve it on this machine and follow the records"
    )
    one.add_argument("--port", type=_whole, metavar="N", help="of --watch; default: 8321")

    one = command("render", _render, "episodes of saved policies, to watch: a page, GIF or MP4")
    _selection(one, 1, steps="--run-steps")
    one.add_argument("--task", metavar="T", help="may be left out where the study has one")
    one.add_argument(
        "--variant", nargs="+", metavar="V", help="several: side by side; default: the baseline"
    )
    one.add_argument("--seed", type=_whole, default=0, metavar="S", help="default: 0")
    one.add_argument(
        "--steps",
        dest="snapshots",
        nargs="+",
        default=["best"],
        metavar="best|last|all|N",
        help="which saved policies of a run, several side by side; default: best",
    )
    one.add_argument("--format", choices=("html", "gif", "mp4"), help="default: html")
    one.add_argument("--length", type=_positive, metavar="N", help="steps of an episode at most")
    one.add_argument(
        "--output", type=Path, metavar="FILE", help="default: under render/ in the results folder"
    )

    one = command("export", _export, "runs for other tools: CSV, Parquet, or marl-eval's JSON")
    _selection(one, "*")
    one.add_argument("--format", choices=("csv", "parquet", "marl-eval"), default="csv")
    one.add_argument("--metric", nargs="+", help="columns of the curves; default: all")
    one.add_argument(
        "--output", type=Path, metavar="FILE", help="default: export/runs in the results folder"
    )

    one = command("import", _import, "other people's runs, for our statistics and page")
    one.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="FILE|FOLDER",
        help="CSV with columns run, seed, step, return (and task); or TensorBoard event folders",
    )
    one.add_argument("--study", required=True, metavar="NAME", help="what to call them here")
    one.add_argument("--metric", help="the column or tag that is judged; default: the return")
    one.add_argument("--baseline", metavar="RUN", help="default: the first run")
    one.add_argument(
        "--margin",
        type=float,
        default=0.05,
        help="share of what the baseline learned that does not matter; default: 0.05",
    )
    one.add_argument(
        "--pattern", help="parts of an event folder's name, such as {task}/{run}/seed{seed}"
    )
    one.add_argument("--title", default="")
    one.add_argument("--claim", default="")
    one.add_argument("--source", default="", help="where the claim was stated")

    one = command("policies", _policies, "the saved policies of a cell; and out to Brax")
    one.add_argument("name", metavar="STUDY|CELL", help="a study's last plan, or a cell's hash")
    _which_cell(one)
    one.add_argument(
        "--step", default="best", metavar="best|last|N", help="which to export; default: best"
    )
    one.add_argument(
        "--brax",
        type=Path,
        metavar="DIR",
        help="write that one there, as Brax's own checkpoint",
    )

    cli_check.add_commands(command, _selection, _positive, _plans)

    one = command("clean", _clean, "what may be deleted, and its size")
    one.add_argument("--yes", action="store_true", help="delete it")
    return parser


def _selection(parser: argparse.ArgumentParser, studies: str | int, steps: str = "--steps") -> None:
    parser.add_argument("studies", nargs=studies, metavar="STUDY")
    group = parser.add_argument_group("selection")
    group.add_argument("--profile", help="how much compute: smoke, quick (default) or paper")
    group.add_argument("--tasks", nargs="+", action="extend", metavar="T")
    group.add_argument("--variants", nargs="+", action="extend", metavar="V")
    group.add_argument("--seeds", type=_whole, metavar="N", help="seeds 0 to N-1")
    group.add_argument(
        steps, dest="steps", type=_whole, metavar="N", help="environment steps of a run"
    )
    group.add_argument(
        "--evaluations", type=_whole, metavar="N", help="of a run; 0: curves of training alone"
    )
    group.add_argument(
        "--set", nargs="+", action="extend", metavar="NAME=VALUE", help="a setting for all variants"
    )


def _which_cell(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", metavar="T", help="needed where the study ran on several")
    parser.add_argument("--variant", metavar="V", help="default: the baseline")
    parser.add_argument("--seed", type=_whole, default=0, metavar="S", help="default: 0")


def _whole(text: str) -> int:
    try:
        value = float(text.replace("_", ""))
        if not value.is_integer():
            raise ValueError
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number") from None
    return int(value)


def _natural(text: str) -> int:
    if (value := _whole(text)) < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, not {value}")
    return value


def _minutes(text: str) -> float:
    try:
        value = float(text)
        if not 0 <= value < float("inf"):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of minutes") from None
    return value


def _positive(text: str) -> int:
    if (value := _whole(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value
