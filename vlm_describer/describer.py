"""What every describer ends with: objects and facts put together, caption and text derived from them alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from embodied.types import BaseFrame, DescribedObject, Fact, SceneDescription
from vlm_describer.text import caption, full_text


def make_description(
    objects: Sequence[DescribedObject],
    facts: Sequence[Fact],
    unknown: Sequence[str] = (),
    frame: Literal["world", "camera"] = "world",
    base: BaseFrame | None = None,
) -> SceneDescription:
    """A `SceneDescription` whose words say nothing that its objects and facts do not.

    Args:
        objects: What was seen, in the order in which it is to be told; positions in `frame`, metres.
        facts: With the probability and the source of each.
        unknown: What the describer cannot tell, a short phrase each.
        frame: `camera` where the camera's pose is not known.
        base: Frame B, in which left and right are meant; the world where omitted.
    """
    base = base if base is not None else BaseFrame()
    return SceneDescription(
        objects=tuple(objects),
        facts=tuple(facts),
        unknown=tuple(unknown),
        caption=caption(objects, facts),
        text=full_text(objects, facts, unknown, base, frame == "world"),
        frame=frame,
        base=base,
    )
