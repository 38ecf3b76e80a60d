"""A world as its cameras show it: one that can be acted in, and the describer of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from embodied.errors import JobFailed
from embodied.facts import all_facts
from embodied.hierarchy.perceived import PerceivedEnv
from embodied.types import BaseFrame, DescribedObject, Fact, Frame, SceneDescription
from robots.cameras import FREE, scene_cameras
from vlm_describer.describer import make_description
from vlm_describer.located import Located
from vlm_describer.naming import Names
from vlm_describer.seeing import Looker, SeeingDescriber
from vlm_describer.tracking import Tracker

from . import build

if TYPE_CHECKING:
    from robots.base import CheckedSceneEnv


class _Keeper:
    """A looker that remembers the surfaces of its last look."""

    def __init__(self, looker: Looker) -> None:
        self.identity, self._looker = looker.identity, looker
        self.located: Located | None = None

    def look(self, frame: Frame, base: BaseFrame | None) -> tuple[Located, Names]:
        """As `Looker.look`."""
        self.located, names = self._looker.look(frame, base)
        return self.located, names

    def table(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The work surface as a flat thing: its middle in the world and half extents; None where none was seen."""
        surfaces = [] if self.located is None else self.located.surfaces
        work = next((surface for surface in surfaces if surface.role == "work"), None)
        if work is None or (self.located is not None and self.located.map_view):
            return None
        return np.asarray(work.position_m), np.asarray(work.half_extents_m)


class Eyes:
    """Looks at a world through its cameras.

    Args:
        world: Open; what is read of it are pictures and frame B.
        name: `clip` or `blip`.
        sight: Camera, size and model.

    Raises:
        UserError: The model or the camera cannot be had.
    """

    def __init__(self, world: CheckedSceneEnv, name: str, sight: build.Sight) -> None:
        self.name, self._world, self._sight = name, world, sight
        looker, calibration = build.make_looker(name, sight)
        self._keeper = _Keeper(looker)
        self._describer = SeeingDescriber(name, self._keeper, calibration, world.frame)
        own = scene_cameras(world.model)[:1]
        self.cameras = (sight.camera,) if sight.camera else own if world.spec.robot == "point" and own else (*own, FREE)

    def frames(self) -> tuple[Frame, ...]:
        """A picture of each camera."""
        size = self._sight.width, self._sight.height
        return tuple(self._world.render(camera, *size, depth=True) for camera in self.cameras)

    def begin(self) -> Tracker:
        """The first look.

        Raises:
            JobFailed: `unreachable`: nothing was seen that has a name.
        """
        tracker = Tracker(self._describer.describe(self.frames()), self._keeper.table())
        if not tracker.tracks:
            raise JobFailed("unreachable", f"describer={self.name} sees nothing in the scene that it knows")
        return tracker

    def update(self, tracker: Any, hidden: frozenset[str]) -> None:
        """Another look."""
        frames = self.frames()
        tracker.update(self._describer.describe(frames), frames, hidden)


class PerceivedDescriber:
    """Tells what a `PerceivedEnv` believes, after another look; frames are ignored."""

    def __init__(self, env: PerceivedEnv, name: str) -> None:
        self.name, self._env = name, env

    def describe(self, frames: Sequence[Frame] = ()) -> SceneDescription:
        """After another look."""
        self._env.look()
        return self.tell()

    def tell(self) -> SceneDescription:
        """Without one."""
        state = self._env.scene_state()
        tracks = {track.id: track for track in self._env.tracks.tracks}
        objects = [
            DescribedObject(e.id, e.role, e.kind, e.colour, e.position_m, e.half_extents_m, tracks[e.id].confidence)
            for e in state.entities
            if not tracks[e.id].gone
        ]
        here = {item.id for item in objects} | {"gripper", "robot"}
        facts = [
            Fact(predicate, min((tracks[a].confidence for a in predicate.args if a in tracks), default=1.0), self.name)
            for predicate in all_facts(state)
            if set(predicate.args) <= here
        ]
        return make_description(objects, facts, base=state.frame)


def perceived(world: CheckedSceneEnv, name: str, sight: build.Sight | None = None) -> tuple[PerceivedEnv, Eyes]:
    """A world that is open as its cameras show it; `start` it before anything else."""
    eyes = Eyes(world, name, sight or build.Sight())
    return PerceivedEnv(world, world.frame, eyes.begin, eyes.update), eyes
