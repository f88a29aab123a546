"""A ledger: many candidates against the best so far, with one error budget for all of them.

A ledger is a file of JSON lines. The first line has the terms and the first best. Each candidate
adds a line when it begins, which takes a share of the error budget, and a line when it ends. The
gain that led to its acceptance is too large on average, as it was selected, so an accepted
candidate is measured again on held-out seeds. A lock allows one candidate at a time. Lines are
never changed. A last line without a newline was left by a killed writer; the next writer removes
it. If the process of a candidate is killed, the same call continues it at the same rate.

Candidate j of N is tested at the rate

    a(j) = (D(j) + 1) * rate / N      for j <= N, else 0

with D(j) the candidates that were found better before it began. This is LOND, levels based on the
number of discoveries (Javanmard and Montanari 2015, "On online control of false discovery rate"),
with equal shares of the budget. The expected share of false ones among the accepted is at most
`rate` where the tests depend positively on each other (Zrnic, Ramdas and Jordan 2021, "Asynchronous
online testing of multiple hypotheses"), as those do that share the runs of a baseline. Until
something is found, the levels are Bonferroni's.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pandas as pd
from msgspec import to_builtins
from msgspec.structs import asdict, astuple

from ablations.core.decode import (
    Count,
    Json,
    Matches,
    Mismatch,
    Part,
    Positive,
    Within,
    decode,
    required,
)
from ablations.core.files import parse_object
from ablations.engine.backends.command.code import (
    copied_site,
    digest_of,
    keep_copy,
    place_of,
    root_of,
)
from ablations.engine.claims import file_lock
from ablations.errors import UserError, count
from ablations.gate.question import EXIT_CODES, Margin, Question, Side, Sides
from ablations.gate.run import Gate, Verdict, numbers_of, written
from ablations.git import git
from ablations.names import NAME
from ablations.records import as_read
from ablations.trainers.command import Site

FORM = 3
CANDIDATES = 50
FRESH = 5
_OF_QUESTION = ("rate", "first_seeds", "most_seeds", "futility", "depends")  # terms
_COLUMNS = (
    *("candidate", "change", "against", "rate", "verdict"),
    *("difference", "difference_low", "difference_high", "seeds"),
    *("fresh", "fresh_low", "fresh_high", "fresh_seeds"),
)
_PLACEHOLDER = re.compile(r"\{[A-Za-z_]\w*\}")

Digest = Annotated[str, Matches(r"[0-9a-f]{16}", "16 hexadecimal digits")]
Inside = Annotated[str, Matches(r"\.|(?!\.\.?(/|$))[^/\0]+(/(?!\.\.?(/|$))[^/\0]+)*", "a folder")]
Rate = Annotated[float, Within(1e-12, 0.5)]

# The lines of the file


class Version(Part, frozen=True):
    """A state of the code, and arguments.

    Attributes:
        code: digest of the files.
        arguments: after the words that all candidates share.
        called: its name in messages.
        inside: the folder of the command in the copy of the files.
    """

    code: Digest
    arguments: tuple[str, ...]
    called: str
    inside: Inside = "."

    def same(self, other: Version) -> bool:
        """Return whether it runs the same code with the same arguments."""
        return (self.code, self.arguments) == (other.code, other.arguments)


class Terms(Part, frozen=True):
    """The terms on which every candidate is judged; see `Question` and `trainers.command.Line`.

    Attributes:
        rate: expected share of false ones among the accepted.
        candidates: the number of candidates that share this budget.
        fresh: number of held-out seeds on which an accepted candidate is measured.
    """

    run: tuple[str, ...]
    curve: str
    metric: str
    step: str
    better: Literal["higher", "lower"]
    margin: str
    rate: Rate
    candidates: Annotated[int, Within(1, 2_000)]
    first_seeds: Annotated[int, Within(2, 100_000)]
    most_seeds: Annotated[int, Within(2, 100_000)]
    fresh: Annotated[int, Within(0, 100_000)]
    futility: Annotated[float, Within(0, 0.5)]
    steps: Count | None  # null since commands have no {steps}
    depends: tuple[str, ...] | None


class Opening(Part, frozen=True):
    """The first line."""

    ledger: Annotated[int, Within(FORM, FORM)]
    terms: Terms
    best: Version


class Begun(Part, frozen=True):
    """A candidate begins. `best` is the number of the best that it is compared with; 0: first."""

    begin: Positive
    candidate: Version
    best: Count
    rate: Rate


class Estimate(Part, frozen=True):
    """A difference with its interval; None if no runs could be compared."""

    difference: float | None
    low: float | None
    high: float | None
    seeds: Count


class Ended(Part, frozen=True):
    """A candidate has its verdict.

    Attributes:
        accepted: whether it becomes the best.
        line: the verdict as a message.
        found: the difference at the last stage; None if no stage was analysed.
        fresh: the gain on held-out seeds, if the candidate was found better.
        log: the last lines that a failed run printed.
    """

    end: Positive
    verdict: str
    accepted: bool
    line: str
    exit_code: Annotated[int, Within(0, 3)]
    found: Estimate | None = None
    fresh: Estimate | None = None
    log: tuple[str, ...] = ()


# The content of the file


@dataclass
class Ledger:
    """The content of a ledger.

    Attributes:
        begun: the candidates in order; their numbers start at 1.
        ended: by the candidate's number.
    """

    opening: Opening
    begun: list[Begun] = field(default_factory=list)
    ended: dict[int, Ended] = field(default_factory=dict)

    @property
    def best(self) -> int:
        """The number of the best so far; 0: the first best."""
        return max((number for number, each in self.ended.items() if each.accepted), default=0)

    @property
    def left(self) -> int:
        """How many more candidates the budget is for."""
        return max(0, self.opening.terms.candidates - len(self.begun))

    def version(self, number: int) -> Version:
        """Return a candidate by its number; 0: the first best."""
        return self.begun[number - 1].candidate if number else self.opening.best

    def known(self, candidate: Version) -> Begun | None:
        """Return the candidate if it is the best, or began against the best; else None."""
        same = (begun for begun in self.begun if begun.candidate.same(candidate))
        return next((begun for begun in same if self.best in (begun.begin, begun.best)), None)

    def add(self, entry: Begun | Ended) -> None:
        """Add a line. Raises Mismatch for a candidate that never began."""
        if isinstance(entry, Begun):
            self.begun.append(entry)
        elif entry.end > len(self.begun):
            raise Mismatch(f"candidate {entry.end} never began")
        else:
            self.ended[entry.end] = entry

    def described(self, ended: Ended) -> dict[str, Any]:
        """Return the result of a candidate as JSON."""
        about: dict[str, Any] = to_builtins(asdict(ended))
        number = about.pop("end")
        return about | {
            "line": f"gate: {ended.line}",
            "candidate": number,
            "rate": self.begun[number - 1].rate if number else None,
            "best": self.best,
            "candidates_left": self.left,
        }

    def table(self) -> pd.DataFrame:
        """Return a row per candidate: its rate, its verdict and its gains."""
        rows = []
        for number, begun in enumerate(self.begun, 1):
            ended = self.ended.get(number, Ended(number, "open", False, "", 3))
            about = (str(number), begun.candidate.called, str(begun.best or "the first"))
            verdict = "accepted" if ended.accepted else ended.verdict
            gains = [astuple(of) if of else (None,) * 4 for of in (ended.found, ended.fresh)]
            rows.append((*about, f"{100 * begun.rate:.2f}%", verdict, *gains[0], *gains[1]))
        frame, terms = pd.DataFrame(rows, columns=_COLUMNS), self.opening.terms
        frame.attrs["study"] = "ledger"
        frame.attrs["caption"] = (
            f"At most {100 * terms.rate:g}% of the accepted candidates are false on average. The "
            f"budget is for {terms.candidates} candidates; {self.left} are left. The best is "
            f"{self.version(self.best).called}. Rate: the probability of a false acceptance. "
            f"Fresh: the gain on held-out seeds (95%); the difference that led to acceptance is "
            f"too large on average."
        )
        return frame


def budget_level(rate: float, candidates: int, number: int, better: int) -> float:
    """Return the rate at which a candidate is tested; 0 if the budget is spent.

    Args:
        rate: expected share of false ones among the accepted.
        candidates: the number of candidates that share the budget.
        number: of this candidate, from 1.
        better: the number of candidates with the verdict better before this one began.
    """
    return min(rate, (better + 1) * rate / candidates) if number <= candidates else 0.0


def sound_terms(values: Mapping[str, Json]) -> Terms:
    """Return the terms of a new ledger. Raises UserError for invalid values."""
    if not values.get("margin"):
        raise UserError("a new ledger needs --margin, the largest difference that does not matter")
    return required(Terms, as_read(values), "invalid terms of a ledger:")


# The file


def require_untracked(path: Path) -> None:
    """Raise UserError if git tracks the ledger: restoring files would erase its lines."""
    resolved = path.resolve()
    try:
        git(resolved.parent, "ls-files", "--error-unmatch", "--", resolved.name)
    except (OSError, subprocess.SubprocessError):
        return
    raise UserError(
        f"git tracks the ledger '{path}', so restoring files would erase candidates: keep it "
        f"outside the repository, or run `git rm --cached {path}` and list it in .gitignore"
    )


def read_ledger(path: Path) -> Ledger | None:
    """Return the content of a ledger, or None if the file does not exist.

    Raises UserError with the line number if the file is not a ledger.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    lines = data.split(b"\n")[:-1]  # the rest is empty, or a line that was never finished
    if not lines:
        raise UserError(f"'{path}' is not a ledger: it has no complete line; delete it")
    ledger: Ledger | None = None
    for number, line in enumerate(lines, 1):
        try:
            parts = parse_object(line)
            if ledger is None:
                ledger = Ledger(decode(Opening, parts))
            else:
                ledger.add(decode(Begun, parts) if "begin" in parts else decode(Ended, parts))
        except Mismatch as why:
            raise UserError(f"line {number} of the ledger '{path}' is damaged: {why}") from None
    return ledger


def locked(path: Path) -> AbstractContextManager[Any]:
    """Take the lock of a ledger, for `with`. Raises UserError if its folder is not writable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return file_lock(path.with_name(f".{path.name}.lock")).acquire()
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None


def append(path: Path, entry: Opening | Begun | Ended) -> None:
    """Add a line to a ledger and sync it to disk. The caller holds the lock."""
    path.touch()
    with path.open("r+b") as file:
        end = file.read().rfind(b"\n") + 1  # of the last complete line
        file.truncate(end)
        file.seek(end)
        file.write(msgspec.json.encode(entry) + b"\n")
        file.flush()
        os.fsync(file.fileno())


# A candidate


def shared_words(run: tuple[str, ...], fixed: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the first words of the command `run`, which all candidates share.

    `fixed` has these words in an existing ledger; UserError is raised if the command starts with
    others. A new ledger (None) takes the words up to the last placeholder, or the program alone.
    """
    if fixed is None:
        indices = [index for index, word in enumerate(run) if _PLACEHOLDER.search(word)]
        return run[: max(indices, default=0) + 1]
    if run[: len(fixed)] != fixed or any(map(_PLACEHOLDER.search, run[len(fixed) :])):
        raise UserError(
            f"every command of this ledger starts with `{' '.join(fixed)}`, and further arguments "
            f"have no placeholders"
        )
    return fixed


def judge(
    path: Path, question: Question, terms: Terms, gate: Callable[[Question, Sides], Gate]
) -> dict[str, Any]:
    """Judge the files in the current folder, and record the result; return it as JSON.

    The first call creates the ledger, with these files as its first best. A candidate that was
    judged before trains nothing. Raises UserError.

    Args:
        path: the ledger.
        question: has the candidate's full command.
        terms: of the ledger.
        gate: makes a gate.
    """
    line = question.line
    question = replace(
        question,
        line=replace(line, run=terms.run),
        margin=Margin.read(terms.margin),
        **{name: getattr(terms, name) for name in _OF_QUESTION},
        better=True,
    )
    arguments, timeout = line.run[len(terms.run) :], question.timeout
    code = question.code(Path.cwd(), path.resolve())
    files = code.files(), code.here, root_of(code.here) or code.here
    revision = digest_of(*files[:2])
    inside = code.here.resolve().relative_to(files[2].resolve()).as_posix()
    now = Version(revision, arguments, " ".join(arguments) or revision[:8], inside)
    stem = path.stem[:80] if NAME.fullmatch(path.stem) else "ledger"

    def side(version: Version, called: str) -> Side:
        if version.code == now.code:
            return Side(Site(now.code, place_of(code, timeout)), version.arguments, called)
        site = copied_site(version.code, version.inside, timeout)
        return Side(site, version.arguments, called)

    with locked(path):
        if (ledger := read_ledger(path)) is None:
            keep_copy(*files)
            first = side(now, f"the first, {now.called}")
            gate(replace(question, name=f"{stem}-0"), Sides(first, first)).baseline_scores()
            ledger = Ledger(Opening(FORM, terms, now))
            append(path, ledger.opening)
            booked = f"{now.called} is recorded in {path} as the first best"
            return ledger.described(Ended(0, "booked", False, booked, 0))
        begun = _begun(path, ledger, now)
        number, best = begun.begin, ledger.version(begun.best)
        if number in ledger.ended:
            return ledger.described(ledger.ended[number])
        before = side(best, f"{'the best so far' if begun.best else 'the first'}, {best.called}")
        sides = Sides(before, side(now, f"candidate {number}, {now.called}"))
        judged = gate(replace(question, pass_rate=begun.rate, name=f"{stem}-{number}"), sides)
        verdict = judged.run()
        judged.write(verdict)
        ended = _ended(number, verdict, judged, terms.fresh) if verdict.final else None
        if ended is None:
            text = "the time was up; repeat the command" if verdict.final else verdict.text
            return ledger.described(Ended(number, "inconclusive", False, text, 3, log=verdict.log))
        failed = any(verdict.failed_seeds.values())
        if code.digest() != now.code and (ended.accepted or failed):
            raise UserError(
                "files were edited while the candidate ran, so its verdict is not recorded: "
                "restore them and repeat the command; the finished runs are stored"
            )
        if ended.accepted:
            keep_copy(*files)
        append(path, ended)
        ledger.add(ended)
        return ledger.described(ended)


def _begun(path: Path, ledger: Ledger, now: Version) -> Begun:
    """Return the candidate, after its line at the beginning was written."""
    if known := ledger.known(now):
        return known
    if not ledger.best and ledger.opening.best.same(now):
        raise UserError("nothing to compare: these files and arguments are the first best")
    number, terms = len(ledger.begun) + 1, ledger.opening.terms
    better = sum(ended.verdict == "better" for ended in ledger.ended.values())
    rate = budget_level(terms.rate, terms.candidates, number, better)
    if not rate:
        raise UserError(
            f"the error budget of '{path}' is spent: all {terms.candidates} candidates were "
            f"judged; start another ledger (--candidates N)"
        )
    begun = Begun(number, now, ledger.best, rate)
    append(path, begun)
    ledger.add(begun)
    return begun


def _ended(number: int, verdict: Verdict, gate: Gate, fresh_seeds: int) -> Ended | None:
    """Return the verdict, with the gain on held-out seeds; None if time is up before that.

    A candidate is not accepted if its runs on held-out seeds fail.
    """
    word, code, line, fresh = verdict.verdict, verdict.code, verdict.text, None
    if accepted := code == 0:
        line += "; it is the best now"
    if accepted and fresh_seeds:
        if (measured := gate.fresh(fresh_seeds)) is None:
            return None
        difference, lost = measured
        fresh = Estimate(*numbers_of(difference), difference.n)
        if lost.fails or (fresh.difference is None and lost.number):
            accepted, word, code = False, "failed", EXIT_CODES["undecided"]
            line = f"{verdict.text}; withdrawn: on held-out seeds, {lost.reason}"
        elif fresh.difference is None:
            line += "; no held-out seed has runs of both sides: report no gain"
        else:
            gain = written(fresh.difference, fresh.low, fresh.high)
            line += f"; report its gain on {count(fresh.seeds, 'held-out seed')}, {gain}"
            line += f" ({lost.reason})" if lost.reason else ""
    last, found = verdict.stages[-1], None
    if last.difference is not None:
        found = Estimate(last.difference, last.low, last.high, last.pairs)
    return Ended(number, word, accepted, line, code, found, fresh, verdict.log)
