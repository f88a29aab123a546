"""Environments of another form than they say are refused in a line, before anything compiles."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from ablations.environments import Discrete, Observations, State, Step
from ablations.errors import UserError
from ablations.trainers.control.environment import Environments
from ablations.trainers.control.networks import patches


class Counter:
    """Counts its actions; shows, pays and ends as it is told to."""

    actions = Discrete(2)
    observations = Observations(2)
    fresh, trailing = True, False

    def __init__(self, shown=None, after=None, reward=0.0, termination=False) -> None:
        self.shown = jnp.zeros(2) if shown is None else shown
        self.after = self.shown if after is None else after
        self.given = Step(jnp.asarray(reward), jnp.asarray(termination))

    def reset(self, key: jax.Array) -> State:
        return State(jnp.int32(0), self.shown)

    def step(self, state: State, action: jax.Array) -> tuple[State, Step]:
        return State(state.physics + action, self.after), self.given


def steps(counter: Counter):
    """Return the forms of a reset and a step of three of them."""
    environments = Environments(counter, num_envs=3, episode_length=5)

    def both(key: jax.Array):
        return environments.step(environments.reset(key), jnp.zeros(3, jnp.int32))

    return jax.eval_shape(both, jax.random.key(0))


def test_what_it_says_is_stepped() -> None:
    running, outcome = steps(Counter(shown=jnp.zeros(2, jnp.int32), reward=1))
    assert (running.observation.shape, outcome.reward.shape) == ((3, 2), (3,))
    assert outcome.reward.dtype == jnp.float32


@pytest.mark.parametrize(
    ("counter", "words"),
    [
        (Counter(shown=jnp.zeros(1)), r"observation of Counter is \(1,\), and is to be \(2,\)"),
        (Counter(shown=jnp.zeros((1, 2))), r"observation of Counter is \(1, 2\), .* \(2,\)"),
        (Counter(shown={"a": jnp.zeros(2)}), r"observation of Counter is {'a': \(2,\)}"),
        (Counter(after=jnp.zeros(3)), r"observation of Counter is \(3,\), and is to be \(2,\)"),
        (Counter(reward=jnp.zeros(1)), r"reward of Counter is \(1,\), and is to be \(\)"),
        (Counter(termination=jnp.zeros(2, bool)), r"termination of Counter is \(2,\)"),
    ],
)
def test_another_form_is_refused(counter, words) -> None:
    with pytest.raises(UserError, match=words):
        steps(counter)


class Drifting(Counter):
    """Its steps leave another state than its resets."""

    def __init__(self, first: State, then: State) -> None:
        super().__init__()
        self.first, self.then = first, then

    def reset(self, key: jax.Array) -> State:
        return self.first

    def step(self, state: State, action: jax.Array) -> tuple[State, Step]:
        return self.then, self.given


@pytest.mark.parametrize(
    ("first", "then", "words"),
    [
        ({}, {"speed": 0.0}, "'carried/speed' is not expected"),
        ({"speed": 0.0}, {}, "'carried/speed' is missing"),
        ({"count": 0}, {"count": 0.5}, r"'carried/count' is float32\[\], not int32\[\]"),
        ({"at": jnp.zeros(2)}, {"at": jnp.zeros(3)}, r"'carried/at' is float32\[3\], not .*\[2\]"),
    ],
)
def test_a_state_that_changes_its_form_is_refused(first, then, words) -> None:
    x = jnp.zeros(2)
    for drifting, place in (
        (Drifting(State(0.0, x, first), State(0.0, x, then)), words),
        (Drifting(State(first, x), State(then, x)), words.replace("carried", "physics")),
    ):
        if "not int32" in place and "physics" in place:
            continue  # between physics and that of a reset numbers are promoted
        with pytest.raises(UserError, match=f"a step of Drifting changes .*: {place}"):
            steps(drifting)


def test_a_convolution_needs_three_by_three() -> None:
    with pytest.raises(UserError, match="images of 2 by 4: set filters=0"):
        patches(jnp.zeros((1, 8)), (2, 4, 1))
