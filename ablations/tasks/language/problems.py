"""Language tasks with verifiable rewards: mixtures of small problems, and what a right answer pays.

An environment here is a `Problems`, not one of Brax's interface: the trainer `language` reads it.
One step is one completion, so the score of a task does not depend on a length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ablations.tasks.task import Task, register

if TYPE_CHECKING:
    import jax

    from ablations.core.decode import Json
    from ablations.tasks.language.puzzles import Mixture, Problem

KINDS = (
    "sum",
    "difference",
    "product",
    "addition1",
    "addition2",
    "addition3",
    "sorting",
    "reversal",
    "countdown",
)
TRAIN_SET = 0x5E7  # folded into the seed's key for a fixed training set


@dataclass(frozen=True)
class Problems:
    """Problems to be solved.

    mixture: the kinds of problem, equally likely. train_prompts: how many prompts the training set
        has; 0: every one is new.
    """

    mixture: Mixture
    train_prompts: int

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the kinds of problem."""
        return self.mixture.kinds

    def train(self, key: jax.Array, set_key: jax.Array, count: int) -> Problem:
        """Draw a batch of training problems, leaves [count, ...].

        Where there is a training set they come from it, none twice before all were taken.

        key: of this batch. set_key: of the run; it decides what is in its training set.
        """
        import jax
        import jax.numpy as jnp

        if not self.train_prompts:
            return self.held_out(key, count)
        order = jnp.resize(jax.random.permutation(key, self.train_prompts), (count,))
        known = self.train_set(set_key)
        return type(known)(*(leaf[order] for leaf in known))

    def train_set(self, set_key: jax.Array) -> Problem:
        """Draw all problems of the training set, leaves [train_prompts, ...]."""
        import jax

        return self.held_out(jax.random.fold_in(set_key, TRAIN_SET), self.train_prompts)

    def held_out(self, key: jax.Array, count: int) -> Problem:
        """Draw new problems, leaves [count, ...]."""
        import jax

        return jax.vmap(self.mixture.draw)(jax.random.split(key, count))

    def is_new(self, problems: Problem, set_key: jax.Array) -> jax.Array:
        """Return float32 [P]: 0 for problems that stand in the training set, 1 for the others."""
        import jax.numpy as jnp

        if not self.train_prompts:
            return jnp.ones(problems.prompt.shape[0])
        known = self.train_set(set_key).prompt
        same = jnp.all(problems.prompt[:, None] == known[None], axis=-1)
        return 1.0 - jnp.any(same, axis=-1).astype(jnp.float32)

    def correct(self, problems: Problem, responses: jax.Array) -> jax.Array:
        """Return bool [P, K]: which of the responses [P, K, L] solve their problem [P]."""
        import jax

        of_prompt = jax.vmap(self.mixture.correct, in_axes=(None, 0))
        return jax.vmap(of_prompt)(problems, responses)


def reward(
    correct: jax.Array, kind: jax.Array, pay: Mapping[str, jax.Array], key: jax.Array | None
) -> jax.Array:
    """Return what completions are paid, float32 [P, K], by correct [P, K] and kinds [P].

    pay: `reward_right` or `reward_wrong`, times `reward_scales` [kinds], plus normal noise of
        standard deviation `reward_noise`; without a key no noise.
    """
    import jax
    import jax.numpy as jnp

    paid = jnp.where(correct, pay["reward_right"], pay["reward_wrong"])
    paid = paid * pay["reward_scales"][kind][:, None]
    if key is None:
        return paid
    return paid + pay["reward_noise"] * jax.random.normal(key, paid.shape)


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
    from ablations.tasks.language import puzzles

    return Problems(
        mixture=puzzles.mixture(settings["kinds"].split(",")),
        train_prompts=settings["train_prompts"],
    )


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


def _register(
    name: str, summary: str, *kinds: str, warm_start_steps: int, **settings: Json
) -> None:
    """Register a mixture of kinds as a task.

    settings: over a reward of 1 for a right answer, 0 for a wrong one. How good the warm starts
    are: tests/benchmarks/warm_starts.py.
    """
    register(
        Task(
            name=name,
            summary=summary,
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
_DIGITS_STEPS = 200

_register(
    "arithmetic",
    "a + b, a - b or a * b of two digits; 1 for a right answer, 0 for a wrong one",
    *_DIGITS,
    warm_start_steps=_DIGITS_STEPS,
)
_register(
    "arithmetic_scales",
    "arithmetic; a right sum pays 10, a difference 1, a product 0.1",
    *_DIGITS,
    warm_start_steps=_DIGITS_STEPS,
    reward_scales="10,1,0.1",
)
_register(
    "arithmetic_noise",
    "arithmetic; the reward has normal noise of 0.01",
    *_DIGITS,
    warm_start_steps=_DIGITS_STEPS,
    reward_noise=0.01,
)
_register(
    "arithmetic_signed",
    "arithmetic; 1 for a right answer, -1 for a wrong one",
    *_DIGITS,
    warm_start_steps=_DIGITS_STEPS,
    reward_wrong=-1.0,
)
_register(
    "arithmetic_few",
    "arithmetic; only 30 prompts to train on, judged by others",
    *_DIGITS,
    warm_start_steps=_DIGITS_STEPS,
    train_prompts=30,
)

_ADDITION = ("addition1", "addition2", "addition3")
_ADDITION_STEPS = 1000

_register(
    "addition",
    "add numbers of one, two or three digits; 1 for a right answer, 0 for a wrong one",
    *_ADDITION,
    warm_start_steps=_ADDITION_STEPS,
)
_register(
    "addition_signed",
    "addition; 1 for a right answer, -1 for a wrong one",
    *_ADDITION,
    warm_start_steps=_ADDITION_STEPS,
    reward_wrong=-1.0,
)
_register(
    "addition_scales",
    "addition; a right answer pays 10, 1 or 0.1 for one, two or three digits",
    *_ADDITION,
    warm_start_steps=_ADDITION_STEPS,
    reward_scales="10,1,0.1",
)
_register(
    "addition_noise",
    "addition; the reward has normal noise of 0.01",
    *_ADDITION,
    warm_start_steps=_ADDITION_STEPS,
    reward_noise=0.01,
)
_register(
    "addition_few",
    "addition; only 48 prompts to train on, judged by others",
    *_ADDITION,
    warm_start_steps=_ADDITION_STEPS,
    train_prompts=48,
)
_register("sorting", "sort 3 to 6 digits", "sorting", warm_start_steps=300)
_register("reversal", "write 3 to 6 digits backwards", "reversal", warm_start_steps=300)
_register(
    "countdown",
    "make a number of three digits, + - and *, each digit used once",
    "countdown",
    warm_start_steps=1000,
)
_register(
    "mixture",
    "add, sort or reverse; a right answer pays 10, 1 or 0.1",
    "addition2",
    "sorting",
    "reversal",
    warm_start_steps=800,
    reward_scales="10,1,0.1",
)
