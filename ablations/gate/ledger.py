"""The ledger of a night: a file of JSON lines, to which candidates and their verdicts are added.

The first line says what is asked of every candidate, and the first best. Then every candidate has a
line when it begins, which takes its share of the error budget, and one when it ends. A line is
written at once, under a lock, and never changed. A last line without an end is what a killed writer
left: it was never promised to anybody, and the next writer removes it. So a candidate that was
killed has begun and not ended; the same call goes on with it, at the rate that it had.

All candidates share one error budget: the j-th of N is tested at the rate

    a(j) = (D(j) + 1) * rate / N      for j <= N, else 0

with D(j) the candidates that were found better before it began. This is LOND, levels based on the
number of discoveries (Javanmard and Montanari 2015, "On online control of false discovery rate"),
with equal shares of the budget. The expected share of false ones among the accepted is at most
`rate` where the tests depend positively on each other (Zrnic, Ramdas and Jordan 2021, "Asynchronous
online testing of multiple hypotheses"), as those that share the runs of a baseline do: luck of its
runs helps or hurts all. Until something is found, the levels are Bonferroni's, so that the chance
of any false accept in a night in which nothing helps is at most `rate`, however the tests depend on
each other. Rules that win back more (LORD, SAFFRON, ADDIS) need tests that are independent. D
counts what had ended when a test began, so candidates may be tested side by side.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from ablations.core.decode import Count, Json, Matches, Mismatch, Positive, Within, decode
from ablations.core.files import parse_object, read_bytes
from ablations.errors import UserError
from ablations.gate.question import Word
from ablations.git import git
from ablations.sweep.locks import file_lock

FORM = 1
CANDIDATES = 50
FRESH = 5
MOST_BYTES = 50_000_000

Digest = Annotated[str, Matches(r"[0-9a-f]{16}", "16 hexadecimal digits")]
Inside = Annotated[str, Matches(r"\.|(?!\.\.?(/|$))[^/\0]+(/(?!\.\.?(/|$))[^/\0]+)*", "a folder")]
Rate = Annotated[float, Within(1e-12, 0.5)]


@dataclass(frozen=True)
class Version:
    """A state of the code, and arguments.

    code: the digest of its files. arguments: after the words that all candidates have. folder,
    inside: of its copy under results/code; "" where it has none. called: for people.
    """

    code: Digest
    arguments: tuple[str, ...]
    called: str
    folder: Annotated[str, Matches(r"[0-9a-f]{16}|", "16 hexadecimal digits")] = ""
    inside: Inside = "."

    def same(self, other: Version) -> bool:
        """Return whether it runs the same code with the same arguments."""
        return (self.code, self.arguments) == (other.code, other.arguments)


@dataclass(frozen=True)
class Terms:
    """Terms on which every candidate is judged; see `Question`.

    run, curve, metric, step, direction: of the command. candidates: for how many the budget of
    `rate` is. fresh: seeds of the estimate that follows when one is accepted.
    """

    run: tuple[str, ...]
    curve: str
    metric: str
    step: str
    direction: Literal["higher", "lower"]
    margin: str
    rate: Rate
    candidates: Annotated[int, Within(1, 2_000)]
    first: Annotated[int, Within(2, 100_000)]
    most: Annotated[int, Within(2, 100_000)]
    fresh: Annotated[int, Within(0, 100_000)]
    futility: Annotated[float, Within(0, 0.5)]
    steps: Count | None
    depends: tuple[str, ...] | None


@dataclass(frozen=True)
class Opening:
    """The first line."""

    ledger: Annotated[int, Within(FORM, FORM)]
    terms: Terms
    best: Version


@dataclass(frozen=True)
class Begun:
    """A candidate begins. best: the number of the best that it is compared with; 0: the first."""

    begin: Positive
    candidate: Version
    best: Count
    rate: Rate


@dataclass(frozen=True)
class Estimate:
    """A difference with its interval; None where no runs could be compared."""

    difference: float | None
    low: float | None
    high: float | None
    seeds: Count


@dataclass(frozen=True)
class Ended:
    """A candidate has its verdict.

    found: the difference on the runs that decided; None where no look had one. accepted: it is the
    best from now on. line: for people. log: the end of what a failed run printed.
    """

    end: Positive
    verdict: Word
    accepted: bool
    line: str
    found: Estimate | None
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fresh:
    """The estimate of an accepted gain, on seeds that no decision has seen.

    failed: runs that did, for people. withdrawn: so many that it is the best no more, and what it
    was compared with is again.
    """

    fresh: Positive
    estimate: Estimate
    failed: str = ""
    withdrawn: bool = False


Entry = Begun | Ended | Fresh
_KINDS: Mapping[str, type[Entry]] = {"begin": Begun, "end": Ended, "fresh": Fresh}


@dataclass(frozen=True)
class Candidate:
    """A candidate with all that is known of it."""

    begun: Begun
    ended: Ended | None = None
    measured: Fresh | None = None

    @property
    def fresh(self) -> Estimate | None:
        """The estimate on fresh seeds."""
        return self.measured.estimate if self.measured else None

    @property
    def withdrawn(self) -> bool:
        """True where it was accepted, and its fresh runs failed."""
        return self.measured is not None and self.measured.withdrawn

    @property
    def accepted(self) -> bool:
        """True where it was accepted, and not withdrawn."""
        return self.ended is not None and self.ended.accepted and not self.withdrawn


@dataclass(frozen=True)
class Ledger:
    """The content of a ledger.

    candidates: the n-th is number n + 1. bests: the numbers of all bests in turn; 0: the first.
    """

    opening: Opening
    candidates: tuple[Candidate, ...] = ()
    bests: tuple[int, ...] = (0,)

    @property
    def best(self) -> int:
        """The number of the best so far."""
        return self.bests[-1]

    def version(self, number: int) -> Version:
        """Return a best by its number."""
        return self.candidates[number - 1].begun.candidate if number else self.opening.best

    def known(self, candidate: Version) -> Candidate | None:
        """Return the same candidate against the same best, if it began."""
        for each in self.candidates:
            if each.begun.best == self.best and each.begun.candidate.same(candidate):
                return each
        return None

    def next_rate(self) -> float:
        """Return the rate at which the next candidate would be tested; 0: nothing is left."""
        better = sum(e.ended is not None and e.ended.verdict == "better" for e in self.candidates)
        terms = self.opening.terms
        return budget_level(terms.rate, terms.candidates, len(self.candidates) + 1, better)

    def with_entry(self, entry: Entry) -> Ledger:
        """Return the ledger with one more entry. Raise Mismatch for one that cannot follow."""
        if isinstance(entry, Begun):
            return self._with_begun(entry)
        number = entry.end if isinstance(entry, Ended) else entry.fresh
        if number > len(self.candidates):
            raise Mismatch(f"is of candidate {number}, which never began")
        if isinstance(entry, Ended):
            return self._with_ended(number, entry)
        return self._with_fresh(number, entry)

    def _with_begun(self, entry: Begun) -> Ledger:
        if entry.begin != len(self.candidates) + 1:
            raise Mismatch(f"begins candidate {entry.begin} after {len(self.candidates)}")
        if entry.best not in self.bests:
            raise Mismatch(f"is compared with {entry.best}, which never was the best")
        if not math.isclose(entry.rate, rate := self.next_rate()):
            raise Mismatch(f"has the rate {entry.rate:g} where the budget leaves {rate:g}")
        return replace(self, candidates=(*self.candidates, Candidate(entry)))

    def _with_fresh(self, number: int, entry: Fresh) -> Ledger:
        each = self.candidates[number - 1]
        if number not in self.bests:
            raise Mismatch(f"is of candidate {number}, which was not accepted")
        if each.measured is not None:
            raise Mismatch(f"measures candidate {number} again")
        measured = self._with(number, replace(each, measured=entry))
        if not entry.withdrawn or number != self.best:
            return measured
        return replace(measured, bests=(*self.bests, each.begun.best))

    def _with_ended(self, number: int, entry: Ended) -> Ledger:
        each = self.candidates[number - 1]
        if each.ended is not None:
            raise Mismatch(f"ends candidate {number} again")
        ended = self._with(number, replace(each, ended=entry))
        if not entry.accepted:
            return ended
        if entry.verdict != "better" or each.begun.best != self.best:
            raise Mismatch(f"accepts candidate {number}, which is not better than the best")
        return replace(ended, bests=(*self.bests, number))

    def _with(self, number: int, changed: Candidate) -> Ledger:
        before, after = self.candidates[: number - 1], self.candidates[number:]
        return replace(self, candidates=(*before, changed, *after))


def budget_level(rate: float, candidates: int, number: int, better: int) -> float:
    """Return the rate at which a candidate is tested; 0 where the budget is spent.

    Args:
        rate: of false ones among the accepted.
        candidates: for how many the budget is.
        number: of the candidate, from 1.
        better: how many were found better before it began.
    """
    return min(rate, (better + 1) * rate / candidates) if number <= candidates else 0.0


def sound_terms(values: Mapping[str, Json]) -> Terms:
    """Return the terms of a new ledger. Raises UserError for those that no ledger can have."""
    if not values.get("margin"):
        raise UserError("a new ledger needs --margin, the difference that does not matter")
    try:
        terms = decode(Terms, json.loads(json.dumps(values)))
    except Mismatch as why:
        raise UserError(f"no ledger can have that: {why}") from None
    if terms.first > terms.most:
        raise UserError(f"the seeds go from {terms.first} to {terms.most}")
    return terms


def require_untracked(path: Path) -> None:
    """Raise UserError for a ledger that git tracks, as putting files back erases its lines."""
    resolved = path.resolve()
    try:
        git(resolved.parent, "ls-files", "--error-unmatch", "--", resolved.name)
    except (OSError, subprocess.SubprocessError):
        return
    raise UserError(
        f"git tracks the ledger '{path}', so that putting files back would erase candidates: keep "
        f"it outside of the repository, or `git rm --cached {path}` and name it in .gitignore"
    )


def read_ledger(path: Path) -> Ledger | None:
    """Return the content of a ledger, or None where there is none yet.

    Raises UserError for a file that is none, in a line that says where.
    """
    try:
        data = read_bytes(path, MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    lines = data.split(b"\n")[:-1]  # what follows the last end of a line was never finished
    if not lines:
        raise UserError(f"'{path}' is no ledger: it has no whole line; remove it to begin one")
    ledger: Ledger | None = None
    for number, line in enumerate(lines, 1):
        try:
            ledger = _opened(line) if ledger is None else ledger.with_entry(_entry(line))
        except Mismatch as why:
            raise UserError(f"line {number} of the ledger '{path}' {_after_it(why)}") from None
    return ledger


def _after_it(why: Mismatch) -> str:
    text = str(why)
    verbs = ("is ", "has ", "must ", "begins ", "measures ", "ends ", "accepts ")
    return text if text.startswith(verbs) else f"is damaged: {text}"


def _opened(line: bytes) -> Ledger:
    opening = decode(Opening, parse_object(line))
    terms = opening.terms
    if terms.first > terms.most:
        raise Mismatch(f"has a first look of {terms.first} seeds and a last one of {terms.most}")
    return Ledger(opening)


def _entry(line: bytes) -> Entry:
    parts = parse_object(line)
    kind = next((kind for name, kind in _KINDS.items() if name in parts), None)
    if kind is None:
        raise Mismatch(f"must have one of {', '.join(_KINDS)}")
    return decode(kind, parts)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a ledger, which others wait for. Raises UserError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(path.with_name(f".{path.name}.lock")):
            yield
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None


def append(path: Path, entry: Opening | Entry) -> None:
    """Add a line to a ledger, for good; its lock must be held."""
    line = json.dumps(asdict(entry), allow_nan=False).encode() + b"\n"
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        end = _whole(handle)
        os.ftruncate(handle, end)
        os.lseek(handle, end, os.SEEK_SET)
        while line:
            line = line[os.write(handle, line) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _whole(handle: int) -> int:
    """Return where the last whole line of a file ends."""
    size = os.fstat(handle).st_size
    tail = os.pread(handle, min(size, MOST_BYTES), max(0, size - MOST_BYTES))
    return size - len(tail) + tail.rfind(b"\n") + 1
