"""`gym:<id>`: any Gymnasium environment with 1-D goals, with its own settings and its own time limit."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embodied.errors import UserError
from embodied.protocols import GoalReward
from embodied.spec import EnvSpec, Layout, Term
from embodied.types import BoolArray, FloatArray, Frame, Goal, Observation, Outcome, Step
from robots.base import ActionLimits, Snapshot, load_gymnasium, no_goal

ENTITY = "goal"
_KEYS = ("observation", "achieved_goal", "desired_goal")
_FAR = 1e3
"""How far from a goal the pair lies that certainly misses it, in goal units."""
_TOLERANCE = 0.05
"""In goal units, where an environment does not tell its own."""

PairFunction = Callable[[NDArray[Any], NDArray[Any], dict[str, Any]], Any]
"""(achieved, desired, info) -> a number, or an array of them for a batch."""


class PairwiseFunction:
    """A function of (achieved, desired) that is called on a whole batch where that gives the same numbers.

    Gymnasium's goal environments promise a reward function for one pair. Many take a batch too; some raise, and some
    (PointMaze's termination) answer with one wrong number. So a batch of two is compared with single calls first.

    Attributes:
        batched: Whether batches are passed on whole.
    """

    def __init__(self, function: PairFunction, probes: NDArray[Any], goals: NDArray[Any]) -> None:
        """`probes` and `goals` have shape (P, G): pairs to compare on, P >= 2."""
        self._function = function
        self.batched = all(
            self._agrees(probes[[i, j]], goals[[i, j]])
            for i in range(len(probes))
            for j in range(len(probes))
            if i != j
        )

    def __call__(self, achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.float64]:
        """Arguments (N, G), result (N,)."""
        if self.batched:
            return np.broadcast_to(np.asarray(self._function(achieved, desired, {}), dtype=np.float64), len(achieved))
        return self._one_by_one(achieved, desired)

    def _one_by_one(self, achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.float64]:
        values = [self._function(a, d, {}) for a, d in zip(achieved, desired, strict=True)]
        return np.array(values, dtype=np.float64).reshape(len(achieved))

    def _agrees(self, achieved: NDArray[Any], desired: NDArray[Any]) -> bool:
        singles = self._one_by_one(achieved, desired)
        try:
            batch = np.asarray(self._function(achieved, desired, {}), dtype=np.float64)
        except Exception:  # a foreign function may fail on a batch in any way it likes; one by one it works
            return False
        # One number for all (a constant) is fine as long as it is the right one for each.
        return batch.shape in ((), singles.shape) and bool(np.allclose(batch, singles, rtol=1e-6, atol=1e-9))


class ForeignReward:
    """Reward, termination and success of a foreign environment for pairs of goals; a `GoalReward`."""

    def __init__(
        self,
        dtype: np.dtype[Any],
        reward: PairwiseFunction,
        terminated: PairwiseFunction | None,
        success: PairwiseFunction,
    ) -> None:
        self._dtype = dtype
        self._reward = reward
        self._terminated = terminated
        self._success = success

    def __call__(self, achieved: FloatArray, goal: FloatArray, mask: BoolArray) -> Outcome:
        """All of shape (N, G). Goals of foreign environments are always whole: the mask must be true throughout."""
        if not np.all(mask):
            raise UserError("a gym:<id> task knows whole goals only; the mask must be true throughout")
        pairs = np.asarray(achieved, dtype=self._dtype), np.asarray(goal, dtype=self._dtype)
        ended = np.zeros(len(goal), dtype=bool) if self._terminated is None else self._terminated(*pairs).astype(bool)
        return Outcome(self._reward(*pairs).astype(np.float32), ended, self._success(*pairs).astype(bool))


class ForeignEnv:
    """A Gymnasium goal environment as an `Env`; one entity, `goal`, and no names for the single numbers.

    The state is the observation followed by the achieved goal, which an observation need not contain (AntMaze's does
    not say where the ant is).

    Attributes:
        notes: What was found out about the environment that a user should know, a line each.
    """

    def __init__(self, env_id: str) -> None:
        """`env_id` as `gymnasium.make` takes it; `module:Id-v0` imports `module` first.

        Raises:
            UserError: No such environment, or one that does not fit; one line that says why.
        """
        task = f"gym:{env_id}"
        self._env, notes = _make(task, env_id)
        self.notes: tuple[str, ...] = tuple(notes)
        try:
            self._prepare(task)
        except BaseException:
            self._env.close()
            raise
        self._limits = ActionLimits(self.spec)
        self._goal = no_goal(ENTITY, self.spec.layout.goal_width)
        self._observed: Observation | None = None
        self._renderer: Any = None

    def _prepare(self, task: str) -> None:
        space = _check_spaces(task, self._env)
        self._goal_dtype = space["achieved_goal"].dtype
        pairs = _probe_pairs(task, self._env)
        functions = _PairFunctions(task, self._env.unwrapped, *pairs)
        self.reward: GoalReward = ForeignReward(
            self._goal_dtype, functions.reward, functions.terminated, functions.success
        )
        self.spec = _make_spec(task, self._env, functions)
        self.notes += tuple(functions.notes)

    @property
    def goal(self) -> Goal:
        """The goal of the current episode; follows the environment where that changes it on the way.

        Before the first episode it says nothing (its mask is false).
        """
        return self._goal

    def reset(self, seed: int) -> Observation:
        """The environment's own episode for this seed."""
        raw, _ = self._env.reset(seed=seed)
        return self._observation(raw)

    def step(self, action: FloatArray) -> Step:
        """One step of the environment, with its own reward, termination and time limit."""
        executed = self._limits(action)
        pursued = self.goal
        raw, reward, terminated, truncated, _ = self._env.step(executed.astype(self._env.action_space.dtype))
        observation = self._observation(raw)
        outcome = self.reward(observation.achieved, pursued.value[None], pursued.mask[None])
        return Step(observation, executed, float(reward), bool(terminated), bool(truncated), bool(outcome.success[0]))

    def render(self, camera: str | None = None, width: int = 320, height: int = 240, depth: bool = False) -> Frame:
        """A picture: of the scene where the environment is a MuJoCo model, else its own `rgb_array` at its own size.

        Raises:
            UserError: The environment makes no pictures.
        """
        scene = _scene_of(self._env)
        if scene is not None:
            from robots.rendering import SceneRenderer

            if self._renderer is None:
                self._renderer = SceneRenderer(scene[0]), Snapshot(scene[0])
            renderer, snapshot = self._renderer
            return renderer.render(snapshot.of(scene[1]), camera, width, height, depth)
        picture = self._env.render() if self._env.render_mode == "rgb_array" else None
        if picture is None or camera is not None or depth:
            raise UserError(f"{self.spec.task} is no MuJoCo scene: it offers no cameras, depth or pictures of its own")
        return Frame(np.ascontiguousarray(picture, dtype=np.uint8), camera="own")

    def close(self) -> None:
        """Frees the environment."""
        if self._renderer is not None:
            self._renderer[0].close()
        self._env.close()

    def _observation(self, raw: dict[str, Any]) -> Observation:
        desired = np.asarray(raw["desired_goal"], dtype=np.float32)
        self._goal = Goal(ENTITY, desired, np.ones(desired.shape, dtype=bool))
        achieved = np.asarray(raw["achieved_goal"], dtype=np.float32)
        state = np.concatenate([np.asarray(raw["observation"], dtype=np.float32).ravel(), achieved])
        return Observation(state, np.zeros((1, 0), dtype=np.float32), achieved[None], self.spec.layout)


class _PairFunctions:
    """The three functions of (achieved, desired) that an environment offers, probed, and what that told."""

    def __init__(self, task: str, base: Any, probes: NDArray[Any], goals: NDArray[Any]) -> None:
        self.notes: list[str] = []
        self._task, self._probes, self._goals = task, probes, goals
        compute_reward = getattr(base, "compute_reward", None)
        if compute_reward is None:
            raise UserError(f"{task} has no compute_reward(achieved, desired, info), so goals cannot be relabelled")
        self.reward = self._probe("reward", compute_reward)
        self.terminated = self._find_termination(base)
        # `+ 0.0` turns Gymnasium's -0.0 into 0.0.
        self.best, self.worst = (float(value) + 0.0 for value in self.reward(probes[:2], goals[:2]))
        task_reward = getattr(base, "reward_type", getattr(getattr(base, "task", None), "reward_type", None))
        self.sparse = task_reward == "sparse" and self.best > self.worst
        if not self.sparse:
            self.notes.append(f"{task}: the range of its rewards is not known: target clamping is off")
        self.tolerance = self._find_tolerance(base)
        self.success = self._find_success(base)

    def _probe(self, what: str, function: PairFunction) -> PairwiseFunction:
        try:
            probed = PairwiseFunction(function, self._probes, self._goals)
        except Exception as error:  # foreign code: whatever it raises, the answer is that it does not fit
            problem = _squeeze(error)
            raise UserError(f"{self._task}: its {what} is no function of the goals alone ({problem})") from None
        if not probed.batched:
            self.notes.append(f"{self._task}: its {what} is wrong on a batch and is called one by one (slower)")
        return probed

    def _find_termination(self, base: Any) -> PairwiseFunction | None:
        compute = getattr(base, "compute_terminated", None)
        if compute is None:
            self.notes.append(f"{self._task}: no compute_terminated: relabelled goals never end an episode")
            return None
        return self._probe("termination", compute)

    def _find_tolerance(self, base: Any) -> float:
        named = getattr(base, "distance_threshold", getattr(getattr(base, "task", None), "distance_threshold", None))
        if isinstance(named, (int, float)):
            return float(named)
        return self._measure_tolerance() if self.sparse else _TOLERANCE

    def _measure_tolerance(self) -> float:
        """Where along the first axis of goal space a sparse reward flips, by bisection."""
        goal, near, far = self._goals[:1], 0.0, _FAR
        for _ in range(50):
            middle = (near + far) / 2
            moved = goal.copy()
            moved[0, 0] += middle
            near, far = (middle, far) if self.reward(moved, goal)[0] == self.best else (near, middle)
        return float(f"{near:.6g}")

    def _find_success(self, base: Any) -> PairwiseFunction:
        own = getattr(base, "_is_success", getattr(getattr(base, "task", None), "is_success", None))
        if own is not None:
            with suppress(UserError):
                return self._probe("success", lambda achieved, desired, info: own(achieved, desired))
        if self.sparse:
            best, reward = self.best, self.reward
            return self._probe("success", lambda a, d, info: reward(np.atleast_2d(a), np.atleast_2d(d)) == best)
        self.notes.append(f"{self._task}: it does not say what success is: taken as a distance of {self.tolerance}")
        limit = self.tolerance
        return self._probe("success", lambda a, d, info: np.linalg.norm(a - d, axis=-1) <= limit)


def _make(task: str, env_id: str) -> tuple[Any, list[str]]:
    """The environment, and what Gymnasium had to say about it."""
    gymnasium = load_gymnasium()
    if not env_id:
        raise UserError("give the id of a Gymnasium environment, as in gym:FetchReach-v4 or gym:my_module:MyEnv-v0")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            env = gymnasium.make(env_id, disable_env_checker=True)
            if _scene_of(env) is None and "rgb_array" in env.metadata.get("render_modes", ()):
                env.close()
                env = gymnasium.make(env_id, disable_env_checker=True, render_mode="rgb_array")
        except Exception as error:  # constructors are foreign code
            raise UserError(f"{task} cannot be made: {_squeeze(error)}") from None
    return env, [f"{task}: {_plain(str(warning.message))}" for warning in caught]


def _scene_of(env: Any) -> tuple[Any, Any] | None:
    """The MuJoCo model and data of an environment that is one."""
    import mujoco

    base = env.unwrapped
    model, data = getattr(base, "model", None), getattr(base, "data", None)
    return (model, data) if isinstance(model, mujoco.MjModel) and isinstance(data, mujoco.MjData) else None


def _check_spaces(task: str, env: Any) -> Any:
    """The observation space; UserError where an environment is none of goals, or its spaces do not fit."""
    from gymnasium import spaces

    space, actions = env.observation_space, env.action_space
    if not isinstance(space, spaces.Dict) or any(key not in space.spaces for key in _KEYS):
        raise UserError(f"{task} has no goals: its observations need the keys {', '.join(_KEYS)}")
    for key in _KEYS:
        if not isinstance(space[key], spaces.Box):
            raise UserError(f"{task}: '{key}' is {type(space[key]).__name__}, only Box is understood")
    achieved, desired = space["achieved_goal"].shape, space["desired_goal"].shape
    if achieved is None or len(achieved) != 1 or achieved != desired:
        raise UserError(f"{task}: achieved and desired goals must be 1-D and alike, they are {achieved} and {desired}")
    if not isinstance(actions, spaces.Box) or len(actions.shape) != 1:
        raise UserError(f"{task}: actions must be a 1-D Box, they are {actions}")
    if not (np.isfinite(actions.low).all() and np.isfinite(actions.high).all()):
        raise UserError(f"{task}: actions need finite limits, they are {actions}")
    if env.spec is None or not env.spec.max_episode_steps:
        raise UserError(f"{task} is registered without a time limit: register it with max_episode_steps")
    return space


def _probe_pairs(task: str, env: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """(3, G) achieved and desired: a goal that is met, one that is missed by far, and one as an episode begins."""
    try:
        raw, _ = env.reset(seed=0)
    except Exception as error:  # foreign code
        raise UserError(f"{task} cannot be reset: {_squeeze(error)}") from None
    goal, start = np.array(raw["desired_goal"]), np.array(raw["achieved_goal"])
    return np.stack([goal, goal + goal.dtype.type(_FAR), start]), np.stack([goal, goal, goal])


def _make_spec(task: str, env: Any, functions: _PairFunctions) -> EnvSpec:
    space, actions = env.observation_space, env.action_space
    worst, best = functions.worst, functions.best
    return EnvSpec(
        task=task,
        robot="gym",
        layout=Layout(
            robot=(
                Term("observation", int(np.prod(space["observation"].shape)), "1", "none"),
                Term("achieved_goal", space["achieved_goal"].shape[0], "1", "none"),
            ),
            entity=(),
            goal=(Term("goal", space["desired_goal"].shape[0], "1", "none"),),
            entities=(ENTITY,),
        ),
        actions=(Term("action", actions.shape[0], "1", "none"),),
        action_low=tuple(float(x) for x in actions.low),
        action_high=tuple(float(x) for x in actions.high),
        horizon=int(env.spec.max_episode_steps),
        control_hz=_control_hz(env),
        tolerance=functions.tolerance,
        success_rule="last",
        reward_range=(worst, best) if functions.sparse else None,
        goal_entity=ENTITY,
        frame="none",
    )


def _control_hz(env: Any) -> float:
    """From the control period where there is one, else the rate at which pictures are meant to be shown."""
    base = env.unwrapped
    period = getattr(base, "dt", None) or getattr(getattr(base, "point_env", None), "dt", None)
    if isinstance(period, (int, float)) and period > 0:
        return 1.0 / round(float(period), 9)
    return float(base.metadata.get("render_fps") or 1.0)


def _squeeze(error: Exception) -> str:
    """An exception in one line."""
    return _plain(f"{type(error).__name__}: {error}")


def _plain(text: str) -> str:
    """One line without terminal colours."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())[:300]
