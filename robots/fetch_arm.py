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

__all__ = ["CONTROL_PERIOD_S", "ArmScene", "FetchArm", "build_arm_scene", "check_stable", "euler_angles"]

Array = NDArray[np.float64]

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
        self._rotation, self._origin = frame.rotation, np.array(frame.origin_m)
        self._grip = model.site(str(robot.grip_site)).id
        self._hand = model.body(f"{prefix}gripper_link").id
        self._base = model.body(robot.base_body).id
        self._mocap = int(model.body_mocapid[model.body(f"{prefix}mocap").id])
        joints = [j for j in range(model.njnt) if model.joint(j).name.startswith(prefix)]
        self._qpos, self._qvel = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
        self._finger_qpos, self._finger_qvel = self._qpos[-2:], self._qvel[-2:]
        actuators = [a for a in range(model.nu) if model.actuator(a).name.startswith(prefix)]
        self._actuators = np.array(actuators, dtype=np.intp)
        self._grip_quaternion = np.zeros(4)
        mujoco.mju_mulQuat(self._grip_quaternion, frame.quaternion, GRIP_QUATERNION)
        self._home: tuple[Array, Array, Array] | None = None
        self._driven = model.jnt_qposadr[model.actuator_trnid[self._actuators, 0]]
        self._jacobians = np.zeros((0, 2, 3, model.nv))

    def home(self, data: mujoco.MjData) -> None:
        """Brings a freshly reset simulation to the arm's home pose, and lets the objects settle.

        The arm's way from its joints' zero pose to the home pose is Gymnasium's (10 control periods behind the mocap
        target), but travelled beside the scene with contacts off, so that it sweeps nothing off the table; the scene
        then runs for the same 10 periods with the arm held at home.

        Raises:
            SceneError: The arm does not get there: the scene's options do not suit it.
        """
        if self._home is None:
            self._home = self._travel_home()
        qpos, qvel, target = self._home
        data.qpos[self._qpos], data.qvel[self._qvel] = qpos, qvel
        self._lead(data, target, self._grip_quaternion)
        mujoco.mj_forward(self.model, data)
        mujoco.mj_step(self.model, data, nstep=HOME_PERIODS * self.substeps)
        mujoco.mj_forward(self.model, data)

    def apply(self, data: mujoco.MjData, action: NDArray[np.floating]) -> None:
        """Sets the mocap target and the finger controls for the coming control period, as `MujocoFetchEnv` does.

        Args:
            action: (4,) within [-1, 1]: move of the grip in B in units of 0.05 m, and the fingers (+1 opens).
        """
        if len(self._actuators):
            data.ctrl[self._actuators] = data.qpos[self._driven] + float(action[3])
        move = self._rotation.dot(action[:3] * POSITION_SCALE_M)
        self._lead(data, data.xpos[self._hand] + move, data.xquat[self._hand] + self._grip_quaternion)

    def step(self, data: mujoco.MjData, action: NDArray[np.floating]) -> None:
        """One control period, after which positions and contacts in `data` belong to its qpos and qvel."""
        self.apply(data, action)
        mujoco.mj_step(self.model, data, self.substeps)
        mujoco.mj_fwdPosition(self.model, data)

    def observe(self, data: mujoco.MjData) -> Array:
        """Robot part of FetchPush's observation in B, (10,): FETCH_STATE_TERMS, velocities per control period."""
        return self.observe_all(data, np.zeros(0, dtype=np.intp))[0]

    def observe_object(self, data: mujoco.MjData, body: int) -> Array:
        """Object part of FetchPush's observation in B, (15,): OBJECT_TERMS, for the body with this id."""
        return self.observe_all(data, np.array([body]))[1][0]

    def observe_all(self, data: mujoco.MjData, bodies: NDArray[np.intp]) -> tuple[Array, Array]:
        """Robot part, (10,), and the object parts of the bodies with these ids, (N, 15)."""
        velocities = self._velocities(data, bodies)
        grip, grip_velocity = self.grip(data), velocities[0, 0]
        fingers = data.qpos[self._finger_qpos], data.qvel[self._finger_qvel] * self.period_s
        state = np.concatenate((grip, fingers[0], grip_velocity, fingers[1]))
        rows = np.empty((len(bodies), 15))
        rows[:, :3] = (data.xpos[bodies] - self._origin).dot(self._rotation)
        rows[:, 3:6] = rows[:, :3] - grip
        matrices = self._rotation.T @ data.xmat[bodies].reshape(-1, 3, 3)
        for row, matrix in zip(rows, matrices.reshape(-1, 9).tolist(), strict=True):
            row[6:9] = euler_angles(matrix)
        rows[:, 9:12] = velocities[1:, 0] - grip_velocity
        rows[:, 12:] = velocities[1:, 1]
        return state, rows

    def grip(self, data: mujoco.MjData) -> Array:
        """The grip site in B, (3,), metres."""
        return (data.site_xpos[self._grip] - self._origin).dot(self._rotation)

    def _velocities(self, data: mujoco.MjData, bodies: NDArray[np.intp]) -> Array:
        """(1 + N, 2, 3): linear and angular, of the grip and these bodies, in B, per control period."""
        count = 1 + len(bodies)
        if len(self._jacobians) < count:
            self._jacobians = np.zeros((count, 2, 3, self.model.nv))
        jacobians = self._jacobians[:count]
        mujoco.mj_jacSite(self.model, data, jacobians[0, 0], jacobians[0, 1], self._grip)
        for jacobian, body in zip(jacobians[1:], bodies.tolist(), strict=True):
            mujoco.mj_jacBody(self.model, data, jacobian[0], jacobian[1], body)
        world = jacobians.reshape(-1, self.model.nv).dot(data.qvel).reshape(-1, 3)
        return (world.dot(self._rotation) * self.period_s).reshape(-1, 2, 3)

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
        check_stable(data)
        missed = np.linalg.norm(data.site_xpos[self._grip] - target - data.xpos[self._base] + base)
        if not missed < HOME_TOLERANCE_M:
            raise SceneError(
                "the arm does not reach its home pose under this scene's <option>; use the Euler integrator, "
                "a timestep of 0.002 and gravity along -z"
            )
        return data.qpos[self._qpos].copy(), data.qvel[self._qvel].copy(), target

    def _lead(self, data: mujoco.MjData, position: Array, quaternion: Array) -> None:
        data.mocap_pos[self._mocap], data.mocap_quat[self._mocap] = position, quaternion


def check_stable(data: mujoco.MjData) -> None:
    """Raises `SceneError` where MuJoCo had to give up a simulation (and, silently, started it again)."""
    if sum(data.warning.number[_GIVEN_UP].tolist()) or not math.isfinite(sum(data.qpos.tolist())):
        raise SceneError(
            "the simulation of the scene with its arm became unstable; use the Euler integrator and a timestep of "
            "0.002, and look for overlapping bodies, tiny masses and violent actuators"
        )


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
