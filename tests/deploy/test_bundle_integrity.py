from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.bundle_format import sha256
from embodied.deploy.policy import OnnxController, load_bundle
from embodied.errors import IntegrityError
from embodied.seal import sealed


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "manifest.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(sealed(data)))


def refused(folder: Path) -> str:
    with pytest.raises(IntegrityError) as caught:
        load_bundle(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_good_bundle_loads(reach_bundle: Path) -> None:
    bundle = load_bundle(reach_bundle)
    assert bundle.manifest.policy.task == "fetch_reach"
    assert bundle.trace().action.shape == (bundle.manifest.trace.steps, 4)


def test_what_is_no_bundle(tmp_path: Path) -> None:
    assert "is not a bundle (no manifest.json)" in refused(tmp_path / "nowhere")
    (tmp_path / "manifest.json").write_text("{ not json")
    assert "not valid JSON" in refused(tmp_path)
    (tmp_path / "manifest.json").write_text('{"kind": "embodied controller"}')
    assert "of another kind" in refused(tmp_path)


@pytest.mark.parametrize("name", ["policy.onnx", "trace.npz"])
def test_a_missing_file_and_a_flipped_bit(copied_bundle: Callable[[], Path], name: str) -> None:
    folder = copied_bundle()
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    assert f"{name}' fails its checksum" in refused(folder)
    (folder / name).unlink()
    assert f"lacks its file '{name}'" in refused(folder)


def test_an_edited_manifest(copied_bundle: Callable[[], Path]) -> None:
    path = copied_bundle() / "manifest.json"
    text = path.read_text()
    assert '"max_observation_age_s": 0.12' in text
    path.write_text(text.replace('"max_observation_age_s": 0.12', '"max_observation_age_s": 9.12'))
    assert "damaged or was edited" in refused(path.parent)
    path.write_text(json.dumps(json.loads(text), indent=None))
    assert load_bundle(path.parent).manifest.limits.max_observation_age_s == 0.12


def test_a_newer_schema(copied_bundle: Callable[[], Path]) -> None:
    folder = copied_bundle()
    edit_manifest(folder, lambda data: data.update(schema=2))
    assert "has schema 2, this version reads 1" in refused(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data["safety"].pop("action_low"), "no field 'action_low'"),
        (lambda data: data["safety"]["action_high"].pop(), "expected 4 numbers, got 4 and 3"),
        (lambda data: data["safety"]["observation_low"].append(0.0), "safety limits of the observation"),
        (lambda data: data["safety"].update(max_observation_age_s=-1), "must be positive"),
        (lambda data: data["safety"]["hold"].update(action=[0, 0, 0, float("nan")]), "hold action: not finite"),
        (lambda data: data["trace"].update(tolerance=float("inf")), "tolerance must be positive and finite"),
        (lambda data: data.update(outputs=[]), "malformed"),
        (lambda data: data["files"].pop("policy.onnx"), "does not list 'policy.onnx'"),
        (lambda data: data["files"].update({"../x": "0"}), "not a plain file name"),
    ],
)
def test_a_malformed_manifest(
    copied_bundle: Callable[[], Path], change: Callable[[dict[str, Any]], object], words: str
) -> None:
    folder = copied_bundle()
    edit_manifest(folder, change)
    assert words in refused(folder)


def test_a_file_that_is_no_model(copied_bundle: Callable[[], Path]) -> None:
    folder = copied_bundle()
    (folder / "policy.onnx").write_bytes(b"not a graph")
    edit_manifest(folder, lambda data: data["files"].update({"policy.onnx": sha256(b"not a graph")}))
    with pytest.raises(IntegrityError, match="onnxruntime cannot load the model") as caught:
        OnnxController(folder)
    assert "\n" not in str(caught.value)


def test_a_manifest_that_speaks_of_another_model(copied_bundle: Callable[[], Path]) -> None:
    folder = copied_bundle()

    def widen(data: dict[str, Any]) -> None:
        data["inputs"]["goal"].append(
            {"part": "goal", "offset": 3, "name": "x", "width": 1, "unit": "m", "frame": "base"}
        )

    edit_manifest(folder, widen)
    with pytest.raises(IntegrityError, match="has widths .*, its manifest says"):
        OnnxController(folder)


def test_the_controller_answers_as_recorded(reach_bundle: Path) -> None:
    controller = OnnxController(reach_bundle)
    trace = controller.bundle.trace()
    for row in range(0, len(trace.action), 97):
        answer = controller.answer(trace.observation[row], trace.goal[row])
        assert answer.dtype == np.float32
        assert np.abs(answer - trace.action[row]).max() <= 1e-5
