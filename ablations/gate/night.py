"""A candidate against the best so far, booked in a ledger; see `ablations.gate.ledger`.

Every candidate is compared with the best at the rate that the budget leaves it, and passes where it
is better. The accepted one is the best from then on, and its stored runs are the baseline's. What
was accepted was picked for looking good, so the difference that it was picked by is too large on
average (the winner's curse): an estimate from fresh seeds, which no decision has seen, is booked
beside it.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ablations.core.decode import Json
from ablations.errors import UserError, count
from ablations.gate.ledger import (
    Begun,
    Candidate,
    Ended,
    Estimate,
    Fresh,
    Ledger,
    Opening,
    Terms,
    Version,
    append,
    locked,
    read_ledger,
)
from ablations.gate.question import CODES, UNDECIDED, Margin, Question, Verdict, Word
from ablations.gate.run import DEFAULT, Gate, Lost, Say, deadline_of, silent
from ablations.gate.sides import (
    Copy,
    Side,
    Sides,
    code_here,
    copied_site,
    keep_commit,
    keep_copy,
    where_copied,
)
from ablations.names import NAME
from ablations.report.statistics import Comparison
from ablations.sweep.backends.command.code import digest_of
from ablations.sweep.backends.command.commit import checked_out
from ablations.sweep.backends.command.repository import place_of
from ablations.sweep.local import Processes
from ablations.trainers.command import Line, Site

_PLACEHOLDER = re.compile(r"\{[A-Za-z_]\w*\}")


@dataclass(frozen=True)
class Booked:
    """A candidate in its ledger, after a call. verdict: of this call; None where it was known."""

    ledger: Ledger
    number: int
    verdict: Verdict | None = None

    @property
    def candidate(self) -> Candidate:
        """The entries of the candidate."""
        return self.ledger.candidates[self.number - 1]

    @property
    def ended(self) -> Ended | None:
        """The verdict that was booked, None before that."""
        return self.candidate.ended

    @property
    def overtaken(self) -> bool:
        """True where it is better than a best that was replaced while it ran."""
        ended = self.ended
        return ended is not None and ended.verdict == "better" and not ended.accepted

    @property
    def word(self) -> Word:
        """The verdict; that of one whose fresh runs failed is no pass."""
        if self.ended is None:
            return "undecided"
        return "unstable" if self.candidate.withdrawn else self.ended.verdict

    @property
    def code(self) -> int:
        """The exit code: 0 for what was accepted."""
        return UNDECIDED if self.overtaken else CODES[self.word]

    @property
    def log(self) -> tuple[str, ...]:
        """The end of what a failed run of the candidate printed."""
        if self.ended is not None:
            return self.ended.log
        return self.verdict.log if self.verdict else ()

    @property
    def text(self) -> str:
        """The outcome, in a line."""
        if self.ended is None:
            return self.verdict.text if self.verdict else "undecided"
        text = self.ended.line
        if self.overtaken:
            return f"{text}; the best has changed meanwhile: ask again"
        if not self.ended.accepted:
            return text
        measured = self.candidate.measured
        if measured is None:
            left = self.ledger.opening.terms.fresh
            more = "; its fresh runs are not whole: the same call goes on" if left else ""
            return f"{text}; it is the best now{more}"
        if measured.withdrawn:
            return f"{text}; not kept, as on fresh seeds {measured.failed}"
        failed = f" ({measured.failed})" if measured.failed else ""
        return f"{text}; it is the best now; {_shown(measured.estimate)}{failed}"


def split_command(run: tuple[str, ...], fixed: tuple[str, ...] | None) -> int:
    """Return how many words of a command all candidates share.

    Those up to the last placeholder, or the program alone where there is none.

    Args:
        run: the command.
        fixed: the words that a ledger has; None: before it exists. Raises UserError where the
            command does not begin with them.
    """
    if fixed is None:
        named = [at for at, word in enumerate(run) if _PLACEHOLDER.search(word)]
        return max(named, default=0) + 1
    if run[: len(fixed)] != fixed or any(map(_PLACEHOLDER.search, run[len(fixed) :])):
        raise UserError(
            f"the commands of this ledger begin with `{' '.join(fixed)}`: only what follows may "
            f"differ"
        )
    return len(fixed)


class Night:
    """The candidates of one ledger, in a folder."""

    def __init__(self, path: Path, question: Question, terms: Terms, results: Path, here: Path):
        """Prepare a candidate.

        Args:
            path: of the ledger.
            question: with the whole command of this candidate.
            terms: what the ledger asks of every candidate.
            results: the results folder.
            here: the folder in which the command runs.
        """
        self.path, self.terms, self.results, self.here = path, terms, results, here
        self.code = code_here(replace(question, depends=terms.depends), here, path.resolve())
        line = replace(question.line, run=terms.run)
        arguments = question.line.run[len(terms.run) :]
        copy = where_copied(self.code)
        digest = digest_of(self.code.files(), here)
        called = " ".join(arguments) or digest[:8]
        self.now = Version(digest, arguments, called, *copy)
        self.question = replace(
            question,
            line=line,
            margin=Margin.read(terms.margin),
            rate=terms.rate,
            first=terms.first,
            most=terms.most,
            futility=terms.futility,
            steps=terms.steps,
            depends=terms.depends,
            better=True,
            baseline=None,
            against=(),
        )

    def open(
        self,
        commit: str | None,
        against: tuple[str, ...],
        executor: Processes = DEFAULT,
        seconds: float | None = None,
    ) -> bool:
        """Begin the ledger where it does not exist, with a first best that runs.

        Args:
            commit: the first best; None: the files as they are.
            against: the arguments that the first best has more.
            executor: where the commands run.
            seconds: a bound on the wall time.

        Returns:
            Whether there is a candidate beside the first best.

        Raises:
            UserError: every run of the first best fails.
        """
        if read_ledger(self.path) is not None:
            return True
        best = replace(self.now, arguments=(*self.now.arguments, *against))
        if commit is not None:
            checkout = checked_out(self.here, commit, self.results, self.terms.depends)
            called = f"{commit} ({checkout.name[:10]})"
            copy = keep_commit(checkout, self.results)
            best = Version(checkout.digest, best.arguments, called, *copy)
        self._require_runs(best, executor, deadline_of(seconds))
        with locked(self.path):
            if read_ledger(self.path) is not None:
                return True
            if commit is None:
                keep_copy(self.code, self.results)
            append(self.path, Opening(1, self.terms, best))
        return not best.same(self.now)

    def judge(
        self, say: Say = silent, executor: Processes = DEFAULT, seconds: float | None = None
    ) -> Booked:
        """Judge the candidate and book it; one that is known costs nothing. Raises UserError.

        Args:
            say: takes what is planned, and the verdict of each look but the last.
            executor: where the commands run.
            seconds: a bound on the wall time; see `Gate.run`.
        """
        since = time.monotonic()
        ledger = self._read()
        if not ledger.best and not ledger.known(self.now):  # else its share of the budget is lost
            quiet = replace(executor, quiet=True)
            self._require_runs(ledger.opening.best, quiet, deadline_of(seconds, since))
        begun = self._begin()
        number = begun.begin
        ledger = self._read()
        each, verdict = ledger.candidates[number - 1], None
        # It may have been killed between its verdict and its estimate.
        lacks_fresh = each.accepted and each.measured is None and self.terms.fresh > 0
        if (ended := each.ended) is not None and not lacks_fresh:
            return Booked(ledger, number)
        question = replace(self.question, pass_rate=begun.rate, name=self._name(number))
        gate = Gate(question, self.results, self._sides(ledger, begun))
        if ended is None:
            say("\n".join(gate.stated()))
            verdict = gate.run(say, executor, seconds, since)
            gate.write(gate.described(verdict))
            if not verdict.final:
                return Booked(ledger, number, verdict)
            ended = self._end(number, verdict)
        if ended.accepted and self.terms.fresh:
            measured = gate.fresh(self.terms.fresh, executor, deadline_of(seconds, since))
            if measured is not None:
                self._book(_fresh(number, *measured))
        return Booked(self._read(), number, verdict)

    def _read(self) -> Ledger:
        ledger = read_ledger(self.path)
        if ledger is None:
            raise UserError(f"'{self.path}' is gone")
        return ledger

    def _begin(self) -> Begun:
        with locked(self.path):
            ledger = self._read()
            if ledger.version(ledger.best).same(self.now):
                if ledger.best:
                    return ledger.candidates[ledger.best - 1].begun
                raise UserError("nothing to compare: this is the first best, unchanged")
            if known := ledger.known(self.now):
                return known.begun
            rate = ledger.next_rate()
            if not rate:
                raise UserError(
                    f"the budget of '{self.path}' is spent: it was for {self.terms.candidates} "
                    f"candidates; begin another ledger (--candidates N)"
                )
            begun = Begun(len(ledger.candidates) + 1, self.now, ledger.best, rate)
            append(self.path, begun)
            return begun

    def _require_runs(self, first: Version, executor: Processes, deadline: float | None) -> None:
        """Run the first look's seeds of the first best. Raises UserError where all of them fail."""
        side = self._side(first, f"the first, {first.called}")
        question = replace(self.question, name=self._name(0))
        Gate(question, self.results, Sides(side, side)).require_baseline(executor, deadline)

    def _name(self, number: int) -> str:
        stem = self.path.stem if NAME.fullmatch(self.path.stem) else "ledger"
        return f"{stem[:80]}-{number}"

    def _side(self, version: Version, called: str) -> Side:
        timeout = self.question.timeout
        if version.code == self.now.code:
            site = Site(version.code, place_of(self.code, timeout))
        else:
            copy = Copy(version.folder, version.inside)
            site = copied_site(copy, version.code, self.results, timeout)
        return Side(site, version.arguments, called)

    def _sides(self, ledger: Ledger, begun: Begun) -> Sides:
        best = ledger.version(begun.best)
        called = f"the best so far, {best.called}" if begun.best else f"the first, {best.called}"
        return Sides(
            self._side(best, called),
            self._side(self.now, f"candidate {begun.begin}, {self.now.called}"),
        )

    def _end(self, number: int, verdict: Verdict) -> Ended:
        with locked(self.path):
            ledger = self._read()
            each = ledger.candidates[number - 1]
            if each.ended is not None:  # by another process, from the same runs
                return each.ended
            accepted = verdict.word == "better" and each.begun.best == ledger.best
            if accepted or any(verdict.failed.values()):
                self._require_unedited()
            if accepted:
                keep_copy(self.code, self.results)
            last = verdict.looks[-1]
            estimate = None
            if last.difference is not None:
                estimate = Estimate(last.difference, last.low, last.high, last.pairs)
            ended = Ended(number, verdict.word, accepted, verdict.text, estimate, verdict.log)
            append(self.path, ended)
            return ended

    def _require_unedited(self) -> None:
        if digest_of(self.code.files(), self.here) != self.now.code:
            raise UserError(
                "the files were edited while the candidate ran, so its verdict is not booked: put "
                "them back and ask again; its runs are stored"
            )

    def _book(self, entry: Fresh) -> None:
        with locked(self.path):
            if self._read().candidates[entry.fresh - 1].measured is None:
                append(self.path, entry)


def opened(path: Path, called: str) -> dict[str, Json]:
    """Return a ledger that was begun, as JSON. called: its first best."""
    ledger = read_ledger(path)
    return {
        "verdict": "booked",
        "exit_code": 0,
        "line": f"gate: the first best is booked in {path}: {called}",
        "ledger": str(path),
        "candidate": 0,
        "accepted": False,
        "best": 0,
        "candidates_left": ledger.opening.terms.candidates if ledger else 0,
    }


def described(booked: Booked, path: Path) -> dict[str, Json]:
    """Return a booked candidate as JSON."""
    each, ledger = booked.candidate, booked.ledger
    ended = booked.ended
    return {
        "verdict": booked.word,
        "exit_code": booked.code,
        "line": f"gate: {booked.text}",
        "ledger": str(path),
        "candidate": booked.number,
        "accepted": each.accepted,
        "rate": each.begun.rate,
        "found": asdict(ended.found) if ended and ended.found else None,
        "fresh": asdict(each.fresh) if each.fresh else None,
        "best": ledger.best,
        "candidates_left": max(0, ledger.opening.terms.candidates - len(ledger.candidates)),
        "log": list(booked.log),
    }


def _fresh(number: int, compared: Comparison, lost: Lost) -> Fresh:
    """Return the entry of a measured gain, which is withdrawn where it fails as a change would."""
    estimate = Estimate(compared.difference, compared.low, compared.high, compared.n)
    nothing = compared.difference is None
    return Fresh(number, estimate, lost.reason, lost.fails or (nothing and bool(lost.seeds)))


def _shown(estimate: Estimate) -> str:
    if estimate.difference is None:
        return "its fresh runs have no pair to compare, so there is no number to report"
    between = "" if estimate.low is None else f" [{estimate.low:+.4g}, {estimate.high:+.4g}]"
    return (
        f"on {count(estimate.seeds, 'fresh seed')} {estimate.difference:+.4g}{between}: report "
        f"this one, as the first was picked for being large"
    )


def terms_of(line: Line, run: tuple[str, ...]) -> dict[str, Json]:
    """Return what a line says of every candidate, as `Terms` has it."""
    return {
        "run": run,
        "curve": line.curve,
        "metric": line.metric,
        "step": line.step,
        "direction": line.better,
    }
