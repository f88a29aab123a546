"""Environments of another form than they say are refused in a line, before anything compiles."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ablations.environments import Discrete, Observations, State, Step, adapted
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


def steps(counter):
    """Return the forms of a reset and a step of three of them."""
    environments = Environments(adapted(counter), num_envs=3, episode_length=5)

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


class Walker:
    """Gymnax's interface, with a state that starts as it is told to."""

    default_params = None

    def __init__(self, start=0.0, by=1.0, space=None, more=()) -> None:
        self.start, self.by, self.more = start, by, more
        self.space = space or SimpleNamespace(n=2)

    def action_space(self, params):
        return self.space

    def reset_env(self, key, params):
        return jnp.zeros(2), self.start

    def step_env(self, key, state, action, params):
        state = state + self.by
        return jnp.full(2, state, float), state, 0.0, False, {}, *self.more


@pytest.mark.parametrize(
    ("start", "by", "after"),
    [
        *((0, 1, 3), (0.0, 1, 3.0), (np.float32(0), np.int32(1), 3.0), (False, 1, True)),
        *((np.uint8(250), 2, 0), (np.uint8(250), np.int32(2), 0), (np.int32(7), np.uint8(1), 10)),
    ],
)
def test_a_state_of_gymnax_keeps_its_type(start, by, after) -> None:
    environment = adapted(Walker(start, by))
    state = environment.reset(jax.random.key(0))
    for _ in range(3):
        state, _ = environment.step(state, jnp.int32(0))
    assert state.physics.dtype == jnp.asarray(start).dtype
    assert state.physics == after


@pytest.mark.parametrize(
    ("start", "by", "words"),
    [
        (0, 0.1, r"'physics' is float32\[\], not int32\[\]"),
        (np.int32(0), 0.1, r"'physics' is float32\[\], not int32\[\]"),
        (False, 0.5, r"'physics' is float32\[\], not bool\[\]"),
    ],
)
def test_real_numbers_where_a_state_of_gymnax_had_whole_ones_are_refused(start, by, words) -> None:
    with pytest.raises(UserError, match=f"a step of Walker changes .*: {words}"):
        steps(Walker(start, by))


def space(**fields) -> Walker:
    return Walker(space=SimpleNamespace(**fields))


class Bare:
    action_size = 2


class Braxlike(Bare):
    def reset(self, key):
        return SimpleNamespace(obs=jnp.zeros(2), reward=0.0)

    step = reset


def counting(**fields) -> Counter:
    made = Counter()
    vars(made).update(fields)
    return made


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            Walker(more=(False,)),
            "step_env of Walker must return observation, state, reward, termination, info",
        ),
        (space(low=-1.0, shape=(2,)), "actions from -1.0 to nan need finite bounds"),
        (space(low=-3.4e38, high=3.4e38, shape=(2,)), "actions from .* need finite bounds"),
        (space(low=1.0, high=-1.0, shape=(2,)), "actions from 1.0 to -1.0"),
        (space(nvec=(2, 3), shape=(2,)), "actions must be one number or one vector"),
        (space(low=-1.0, high=1.0, shape=(2, 2)), "actions must be one number or one vector"),
        (space(low=-np.inf, high=np.inf, shape=(2,)), "actions from -inf to inf need finite"),
        (SimpleNamespace(step_env=None, reset_env=None), "lacks action_space, default_params"),
        (Bare(), "Bare has `action_size` of Brax's interface, but lacks reset, step"),
        (
            Braxlike(),
            "a reset of Braxlike returns .*, which lacks done, metrics, replace, data, info",
        ),
        (counting(step=lambda state, action: state), "a step of Counter is to return a State and"),
    ],
)
def test_what_is_no_environment_is_told_in_a_line(made, words) -> None:
    with pytest.raises(UserError, match=words):
        steps(made)


def test_a_convolution_needs_three_by_three() -> None:
    with pytest.raises(UserError, match="images of 2 by 4: set filters=0"):
        patches(jnp.zeros((1, 8)), (2, 4, 1))
