"""What a user did wrong, said in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SHOWN = 24  # names that an error lists


class UserError(Exception):
    """Bad input: the message says what is wrong and what would be right. Exit code 2, no
    traceback.
    """


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return UserError(f"unknown {kind} '{name}': {hint}known: {', '.join(names[:SHOWN])}{more}")
