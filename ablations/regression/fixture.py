"""The pytest fixture `learning_curve`: checks curves against a baseline stored next to the test."""

from __future__ import annotations

import contextlib
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from ablations.errors import UserError
from ablations.git import git
from ablations.regression import FOLDER, REPORTED, baselines, check
from ablations.regression.baselines import Group, Origin
from ablations.regression.check import Check, Terms
from ablations.regression.curves import SCORES, Curves, Data, Rows, Score, from_user, is_frame

# A baseline stores the versions of those that the process has loaded.
LIBRARIES = (
    *("brax", "gymnasium", "jax", "numpy", "optax", "ray", "stable_baselines3", "tianshou"),
    *("torch", "torchrl"),
)
UPDATE = "pytest --learning-curve-update --learning-curve-reason"
Trainer = Callable[[tuple[int, ...]], Data]


class LearningCurve:
    """The fixture; see `check`."""

    def __init__(self, request: pytest.FixtureRequest, names: dict[str, str]):
        """Create the fixture of a test; `names` maps the path of a baseline to its test."""
        self._request, self._config, self._names = request, request.config, names
        self._used: set[str] = set()

    def check(  # noqa: PLR0913 (a test names the few that it needs)
        self,
        curves: Data | Trainer,
        *,
        name: str | None = None,
        metric: str = "return",
        higher_is_better: bool = True,
        steps: Rows | Sequence[float] | None = None,
        seeds: Sequence[int] | None = None,
        effect: float | None = None,
        unit: float | None = None,
        alpha: float | None = None,
        scores: Mapping[str, Score] | None = None,
        fail_on: str | None = None,
        most_seeds: int | None = None,
        baseline_seeds: int | None = None,
        missing_ok: bool = False,
    ) -> Check:
        """Fail the test if the curves are worse than the baseline `name`.

        Args:
            curves: an array `[seeds, points]`, a data frame with the columns seed, step and value,
                or a function from seeds to one of these. The function is called with a few seeds
                first, and with more while the check is undecided.
            name: of the baseline; default: the test's name. Two tests cannot share a baseline.
            metric: the name of the values; must equal the baseline's.
            higher_is_better: the direction of the metric.
            steps: of an array's points, for all rows or for each row; default: 1, 2, ...
            seeds: of an array's rows; default: 0, 1, ...
            effect: the smallest loss worth detecting (0.15), as a share of `unit`.
            unit: a range of the metric; default: from the lowest to the highest point of the
                baseline's mean curve.
            alpha: the false-alarm rate (0.01), on average over baselines. It is higher for a
                baseline whose seeds did well by chance; more baseline seeds reduce this.
            scores: name -> function (steps, values) -> number in units of the metric; default:
                final performance and area under the curve.
            fail_on: "worse" (default), or "undecided" to fail undecided checks too.
            most_seeds: upper bound of the seeds for a function (32).
            baseline_seeds: number of seeds that an update trains with a function (24).
            missing_ok: accept NaN as a point without a value.

        Returns:
            The result; an update compares the stored curves with themselves. `learning_curve_*` in
            pytest's ini set the defaults of effect, alpha, fail_on and the numbers of seeds.
        """
        __tracebackhide__ = True
        try:
            scores = scores or SCORES
            fail_on = fail_on or self._ini("fail_on")
            if fail_on not in ("worse", "undecided"):
                raise UserError(f"fail_on='{fail_on}': expected 'worse' or 'undecided'")
            name = self._default_name() if name is None else name
            stem = self._claimed(name)
            terms = Terms(
                alpha=self._number("alpha") if alpha is None else alpha,
                effect=self._number("effect") if effect is None else effect,
                unit=unit,
                higher_is_better=higher_is_better,
                most=most_seeds or int(self._number("seeds")),
                scores=scores,
            )

            def read(given: Data, which: Sequence[int] | None) -> Curves:
                return from_user(
                    given, steps=steps, seeds=which, missing_ok=missing_ok, scores=terms.scores
                )

            def trained(wanted: tuple[int, ...]) -> Curves:
                got = curves(wanted) if callable(curves) else curves
                return read(got, None if is_frame(got) else wanted)

            if self._config.getoption("--learning-curve-update"):
                few = baseline_seeds or int(self._number("baseline_seeds"))
                now = trained(tuple(range(few))) if callable(curves) else read(curves, seeds)
                group = Group(now, metric, higher_is_better)
                return self._update(stem, name, group, terms)
            baseline = _baseline(stem, name, metric, higher_is_better)
            if callable(curves):
                result = check.sequential(baseline, trained, terms)
            else:
                result = check.check(baseline, read(curves, seeds), terms)
        except UserError as error:  # from None, or pytest would show both errors
            raise pytest.fail.Exception(f"learning_curve: {error}", pytrace=False) from None
        self._report(name, result, metric, fail_on)
        return result

    def _update(self, stem: Path, name: str, group: Group, terms: Terms) -> Check:
        curves = group.curves
        result = check.check(curves, curves, terms)
        before = ""
        if baselines.exists(stem):
            try:
                stored = _baseline(stem, name, group.metric, group.higher_is_better)
                line = check.line(name, check.check(stored, curves, terms))
                before = f"; compared with the previous version: {line}"
            except UserError as error:
                before = f"; not comparable with the previous version: {error}"
        reason = self._config.getoption("--learning-curve-reason")
        root = self._config.rootpath
        baseline = baselines.updated(stem, name, {"": group}, reason, _origin(root))
        path = stem.with_name(f"{stem.name}.json")
        path = path.relative_to(root) if path.is_relative_to(root) else path
        reason = baseline.history[-1]["reason"]
        self._note(f"{name}: stored {len(curves)} seeds in {path}: {reason}{before}")
        return result

    def _report(self, name: str, result: Check, metric: str, fail_on: str) -> None:
        __tracebackhide__ = True
        line = check.line(name, result)
        parts = [line]
        folder = self._config.getoption("--learning-curve-figures")
        failed = result.outcome == "fail" or result.outcome == fail_on
        if failed or folder:
            from ablations.figures import write
            from ablations.figures.checks import checks
            from ablations.tables.formats import format_table

            # Parametrised tests and xdist workers write into the same folder.
            test = re.sub(r"[^\w.-]+", "_", self._request.node.nodeid.partition("::")[2])
            path = Path(folder or self._request.getfixturevalue("tmp_path")).absolute()
            path /= f"{test}_{name}" if folder else name
            drawn = write(checks({"": result}, {"": metric}), path, ("png",))[0]
            table = check.table({name: result})
            parts += ["", format_table(table, "markdown"), "", f"figure: {drawn}"]
        if result.differs is not None:
            seed, step = result.differs
            parts.append(f"first difference in bits: seed {seed}, step {step:,.0f}")
        self._note("\n".join(parts))
        if failed:
            advice = f'If this change is intended: {UPDATE} "..."'
            if result.outcome == "undecided":
                advice = (
                    "Undecided checks fail here (fail_on): use more seeds, a larger effect, or a "
                    "baseline with more seeds"
                )
            pytest.fail(f"{line}\n{advice}", pytrace=False)

    def _note(self, text: str) -> None:
        self._request.node.user_properties.append((REPORTED, text))

    def _default_name(self) -> str:
        """Return the test's node id, with its folder only if all baselines share a folder."""
        path, _, test = self._request.node.nodeid.partition("::")
        file = path if self._ini("dir") else self._request.path.name
        name = f"{file.removesuffix('.py')}.{test.replace('::', '.')}"
        return re.sub(r"[^\w.-]+", "_", name).strip("_")

    def _claimed(self, name: str) -> Path:
        """Return the path of a baseline, for this check alone. A test may run twice."""
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise UserError(
                f"the name of a baseline has only letters, digits, '.', '_' and '-', not '{name}'"
            )
        folder = self._ini("dir")
        beside = self._request.path.parent / FOLDER
        stem = (self._config.rootpath / folder if folder else beside) / name
        test = self._request.node.nodeid
        owner = self._names.setdefault(str(stem), test)
        if owner != test or str(stem) in self._used:
            other = f"by {owner}" if owner != test else "earlier in this test"
            raise UserError(f"the name '{name}' is used {other}: give each check its own name=")
        self._used.add(str(stem))
        return stem

    def _ini(self, name: str) -> str:
        return str(self._config.getini(f"learning_curve_{name}"))

    def _number(self, name: str) -> float:
        text = self._ini(name)
        try:
            return float(text)
        except ValueError:
            raise UserError(f"learning_curve_{name} must be a number, not '{text}'") from None


def _baseline(stem: Path, name: str, metric: str, higher_is_better: bool) -> Curves:
    """Return a baseline's curves. Raises UserError if the metric or the direction differ."""
    if not baselines.exists(stem):
        missing = baselines.missing(stem, name)
        raise UserError(f'{missing}: store these curves with `{UPDATE} "first version"`')
    stored = baselines.read(stem, name).groups.get("")
    if stored is None:
        raise UserError(f"'{name}' is a baseline of `ablations check`, not of pytest")
    now = {"metric": metric, "higher_is_better": higher_is_better}
    for field, value in now.items():
        if (then := getattr(stored, field)) != value:
            raise UserError(
                f"the baseline '{name}' has another {field}: {then!r}, and this check has {value!r}"
            )
    return stored.curves


def _origin(root: Path) -> Origin:
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            if name in sys.modules:
                versions[name] = version(name)
    origin = Origin(versions=versions, machine=platform.machine())
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        origin["commit"] = git(root, "rev-parse", "HEAD").decode().strip()
    return origin
