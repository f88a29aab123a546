"""What q_return, exploration, q_target and token_statistics must satisfy."""

from __future__ import annotations

from types import ModuleType

import jax.numpy as jnp
import numpy as np
from oracles import check_of, close

GAMMA = 0.9
SHAPES = ((1, 3), (2, 3), (3, 4), (12, 5))


class Steps:
    """A rollout [T, N] in float64: ends of both kinds, and one of each at the last step."""

    def __init__(self, T: int, N: int) -> None:
        rng = np.random.default_rng(T)
        self.rewards = rng.normal(size=(T, N))
        self.termination = (rng.uniform(size=(T, N)) < 0.2).astype(float)
        self.termination[-1, 0] = 1.0
        self.truncation = (rng.uniform(size=(T, N)) < 0.2) * (1 - self.termination)
        self.truncation[-1, 1] = 1.0
        self.termination[-1, 1] = 0.0
        self.next_values = rng.normal(size=(T, N))
        ended = self.termination + self.truncation
        self.seen_values = np.where(ended > 0, rng.normal(size=(T, N)), self.next_values)
        self.greedy = rng.uniform(size=(T, N)) < 0.6


def got(module: ModuleType, choice: str, steps: Steps, q_lambda: float) -> np.ndarray:
    array = {name: jnp.asarray(x, jnp.float32) for name, x in vars(steps).items()}
    # What follows a termination is not read.
    next_values = jnp.where(array["termination"] > 0, jnp.nan, array["next_values"])
    target = module.AXIS.apply(
        choice,
        rewards=array["rewards"],
        termination=array["termination"],
        truncation=array["truncation"],
        next_values=lambda: next_values,
        seen_values=lambda: array["seen_values"],
        greedy=lambda: array["greedy"] > 0,
        discount=GAMMA,
        q_lambda=q_lambda,
    )
    return np.asarray(target)


def mixed_returns(steps: Steps, q_lambda: float, follows_greedy: bool = False) -> np.ndarray:
    """Σ over n of the weights of λ times the n-step returns, each summed forwards by itself."""
    T, N = steps.rewards.shape
    found = np.zeros((T, N))
    for n in range(N):
        for t in range(T):
            weight, total, discount = 1.0, 0.0, 1.0
            for k in range(t, T):
                total += discount * steps.rewards[k, n]
                discount *= GAMMA
                terminated, truncated = steps.termination[k, n], steps.truncation[k, n]
                value = 0.0 if terminated else steps.next_values[k, n]
                last = k == T - 1 or terminated or truncated
                explores = follows_greedy and not last and not steps.greedy[k + 1, n]
                kept = 0.0 if last or explores else q_lambda
                found[t, n] += weight * (1 - kept) * (total + discount * value)
                weight *= kept
                if weight == 0.0:
                    break
    return found


@check_of("q_return")
def peng_is_a_mixture_of_n_step_returns(module: ModuleType) -> None:
    for T, N in SHAPES:
        steps = Steps(T, N)
        for q_lambda in (0.0, 0.65, 1.0):
            close(got(module, "peng", steps, q_lambda), mixed_returns(steps, q_lambda))


@check_of("q_return")
def watkins_is_cut_before_exploration(module: ModuleType) -> None:
    for T, N in SHAPES:
        steps = Steps(T, N)
        for q_lambda in (0.65, 1.0):
            expected = mixed_returns(steps, q_lambda, follows_greedy=True)
            close(got(module, "watkins", steps, q_lambda), expected)
        steps.greedy[:] = True
        close(got(module, "watkins", steps, 0.65), mixed_returns(steps, 0.65))


@check_of("q_return")
def libraries_equal_their_loops(module: ModuleType) -> None:
    """As written in pqn_gymnax.py and pqn.py, over single numbers."""
    for T, N in SHAPES:
        steps = Steps(T, N)
        done = steps.termination + steps.truncation
        for q_lambda in (0.0, 0.8, 1.0):
            ours = got(module, "purejaxql", steps, q_lambda)
            theirs = got(module, "rejax", steps, q_lambda)
            for n in range(N):
                r, d, value = steps.rewards[:, n], done[:, n], steps.next_values[:, n]
                next_q = value[-1] * (1 - d[-1])
                target = late = r[-1] + GAMMA * next_q
                late_q = next_q
                close(ours[-1, n], target)
                close(theirs[-1, n], late)
                for t in reversed(range(T - 1)):
                    bootstrap = r[t] + GAMMA * (1 - d[t]) * next_q
                    target = bootstrap + GAMMA * q_lambda * (target - next_q)
                    target = (1 - d[t]) * target + d[t] * r[t]
                    # the value at which step t acted, which is that behind t-1 where it went on
                    next_q = value[t - 1] if t and not d[t - 1] else 0.0
                    close(ours[t, n], target)
                    mixed = late_q + q_lambda * (late - late_q)
                    late = r[t] + (1 - d[t]) * GAMMA * mixed
                    late_q = steps.seen_values[t, n]
                    close(theirs[t, n], late)


@check_of("exploration")
def epsilon_equals_a_loop(module: ModuleType) -> None:
    place = jnp.arange(4) / 3
    for progress in (0.0, 0.05, 0.1, 0.7, np.inf):
        given = {"progress": jnp.float32(progress), "place": place}
        falling = max(0.2, 1.0 - 0.8 * progress / 0.1)
        close(module.AXIS.apply("linear", **given, epsilon_end=0.2), [falling] * 4)
        close(module.AXIS.apply("constant", **given, epsilon_end=0.2), [0.2] * 4)
        ladder = [0.4 ** (1 + 7 * i / 3) for i in range(4)]
        close(module.AXIS.apply("ladder", **given, epsilon_end=0.4), ladder)


@check_of("q_target")
def shares_of_target_networks(module: ModuleType) -> None:
    for updates in range(1, 8):
        given = {"updates": jnp.float32(updates)}
        assert module.AXIS.apply("none", **given) == 1
        assert module.AXIS.apply("hard", **given, target_interval=3.0) == (updates % 3 == 0)
        close(module.AXIS.apply("polyak", **given, target_tau=0.3), 0.3)


@check_of("token_statistics")
def token_statistics_equal_numpy(module: ModuleType) -> None:
    rng = np.random.default_rng(3)
    advantages, mask = 5 + 3 * rng.normal(size=(4, 6)), rng.random((4, 6)) < 0.6
    counted = advantages[mask]
    inputs = {"advantages": jnp.asarray(advantages, jnp.float32), "mask": jnp.asarray(mask * 1.0)}
    for choice, expected in (
        ("none", counted),
        ("standardised", (counted - counted.mean()) / counted.std()),
        ("centred", counted - counted.mean()),
    ):
        found = np.asarray(module.AXIS.apply(choice, **inputs))
        close(found[mask], expected)
        assert not found[~mask].any()
