"""Who names what is located: sim-clip, a model fitted by the user, or any public CLIP model."""

from __future__ import annotations

from pathlib import Path

from embodied.errors import UserError
from embodied.types import BaseFrame, Frame
from vlm_describer import sim_clip
from vlm_describer.calibration import CALIBRATION, Calibration, load_calibration
from vlm_describer.clip_model import load_clip
from vlm_describer.locate import locate
from vlm_describer.located import Located
from vlm_describer.naming import Namer, Names, PromptNamer
from vlm_describer.probe import CARD as PROBE_CARD
from vlm_describer.probe import load_probe_namer
from vlm_describer.vocabulary import load_vocabulary


class NamingLooker:
    """Locates, and names each thing by its crop."""

    def __init__(self, namer: Namer) -> None:
        self.identity, self.namer = namer.identity, namer

    def look(self, frame: Frame, base: BaseFrame | None) -> tuple[Located, Names]:
        """As `Looker.look`."""
        located = locate(frame, base)
        return located, self.namer.names(frame, located)


def load_clip_looker(model: str = "", pretrained: str = "", vocabulary: str = "") -> tuple[NamingLooker, Calibration]:
    """Who looks, and what its confidences mean: the shipped sim-clip, a fitted one or a probe in a folder, or a public
    model, which is raw.

    Args:
        model: A folder or a public model's name; empty: the shipped one.
        pretrained: Weights of a public model.
        vocabulary: A file of the user's (`vocabulary.load_vocabulary`). Its wordings hold for what a model names by
            wordings: everything in a public one, the kind of scene in a fitted one. What it adds and the model cannot
            see is said to be unknown.

    Raises:
        UserError: The model cannot be had, or the file is no vocabulary.
        IntegrityError: Its files are damaged.
    """
    own = Path(model).expanduser() if model else sim_clip.SHIPPED
    if not model and not (own / sim_clip.CARD).is_file():
        raise UserError("no model is shipped: fit one (embodied fit describer=clip) and say model=<its out>/model")
    fitted = (own / sim_clip.CARD).is_file()
    if fitted and pretrained:
        raise UserError(f"{model} is the folder of a fitted model, which has its own weights: leave out pretrained=")
    if fitted and (name := sim_clip.read_card(own).get("name")) != sim_clip.NAME:
        raise UserError(f"{model} is the folder of a {name}, not of a {sim_clip.NAME}: say describer=blip")
    words = load_vocabulary(Path(vocabulary).expanduser()) if vocabulary else None
    if fitted:
        # It brings torch, which what is refused above and below does not need.
        from vlm_describer.fit_clip import load_namer

        namer = load_namer(own, words)
        return NamingLooker(namer), load_calibration(own / CALIBRATION, namer.identity)
    if (own / PROBE_CARD).is_file():
        probe = load_probe_namer(own, pretrained, words)
        return NamingLooker(probe), load_calibration(own / CALIBRATION, probe.identity)
    return NamingLooker(PromptNamer(load_clip(model, pretrained), words)), Calibration()
