"""The pytest fixture `learning_curve`: checks curves against a baseline stored next to the test."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from ablations.errors import UserError
from ablations.regression import ALPHA, EFFECT, MOST_SEEDS, REPORTED, baselines, check
from ablations.regression.baselines import Group
from ablations.regression.check import Check, Terms
from ablations.regression.curves import SCORES, Curves, Data, Score, from_user

BASELINE_SEEDS = 24
FOLDER = "learning_curves"  # of baselines, next to the test
UPDATE = "`pytest --learning-curve-update`"
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
        steps: Sequence[float] | None = None,
        seeds: Sequence[int] | None = None,
        effect: float = EFFECT,
        unit: float | None = None,
        alpha: float = ALPHA,
        scores: Mapping[str, Score] = SCORES,
        most_seeds: int = MOST_SEEDS,
        baseline_seeds: int = BASELINE_SEEDS,
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
            steps: of an array's points; default: 1, 2, ...
            seeds: of an array's rows; default: 0, 1, ...
            effect: the smallest loss worth detecting (0.15), as a share of `unit`.
            unit: a range of the metric; default: from the lowest to the highest point of the
                baseline's mean curve.
            alpha: the false-alarm rate (0.01), on average over baselines. It is higher for a
                baseline whose seeds did well by chance; more baseline seeds reduce this.
            scores: name -> function (steps, values) -> number in units of the metric; default:
                final performance and area under the curve.
            most_seeds: upper bound of the seeds for a function (32).
            baseline_seeds: number of seeds that an update trains with a function (24).
            missing_ok: accept NaN as a point without a value.

        Returns:
            The result, such as "undecided"; an update compares the stored curves with themselves.
        """
        __tracebackhide__ = True
        try:
            name = self._default_name() if name is None else name
            stem = self._claimed(name)
            terms = Terms(alpha, effect, unit, higher_is_better, most_seeds, scores)

            read = partial(from_user, steps=steps, missing_ok=missing_ok, scores=scores)

            def trained(wanted: tuple[int, ...]) -> Curves:
                return read(curves(wanted), seeds=wanted)

            if self._config.getoption("--learning-curve-update"):
                few = tuple(range(baseline_seeds))
                now = trained(few) if callable(curves) else read(curves, seeds=seeds)
                return self._update(stem, name, Group(now, metric, higher_is_better), terms)
            baseline = _baseline(stem, name, metric, higher_is_better)
            if callable(curves):
                result = check.sequential(baseline, trained, terms)
            else:
                result = check.check(baseline, read(curves, seeds=seeds), terms)
        except UserError as error:  # from None, or pytest would show both errors
            raise pytest.fail.Exception(f"learning_curve: {error}", pytrace=False) from None
        self._report(name, result, metric)
        return result

    def _update(self, stem: Path, name: str, group: Group, terms: Terms) -> Check:
        curves, before = group.curves, ""
        result = check.check(curves, curves, terms)
        if baselines.exists(stem):
            try:
                stored = _baseline(stem, name, group.metric, group.higher_is_better)
                line = check.line(name, check.check(stored, curves, terms))
                before = f"; compared with the previous version: {line}"
            except UserError as error:
                before = f"; not comparable with the previous version: {error}"
        baselines.write(stem, name, {"": group})
        path = os.path.relpath(stem.with_name(f"{stem.name}.json"), self._config.rootpath)
        self._note(f"{name}: stored {len(curves)} seeds in {path}{before}")
        return result

    def _report(self, name: str, result: Check, metric: str) -> None:
        __tracebackhide__ = True
        line = check.line(name, result)
        parts = [line]
        folder = self._config.getoption("--learning-curve-figures")
        failed = result.outcome == "fail"
        if failed or folder:
            from ablations.figures import checks, write
            from ablations.tables.formats import format_table

            # Parametrised tests and xdist workers write into the same folder.
            path = Path(folder or self._request.getfixturevalue("tmp_path")).absolute()
            test = self._default_name()
            path /= name if name == test else f"{test}_{name}"
            drawn = write(checks({"": result}, metric), path, ("png",))[0]
            table = check.table({name: result})
            parts += ["", format_table(table, "markdown"), "", f"figure: {drawn}"]
        if result.differs is not None:
            seed, step = result.differs
            parts.append(f"first difference in bits: seed {seed}, step {step:,.0f}")
        self._note("\n".join(parts))
        if failed:
            pytest.fail(f"{line}\nIf this change is intended: {UPDATE}", pytrace=False)

    def _note(self, text: str) -> None:
        self._request.node.user_properties.append((REPORTED, text))
        self._request.node.add_report_section("call", "learning curves", text)

    def _default_name(self) -> str:
        test = self._request.node.nodeid.partition("::")[2].replace("::", ".")
        return re.sub(r"[^\w.-]+", "_", f"{self._request.path.stem}.{test}").strip("_")

    def _claimed(self, name: str) -> Path:
        """Return the path of a baseline, for this check alone. A test may run twice."""
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise UserError(
                f"the name of a baseline has only letters, digits, '.', '_' and '-', not '{name}'"
            )
        stem = self._request.path.parent / FOLDER / name
        test = self._request.node.nodeid
        owner = self._names.setdefault(str(stem), test)
        if owner != test or str(stem) in self._used:
            where = "earlier in this test" if owner == test else f"by {owner}"
            raise UserError(f"the name '{name}' is used {where}: give each check its own name=")
        self._used.add(str(stem))
        return stem


def _baseline(stem: Path, name: str, metric: str, higher_is_better: bool) -> Curves:
    """Return a baseline's curves. Raises UserError if the metric or the direction differ."""
    if not baselines.exists(stem):
        missing = baselines.missing(stem, name)
        raise UserError(f"{missing}: store these curves with {UPDATE}")
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
