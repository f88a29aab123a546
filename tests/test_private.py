"""Folders whose files are executed or shown as ours are this user's alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ablations.private import private_folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "rl-ablations"


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_it_is_made_for_this_user_whatever_the_umask(home: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert private_folder("programs") == home / "programs"
        assert private_folder("programs") == home / "programs"
    finally:
        os.umask(before)
    for path in (home, home / "programs"):
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("part", ["", "programs"])
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_where_others_may_write_there_is_none(home: Path, part: str, mode: int) -> None:
    (home / "programs").mkdir(parents=True, mode=0o700)
    (home / part).chmod(mode)
    assert private_folder("programs") is None


def _is_a_file(home: Path) -> None:
    home.parent.mkdir()
    home.touch()


def _is_another_users(home: Path) -> None:
    (home / "programs").mkdir(parents=True)
    home.chmod(0o700)
    (home / "programs").chmod(0o700)


@pytest.mark.parametrize("make", [_is_a_file, _is_another_users])
def test_what_is_not_this_users_is_refused(
    home: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(home)
    owner = os.getuid()
    monkeypatch.setattr("os.getuid", lambda: owner + 1)
    assert private_folder("programs") is None
