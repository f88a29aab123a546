"""three.js, out of the Python package that carries it: trimesh, for its own viewer."""

from __future__ import annotations

import io
import re
import zipfile
from functools import lru_cache
from importlib.resources import files

from ablations.errors import UserError

REVISION = "140"  # of three.js: what stage.js is written for


@lru_cache(maxsize=1)
def library() -> str:
    """The text of three.js, with its licence's header. Raises UserError where it is not there."""
    try:
        packed = (files("trimesh") / "resources" / "templates" / "viewer.zip").read_bytes()
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            page = archive.read("viewer.html.template").decode()
    except (ModuleNotFoundError, FileNotFoundError, KeyError, zipfile.BadZipFile):
        raise _missing("cannot be found in it") from None
    return of_page(page)


def of_page(page: str) -> str:
    """What of a page's scripts is three.js, and of the revision that we draw with: the header with
    its licence, and the one line that follows.
    """
    found = re.search(
        r"/\*\*\s+\* @license\s+\* Copyright[^/]*?Three\.js Authors.*?\*/\n.+", page, re.DOTALL
    )
    if found is None:
        raise _missing("cannot be found in it")
    header, _, rest = found[0].partition("*/\n")
    script = rest.partition("\n")[0]
    if f'"{REVISION}"' not in script:
        raise _missing("is of another revision there")
    return f"{header}*/\n{script}\n"


def _missing(what: str) -> UserError:
    return UserError(
        f"the page needs three.js r{REVISION} from the Python package trimesh, and it {what}: "
        f"pip install 'trimesh>=5.2,<6', or render with --format gif"
    )
