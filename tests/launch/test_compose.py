"""What a training's settings are composed from: deltas that build on another one, and the user's words."""

from __future__ import annotations

import pytest
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
