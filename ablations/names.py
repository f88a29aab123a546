"""Checks names that become parts of paths: of studies, plans, runs and gates."""

from __future__ import annotations

import re

from ablations.errors import UserError

NAME = re.compile(r"\w[\w.-]{0,99}")


def require_name(what: str, text: str) -> str:
    """Return a name if it is safe as a part of a path.

    Raises:
        UserError: it is not.
    """
    if not isinstance(text, str) or not NAME.fullmatch(text):
        shown = ascii(text)
        raise UserError(
            f"{what} must start with a letter, a digit or '_', and have at most 100 letters, "
            f"digits, '_', '-' and '.': not {shown if len(shown) <= 60 else f'{shown[:60]}...'}"
        )
    return text
