"""The pytest fixture `learning_curve`: any trainer's curves against a baseline beside the test.

NumPy and SciPy alone; matplotlib only to draw.
"""

from __future__ import annotations

import contextlib
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from ablations.errors import UserError
from ablations.git import git
from ablations.regression import FOLDER, SAID, baselines, messages
from ablations.regression.check import Check, Terms, check, sequential
from ablations.regression.curves import SCORES, Curves, Data, Frame, Rows, Score, from_user
from ablations.regression.design import FEWEST_OLD

# Their versions are stored where the process has loaded them.
LIBRARIES = (
    "brax",
    "gymnasium",
    "jax",
    "numpy",
    "optax",
    "ray",
    "stable_baselines3",
    "tianshou",
    "torch",
    "torchrl",
)
AGAIN = "pytest --learning-curve-update --learning-curve-reason"


Reader = Callable[[tuple[int, ...]], Curves]
Grouped = Callable[[Curves], baselines.Group]  # with the conditions of a check


@contextlib.contextmanager
def _failing_for_users() -> Iterator[None]:
    """Fail the test with the message of a UserError."""
    try:
        yield
    except UserError as error:  # from None, or pytest would show both errors
        raise pytest.fail.Exception(f"learning_curve: {error}", pytrace=False) from None


class LearningCurve:
    """The fixture; see `check`."""

    def __init__(self, request: pytest.FixtureRequest, names: dict[str, str]):
        """Serve a test. names: path of a baseline -> the test that has it."""
        self._names = names
        self._request = request
        self._config = request.config
        self._used: set[str] = set()

    def check(  # noqa: PLR0913 (a test names the few that it wants)
        self,
        curves: Data | Callable[[tuple[int, ...]], Data],
        *,
        name: str | None = None,
        metric: str = "return",
        higher_is_better: bool = True,
        task: str | None = None,
        steps: Rows | Sequence[float] | None = None,
        seeds: Sequence[int] | None = None,
        effect: float | None = None,
        unit: float | None = None,
        alpha: float | None = None,
        paired: bool = False,
        scores: Mapping[str, Score] | None = None,
        fail_on: str | None = None,
        most_seeds: int | None = None,
        baseline_seeds: int | None = None,
        missing_ok: bool = False,
    ) -> Check:
        """Fail the test where the curves are worse than the baseline `name`.

        Args:
            curves: an array `[seeds, points]`, a data frame with columns seed, step and value, or a
                function seeds -> one of these, which is asked for a few seeds first and for more
                only while the answer is open.
            name: of the baseline; default: the test's own. Two tests cannot share one.
            metric: the name of the values; stored, and compared with the baseline's.
            higher_is_better: the direction of the metric.
            task: stored, and compared with the baseline's.
            steps: of an array's points; default: 1, 2, ... Rows may have steps of their own. Step 0
                is a point as any other.
            seeds: of an array's rows; default: 0, 1, ...
            effect: the smallest loss worth catching (0.15), as a share of `unit`.
            unit: the range of the metric that matters to you; default: from the lowest to the
                highest point of the baseline's mean curve.
            alpha: the false-alarm rate (0.01), on average over baselines: a baseline whose seeds
                did well by chance alarms more often. More seeds in the baseline mend that, and
                `paired` does where equal seeds go alike.
            paired: compare seed by seed.
            scores: name -> function (steps, values) -> number, in the metric's units; default:
                final performance and area under the curve.
            fail_on: "worse" (default), or "undecided": a check that can neither show nor rule out a
                loss fails too, since few seeds could otherwise stay green for ever.
            most_seeds: bound for a function (32).
            baseline_seeds: how many seeds an update asks a function for (24).
            missing_ok: NaN is a point without a value.

        Returns:
            The result; on an update, of the stored curves against themselves. Defaults of effect,
            alpha, fail_on and the seeds: `learning_curve_*` in pytest's ini.
        """
        __tracebackhide__ = True
        with _failing_for_users():
            wanted = dict(scores or SCORES)
            fail_on = fail_on or self._ini("fail_on")
            if fail_on not in ("worse", "undecided"):
                raise UserError(f"fail_on is 'worse' or 'undecided', not '{fail_on}'")
            name = self._default_name() if name is None else name
            stem = self._stem(name)
            self._claim(stem, name)
            read = _reader(curves, steps, seeds, missing_ok, wanted)
            terms = Terms(
                alpha=self._number("alpha") if alpha is None else alpha,
                effect=self._number("effect") if effect is None else effect,
                unit=unit,
                higher_is_better=higher_is_better,
                most=self._count("seeds") if most_seeds is None else most_seeds,
                paired=paired,
                scores=wanted,
            )
            group = partial(
                baselines.Group,
                metric=metric,
                higher_is_better=higher_is_better,
                about={} if task is None else {"task": task},
                scores=wanted,
            )
            if self._config.getoption("--learning-curve-update"):
                few = self._count("baseline_seeds") if baseline_seeds is None else baseline_seeds
                return self._update(stem, name, read, few, terms, group)
            if callable(read):
                checked = sequential(_baseline(stem, name, group), read, terms)
            else:
                checked = check(_baseline(stem, name, group), read, terms)
        return self._say(name, checked, metric, fail_on)

    def _update(
        self,
        stem: Path,
        name: str,
        read: Curves | Reader,
        wanted: int,
        terms: Terms,
        group: Grouped,
    ) -> Check:
        curves = read(tuple(range(wanted))) if callable(read) else read
        if len(curves) < FEWEST_OLD:
            raise UserError(
                f"a baseline of {len(curves)} seeds says too little: at least {FEWEST_OLD}, 20 good"
            )
        checked = check(curves, curves, terms)
        before = ""
        if baselines.exists(stem):
            try:
                line = messages.line(name, check(_baseline(stem, name, group), curves, terms))
                before = f"; against the version before: {line}"
            except UserError as error:
                before = f"; not comparable with the version before: {error}"
        baseline = baselines.updated(
            stem,
            name,
            {"": group(curves)},
            reason=self._config.getoption("--learning-curve-reason"),
            provenance=_origin(self._config.rootpath),
        )
        path, root = stem.with_name(f"{stem.name}.json"), self._config.rootpath
        path = path.relative_to(root) if path.is_relative_to(root) else path
        reason = baseline.history[-1]["reason"]
        self._note(f"{name}: stored {len(curves)} seeds in {path}: {reason}{before}")
        return checked

    def _say(self, name: str, result: Check, metric: str, fail_on: str | None) -> Check:
        __tracebackhide__ = True
        line = messages.line(name, result)
        parts = [line]
        folder = self._config.getoption("--learning-curve-figures")
        failed = result.verdict in ("worse", fail_on)
        if failed or folder:
            parts += ["", messages.text({name: result})]
            parts += ["", f"figure: {self._figure(name, result, metric, folder)}"]
        if result.differs is not None:
            seed, step = result.differs
            parts.append(f"bits: seed {seed} differs from the baseline's from step {step:,.0f} on")
        self._note("\n".join(parts))
        if failed:
            mend = (
                f'If that is meant: {AGAIN} "..."'
                if result.verdict == "worse"
                else "Undecided fails here (fail_on): more seeds, a larger effect, or a baseline "
                "of more seeds decide it"
            )
            pytest.fail(f"{line}\n{mend}", pytrace=False)
        return result

    def _figure(self, name: str, result: Check, metric: str, folder: str | None) -> str:
        from ablations.regression import figures

        target = Path(folder) if folder else self._request.getfixturevalue("tmp_path")
        # Several parametrisations, or xdist workers, write into one folder.
        test = re.sub(r"[^\w.-]+", "_", self._request.node.nodeid.partition("::")[2])
        stem = f"{test}_{name}" if folder else name

        path = Path(target).absolute() / stem
        return str(figures.draw(name, {"": result}, {"": metric}, path, ("png",))[0])

    def _note(self, text: str) -> None:
        self._request.node.user_properties.append((SAID, text))

    def _default_name(self) -> str:
        """Return the test's node id: from its file on, or whole in a folder for all."""
        test = self._request.node.nodeid
        path, _, rest = test.partition("::")
        where = path if self._ini("dir") else self._request.path.name
        name = f"{where.removesuffix('.py')}.{rest.replace('::', '.')}"
        return re.sub(r"[^\w.-]+", "_", name).strip("_")

    def _stem(self, name: str) -> Path:
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise UserError(
                f"a baseline's name has letters, digits, '.', '_' and '-' alone, not '{name}'"
            )
        folder = self._ini("dir")
        root = self._config.rootpath
        return (root / folder if folder else self._request.path.parent / FOLDER) / name

    def _claim(self, stem: Path, name: str) -> None:
        """Raise UserError where another check has this baseline; a test may run again."""
        test, path = self._request.node.nodeid, str(stem)
        owner = self._names.setdefault(path, test)
        if owner != test or path in self._used:
            other = f"by {owner}" if owner != test else "earlier in this test"
            raise UserError(f"the name '{name}' is taken {other}: give each check its own name=")
        self._used.add(path)

    def _ini(self, name: str) -> str:
        return str(self._config.getini(f"learning_curve_{name}"))

    def _number(self, name: str) -> float:
        text = self._ini(name)
        try:
            return float(text)
        except ValueError:
            raise UserError(f"learning_curve_{name} must be a number, not '{text}'") from None

    def _count(self, name: str) -> int:
        text = self._ini(name)
        if not re.fullmatch(r"[1-9]\d*", text):
            raise UserError(f"learning_curve_{name} must be a number of seeds, not '{text}'")
        return int(text)


def _baseline(stem: Path, name: str, group: Grouped) -> Curves:
    """Return a baseline's curves. Raises UserError where other conditions hold."""
    if not baselines.exists(stem):
        raise UserError(
            f'{baselines.missing(stem, name)}: store these curves with `{AGAIN} "first version"`'
        )
    stored = baselines.read(stem, name).groups.get("")
    if stored is None:
        raise UserError(f"'{name}' is a baseline of `ablations check`, not of pytest")
    then, now = (
        {"metric": side.metric, "higher_is_better": side.higher_is_better, **side.about}
        for side in (stored, group(stored.curves))
    )
    for what in {**then, **now}:
        if then.get(what) != now.get(what):
            raise UserError(
                f"the baseline '{name}' has another {what}: {then.get(what)!r}, and this check "
                f"{now.get(what)!r}"
            )
    return stored.curves


def _reader(
    curves: Data | Callable[[tuple[int, ...]], Data],
    steps: Rows | Sequence[float] | None,
    seeds: Sequence[int] | None,
    missing_ok: bool,
    scores: Mapping[str, Score],
) -> Curves | Reader:
    def read(given: Data, which: Sequence[int] | None) -> Curves:
        return from_user(given, steps=steps, seeds=which, missing_ok=missing_ok, scores=scores)

    if not callable(curves):
        return read(curves, seeds)

    def more(wanted: tuple[int, ...]) -> Curves:
        got = curves(wanted)
        return read(got, None if isinstance(got, Frame) else wanted)

    return more


def _origin(root: Path) -> baselines.Origin:
    """Return the versions, processor and commit of this process: no host, path or time of day."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        if name in sys.modules:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                continue
    origin = baselines.Origin(versions=versions, machine=platform.machine())
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        origin["commit"] = git(root, "rev-parse", "HEAD").decode().strip()
    return origin
