from __future__ import annotations

from dataclasses import replace

import pytest
from embodied_launch.bench.systems import all_systems, find_systems

from embodied.errors import UserError


def test_every_system_can_be_made() -> None:
    """Peers' settings are arguments of their classes; ours are words of a training."""
    from embodied_launch.keys import split_arguments
    from embodied_launch.verbs import train

    for system in all_systems().values():
        if system.ours:
            split_arguments(train.KEYS, system.words)
        else:
            assert {"batch_size", "gamma", "learning_starts"} <= system.settings.keys()
            assert system.algorithm in ("SAC", "TQC")
            assert system.hidden


def test_settings_of_a_task() -> None:
    zoo = find_systems(["sb3_tqc_her"])[0]
    assert zoo.on("fetch_push").settings["batch_size"] == 2048
    assert zoo.on("fetch_pick_place").settings == {**zoo.settings, "batch_size": 1024}


def test_the_near_miss_is_named() -> None:
    with pytest.raises(UserError, match="did you mean 'ours'"):
        find_systems(["our"])


def test_peers_take_their_settings() -> None:
    pytest.importorskip("sb3_contrib")
    from embodied_launch.bench.sb3_run import make_model

    from robots.goal_layout import goal_layout

    spec = goal_layout("fetch_reach").env_spec
    assert spec is not None
    for name in ("sb3_sac_her", "sb3_sac_her_small", "sb3_tqc_her"):
        system = find_systems([name])[0]
        model = make_model(replace(system, settings={**system.settings, "buffer_size": 1000}), spec, 3)
        assert model.batch_size == system.settings["batch_size"]
        assert model.seed == 3
        model.get_env().close()
