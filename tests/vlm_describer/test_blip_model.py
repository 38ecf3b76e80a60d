"""Public BLIP models: sentences without prompt and repetition, or one line that says what is missing."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from embodied.errors import IntegrityError, UserError
from vlm_describer import sim_blip
from vlm_describer.blip_model import BlipModel, load_blip

PICTURES = list(np.random.default_rng(0).integers(0, 256, (3, 40, 50, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def folder(small_models: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_models.save_blip(tmp_path_factory.mktemp("blip") / "tiny")


def test_the_prompt_is_no_part_of_the_sentence(folder: Path) -> None:
    model = load_blip(str(folder))
    prompt = "a picture of"
    for said in model.captions(PICTURES, prompt, max_tokens=12):
        assert not said.text.startswith(prompt)
        assert said.text
        assert 0.0 < said.chance <= 1.0
        assert len(said.word_chances) == len(said.text.split())
        product = np.prod(said.word_chances)
        assert 0.0 < product < 1.0


def test_a_sentence_is_the_same_alone_and_in_a_batch(folder: Path) -> None:
    model = load_blip(str(folder))
    together = [said.text for said in model.captions(PICTURES, max_tokens=10)]
    assert together == [model.captions([picture], max_tokens=10)[0].text for picture in PICTURES]
    assert model.captions([]) == []


def test_probabilities_are_the_same_alone_and_in_a_batch() -> None:
    torch.manual_seed(0)
    sizes = sim_blip.SimBlipConfig(vision_width=32, vision_layers=1, text_width=32, text_layers=1)
    network, tokenizer, images = sim_blip.build(sizes)
    for parameter in network.text_decoder.parameters():
        parameter.data *= 8
    model = BlipModel(network, tokenizer, images, "made")
    pictures = list(
        np.random.default_rng(0).integers(0, 256, (12, 1, 1, 3), dtype=np.uint8).repeat(48, 1).repeat(48, 2)
    )
    together = model.captions(pictures, words=("red", "block"))
    assert len({len(said.choices) for said in together}) > 1
    for picture, said in zip(pictures, together, strict=True):
        (alone,) = model.captions([picture], words=("red", "block"))
        assert said.text == alone.text
        assert said.chance == pytest.approx(alone.chance, abs=1e-4)
        np.testing.assert_allclose(said.word_chances, alone.word_chances, atol=1e-4)
        np.testing.assert_allclose(said.choices, alone.choices, atol=1e-4)


def test_what_else_could_have_been_said(folder: Path) -> None:
    model = load_blip(str(folder))
    everything = list(model.tokenizer.get_vocab())
    (said,) = model.captions(PICTURES[:1], max_tokens=2, words=everything)
    assert said.choices.shape == (2, len(everything))
    np.testing.assert_allclose(said.choices.sum(axis=1), 1.0, atol=1e-5)
    assert np.sqrt(said.choices.max(axis=1).prod()) == pytest.approx(said.chance, abs=1e-5)
    assert model.captions(PICTURES[:1])[0].choices.shape[1] == 0


def test_no_sentence_is_longer_than_the_network_can_count(folder: Path) -> None:
    model = load_blip(str(folder))
    for prompt in ("", "a picture of"):
        assert model.captions(PICTURES[:1], prompt, max_tokens=10_000)[0].text


def test_no_three_words_come_twice(folder: Path) -> None:
    for said in load_blip(str(folder)).captions(PICTURES, max_tokens=60):
        words = said.text.split()
        triples = [tuple(words[i : i + 3]) for i in range(len(words) - 2)]
        assert len(triples) == len(set(triples))


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        (("config.json",), "has no config.json"),
        (("preprocessor_config.json",), "has no preprocessor_config.json"),
        (("model.safetensors",), "has no weights"),
        (("vocab.txt", "tokenizer.json"), "has no tokenizer"),
    ],
)
def test_what_a_folder_lacks_is_named(folder: Path, tmp_path: Path, missing: tuple[str, ...], says: str) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    for name in missing:
        (other / name).unlink(missing_ok=True)
    with pytest.raises(UserError, match=says):
        load_blip(str(other))


def test_another_kind_of_model_is_refused(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "model_type": "bert"}))
    with pytest.raises(UserError, match="type 'bert'"):
        load_blip(str(other))


def test_missing_weights_never_stay_random(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    other = shutil.copytree(folder, tmp_path / "other")
    state = load_file(other / "model.safetensors")
    state.pop("vision_model.post_layernorm.weight")
    save_file(state, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(IntegrityError, match="vision_model.post_layernorm.weight"):
        load_blip(str(other))
    config = json.loads((other / "config.json").read_text())
    config["vision_config"]["hidden_size"] *= 2
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(IntegrityError, match="config.json describes another network"):
        load_blip(str(other))
    (other / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(IntegrityError, match="no whole .safetensors file"):
        load_blip(str(other))


def test_names_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **settings: object) -> socket.socket:
        raise OSError("no network here")

    monkeypatch.setattr(socket, "create_connection", refuse)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="does not answer"):
        load_blip("Salesforce/blip-image-captioning-base")
    with pytest.raises(UserError, match="neither a folder nor a hub name"):
        load_blip("/nowhere/at/all")
    with pytest.raises(UserError, match="neither a folder nor a hub name"):
        load_blip("just-a-word")
