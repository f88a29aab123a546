"""The pytest fixture `learning_curve`: any trainer's curves against a baseline beside the test.

    def test_sac_still_learns(learning_curve):
        learning_curve.check(curves, name="sac-hopper")

    $ pytest --learning-curve-update --reason "first version"    # stores the curves
    $ pytest --learning-curve-figures figures    # draws them, also where all is well

pytest loads this file wherever rl-ablations is installed: nothing but pytest is imported until a
test asks for the fixture, and neither JAX nor a trainer ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ablations.errors import UserError

if TYPE_CHECKING:
    from ablations.regression.check import Check
    from ablations.regression.curves import Curves

FOLDER = "learning_curves"
BASELINE_SEEDS = 24
_SAID = "learning_curve"
_tests = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("learning curves")
    group.addoption(
        "--learning-curve-update",
        action="store_true",
        help="store the curves of the tests that run as their new baselines; needs --reason",
    )
    group.addoption("--reason", metavar="TEXT", help="why the baselines change; kept with them")
    group.addoption(
        "--learning-curve-figures",
        metavar="DIR",
        help="draw every check there; without it, only those that fail, in pytest's own tmp_path",
    )
    parser.addini(
        "learning_curve_dir",
        f"folder of the baselines, from the root; default: {FOLDER}/ beside the test",
        default="",
    )
    parser.addini("learning_curve_alpha", "false-alarm rate of a check", default="0.01")
    parser.addini(
        "learning_curve_alpha_of",
        "check: each has that rate (default); run: all collected tests together have it",
        default="check",
    )


def pytest_configure(config: pytest.Config) -> None:
    if (
        config.getoption("--learning-curve-update")
        and not (config.getoption("--reason") or "").strip()
    ):
        raise pytest.UsageError(
            "--learning-curve-update needs --reason: why do the baselines change?"
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every xdist worker collects all tests, so all divide the rate by the same number."""
    config.stash[_tests] = sum("learning_curve" in getattr(i, "fixturenames", ()) for i in items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.when == "call":
        said = [text for name, text in item.user_properties if name == _SAID]
        if said and report.failed:
            report.sections.append(("Learning curves", "\n\n".join(map(str, said))))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line per check, with what is worth a look though it passes."""
    lines = [
        text.splitlines()[0]
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if getattr(report, "when", "") == "call"
        for name, text in report.user_properties
        if name == _SAID
    ]
    if lines:
        terminalreporter.section("learning curves")
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture
def learning_curve(request: pytest.FixtureRequest) -> LearningCurve:
    """Checks learning curves: `learning_curve.check(curves, name=...)`."""
    return LearningCurve(request)


class LearningCurve:
    def __init__(self, request: pytest.FixtureRequest):
        self._request = request
        self._config = request.config

    def check(
        self,
        curves: Any | Callable[[tuple[int, ...]], Any],
        *,
        name: str,
        metric: str = "return",
        higher_is_better: bool = True,
        task: str | None = None,
        steps: Sequence[float] | None = None,
        seeds: Sequence[int] | None = None,
        effect: float | None = None,
        unit: float | None = None,
        alpha: float | None = None,
        paired: bool = False,
        most_seeds: int | None = None,
        baseline_seeds: int = BASELINE_SEEDS,
        missing_ok: bool = False,
    ) -> Check | None:
        """Fails the test where the curves are worse than the baseline `name`.

        curves: an array `[seeds, points]`, a data frame with columns seed, step and value, or a
            function seeds -> one of these, which is asked for a few seeds first and for more only
            while the answer is open.
        steps, seeds: of an array's points and rows; default: 1, 2, ... and 0, 1, ...
        effect: the smallest loss worth catching (0.15), as a share of `unit`: the range of the
            metric that matters to you; default: from the lowest to the highest point of the
            baseline's mean curve. alpha: the false-alarm rate.
        paired: compare seed by seed. most_seeds: bound for a function (32). baseline_seeds: how
            many seeds an update asks a function for. missing_ok: NaN is a point without a value.
        Returns what it found, None after an update.
        """
        __tracebackhide__ = True
        asked: dict[str, Any] = {"effect": effect, "most": most_seeds, "alpha": alpha}
        given = {what: value for what, value in asked.items() if value is not None}
        about = {} if task is None else {"task": task}
        found, problem = None, ""
        try:
            read = self._reader(curves, steps, seeds, missing_ok)
            stem = self._stem(name)
            if self._config.getoption("--learning-curve-update"):
                self._update(stem, name, read, baseline_seeds, metric, higher_is_better, about)
                return None
            from ablations.regression.check import Terms

            terms = Terms(
                **{"alpha": self._alpha(), **given},
                unit=unit,
                higher_is_better=higher_is_better,
                paired=paired,
            )
            found = self._compare(stem, name, read, terms, metric, about)
        except UserError as error:
            problem = f"learning_curve: {error}"
        # Outside of the handler, or pytest would show both errors.
        if found is None:
            pytest.fail(problem, pytrace=False)
        return self._say(name, found, metric)

    def _reader(
        self, curves: Any, steps: Any, seeds: Any, missing_ok: bool
    ) -> Curves | Callable[[tuple[int, ...]], Curves]:
        from ablations.regression.curves import from_user

        if not callable(curves):
            return from_user(curves, steps=steps, seeds=seeds, missing_ok=missing_ok)

        def more(wanted: tuple[int, ...]) -> Curves:
            got = curves(wanted)
            own = None if hasattr(got, "columns") else wanted
            return from_user(got, steps=steps, seeds=own, missing_ok=missing_ok)

        return more

    def _compare(
        self, stem: Path, name: str, read: Any, terms: Any, metric: str, about: Mapping[str, Any]
    ) -> Check:
        from ablations.errors import UserError
        from ablations.regression import baselines, check

        if not baselines.exists(stem):
            raise UserError(
                f"{baselines.missing(stem, name)}: store these curves with "
                f'`pytest --learning-curve-update --reason "first version"`'
            )
        group = baselines.read(stem, name).groups.get("")
        if group is None:
            raise UserError(f"'{name}' is a baseline of `ablations check`, not of pytest")
        now = dict(about) | {"metric": metric, "higher_is_better": terms.higher_is_better}
        then = dict(group.about) | {
            "metric": group.metric,
            "higher_is_better": group.higher_is_better,
        }
        for what in {**then, **now}:
            if now.get(what) != then.get(what):
                raise UserError(
                    f"the baseline '{name}' has another {what}: {then.get(what)!r}, and this "
                    f"check {now.get(what)!r}"
                )
        if callable(read):
            return check.sequential(group.curves, read, terms)
        return check.check(group.curves, read, terms)

    def _update(
        self,
        stem: Path,
        name: str,
        read: Any,
        wanted: int,
        metric: str,
        higher_is_better: bool,
        about: Mapping[str, Any],
    ) -> None:
        from ablations.errors import UserError
        from ablations.regression import baselines
        from ablations.regression.looks import FEWEST_OLD

        curves = read(tuple(range(wanted))) if callable(read) else read
        if len(curves) < FEWEST_OLD:
            raise UserError(
                f"a baseline of {len(curves)} seeds says too little: at least {FEWEST_OLD}, 20 good"
            )
        made = baselines.updated(
            stem,
            name,
            {"": baselines.Group(curves, metric, higher_is_better, about=about)},
            reason=self._config.getoption("--reason"),
            provenance=_provenance(self._config.rootpath),
        )
        reason = made.history[-1]["reason"]
        path = _relative(stem.with_name(stem.name + ".json"), self._config.rootpath)
        self._note(f"{name}: stored {len(curves)} seeds in {path}: {reason}")

    def _say(self, name: str, found: Check, metric: str) -> Check:
        from ablations.regression import messages as words

        __tracebackhide__ = True
        line = words.line(name, found)
        parts = [line]
        folder = self._config.getoption("--learning-curve-figures")
        if found.verdict == "worse" or folder:
            parts += ["", words.text({name: found})]
            parts += ["", f"figure: {self._figure(name, found, metric, folder)}"]
        if found.differs is not None:
            seed, step = found.differs
            parts.append(f"bits: seed {seed} differs from the baseline's from step {step:,.0f} on")
        self._note("\n".join(parts))
        if found.verdict == "worse":
            again = "pytest --learning-curve-update --reason ..."
            pytest.fail(f"{line}\nIf that is meant: {again}", pytrace=False)
        return found

    def _figure(self, name: str, found: Check, metric: str, folder: str | None) -> Path:
        from ablations.regression import figures

        target = Path(folder) if folder else self._request.getfixturevalue("tmp_path")
        # Several parametrisations, or xdist workers, write into one folder.
        test = re.sub(r"[^\w.-]+", "_", self._request.node.nodeid.partition("::")[2])
        stem = f"{test}_{name}" if folder else name
        return figures.write(Path(target).absolute(), stem, name, {"": found}, {"": metric})[0]

    def _note(self, text: str) -> None:
        self._request.node.user_properties.append((_SAID, text))

    def _stem(self, name: str) -> Path:
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise UserError(
                f"a baseline's name has letters, digits, '.', '_' and '-' alone, not '{name}'"
            )
        folder = self._config.getini("learning_curve_dir")
        return (
            self._config.rootpath / folder if folder else self._request.path.parent / FOLDER
        ) / name

    def _alpha(self) -> float:
        text = self._config.getini("learning_curve_alpha")
        try:
            alpha = float(text)
        except ValueError:
            raise UserError(f"learning_curve_alpha must be a number, not '{text}'") from None
        of = self._config.getini("learning_curve_alpha_of")
        if of not in ("check", "run"):
            raise UserError(f"learning_curve_alpha_of is check or run, not '{of}'")
        return alpha / (self._config.stash.get(_tests, 1) if of == "run" else 1)


def _relative(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path


def _provenance(root: Path) -> dict[str, Any]:
    from ablations.regression.provenance import of_process

    return of_process(root)
