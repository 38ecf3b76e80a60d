"""The Fetch arm of Gymnasium-Robotics on any model that contains it: home pose, control and observation in frame B.

The numbers are those of `gymnasium_robotics.envs.fetch` (MujocoFetchEnv) with one difference: they are measured from
and given in frame B instead of the world, so that they are the same wherever the arm stands and whichever way it looks.
"""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.errors import SceneError
from embodied.types import BaseFrame
from robots.assembly import ArmScene, build_arm_scene
from robots.base import FETCH, RobotModel
from robots.placement import substeps

__all__ = ["CONTROL_PERIOD_S", "ArmScene", "FetchArm", "build_arm_scene", "check_stable", "mat2euler"]

Array = NDArray[np.float64]

CONTROL_PERIOD_S = 0.04
"""20 physics steps of 0.002 s in Gymnasium's Fetch."""
POSITION_SCALE_M = 0.05
"""`pos_ctrl *= 0.05` in MujocoFetchEnv._set_action."""
GRIP_QUATERNION = np.array([1.0, 0.0, 1.0, 0.0])
"""Fixed rotation of the end effector, as there; it is added to the gripper's quaternion and then normalised."""
HOME_OFFSET_M = np.array([-0.498, 0.005, -0.431 + 0.2])
"""From the grip site at joint zero to the mocap target, MujocoFetchEnv._env_setup with FetchReach's extra height."""
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
        self._grip = model.site(str(robot.grip_site)).id
        self._hand = model.body(f"{prefix}gripper_link").id
        self._base = model.body(robot.base_body).id
        self._mocap = int(model.body_mocapid[model.body(f"{prefix}mocap").id])
        joints = [j for j in range(model.njnt) if model.joint(j).name.startswith(prefix)]
        self._qpos, self._qvel = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
        self._finger_qpos, self._finger_qvel = self._qpos[-2:], self._qvel[-2:]
        self._actuators = [a for a in range(model.nu) if model.actuator(a).name.startswith(prefix)]
        self._home: tuple[Array, Array, Array] | None = None
        self._jacp, self._jacr = np.zeros((3, model.nv)), np.zeros((3, model.nv))

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
        self._lead(data, target, self._to_world_quat(GRIP_QUATERNION))
        mujoco.mj_forward(self.model, data)
        mujoco.mj_step(self.model, data, nstep=HOME_PERIODS * self.substeps)
        mujoco.mj_forward(self.model, data)

    def apply(self, data: mujoco.MjData, action: NDArray[np.floating]) -> None:
        """Sets the mocap target and the finger controls for the coming control period, as `MujocoFetchEnv` does.

        Args:
            action: (4,) within [-1, 1]: move of the grip in B in units of 0.05 m, and the fingers (+1 opens).
        """
        action = np.asarray(action, dtype=np.float64)
        for actuator in self._actuators:
            address = self.model.jnt_qposadr[self.model.actuator_trnid[actuator, 0]]
            data.ctrl[actuator] = data.qpos[address] + action[3]
        move = self._rotation @ (action[:3] * POSITION_SCALE_M)
        present = self._to_base_quat(data.xquat[self._hand])
        self._lead(data, data.xpos[self._hand] + move, self._to_world_quat(present + GRIP_QUATERNION))

    def step(self, data: mujoco.MjData, action: NDArray[np.floating]) -> None:
        """One control period, after which positions and contacts in `data` belong to its qpos and qvel."""
        self.apply(data, action)
        mujoco.mj_step(self.model, data, nstep=self.substeps)
        mujoco.mj_forward(self.model, data)

    def observe(self, data: mujoco.MjData) -> Array:
        """Robot part of FetchPush's observation in B, (10,): FETCH_STATE_TERMS, velocities per control period."""
        velocity, _ = self._grip_velocity(data)
        fingers = data.qpos[self._finger_qpos], data.qvel[self._finger_qvel] * self.period_s
        return np.concatenate([self.grip(data), fingers[0], velocity, fingers[1]])

    def observe_object(self, data: mujoco.MjData, body: int) -> Array:
        """Object part of FetchPush's observation in B, (15,): OBJECT_TERMS, for the body with this id."""
        grip_velocity, _ = self._grip_velocity(data)
        mujoco.mj_jacBody(self.model, data, self._jacp, self._jacr, body)
        position = self.frame.to_base(data.xpos[body])
        linear = self._rotation.T @ (self._jacp @ data.qvel) * self.period_s
        angular = self._rotation.T @ (self._jacr @ data.qvel) * self.period_s
        rotation = self._rotation.T @ data.xmat[body].reshape(3, 3)
        relative = position - self.grip(data)
        return np.concatenate([position, relative, mat2euler(rotation), linear - grip_velocity, angular])

    def grip(self, data: mujoco.MjData) -> Array:
        """The grip site in B, (3,), metres."""
        return self.frame.to_base(data.site_xpos[self._grip])

    def _grip_velocity(self, data: mujoco.MjData) -> tuple[Array, Array]:
        mujoco.mj_jacSite(self.model, data, self._jacp, self._jacr, self._grip)
        linear, angular = self._jacp @ data.qvel, self._jacr @ data.qvel
        return self._rotation.T @ linear * self.period_s, self._rotation.T @ angular * self.period_s

    def _travel_home(self) -> tuple[Array, Array, Array]:
        """Joint positions and velocities of the arm at home, and the mocap target there (world)."""
        data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, data)
        base = data.xpos[self._base].copy()
        target = data.site_xpos[self._grip] + self._rotation @ HOME_OFFSET_M
        self._lead(data, target, self._to_world_quat(GRIP_QUATERNION))
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

    def _to_world_quat(self, quaternion: Array) -> Array:
        return _multiplied(self.frame.quaternion, quaternion)

    def _to_base_quat(self, quaternion: Array) -> Array:
        return _multiplied(self.frame.quaternion * np.array([1.0, -1.0, -1.0, -1.0]), quaternion)


def check_stable(data: mujoco.MjData) -> None:
    """Raises `SceneError` where MuJoCo had to give up a simulation (and, silently, started it again)."""
    bad = (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)
    if any(data.warning[int(kind)].number for kind in bad) or not np.isfinite(data.qpos).all():
        raise SceneError(
            "the simulation of the scene with its arm became unstable; use the Euler integrator and a timestep of "
            "0.002, and look for overlapping bodies, tiny masses and violent actuators"
        )


def _multiplied(left: Array, right: Array) -> Array:
    result = np.zeros(4)
    mujoco.mju_mulQuat(result, left, np.asarray(right, dtype=np.float64))
    return result


def mat2euler(matrix: Array) -> Array:
    """XYZ Euler angles (rad) of a rotation matrix (3, 3), as `gymnasium_robotics.utils.rotations.mat2euler`."""
    m = matrix
    cy = np.sqrt(m[2, 2] * m[2, 2] + m[1, 2] * m[1, 2])
    if cy > 4.0 * np.finfo(np.float64).eps:
        return np.array([-np.arctan2(m[1, 2], m[2, 2]), -np.arctan2(-m[0, 2], cy), -np.arctan2(m[0, 1], m[0, 0])])
    return np.array([0.0, -np.arctan2(-m[0, 2], cy), -np.arctan2(-m[1, 0], m[1, 1])])
