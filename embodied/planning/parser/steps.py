"""Acts to steps: what lies on a thing is put aside before that is used, and supports come before what they carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from embodied.planning.parser.world import World
from embodied.planning.places import label
from embodied.planning.words import Refused
from embodied.types import PlanStep

_PUTS = frozenset({"place", "stack", "push"})
_TAKES = frozenset({"pick", "place", "stack", "push"})


@dataclass(frozen=True)
class Act:
    """A step that was asked for."""

    skill: str
    args: tuple[str, ...]
    ground: str | None = None
    """The thing that the place is told by."""
    moment: int = 0
    """Acts of one moment are asked for together: their order is free."""
    fixed: bool = False
    """It keeps its place in the order."""
    aside: bool = False
    """It only takes a thing away from where it is: needless where that is moved on."""


@dataclass
class Steps:
    """Emits steps and keeps the world as they leave it."""

    world: World
    avoid: tuple[str, ...]
    made: list[PlanStep] = field(default_factory=list)

    def run(self, acts: Sequence[Act]) -> list[PlanStep]:
        waiting = [
            act for i, act in enumerate(acts) if not (act.aside and not act.fixed and _moved_on(act, acts[i + 1 :]))
        ]
        while waiting:
            moment = waiting[0].moment
            together = [act for act in waiting if act.moment == moment]
            act = next((a for a in together if self._ready(a, together)), together[0])
            waiting.remove(act)
            self._do(act, waiting)
        return self._tidy()

    def _ready(self, act: Act, together: Sequence[Act]) -> bool:
        """Nothing asked for at the same moment has to be done before; acts that move nothing keep their order."""
        if act.fixed or act.skill not in _PUTS:
            return act is together[0]
        before = together[: together.index(act)]
        if any(other.fixed or other.skill not in _PUTS or other.args[0] == act.args[0] for other in before):
            return False
        moved = {other.args[0] for other in together if other is not act and other.skill in _PUTS}
        if act.ground in moved:
            return False
        return not any(top in moved for top in self.world.upon(act.args[0]))

    def _do(self, act: Act, later: Sequence[Act]) -> None:
        if act.ground is not None and act.ground == act.args[0]:
            thing = self.world.scene.object(act.ground)
            raise Refused("impossible", f"the {label(thing)} cannot be placed relative to itself")
        if act.skill in _TAKES:
            self._uncover(act.args[0], ())
        if act.skill == "stack":
            self._uncover(act.args[1], (act.args[0],))
        self.made.append(PlanStep(act.skill, act.args))
        if act.skill in _PUTS:
            lies_on = act.args[1] if act.args[1] in {item.id for item in self.world.scene.objects} else None
            table = self.world.table()
            self.world.support[act.args[0]] = lies_on or (table.id if table is not None else "")
        elif act.skill == "pick":
            self.world.support.pop(act.args[0], None)

    def _uncover(self, ident: str, kept: tuple[str, ...]) -> None:
        """Puts what lies on a movable thing on the table."""
        item = self.world.scene.object(ident)
        if item.role != "object":
            return
        for top in self.world.upon(ident):
            if top in kept or top == ident:
                continue
            above = self.world.scene.object(top)
            if top in self.avoid:
                raise Refused(
                    "contradictory", f"the {label(above)} lies on the {label(item)} and is to be left alone; drop one"
                )
            table = self.world.table()
            if table is None:
                raise Refused(
                    "impossible", f"the {label(above)} lies on the {label(item)}, and there is no table to put it on"
                )
            self._uncover(top, (*kept, ident))
            self.made.append(PlanStep("place", (top, table.id)))
            self.world.support[top] = table.id

    def _tidy(self) -> list[PlanStep]:
        """Without a pick that the next step makes anyway, and without a step said twice."""
        found: list[PlanStep] = []
        for i, step in enumerate(self.made):
            after = self.made[i + 1] if i + 1 < len(self.made) else None
            if step.skill == "pick" and after is not None and after.skill in _TAKES and after.args[0] == step.args[0]:
                continue
            if found and found[-1] == step and step.skill != "touch":
                continue
            found.append(step)
        return found


def _moved_on(act: Act, later: Sequence[Act]) -> bool:
    return any(other.skill in _PUTS and other.args[0] == act.args[0] for other in later)
