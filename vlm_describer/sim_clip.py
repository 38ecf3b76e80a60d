"""sim-clip: a small image tower beside MiniLM, fitted to rendered crops, with small heads on what it sees.

Its architecture is written into a temporary folder when it is loaded, because only then it is known where the text
tower lies. That tower is locked; what is learned is the image tower and one projection of the text. What the two
together are for is naming: kind, colour and size of the one thing in a crop, and the kind of scene in a frame. Counts,
relations and negation are not: MiniLM cannot tell them apart (`words_report.cosines`).
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from embodied.errors import IntegrityError, UserError
from embodied.text_encoder import model_folder
from vlm_describer.clip_model import ClipModel, digest, quiet

NAME = "sim-clip"
SHIPPED = Path(__file__).resolve().parent / "weights" / "sim_clip"
WEIGHTS, CARD = "model.safetensors", "card.json"
LOCKED = "text.transformer."
"""Parameters of the text tower, which come from its own package."""
MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)


@dataclass(frozen=True)
class SimClipConfig:
    """The image tower: a ModifiedResNet (Radford et al. 2021, arXiv 2103.00020), much narrower."""

    image_size: int = 64
    """Side of a crop in pixels."""
    layers: tuple[int, ...] = (1, 1, 1, 1)
    """Blocks of each stage."""
    width: int = 24
    """Channels of the first stage."""
    embed_dim: int = 128
    """Of the space that crops and words share."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))


def build(config: SimClipConfig) -> tuple[Any, Any]:
    """The network with a loaded text tower and random image tower, and its tokenizer.

    Raises:
        UserError: The text tower's package is missing.
    """
    import open_clip

    folder = str(model_folder())
    told = {
        "embed_dim": config.embed_dim,
        "vision_cfg": {"image_size": config.image_size, "layers": list(config.layers), "width": config.width},
        "text_cfg": {
            "hf_model_name": folder,
            "hf_tokenizer_name": folder,
            "hf_pooler_type": "mean_pooler",
            "hf_proj_type": "linear",
        },
    }
    with tempfile.TemporaryDirectory() as inside, quiet():
        (Path(inside) / f"{NAME}.json").write_text(json.dumps(told), "utf-8")
        open_clip.add_model_config(inside)
        network = open_clip.create_model(NAME, load_weights=False, pretrained_text=True)
        tokenizer = open_clip.get_tokenizer(NAME, context_length=32)
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(not name.startswith(LOCKED))
    return network, tokenizer


def learned(network: Any) -> dict[str, Any]:
    """What a weights file holds: every tensor but the text tower's."""
    return {name: value for name, value in network.state_dict().items() if not name.startswith(LOCKED)}


def preprocess(config: SimClipConfig) -> dict[str, Any]:
    """How its pictures are made ready."""
    return {"size": config.image_size, "mean": MEAN, "std": STD, "interpolation": "bilinear", "resize_mode": "squash"}


def wrap(network: Any, tokenizer: Any, config: SimClipConfig, identity: str) -> ClipModel:
    """The network as a `ClipModel`."""
    return ClipModel(network, tokenizer, preprocess(config), identity)


def save(network: Any, config: SimClipConfig, folder: Path, card: dict[str, Any]) -> None:
    """Weights in half precision, and card; the card says what made them."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    halves = {name: value.half() if value.is_floating_point() else value for name, value in learned(network).items()}
    save_file({name: value.contiguous() for name, value in halves.items()}, folder / WEIGHTS)
    told = {"name": NAME, "config": asdict(config), "weights": digest(folder / WEIGHTS), **card}
    (folder / CARD).write_text(json.dumps(told, indent=1) + "\n", "utf-8")


def load_sim_clip(folder: Path | None = None) -> ClipModel:
    """The shipped model, or the one that was fitted into `folder`.

    Raises:
        UserError: There is no such model.
        IntegrityError: Weights and card do not belong together.
    """
    from safetensors.torch import load_file

    folder = SHIPPED if folder is None else folder
    card = read_card(folder)
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder} has no {WEIGHTS}; make it with: embodied fit describer=clip out={folder}")
    identity = digest(folder / WEIGHTS)
    if identity != card.get("weights"):
        raise IntegrityError(f"{folder / WEIGHTS} is not the file that {CARD} describes; fit it again")
    try:
        config = SimClipConfig(**card["config"])
        network, tokenizer = build(config)
        missing, unexpected = network.load_state_dict(load_file(folder / WEIGHTS), strict=False)
    except UserError:
        raise
    except RuntimeError:
        raise IntegrityError(_other_network(folder)) from None
    except (KeyError, TypeError, ValueError) as error:
        line = str(error).splitlines()[0][:200]
        raise IntegrityError(f"the config in {folder / CARD} is none of a {NAME} ({line}); fit it again") from None
    if unexpected or any(not name.startswith(LOCKED) for name in missing):
        raise IntegrityError(_other_network(folder))
    return wrap(network, tokenizer, config, f"{NAME}-{identity}")


def _other_network(folder: Path) -> str:
    return f"the config in {folder / CARD} is of another network than {WEIGHTS}: put its own back, or fit it again"


def read_card(folder: Path) -> dict[str, Any]:
    """What is said about a fitted model.

    Raises:
        UserError: The folder has no card.
        IntegrityError: It is no JSON object.
    """
    try:
        card = json.loads((folder / CARD).read_text("utf-8"))
    except OSError:
        raise UserError(f"{folder} has no {CARD}: it is not the folder of a fitted model") from None
    except ValueError:
        raise IntegrityError(f"{folder / CARD} is not JSON; fit the model again") from None
    if not isinstance(card, dict):
        raise IntegrityError(f"{folder / CARD} is not a JSON object; fit the model again")
    return card
