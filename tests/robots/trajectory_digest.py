"""Prints a hash of every number of a fixed trajectory of each task named on the command line."""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np

from embodied.protocols import Env
from robots.registry import make_env

STEPS = 40


def digest(env: Env, seed: int) -> str:
    """SHA-256 over observations, goal, executed actions, rewards and flags, bit for bit."""
    rng = np.random.default_rng(seed)
    observation = env.reset(seed)
    sha = hashlib.sha256(env.goal.value.tobytes())
    for _ in range(STEPS):
        for array in (observation.state, observation.entities, observation.achieved):
            sha.update(array.tobytes())
        step = env.step(rng.uniform(-1.2, 1.2, env.spec.action_width).astype(np.float32))
        observation = step.observation
        sha.update(step.action.tobytes())
        sha.update(np.array([step.reward, step.terminated, step.truncated, step.success], dtype=np.float64).tobytes())
    return sha.hexdigest()


if __name__ == "__main__":
    print(json.dumps({task: digest(make_env(task), 11) for task in sys.argv[1:]}))
