"""The composition root: names and typed configurations in, working parts out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from embodied.errors import JobFailed, UserError
from embodied.protocols import Controller, Describer, Planner, SceneEnv
from embodied.types import SKILLS, BaseFrame, Frame, Observation, SceneDescription, SceneState

from .catalogue import scene_names, task_names

if TYPE_CHECKING:
    from embodied.hierarchy.executor import ExecutorConfig, Withdraw
    from embodied.hierarchy.perceived import PerceivedEnv
    from embodied.planning.grounding import GroundingContext
    from robots.base import CheckedSceneEnv
    from robots.goal_layout import GoalLayout
    from robots.scene import SceneFile
    from vlm_describer.calibration import Calibration
    from vlm_describer.seeing import Looker

    from .planners import PlannerSettings

Base = tuple[float, float, float, float]
"""A robot's base by hand: x, y, z (m, world) and yaw (degrees)."""


LONGEST_S = 80.0
"""Of an execution, by the scene's clock."""


class Scene(Protocol):
    """Anything that can be read and looked at, and is closed after use."""

    @property
    def frame(self) -> BaseFrame: ...
    def scene_state(self) -> SceneState: ...
    def render(self, camera: str | None = None, width: int = 320, height: int = 240, depth: bool = False) -> Frame: ...
    def close(self) -> None: ...


class Opened:
    """A scene as a context manager that closes it."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def __enter__(self) -> Scene:
        return self._scene

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._scene.close()


def parse_base(text: str) -> Base | None:
    """`x,y,z,yaw_deg` to numbers; empty means that the placement rule decides.

    Raises:
        UserError: Not four numbers.
    """
    if not text.strip():
        return None
    try:
        x, y, z, yaw = (float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"base={text}: expected four numbers x,y,z,yaw_deg (m, m, m, degrees)") from None
    return x, y, z, yaw


def is_task(scene: str) -> bool:
    """Whether `scene=` names a task rather than a scene."""
    return scene not in scene_names() and (scene in task_names() or scene.startswith("gym:"))


def allowed(scene: str, files_from: str = "") -> str | SceneFile:
    """A scene that may read files of one more folder.

    Raises:
        UserError: There is no such scene or folder.
    """
    if not files_from:
        return scene
    from robots.scene import SceneFile, resolve_scene

    folder = Path(files_from).expanduser()
    if not folder.is_dir():
        raise UserError(f"files_from={files_from}: that is no folder")
    if is_task(scene):
        raise UserError(f"files_from= belongs to the path of an MJCF file; scene={scene} is a task")
    return SceneFile(resolve_scene(scene), (folder.resolve(),))


def open_scene(scene: str, base: Base | None = None, files_from: str = "") -> Scene:
    """A scene to look at, without a robot of ours: a shipped one, an MJCF file, or a task as its seed 0 begins.

    Args:
        scene: Its name or path.
        base: The robot's base by hand.
        files_from: A folder that the scene may read files from besides its own.

    Raises:
        UserError: There is no such scene, or the task has none to look at.
    """
    source = allowed(scene, files_from)
    if is_task(scene):
        return open_task(scene)
    from robots.still import StillScene

    return StillScene(source, base)


def open_task(task: str) -> CheckedSceneEnv:
    """A task's environment at the start of its seed-0 episode, scene readable."""
    from robots.base import CheckedSceneEnv
    from robots.registry import make_env

    env = make_env(task)
    if not isinstance(env, CheckedSceneEnv):
        env.close()
        raise UserError(f"{task} has no scene that can be described; give a scene or a task of `embodied list`")
    env.reset(0)
    return env


def choose_robot(scene: str | SceneFile, robot: str, by_hand: bool = False) -> str:
    """The robot that acts in a scene: what was asked for, or by the scene's looks.

    Args:
        scene: The scene.
        robot: `auto`, or one by name.
        by_hand: Its base was given, so that an arm needs no surface to stand before.

    Raises:
        JobFailed: `unreachable`: nothing here says which robot fits, or it is one that cannot act yet.
    """
    from robots.still import StillScene

    if robot == "none":
        raise JobFailed("unreachable", "robot=none: no robot was asked for; give robot=fetch, point or auto")
    if robot == "auto":
        still = StillScene(scene)
        robot = still.fitting_robot()
        still.close()
        if robot == "none" and by_hand:
            return "fetch"
        if robot == "none":
            raise JobFailed("unreachable", f"no robot fits: {still.misfit}, or give a robot that drives a site 'start'")
    return robot


def open_world(
    scene: str, robot: str, base: Base | None, out_dir: Path | None, files_from: str = ""
) -> CheckedSceneEnv:
    """A scene with a robot in it, ready to act (reset with seed 0).

    Args:
        scene: Its name or path.
        robot: `auto`, `fetch` or `point`.
        base: The robot's base by hand.
        out_dir: Where the compiled scene is written; a temporary folder without it.
        files_from: A folder that the scene may read files from besides its own.

    Raises:
        UserError: The scene cannot be used.
        JobFailed: No robot can act in it.
    """
    from robots.base import CheckedSceneEnv, checked
    from robots.rooms import RoomsEnv
    from robots.tabletop import TabletopEnv

    if is_task(scene):
        raise UserError(
            f"scene={scene} is a task; plans are carried out in scenes: {', '.join(scene_names())} or a path"
        )
    source = allowed(scene, files_from)
    if choose_robot(source, robot, by_hand=base is not None) == "point":
        if base is not None:
            raise UserError("base= places an arm; the point robot begins at the site 'start'")
        env = checked(RoomsEnv(source, out_dir=out_dir))
    else:
        env = checked(TabletopEnv(source, base=base, out_dir=out_dir))
    assert isinstance(env, CheckedSceneEnv)
    env.reset(0)
    return env


@dataclass(frozen=True)
class Sight:
    """How a describer looks."""

    camera: str = ""
    """Camera of the scene; empty: the one that shows it best."""
    width: int = 640
    height: int = 480
    model: str = ""
    """Its model: empty is the shipped one, else the folder of a fitted one or the name of a public one."""
    pretrained: str = ""
    """Weights of a public model."""
    vocabulary: str = ""
    """A user's file with more words for a public model."""


def make_describer(name: str, scene: Scene, sight: Sight | None = None) -> Describer:
    """A describer by name, for a scene that it looks at by itself.

    Raises:
        UserError: Its model cannot be had.
    """
    from vlm_describer.oracle import OracleDescriber

    if name == "oracle":
        return OracleDescriber(scene.scene_state)
    from vlm_describer.looking import LookingDescriber

    sight = sight or Sight()

    def look() -> tuple[Frame, ...]:
        return (scene.render(sight.camera or None, sight.width, sight.height, depth=True),)

    return LookingDescriber(make_seer(name, sight, scene.frame), look)


def make_seer(name: str, sight: Sight, base: BaseFrame | None) -> Describer:
    """A describer of frames by name, whatever they show.

    Raises:
        UserError: Its model cannot be had.
    """
    from vlm_describer.seeing import SeeingDescriber

    looker, calibration = make_looker(name, sight)
    return SeeingDescriber(name, looker, calibration, base)


def make_looker(name: str, sight: Sight) -> tuple[Looker, Calibration]:
    """Who finds and names things in frames, and what its confidences mean.

    Raises:
        UserError: Its model cannot be had.
    """
    if name == "clip":
        from vlm_describer.clip import load_clip_looker

        return load_clip_looker(sight.model, sight.pretrained, sight.vocabulary)
    from vlm_describer.blip import load_blip_looker

    return load_blip_looker(sight.model)


def make_planner(
    name: str, settings: PlannerSettings | None = None, say: Callable[[str], None] = lambda line: None
) -> Planner:
    """A planner by name.

    Args:
        name: One of `catalogue.PLANNERS`.
        settings: Of those that ask a language model.
        say: Takes a line about a cache that cannot be used.

    Raises:
        UserError: Its model cannot be had, or the settings do not fit it.
    """
    from embodied.planning.rules import RulesPlanner

    from .planners import PlannerSettings, make_asking_planner

    settings = settings or PlannerSettings()
    if name == "rules":
        settings.refuse_unused(name)
        return RulesPlanner()
    if name == "embedded":
        from .parsing import make_embedded

        settings.refuse_unused(name)
        return make_embedded()
    return make_asking_planner(name, settings, say)


def controllers_for(skills: Sequence[str], robot: str, run: str) -> dict[str, Controller]:
    """A controller for each skill: from `run`, else from the zoo those that offer the skill on this robot.

    Skills that nothing offers are left out; the executor says so before anything moves.
    """
    from embodied.learning.controller import load_zoo, open_controller, zoo_names

    # The controller for any table comes before those of Gymnasium's tasks, which offer some of its skills.
    # So does the one for the largest maze, which has the longest corridors.
    shipped = sorted(zoo_names(), key=lambda name: name not in ("tabletop", "point_large"))
    offers = [open_controller(run)] if run else [load_zoo(name) for name in shipped]
    found: dict[str, Controller] = {}
    for controller in offers:
        if controller.manifest.robot == robot:
            found |= {skill: controller for skill in controller.manifest.skills if skill not in found}
    return {skill: controller for skill, controller in found.items() if skill in skills}


def acting_controllers(world: CheckedSceneEnv, run: str) -> dict[str, Controller]:
    """`controllers_for` every skill, for a world that is open: a point robot's drives along ways over its floor."""
    found = controllers_for(SKILLS, world.spec.robot, run)
    if world.spec.robot != "point":
        return found
    from embodied.hierarchy.roads import RoadController

    floor = world.floor()
    return {skill: RoadController(controller, floor) for skill, controller in found.items()}


def executor_config(world: CheckedSceneEnv) -> ExecutorConfig:
    """Bounds of an execution: as many seconds for every robot."""
    from embodied.hierarchy.executor import ExecutorConfig

    return ExecutorConfig(max_total_steps=round(LONGEST_S * world.spec.control_hz))


@dataclass(frozen=True)
class Watched:
    """A world as somebody sees it who acts in it."""

    world: SceneEnv
    describer: Describer
    tell: Callable[[], SceneDescription]
    """What is known now, without another look."""
    observe: Callable[[], Observation]
    """The observation before anything is done; nothing moves for it."""
    withdraw: Withdraw | None = None
    """How an arm gets out of the cameras' way; None where nothing is in the way of knowing."""


def watched(world: CheckedSceneEnv, describer: str, seen: PerceivedEnv | None = None) -> Watched:
    """A world that is open as a describer knows it: the simulator's state, or what cameras show.

    Args:
        world: The world.
        describer: `oracle`, `clip` or `blip`.
        seen: A perceived world of it that was made before, to be begun anew.

    Raises:
        UserError: The describer's model cannot be had.
        JobFailed: Nothing is seen.
    """
    if describer == "oracle":
        oracle = make_describer(describer, world)
        return Watched(world, oracle, lambda: oracle.describe(()), lambda: world.reset(0))
    from .seeing import PerceivedDescriber, perceived

    seen = seen if seen is not None else perceived(world, describer)[0]
    seen.start(observed(world))
    told = PerceivedDescriber(seen, describer)
    return Watched(seen, told, told.tell, seen.observation, seen.withdraw)


def observed(world: CheckedSceneEnv) -> Observation:
    """What a world that is open shows now: after one control period of holding still."""
    return world.step(np.zeros(world.spec.action_width, dtype=np.float32)).observation


def grounding_context(world: CheckedSceneEnv, refuse_unreachable: bool = True) -> GroundingContext:
    """What grounding has to know of a world that is open: an arm's reach, or the ways over a floor."""
    from embodied.planning.grounding import GroundingContext

    context = GroundingContext.for_robot(world.spec.robot, refuse_unreachable)
    return replace(context, way=_blocked_ways(world)) if world.spec.robot == "point" else context


def _blocked_ways(world: CheckedSceneEnv) -> Callable[[Sequence[float] | None, Sequence[float]], str]:
    """Says why there is no way between two places of the world (from where the robot is, for None)."""
    from embodied.hierarchy.roads import find_way

    floor = world.floor()

    def against(start_m: Sequence[float] | None, end_m: Sequence[float]) -> str:
        here = world.scene_state().robot_position_m if start_m is None else start_m
        (x, y, _), (u, v, _) = (world.frame.to_base(np.asarray(point)) for point in (here, end_m))
        if find_way(floor, (float(x), float(y)), (float(u), float(v))) is not None:
            return ""
        return f"blocked by {', '.join(floor.movable)}" if floor.movable else "there is no way to it"

    return against


def one_thread() -> None:
    """One torch thread: faster than two for networks this small, and the same numbers every time."""
    import torch

    torch.set_num_threads(1)


def goal_layout(task: str) -> GoalLayout:
    """How a task's arrays become Gymnasium's goal dictionaries and back."""
    from robots.goal_layout import goal_layout as layout

    return layout(task)
