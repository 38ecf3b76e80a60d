"""What a training's settings are composed from: deltas that build on another one, and the user's words."""

from __future__ import annotations

import subprocess
import sys

import pytest
from embodied_launch.cli import help_page
from embodied_launch.compose import hydra_config
from embodied_launch.verbs.train import KEYS

from embodied.learning.sac import SacConfig


@pytest.mark.parametrize(("task", "other"), [("tabletop", "fetch_pick_place"), ("point_medium", "point_umaze")])
def test_a_delta_that_names_another_has_its_settings(task: str, other: str) -> None:
    made, named = (hydra_config(KEYS, [f"task={name}"], ("task", "preset")) for name in (task, other))
    assert (made.loop, made.sac, made.replay, made.relay) == (named.loop, named.sac, named.replay, named.relay)
    assert made.sac != SacConfig()
    assert made.task == task


def test_a_users_word_beats_the_delta_that_is_named_by_another() -> None:
    made = hydra_config(KEYS, ["task=tabletop", "sac.gamma=0.5"], ("task", "preset"))
    assert made.sac.gamma == 0.5
    assert made.sac != SacConfig(gamma=0.5)


def shown(page: str, key: str) -> str:
    return next(line for line in page.splitlines() if line.strip().startswith(f"{key}="))


def test_help_shows_what_a_task_and_a_preset_set() -> None:
    bare, push = help_page("train", []), help_page("train", ["task=fetch_push"])
    assert "0.95" in shown(bare, "sac.gamma")
    assert "task=<task> --help" in bare
    assert "0.98" in shown(push, "sac.gamma")
    assert "The defaults are those of task=fetch_push." in push
    assert "200000" in shown(push, "total_steps")
    debug = help_page("train", ["task=fetch_push", "preset=debug", "sac.gamma=0.5"])
    assert " 600 " in shown(debug, "total_steps")
    assert "(16, 16)" in shown(debug, "sac.hidden")
    assert "0.5" in shown(debug, "sac.gamma")
    assert "0.98" in shown(help_page("ablate", ["task=fetch_push"]), "sac.gamma")


HEAVY = ("torch", "mujoco", "hydra")


@pytest.mark.parametrize("words", [["evaluate", "run=zoo:nothing"], ["train", "init_from=zoo:nothing"]])
def test_an_unknown_controller_is_refused_before_anything_heavy_is_loaded(words: list[str]) -> None:
    code = (
        "import sys; from embodied_launch.cli import main; "
        f"assert main({words!r}) == 2; print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout.strip() == "[]", ended
    assert "unknown zoo controller 'nothing'" in ended.stderr
