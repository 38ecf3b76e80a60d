"""A world made of looks: nothing of the simulator's things gets through."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from embodied.facts import holds
from embodied.hierarchy.perceived import EVERY, GRASP_STEPS, REST_B_M, PerceivedEnv
from embodied.spec import Layout, Term
from embodied.types import BaseFrame, Goal, Observation, Predicate, Step

HALF = 0.025
STATE = (Term("grip_pos", 3, "m"), Term("gripper_state", 2, "m", "joint"), Term("grip_velp", 3, "m/step"),
         Term("gripper_vel", 2, "m/step", "joint"))  # fmt: skip
ENTITY = (Term("object_pos", 3, "m"), Term("object_rel_pos", 3, "m"), Term("object_rot", 3), Term("object_velp", 3),
          Term("object_velr", 3), Term("is_gripper", 1))  # fmt: skip


@dataclass
class Thing:
    """A track."""

    id: str
    role: str
    position_m: Any
    half_extents_m: Any = (HALF, HALF, HALF)
    kind: str = "block"
    colour: str = "red"
    confidence: float = 0.9
    gone: bool = False


class Tracks:
    def __init__(self, *tracks: Thing) -> None:
        self.tracks = list(tracks)


class Arm:
    """Moves its gripper as told and shows one thing that is somewhere else than the cameras say."""

    reward = None

    def __init__(self, spec: Any) -> None:
        layout = Layout(STATE, ENTITY, (Term("position", 3, "m"),), ("gripper", "secret"))
        self.spec = replace(spec, layout=layout)
        self.goal = Goal("gripper", np.zeros(3), np.ones(3, dtype=bool))
        self.grip, self.opening = np.array([1.3, 0.7, 0.5]), 0.04

    def reset(self, seed: int) -> Observation:
        del seed
        return self.observe()

    def observe(self) -> Observation:
        state = np.array([*self.grip, self.opening, self.opening, 0.01, 0, 0, 0, 0], np.float32)
        return Observation(state, np.full((2, 16), 9, np.float32), np.full((2, 3), 9, np.float32), self.spec.layout)

    def step(self, action: np.ndarray) -> Step:
        self.grip = self.grip + 0.05 * np.clip(action[:3], -1, 1)
        return Step(self.observe(), action, 0.0, False, False, False)

    def close(self) -> None: ...


@pytest.fixture
def arm(world: Any) -> Arm:
    return Arm(world.spec)


@pytest.fixture
def seen(arm: Arm) -> PerceivedEnv:
    tracks = Tracks(
        Thing("red_block", "object", np.array([1.3, 0.7, 0.425])),
        Thing("blue_block", "object", np.array([1.3, 0.7, 0.475])),
        Thing("tray", "zone", np.array([1.2, 0.9, 0.401]), (0.07, 0.07, 0.002), "tray"),
        Thing("table", "landmark", np.array([1.3, 0.75, 0.4]), (0.3, 0.3, 0.0), "table"),
    )
    looks: list[frozenset[str]] = []
    made = PerceivedEnv(arm, BaseFrame(), lambda: tracks, lambda tracks, hidden: looks.append(hidden))
    made.asked = looks  # type: ignore[attr-defined]
    made.reset(0)
    return made


def test_the_arm_withdraws_before_the_first_look(seen: PerceivedEnv, arm: Arm) -> None:
    assert np.linalg.norm(arm.grip - REST_B_M) < 0.05


def test_things_are_those_that_were_seen(seen: PerceivedEnv) -> None:
    observation = seen.step(np.zeros(4, np.float32)).observation
    assert observation.layout.entities == seen.spec.layout.entities == ("gripper", "red_block", "blue_block")
    np.testing.assert_allclose(observation.achieved[1], (1.3, 0.7, 0.425), atol=1e-6)
    assert not (observation.entities == 9).any(), "rows of the simulator"
    np.testing.assert_allclose(observation.entities[1, 9:12], (-0.01, 0, 0), atol=1e-6)
    state = seen.scene_state()
    assert {e.id for e in state.entities} == {"red_block", "blue_block", "tray", "table"}
    true = [Predicate("on", ("blue_block", "red_block")), Predicate("on", ("red_block", "table"))]
    assert all(holds(fact, state) for fact in true)
    assert not holds(Predicate("in", ("red_block", "tray")), state)


def test_there_is_a_look_every_few_steps(seen: PerceivedEnv) -> None:
    for _ in range(3 * EVERY):
        seen.step(np.zeros(4, np.float32))
    assert seen.asked == [frozenset()] * 3  # type: ignore[attr-defined]


def grasp(seen: PerceivedEnv, arm: Arm, opening: float) -> None:
    arm.grip, arm.opening = np.array([1.3, 0.7, 0.478]), opening
    for _ in range(GRASP_STEPS):
        seen.step(np.array([0, 0, 0, -0.015], np.float32))


def test_what_the_fingers_closed_round_goes_with_them_until_they_open(seen: PerceivedEnv, arm: Arm) -> None:
    grasp(seen, arm, 0.024)
    assert holds(Predicate("holding", ("blue_block",)), seen.scene_state())
    seen.step(np.array([0, 1, 1, -0.015], np.float32))
    np.testing.assert_allclose(seen.scene_state().entity("blue_block").position_m, (1.3, 0.75, 0.525), atol=1e-6)
    seen.look()
    assert seen.asked[-1] == {"blue_block", "red_block"}, "what is held, and what is hidden under it"  # type: ignore[attr-defined]
    arm.opening = 0.035
    seen.step(np.array([0, 0, 1, 0.02], np.float32))
    assert not holds(Predicate("holding", ("blue_block",)), seen.scene_state())
    assert seen.scene_state().entity("blue_block").position_m[2] == pytest.approx(0.525), (
        "and stays where it was let go"
    )


def test_fingers_that_closed_on_nothing_hold_nothing(seen: PerceivedEnv, arm: Arm) -> None:
    grasp(seen, arm, 0.003)
    assert not any("left_finger" in pair for pair in seen.scene_state().contacts)
    grasp(seen, arm, 0.024)
    arm.opening = 0.003
    seen.step(np.array([0, 0, 0, -0.015], np.float32))
    assert not any("left_finger" in pair for pair in seen.scene_state().contacts), "it slipped out"


def test_what_slipped_is_taken_to_lie_below_and_is_looked_for_beside_the_hand(seen: PerceivedEnv, arm: Arm) -> None:
    grasp(seen, arm, 0.024)
    before = len(seen.asked)  # type: ignore[attr-defined]
    arm.opening = 0.003
    seen.step(np.array([0, 0, 0, -0.015], np.float32))
    assert len(seen.asked) == before + 1, "it is looked for at once"  # type: ignore[attr-defined]
    assert "blue_block" not in seen.asked[-1], "near to the hand, and yet not hidden by it"  # type: ignore[attr-defined]
    np.testing.assert_allclose(seen.scene_state().entity("blue_block").position_m, (1.3, 0.7, 0.4 + HALF), atol=1e-6)


def test_what_slipped_and_is_seen_again_is_hidden_by_the_hand_as_before(seen: PerceivedEnv, arm: Arm) -> None:
    grasp(seen, arm, 0.024)
    arm.opening = 0.003
    seen.step(np.array([0, 0, 0, -0.015], np.float32))
    lost = next(track for track in seen.tracks.tracks if track.id == "blue_block")

    def find(tracks: Tracks, hidden: frozenset[str]) -> None:
        del tracks
        assert "blue_block" not in hidden
        lost.position_m = np.array([1.36, 0.7, 0.425])

    seen._update = find  # type: ignore[assignment]
    seen.look()
    np.testing.assert_allclose(seen.scene_state().entity("blue_block").position_m, (1.36, 0.7, 0.425), atol=1e-6)
    asked: list[frozenset[str]] = []
    seen._update = lambda tracks, hidden: asked.append(hidden)  # type: ignore[assignment]
    seen.look()
    assert "blue_block" in asked[0]


def test_the_simulator_behind_it_is_out_of_reach(arm: Arm, seen: PerceivedEnv) -> None:
    arm.model = "what the simulator knows"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        _ = seen.model  # type: ignore[attr-defined]
