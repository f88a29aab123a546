"""Language tasks with verifiable rewards: mixtures of small problems.

Their environment is a `Problems`, which the trainer `language` reads; it does not have Brax's
interface. One step is one completion, so a task's score does not depend on its length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ablations.tasks.task import Task, register

if TYPE_CHECKING:
    from ablations.core.decode import Json
    from ablations.tasks.language.puzzles import Problems

KINDS = ("sum", "difference", "product", "addition1", "addition2", "addition3", "reversal")

PAY: Mapping[str, Callable[..., np.ndarray | np.float32]] = {
    "reward_wrong": np.float32,
    "reward_right": np.float32,
    "reward_scales": lambda text: np.array(_numbers(text), np.float32),
    "reward_noise": np.float32,
}


def _numbers(text: str) -> list[float] | None:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return None


class Settings(TypedDict):
    """The settings of a mixture of problems."""

    kinds: str
    reward_wrong: float
    reward_right: float
    reward_scales: str
    reward_noise: float
    train_prompts: int


def _make(settings: Settings) -> Problems:
    from ablations.tasks.language.puzzles import Problems

    return Problems(tuple(settings["kinds"].split(",")), settings["train_prompts"])


def _check(settings: Settings) -> list[str]:
    kinds = settings["kinds"].split(",")
    complaints = [
        f"kinds={settings['kinds']} names '{kind}', which is not one of {', '.join(KINDS)}"
        for kind in kinds
        if kind not in KINDS
    ]
    scales = _numbers(settings["reward_scales"])
    if scales is None or len(scales) != len(kinds) or not np.isfinite(scales).all():
        complaints.append(
            f"reward_scales={settings['reward_scales']} must be one finite number per kind: "
            f"{len(kinds)}, with commas between them"
        )
    if settings["reward_noise"] < 0:
        complaints.append(f"reward_noise={settings['reward_noise']} is negative")
    if settings["reward_wrong"] >= settings["reward_right"]:
        complaints.append(
            f"reward_wrong={settings['reward_wrong']} must be less than "
            f"reward_right={settings['reward_right']}"
        )
    return complaints


_SUMMARIES = {
    "arithmetic": "a + b, a - b or a * b of two digits; 1 for a right answer, 0 for a wrong one",
    "arithmetic_scales": "arithmetic; a right sum pays 10, a difference 1, a product 0.1",
    "arithmetic_noise": "arithmetic; the reward has normal noise of 0.01",
    "arithmetic_signed": "arithmetic; 1 for a right answer, -1 for a wrong one",
    "arithmetic_few": "arithmetic; only 30 prompts to train on, judged by others",
    "addition": "add numbers of one, two or three digits; 1 for a right answer, 0 for a wrong one",
    "addition_few": "addition; only 48 prompts to train on, judged by others",
    "reversal": "write 3 to 6 digits backwards",
}


def _register(name: str, warm_start_steps: int, *kinds: str, **settings: Json) -> None:
    """Register a mixture of kinds as a task.

    settings: replace a reward of 1 for a right answer and of 0 for a wrong one.
    """
    register(
        Task(
            name=name,
            summary=_SUMMARIES[name],
            make=_make,
            settings={
                "kinds": ",".join(kinds),
                "reward_wrong": 0.0,
                "reward_right": 1.0,
                "reward_scales": ",".join("1" for _ in kinds),
                "reward_noise": 0.0,
                "train_prompts": 0,
                **settings,
            },
            hyperparameters={"language": {"warm_start_steps": warm_start_steps}},
            steps=64 * 2000,
            speed=5_000,
            source="own choice",
            data=PAY,
            check=_check,
        )
    )


_DIGITS = ("sum", "difference", "product")
_register("arithmetic", 200, *_DIGITS)
_register("arithmetic_scales", 200, *_DIGITS, reward_scales="10,1,0.1")
_register("arithmetic_noise", 200, *_DIGITS, reward_noise=0.01)
_register("arithmetic_signed", 200, *_DIGITS, reward_wrong=-1.0)
_register("arithmetic_few", 200, *_DIGITS, train_prompts=30)
_ADDITION = ("addition1", "addition2", "addition3")
_register("addition", 1000, *_ADDITION)
_register("addition_few", 1000, *_ADDITION, train_prompts=48)
_register("reversal", 300, "reversal")
