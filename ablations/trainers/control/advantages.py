"""Advantages and value targets of a batch: when they are estimated, and how they are standardised.

advantage_timing decides when: once per iteration with the critic of the rollout, or at each epoch
or minibatch with the current critic. advantage_scope decides over which samples they are
standardised: a minibatch, in the loss, or the whole batch, before it is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

import variants
from ablations.trainers.choices import apply, either, matches, switch
from ablations.trainers.control.networks import Critic
from ablations.trainers.trainer import Array, TracedConfig, Tree
from variants.advantage import WITHIN_EPISODES

Result = TypeVar("Result")
LogRatio = Callable[[], Array]  # log ρ [T, N] of the current policy to the policy that acted
MOMENTS = ("iteration", "epoch", "minibatch")
SCOPES = ("minibatch", "batch")


class Experience(NamedTuple):
    """The steps from which advantages are estimated.

    observation, next_observation: [T, N, O], normalised. reward: [T, N], scaled. The rest [T, N].
    """

    observation: Array
    next_observation: Array
    reward: Array
    termination: Array
    truncation: Array


class Estimate(NamedTuple):
    """Advantages and value targets, [T, N]."""

    advantage: Array
    target: Array


def estimate(
    experience: Experience,
    value: Array,
    next_value: Array,
    variant: TracedConfig,
    log_ratio: LogRatio | None = None,
) -> Estimate:
    """Estimate by `advantage` and value_target; the result has no gradient.

    next_value[t]: of the true next observation, before any reset. log_ratio: None for the policy
    that acted.
    """
    moved = {} if log_ratio is None else {"log_ratio": log_ratio}

    def by(variant: TracedConfig) -> Estimate:
        return Estimate(
            *apply(
                "advantage",
                variant,
                rewards=experience.reward,
                values=value,
                next_values=next_value,
                termination=experience.termination,
                truncation=experience.truncation,
                **moved,
            )
        )

    def own_lambda() -> Estimate:
        numbers = {**variant.numbers, "gae_lambda": variant.numbers["target_lambda"]}
        return Estimate(by(variant).advantage, by(variant._replace(numbers=numbers)).target)

    made = switch(
        "value_target", variant, {"shared": lambda: by(variant), "own_lambda": own_lambda}
    )
    return Estimate(*jax.lax.stop_gradient((made.advantage, made.target)))


class Estimator(NamedTuple):
    """Advantage estimates with one state of the critic, at the moments of advantage_timing.

    alike: whether a step's next observation and the next step's observation are normalised alike;
        False for statistics that change at every step.
    log_ratio: None for the policy that acted.
    """

    critic: Critic
    parameters: Tree
    alike: bool
    variant: TracedConfig
    log_ratio: LogRatio | None = None

    def at_rollout(
        self,
        experience: Experience,
        observation: Callable[[], Array],
        next_observation: Callable[[], Array],
    ) -> tuple[Array, Estimate]:
        """Return values [T, N] and the estimate, both in units of scaled reward.

        The values are 0 if no choice reads them, the estimate is 0 unless advantage_timing is
        "iteration". observation, next_observation: [T, N, O], normalised as at rollout.
        """
        zeros = jnp.zeros_like(experience.reward)
        value = either(
            "advantage_timing",
            self.variant,
            matches("advantage_timing", self.variant, "iteration") | self._measured_from_rollout,
            lambda: self._values(observation()),
            lambda: zeros,
        )
        made = self._at(
            "iteration",
            lambda: self._of_values(experience, value, next_observation()),
            lambda: Estimate(zeros, zeros),
        )
        return value, made

    def at_epoch(
        self, experience: Experience, old_value: Array, before: Estimate
    ) -> tuple[Array, Estimate]:
        """Return the reference output [T, N] of value_clip, and the estimate, for a new epoch.

        old_value: the reference at rollout. old_value=epoch requires advantage_timing=epoch, so
            that one pass of the critic serves both.
        """

        def now() -> tuple[Array, Estimate]:
            output = self.critic.network(self.parameters, experience.observation)
            clipped_from = {"rollout": lambda: old_value, "epoch": lambda: output}
            old = switch("old_value", self.variant, clipped_from)
            return old, self._of_outputs(experience, output)

        return self._at("epoch", now, lambda: (old_value, before))

    def at_minibatch(
        self, experience: Callable[[], Experience], before: Estimate, output: Array
    ) -> Estimate:
        """Return the estimate for a gradient step; output: [T, M], of the critic's network."""
        return self._at("minibatch", lambda: self._of_outputs(experience(), output), lambda: before)

    def next_values(self, value: Array, observation: Array) -> Array:
        """Return the values [T, N] of the true next observations [T, N, O].

        Inside an episode this is the next row of `value` [T, N], so for most choices of `advantage`
        the network evaluates the last step only. Values that no choice reads are arbitrary.
        """

        def of_the_last() -> Array:
            return jnp.concatenate([value[1:], self._values(observation[-1:])])

        within = self.alike and matches("advantage", self.variant, *WITHIN_EPISODES)
        return either(
            "advantage", self.variant, within, of_the_last, lambda: self._values(observation)
        )

    @property
    def _measured_from_rollout(self) -> bool | Array:
        """Whether value_clip measures from the values at rollout: bool, or a bool scalar."""
        clips = variants.axis("value_clip").values()
        reading = [clip.name for clip in clips if "old_values" in clip.inputs]
        measured = matches("value_clip", self.variant, *reading)
        return measured & matches("old_value", self.variant, "rollout")

    def _at(self, moment: str, now: Callable[[], Result], other: Callable[[], Result]) -> Result:
        branches = {name: now if name == moment else other for name in MOMENTS}
        return switch("advantage_timing", self.variant, branches)

    def _values(self, observation: Array) -> Array:
        return self.critic.value(self.parameters, observation)

    def _of_values(self, experience: Experience, value: Array, next_observation: Array) -> Estimate:
        """Estimate with targets in units of scaled reward."""
        next_value = self.next_values(value, next_observation)
        return estimate(experience, value, next_value, self.variant, self.log_ratio)

    def _of_outputs(self, experience: Experience, output: Array) -> Estimate:
        """Estimate with targets in units of the network's output."""
        value = self.critic.meant(output)
        made = self._of_values(experience, value, experience.next_observation)
        return made._replace(target=self.critic.output(made.target))


def standardised(
    scope: str, advantage: Array, group: Array, num_groups: int, variant: TracedConfig
) -> Array:
    """Apply `advantage_statistics` if advantage_scope is `scope`, else return the advantages.

    advantage, group: of one shape; group: ids below num_groups of environments that share a reset.
    """

    def now() -> Array:
        flat: Array = apply(
            "advantage_statistics",
            variant,
            advantages=advantage.reshape(-1),
            groups=group.reshape(-1),
            num_groups=num_groups,
        )
        return flat.reshape(advantage.shape)

    branches = {name: now if name == scope else lambda: advantage for name in SCOPES}
    return switch("advantage_scope", variant, branches)
