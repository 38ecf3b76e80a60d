from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import embodied.export.bundle as bundle_module
from embodied.bundle_format import read_manifest
from embodied.errors import ParityError, UserError
from embodied.export.bundle import export_bundle, safety_limits
from embodied.export.recording import RecordedSteps, record_steps
from embodied.learning.controller import TorchController
from embodied.protocols import Env

Recorded = tuple[TorchController, RecordedSteps]


@pytest.fixture
def recorded(drift_env: Env, trained_like: Callable[[Env, int], TorchController]) -> Recorded:
    controller = trained_like(drift_env, 1)
    return controller, record_steps(drift_env, controller, seed=0)


@pytest.fixture
def quick_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, recorded: Recorded
) -> dict[str, Any]:
    """Exports the graph once and hands out copies, or broken ones."""
    controller, _ = recorded
    path = tmp_path_factory.mktemp("graph") / "policy.onnx"
    model = bundle_module.write_onnx(controller.module, 6, 3, path)
    content = {"bytes": path.read_bytes()}

    def write(module: torch.nn.Module, observation_width: int, goal_width: int, out: Path) -> onnx.ModelProto:
        out.write_bytes(content["bytes"])
        return model

    monkeypatch.setattr(bundle_module, "write_onnx", write)
    return content


def test_bundle_round_trip(recorded: Recorded, tmp_path: Path) -> None:
    controller, trace = recorded
    before = {key: value.clone() for key, value in controller.module.state_dict().items()}
    result = export_bundle(controller, trace, tmp_path / "b", provenance={"seed": 4, "git_commit": "abc"})
    assert result.parity_max_abs <= 1e-5
    assert result.trace_steps == len(trace) >= 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b"]
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["manifest.json", "policy.onnx", "trace.npz"]
    manifest = read_manifest(tmp_path / "b")
    assert manifest.policy == controller.manifest
    assert manifest.limits == safety_limits(controller.manifest, trace)
    assert (manifest.opset, manifest.trace.tolerance) == (18, 1e-5)
    assert manifest.provenance == {"seed": 4, "git_commit": "abc"}
    assert manifest.versions["torch"] == torch.__version__.split("+")[0]
    with np.load(tmp_path / "b" / "trace.npz", allow_pickle=False) as stored:
        assert np.array_equal(stored["action"], trace.action)
    after = controller.module.state_dict()
    assert all(torch.equal(before[key], after[key]) and before[key].dtype == after[key].dtype for key in before)


def test_manifest_says_what_each_number_is(recorded: Recorded, quick_file: dict[str, Any], tmp_path: Path) -> None:
    controller, trace = recorded
    export_bundle(controller, trace, tmp_path / "b")
    data = json.loads((tmp_path / "b" / "manifest.json").read_text())
    observation, actions = data["inputs"]["observation"], data["outputs"]["action"]
    assert [(t["part"], t["name"], t["offset"], t["width"], t["unit"]) for t in observation] == [
        ("robot", "position", 0, 2, "m"),
        ("robot", "clock", 2, 1, "1"),
        ("robot", "pressure", 3, 1, "Pa"),
        ("entity", "offset", 4, 2, "m"),
    ]
    push, grip = actions
    assert (push["kind"], push["scale"], push["si_unit"], push["offset"]) == ("displacement", 0.1, "m", 0)
    assert push["max_per_step"] == [0.1, 0.1]
    assert (grip["kind"], grip["low"], grip["high"], grip["max_per_step"]) == ("force", [0.0], [5.0], [5.0])
    assert (data["quaternion_order"], data["frame"], data["control_hz"]) == ("wxyz", "base", 20.0)
    for name, digest in data["files"].items():
        assert hashlib.sha256((tmp_path / "b" / name).read_bytes()).hexdigest() == digest
    assert set(data["files"]) == {"policy.onnx", "trace.npz"}
    # Floats survive the trip through text bit for bit.
    assert np.float32(data["safety"]["observation_low"][0]) == np.float32(
        safety_limits(controller.manifest, trace).observation_low[0]
    )


def test_a_broken_file_leaves_no_bundle_behind(recorded: Recorded, quick_file: dict[str, Any], tmp_path: Path) -> None:
    controller, trace = recorded
    good = quick_file["bytes"]
    weights = controller.module.trunk[0].weight.numpy().tobytes()
    assert weights in good
    quick_file["bytes"] = good.replace(weights, (np.frombuffer(weights, np.float32) * 1.01).tobytes())
    with pytest.raises(ParityError, match="differs in push"):
        export_bundle(controller, trace, tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_only_a_bundle_is_replaced(recorded: Recorded, quick_file: dict[str, Any], tmp_path: Path) -> None:
    controller, trace = recorded
    export_bundle(controller, trace, tmp_path / "b", provenance={"seed": 1})
    export_bundle(controller, trace, tmp_path / "b", provenance={"seed": 2})
    assert read_manifest(tmp_path / "b").provenance == {"seed": 2}
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.tex").write_text("years of work")
    with pytest.raises(UserError, match="holds something else than a bundle"):
        export_bundle(controller, trace, other)
    assert (other / "chapter.tex").read_text() == "years of work"
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        export_bundle(controller, trace, tmp_path / "file")


def test_hold_action_has_to_be_possible(recorded: Recorded) -> None:
    controller, trace = recorded
    assert safety_limits(controller.manifest, trace).hold_action == (0.0, 0.0, 0.0)
    assert safety_limits(controller.manifest, trace, hold_action=(0.0, 0.0, 2.5)).hold_action == (0.0, 0.0, 2.5)
    for bad in ((0.0, 0.0), (0.0, 0.0, -1.0)):
        with pytest.raises(UserError, match="hold action needs 3 numbers within the action limits"):
            safety_limits(controller.manifest, trace, hold_action=bad)


def test_recorded_values_lie_well_inside_the_plausible_range(recorded: Recorded) -> None:
    controller, trace = recorded
    limits = safety_limits(controller.manifest, trace)
    low, high = np.asarray(limits.observation_low), np.asarray(limits.observation_high)
    spread = trace.observation.max(axis=0) - trace.observation.min(axis=0)
    assert np.all(trace.observation.min(axis=0) - low >= 2 * spread)
    assert np.all(high - trace.observation.max(axis=0) >= 2 * spread)
    assert np.all(high - low >= 1.0)  # a constant input has room too
