"""Check names that become paths: of studies, plans, cells, gates."""

from __future__ import annotations

import re

from ablations.errors import UserError

NAME = re.compile(r"\w[\w.-]{0,99}")


def require_name(what: str, text: str) -> str:
    """Return a name that is safe as one part of a path.

    Raises:
        UserError: it could lead elsewhere, or a file system refuses it.
    """
    if not isinstance(text, str) or not NAME.fullmatch(text):
        shown = ascii(text)
        raise UserError(
            f"{what} is letters, digits, '_', '-' and '.', at most 100 of them, and begins with "
            f"neither of the last two: not {shown if len(shown) <= 60 else f'{shown[:60]}...'}"
        )
    return text
