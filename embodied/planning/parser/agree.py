"""Whether the acts of an instruction agree with each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from embodied.planning.checks import MOVES, check_steps
from embodied.planning.parser.steps import Act
from embodied.planning.places import label
from embodied.planning.words import Refused
from embodied.types import PlanStep, SceneDescription


def check_together(chain: Sequence[Act], avoid: Collection[str], scene: SceneDescription) -> None:
    """Refuses what cannot hold together: at one moment, or with what is to be left alone.

    Raises:
        Refused: `contradictory`.
    """
    for moment in dict.fromkeys(act.moment for act in chain):
        asked = [PlanStep(act.skill, act.args) for act in chain if act.moment == moment and not act.aside]
        failure = check_steps(asked, scene) if asked else None
        if failure is not None and failure.reason == "contradictory":
            raise Refused(failure.reason, failure.message)
    places: dict[tuple[int, str], str] = {}
    for act in chain:
        if act.skill in MOVES | {"touch"} and act.args[0] in avoid:
            thing = label(scene.object(act.args[0]))
            raise Refused("contradictory", f"the {thing} is to be left alone and yet to be used: {act.skill}; drop one")
        if act.skill in MOVES and len(act.args) == 2 and not act.fixed and not act.aside:
            before = places.setdefault((act.moment, act.args[0]), act.args[1])
            if before != act.args[1]:
                raise Refused(
                    "contradictory",
                    f"{act.args[0]} cannot be at {before} and {act.args[1]}; say 'then' if one comes later",
                )
