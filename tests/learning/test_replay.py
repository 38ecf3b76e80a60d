from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest

from embodied.errors import UserError
from embodied.learning.replay import EpisodeReplay
from embodied.spec import EnvSpec
from embodied.types import Episode

Make = Callable[..., Episode]


def _numbers(replay: EpisodeReplay) -> list[int]:
    return [int(episode.state[0, 0]) for episode in replay]


def _same(one: Episode, other: Episode) -> bool:
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(Episode))


def test_what_goes_in_comes_out(spec: EnvSpec, make_episode: Make) -> None:
    replay = EpisodeReplay(spec, 100)
    episodes = [make_episode(1, 8), make_episode(2, 1), make_episode(3, 5)]
    for episode in episodes:
        replay.add(episode)
    assert len(replay) == 14
    assert all(_same(kept, episode) for kept, episode in zip(replay, episodes, strict=True))


def test_wrapping_forgets_the_oldest_whole_episodes(spec: EnvSpec, make_episode: Make) -> None:
    replay = EpisodeReplay(spec, 20)
    for number, length in enumerate([8, 8, 4]):
        replay.add(make_episode(number, length))
    # 9 + 9 rows are taken, 5 more do not fit before row 20: episode 2 starts at row 0 and pushes out episode 0.
    assert _numbers(replay) == [1, 2]
    replay.add(make_episode(3, 2))
    assert _numbers(replay) == [1, 2, 3]
    replay.add(make_episode(4, 3))
    assert _numbers(replay) == [2, 3, 4]


def test_any_mixture_of_lengths_keeps_whole_recent_episodes(spec: EnvSpec, make_episode: Make) -> None:
    rng, replay = np.random.default_rng(0), EpisodeReplay(spec, 37)
    added = []
    for number in range(300):
        added.append(make_episode(number, int(rng.integers(1, 9))))
        replay.add(added[-1])
        kept = list(replay)
        assert len(kept) >= 2 or number == 0
        assert all(_same(one, other) for one, other in zip(kept, added[-len(kept) :], strict=True))
        assert len(replay) == sum(len(episode) for episode in kept)


def test_draws_are_uniform_over_transitions_and_never_leave_the_episode(spec: EnvSpec, make_episode: Make) -> None:
    replay = EpisodeReplay(spec, 30)
    for number, length in enumerate([8, 8, 8, 1, 3]):
        replay.add(make_episode(number, length))
    alive = {(int(e.state[0, 0]), t) for e in replay for t in range(len(e))}
    rows, last = replay.draw(20_000, np.random.default_rng(0))
    state = replay.rows["state"]
    assert (state[rows, 0] == state[last, 0]).all()
    assert (rows < last).all()
    lengths = {int(e.state[0, 0]): len(e) for e in replay}
    assert all(state[end, 1] == lengths[int(state[end, 0])] for end in last)
    seen, counts = np.unique(state[rows].astype(int), axis=0, return_counts=True)
    assert {(int(a), int(b)) for a, b in seen} == alive
    expected = 20_000 / len(alive)
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_several_environments_adding_in_turn_do_not_mix(spec: EnvSpec, make_episode: Make) -> None:
    replay = EpisodeReplay(spec, 200)
    for number in range(12):
        replay.add(make_episode(number % 3 * 100 + number, 3 + number % 3))
    for episode in replay:
        assert len(set(episode.state[:, 0])) == 1
        assert episode.state[:, 1].tolist() == list(range(len(episode) + 1))


def test_empty_and_too_small_replays_say_so(spec: EnvSpec, make_episode: Make) -> None:
    with pytest.raises(UserError, match="no episode was finished"):
        EpisodeReplay(spec, 50).draw(4, np.random.default_rng(0))
    with pytest.raises(UserError, match="one episode takes 9 rows"):
        EpisodeReplay(spec, 8)
    with pytest.raises(UserError, match="does not fit"):
        EpisodeReplay(spec, 9).add(make_episode(0, 9))


def test_a_refilled_replay_goes_on_alike(spec: EnvSpec, make_episode: Make) -> None:
    replay, twin = EpisodeReplay(spec, 30), EpisodeReplay(spec, 30)
    added = [make_episode(number, 4 + number % 3) for number in range(7)]
    for episode in added:
        replay.add(episode)
    read: list[int] = []

    def from_disk(index: int) -> Episode:
        read.append(index)
        return added[index]

    twin.refill([len(episode) for episode in added], from_disk)
    assert read == list(range(7 - len(read), 7))
    assert len(read) < 7
    for number in range(7, 12):
        for one in (replay, twin):
            one.add(make_episode(number, 5))
        assert all(_same(a, b) for a, b in zip(replay, twin, strict=True))
    assert np.array_equal(replay.draw(50, np.random.default_rng(1))[0], twin.draw(50, np.random.default_rng(1))[0])


def test_what_does_not_fit_in_memory_is_refused_at_once(spec: EnvSpec) -> None:
    with pytest.raises(UserError, match=r"replay.capacity=1000000000000 needs .* GiB .* at most replay.capacity=\d+$"):
        EpisodeReplay(spec, 10**12)
