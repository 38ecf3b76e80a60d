"""What tasks share: robot descriptions, the names of the numbers, and the check that stands round every environment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from embodied.errors import UserError
from embodied.protocols import Env, SceneEnv
from embodied.spec import EnvSpec, Layout, Term
from embodied.types import BaseFrame, FloatArray, Frame, Goal, Observation, SceneState, Step

if TYPE_CHECKING:
    import mujoco


@dataclass(frozen=True)
class RobotModel:
    """Which bodies and sites of a model are the robot."""

    name: str
    body_prefix: str
    """Every body whose name starts with it is part of the robot."""
    base_body: str
    gripper_bodies: tuple[str, ...] = ()
    """The gripper, fingers included."""
    left_finger_body: str | None = None
    right_finger_body: str | None = None
    grip_site: str | None = None


FETCH = RobotModel(
    name="fetch",
    body_prefix="robot0:",
    base_body="robot0:base_link",
    gripper_bodies=("robot0:gripper_link", "robot0:r_gripper_finger_link", "robot0:l_gripper_finger_link"),
    left_finger_body="robot0:l_gripper_finger_link",
    right_finger_body="robot0:r_gripper_finger_link",
    grip_site="robot0:grip",
)
POINT = RobotModel(name="point", body_prefix="particle", base_body="particle")

FETCH_STATE_TERMS = (
    Term("grip_pos", 3, "m", "base"),
    Term("gripper_state", 2, "m", "joint"),
    Term("grip_velp", 3, "m/step", "base"),
    Term("gripper_vel", 2, "m/step", "joint"),
)
OBJECT_TERMS = (
    Term("object_pos", 3, "m", "base"),
    Term("object_rel_pos", 3, "m", "base"),
    Term("object_rot", 3, "rad", "base"),
    Term("object_velp", 3, "m/step", "base"),
    Term("object_velr", 3, "rad/step", "base"),
)
"""Position, position relative to the grip, Euler angles, velocity relative to the grip, angular velocity."""
ENTITY_TERMS = (*OBJECT_TERMS, Term("is_gripper", 1, "1", "none"))
"""What an entity's row holds: an object's numbers and 0; in the gripper's row those of the nearest object, and 1."""
_REL_POS = slice(3, 6)
_FLOAT32 = np.dtype(np.float32)
_NO_OBJECT = (0.0,) * sum(term.width for term in OBJECT_TERMS)
POSITION_GOAL = (Term("position", 3, "m", "base"),)
FETCH_ACTIONS = (Term("grip_delta", 3, "0.05 m", "base"), Term("fingers", 1, "1", "joint"))
"""A move of the grip in units of 0.05 m per control step, and the fingers: +1 opens, -1 closes."""
POINT_STATE_TERMS = (Term("position", 2, "m", "base"), Term("velocity", 2, "m/s", "base"))
POINT_ACTIONS = (Term("force", 2, "100 N", "base"),)


def fetch_task_spec(
    task: str,
    entities: tuple[str, ...],
    goal_entity: str,
    horizon: int,
    control_hz: float,
    tolerance: float,
    skills: tuple[str, ...] = (),
    featured: bool = True,
) -> EnvSpec:
    """A task of the Fetch arm: state, entities' features, goals, actions and rewards are the same in all of them.

    Args:
        entities: The gripper first.
        tolerance: Of a reached position, m.
        featured: Whether entities have `ENTITY_TERMS`; they have none where there is no object.
    """
    return EnvSpec(
        task=task,
        robot=FETCH.name,
        layout=Layout(FETCH_STATE_TERMS, ENTITY_TERMS if featured else (), POSITION_GOAL, entities),
        actions=FETCH_ACTIONS,
        action_low=(-1.0,) * 4,
        action_high=(1.0,) * 4,
        horizon=horizon,
        control_hz=control_hz,
        tolerance=tolerance,
        success_rule="last",
        reward_range=(-1.0, 0.0),
        goal_entity=goal_entity,
        skills=skills,
    )


def entity_rows(objects: NDArray[np.floating]) -> FloatArray:
    """Rows of `ENTITY_TERMS`, the gripper's first, from every object's `OBJECT_TERMS`: (..., N, 15) to (..., N+1, 16).

    The gripper's row shows the object nearest to it, so that one policy sees that object whomever its goal speaks of;
    without objects it is zero but for the mark.
    """
    *batch, count, width = objects.shape
    rows = np.zeros((*batch, count + 1, width + 1), dtype=np.float32)
    rows[..., 1:, :-1] = objects
    rows[..., 0, -1] = 1.0
    if count == 1:
        rows[..., 0, :-1] = objects[..., 0, :]
    elif count:
        far = np.square(objects[..., _REL_POS]).sum(-1)
        nearest = far.argmin(-1)[..., None, None]
        rows[..., 0, :-1] = np.take_along_axis(objects, nearest, -2)[..., 0, :]
    return rows


def arm_observation(state: Sequence[float], objects: Sequence[Sequence[float]], layout: Layout) -> Observation:
    """What an arm with these objects shows, with the rows of `entity_rows`; made in one array, of Python's floats.

    Args:
        state: The 10 numbers of FETCH_STATE_TERMS.
        objects: Of every object the 15 numbers of OBJECT_TERMS.
        layout: Has the gripper and then the objects as its entities, with positions for goals.
    """
    nearest = objects[0] if len(objects) == 1 else min(objects, key=_squared_distance, default=_NO_OBJECT)
    numbers = [*state, *nearest, 1.0]
    for row in objects:
        numbers += row
        numbers.append(0.0)
    numbers += state[:3]
    for row in objects:
        numbers += row[:3]
    array, count = np.array(numbers, _FLOAT32), 1 + len(objects)
    begin, end = len(state), len(numbers) - 3 * count
    entities, achieved = array[begin:end].reshape(count, -1), array[end:].reshape(count, 3)
    return Observation(array[:begin], entities, achieved, layout)


def _squared_distance(row: Sequence[float]) -> float:
    """Of an object from the grip."""
    x, y, z = row[_REL_POS]
    return x * x + y * y + z * z


def load_gymnasium() -> ModuleType:
    """Gymnasium with Gymnasium-Robotics' tasks registered.

    Both print notices on import, about tasks that are not used here, which would mix with what a program has to say.

    Raises:
        UserError: They are not installed.
    """
    with suppress(ImportError):
        from farama_notifications import notifications

        notifications.clear()
    try:
        import gymnasium
        import gymnasium_robotics
    except ModuleNotFoundError as error:
        raise UserError(f"'{error.name}' is missing: pip install 'embodied-control[sim]'") from None
    gymnasium.register_envs(gymnasium_robotics)
    return gymnasium


class SpaceError(UserError):
    """An array that is not what the task's layout says: wrong shape or dtype, or not finite."""


def check_array(key: str, value: Any, shape: tuple[int, ...], task: str) -> None:
    """Raises `SpaceError` unless `value` is a finite float32 array of this shape."""
    if isinstance(value, np.ndarray) and value.shape == shape and value.dtype == _FLOAT32:
        if math.isfinite(sum(value.ravel().tolist())):
            return
        problem = "is not finite"
    else:
        problem = f"should be a float32 array of shape {shape}"
    array = np.asarray(value)
    numbers = array.size and np.issubdtype(array.dtype, np.number)
    span = f"[{array.min()}, {array.max()}]" if numbers else "empty or not numeric"
    raise SpaceError(f"{task}: {key} {problem}; got dtype {array.dtype}, shape {array.shape}, range {span}")


class ObservationCheck:
    """Raises `SpaceError` where an observation does not fit the layout in `spec`."""

    def __init__(self, spec: EnvSpec) -> None:
        layout, count = spec.layout, len(spec.layout.entities)
        self._task, self._layout = spec.task, layout
        self._shapes = (layout.state_width,), (count, layout.entity_width), (count, layout.goal_width)
        self._featured = layout.entity_width > 0

    def __call__(self, observation: Observation) -> None:
        """One observation."""
        if observation.layout is not self._layout and observation.layout != self._layout:
            raise SpaceError(f"{self._task}: the observation's layout differs from the one in the task's spec")
        if not self._plainly_fits(observation.state, observation.entities, observation.achieved):
            for name, shape in zip(("state", "entities", "achieved"), self._shapes, strict=True):
                check_array(f"observation.{name}", getattr(observation, name), shape, self._task)

    def _plainly_fits(self, state: Any, entities: Any, achieved: Any) -> bool:
        """All three at once, as nearly every observation does; a sum of float32 is finite only if every number is."""
        if not (type(state) is type(entities) is type(achieved) is np.ndarray):
            return False
        if not (state.dtype is entities.dtype is achieved.dtype is _FLOAT32):
            return False
        if (state.shape, entities.shape, achieved.shape) != self._shapes:
            return False
        total = sum(state.tolist()) + sum(achieved.ravel().tolist())
        if self._featured:
            total += sum(entities.ravel().tolist())
        return math.isfinite(total)


def check_goal(goal: Goal, spec: EnvSpec) -> None:
    """Raises `LayoutError` for an unknown entity and `SpaceError` for a value that is no goal of this task."""
    spec.layout.entity_index(goal.entity)
    check_array("goal.value", goal.value, (spec.layout.goal_width,), spec.task)


def no_goal(entity: str, width: int) -> Goal:
    """A goal that says nothing: what an environment pursues before its first episode."""
    return Goal(entity, np.zeros(width, dtype=np.float32), np.zeros(width, dtype=bool))


class ActionLimits:
    """Clips actions to a task's limits."""

    def __init__(self, spec: EnvSpec) -> None:
        self._task, self._shape = spec.task, (spec.action_width,)
        self._low, self._high = np.array(spec.action_low, np.float32), np.array(spec.action_high, np.float32)
        self._lowest: list[float] = self._low.tolist()
        self._highest: list[float] = self._high.tolist()

    def __call__(self, action: Any) -> FloatArray:
        """The action within the limits, a float32 array (A,) of its own.

        Raises:
            SpaceError: A wrong shape, or a number that is none.
        """
        if type(action) is np.ndarray and action.dtype is _FLOAT32 and action.shape == self._shape:
            # Nearly every action is within the limits: comparing a few floats costs less than one call of numpy's.
            for value, low, high in zip(action.tolist(), self._lowest, self._highest, strict=False):
                if not low <= value <= high:
                    break
            else:
                return action.copy()
        array = np.asarray(action)
        if array.dtype != _FLOAT32 and np.issubdtype(array.dtype, np.number):
            array = array.astype(np.float32)
        check_array("action", array, self._shape, self._task)
        return np.clip(array, self._low, self._high)


class CheckedEnv:
    """An environment with the check round it: what goes in and out fits the spec and is finite, always.

    Everything that the environment has beside the protocol is reached through this object too.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self.spec = env.spec
        self.reward = env.reward
        self._started = False
        self._limits, self._check = ActionLimits(env.spec), ObservationCheck(env.spec)
        # Looked up in the class: an object that passes attributes on to an environment is to be stepped itself.
        self._advance = getattr(env, "advance" if hasattr(type(env), "advance") else "step")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._env, name)

    @property
    def goal(self) -> Goal:
        """The goal of the current episode; before the first it says nothing (its mask is false)."""
        return self._env.goal

    def reset(self, seed: int) -> Observation:
        """A new episode; the same seed, 0 or more, gives the same episode."""
        if seed < 0:
            raise UserError(f"{self.spec.task}: a seed must be 0 or more, got {seed}")
        observation = self._env.reset(seed)
        self._check(observation)
        check_goal(self._env.goal, self.spec)
        self._started = True
        return observation

    def step(self, action: FloatArray) -> Step:
        """One control period; the action is clipped to the limits first."""
        if not self._started:
            self._require_start()
        executed = self._limits(action)
        step = self._advance(executed)
        self._check(step.observation)
        if step.action is not executed:
            check_array("executed action", step.action, (self.spec.action_width,), self.spec.task)
        if not math.isfinite(step.reward):
            raise SpaceError(f"{self.spec.task}: the reward is not finite: {step.reward}")
        return step

    def close(self) -> None:
        """Frees what the environment holds."""
        self._env.close()

    def _require_start(self) -> None:
        if not self._started:
            raise SpaceError(f"{self.spec.task}: call reset(seed) before anything else")


class CheckedSceneEnv(CheckedEnv):
    """`CheckedEnv` for environments whose scene can be read, looked at and given goals."""

    _env: SceneEnv

    @property
    def frame(self) -> BaseFrame:
        """Frame B in the world, which a robot knows without looking; the world itself where none is named."""
        frame: BaseFrame = getattr(self._env, "frame", BaseFrame())
        return frame

    def set_goal(self, goal: Goal) -> None:
        """Pursue this goal from now on."""
        self._require_start()
        check_goal(goal, self.spec)
        self._env.set_goal(goal)

    def scene_state(self) -> SceneState:
        """The scene as the simulator knows it now."""
        return self._env.scene_state()

    def render(self, camera: str | None = None, width: int = 320, height: int = 240, depth: bool = False) -> Frame:
        """A picture; without a name, from the camera that shows the scene best."""
        return self._env.render(camera, width, height, depth)


def checked(env: Env) -> CheckedEnv:
    """The same environment with the check round it; a `SceneEnv` stays one."""
    if isinstance(env, CheckedEnv):
        return env
    return CheckedSceneEnv(env) if isinstance(env, SceneEnv) else CheckedEnv(env)


class Snapshot:
    """A second `MjData` that shows a simulation's present state without touching it.

    After `mj_step` MuJoCo's derived quantities (positions of bodies, contacts) belong to the state before the last
    integration. Here they are computed for the state itself, and looking at a scene cannot change what happens next.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        import mujoco

        self._model = model
        self._data = mujoco.MjData(model)

    def of(self, data: mujoco.MjData) -> mujoco.MjData:
        """The scene at `data`'s qpos, qvel and mocap poses, positions and contacts consistent; reused by each call."""
        import mujoco

        for name in ("qpos", "qvel", "act", "ctrl", "mocap_pos", "mocap_quat", "eq_active"):
            getattr(self._data, name)[:] = getattr(data, name)
        self._data.time = data.time
        mujoco.mj_fwdPosition(self._model, self._data)
        mujoco.mj_fwdVelocity(self._model, self._data)
        return self._data
