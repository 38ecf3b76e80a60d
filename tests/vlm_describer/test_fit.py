"""Fitting: what is learned, what is kept, and that an interrupted fit ends as an undisturbed one."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch

from embodied.colours import COLOURS
from embodied.errors import IntegrityError, UserError
from embodied.types import BaseFrame
from robots.randomize import RandomizerConfig, labelled_frames
from vlm_describer import sim_blip, sim_clip
from vlm_describer.blip_model import BlipModel
from vlm_describer.blip_sheets import mirrored, sheets
from vlm_describer.crops import FEATURES, RELIEF, crop, features, relief
from vlm_describer.dataset import FrameSet, write_frames
from vlm_describer.examples import (
    KINDS,
    SCENES,
    Examples,
    joined,
    load_examples,
    make_examples,
    match,
    save_examples,
)
from vlm_describer.fit_blip import BlipFit, FitBlipConfig, crop_caption
from vlm_describer.fit_clip import named_rightly
from vlm_describer.fit_tower import HeadModule, TowerConfig, TowerFit
from vlm_describer.heads import load_heads, save_heads
from vlm_describer.locate import locate
from vlm_describer.located import COLOUR_STATISTICS
from vlm_describer.naming import HeadNamer
from vlm_describer.relief_tower import load_relief_tower, prepared, save_relief_tower
from vlm_describer.relief_tower import mirrored as relief_mirror
from vlm_describer.sim_blip import SimBlipConfig
from vlm_describer.vocabulary import load_vocabulary

SMALL = sim_clip.SimClipConfig(width=8, embed_dim=16)


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> FrameSet:
    config = RandomizerConfig(views=2, arm=0.0)
    return write_frames(tmp_path_factory.mktemp("frames"), lambda i: labelled_frames(config, 3 * i, 3), 2, {})


@pytest.fixture(scope="module")
def examples(frames: FrameSet) -> Examples:
    return make_examples(((frames.frame(i), frames.label(i)) for i in range(len(frames))), 64)


@pytest.fixture(scope="module")
def clip_parts() -> tuple[torch.nn.Module, object]:
    torch.manual_seed(0)
    return sim_clip.build(SMALL)


def coloured(count: int, seed: int = 0) -> Examples:
    """Crops of one flat colour each: red blocks and blue balls."""
    rng = np.random.default_rng(seed)
    blue = rng.random(count) < 0.5
    shade = np.where(blue[:, None], (20, 40, 220), (220, 30, 20))
    crops = np.clip(shade[:, None, None] + rng.normal(0, 8, (count, 64, 64, 3)), 0, 255).astype(np.uint8)
    kinds = np.where(blue, KINDS.index("ball"), KINDS.index("block"))
    colours = np.where(blue, COLOURS.index("blue"), COLOURS.index("red"))
    told = rng.normal(size=(count, len(FEATURES))).astype(np.float32)
    reliefs = np.zeros((count, RELIEF, RELIEF, 4), np.uint8)
    return Examples(
        crops, reliefs, told, kinds, colours, np.full(count, -1), np.arange(count),
        crops[:8], np.zeros(8, int), np.arange(8),
    )  # fmt: skip


def test_examples_are_named_as_the_labels_say(frames: FrameSet, examples: Examples) -> None:
    assert len(examples.frames) == len(frames)
    row = 0
    for index in range(len(frames)):
        frame, label = frames.frame(index), frames.label(index)
        located = locate(frame, label.base)
        pairs = match(located, label)
        for item in located.items:
            entity = pairs.get(item.id)
            if entity is not None and entity.kind in KINDS:
                assert KINDS[examples.kind[row]] == entity.kind
                assert COLOURS[examples.colour[row]] == entity.colour
            np.testing.assert_array_equal(examples.crops[row], crop(frame, item, 64))
            np.testing.assert_array_equal(examples.features[row], features(item, located))
            np.testing.assert_array_equal(examples.reliefs[row], relief(frame, item, located))
            row += 1
        assert SCENES[examples.scene[index]] == label.scene_kind
    assert row == len(examples)
    assert row > 10


def test_a_relief_is_what_the_camera_sees_wherever_the_robot_stands(frames: FrameSet) -> None:
    frame, label = frames.frame(0), frames.label(0)
    turned = BaseFrame((0.3, -0.2, 0.0), label.base.yaw_rad + 1.0)
    here, there = locate(frame, label.base), locate(frame, turned)
    assert here.items
    for item in here.items:
        other = next(o for o in there.items if o.box_px == item.box_px)
        one, two = relief(frame, item, here).astype(int), relief(frame, other, there).astype(int)
        assert np.abs(one - two).max() <= 2
        seen = one[..., 3] > 0
        assert 0.2 < seen.mean() <= 1.0
        rows = np.flatnonzero(seen.any(axis=1))
        higher, lower = one[rows[0]][seen[rows[0]]], one[rows[-1]][seen[rows[-1]]]
        assert (higher[:, 0] + higher[:, 2]).mean() > (lower[:, 0] + lower[:, 2]).mean()


def test_examples_come_back_from_disk(examples: Examples, tmp_path: Path) -> None:
    save_examples(examples, tmp_path / "all.h5")
    back = joined([load_examples(tmp_path / "all.h5")])
    for field in fields(Examples):
        np.testing.assert_array_equal(getattr(back, field.name), getattr(examples, field.name))
    (tmp_path / "all.h5").write_bytes(b"damaged")
    with pytest.raises(IntegrityError, match="delete it"):
        load_examples(tmp_path / "all.h5")


def test_the_text_tower_stays_as_it_is_and_the_picture_tower_learns(clip_parts: tuple[torch.nn.Module, object]) -> None:
    network, tokenizer = clip_parts
    before = {k: v.clone() for k, v in network.state_dict().items()}
    fit = TowerFit(network, tokenizer, load_vocabulary(), coloured(256), TowerConfig(epochs=6, batch_size=64))
    losses = []
    while not fit.done:
        losses.append(fit.run_epoch())
    assert losses[-1] < 0.8 * losses[0]
    for name, value in network.state_dict().items():
        if name.startswith(sim_clip.LOCKED):
            torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    assert not torch.equal(network.text.proj.weight, before["text.proj.weight"])


def test_an_interrupted_fit_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    ends = []
    for interrupted in (False, True):
        torch.manual_seed(0)
        network, tokenizer = sim_clip.build(SMALL)
        fit = TowerFit(network, tokenizer, load_vocabulary(), coloured(128), TowerConfig(epochs=2, batch_size=64))
        fit.run_epoch()
        if interrupted:
            fit.save(tmp_path / "fit.safetensors")
            torch.manual_seed(9)
            network, tokenizer = sim_clip.build(SMALL)
            fit = TowerFit(network, tokenizer, load_vocabulary(), coloured(128), TowerConfig(epochs=2, batch_size=64))
            fit.restore(tmp_path / "fit.safetensors")
            assert fit.epoch == 1
        ends.append((fit.run_epoch(), sim_clip.learned(network)))
    assert ends[0][0] == ends[1][0]
    for name, value in ends[0][1].items():
        assert torch.equal(value, ends[1][1][name]), name
    (tmp_path / "fit.safetensors").write_bytes(b"damaged")
    with pytest.raises(IntegrityError, match="delete it"):
        fit.restore(tmp_path / "fit.safetensors")


def test_a_model_comes_back_from_its_folder(clip_parts: tuple[torch.nn.Module, object], tmp_path: Path) -> None:
    network, tokenizer = clip_parts
    sim_clip.save(network, SMALL, tmp_path, {})
    pictures = list(coloured(4).crops)
    made = sim_clip.wrap(network, tokenizer, SMALL, "made")
    loaded = sim_clip.load_sim_clip(tmp_path)
    np.testing.assert_allclose(loaded.encode_images(pictures), made.encode_images(pictures), atol=2e-3)
    np.testing.assert_allclose(loaded.encode_texts(["a red ball"]), made.encode_texts(["a red ball"]), atol=2e-3)
    card = (tmp_path / sim_clip.CARD).read_text()
    for key, value in (("width", 16), ("layers", [1, 1, 2, 1])):
        changed = json.loads(card)
        changed["config"][key] = value
        (tmp_path / sim_clip.CARD).write_text(json.dumps(changed))
        with pytest.raises(IntegrityError, match="config in .*card.json is of another network than model.safetensors"):
            sim_clip.load_sim_clip(tmp_path)
    (tmp_path / sim_clip.CARD).write_text(card)
    with (tmp_path / sim_clip.WEIGHTS).open("r+b") as file:
        file.seek(-4, 2)
        file.write(b"abcd")
    with pytest.raises(IntegrityError, match="is not the file"):
        sim_clip.load_sim_clip(tmp_path)
    with pytest.raises(UserError, match="no card.json"):
        sim_clip.load_sim_clip(tmp_path / "nowhere")


def test_heads_name_what_the_tower_was_shown(clip_parts: tuple[torch.nn.Module, object], tmp_path: Path) -> None:
    network, tokenizer = clip_parts
    config = TowerConfig(epochs=6, batch_size=64)
    fit = TowerFit(network, tokenizer, load_vocabulary(), coloured(320), config)
    while not fit.done:
        fit.run_epoch()
    save_heads(fit.heads(), tmp_path / "heads.safetensors")
    model = sim_clip.wrap(network, tokenizer, SMALL, "made")
    save_relief_tower(fit.relief_tower, tmp_path / "relief.safetensors")
    tower = load_relief_tower(tmp_path / "relief.safetensors")
    namer = HeadNamer(model, load_heads(tmp_path / "heads.safetensors"), tower)
    found = named_rightly(namer, coloured(100, seed=1))["heads"]
    assert min(found["kinds"], found["colours"]) > 0.95
    with pytest.raises(IntegrityError, match="holds no heads"):
        load_heads(tmp_path / "none.safetensors")
    with pytest.raises(IntegrityError, match="holds no relief tower"):
        load_relief_tower(tmp_path / "heads.safetensors")


def test_heads_in_numpy_say_what_they_said_while_they_were_fitted() -> None:
    rng = np.random.default_rng(0)
    told = rng.normal(3.0, 2.0, (50, len(FEATURES))).astype(np.float32)
    vectors = rng.normal(size=(50, 16)).astype(np.float32)
    module = HeadModule(16, told).eval()
    none = dict.fromkeys(("kinds", "colours", "sizes"), torch.zeros(50, dtype=torch.bool))
    reliefs = rng.integers(0, 255, (50, RELIEF, RELIEF, 4)).astype(np.uint8)
    seen, still = prepared(reliefs), torch.zeros(50, len(FEATURES))
    with torch.no_grad():
        expected = module(torch.from_numpy(vectors), seen, torch.from_numpy(told), none, still)
    inputs = np.hstack([vectors, module.relief.vectors(reliefs), told])
    for group, head in module.heads().items():
        np.testing.assert_allclose(head.logits(inputs), expected[group], atol=1e-4)
    other = told + 3.0 * np.array([name not in COLOUR_STATISTICS for name in FEATURES], np.float32)
    heads = module.heads()
    changed = np.hstack([vectors, module.relief.vectors(255 - reliefs), other])
    np.testing.assert_array_equal(heads["colours"].logits(changed), heads["colours"].logits(inputs))
    assert np.abs(heads["kinds"].logits(changed) - heads["kinds"].logits(inputs)).max() > 1e-3


TINY_BLIP = FitBlipConfig(
    SimBlipConfig(vision_width=32, vision_layers=1, text_width=32, text_layers=1),
    epochs=5,
    batch_size=32,
    learning_rate=3e-3,
)


def captioner(fit: BlipFit) -> BlipModel:
    return BlipModel(fit.network, fit.tokenizer, fit.images, "made")


def test_crops_are_captioned_by_what_they_show(tmp_path: Path) -> None:
    fit = BlipFit(coloured(640), TINY_BLIP)
    losses = []
    while not fit.done:
        losses.append(fit.run_epoch())
    assert losses[-1] < 0.5 * losses[0]
    others = coloured(60, seed=1)
    truth = [crop_caption(others, row) for row in range(len(others))]
    assert set(truth) == {"red block", "blue ball"}
    pictures = list(sheets(others.crops, others.reliefs))
    said = captioner(fit).captions(pictures)
    assert np.mean([one.text == true for one, true in zip(said, truth, strict=True)]) > 0.9
    sim_blip.save(fit.network, fit.tokenizer, fit.images, tmp_path, {"seed": 0})
    loaded = sim_blip.load_sim_blip(tmp_path)
    assert loaded.identity.startswith("sim-blip-")
    again = loaded.captions(pictures)
    assert np.mean([one.text == other.text for one, other in zip(said, again, strict=True)]) > 0.95
    for one, other in zip(said, again, strict=True):
        assert one.chance == pytest.approx(other.chance, abs=0.05)
    for name, part, key, value in (
        ("config.json", "vision_config", "num_hidden_layers", 0),
        ("preprocessor_config.json", "", "image_mean", [0.1, 0.5, 0.5]),
    ):
        kept = (tmp_path / name).read_text()
        changed = json.loads(kept)
        (changed[part] if part else changed)[key] = value
        (tmp_path / name).write_text(json.dumps(changed))
        with pytest.raises(IntegrityError, match=f"{name} .*put its own back"):
            sim_blip.load_sim_blip(tmp_path)
        (tmp_path / name).write_text(kept)
    with (tmp_path / sim_blip.WEIGHTS).open("r+b") as file:
        file.seek(-4, 2)
        file.write(b"abcd")
    with pytest.raises(IntegrityError, match="is not the file"):
        sim_blip.load_sim_blip(tmp_path)


def test_a_captioners_fit_is_taken_up_again(tmp_path: Path) -> None:
    whole = BlipFit(coloured(128), TINY_BLIP)
    whole.run_epoch()
    whole.save(tmp_path / "blip.safetensors")
    second = whole.run_epoch()
    torch.manual_seed(9)
    again = BlipFit(coloured(128), TINY_BLIP)
    again.restore(tmp_path / "blip.safetensors")
    assert again.epoch == 1
    assert again.run_epoch() == second
    for name, value in whole.network.state_dict().items():
        assert torch.equal(value, again.network.state_dict()[name]), name


def test_captions_of_crops_say_what_labels_say(examples: Examples) -> None:
    for row in range(len(examples)):
        words = crop_caption(examples, row).split()
        assert words[-1] == KINDS[examples.kind[row]]
        assert set(words) <= set(sim_blip.WORDS)
        if words[-1] in ("nothing", "robot") or examples.colour[row] < 0:
            assert len(words) == 1
        else:
            assert words[0] == COLOURS[examples.colour[row]]
    assert len({crop_caption(examples, row) for row in range(len(examples))}) > 3


def test_the_image_tower_sees_from_the_first_step() -> None:
    torch.manual_seed(0)
    network, _, _ = sim_blip.build(TINY_BLIP.sim)
    with torch.no_grad():
        vision = network.vision_model(pixel_values=torch.randn(2, 3, 64, 64))[0]
    assert (vision[0, 1:] - vision[1, 1:]).abs().mean() > 0.1
    assert (vision[0, 1] - vision[0, 2]).abs().mean() > 0.1


def test_faint_details_count_from_the_first_step(examples: Examples) -> None:
    fit = BlipFit(examples, TINY_BLIP)
    pictures = list(sheets(examples.crops, examples.reliefs))
    pixels = fit.images(images=pictures, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        patches = fit.network.vision_model.embeddings.patch_embedding(pixels).flatten(2).transpose(1, 2).reshape(-1, 32)
    spread = torch.linalg.eigvalsh(torch.cov(patches.T))
    assert spread.min() > 0.1
    assert spread.max() < 2.0
    assert patches.mean(dim=0).abs().max() < 0.1


def test_sheets_hold_what_a_thing_looks_like_and_its_form(examples: Examples) -> None:
    crops, reliefs = examples.crops, examples.reliefs
    made = sheets(crops, reliefs, across=3, down=-2)
    np.testing.assert_array_equal(made[:, :32, 32:], crops[:, 14:46, 19:51])
    np.testing.assert_allclose(made[:, 5, 7], crops[:, 10:12, 14:16].mean(axis=(1, 2)), atol=0.51)
    there = reliefs[..., 3] > 0
    np.testing.assert_array_equal(made[:, 32:, :32][there], reliefs[..., :3][there])
    assert (made[:, 32:, :32][~there] == 128).all()
    assert (made[:, 32:, 32:] == reliefs[..., 3:]).all()


def test_a_mirrored_sheet_is_of_the_mirrored_thing(examples: Examples) -> None:
    chosen = np.arange(len(examples)) % 2 == 0
    crops, reliefs = mirrored(examples.crops, examples.reliefs, chosen)
    np.testing.assert_array_equal(crops[~chosen], examples.crops[~chosen])
    np.testing.assert_array_equal(reliefs[~chosen], examples.reliefs[~chosen])
    np.testing.assert_array_equal(crops[chosen], examples.crops[chosen][:, :, ::-1])
    expected = relief_mirror(prepared(examples.reliefs), torch.ones(len(chosen), dtype=torch.bool))
    np.testing.assert_allclose(prepared(reliefs)[chosen], expected[chosen], atol=1e-6)
    twice = mirrored(crops, reliefs, chosen)
    np.testing.assert_array_equal(twice[1], examples.reliefs)
