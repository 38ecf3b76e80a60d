"""A linear probe on a public model: it reads what the model sees, is bound to that model, and says what it lacks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from embodied_launch.cli import main
from scipy.special import softmax

from embodied.errors import IntegrityError, UserError
from vlm_describer.calibration import CALIBRATION, Calibration
from vlm_describer.clip import load_clip_looker
from vlm_describer.clip_model import ClipModel, load_clip
from vlm_describer.naming import GROUPS
from vlm_describer.probe import CARD, WEIGHTS, Probe, ProbeConfig, ProbeNamer, fit_probe, load_probe_namer, save_probes


@pytest.fixture(scope="module")
def clip_folder(small_models: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_models.save_clip(tmp_path_factory.mktemp("clip") / "tiny")


@pytest.fixture(scope="module")
def model(clip_folder: Path) -> ClipModel:
    return load_clip(f"local-dir:{clip_folder}")


def patches(count: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Plain pictures of the first three colours of COLOURS with noise, and which colour each has."""
    rng = np.random.default_rng(seed)
    paints = np.array([[220, 30, 30], [240, 140, 20], [230, 220, 40]])
    labels = rng.integers(0, 3, count)
    noise = rng.normal(0, 12, (count, 32, 32, 3))
    return list(np.clip(paints[labels][:, None, None] + noise, 0, 255).astype(np.uint8)), labels


@pytest.fixture(scope="module")
def saved(model: ClipModel, clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("probe") / "model"
    vectors = model.encode_images(patches(60, 0)[0])
    labels = patches(60, 0)[1]
    probes = {group: fit_probe(vectors, labels, len(GROUPS[group])) for group in ("kinds", "colours")}
    save_probes(probes, folder, model, (f"local-dir:{clip_folder}", ""), {"seed": 0})
    Calibration(ProbeNamer(model, probes).identity).save(folder / CALIBRATION)
    return folder


def test_it_names_what_even_a_random_tower_sees(model: ClipModel) -> None:
    pictures, labels = patches(60, 0)
    probe = fit_probe(model.encode_images(pictures), labels, 12)
    unseen, truth = patches(40, 1)
    assert np.mean(probe.logits(model.encode_images(unseen)).argmax(axis=1) == truth) > 0.9


def test_the_fit_is_the_minimum() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(80, 3)).astype(np.float32)
    labels = (vectors[:, 0] + rng.normal(0, 0.5, 80) > 0).astype(np.int64)
    config = ProbeConfig(decay=0.05)
    probe = fit_probe(vectors, labels, 2, config)
    # At the minimum the mean error times the inputs cancels the decay, and the constant has no error on average.
    inputs = (vectors - probe.mean) / probe.scale
    error = softmax(probe.logits(vectors), axis=1) - np.eye(2)[labels]
    np.testing.assert_allclose(inputs.T @ error / 80, -config.decay * probe.weight, atol=1e-4)
    np.testing.assert_allclose(error.mean(axis=0), 0.0, atol=1e-4)


def test_examples_without_a_label_do_not_count() -> None:
    vectors = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    labels = np.where(np.arange(30) % 3 == 0, -1, np.arange(30) % 2)
    with_unknown, without = fit_probe(vectors, labels, 3), fit_probe(vectors[labels >= 0], labels[labels >= 0], 3)
    np.testing.assert_array_equal(with_unknown.weight, without.weight)
    with pytest.raises(UserError, match="no labelled example"):
        fit_probe(vectors, np.full(30, -1), 3)


def test_a_saved_probe_is_the_same_and_is_used_by_its_folder(saved: Path, model: ClipModel) -> None:
    looker, calibration = load_clip_looker(str(saved))
    assert isinstance(looker.namer, ProbeNamer)
    assert looker.identity == calibration.model == f"probe-{model.identity}"
    pictures, labels = patches(20, 2)
    probe: Probe = looker.namer._probes["colours"]
    assert np.mean(probe.logits(model.encode_images(pictures)).argmax(axis=1) == labels) > 0.9


def test_another_models_probe_is_refused(saved: Path, clip_folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    other = shutil.copytree(clip_folder, tmp_path / "tiny")
    state = load_file(other / "open_clip_model.safetensors")
    save_file({**state, "logit_scale": state["logit_scale"] + 1}, other / "open_clip_model.safetensors")
    with pytest.raises(UserError, match="was fitted on tiny-.*, not on tiny-"):
        load_probe_namer(saved, f"local-dir:{other}")
    moved = shutil.copytree(clip_folder, tmp_path / "moved" / "tiny")
    assert load_probe_namer(saved, f"local-dir:{moved}").identity.startswith("probe-tiny-")


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda folder: (folder / CARD).write_text("{}"), "no card of a probe"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b"nothing"), "holds no probes"),
        (lambda folder: (folder / WEIGHTS).unlink(), "holds no probes"),
        (
            lambda folder: (folder / CARD).write_text((folder / CARD).read_text().replace('"red"', '"crimson"')),
            "other names",
        ),
    ],
)
def test_damage_is_named(saved: Path, tmp_path: Path, harm: Callable[[Path], object], says: str) -> None:
    other = shutil.copytree(saved, tmp_path / "other")
    harm(other)
    with pytest.raises(IntegrityError, match=says):
        load_probe_namer(other)


@pytest.mark.parametrize(
    "words",
    [
        ("describer=clip", "probe=true"),
        ("describer=clip", "model=ViT-B-32"),
        ("describer=blip", "probe=true", "model=ViT-B-32"),
    ],
)
def test_the_verb_says_what_a_probe_takes(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(("fit", *words, "out=there")) == 2
    assert "a probe takes describer=clip, probe=true and model=" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_fitted_from_the_command_line_and_used(
    clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ("fit.frames=10", "fit.validation_frames=10", "fit.held_out_frames=10")
    assert main(("fit", "describer=clip", "probe=true", f"model=local-dir:{clip_folder}", "out=probe", *small)) == 0
    card = json.loads((tmp_path / "probe" / "model" / CARD).read_text("utf-8"))
    assert set(card["held_out"]) == {"new_camera", "new_look", "new_pairs", "more_things"}
    assert main(("describe", "scene=tabletop_blocks", "describer=clip", "model=probe/model", "out=told")) == 0
