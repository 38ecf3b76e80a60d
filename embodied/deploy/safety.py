"""The last word on every command: what may reach the robot, and when it has to hold instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from embodied.types import FloatArray, SafetyDecision, SafetyLimits

RULES = (
    "nonfinite_observation",  # a sensor value is NaN or infinite: hold
    "implausible_observation",  # a value lies far outside all that was seen when the policy was recorded: hold
    "stale_observation",  # the observation is older than the limit: hold
    "nonfinite_goal",  # the goal is NaN or infinite: hold
    "nonfinite_action",  # the policy answered NaN or infinity: hold
    "clipped_action",  # the policy asked for more than the limits allow: clipped to them
)
"""Names under which interventions are counted."""

_CLIP_SLACK = 1e-6
"""Share of an action's range by which a limit may be passed uncounted (rounding); it is cut all the same."""
_MAX_NOTES = 10

Policy = Callable[[FloatArray, FloatArray], FloatArray]


class SafetyFilter:
    """Holds a policy to `SafetyLimits`, one control step at a time, and counts what it had to do.

    Args:
        limits: Bounds, age limit and hold action.
        names: A name for each number of the observation vector, for the notes; optional.
    """

    def __init__(self, limits: SafetyLimits, names: Sequence[str] = ()) -> None:
        self.limits = limits
        self.counts: dict[str, int] = dict.fromkeys(RULES, 0)
        self.held = 0
        """Steps at which the hold action was commanded."""
        self.steps = 0
        self.notes: list[str] = []
        """The first few interventions in words."""
        self._names = tuple(names)
        self._hold = np.asarray(limits.hold_action, dtype=np.float32)
        self._low = np.asarray(limits.action_low, dtype=np.float32)
        self._high = np.asarray(limits.action_high, dtype=np.float32)
        self._slack = _CLIP_SLACK * (self._high - self._low)
        self._observation_low = np.asarray(limits.observation_low, dtype=np.float64)
        self._observation_high = np.asarray(limits.observation_high, dtype=np.float64)

    def decide(self, observation: FloatArray, goal: FloatArray, age_s: float, policy: Policy) -> SafetyDecision:
        """What to send for an observation vector (S+F,) of that age, a goal vector (G,) and a policy.

        The policy is asked only where its inputs are fit to act upon.
        """
        self.steps += 1
        broken = self._check_inputs(observation, goal, age_s)
        if broken:
            return self._holding(broken)
        action = np.asarray(policy(observation, goal), dtype=np.float32)
        if action.shape != self._hold.shape or not np.isfinite(action).all():
            self._note("nonfinite_action", f"the policy answered {action.tolist()}")
            return self._holding(("nonfinite_action",))
        clipped = np.clip(action, self._low, self._high)
        if np.any(np.abs(clipped - action) > self._slack):
            self._note("clipped_action", f"the policy asked for {action.tolist()}")
            return SafetyDecision(clipped, False, ("clipped_action",))
        return SafetyDecision(clipped, False, ())

    def hold(self, rule: str, why: str) -> SafetyDecision:
        """Holds for a reason from outside, counted under `rule`."""
        self._note(rule, why)
        return self._holding((rule,))

    def _check_inputs(self, observation: FloatArray, goal: FloatArray, age_s: float) -> tuple[str, ...]:
        broken = []
        finite = np.isfinite(observation)
        if not finite.all():
            broken.append("nonfinite_observation")
            self._note("nonfinite_observation", self._values(observation, ~finite))
        outside = finite & ((observation < self._observation_low) | (observation > self._observation_high))
        if outside.any():
            broken.append("implausible_observation")
            self._note("implausible_observation", self._values(observation, outside))
        if not age_s <= self.limits.max_observation_age_s:
            broken.append("stale_observation")
            self._note("stale_observation", f"{age_s:.4g} s old, at most {self.limits.max_observation_age_s:.4g} s")
        if not np.isfinite(goal).all():
            broken.append("nonfinite_goal")
            self._note("nonfinite_goal", f"{goal.tolist()}")
        return tuple(broken)

    def _holding(self, rules: tuple[str, ...]) -> SafetyDecision:
        self.held += 1
        return SafetyDecision(self._hold.copy(), True, rules)

    def _note(self, rule: str, what: str) -> None:
        self.counts[rule] = self.counts.get(rule, 0) + 1
        if len(self.notes) < _MAX_NOTES:
            self.notes.append(f"step {max(self.steps - 1, 0)}: {rule}: {what}")

    def _values(self, observation: FloatArray, where: np.ndarray) -> str:
        columns = np.flatnonzero(where)[:4]
        names = [self._names[i] if i < len(self._names) else f"[{i}]" for i in columns]
        return ", ".join(f"{name} = {observation[i]:.6g}" for name, i in zip(names, columns, strict=True))
