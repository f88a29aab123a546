"""The pytest plugin: options and the fixture `learning_curve`.

    def test_sac_still_learns(learning_curve):
        learning_curve.check(curves)

    $ pytest --learning-curve-update             # stores the curves
    $ pytest --learning-curve-figures figures    # draws all checks, not only those that fail

pytest loads this file in every environment that has rl-ablations, so it imports only pytest until a
test uses the fixture (fixture.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ablations.regression import REPORTED

if TYPE_CHECKING:
    from ablations.regression.fixture import LearningCurve

_names = pytest.StashKey[dict[str, str]]()  # path of a baseline -> the test that uses it


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("learning-curve", "learning curves")
    group.addoption(
        "--learning-curve-update",
        action="store_true",
        help="store the curves of the selected tests as their new baselines",
    )
    group.addoption(
        "--learning-curve-figures",
        metavar="DIR",
        help="draw every check in this folder; default: only failed checks, in pytest's tmp_path",
    )


@pytest.fixture
def learning_curve(request: pytest.FixtureRequest) -> LearningCurve:
    """Return the fixture: `learning_curve.check(curves)`."""
    from ablations.regression.fixture import LearningCurve

    return LearningCurve(request, request.config.stash.setdefault(_names, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line per check."""
    lines = [
        str(text).splitlines()[0]
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if getattr(report, "when", "") == "call"
        for name, text in report.user_properties
        if name == REPORTED
    ]
    if lines:
        terminalreporter.section("learning curves")
    for line in lines:
        terminalreporter.line(line)
