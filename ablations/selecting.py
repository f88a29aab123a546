"""The functions of `ablations` as Python sees them.

Their signatures name the selection, and a wrong type is told in a line what is wanted.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Literal, NamedTuple, ParamSpec, TypeVar

from ablations.errors import UserError
from ablations.request import Selection

P = ParamSpec("P")
R = TypeVar("R")


class Wanted(NamedTuple):
    """A kind of argument, and its words in an error."""

    kind: Literal["text", "texts", "count", "levels", "settings", "path"]
    words: str

    def fits(self, value: object) -> bool:
        """Return whether an argument is of this kind."""
        match self.kind, value:
            case ("text" | "texts" | "path", str()) | ("settings", Mapping()):
                return True
            case "texts", Iterable() if not isinstance(value, Mapping):
                # An iterator is left whole for whoever reads it.
                return iter(value) is value or all(isinstance(text, str) for text in value)
            case "count", int() if not isinstance(value, bool):
                return value > 0
            case "levels", Mapping():
                return all(
                    isinstance(values, Iterable) and not isinstance(values, str)
                    for values in value.values()
                )
        return self.kind == "path" and isinstance(value, os.PathLike)


_PRESET = Wanted("text", 'a preset, such as "cleanrl"')
_LEVELS = Wanted("levels", 'settings with their values: {"gae_lambda": [0.9, 0.95]}')
_ENDS = Wanted("text", 'a preset or a variant, such as "cleanrl" or "gae/brax"')
WANTED: Mapping[str, Wanted] = {
    "study": Wanted("texts", 'a study or several: "gae", ["gae", "value_clipping"]'),
    "task": Wanted("text", 'a task, such as "hopper"'),
    "levels": _LEVELS,
    "start": _ENDS,
    "end": _ENDS,
    "profile": Wanted("text", '"smoke", "quick", "claims" or "paper"'),
    "tasks": Wanted("texts", 'a task or several: "hopper", ["hopper", "reacher"]'),
    "variants": Wanted("texts", 'a variant or several: "brax", ["brax", "done_cut"]'),
    "until": Wanted("text", '"decided"'),
    "set": Wanted("settings", 'settings by name: {"learning_rate": 3e-4}'),
    "vary": _LEVELS,
    "base": _PRESET,
    "preset": _PRESET,
    "geometry": Wanted("text", '"common" or "own"'),
    "results": Wanted("path", "a folder"),
    "workers": Wanted("count", "a number of processes, from 1 on"),
    "metric": Wanted("text", 'a column of the curves, such as "training/return"'),
    "kind": Wanted("text", 'a kind of table, such as "comparison" or "effects"'),
}


def selecting(function: Callable[P, R]) -> Callable[P, R]:
    """Give a function the signature that its selection spells out, and check what it is given.

    The function returned raises UserError for an argument of a wrong type.
    """
    own = inspect.signature(function)

    @wraps(function)
    def checked(*arguments: P.args, **keywords: P.kwargs) -> R:
        given = own.bind(*arguments, **keywords).arguments
        selection = given.get("selection", {})
        for name, value in {**given, **selection}.items():
            wanted = WANTED.get(name)
            if wanted is not None and value is not None and not wanted.fits(value):
                raise UserError(f"{name} takes {wanted.words}, not {value!r:.60}")
        if own.parameters.get("study") and given.get("study", ()) is None:
            raise UserError(f"study takes {WANTED['study'].words}, not None")
        return function(*arguments, **keywords)

    kept = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    if "selection" in own.parameters:
        kept += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=getattr(kind, "__forward_arg__", kind),
            )
            for name, kind in Selection.__annotations__.items()
        ]
        vars(checked)["__signature__"] = own.replace(parameters=kept)
    return checked
