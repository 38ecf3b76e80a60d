"""A pair of towers that puts pictures and words into one space: ours, or any public `open_clip` model.

`open_clip` itself only warns where weights are missing and goes on with random ones, takes OpenAI's normalisation for
any bare file, and answers a mistyped name with a default tokenizer. Here each of these is an error.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from embodied import hub
from embodied.errors import IntegrityError, UserError, unknown_name
from embodied.types import FloatArray
from vlm_describer import clip_names
from vlm_describer.weights_file import check_weights, objects_in

LOCAL = "local-dir:"
CONFIG = "open_clip_config.json"
CARDS = ("card.json", "probe.json")
"""What is in the folder of a model that was fitted here."""
SUFFIXES = (".safetensors", ".bin", ".pth", ".pt")
BATCH = 64
"""Pictures or texts that go through a tower together."""


@dataclass(frozen=True)
class _Source:
    """Where a model comes from: everything that has to be known before any weights are read."""

    name: str
    """As the library takes it: the architecture, or `local-dir:<folder>`."""
    weights: Path
    """A file, or the folder whose best one the library chooses."""
    preprocess: dict[str, Any]
    """Size, mean, standard deviation and resizing of its pictures."""


class ClipModel:
    """Both towers with their tokenizer and preprocessing; vectors have length 1."""

    def __init__(self, model: Any, tokenizer: Any, preprocess: dict[str, Any], identity: str) -> None:
        """
        Args:
            model: An `open_clip` model; its parameters are frozen.
            tokenizer: Strings to token numbers.
            preprocess: Fields of `open_clip.transform.PreprocessCfg`.
            identity: Name and checksum, by which calibrations are told apart.
        """
        import torch
        from open_clip.transform import PreprocessCfg, image_transform_v2

        self.identity = identity
        self.network = model.eval().requires_grad_(False)
        # A third less time for convolutions on a CPU; the values are the same.
        self.network.visual.to(memory_format=torch.channels_last)
        self._tokenize = tokenizer
        self._prepare = image_transform_v2(PreprocessCfg(**preprocess), is_train=False)

    @property
    def scale(self) -> float:
        """What a cosine is multiplied by to be a logit."""
        return float(self.network.logit_scale.exp())

    def encode_images(self, pictures: Sequence[NDArray[np.uint8]]) -> FloatArray:
        """Pictures, each (H, W, 3), to unit vectors (N, D)."""
        from PIL import Image

        return self._encode([self._prepare(Image.fromarray(picture)) for picture in pictures], "image")

    def encode_texts(self, texts: Sequence[str]) -> FloatArray:
        """Texts to unit vectors (N, D)."""
        return self._encode(list(self._tokenize(list(texts))) if texts else [], "text")

    def _encode(self, items: list[Any], tower: str) -> FloatArray:
        import torch

        encode = getattr(self.network, f"encode_{tower}")
        batches = [torch.stack(items[start : start + BATCH]) for start in range(0, len(items), BATCH)]
        if tower == "image":
            batches = [batch.contiguous(memory_format=torch.channels_last) for batch in batches]
        with torch.inference_mode():
            parts = [encode(batch, normalize=True) for batch in batches]
        return torch.cat(parts).float().numpy() if parts else np.zeros((0, self._width), dtype=np.float32)

    @property
    def _width(self) -> int:
        return int(self.network.visual.output_dim)


def load_clip(model: str, pretrained: str = "") -> ClipModel:
    """A public model with its own weights, normalisation and tokenizer.

    Args:
        model: An architecture that `open_clip` knows, such as `ViT-B-32`, or `local-dir:<folder>`.
        pretrained: A tag that `open_clip` knows for it, the path of a weights file, or `local-dir:<folder>`.

    Raises:
        UserError: Something of it is unknown, missing or not to be had; nothing is guessed, nothing stays random.
        IntegrityError: A weights file that cannot be read or does not fit the architecture.
    """
    source = _source(model, pretrained)
    _check_text_tower(source)
    files = [source.weights] if source.weights.is_file() else _weights_in(source.weights)
    if len(files) == 1:
        check_weights(files[0])
    import open_clip
    from open_clip.factory import _find_checkpoint_in_dir

    bare = source.name if source.name.startswith(LOCAL) else source.name.replace("/", "-")
    with quiet():
        weights = Path(str(_find_checkpoint_in_dir(source.weights))) if source.weights.is_dir() else source.weights
        try:
            network = open_clip.create_model(
                bare,
                pretrained=None if bare.startswith(LOCAL) else str(weights),
                force_preprocess_cfg=source.preprocess,
                require_pretrained=True,
            )
        except Exception as error:  # pickles, safetensors, shapes: whatever it is, this file is not that model's
            if "weights only load failed" in str(error).lower():
                raise IntegrityError(objects_in(weights)) from None
            raise IntegrityError(f"{weights} does not hold weights of {model}: {_first_line(error)}") from None
        tokenizer = open_clip.get_tokenizer(bare)
    refuse_not_finite(network, weights)
    identity = f"{Path(model.removeprefix(LOCAL)).name}-{digest(weights)}"
    return ClipModel(network, tokenizer, network.visual.preprocess_cfg, identity)


def _source(model: str, pretrained: str) -> _Source:
    if model.startswith(LOCAL) or pretrained.startswith(LOCAL):
        chosen = pretrained if pretrained.startswith(LOCAL) else model
        return _from_folder(Path(chosen.removeprefix(LOCAL)).expanduser())
    name = model.replace("/", "-")
    if name not in clip_names.model_names():
        raise _unknown(model)
    tags = clip_names.tags(name)
    if not pretrained:
        raise UserError(f"{model} needs weights: pretrained=<tag, file or {LOCAL}folder>; tags: {', '.join(tags)}")
    file = Path(pretrained).expanduser()
    if file.is_file():
        return _Source(name, file, _preprocess_of_file(name, file, tags))
    if pretrained not in tags:
        if file.is_dir():
            raise _no_weights(pretrained, file)
        if file.is_absolute() or file.suffix in SUFFIXES:
            raise UserError(f"there is no file {pretrained}; give weights of {model}, or a tag: {', '.join(tags)}")
        kind = f"file or tag of {model}"
        raise unknown_name(kind, pretrained, tags)
    return _from_tag(name, pretrained)


def _unknown(model: str) -> UserError:
    """Why a model's name is none, by what it looks like."""
    path = Path(model).expanduser()
    if (path / CONFIG).is_file():
        return UserError(f"{model} was saved by open_clip: say model={LOCAL}{model}")
    if path.is_dir():
        return UserError(f"{model} is no folder of a model: it has neither a card.json nor an {CONFIG}")
    if path.is_absolute():
        return UserError(f"there is no folder {model}; give that of a fitted model, or one of open_clip's names")
    near = get_close_matches(model, clip_names.model_names(), n=3, cutoff=0.5)
    hint = f"; did you mean {', '.join(near)}?" if near else "."
    return UserError(f"unknown model '{model}'{hint} It is a folder of a fitted model, or one of open_clip's names")


def _no_weights(pretrained: str, folder: Path) -> UserError:
    """Why a folder is no weights of a public model, by what it holds."""
    if (folder / CONFIG).is_file():
        return UserError(f"{pretrained} was saved by open_clip: say pretrained={LOCAL}{pretrained}")
    if any((folder / card).is_file() for card in CARDS):
        return UserError(f"{pretrained} is the folder of a fitted model: say model={pretrained} without pretrained=")
    return UserError(f"pretrained={pretrained} is a folder; give a file of weights, a tag or {LOCAL}folder")


def _from_folder(folder: Path) -> _Source:
    config = _config_of(folder / CONFIG)
    if "model_cfg" not in config:
        raise UserError(f"{folder / CONFIG} has no 'model_cfg': it is not a folder that open_clip saved")
    preprocess = _preprocess_in(config, folder / CONFIG)
    if not _weights_in(folder):
        raise UserError(f"{folder} holds no weights (*{', *'.join(SUFFIXES)})")
    return _Source(f"{LOCAL}{folder}", folder, preprocess)


def _weights_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)


def _config_of(path: Path) -> dict[str, Any]:
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent}")
    try:
        config = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path.parent} has no {CONFIG}: it is not a folder that open_clip saved") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {_first_line(error)}") from None
    if not isinstance(config, dict):
        raise UserError(f"{path} holds no JSON object")
    return config


def _preprocess_in(config: dict[str, Any], path: Path) -> dict[str, Any]:
    preprocess = config.get("preprocess_cfg")
    if not isinstance(preprocess, dict) or not {"mean", "std"} <= set(preprocess):
        raise UserError(f"{path} has no 'preprocess_cfg' with mean and std: how its pictures are made ready is unknown")
    return preprocess


def _preprocess_of_file(name: str, weights: Path, tags: Sequence[str]) -> dict[str, Any]:
    """Beside the file, or what all of the architecture's known weights have in common."""
    beside = weights.parent / CONFIG
    if beside.is_file():
        return _preprocess_in(_config_of(beside), beside)
    keys = ("mean", "std", "interpolation", "resize_mode")
    known = {json.dumps({k: v for k in keys if (v := clip_names.weights_config(name, tag).get(k))}) for tag in tags}
    if len(known) != 1:
        raise UserError(
            f"the normalisation of {weights} is not known: put the model's {CONFIG} with its 'preprocess_cfg' beside it"
        )
    return json.loads(known.pop())


def _from_tag(name: str, tag: str) -> _Source:
    config = clip_names.weights_config(name, tag)
    repository, _, filename = str(config.get("hf_hub", "")).rpartition("/")
    if repository:
        names = (filename,) if filename else ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
        there = [path for each in names if (path := hub.cached(repository, each))]
        return _Source(name, there[0] if there else hub.fetch(repository, names[-1]), config)
    hub.require(urlsplit(str(config["url"])).hostname or hub.HUB, f"pretrained={tag}")
    from open_clip.pretrained import download_pretrained

    return _Source(name, Path(download_pretrained(config)), config)


def _check_text_tower(source: _Source) -> None:
    """A text tower from the hub: its configuration and tokenizer have to be here or to be had."""
    local = source.name.startswith(LOCAL)
    config = _config_of(source.weights / CONFIG)["model_cfg"] if local else clip_names.model_config(source.name)
    text = config.get("text_cfg", {})
    for key, filename in (("hf_model_name", "config.json"), ("hf_tokenizer_name", "tokenizer_config.json")):
        name = text.get(key)
        if not name:
            continue
        if key == "hf_tokenizer_name" and local:
            if not (source.weights / filename).is_file():
                raise UserError(f"{source.weights} has no {filename}: the tokenizer of its text tower is missing")
        elif not Path(name).is_dir():
            hub.fetch(name, filename)


def refuse_not_finite(network: Any, weights: Path) -> None:
    """IntegrityError where a network's numbers are not all finite: it would name everything with confidence nan."""
    import torch

    bad = next((name for name, value in network.named_parameters() if not torch.isfinite(value).all()), None)
    if bad is not None:
        raise IntegrityError(f"{weights} holds numbers that are not finite (in {bad}): it is not used; get it again")


def digest(path: Path) -> str:
    """The first 16 digits of a file's sha256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


@contextmanager
def quiet() -> Iterator[None]:
    """Without the libraries' remarks and progress bars: what is wrong is raised here."""
    from transformers.utils import logging as transformers_logging

    before, bars = logging.root.manager.disable, transformers_logging.is_progress_bar_enabled()
    logging.disable(logging.CRITICAL)
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.disable(before)
        if bars:
            transformers_logging.enable_progress_bar()
