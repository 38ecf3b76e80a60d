"""The Fetch arm of Gymnasium-Robotics on any model that contains it: home pose, control and observation in frame B.

The numbers are those of `gymnasium_robotics.envs.fetch` (MujocoFetchEnv) with one difference: they are measured from
and given in frame B instead of the world, so that they are the same wherever the arm stands and whichever way it looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.errors import SceneError
from embodied.types import BaseFrame
from robots.assembly import ArmScene, build_arm_scene
from robots.base import FETCH, RobotModel
from robots.placement import substeps

__all__ = ["CONTROL_PERIOD_S", "ArmScene", "FetchArm", "build_arm_scene", "euler_angles"]

Array = NDArray[np.float64]
Vector = tuple[float, float, float]

CONTROL_PERIOD_S = 0.04
"""20 physics steps of 0.002 s in Gymnasium's Fetch."""
POSITION_SCALE_M = 0.05
"""`pos_ctrl *= 0.05` in MujocoFetchEnv._set_action."""
GRIP_QUATERNION = np.array([1.0, 0.0, 1.0, 0.0])
"""Fixed rotation of the end effector, in B, as there; it is added to the gripper's quaternion and then normalised."""
HOME_OFFSET_M = np.array([-0.498, 0.005, -0.431 + 0.2])
"""From the grip site at joint zero to the mocap target, MujocoFetchEnv._env_setup with FetchReach's extra height."""
_GIVEN_UP = slice(int(mujoco.mjtWarning.mjWARN_BADQPOS), int(mujoco.mjtWarning.mjWARN_BADQACC) + 1)
"""Of MuJoCo's warnings: positions, velocities or accelerations that are not finite or too great."""
_POLE = 4.0 * float(np.finfo(np.float64).eps)
HOME_PERIODS = 10
HOME_TOLERANCE_M = 0.05


class FetchArm:
    """Control and observation of a Fetch arm in a model.

    Args:
        model: Holds the arm's bodies, joints, mocap body and (where the fingers are to move) finger actuators.
        frame: Frame B in the world.
        robot: The arm's names.

    Raises:
        SceneError: The model's timestep does not divide the control period of 0.04 s.
    """

    def __init__(self, model: mujoco.MjModel, frame: BaseFrame, robot: RobotModel = FETCH) -> None:
        prefix = robot.body_prefix
        self.model, self.frame, self.robot = model, frame, robot
        self.substeps = substeps(model, CONTROL_PERIOD_S)
        self.period_s = self.substeps * model.opt.timestep
        self._rotation = frame.rotation
        self._cosine, self._sine = self._rotation[:2, 0].tolist()
        self._origin = frame.origin_m
        self._grip = model.site(str(robot.grip_site)).id
        self._hand = model.body(f"{prefix}gripper_link").id
        self._base = model.body(robot.base_body).id
        self._mocap = int(model.body_mocapid[model.body(f"{prefix}mocap").id])
        joints = [j for j in range(model.njnt) if model.joint(j).name.startswith(prefix)]
        self._qpos, self._qvel = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
        self._fingers = [(int(self._qpos[i]), int(self._qvel[i])) for i in (-2, -1)]
        actuators = [a for a in range(model.nu) if model.actuator(a).name.startswith(prefix)]
        self._drives = [(a, int(model.jnt_qposadr[model.actuator_trnid[a, 0]])) for a in actuators]
        """The finger actuators, each with the address of the joint that it drives."""
        self._grip_quaternion = np.zeros(4)
        mujoco.mju_mulQuat(self._grip_quaternion, frame.quaternion, GRIP_QUATERNION)
        self._home: tuple[Array, Array, Array] | None = None
        self._jacobians = _Jacobians(model, 1)
        self._views: _Views | None = None

    def home(self, data: mujoco.MjData) -> None:
        """Brings a freshly reset simulation to the arm's home pose, and lets the objects settle.

        The arm's way from its joints' zero pose to the home pose is Gymnasium's (10 control periods behind the mocap
        target), but travelled beside the scene with contacts off, so that it sweeps nothing off the table; the scene
        then runs for the same 10 periods with the arm held at home.

        Raises:
            SceneError: The arm does not get there, or the simulation becomes unstable: the scene does not suit it.
        """
        if self._home is None:
            self._home = self._travel_home()
        qpos, qvel, target = self._home
        data.qpos[self._qpos], data.qvel[self._qvel] = qpos, qvel
        self._lead(data, target, self._grip_quaternion)
        mujoco.mj_forward(self.model, data)
        mujoco.mj_step(self.model, data, nstep=HOME_PERIODS * self.substeps)
        mujoco.mj_forward(self.model, data)
        self._views_of(data).check_stable()

    def apply(self, data: mujoco.MjData, action: NDArray[np.floating]) -> None:
        """Sets the mocap target and the finger controls for the coming control period, as `MujocoFetchEnv` does.

        Args:
            action: (4,) within [-1, 1]: move of the grip in B in units of 0.05 m, and the fingers (+1 opens).
        """
        self._apply(self._views_of(data), action)

    def _apply(self, views: _Views, action: NDArray[np.floating]) -> None:
        fingers = float(action[3])
        for actuator, address in self._drives:
            views.ctrl[actuator] = views.qpos[address] + fingers
        np.add(views.hand_position, self._rotation.dot(action[:3] * POSITION_SCALE_M), out=views.lead_position)
        np.add(views.hand_quaternion, self._grip_quaternion, out=views.lead_quaternion)

    def step(self, data: mujoco.MjData, action: NDArray[np.floating]) -> None:
        """One control period, after which positions and contacts in `data` belong to its qpos and qvel.

        Raises:
            SceneError: The simulation became unstable.
        """
        views = self._views_of(data)
        self._apply(views, action)
        mujoco.mj_step(self.model, data, self.substeps)
        mujoco.mj_fwdPosition(self.model, data)
        views.check_stable()

    def step_unseen(self, data: mujoco.MjData, action: NDArray[np.floating]) -> None:
        """`step` where nobody reads contacts: only what is observed belongs to qpos and qvel afterwards."""
        model, views = self.model, self._views_of(data)
        self._apply(views, action)
        mujoco.mj_step(model, data, self.substeps)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        views.check_stable()

    def observe(self, data: mujoco.MjData) -> Array:
        """Robot part of FetchPush's observation in B, (10,): FETCH_STATE_TERMS, velocities per control period."""
        return np.array(self.observe_all(data, ())[0])

    def observe_object(self, data: mujoco.MjData, body: int) -> Array:
        """Object part of FetchPush's observation in B, (15,): OBJECT_TERMS, for the body with this id."""
        return np.array(self.observe_all(data, (body,))[1][0])

    def observe_all(self, data: mujoco.MjData, bodies: Sequence[int]) -> tuple[list[float], list[list[float]]]:
        """Robot part, 10 numbers, and the object parts of the bodies with these ids, 15 numbers each.

        Floats of Python: for so few numbers arrays would take three times as long.
        """
        views, period = self._views_of(data), self.period_s
        speeds = self._speeds(views, bodies)
        gx, gy, gz = self._in_base(views.grip)
        u, v, w = self._per_period(*speeds[:3])
        (left, left_speed), (right, right_speed) = self._fingers
        qpos, qvel = views.qpos, views.qvel
        fingers = float(qvel[left_speed]) * period, float(qvel[right_speed]) * period
        state = [gx, gy, gz, float(qpos[left]), float(qpos[right]), u, v, w, *fingers]
        rows = []
        for index, body in enumerate(bodies, 1):
            x, y, z = self._in_base(views.positions[body])
            angles = euler_angles(self._matrix_in_base(views.matrices[body]))
            a, b, c, *spin = speeds[6 * index : 6 * index + 6]
            a, b, c = self._per_period(a, b, c)
            moving = (a - u, b - v, c - w, *self._per_period(*spin))
            rows.append([x, y, z, x - gx, y - gy, z - gz, *angles, *moving])
        return state, rows

    def grip(self, data: mujoco.MjData) -> Array:
        """The grip site in B, (3,), metres."""
        return np.array(self._in_base(data.site_xpos[self._grip]))

    def _views_of(self, data: mujoco.MjData) -> _Views:
        """Made anew only where the simulation is another one than before."""
        if self._views is None or self._views.data is not data:
            self._views = _Views(data, self._grip, self._hand, self._mocap)
        return self._views

    def _in_base(self, point: Array) -> Vector:
        """A point of the world, (3,), in B."""
        x, y, z = point.tolist()
        ox, oy, oz = self._origin
        x, y, c, s = x - ox, y - oy, self._cosine, self._sine
        return x * c + y * s, y * c - x * s, z - oz

    def _matrix_in_base(self, matrix: Array) -> list[float]:
        """A rotation matrix of the world, (9,) row by row, in B."""
        xx, xy, xz, yx, yy, yz, *last = matrix.tolist()
        c, s = self._cosine, self._sine
        first = [c * xx + s * yx, c * xy + s * yy, c * xz + s * yz]
        return [*first, c * yx - s * xx, c * yy - s * xy, c * yz - s * xz, *last]

    def _per_period(self, x: float, y: float, z: float) -> Vector:
        """A velocity of the world, per second, in B and per control period."""
        c, s, period = self._cosine, self._sine, self.period_s
        return (x * c + y * s) * period, (y * c - x * s) * period, z * period

    def _speeds(self, views: _Views, bodies: Sequence[int]) -> list[float]:
        """Linear and angular, of the grip and then of these bodies: 6 numbers each, in the world, per second."""
        count = 1 + len(bodies)
        if self._jacobians.count != count:
            self._jacobians = _Jacobians(self.model, count)
        model, data, jacobians = self.model, views.data, self._jacobians
        mujoco.mj_jacSite(model, data, *jacobians.grip, self._grip)
        for body, (linear, angular) in zip(bodies, jacobians.bodies, strict=True):
            mujoco.mj_jacBody(model, data, linear, angular, body)
        return jacobians.all.dot(views.qvel).tolist()

    def _travel_home(self) -> tuple[Array, Array, Array]:
        """Joint positions and velocities of the arm at home, and the mocap target there (world)."""
        data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, data)
        base = data.xpos[self._base].copy()
        target = data.site_xpos[self._grip] + self._rotation @ HOME_OFFSET_M
        self._lead(data, target, self._grip_quaternion)
        flags = self.model.opt.disableflags
        self.model.opt.disableflags = flags | int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
        try:
            mujoco.mj_step(self.model, data, nstep=HOME_PERIODS * self.substeps)
            mujoco.mj_forward(self.model, data)
        finally:
            self.model.opt.disableflags = flags
        _Views(data, self._grip, self._hand, self._mocap).check_stable()
        missed = np.linalg.norm(data.site_xpos[self._grip] - target - data.xpos[self._base] + base)
        if not missed < HOME_TOLERANCE_M:
            raise SceneError(
                "the arm does not reach its home pose under this scene's <option>; use the Euler integrator, "
                "a timestep of 0.002 and gravity along -z"
            )
        return data.qpos[self._qpos].copy(), data.qvel[self._qvel].copy(), target

    def _lead(self, data: mujoco.MjData, position: Array, quaternion: Array) -> None:
        data.mocap_pos[self._mocap], data.mocap_quat[self._mocap] = position, quaternion


class _Views:
    """What an arm reads and writes in a simulation's arrays: views, taken once; MuJoCo never moves them."""

    def __init__(self, data: mujoco.MjData, grip: int, hand: int, mocap: int) -> None:
        self.data = data
        self.qpos, self.qvel, self.ctrl = data.qpos, data.qvel, data.ctrl
        self.positions, self.matrices, self.grip = data.xpos, data.xmat, data.site_xpos[grip]
        self.hand_position, self.hand_quaternion = data.xpos[hand], data.xquat[hand]
        self.lead_position, self.lead_quaternion = data.mocap_pos[mocap], data.mocap_quat[mocap]
        self._given_up = data.warning.number[_GIVEN_UP]

    def check_stable(self) -> None:
        """Raises `SceneError` where MuJoCo had to give up the simulation (and, silently, started it again)."""
        if any(self._given_up.tolist()) or not math.isfinite(sum(self.qpos.tolist())):
            raise SceneError(
                "the simulation of the scene with its arm became unstable; use the Euler integrator and a timestep of "
                "0.002, and look for overlapping bodies, tiny masses and violent actuators"
            )


class _Jacobians:
    """Room for the linear and angular Jacobians of the grip and of bodies, and the views of it that MuJoCo fills."""

    def __init__(self, model: mujoco.MjModel, count: int) -> None:
        rows = np.zeros((count, 2, 3, model.nv))
        self.count, self.all = count, rows.reshape(-1, model.nv)
        self.grip, *self.bodies = [(linear, angular) for linear, angular in rows]


def euler_angles(matrix: Sequence[float]) -> tuple[float, float, float]:
    """XYZ Euler angles (rad) of a rotation matrix, given as its 9 numbers row by row.

    The formulas of `gymnasium_robotics.utils.rotations.mat2euler`, without arrays.
    """
    xx, xy, xz, yx, yy, yz, _, _, zz = matrix
    cosine = math.sqrt(zz * zz + yz * yz)
    middle = -math.atan2(-xz, cosine)
    if cosine > _POLE:
        return -math.atan2(yz, zz), middle, -math.atan2(xy, xx)
    return 0.0, middle, -math.atan2(-yx, yy)
