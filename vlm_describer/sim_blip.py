"""sim-blip: a small BLIP captioner with a vocabulary of a few dozen words, fitted to captions of rendered frames."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embodied.colours import COLOURS
from vlm_describer.examples import KINDS, SCENES
from vlm_describer.sim_clip import CARD

NAME = "sim-blip"
SHIPPED = Path(__file__).resolve().parent / "weights" / "sim_blip"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[DEC]", "[ENC]")
"""As BERT's vocabulary begins; a BLIP decoder starts at [DEC] and ends at [SEP]."""
WORDS = tuple(
    dict.fromkeys(("a", "an", "and", ",", "on", "in", "with", "nothing", *SCENES, *COLOURS, *KINDS[:-1], "unknown"))
)
"""All that a caption is made of, in a fixed order."""


@dataclass(frozen=True)
class SimBlipConfig:
    """Sizes of both transformers."""

    image_size: int = 320
    """Side of the square that a picture is squashed to."""
    patch_size: int = 20
    vision_width: int = 192
    vision_layers: int = 5
    text_width: int = 128
    text_layers: int = 3
    heads: int = 4
    max_tokens: int = 96


def build(config: SimBlipConfig) -> tuple[Any, Any, Any]:
    """A random network, its tokenizer and its image processor."""
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
    side = {"height": config.image_size, "width": config.image_size}
    images = BlipImageProcessor(size=side, image_mean=[0.5] * 3, image_std=[0.25] * 3)
    return network, tokenizer, images


def save(network: Any, tokenizer: Any, images: Any, folder: Path, card: Mapping[str, Any]) -> None:
    """As `transformers` keeps any BLIP model, weights in half precision, with a card that says what made them."""
    import torch

    network.to(torch.float16).save_pretrained(folder)
    network.to(torch.float32)
    tokenizer.save_pretrained(folder)
    images.save_pretrained(folder)
    (folder / CARD).write_text(json.dumps({"name": NAME, **card}, indent=1) + "\n", "utf-8")
