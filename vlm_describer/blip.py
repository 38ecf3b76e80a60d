"""The describer that speaks: a captioner's sentence, held against what was located.

What the sentence names is given to the located thing that it fits; a word that fits nothing is not passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from embodied.colours import COLOURS
from embodied.errors import UserError
from embodied.types import BaseFrame, Fact, Frame, Predicate, SceneDescription
from vlm_describer.alignment import align
from vlm_describer.blip_model import BlipModel
from vlm_describer.calibration import Calibration
from vlm_describer.captions import Caption, parse_caption
from vlm_describer.clip import Named, described, related, unsure
from vlm_describer.describer import make_description
from vlm_describer.examples import KINDS, SCENES
from vlm_describer.frames import checked_frame
from vlm_describer.locate import locate
from vlm_describer.located import Located


class BlipDescriber:
    """Captions, locates and relates. The same frames give the same description."""

    name = "blip"

    def __init__(
        self, model: BlipModel, calibration: Calibration | None = None, base: BaseFrame | None = None, prompt: str = ""
    ) -> None:
        """
        Args:
            model: Ours, or a public one: what it says in other words than ours is not understood.
            calibration: What confidences mean; raw where None.
            base: Frame B in the world; the world itself where None.
            prompt: Words that the sentence is to begin with; they are no part of it.
        """
        self._model, self._calibration = model, calibration or Calibration()
        self._base, self._prompt = base, prompt

    def describe(self, frames: Sequence[Frame]) -> SceneDescription:
        """What the first frame shows.

        Raises:
            UserError: There is no frame, or one that cannot be used.
        """
        if not frames:
            raise UserError("there is no frame to describe: give one")
        frame = checked_frame(frames[0])
        located = locate(frame, self._base)
        ((sentence, chance),) = self._model.captions([frame.rgb], self._prompt)
        caption = parse_caption(sentence)
        named = name_by_caption(located, caption, chance)
        kept = replace(located, items=tuple(thing.item for thing in named))
        facts, open_questions = related(kept, named, self._calibration)
        unknown = [*unsure(named), *open_questions, *([located.reason] if located.reason else [])]
        base = located.base if located.frame == "world" else BaseFrame()
        scene = self._scene(caption, chance, located)
        return make_description([described(t) for t in named], [*scene, *facts], unknown, located.frame, base)

    def _scene(self, caption: Caption, chance: float, located: Located) -> list[Fact]:
        """The kind of scene, where geometry does not speak against it."""
        known = caption.scene in SCENES and located.map_view == (caption.scene in ("maze", "rooms"))
        return [Fact(Predicate("scene", (caption.scene,)), chance, self.name)] if known else []


def name_by_caption(located: Located, caption: Caption, chance: float) -> list[Named]:
    """Located things with the names that a caption gives them; `thing` and `unknown` where it gives none."""
    items = [item for item in located.items if item.role_hint not in ("robot-like", "wall-like")]
    mentions = align([mention for mention in caption.mentions if _understood(mention.phrase)], items)
    named = []
    for item in items:
        mention = mentions.get(item.id)
        if mention is None:
            named.append(Named(item, "thing", item.confidence, "unknown", 0.0))
            continue
        colour, _, kind = mention.phrase.rpartition(" ")
        named.append(Named(item, kind, chance, colour if colour in COLOURS else "unknown", chance))
    return named


def _understood(phrase: str) -> bool:
    return phrase.rpartition(" ")[2] in KINDS
