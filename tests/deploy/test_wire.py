from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from embodied import wire
from embodied.spec import EnvSpec, Layout, Term
from embodied.types import Goal, Observation, Step

LAYOUT = Layout((Term("p", 2, "m"),), (Term("f", 3),), (Term("place", 2, "m"),), ("robot", "ball"))
SPEC = EnvSpec(
    "toy",
    "point",
    LAYOUT,
    (Term("push", 2, "N"),),
    (-1.0, -0.1),
    (1.0, 0.1),
    9,
    25.0,
    0.05,
    "any",
    None,
    "ball",
    ("push",),
)
OBSERVATION = Observation(
    np.array([1.5, -2.5], np.float32),
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.arange(4, dtype=np.float32).reshape(2, 2) / 3,
    LAYOUT,
)
GOAL = Goal("ball", np.array([0.1, np.nan], np.float32), np.array([True, False]))


Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    right.settimeout(2.0)
    with left, right:
        yield left, right


def test_the_spec_survives() -> None:
    assert wire.decode_spec(wire.encode_spec(SPEC)) == SPEC


def test_a_step_survives() -> None:
    step = Step(OBSERVATION, np.array([0.25, -0.5], np.float32), -0.1, False, True, True)
    state = wire.decode_state(wire.encode_state(OBSERVATION, GOAL, step, 2), SPEC)
    for name in ("state", "entities", "achieved"):
        assert np.array_equal(getattr(state.observation, name), getattr(OBSERVATION, name))
    assert state.observation.layout is LAYOUT
    assert state.goal.entity == "ball"
    assert np.array_equal(state.goal.value, GOAL.value, equal_nan=True)
    assert state.goal.mask.tolist() == [True, False]
    assert (state.reward, state.terminated, state.truncated, state.success) == (-0.1, False, True, True)
    assert state.action.tolist() == [0.25, -0.5]


def test_a_reset_is_a_state_without_flags() -> None:
    state = wire.decode_state(wire.encode_state(OBSERVATION, GOAL, None, 2), SPEC)
    assert (state.reward, state.terminated, state.truncated, state.success) == (0.0, False, False, False)


def test_seeds_and_actions() -> None:
    assert wire.decode_seed(wire.encode_seed(2**63 - 1)) == 2**63 - 1
    assert wire.decode_action(wire.encode_action(np.array([1.0, 0.5], np.float32)), 2).tolist() == [1.0, 0.5]
    with pytest.raises(wire.WireError, match="carries 3 numbers"):
        wire.decode_action(bytes(8), 3)
    with pytest.raises(wire.WireError, match="one seed of 8 bytes"):
        wire.decode_seed(bytes(4))


def test_messages_in_pieces(pair: Pair) -> None:
    left, right = pair
    payload = bytes(range(256)) * 40

    def trickle() -> None:
        whole = struct.pack("<4sHHI", b"EMBW", 1, wire.STATE, len(payload)) + payload
        for start in range(0, len(whole), 1000):
            left.sendall(whole[start : start + 1000])

    thread = threading.Thread(target=trickle)
    thread.start()
    assert wire.receive(right) == (wire.STATE, payload)
    thread.join()


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (struct.pack("<4sHHI", b"HTTP", 1, 4, 0), "does not speak version 1"),
        (struct.pack("<4sHHI", b"EMBW", 2, 4, 0), "does not speak version 1"),
        (struct.pack("<4sHHI", b"EMBW", 1, 4, 1 << 30), "at most 1048576 are taken"),
    ],
)
def test_foreign_headers(pair: Pair, header: bytes, words: str) -> None:
    left, right = pair
    left.sendall(header)
    with pytest.raises(wire.WireError, match=words):
        wire.receive(right)


def test_silence_and_departure(pair: Pair) -> None:
    left, right = pair
    right.settimeout(0.05)
    with pytest.raises(wire.WireError, match="did not answer in time"):
        wire.receive(right)
    left.close()
    with pytest.raises(wire.WireError, match="closed the connection"):
        wire.receive(right)


@pytest.mark.parametrize("cut", [1, 4])
def test_a_state_of_another_layout(cut: int) -> None:
    payload = wire.encode_state(OBSERVATION, GOAL, None, 2)
    with pytest.raises(wire.WireError, match="does not fit the task's layout"):
        wire.decode_state(payload[:-cut], SPEC)


def test_a_state_about_an_entity_that_is_not_there() -> None:
    payload = bytearray(wire.encode_state(OBSERVATION, GOAL, None, 2))
    payload[9:13] = struct.pack("<I", 2)
    with pytest.raises(wire.WireError, match="entity 2, there are 2"):
        wire.decode_state(bytes(payload), SPEC)


def test_a_layout_that_is_none() -> None:
    with pytest.raises(wire.WireError, match="cannot be read"):
        wire.decode_spec(b'{"task": "x"}')
