"""A picture to a sentence: ours, or any public BLIP model.

Li et al. 2022, "BLIP: Bootstrapping Language-Image Pre-training" (arXiv 2201.12086). What `transformers` returns still
holds the prompt, and may repeat itself; here the prompt is taken off and no three words come twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embodied import hub
from embodied.errors import IntegrityError, UserError
from embodied.types import FloatArray
from vlm_describer.clip_model import digest, quiet, refuse_not_finite
from vlm_describer.weights_file import check_weights

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
NEEDED = ("config.json", "preprocessor_config.json")
TOKENIZERS = ("tokenizer.json", "vocab.txt")
KIND = "blip"
"""`model_type` in the configuration of a BLIP model."""
NO_REPEAT = 3
"""No sequence of so many tokens comes twice in a sentence."""


@dataclass(frozen=True)
class Sentence:
    """What a captioner says of a picture."""

    text: str
    chance: float
    """Its probability to the power 1 / length, in [0, 1]."""
    word_chances: tuple[float, ...]
    """Of each word of `text.split()`: the probability of its tokens, given what comes before."""
    choices: FloatArray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """(T, K) of each token that was made, its end among them: the probability that it had been each of the K words that
    were asked about."""


class BlipModel:
    """A captioning network with its tokenizer and preprocessing."""

    def __init__(self, network: Any, tokenizer: Any, image_processor: Any, identity: str) -> None:
        """
        Args:
            network: A `transformers.BlipForConditionalGeneration`; its parameters are frozen.
            tokenizer: Of its text decoder.
            image_processor: Pictures to its inputs.
            identity: Name and checksum.
        """
        self.identity = identity
        self.network = network.eval().requires_grad_(False)
        self.tokenizer, self._prepare = tokenizer, image_processor

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of its pictures' channels."""
        return tuple(self._prepare.image_mean), tuple(self._prepare.image_std)

    def captions(
        self, pictures: Sequence[NDArray[np.uint8]], prompt: str = "", max_tokens: int = 60, words: Sequence[str] = ()
    ) -> list[Sentence]:
        """A sentence for each picture (H, W, 3).

        Greedy decoding: the same picture gives the same sentence. The prompt is not part of the sentence.

        Args:
            pictures: Of any sizes.
            prompt: Words that sentences begin with.
            max_tokens: A sentence's longest, also bounded by the network's own length.
            words: Whose probabilities are wanted at each token (`Sentence.choices`), a token each.
        """
        import torch

        if not pictures:
            return []
        found = self._generated(pictures, prompt, max_tokens)
        scores = self.network.text_decoder.compute_transition_scores(
            found.sequences, found.scores, normalize_logits=True
        )
        asked = self.tokenizer.convert_tokens_to_ids(list(words))
        choices = torch.stack([step.softmax(dim=-1)[:, asked] for step in found.scores], dim=1).numpy()
        return [
            self._sentence(ids.tolist(), row.exp().tolist(), prompt, choice)
            for ids, row, choice in zip(found.sequences, scores, choices, strict=True)
        ]

    def _generated(self, pictures: Sequence[NDArray[np.uint8]], prompt: str, max_tokens: int) -> Any:
        """What `transformers` returns."""
        import torch

        # Copies: PIL's pictures may not be written to, of which torch warns.
        pixels = self._prepare(images=[np.array(each) for each in pictures], return_tensors="pt")["pixel_values"]
        words = self.tokenizer([prompt] * len(pictures), return_tensors="pt") if prompt else None
        given = {"input_ids": words["input_ids"], "attention_mask": words["attention_mask"]} if words else {}
        begun = words["input_ids"].shape[1] if words else 1
        longest = self.network.config.text_config.max_position_embeddings - begun
        with torch.inference_mode():
            return self.network.generate(
                pixel_values=pixels,
                **given,
                max_new_tokens=max(1, min(max_tokens, longest)),
                num_beams=1,
                do_sample=False,
                no_repeat_ngram_size=NO_REPEAT,
                output_scores=True,
                return_dict_in_generate=True,
            )

    def _sentence(self, ids: list[int], chances: list[float], prompt: str, choices: FloatArray) -> Sentence:
        """The sentence of one row of tokens: the prompt's and those that were made, each with its probability.

        What comes after its end is filling.
        """
        given, made = ids[: -len(chances)], ids[-len(chances) :]
        end = self.network.config.text_config.sep_token_id
        length = made.index(end) + 1 if end in made else len(made)
        kept = list(zip(made[:length], chances[:length], strict=True))
        mean = float(np.exp(np.mean([np.log(max(chance, 1e-12)) for _, chance in kept])))
        text = _without(prompt, self._text([*given, *made[:length]]))
        ends = [len(self._text([token for token, _ in kept[: n + 1]]).split()) for n in range(len(kept))]
        words = [1.0] * len(text.split())
        for word, (_, chance) in zip(ends, kept, strict=True):
            if 0 < word <= len(words):
                words[word - 1] *= chance
        return Sentence(text, mean, tuple(words), choices[:length])

    def _text(self, ids: list[int]) -> str:
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text


def load_blip(model: str, name: str = "") -> BlipModel:
    """A BLIP model from a folder, or by its hub name from the cache or the hub.

    Args:
        model: Folder or hub name.
        name: What its identity begins with; its folder's name where empty.

    Raises:
        UserError: There is no such folder or model, or something of it is missing.
        IntegrityError: Its files do not hold a BLIP captioning model.
    """
    folder = _folder_of(model)
    check_weights(_weights_of(folder))
    with quiet():
        network, tokenizer, images = _read(folder)
    refuse_not_finite(network, folder)
    return BlipModel(network, tokenizer, images, f"{name or folder.name}-{digest(_weights_of(folder))}")


def _read(folder: Path) -> tuple[Any, Any, Any]:
    from transformers import AutoTokenizer, BlipForConditionalGeneration, BlipImageProcessor

    try:
        loaded: Any = BlipForConditionalGeneration.from_pretrained(
            folder, local_files_only=True, output_loading_info=True, dtype="float32"
        )
        network, told = loaded
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        images = BlipImageProcessor.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # transformers has no error of its own for a damaged folder
        line = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        if "ignore_mismatched_sizes" in line:
            line = f"its {NEEDED[0]} describes another network than its weights are of"
        raise IntegrityError(f"{folder} does not hold a BLIP captioning model: {line}") from None
    missing = sorted(told["missing_keys"]) or sorted(str(key) for key in told["mismatched_keys"])
    if missing:
        raise IntegrityError(f"{folder} lacks weights of {missing[0]}: it is not used")
    return network, tokenizer, images


def _folder_of(model: str) -> Path:
    path = Path(model).expanduser()
    if path.is_dir():
        _check_folder(path)
        return path
    if path.exists() or model.startswith((".", "/", "~")) or model.count("/") != 1:
        raise UserError(
            f"model={model} is neither a folder nor a hub name such as Salesforce/blip-image-captioning-base"
        )
    config = hub.fetch(model, NEEDED[0], hub.FOLDER)
    _check_kind(config)
    for names in (NEEDED[1:], WEIGHTS, TOKENIZERS):
        if not any(hub.cached(model, name) for name in names):
            hub.fetch(model, names[0], hub.FOLDER)
    return config.parent


def _check_folder(folder: Path) -> None:
    for name in NEEDED:
        if not (folder / name).is_file():
            raise UserError(f"{folder} has no {name}: it is not the folder of a BLIP model")
    _check_kind(folder / NEEDED[0])
    for what, names in (("weights", WEIGHTS), ("tokenizer", TOKENIZERS)):
        if not any((folder / name).is_file() for name in names):
            raise UserError(f"{folder} has no {what} ({' or '.join(names)})")


def _check_kind(config: Path) -> None:
    try:
        kind = json.loads(config.read_text("utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError):
        raise IntegrityError(f"{config} is no configuration of a model") from None
    if kind != KIND:
        raise UserError(f"{config} describes a model of type {kind!r}; describer=blip takes {KIND!r}")


def _weights_of(folder: Path) -> Path:
    return next(folder / name for name in WEIGHTS if (folder / name).is_file())


def _without(prompt: str, text: str) -> str:
    """The text without the prompt, whose spacing the tokenizer may have changed."""
    start, plain = " ".join(prompt.lower().split()), " ".join(text.split())
    return plain[len(start) :].strip() if start and plain.lower().startswith(start) else plain
