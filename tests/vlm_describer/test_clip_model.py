"""Public CLIP models: right weights and normalisation, or one line that says what is missing."""

from __future__ import annotations

import json
import shutil
import socket
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from embodied import hub
from embodied.errors import IntegrityError, UserError
from vlm_describer.clip_model import load_clip
from vlm_describer.sim_clip import SHIPPED

PICTURE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def folder(small_models: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_models.save_clip(tmp_path_factory.mktemp("clip") / "tiny")


@pytest.fixture
def architecture(small_models: ModuleType, tmp_path: Path) -> str:
    """A name that the library knows, as it knows ViT-B-32."""
    import open_clip

    path = tmp_path / "tiny-for-tests.json"
    path.write_text(json.dumps(small_models.CLIP_CONFIG), "utf-8")
    open_clip.add_model_config(path)
    return path.stem


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **settings: object) -> socket.socket:
        raise OSError("no network here")

    monkeypatch.setattr(socket, "create_connection", refuse)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


def test_a_folder_gives_its_own_weights_and_normalisation(folder: Path, small_models: ModuleType) -> None:
    model = load_clip(f"local-dir:{folder}")
    mean, std = np.array(small_models.PREPROCESS["mean"]), np.array(small_models.PREPROCESS["std"])
    plain = np.full((32, 32, 3), 200, dtype=np.uint8)
    pixels = torch.from_numpy(((plain / 255 - mean) / std).astype(np.float32).transpose(2, 0, 1))[None]
    expected = small_models.clip_network().eval().encode_image(pixels, normalize=True).detach().numpy()
    np.testing.assert_allclose(model.encode_images([plain]), expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(model.encode_texts(["a red block", "a ball"]), axis=1), 1.0, atol=1e-5)


def test_a_batch_is_the_same_as_one_by_one(folder: Path) -> None:
    model = load_clip(f"local-dir:{folder}")
    pictures = [PICTURE, PICTURE[:, ::-1].copy(), PICTURE[:20]]
    together = model.encode_images(pictures)
    np.testing.assert_allclose(together, np.vstack([model.encode_images([p]) for p in pictures]), atol=1e-5)
    assert model.encode_images([]).shape == (0, together.shape[1])
    assert model.encode_texts([]).shape == (0, together.shape[1])


def test_identity_follows_the_weights(folder: Path, tmp_path: Path, small_models: ModuleType) -> None:
    same = shutil.copytree(folder, tmp_path / "tiny")
    assert load_clip(f"local-dir:{same}").identity == load_clip(f"local-dir:{folder}").identity
    other = shutil.copytree(folder, tmp_path / "other" / "tiny")
    from safetensors.torch import load_file, save_file

    state = load_file(other / "open_clip_model.safetensors")
    save_file({**state, "logit_scale": state["logit_scale"] + 1}, other / "open_clip_model.safetensors")
    assert load_clip(f"local-dir:{other}").identity != load_clip(f"local-dir:{folder}").identity


def test_a_file_needs_to_say_how_its_pictures_are_made_ready(
    architecture: str, folder: Path, tmp_path: Path, small_models: ModuleType
) -> None:
    bare = tmp_path / "bare" / "weights.safetensors"
    bare.parent.mkdir()
    shutil.copy(folder / "open_clip_model.safetensors", bare)
    with pytest.raises(UserError, match="normalisation of .*weights.safetensors is not known"):
        load_clip(architecture, str(bare))
    shutil.copy(folder / "open_clip_config.json", bare.parent)
    told = load_clip(architecture, str(bare)).encode_images([PICTURE])
    np.testing.assert_allclose(told, load_clip(f"local-dir:{folder}").encode_images([PICTURE]), atol=1e-5)


def test_a_file_of_an_architecture_with_one_normalisation_has_that(tmp_path: Path) -> None:
    from open_clip import list_pretrained_tags_by_model

    from vlm_describer.clip_model import _preprocess_of_file

    tags = list_pretrained_tags_by_model("ViT-B-32")
    found = _preprocess_of_file("ViT-B-32", tmp_path / "weights.pt", tags)
    assert len(tags) > 3
    assert found["mean"] == pytest.approx([0.48145466, 0.4578275, 0.40821073])


@pytest.mark.parametrize(
    ("model", "pretrained", "says"),
    [
        ("ViT-B-23", "openai", "unknown model 'ViT-B-23'; did you mean ViT-B-"),
        ("ViT-B-32", "", "needs weights: pretrained="),
        ("ViT-B-32", "opnai", "unknown file or tag of ViT-B-32 'opnai' .*did you mean 'openai'"),
        ("local-dir:/nowhere/at/all", "", "there is no folder /nowhere/at/all"),
        ("ViT-B-32", "local-dir:/nowhere/at/all", "there is no folder"),
        ("ViT-B-32", str(SHIPPED), "is the folder of a fitted model: say model=.* without pretrained="),
        ("ViT-B-32", str(SHIPPED.parent), "is a folder; give a file of weights, a tag or local-dir:folder"),
    ],
)
def test_what_is_not_there_is_named(model: str, pretrained: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        load_clip(model, pretrained)


def test_folders_that_lack_something(folder: Path, tmp_path: Path, small_models: ModuleType) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UserError, match="has no open_clip_config.json"):
        load_clip(f"local-dir:{empty}")
    with pytest.raises(UserError, match="no 'preprocess_cfg'"):
        load_clip(f"local-dir:{small_models.save_clip(tmp_path / 'plain', preprocess=None)}")
    bare = shutil.copytree(folder, tmp_path / "weightless")
    (bare / "open_clip_model.safetensors").unlink()
    with pytest.raises(UserError, match="holds no weights"):
        load_clip(f"local-dir:{bare}")
    (bare / "open_clip_model.safetensors").write_bytes(b"not weights")
    with pytest.raises(IntegrityError, match="no whole .safetensors file"):
        load_clip(f"local-dir:{bare}")


def test_weights_of_another_shape_are_refused(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    config = json.loads((other / "open_clip_config.json").read_text())
    config["model_cfg"]["vision_cfg"]["width"] = 64
    (other / "open_clip_config.json").write_text(json.dumps(config))
    with pytest.raises(IntegrityError, match="does not hold weights"):
        load_clip(f"local-dir:{other}")


def test_weights_that_are_no_numbers_are_refused(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    broken = Path(shutil.copytree(folder, tmp_path / "broken"))
    (weights,) = broken.glob("*.safetensors")
    values = load_file(weights)
    values[next(iter(values))].view(-1)[0] = float("nan")
    save_file(values, weights)
    with pytest.raises(IntegrityError, match="not finite"):
        load_clip(f"local-dir:{broken}")


def test_a_text_tower_needs_its_tokenizer(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "worded")
    config = json.loads((other / "open_clip_config.json").read_text())
    config["model_cfg"]["text_cfg"] = {"hf_model_name": str(tmp_path), "hf_tokenizer_name": "some/typo"}
    (other / "open_clip_config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="tokenizer"):
        load_clip(f"local-dir:{other}")


@pytest.mark.usefixtures("no_network")
def test_no_network_is_said_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(UserError, match="does not answer .*local-dir"):
        load_clip("ViT-B-32", "laion2b_s34b_b79k")
    assert time.monotonic() - began < 5.0


def test_offline_is_obeyed_whenever_it_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *a, **k: pytest.fail("asked the network"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        load_clip("ViT-B-32", "laion2b_s34b_b79k")


def test_a_silent_host_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    asked: list[tuple[object, object]] = []

    def silent(address: tuple[str, int], timeout: float) -> socket.socket:
        asked.append((address, timeout))
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", silent)
    with pytest.raises(UserError, match="example.org does not answer"):
        hub.require("example.org", "a file")
    assert asked == [(("example.org", 443), hub.CONNECT_S)]
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    with pytest.raises(UserError, match="proxy.example does not answer"):
        hub.require("example.org", "a file")
