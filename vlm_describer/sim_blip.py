"""sim-blip: a small BLIP captioner with a vocabulary of a few dozen words, fitted to crops of rendered frames.

It captions what was located, each thing as a sheet of `vlm_describer.blip_sheets`: `red block`, `robot`, `nothing`,
`thing`; and a small picture of a whole frame by the kind of scene, `table`. `vlm_describer.blip_crops` makes a sentence
of these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embodied.colours import COLOURS
from embodied.errors import IntegrityError
from embodied.types import FloatArray
from vlm_describer.blip_model import BlipModel, load_blip
from vlm_describer.clip_model import digest
from vlm_describer.examples import KINDS, SCENES
from vlm_describer.naming import SIDE
from vlm_describer.sim_clip import CARD, read_card

NAME = "sim-blip"
SHIPPED = Path(__file__).resolve().parent / "weights" / "sim_blip"
WEIGHTS = "model.safetensors"
CAPTIONS, SHEETS = "captions", "sheets of crops"
"""What a card says of a model that is to be shown crops, put together as `blip_sheets` does."""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[DEC]", "[ENC]")
"""As BERT's vocabulary begins; a BLIP decoder starts at [DEC] and ends at [SEP]."""
WORDS = (*SCENES, *COLOURS, *KINDS)
"""All that a caption is made of, in a fixed order; a token each."""
MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
PLACES_SCALE = 0.5
"""Of the sines that tell patches their places, beside patches of about 1."""


@dataclass(frozen=True)
class SimBlipConfig:
    """Sizes of both transformers."""

    image_size: int = SIDE
    """Side of a sheet."""
    patch_size: int = 16
    """A quarter of a tile: things lie in the middle of a sheet's tiles, so that a patch shows the same part of each."""
    vision_width: int = 160
    vision_layers: int = 4
    text_width: int = 96
    text_layers: int = 2
    heads: int = 4
    max_tokens: int = 8


def build(config: SimBlipConfig) -> tuple[Any, Any, Any]:
    """A random network, its tokenizer and its image processor; torch's generator is drawn from."""
    from transformers import BertTokenizer, BlipConfig, BlipForConditionalGeneration, BlipImageProcessor

    vocabulary = {word: index for index, word in enumerate((*SPECIAL, *WORDS))}
    # Without the beginning's own name it is taken for a word of the sentence.
    tokenizer = BertTokenizer(vocab=vocabulary, bos_token="[DEC]", additional_special_tokens=["[ENC]"])
    end = SPECIAL.index("[SEP]")
    text = {
        "hidden_size": config.text_width,
        "intermediate_size": 4 * config.text_width,
        "num_hidden_layers": config.text_layers,
        "num_attention_heads": config.heads,
        "encoder_hidden_size": config.vision_width,
        "vocab_size": len(SPECIAL) + len(WORDS),
        "max_position_embeddings": config.max_tokens,
        "bos_token_id": SPECIAL.index("[DEC]"),
        "sep_token_id": end,
        "eos_token_id": end,
        "pad_token_id": SPECIAL.index("[PAD]"),
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    vision = {
        "hidden_size": config.vision_width,
        "intermediate_size": 4 * config.vision_width,
        "num_hidden_layers": config.vision_layers,
        "num_attention_heads": config.heads,
        "image_size": config.image_size,
        "patch_size": config.patch_size,
    }
    network = BlipForConditionalGeneration(
        BlipConfig(text_config=text, vision_config=vision, projection_dim=64, label_smoothing=0.0)
    )
    _start(network)
    side = {"height": config.image_size, "width": config.image_size}
    images = BlipImageProcessor(size=side, image_mean=MEAN, image_std=STD)
    return network, tokenizer, images


def save(network: Any, tokenizer: Any, images: Any, folder: Path, card: Mapping[str, Any]) -> None:
    """As `transformers` keeps any BLIP model, weights in half precision, with a card that says what made them."""
    import torch

    network.to(torch.float16).save_pretrained(folder)
    network.to(torch.float32)
    tokenizer.save_pretrained(folder)
    images.save_pretrained(folder)
    told = {"name": NAME, CAPTIONS: SHEETS, "weights": digest(folder / WEIGHTS), **card}
    (folder / CARD).write_text(json.dumps(told, indent=1) + "\n", "utf-8")


def is_sim_blip(folder: Path) -> bool:
    """Whether a folder holds a model whose card says that it captions crops.

    Raises:
        IntegrityError: Its card cannot be read.
    """
    return (folder / CARD).is_file() and read_card(folder).get(CAPTIONS) == SHEETS


def load_sim_blip(folder: Path | None = None) -> BlipModel:
    """The shipped model, or the one that was fitted into `folder`.

    Raises:
        UserError: There is no such model, or something of it is missing.
        IntegrityError: Weights and card do not belong together.
    """
    folder = SHIPPED if folder is None else folder
    card = read_card(folder)
    model = load_blip(str(folder), NAME)
    if model.identity != f"{NAME}-{card.get('weights')}":
        raise IntegrityError(f"{folder / WEIGHTS} is not the file that {CARD} describes; fit it again")
    _refuse_changed(model, folder)
    return model


def _refuse_changed(model: BlipModel, folder: Path) -> None:
    """IntegrityError where other files than the weights were changed, so that it would not see as fitted:
    `transformers` passes over weights that a configuration leaves out."""
    from safetensors import safe_open

    with safe_open(folder / WEIGHTS, "numpy") as file:
        kept = set(file.keys())
    if not kept <= set(model.network.state_dict()):
        raise IntegrityError(f"{folder}/config.json describes another network than {WEIGHTS}: put its own back")
    if model.normalisation != (MEAN, STD):
        raise IntegrityError(f"{folder}/preprocessor_config.json is not that of a {NAME}: put its own back")


def _start(network: Any) -> None:
    """Weights that a small transformer learns from. `transformers` makes those of BLIP's image tower 1e-10 large, since
    it is meant to be loaded: all pictures would look alike for long. What its decoder takes from the tower is faint.

    Matrices as in Glorot and Bengio 2010; places as sines of rows and columns (Beyer et al. 2022, arXiv 2205.01580).
    """
    import torch

    for name, parameter in network.named_parameters():
        if parameter.ndim == 4:
            torch.nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
        elif parameter.ndim == 2 and "embeddings" not in name and "predictions.decoder" not in name:
            torch.nn.init.xavier_uniform_(parameter)
    places = network.vision_model.embeddings.position_embedding
    with torch.no_grad():
        side = round((places.shape[1] - 1) ** 0.5)
        places[0, 1:] = torch.from_numpy(PLACES_SCALE * _sines(side, places.shape[2]))


def _sines(side: int, width: int) -> FloatArray:
    """(side * side, width) sines and cosines of each patch's column and row."""
    rates = 1e4 ** -(np.arange(width // 4) / (width // 4))
    rows, columns = (grid.reshape(-1, 1) * rates for grid in np.mgrid[:side, :side])
    waves = [np.sin(columns), np.cos(columns), np.sin(rows), np.cos(rows)]
    return np.concatenate(waves, axis=1).astype(np.float32)
