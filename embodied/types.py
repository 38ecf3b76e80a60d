"""The data that parts hand to each other: frozen records, float32 arrays, SI units.

Unless a field says otherwise, records about the scene are in the world frame with quaternions in wxyz order, and what
a policy sees or outputs is in the robot's base frame B (x forward, y left, z up).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from embodied.spec import Layout, Term

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

FailureReason = Literal[
    "unknown_object", "ambiguous", "impossible", "contradictory", "unreachable", "unparsable", "budget",
    "model_unavailable", "timed_out",
]  # fmt: skip

SKILLS = ("reach", "touch", "push", "pick", "place", "stack", "go_to", "open", "close", "turn", "hold")
"""Every skill that a plan may name."""

GRIPPER = "gripper"
"""The entity that is an arm's own hand."""


@dataclass(frozen=True)
class Goal:
    """A wish about one entity: the masked components of `value`, in frame B (gym:<id>: in the task's own units)."""

    entity: str
    value: FloatArray
    """Shape (G,)."""
    mask: BoolArray
    """Shape (G,); False where the goal says nothing."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", np.asarray(self.value, dtype=np.float32))
        object.__setattr__(self, "mask", np.asarray(self.mask, dtype=bool))
        if self.value.shape != self.mask.shape or self.value.ndim != 1:
            raise ValueError(
                f"goal value and mask must be of one shape (G,), got {self.value.shape}, {self.mask.shape}"
            )

    def distance(self, achieved: FloatArray) -> float:
        """Euclidean distance over the masked components; `achieved` has shape (G,)."""
        return float(np.linalg.norm((achieved - self.value)[self.mask]))


@dataclass(frozen=True)
class Observation:
    """What a control step shows, in frame B, float32, with the layout that names each number."""

    state: FloatArray
    """Robot part, shape (S,)."""
    entities: FloatArray
    """Features of each entity, shape (E, F)."""
    achieved: FloatArray
    """Each entity's value in goal space, shape (E, G)."""
    layout: Layout


@dataclass(frozen=True)
class Step:
    """What came of one action."""

    observation: Observation
    action: FloatArray
    """The action as executed, after limits, shape (A,)."""
    reward: float
    terminated: bool
    """The task ended here: bootstrapping stops. A time limit is not a termination."""
    truncated: bool
    """The time limit was reached."""
    success: bool
    """The goal is reached at this step."""


@dataclass(frozen=True)
class Outcome:
    """Rewards of a batch of (achieved, goal) pairs, each of shape (N,)."""

    reward: FloatArray
    terminated: BoolArray
    success: BoolArray


@dataclass(frozen=True)
class Episode:
    """One episode as it happened, T steps long; what is derived (relabelled goals, shaping) is made when sampling."""

    state: FloatArray
    """(T+1, S)"""
    entities: FloatArray
    """(T+1, E, F)"""
    achieved: FloatArray
    """(T+1, E, G)"""
    goal_entity: NDArray[np.int32]
    """(T,) row of the entity whose goal was pursued."""
    goal_value: FloatArray
    """(T, G)"""
    goal_mask: BoolArray
    """(T, G)"""
    action: FloatArray
    """(T, A) as executed."""
    interval: FloatArray
    """(T, 2, A) bounds that the action was drawn within; the robot's limits where nothing advised."""
    reward: FloatArray
    """(T,)"""
    terminated: BoolArray
    """(T,)"""
    truncated: BoolArray
    """(T,)"""
    success: BoolArray
    """(T,)"""
    subgoal_id: NDArray[np.int32]
    """(T,) which subgoal of a plan was pursued; 0 where there is no plan."""

    def __len__(self) -> int:
        return len(self.action)


@dataclass(frozen=True)
class BaseFrame:
    """Frame B in the world: a translation and a yaw. p_world = R(yaw) p_B + origin."""

    origin_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    yaw_rad: float = 0.0

    @property
    def rotation(self) -> NDArray[np.float64]:
        """world_from_B rotation, (3, 3)."""
        c, s = np.cos(self.yaw_rad), np.sin(self.yaw_rad)
        return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])

    @property
    def quaternion(self) -> NDArray[np.float64]:
        """world_from_B rotation, wxyz."""
        return np.array([np.cos(self.yaw_rad / 2), 0.0, 0.0, np.sin(self.yaw_rad / 2)])

    def to_base(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """World points (..., 3) in B."""
        return (np.asarray(points) - np.asarray(self.origin_m)) @ self.rotation

    def to_world(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Points of B (..., 3) in the world."""
        return np.asarray(points) @ self.rotation.T + np.asarray(self.origin_m)

    def vector_to_base(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """World vectors (..., 3) in B (rotation only)."""
        return np.asarray(vectors) @ self.rotation

    def vector_to_world(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Vectors of B (..., 3) in the world (rotation only)."""
        return np.asarray(vectors) @ self.rotation.T


@dataclass(frozen=True)
class Frame:
    """A camera picture, with what is needed to place it."""

    rgb: NDArray[np.uint8]
    """(H, W, 3)"""
    camera: str
    time_s: float = 0.0
    depth_m: FloatArray | None = None
    """(H, W), distance along the optical axis."""
    intrinsics: NDArray[np.float64] | None = None
    """(3, 3), pixels."""
    world_from_camera: NDArray[np.float64] | None = None
    """(4, 4), camera axes x right, y down, z forward."""


@dataclass(frozen=True)
class Volume:
    """A solid in the world: the inside of a zone's site."""

    shape: Literal["box", "cylinder", "sphere", "capsule", "ellipsoid"]
    size_m: tuple[float, float, float]
    """MuJoCo's size parameters: half extents, or radius and half length."""
    position_m: tuple[float, float, float]
    rotation: tuple[tuple[float, float, float], ...]
    """world_from_site, 3 rows."""


EntityRole = Literal["object", "zone", "landmark", "place"]
"""object: has a free joint; zone: static body with a site; landmark: other named static body; place: world site."""


@dataclass(frozen=True)
class EntityState:
    """One thing in the scene, as the simulator knows it."""

    id: str
    """Unique and plain: the MJCF name where that is safe to print, else role and number."""
    name: str
    """The MJCF name as written: untrusted text."""
    role: EntityRole
    kind: str
    """A canonical kind (block, cylinder, ball, tray, disc, plate, pillar, wall, door) or `thing`."""
    colour: str
    """A canonical colour or `unknown`."""
    center_b_m: tuple[float, float, float]
    """Centre, in B, of the box round the geoms whose axes lie along B."""
    half_extents_m: tuple[float, float, float]
    """Half extents of that box, along B's axes."""
    position_m: tuple[float, float, float]
    """The same centre in the world."""
    quaternion: tuple[float, float, float, float]
    """Body orientation in the world, wxyz."""
    volume: Volume | None = None
    """The inside, for zones."""


@dataclass(frozen=True)
class SceneState:
    """What the simulator knows of a scene at one moment; read by `oracle` and by `embodied.facts`, by nothing else."""

    entities: tuple[EntityState, ...]
    contacts: frozenset[tuple[str, str]]
    """Sorted pairs of ids that touch. Beside entities' ids there are `left_finger`, `right_finger`, `gripper` (any part
    of it, fingers included), `robot` (its other parts) and `static` (geoms that are no entity's)."""
    frame: BaseFrame
    robot: str
    """`fetch`, `point`, ... or `none`."""
    robot_position_m: tuple[float, float, float] | None = None
    """The robot's base link in the world."""
    robot_yaw_rad: float | None = None
    gripper_position_m: tuple[float, float, float] | None = None
    """The grip site in the world."""
    surface_height_m: float | None = None
    """World height of the work surface."""
    time_s: float = 0.0

    def entity(self, entity_id: str) -> EntityState:
        """The entity with this id; KeyError where there is none."""
        for entity in self.entities:
            if entity.id == entity_id:
                return entity
        raise KeyError(entity_id)


@dataclass(frozen=True)
class Predicate:
    """A statement about entities: `Predicate("on", ("red_block", "green_block"))`. `negated` turns it round."""

    name: str
    args: tuple[str, ...]
    negated: bool = False

    def __str__(self) -> str:
        text = f"{self.name}({', '.join(self.args)})"
        return f"not {text}" if self.negated else text


@dataclass(frozen=True)
class Fact:
    """A predicate that somebody holds to be true, how sure they are, and who it is."""

    predicate: Predicate
    probability: float
    source: str


@dataclass(frozen=True)
class DescribedObject:
    """A thing that a describer saw."""

    id: str
    role: EntityRole
    kind: str
    colour: str
    position_m: tuple[float, float, float]
    """World (camera where the description's frame says so)."""
    half_extents_m: tuple[float, float, float]
    """Along B's axes."""
    confidence: float
    name: str | None = None
    """The simulator's name, where the describer may know it."""

    @property
    def phrase(self) -> str:
        """`red block`; only the kind where the colour is not known."""
        return self.kind if self.colour == "unknown" else f"{self.colour} {self.kind}"


@dataclass(frozen=True)
class SceneDescription:
    """A scene in words and facts."""

    objects: tuple[DescribedObject, ...]
    facts: tuple[Fact, ...]
    unknown: tuple[str, ...]
    """What the describer cannot tell."""
    caption: str
    text: str
    frame: Literal["world", "camera"]
    base: BaseFrame = field(default_factory=BaseFrame)
    """Frame B, in which left, right, front and behind are meant."""

    def object(self, object_id: str) -> DescribedObject:
        """The object with this id; KeyError where there is none."""
        for item in self.objects:
            if item.id == object_id:
                return item
        raise KeyError(object_id)


@dataclass(frozen=True)
class PlanStep:
    """One step of a plan before grounding: a skill and the ids (or places) that it is about."""

    skill: str
    args: tuple[str, ...]
    target_m: tuple[float, float, float] | None = None
    """World position asked for by hand; grounding computes it otherwise."""
    max_steps: int | None = None
    avoid: tuple[str, ...] = ()
    """Ids of things that the gripper must not touch meanwhile."""


@dataclass(frozen=True)
class StepOutcome:
    """What became of a step that was carried out."""

    step: PlanStep
    reached: bool
    why: str
    """In words."""


@dataclass(frozen=True)
class Subgoal:
    """A grounded step: what the controller is asked for, and which facts say that it is done."""

    skill: str
    args: tuple[str, ...]
    goal: Goal
    """In frame B."""
    target_m: tuple[float, float, float]
    """World."""
    tolerance_m: float
    max_steps: int
    success: tuple[Predicate, ...]
    """Facts that must hold at the end of the step; empty where only the distance counts."""
    avoid: tuple[str, ...] = ()
    """Ids of things that the gripper must not touch meanwhile: when it does, the plan has failed."""


@dataclass(frozen=True)
class Plan:
    """Subgoals in the order in which they are carried out."""

    instruction: str
    subgoals: tuple[Subgoal, ...]
    planner: str


@dataclass(frozen=True)
class PlanFailure:
    """Why there is no plan. The robot holds."""

    reason: FailureReason
    message: str


@dataclass(frozen=True)
class Advice:
    """What an adviser suggests: a goal, an interval for the action, or both; never an action."""

    goal: Goal | None
    interval: FloatArray | None
    """(2, A) bounds on the draw, in action units."""
    text: str
    source: str


@dataclass(frozen=True)
class Batch:
    """Transitions for one update, goals already relabelled. B rows."""

    observation: FloatArray
    """(B, S+F): robot part and the goal entity's features."""
    next_observation: FloatArray
    """(B, S+F)"""
    goal: FloatArray
    """(B, G), zero where masked out."""
    action: FloatArray
    """(B, A), in action units."""
    reward: FloatArray
    """(B,)"""
    terminated: BoolArray
    """(B,)"""
    relabelled: BoolArray
    """(B,) rows whose goal was replaced."""
    already_satisfied: BoolArray
    """(B,) rows whose goal already held before the action."""
    discount: FloatArray | None = None
    """(B,) discount of what follows the next observation; None: one step's. `reward` sums up the steps until then."""


@dataclass(frozen=True)
class PolicyManifest:
    """What a controller is: everything that an environment, an executor or a robot has to match."""

    task: str
    robot: str
    robot_terms: tuple[Term, ...]
    entity_terms: tuple[Term, ...]
    goal_terms: tuple[Term, ...]
    action_terms: tuple[Term, ...]
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    goal_entity: str
    skills: tuple[str, ...]
    frame: str
    control_hz: float
    tolerance: float

    @property
    def action_width(self) -> int:
        return len(self.action_low)


@dataclass(frozen=True)
class SafetyLimits:
    """Bounds that a deployed controller's commands are held to."""

    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    observation_low: tuple[float, ...]
    """Per number of the policy's input vector: below it the observation is implausible and the robot holds."""
    observation_high: tuple[float, ...]
    max_observation_age_s: float
    hold_action: tuple[float, ...]
    """The command that keeps the robot where it is."""


@dataclass(frozen=True)
class SafetyDecision:
    """What the filter let through."""

    action: FloatArray
    held: bool
    interventions: tuple[str, ...]
    """Names of the rules that acted, empty where none did."""
