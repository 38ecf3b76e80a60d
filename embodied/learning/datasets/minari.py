"""Minari's layout: a folder with `data/main_data.hdf5` and `data/metadata.json`.

https://minari.farama.org/content/dataset_standards/ ; as Minari 0.5.4 writes and reads it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embodied.errors import UserError
from embodied.learning.datasets.columns import Arrays, Columns, GoalLayout

_FILE = "main_data.hdf5"
_METADATA = "metadata.json"
_VERSION = "0.5.0"
"""The oldest Minari whose layout this is: it and every later one read it."""
_GOALS = ("observation", "achieved_goal", "desired_goal")
_NUMBERED = re.compile(r"episode_(\d+)")


class MinariLayout:
    """A group `episode_<i>` for each episode: observations with one row more than the actions, three flags apart."""

    name = "minari"
    looks_like = "groups episode_0, ... with observations and actions"
    needed: tuple[str, ...] = (
        *(f"observations/{key}" for key in _GOALS),
        "actions",
        "rewards",
        "terminations",
        "truncations",
    )
    optional: tuple[str, ...] = ()
    empty_groups: tuple[str, ...] = ("infos",)

    def file_of(self, path: Path) -> Path:
        """`path` is the data set's folder, its `data` folder, or the file itself."""
        if path.is_file():
            return path
        return path / _FILE if path.name == "data" or (path / _FILE).is_file() else path / "data" / _FILE

    def check_name(self, path: Path) -> None:
        if path.suffix in (".hdf5", ".h5"):
            raise UserError(f"{path}: Minari's layout is a folder: leave out {path.suffix}, or choose layout=robomimic")

    def begin(self, file: Any, goals: GoalLayout) -> None:
        """Nothing: an episode's group stands at the top."""
        del file, goals

    def group_of(self, number: int) -> str:
        return f"episode_{number}"

    def numbers(self, file: Any) -> list[int] | None:
        found = [match for name in file if (match := _NUMBERED.fullmatch(name))]
        return sorted(int(match[1]) for match in found) if found else None

    def arrays(self, columns: Columns) -> Arrays:
        flags = {"terminations": columns.terminated, "truncations": columns.truncated}
        kept = {f"observations/{key}": value for key, value in columns.goals.items()}
        kept |= {"actions": columns.action, "rewards": columns.reward}
        return kept | {path: np.asarray(flag, dtype=bool) for path, flag in flags.items()}

    def columns(self, arrays: Mapping[str, Any]) -> Columns:
        steps = len(arrays["actions"])
        rows = {path: len(array) - path.startswith("observations/") for path, array in arrays.items()}
        if steps == 0 or set(rows.values()) != {steps}:
            raise ValueError(f"rows do not fit {steps} actions")
        flags = {key: np.asarray(arrays[key], dtype=bool) for key in ("terminations", "truncations")}
        return Columns(
            observation=arrays["observations/observation"],
            achieved_goal=arrays["observations/achieved_goal"],
            desired_goal=arrays["observations/desired_goal"],
            action=arrays["actions"],
            reward=arrays["rewards"],
            terminated=flags["terminations"],
            truncated=flags["truncations"],
        )

    def attributes(self, number: int, steps: int, seed: int | None) -> dict[str, Any]:
        return {"id": number, "total_steps": steps} | ({} if seed is None else {"seed": seed})

    def write_totals(self, file: Any, totals: tuple[int, int]) -> None:
        """Nothing: the totals stand beside the file."""
        del file, totals

    def write_beside(self, path: Path, totals: tuple[int, int], goals: GoalLayout) -> None:
        """`metadata.json`, whole or not at all."""
        episodes, steps = totals
        spaces = {key: dict(space) for key, space in goals.observation_space.items()}
        content = {
            "total_episodes": episodes,
            "total_steps": steps,
            "data_format": "hdf5",
            "jpeg_encoding": False,
            "observation_space": json.dumps({"type": "Dict", "subspaces": spaces}),
            "action_space": json.dumps(dict(goals.action_space)),
            "dataset_id": dataset_id(path),
            "dataset_size": round(path.stat().st_size / 1e6, 1),
            "minari_version": _VERSION,
            "description": f"Episodes of the task {goals.spec.task}, recorded by embodied-control.",
        }
        content |= {} if goals.env_spec is None else {"env_spec": goals.env_spec}
        temporary = path.with_name(f".{_METADATA}.new")
        try:
            temporary.write_text(json.dumps(content), encoding="utf-8")
            os.replace(temporary, path.with_name(_METADATA))
        finally:
            temporary.unlink(missing_ok=True)

    def beside(self, path: Path) -> tuple[Path, ...]:
        return (path.with_name(_METADATA),)

    def promised(self, path: Path) -> int:
        try:
            return int(json.loads(path.with_name(_METADATA).read_text(encoding="utf-8"))["total_episodes"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def env_id(self, file: Any, path: Path) -> str | None:
        """From `metadata.json`, or from the file's attributes, where Minari before 0.5 kept it."""
        try:
            text = json.loads(path.with_name(_METADATA).read_text(encoding="utf-8"))["env_spec"]
        except (OSError, ValueError, KeyError, TypeError):
            text = file.attrs.get("env_spec")
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError):
            return None


def dataset_id(path: Path) -> str:
    """Minari's name for the data set: its folder's, with a version where that has none."""
    folder = path.parent.parent if path.parent.name == "data" else path.parent
    plain = re.sub(r"[^-\w]+", "-", folder.absolute().name, flags=re.ASCII).strip("-") or "recorded"
    return plain if re.search(r"-v\d+$", plain) else f"{plain}-v0"
