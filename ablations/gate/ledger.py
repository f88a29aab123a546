"""A ledger: many candidates against the best so far, with one error budget for all of them.

A ledger is a file of JSON lines. The first line has the terms and the first best. Each candidate
adds a line when it begins, which takes a share of the error budget, and a line when it ends. An
accepted candidate adds a third line: its gain on held-out seeds. The gain that led to its
acceptance is too large on average, as it was selected. Lines are written under a lock and never
changed. A last line without a newline was left by a killed writer; the next writer removes it. If
the process of a candidate is killed, the same call continues it at the same rate.

Candidate j of N is tested at the rate

    a(j) = (D(j) + 1) * rate / N      for j <= N, else 0

with D(j) the candidates that were found better before it began. This is LOND, levels based on the
number of discoveries (Javanmard and Montanari 2015, "On online control of false discovery rate"),
with equal shares of the budget. The expected share of false ones among the accepted is at most
`rate` where the tests depend positively on each other (Zrnic, Ramdas and Jordan 2021, "Asynchronous
online testing of multiple hypotheses"), as those do that share the runs of a baseline. Until
something is found, the levels are Bonferroni's. D counts what had ended when a test began, so
candidates may be tested side by side.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pandas as pd
from msgspec import to_builtins

from ablations.core.decode import Count, Json, Matches, Mismatch, Part, Positive, Within, decode
from ablations.core.files import parse_object
from ablations.engine.backends.command.code import (
    Copy,
    copied_site,
    copy_of,
    keep_copy,
    place_of,
    root_of,
)
from ablations.engine.claims import file_lock
from ablations.errors import UserError, count
from ablations.gate.question import EXIT_CODES, Margin, Question, Side, Sides
from ablations.gate.run import Execution, Gate, Verdict, numbers_of
from ablations.git import git
from ablations.names import NAME
from ablations.trainers.command import Site

FORM = 2
CANDIDATES = 50
FRESH = 5
_OF_QUESTION = ("rate", "first_seeds", "most_seeds", "futility", "steps", "depends")  # terms
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
        folder, inside: where its copy is, as in `sweep.backends.command.copies.Copy`.
    """

    code: Digest
    arguments: tuple[str, ...]
    called: str
    folder: Annotated[str, Matches(r"[0-9a-f]{16}|", "16 hexadecimal digits")] = ""
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
    steps: Count | None
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
        log: the last lines that a failed run printed.
    """

    end: Positive
    verdict: str
    accepted: bool
    line: str
    found: Estimate | None
    exit_code: Annotated[int, Within(0, 3)]
    log: tuple[str, ...] = ()


class Fresh(Part, frozen=True):
    """The gain of an accepted candidate on held-out seeds.

    Attributes:
        failed: a message about its failed runs.
        withdrawn: so many runs failed that the earlier best is the best again.
    """

    fresh: Positive
    estimate: Estimate
    failed: str = ""
    withdrawn: bool = False


Entry = Begun | Ended | Fresh
_KINDS: Mapping[str, type[Entry]] = {"begin": Begun, "end": Ended, "fresh": Fresh}


# The content of the file


@dataclass
class Ledger:
    """The content of a ledger.

    Attributes:
        begun: the candidates in order; their numbers start at 1.
        ended, fresh: by the candidate's number.
        bests: the numbers of all bests, in order; 0 is the first best.
    """

    opening: Opening
    begun: list[Begun] = field(default_factory=list)
    ended: dict[int, Ended] = field(default_factory=dict)
    fresh: dict[int, Fresh] = field(default_factory=dict)
    bests: list[int] = field(default_factory=lambda: [0])

    @property
    def best(self) -> int:
        """The number of the best so far."""
        return self.bests[-1]

    def version(self, number: int) -> Version:
        """Return a candidate by its number; 0: the first best."""
        return self.begun[number - 1].candidate if number else self.opening.best

    def known(self, candidate: Version) -> Begun | None:
        """Return the candidate if it was begun before against the current best, else None."""
        same = (b for b in self.begun if b.best == self.best and b.candidate.same(candidate))
        return next(same, None)

    def next_rate(self) -> float:
        """Return the rate at which the next candidate would be tested; 0: the budget is spent."""
        better = sum(ended.verdict == "better" for ended in self.ended.values())
        terms = self.opening.terms
        return budget_level(terms.rate, terms.candidates, len(self.begun) + 1, better)

    def accepted(self, number: int) -> bool:
        """Return whether a candidate was accepted and not withdrawn later."""
        return number in self.bests and not (number in self.fresh and self.fresh[number].withdrawn)

    def add(self, entry: Entry) -> None:
        """Add a line. Raises Mismatch for a candidate that never began."""
        if isinstance(entry, Begun):
            self.begun.append(entry)
            return
        number = entry.end if isinstance(entry, Ended) else entry.fresh
        if number > len(self.begun):
            raise Mismatch(f"candidate {number} never began")
        if isinstance(entry, Ended):
            self.ended[number] = entry
            self.bests += [number] * entry.accepted
        else:
            self.fresh[number] = entry
            if entry.withdrawn and number == self.best:
                self.bests.append(self.begun[number - 1].best)

    def described(self, number: int, verdict: Verdict | None = None) -> dict[str, Any]:
        """Return a candidate as JSON, with this call's verdict if it has one."""
        ended, fresh = self.ended.get(number), self.fresh.get(number)
        line, log = (verdict.text, verdict.log) if verdict else ("undecided", ())
        word, code = "inconclusive", EXIT_CODES["undecided"]
        if ended is not None:
            line, word, log = ended.line + self._sequel(number), ended.verdict, ended.log
            if ended.accepted == self.accepted(number) and (word != "better" or ended.accepted):
                code = ended.exit_code
            if fresh and fresh.withdrawn:
                word = "failed"
        return {
            "verdict": word,
            "exit_code": code,
            "line": f"gate: {line}",
            "candidate": number,
            "accepted": self.accepted(number),
            "rate": self.begun[number - 1].rate,
            "found": to_builtins(ended.found) if ended else None,
            "fresh": to_builtins(fresh.estimate) if fresh else None,
            "best": self.best,
            "candidates_left": max(0, self.opening.terms.candidates - len(self.begun)),
            "log": list(log),
        }

    def _sequel(self, number: int) -> str:
        """Return the end of a candidate's message: what happened after its verdict."""
        ended, fresh = self.ended[number], self.fresh.get(number)
        if not ended.accepted:
            changed = ended.verdict == "better"
            return "; another candidate is the best now: repeat the command" if changed else ""
        if fresh is None:
            more = "; its runs on held-out seeds are not finished: repeat the command"
            return "; it is the best now" + more * (self.opening.terms.fresh > 0)
        if fresh.withdrawn:
            return f"; withdrawn: on held-out seeds, {fresh.failed}"
        estimate, text = (
            fresh.estimate,
            "no held-out seed has runs of both sides, so report no gain",
        )
        if estimate.difference is not None:
            low, high = estimate.low, estimate.high
            interval = "" if low is None else f" [{low:+.4g}, {high:+.4g}]"
            text = (
                f"report its gain on {count(estimate.seeds, 'held-out seed')}, "
                f"{estimate.difference:+.4g}{interval}: the gain above was selected, so it is too "
                f"large on average"
            )
        return f"; it is the best now; {text}" + (f" ({fresh.failed})" if fresh.failed else "")

    def table(self) -> pd.DataFrame:
        """Return a row per candidate: its rate, its verdict and its gains."""
        rows = []
        for number, begun in enumerate(self.begun, 1):
            ended, fresh = self.ended.get(number), self.fresh.get(number)
            word: str = ended.verdict if ended else "open"
            if ended and ended.accepted:
                word = "accepted" if self.accepted(number) else "withdrawn"
            row: dict[str, Json] = {
                "candidate": str(number),
                "change": begun.candidate.called,
                "against": str(begun.best or "the first"),
                "rate": f"{100 * begun.rate:.2f}%",
                "verdict": word,
            }
            estimates = {"difference": ended and ended.found, "fresh": fresh and fresh.estimate}
            for name, estimate in estimates.items():
                row[name] = getattr(estimate, "difference", None)
                row |= {f"{name}_{end}": getattr(estimate, end, None) for end in ("low", "high")}
                column = "seeds" if name == "difference" else "fresh_seeds"
                row[column] = getattr(estimate, "seeds", None)
            rows.append(row)
        frame, terms = pd.DataFrame(rows), self.opening.terms
        left = max(0, terms.candidates - len(self.begun))
        frame.attrs["study"] = "ledger"
        frame.attrs["caption"] = (
            f"At most {100 * terms.rate:g}% of the accepted candidates are false on average. The "
            f"budget is for {terms.candidates} candidates; {left} are left. The best is "
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
    try:
        terms = decode(Terms, json.loads(json.dumps(values)))
    except Mismatch as why:
        raise UserError(f"invalid terms of a ledger: {why}") from None
    if terms.first_seeds > terms.most_seeds:
        raise UserError("--first-seeds is above --most-seeds")
    return terms


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
            kind = next((kind for name, kind in _KINDS.items() if name in parts), None)
            if ledger is None:
                ledger = Ledger(decode(Opening, parts))
            elif kind is None:
                raise Mismatch(f"expected one of the keys {', '.join(_KINDS)}")
            else:
                ledger.add(decode(kind, parts))
        except Mismatch as why:
            raise UserError(f"line {number} of the ledger '{path}' is damaged: {why}") from None
    return ledger


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a ledger. Raises UserError if its folder is not writable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(path.with_name(f".{path.name}.lock")):
            yield
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None


def append(path: Path, entry: Opening | Entry) -> None:
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


class Booking:
    """A candidate of a ledger: the files in the current folder, and arguments."""

    def __init__(self, path: Path, question: Question, terms: Terms, results: Path, how: Execution):
        """Prepare a candidate. `question` has its full command; `path` and `terms`: the ledger."""
        self.path, self.terms, self.results, self.how = path, terms, results, how
        arguments = question.line.run[len(terms.run) :]
        self.question = replace(
            question,
            line=replace(question.line, run=terms.run),
            margin=Margin.read(terms.margin),
            **{name: getattr(terms, name) for name in _OF_QUESTION},
            better=True,
        )
        self.code = self.question.code(Path.cwd(), path.resolve())
        copy = copy_of(*self._files())
        called = " ".join(arguments) or copy.folder[:8]
        self.now = Version(copy.folder, arguments, called, *copy)

    def _files(self) -> tuple[list[Path], Path, Path]:
        here = self.code.here
        return self.code.files(), here, root_of(here) or here

    def open(self) -> dict[str, Any] | None:
        """Create the ledger if it does not exist, with the current files as its first best.

        Returns it as JSON, or None if the current files are a candidate to judge. Raises UserError
        if every run of it fails.
        """
        if read_ledger(self.path) is not None:
            return None
        keep_copy(*self._files())
        self._require_runs(self.now, self.how)
        with locked(self.path):
            if read_ledger(self.path) is not None:
                return None
            append(self.path, Opening(FORM, self.terms, self.now))
        return {
            "verdict": "booked",
            "exit_code": 0,
            "line": f"gate: {self.now.called} is recorded in {self.path} as the first best",
            "candidate": 0,
            "accepted": False,
            "best": 0,
            "candidates_left": self.terms.candidates,
            "log": [],
        }

    def judge(self) -> dict[str, Any]:
        """Judge the candidate and record it; return it as JSON (`Ledger.described`).

        A candidate that was judged before trains nothing. Raises UserError.
        """
        ledger = self._read()
        # A first best that fails would waste a share of the budget.
        if not ledger.best and not ledger.known(self.now):
            quiet = replace(self.how, executor=replace(self.how.executor, quiet=True))
            self._require_runs(ledger.opening.best, quiet)
        begun = self._begin()
        number = begun.begin
        ledger = self._read()
        ended, verdict = ledger.ended.get(number), None
        # The process may have been killed between the verdict and the runs on held-out seeds.
        measured = number in ledger.fresh or not self.terms.fresh
        if ended is not None and (measured or not ended.accepted):
            return ledger.described(number)
        question = replace(self.question, pass_rate=begun.rate, name=self._name(number))
        best = ledger.version(begun.best)
        called = f"the best so far, {best.called}" if begun.best else f"the first, {best.called}"
        change = self._side(self.now, f"candidate {number}, {self.now.called}")
        gate = Gate(question, self.results, Sides(self._side(best, called), change), self.how)
        if ended is None:
            self.how.say("\n".join(gate.stated()))
            verdict = gate.run()
            gate.write(verdict)
            if not verdict.final:
                return ledger.described(number, verdict)
            ended = self._end(number, verdict)
        if ended.accepted and self.terms.fresh:
            self._measure(number, gate)
        return self._read().described(number, verdict)

    def _read(self) -> Ledger:
        ledger = read_ledger(self.path)
        if ledger is None:
            raise UserError(f"'{self.path}' was deleted")
        return ledger

    def _begin(self) -> Begun:
        with locked(self.path):
            ledger = self._read()
            if ledger.version(ledger.best).same(self.now):
                if ledger.best:
                    return ledger.begun[ledger.best - 1]
                raise UserError("nothing to compare: these files and arguments are the first best")
            if known := ledger.known(self.now):
                return known
            rate = ledger.next_rate()
            if not rate:
                raise UserError(
                    f"the error budget of '{self.path}' is spent: all {self.terms.candidates} "
                    f"candidates were judged; start another ledger (--candidates N)"
                )
            begun = Begun(len(ledger.begun) + 1, self.now, ledger.best, rate)
            append(self.path, begun)
            return begun

    def _require_runs(self, first: Version, how: Execution) -> None:
        side = self._side(first, f"the first, {first.called}")
        question = replace(self.question, name=self._name(0))
        Gate(question, self.results, Sides(side, side), how).require_baseline()

    def _name(self, number: int) -> str:
        stem = self.path.stem if NAME.fullmatch(self.path.stem) else "ledger"
        return f"{stem[:80]}-{number}"

    def _side(self, version: Version, called: str) -> Side:
        timeout = self.question.timeout
        if version.code == self.now.code:
            site = Site(version.code, place_of(self.code, timeout))
        else:
            site = copied_site(Copy(version.folder, version.inside), version.code, timeout)
        return Side(site, version.arguments, called)

    def _end(self, number: int, verdict: Verdict) -> Ended:
        with locked(self.path):
            ledger = self._read()
            if number in ledger.ended:  # by another process, from the same runs
                return ledger.ended[number]
            accepted = verdict.code == 0 and ledger.begun[number - 1].best == ledger.best
            edited = self.code.digest() != self.now.code
            if edited and (accepted or any(verdict.failed_seeds.values())):
                raise UserError(
                    "files were edited while the candidate ran, so its verdict is not recorded: "
                    "restore them and repeat the command; the finished runs are stored"
                )
            if accepted:
                keep_copy(*self._files())
            last = verdict.stages[-1]
            found = Estimate(last.difference, last.low, last.high, last.pairs)
            about = (None if last.difference is None else found, verdict.code, verdict.log)
            ended = Ended(number, verdict.verdict, accepted, verdict.text, *about)
            append(self.path, ended)
            return ended

    def _measure(self, number: int, gate: Gate) -> None:
        """Record the gain on held-out seeds; withdraw the candidate if its runs fail."""
        if (fresh := gate.fresh(self.terms.fresh)) is None:
            return
        difference, lost = fresh
        withdrawn = lost.fails or (math.isnan(difference.difference) and lost.number > 0)
        estimate = Estimate(*numbers_of(difference), difference.n)
        with locked(self.path):
            if number not in self._read().fresh:
                append(self.path, Fresh(number, estimate, lost.reason, withdrawn))
