"""The command line: parse arguments, call one public function, and print its result.

`COMMANDS` names every command. Only the module of the called command is imported: `ablations table`
does not import JAX.
"""

from __future__ import annotations

import difflib
import errno
import gc
import importlib
import inspect
import io
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ablations import plugins
from ablations.core.files import SetAside
from ablations.errors import Note, UserError, missing_extra, one_line, unknown

if TYPE_CHECKING:
    from cyclopts import App, CycloptsError, UnknownOptionError


class Command(NamedTuple):
    """A command: its function, its line in the help, and its printer, as module:name.

    each: call the function once for each study.
    """

    target: str
    summary: str
    printer: str = ""
    each: bool = False


DESCRIPTION = "Does this RL implementation detail matter? Paired ablations with honest tables."
TABLE = "results:print_table"
COMMANDS = {
    "Run": {
        "run": Command("running:run", "Train the missing runs of a study."),
        "sweep": Command("running:sweep", "Compare values of any setting, or presets.", TABLE),
        "explain": Command(
            "running:explain", "Find which settings cause the gap between two presets.", TABLE
        ),
        "status": Command(
            "watching:status",
            "Print the state of every run, or cancel jobs.",
            "watching:print_status",
        ),
        "work": Command("running:work", "Train runs of a stored plan, with other workers."),
    },
    "Analyse": {
        "table": Command(
            "results:table",
            "Print the comparison with the baseline, or another table.",
            TABLE,
            each=True,
        ),
        "figure": Command(
            "results:figure", "Draw the figures of a study.", "results:write_figures"
        ),
        "report": Command("results:page", "Write one page with every study."),
        "show": Command("describe:show", "Describe a study, setting, choice, preset, task or run."),
        "list": Command("describe:listed", "List studies, tasks, presets, components or runs."),
    },
    "Design": {
        "validate": Command(
            "designing:validate", "Check whether a baseline learns enough on tasks.", TABLE
        ),
        "tune": Command(
            "designing:tune", "Choose settings of each variant on separate seeds.", TABLE
        ),
    },
    "Test": {
        "check": Command("checking:check", "Compare new runs with stored curves, or store curves."),
        "gate": Command("gating:gate", "Run a command before and after a change, and compare."),
    },
    "Data": {
        "import": Command(
            "ablations.io.imports:import_runs",
            "Read runs that were trained elsewhere.",
            "results:print_imported",
        ),
        "export": Command("results:export", "Write runs for other tools."),
        "render": Command("rendering:render", "Show saved policies acting, as a page or a GIF."),
        "clean": Command("watching:clean", "Delete temporary files, or a study."),
    },
}
# Flags of other tools -> our flags
OTHER_WORDS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("env", "envs", "env_id", "environment"), ("--tasks", "--task")),
    **dict.fromkeys(("algo", "algorithm", "library"), ("--base",)),
    **dict.fromkeys(("total_timesteps", "timesteps", "num_timesteps"), ("--steps",)),
    **dict.fromkeys(("out", "outdir", "file"), ("--output",)),
    **dict.fromkeys(("jobs", "parallel", "num_workers"), ("--workers",)),
    "force": ("--yes", "--fresh"),
    "name": ("--study",),
    "wide": ("--columns",),
    "verbose": ("--quiet",),
}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
# Errors of files that are not bugs
_OF_FILES = (
    *(*_NO_ROOM, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.EEXIST),
    *(errno.EIO, errno.ESTALE, errno.ENAMETOOLONG, errno.ELOOP),
)
MOST_LINES = 20  # about skipped files


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code.

    0: success. 1: runs failed, or a result got worse. 2: invalid input. 3: a gate is undecided.
    130: Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # for characters that the terminal lacks
            stream.reconfigure(errors="backslashreplace")
    # With the default threshold, garbage collection takes a tenth of the time of a command that
    # reads thousands of records.
    gc.set_threshold(100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("always", SetAside)
        warnings.simplefilter("always", Note)
        warnings.showwarning = _showing(warnings.showwarning)
        return _run(arguments)


def _showing(others: Callable[..., None]) -> Callable[..., None]:
    """Print each note once, and at most MOST_LINES lines about skipped files."""
    printed: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, (Note, SetAside)):
            others(message, category, *where, **more)
            return
        line, left_out = one_line(str(message)), issubclass(category, SetAside)
        if line in printed or (left_out and len(printed) > MOST_LINES):
            return
        if left_out and len(printed) == MOST_LINES:
            line = "more files like these"
        printed.add(line)
        print(f"ablations: {'left out: ' if left_out else ''}{line}", file=sys.stderr)

    return show


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = _called(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("ablations: interrupted; the same command continues", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `| head`: discard the rest of the buffer
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if (line := _in_a_line(error)) is None:
            raise
        print(f"ablations: {line}", file=sys.stderr)
        return 2


def _called(words: list[str]) -> int:
    """Parse words and call the command; return the exit code."""
    name, *rest = words or ["--help"]
    if name in ("--help", "-h", "--version"):
        print(f"rl-ablations {version('rl-ablations')}" if name == "--version" else overview())
        return 0
    from cyclopts import CycloptsError

    command = app(name, rare="--help-all" in rest)
    try:
        function, bound, _ = command.parse_args(rest, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise UserError(f"{_parsing_error(error)} (see `ablations {name} --help`)") from None
    return int(function(*bound.args, **bound.kwargs) or 0)


def commands() -> dict[str, Command]:
    """Return every command by its name."""
    return {name: command for group in COMMANDS.values() for name, command in group.items()}


def overview() -> str:
    """Return the help of all commands."""
    lines = ["Usage: ablations COMMAND", "", DESCRIPTION]
    for title, group in COMMANDS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {name:<10} {command.summary}" for name, command in group.items()]
    return "\n".join([*lines, "", "`ablations COMMAND --help` lists the flags of a command."])


def app(name: str, *, rare: bool = False) -> App:
    """Return the parser of a command. rare: include rare flags in its help. Raises UserError."""
    if name.startswith("-"):
        raise unknown("flag", name, ["--help", "--version"])
    if name not in commands():
        raise unknown("command", name, commands())
    from cyclopts import App, Parameter

    from ablations.parameters import Screens

    function = _terminal(commands()[name])
    words = [
        p.name.upper() if p.default is p.empty else f"[{p.name.upper()}]"
        for p in inspect.signature(function).parameters.values()
        if p.kind < p.KEYWORD_ONLY
    ]
    parser = App(
        name=f"ablations {name}",
        usage=f"Usage: ablations {name} [OPTIONS] {' '.join(words)}",
        help_format="plaintext",
        help_formatter=Screens(rare=rare),
        help_epilogue="" if rare else "`--help-all` lists the rare flags too.",
        version_flags=[],
        help_flags=["--help", "-h", "--help-all"],
        default_parameter=Parameter(negative="", show_default=False),
    )
    parser.default(function)
    return parser


def _named(target: str) -> Callable[..., Any]:
    module, _, name = target.rpartition(":")
    where = module if "." in module else f"ablations.commands.{module}"
    return getattr(importlib.import_module(where), name)  # type: ignore[no-any-return]


def _terminal(command: Command) -> Callable[..., int]:
    """Return a function that calls a command's function and prints the result.

    Its parameters are those of the function and of the printer, and --plugin.
    """
    from ablations.parameters import PLUGIN

    function = _named(command.target)
    printer = _named(command.printer) if command.printer else _print
    own = inspect.signature(function, eval_str=True).parameters
    printing = inspect.signature(printer, eval_str=True).parameters
    _, *flags_of_printer = printing
    added = [printing[name] for name in flags_of_printer if name not in own]

    def called(*arguments: Any, plugin: Sequence[str] = (), **flags: Any) -> int:
        plugins.load(plugin)
        defaults = {name: own[name].default for name in flags_of_printer if name in own}
        options = defaults | {name: flags[name] for name in flags_of_printer if name in flags}
        for parameter in added:
            flags.pop(parameter.name, None)
        if options.get("format") == "json" and command.printer == TABLE and not command.each:
            flags["quiet"] = True  # the table is the only output
        calls = [(study,) for study in arguments[0]] if command.each else [arguments]
        return max(printer(function(*call, **flags), **options) or 0 for call in calls)

    parameters = [
        p.replace(kind=p.KEYWORD_ONLY if index else p.POSITIONAL_ONLY)
        if p.kind is p.POSITIONAL_OR_KEYWORD
        else p
        for index, p in enumerate(own.values())
    ]
    every = sorted([*parameters, *added, PLUGIN], key=lambda parameter: parameter.kind)
    vars(called)["__signature__"] = inspect.Signature(every)
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    _, line, rest = (inspect.getdoc(function) or "").partition("\n")
    before, args, after = f"{command.summary}{line}{rest}".partition("Args:\n")
    flags_doc = (inspect.getdoc(printer) or "").partition("Args:\n")[2]
    called.__doc__ = f"{before}{args}{flags_doc.rstrip()}\n{after}" if args else before
    return called


def _print(value: Any) -> int:
    """Print the result of a command; return the exit code."""
    if isinstance(value, int):
        return value
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str | Path):
            print(each)
    return 1 if getattr(value, "failed", 0) else 0


def _parsing_error(error: CycloptsError) -> str:
    """Return the message for words that cyclopts cannot parse."""
    from cyclopts import RepeatArgumentError, UnknownOptionError, UnusedCliTokensError

    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword} is given twice"
    if isinstance(error, UnknownOptionError):
        flag = error.token.keyword or error.token.value
        known = [name for argument in error.argument_collection for name in argument.names]
        return f"unknown flag {flag}{_hint(flag, known, error)}"
    if isinstance(error, UnusedCliTokensError):
        extra = " ".join(error.unused_tokens or ())
        return f"one value too many: {extra}; put several words in quotes"
    line = " ".join(str(error).split()).rstrip(".")
    line = line.removeprefix("Parameter ")
    lacks = "needs a value" if line.startswith("--") else "is missing"
    return line.replace("requires an argument", lacks)


def _hint(flag: str, known: Sequence[str], error: UnknownOptionError) -> str:
    """Return a hint for an unknown flag, or ""."""
    from ablations.trainers import every_setting
    from ablations.trainers.values import FIELD_NAMES

    name = flag.lstrip("-").replace("-", "_")
    if "--set" in known and name in {*FIELD_NAMES, *every_setting()}:
        return f": a setting is given by --set {name}=VALUE"
    for argument in error.argument_collection:
        if "--format" in argument.names and name in (argument.get_choices() or ()):
            return f": did you mean --format {name}?"
    meant = [word for word in OTHER_WORDS.get(name, ()) if word in known]
    near = meant or [each for each in known if each.startswith(flag) and flag != "-"]
    near = near or difflib.get_close_matches(flag, known, n=1, cutoff=0.8)
    return f": did you mean {' or '.join(near)}?" if near else ""


def _in_a_line(error: Exception) -> str | None:
    """Return the message of an expected error; None for a bug."""
    if isinstance(error, ModuleNotFoundError):
        error = missing_extra(error) or error
    if isinstance(error, OSError) and error.errno in _OF_FILES:
        path = error.filename2 or error.filename
        what = f"'{path}'" if path else "the results folder"
        room = "; make room or give another --results; what is done is safe"
        return f"cannot use {what}: {error.strerror}{room * (error.errno in _NO_ROOM)}"
    return one_line(str(error)) if isinstance(error, UserError) else None


if __name__ == "__main__":
    sys.exit(main())
