"""Small models with the real architectures, made on the spot: what a user's folders and files look like."""

from __future__ import annotations

import json
from pathlib import Path

import torch

CLIP_CONFIG = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
}
PREPROCESS = {"size": 32, "mean": [0.1, 0.2, 0.3], "std": [0.5, 0.6, 0.7], "resize_mode": "squash"}
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "[DEC]",
    "[ENC]",
    *["a", "red", "blue", "block", "ball", "on", "the", "table", "of", "and", "picture"],
]


def clip_network(seed: int = 0) -> torch.nn.Module:
    """A random `open_clip` model of `CLIP_CONFIG`."""
    from open_clip import CLIP

    torch.manual_seed(seed)
    return CLIP(**CLIP_CONFIG)


def save_clip(folder: Path, preprocess: dict | None = PREPROCESS, weights: str = "open_clip_model.safetensors") -> Path:
    """The folder that open_clip's `local-dir:` reads."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    config: dict = {"model_cfg": CLIP_CONFIG}
    if preprocess is not None:
        config["preprocess_cfg"] = preprocess
    (folder / "open_clip_config.json").write_text(json.dumps(config), "utf-8")
    state = {name: value.contiguous() for name, value in clip_network().state_dict().items()}
    save_file(state, folder / weights)
    return folder


def save_blip(folder: Path) -> Path:
    """A folder of a random BLIP captioning model."""
    from transformers import BertTokenizerFast, BlipConfig, BlipForConditionalGeneration, BlipImageProcessor

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"))
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"bos_token_id": WORDS.index("[DEC]"), "sep_token_id": WORDS.index("[SEP]"), "pad_token_id": 0}
    text = {**size, **ends, "eos_token_id": WORDS.index("[SEP]"), "vocab_size": len(WORDS), "encoder_hidden_size": 32}
    vision = {**size, "image_size": 32, "patch_size": 16}
    torch.manual_seed(0)
    config = BlipConfig(text_config=text, vision_config=vision, projection_dim=16)
    BlipForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    BlipImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder
