"""Robots, tasks, scenes and cameras in MuJoCo."""

import os

from embodied.errors import UserError

GL_BACKENDS = ("egl", "osmesa", "glfw", "cgl")
"""What `MUJOCO_GL` may name, beside words for on and off."""
_SWITCHES = ("", "enable", "enabled", "on", "true", "1", "disable", "disabled", "off", "false", "0", "wgl")

# MuJoCo's own import fails on any other value, with a traceback.
if os.environ.get("MUJOCO_GL", "").strip().lower() not in (*GL_BACKENDS, *_SWITCHES):
    raise UserError(
        f"MUJOCO_GL={os.environ['MUJOCO_GL']} is not known: unset it, or set it to one of {', '.join(GL_BACKENDS)}"
    )
