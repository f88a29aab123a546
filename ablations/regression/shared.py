"""Names that the pytest plugin and its fixture share. Imports pytest alone."""

from __future__ import annotations

import pytest

FOLDER = "learning_curves"
SAID = "learning_curve"  # what travels from a test to the summary, through xdist too
names = pytest.StashKey[dict[str, str]]()
