"""robomimic's layout: one HDF5 file with a group `data/demo_<i>` for each episode.

https://robomimic.github.io/docs/datasets/overview.html ; as robomimic 0.3 reads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embodied.errors import UserError
from embodied.learning.datasets.columns import Arrays, Columns, GoalLayout

_GOALS = ("observation", "achieved_goal", "desired_goal")
_NUMBERED = re.compile(r"demo_(\d+)")
_GYM_TYPE = 2
"""`robomimic.envs.env_base.EnvType.GYM_TYPE`."""


class RobomimicLayout:
    """Observations before and after each action in two groups, `obs` and `next_obs`, and one flag, `dones`."""

    name = "robomimic"
    looks_like = "a group data with demo_0, ... with obs and actions"
    needed: tuple[str, ...] = (*(f"obs/{key}" for key in _GOALS), "actions", "rewards")
    optional: tuple[str, ...] = (*(f"next_obs/{key}" for key in _GOALS), "dones")
    empty_groups: tuple[str, ...] = ()

    def file_of(self, path: Path) -> Path:
        """`path` is the file; where it is a folder, `demonstrations.hdf5` in it."""
        return path / "demonstrations.hdf5" if path.is_dir() else path

    def check_name(self, path: Path) -> None:
        if path.suffix not in (".hdf5", ".h5"):
            raise UserError(f"{path}: robomimic's layout is a file: give it a name that ends in .hdf5")

    def begin(self, file: Any, goals: GoalLayout) -> None:
        group = file.create_group("data")
        options = json.loads(goals.env_spec).get("kwargs", {}) if goals.env_spec else {}
        told = {"env_name": goals.env_id or goals.spec.task, "type": _GYM_TYPE, "env_kwargs": options}
        group.attrs["env_args"] = json.dumps(told)
        group.attrs["total"] = 0

    def group_of(self, number: int) -> str:
        return f"data/demo_{number}"

    def numbers(self, file: Any) -> list[int] | None:
        if "data" not in file:
            return None
        return sorted(int(match[1]) for name in file["data"] if (match := _NUMBERED.fullmatch(name)))

    def arrays(self, columns: Columns) -> Arrays:
        kept = {f"obs/{key}": value[:-1] for key, value in columns.goals.items()}
        kept |= {f"next_obs/{key}": value[1:] for key, value in columns.goals.items()}
        last = np.arange(len(columns.action)) == len(columns.action) - 1
        return kept | {"actions": columns.action, "rewards": columns.reward, "dones": last.astype("<i8")}

    def columns(self, arrays: Mapping[str, Any]) -> Columns:
        """Without `next_obs` the last observation is not known, and the last action is left out."""
        steps = len(arrays["actions"])
        if steps == 0 or {len(array) for array in arrays.values()} != {steps}:
            raise ValueError(f"rows do not fit {steps} actions")
        goals, followed = {}, all(f"next_obs/{key}" in arrays for key in _GOALS)
        for key in _GOALS:
            before = arrays[f"obs/{key}"]
            if followed:
                after = arrays[f"next_obs/{key}"]
                if not np.array_equal(before[1:], after[:-1]):
                    raise ValueError(f"next_obs/{key} is not what obs/{key} goes on with")
                before = np.concatenate([before, after[-1:]])
            goals[key] = before
        kept = steps if followed else steps - 1
        if kept == 0:
            raise ValueError("one action without next_obs is no step")
        action, reward = arrays["actions"][:kept], arrays["rewards"][:kept]
        return Columns(**goals, action=action, reward=reward, terminated=None, truncated=None)

    def attributes(self, number: int, steps: int, seed: int | None) -> dict[str, Any]:
        del number
        return {"num_samples": steps} | ({} if seed is None else {"seed": seed})

    def write_totals(self, file: Any, totals: tuple[int, int]) -> None:
        """`total`: steps of all episodes."""
        file["data"].attrs["total"] = totals[1]

    def write_beside(self, path: Path, totals: tuple[int, int], goals: GoalLayout) -> None:
        """Nothing: the file says it all."""
        del path, totals, goals

    def beside(self, path: Path) -> tuple[Path, ...]:
        del path
        return ()

    def promised(self, path: Path) -> int:
        del path
        return 0

    def env_id(self, file: Any, path: Path) -> str | None:
        """From the attribute `env_args`."""
        del path
        try:
            return str(json.loads(file["data"].attrs["env_args"])["env_name"])
        except (ValueError, KeyError, TypeError):
            return None
