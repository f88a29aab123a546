"""What the commands share: the parser, types of arguments, and the flags of selection, cluster and
saving with what they mean.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from ablations.errors import UserError, printable
from ablations.request import ARITHMETICS, GEOMETRIES, parse_levels, parse_settings, seeds_of

if TYPE_CHECKING:
    from ablations.records import Plan
    from ablations.sweep.order import Keeping
    from ablations.sweep.slurm.cluster import Cluster


# Of a folder that cannot be written these show all the same what its archives hold.
_ONLY_READ = ("table", "status", "figure", "report", "export", "render", "policies", "claims")


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and takes no flag by the beginning of its name."""

    def __init__(self, **keywords: Any):
        super().__init__(**keywords, allow_abbrev=False)
        self._leads_to_commands = False

    def add_subparsers(self, **keywords: Any) -> Any:
        self._leads_to_commands = True
        return super().add_subparsers(**keywords)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        args = self._joined(sys.argv[1:] if args is None else list(args))
        self._require_known_flags(args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see `{self.prog} --help`)")

    def _joined(self, arguments: Sequence[str]) -> list[str]:
        """A text for a flag that takes one may begin with a dash: --against --no-norm is
        --against=--no-norm, unless what follows is a flag of this command."""
        flags = {flag: action for action in self._actions for flag in action.option_strings}
        joined: list[str] = []
        takes = False
        for place, argument in enumerate(arguments):
            if argument == "--":
                return [*joined, *arguments[place:]]
            if takes and argument[:1] == "-" and argument.partition("=")[0] not in flags:
                joined[-1] += f"={argument}"
                takes = False
                continue
            joined.append(argument)
            action = flags.get(argument)
            takes = isinstance(action, argparse._StoreAction) and (
                action.nargs is None and action.type is None and action.choices is None
            )
        return joined

    def _require_known_flags(self, arguments: Sequence[str]) -> None:
        """argparse would complain of a missing argument first, and names no other flag."""
        known = re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", self.format_usage())
        for argument in arguments:
            if argument == "--" or (self._leads_to_commands and argument[:1] != "-"):
                break
            flag = argument.partition("=")[0]
            if re.fullmatch(r"--?[A-Za-z][\w-]*", flag) and flag not in (*known, "--help"):
                longer = [name for name in known if name.startswith(flag) and flag != "-"]
                near = longer or difflib.get_close_matches(flag, known, n=1, cutoff=0.4)
                hint = f": did you mean {' or '.join(near)}?" if near else ""
                self.error(f"unknown flag {flag}{hint}")


def add_command(
    commands: Any,
    name: str,
    function: Callable[[argparse.Namespace], Any],
    summary: str,
    *,
    reads_records: Literal["all", "of its studies", "none"] = "all",
) -> Parser:
    """A parser among those of `commands`, with the flags that every command has.

    reads_records: what is unpacked of archives first.
    """
    one: Parser = commands.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + "."
    )
    one.set_defaults(command=function, reads_records=reads_records, only_reads=name in _ONLY_READ)
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


# Types


def whole(text: str) -> int:
    try:
        digits = text.replace("_", "")
        scale = {"k": 1e3, "M": 1e6}.get(digits[-1:], 1)
        value = scale * float(digits[:-1] if scale > 1 else digits)
        if not value.is_integer():
            raise ValueError
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number") from None
    return int(value)


def natural(text: str) -> int:
    if (value := whole(text)) < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, not {value}")
    return value


def positive(text: str) -> int:
    if (value := whole(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


def minutes(text: str) -> float:
    try:
        value = float(text)
        if not 0 <= value < float("inf"):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of minutes") from None
    return value


# Selection


def add_studies(parser: argparse.ArgumentParser, number: str | int) -> None:
    """Names of studies, and the flags that select a part of them."""
    parser.add_argument("studies", nargs=number, metavar="STUDY")
    add_selection(parser)


def add_selection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("selection")
    group.add_argument(
        "--profile", help="how much compute: smoke, quick (default), claims or paper"
    )
    group.add_argument("--tasks", nargs="+", action="extend", metavar="T")
    group.add_argument("--variants", nargs="+", action="extend", metavar="V")
    group.add_argument(
        "--seeds", type=seeds_of, metavar="N|FIRST-LAST", help="how many, from 0 on, or which"
    )
    group.add_argument(
        "--until",
        metavar="decided",
        help="instead of --seeds: more at planned looks, only for comparisons that are still open",
    )
    group.add_argument(
        "--most-seeds", type=whole, metavar="N", help="of --until, at its last look; default: 64"
    )
    group.add_argument("--steps", type=whole, metavar="N", help="environment steps of a run")
    group.add_argument(
        "--evaluations", type=whole, metavar="N", help="of a run; 0: curves of training alone"
    )
    group.add_argument(
        "--arithmetic",
        choices=ARITHMETICS,
        help="of a CPU: the same bits on every processor (default), or its own, with AVX-512 where "
        "it has that; other cells, and never in one table with these",
    )
    group.add_argument(
        "--set", nargs="+", action="extend", metavar="NAME=VALUE", help="a setting for all variants"
    )
    group.add_argument(
        "--base",
        metavar="P",
        help="a preset, whose settings take the place of the tasks' own under every variant",
    )
    group.add_argument(
        "--geometry",
        choices=GEOMETRIES,
        help="the structure of presets (environments, steps, minibatches, networks): their own, or "
        "in common the task's",
    )
    group.add_argument(
        "--vary",
        nargs="+",
        action="extend",
        metavar="NAME=A,B,...",
        help="the baseline at each value, compared with the first, instead of the study's "
        "variants; with --variants these at each value",
    )


def selection(options: argparse.Namespace) -> dict[str, Any]:
    """The flags as `ablations.request.Selection`; None where a flag is not given."""
    settings = parse_settings(options.set or [])
    if options.evaluations is not None:
        settings["evaluations"] = options.evaluations
    if options.arithmetic == "native":
        settings["arithmetic"] = options.arithmetic
    return {
        "profile": options.profile,
        "tasks": options.tasks,
        "variants": options.variants,
        "seeds": options.seeds,
        "until": options.until,
        "most_seeds": options.most_seeds,
        "steps": options.steps,
        # portable is no setting, and yet a selection: the last plan may be a native one
        "set": settings if settings or options.arithmetic else None,
        "vary": parse_levels(options.vary) if options.vary else None,
        "base": options.base,
        "geometry": options.geometry,
    }


def plans(options: argparse.Namespace) -> list[Plan]:
    """What every command but `run` is about."""
    from ablations.sweep.planned import planned

    return planned(options.studies, options.results, selection(options))


def shown(options: argparse.Namespace) -> list[Plan]:
    """Return the plans whose results a command shows; say on stderr which cells of them earlier
    code computed."""
    from ablations.sweep.outdated import outdated

    found = plans(options)
    warn(filter(None, (outdated(plan, options.results) for plan in found)))
    return found


def shown_with_edits(options: argparse.Namespace) -> list[Plan]:
    """Return `shown`; say also which plugins were edited between cells, for a command that shows
    no notes and has no records at hand."""
    from ablations.sweep.outdated import edited

    found = shown(options)
    warn(line for plan in found for line in edited(plan, options.results))
    return found


def warn(lines: Iterable[str]) -> None:
    """Print lines on stderr, each as one of this command."""
    for line in lines:
        print(f"ablations: {printable(line)}", file=sys.stderr)


def resolved(options: argparse.Namespace) -> list[Plan]:
    """What `run` runs."""
    from ablations import presets
    from ablations.sweep.planned import resolved

    wanted = getattr(options, "preset", ())
    if wanted:
        load_installed_plugins()
    for name in wanted:
        presets.preset(name)
    found = resolved([*options.studies, *wanted], selection(options))
    for task, stored in ((t, s) for plan in found for t, s in plan.tasks.items()):
        if options.steps and stored.steps != options.steps:
            warn([f"{options.steps:,} steps on {task} are {stored.steps:,}: iterations are whole"])
    return found


def unpack(options: argparse.Namespace) -> None:
    """Unpacks what a command reads of the archives. The plan of a selection that never ran may
    share cells with any of them."""
    if options.reads_records == "none" or not (options.results / "archive").is_dir():
        return
    from ablations.exchange import restorable, restore

    own = options.reads_records == "of its studies" and not any(
        one is not None for one in selection(options).values()
    )
    studies = options.studies if own else ()
    try:
        restore(options.results, studies)
    except OSError as error:
        unwritable = error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
        if not unwritable or not options.only_reads or getattr(options, "write", False):
            raise
        options.results = restorable(options.results)
        restore(options.results, studies)


def load_installed_plugins() -> None:
    from ablations import plugins

    plugins.load()


# Where it runs, and what is saved on the way

_CLUSTER = (
    *("partition", "time", "cpus", "gpus", "memory", "account", "qos", "constraint"),
    *("at_once", "job_minutes", "setup"),
)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where it runs")
    group.add_argument(
        "--cluster",
        default="local",
        metavar="local|debug|slurm|FILE.toml",
        help="processes on this machine (default), this process, or jobs of Slurm, whose settings "
        "may come from a file; the flags below win over it",
    )
    group.add_argument("--lanes", type=positive, metavar="N", help="cells per accelerator program")
    group.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="of each command of a study file; default: its share of the cores",
    )
    group.add_argument("--partition", metavar="P")
    group.add_argument("--time", metavar="T", help="limit of a job, such as 90 or 1-12:00:00")
    group.add_argument("--cpus", type=positive, metavar="N", help="cores of a job; default: 4")
    group.add_argument(
        "--gpus", metavar="N", help="of a job, or TYPE:N such as a100:2; default: none"
    )
    group.add_argument(
        "--memory",
        metavar="M",
        help="of a job, such as 16G; default: as measured; none: not asked for",
    )
    group.add_argument("--account", metavar="A")
    group.add_argument("--qos", metavar="Q")
    group.add_argument("--constraint", metavar="C")
    group.add_argument(
        "--at-once", type=positive, metavar="N", help="jobs of an array side by side; default: 256"
    )
    group.add_argument(
        "--job-minutes",
        type=natural,
        metavar="N",
        help="how long a job should take; default: 30; 0: one cell per worker",
    )
    group.add_argument(
        "--setup", action="append", metavar="LINE", help="of shell, before the job; repeatable"
    )


def cluster(options: argparse.Namespace) -> Cluster | None:
    """What `--cluster` and its flags ask for; None: this machine."""
    from ablations.sweep.slurm.cluster import read_cluster

    flags: Mapping[str, Any] = {name: getattr(options, name) for name in _CLUSTER}
    if options.cluster in ("local", "debug"):
        given = [name for name, value in flags.items() if value is not None]
        if given:
            flag = "--" + given[0].replace("_", "-")
            raise UserError(f"{flag} is for --cluster slurm: here there are --workers and --lanes")
        return None
    path = None if options.cluster == "slurm" else Path(options.cluster)
    return read_cluster(path, {**flags, "lanes": options.lanes, "threads": options.threads})


def add_keeping(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is saved on the way (changes no result)")
    group.add_argument(
        "--checkpoint-minutes",
        type=minutes,
        default=1.0,
        metavar="M",
        help="how often a running cell's whole state is saved; default: 1; 0: not by time",
    )
    group.add_argument(
        "--checkpoint-steps", type=positive, metavar="N", help="or by its environment steps"
    )
    group.add_argument(
        "--keep-checkpoints",
        type=positive,
        default=2,
        metavar="N",
        help="how many of those stay until the cell is done, besides the best; default: 2",
    )
    group.add_argument(
        "--keep-policies",
        type=natural,
        default=4,
        metavar="N",
        help="policies kept for good, evenly spaced, besides the best; default: 4; 0: none",
    )


def keeping(options: argparse.Namespace) -> Keeping:
    from ablations.sweep.order import Keeping

    return Keeping(
        minutes=options.checkpoint_minutes,
        steps=options.checkpoint_steps,
        checkpoints=options.keep_checkpoints,
        snapshots=options.keep_policies,
    )
