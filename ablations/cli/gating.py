"""The command `gate`: is a change an improvement, a regression, or noise?"""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.cli.arguments import add_command, positive, whole
from ablations.errors import UserError, missing_extra

if TYPE_CHECKING:
    from ablations.gate import Gate, Verdict


def add_commands(commands: Any) -> None:
    one = add_command(
        commands,
        "gate",
        _gate,
        "run a command before and after a change: no worse (exit code 0), worse (1), undecided (3)",
    )
    one.add_argument(
        "words",
        nargs="+",
        metavar="-- COMMAND",
        help="with {seed}, and {folder} where it writes its curve there",
    )
    group = one.add_argument_group("what is compared")
    group.add_argument("--baseline", metavar="COMMIT", help="against the files as they are")
    group.add_argument(
        "--against",
        metavar="ARGS",
        help="what the baseline's command has more: --against='--lr 3e-4'",
    )
    group = one.add_argument_group("the result of a run")
    group.add_argument(
        "--curve",
        default="stdout",
        metavar="FILE",
        help="such as {folder}/log.csv; default: what the command prints",
    )
    group.add_argument(
        "--metric",
        default="result",
        metavar="NAME",
        help="column, or name before a colon; default: a number on a line of its own",
    )
    group.add_argument("--step", default="", metavar="NAME", help="the column that counts")
    group.add_argument("--better", choices=("higher", "lower"), default="higher")
    group = one.add_argument_group("what is decided, and how surely")
    group.add_argument(
        "--margin",
        required=True,
        metavar="SIZE",
        help="the difference that does not matter: 2%% of what the baseline learned (of its mean, "
        "where a run is one number), or 0.5 in units of the metric",
    )
    group.add_argument(
        "--require", choices=("better",), help="pass only what gains; default: what is no worse"
    )
    group.add_argument(
        "--rate",
        type=_share,
        metavar="SHARE",
        help="of false alarms and of false passes; default: 5%%",
    )
    group.add_argument("--first-seeds", type=positive, metavar="N", help="default: 5")
    group.add_argument("--most-seeds", type=positive, metavar="N", help="default: 32")
    group = one.add_argument_group("how it runs")
    group.add_argument("--steps", type=whole, metavar="N", help="what {steps} is")
    group.add_argument("--timeout", metavar="T", help="of a run, such as 2h")
    group.add_argument(
        "--depends",
        nargs="+",
        metavar="FILE",
        help="what the command rests on; default: the repository",
    )
    group.add_argument("--name", default="gate", help="of its results; default: gate")
    group.add_argument("--workers", type=positive, metavar="N", help="default: one per core")
    group.add_argument("--threads", type=positive, metavar="N", help="of each command")
    group.add_argument("--quiet", action="store_true", help="the verdict alone")
    group.add_argument("--json", action="store_true", help="the verdict as JSON on stdout")


def _gate(options: argparse.Namespace) -> int:
    from ablations.gate import FIRST_SEEDS, MOST_SEEDS, RATE, Gate, Margin, Question
    from ablations.sweep.command.study_file import line_of, timeout_of

    line = line_of(
        {
            "run": options.words,
            "curve": options.curve,
            "metric": options.metric,
            "step": options.step,
            "better": options.better,
        }
    )
    one = Gate(
        Question(
            line=line,
            margin=Margin.read(options.margin),
            baseline=options.baseline,
            against=_words(options.against),
            rate=options.rate or RATE,
            first=options.first_seeds or FIRST_SEEDS,
            most=options.most_seeds or MOST_SEEDS,
            better=options.require == "better",
            steps=options.steps,
            timeout=timeout_of(options.timeout),
            depends=None if options.depends is None else tuple(options.depends),
            name=options.name,
        ),
        options.results,
        Path.cwd(),
    )
    quiet = options.quiet or options.json
    if not quiet:
        print("\n".join(one.stated()), flush=True)
    found = one.run(
        (lambda line: None) if quiet else (lambda line: print(line, flush=True)),
        workers=options.workers,
        threads=options.threads,
        quiet=quiet,
    )
    return _tell(one, found, options)


def _tell(one: Gate, found: Verdict, options: argparse.Namespace) -> int:
    path = one.write(found)
    told = json.loads(path.read_text())
    try:
        from ablations.report.figures import paper
        from ablations.report.figures.gate import gate

        drawn = str(paper.write(gate(told), path.parent, path.stem, ("svg", "png"))[-1])
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is None:
            raise
        drawn = f"no picture: {missing}"
    if options.json:
        print(json.dumps(told, indent=1))
        return found.code
    print(found.line)
    if not options.quiet:
        print(f"{path}\n{drawn}")
    return found.code


def _words(text: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text or ""))
    except ValueError as error:
        raise UserError(f"--against cannot be split into arguments: {error}") from None


def _share(text: str) -> float:
    try:
        value = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
        if not 0 < value < 0.5:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"a rate is such as 5% or 0.05, not '{text}'") from None
    return value
