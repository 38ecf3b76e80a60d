from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from embodied.errors import IntegrityError, LayoutError, UserError
from embodied.learning.controller import load_controller, load_zoo, open_controller, save_controller, zoo_names
from embodied.learning.laws import LAWS
from embodied.learning.sac import SacConfig, SacLearner
from embodied.protocols import Controller
from embodied.seal import digest
from embodied.spec import EnvSpec, Layout, Term
from embodied.types import Goal, Observation


@pytest.fixture
def learner(spec: EnvSpec) -> SacLearner:
    learner = SacLearner(spec, SacConfig(hidden=(16, 16)), seed=0)
    rng = np.random.default_rng(0)
    learner.observe(rng.normal(size=(50, 3)).astype(np.float32), rng.normal(size=(50, 3)).astype(np.float32))
    return learner


@pytest.fixture
def folder(learner: SacLearner, tmp_path: Path) -> Path:
    save_controller(learner.controller(), tmp_path / "controller", {"seed": 3})
    return tmp_path / "controller"


def _observation(layout: Layout) -> Observation:
    return Observation(
        state=np.array([4.0, 1.0], np.float32),
        entities=np.array([[1.0], [11.0]], np.float32),
        achieved=np.zeros((2, 3), np.float32),
        layout=layout,
    )


GOAL = Goal("block", np.array([4.0, 3.0, 9.0]), np.array([True, True, False]))


def test_a_loaded_controller_acts_alike(learner: SacLearner, folder: Path, spec: EnvSpec) -> None:
    original, loaded = learner.controller(), load_controller(folder)
    observation = _observation(spec.layout)
    assert isinstance(loaded, Controller)
    assert np.array_equal(original.act(observation, GOAL), loaded.act(observation, GOAL))
    assert loaded.act(observation, GOAL).shape == (2,)
    assert loaded.manifest == original.manifest
    assert loaded.extra == {"seed": 3}
    assert loaded.critic is None


@pytest.mark.parametrize("law", LAWS)
def test_a_file_says_which_law_it_is_of_and_one_that_does_not_is_of_betas(
    law: str, spec: EnvSpec, tmp_path: Path
) -> None:
    learner = SacLearner(spec, SacConfig(hidden=(16, 16), law=law), seed=0)
    save_controller(learner.controller(), tmp_path / "c", {})
    loaded, observation = load_controller(tmp_path / "c"), _observation(spec.layout)
    assert loaded.module.shape.law == law
    assert np.array_equal(loaded.act(observation, GOAL), learner.controller().act(observation, GOAL))
    network = json.loads((tmp_path / "c" / "manifest.json").read_text())["network"]
    del network["law"]
    _edit(tmp_path / "c" / "manifest.json", network=network)
    silent = load_controller(tmp_path / "c")
    assert silent.module.shape.law == "beta"
    assert np.array_equal(silent.act(observation, GOAL), loaded.act(observation, GOAL)) == (law == "beta")


def test_masked_goal_components_do_not_matter(folder: Path, spec: EnvSpec) -> None:
    controller, observation = load_controller(folder), _observation(spec.layout)
    other = Goal("block", np.array([4.0, 3.0, -50.0]), GOAL.mask)
    moved = Goal("block", np.array([4.0, 30.0, 9.0]), GOAL.mask)
    assert np.array_equal(controller.act(observation, GOAL), controller.act(observation, other))
    assert not np.array_equal(controller.act(observation, GOAL), controller.act(observation, moved))


def test_terms_are_found_by_name_in_another_layout(folder: Path, spec: EnvSpec) -> None:
    controller, plain = load_controller(folder), _observation(spec.layout)
    layout = Layout(
        robot=(Term("extra", 1), Term("clock", 1), Term("episode", 1)),
        entity=spec.layout.entity,
        goal=spec.layout.goal,
        entities=("block", "other"),
    )
    moved = Observation(np.array([99.0, 1.0, 4.0], np.float32), plain.entities[::-1].copy(), plain.achieved, layout)
    assert np.array_equal(controller.act(plain, GOAL), controller.act(moved, GOAL))
    lacking = Layout((Term("clock", 1),), spec.layout.entity, spec.layout.goal, ("block",))
    with pytest.raises(LayoutError, match="'episode'"):
        controller.act(Observation(np.zeros(1, np.float32), plain.entities, plain.achieved, lacking), GOAL)


def test_saving_again_replaces_the_folder(learner: SacLearner, folder: Path) -> None:
    learner.save_controller(folder, {"seed": 4})
    assert load_controller(folder).extra == {"seed": 4}
    assert load_controller(folder).critic is not None
    assert [path.name for path in folder.parent.iterdir()] == ["controller"]


def test_a_run_folder_stands_for_its_controller(folder: Path) -> None:
    assert load_controller(folder.parent).extra == {"seed": 3}
    assert open_controller(str(folder.parent)).extra == {"seed": 3}


def _flip(path: Path, where: int = -5) -> None:
    data = bytearray(path.read_bytes())
    data[where] ^= 1
    path.write_bytes(bytes(data))


def _edit(path: Path, **changes: object) -> None:
    """Changes the index and its hash, as a program that writes such folders would."""
    index = {**json.loads(path.read_text()), **changes}
    del index["sha256"]
    path.write_text(json.dumps({**index, "sha256": digest(index)}))


def _edit_by_hand(path: Path) -> None:
    path.write_text(path.read_text().replace('"control_hz": 10.0', '"control_hz": 20.0'))


DAMAGES = {
    "weights_flipped": lambda f: _flip(f / "policy.safetensors"),
    "weights_cut": lambda f: (f / "policy.safetensors").write_bytes(b"123"),
    "weights_missing": lambda f: (f / "policy.safetensors").unlink(),
    "manifest_missing": lambda f: (f / "manifest.json").unlink(),
    "manifest_garbage": lambda f: (f / "manifest.json").write_bytes(b"\xff{"),
    "manifest_list": lambda f: (f / "manifest.json").write_text("[]"),
    "manifest_edited": lambda f: _edit_by_hand(f / "manifest.json"),
    "other_kind": lambda f: _edit(f / "manifest.json", kind="cake"),
    "newer_schema": lambda f: _edit(f / "manifest.json", schema=2),
    "no_files": lambda f: _edit(f / "manifest.json", files=[]),
    "no_policy": lambda f: _edit(f / "manifest.json", policy={}),
    "no_network": lambda f: _edit(f / "manifest.json", network=None),
    "other_network": lambda f: _edit(
        f / "manifest.json", network={**json.loads((f / "manifest.json").read_text())["network"], "hidden": [8]}
    ),
    "unknown_law": lambda f: _edit(
        f / "manifest.json", network={**json.loads((f / "manifest.json").read_text())["network"], "law": "gauss"}
    ),
    "absurd_network": lambda f: _edit(
        f / "manifest.json", network={**json.loads((f / "manifest.json").read_text())["network"], "hidden": [-8]}
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_or_foreign_folders_are_refused_in_one_line(folder: Path, damage: str) -> None:
    DAMAGES[damage](folder)
    with pytest.raises(IntegrityError) as caught:
        load_controller(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


def test_unknown_names_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown zoo controller 'fetch_rich'"):
        load_zoo("fetch_rich")
    with pytest.raises(UserError, match="no run or controller folder"):
        open_controller(tmp_path / "nothing")
    with pytest.raises(IntegrityError, match=r"manifest\.json"):
        open_controller(tmp_path)


@pytest.mark.parametrize("name", zoo_names())
def test_every_shipped_controller_loads_and_says_where_it_comes_from(name: str, tmp_path: Path) -> None:
    controller = open_controller(f"zoo:{name}")
    assert controller.manifest.task == name
    assert {"command", "seed", "git_commit", "success_rate", "success_ci95", "episodes"} <= controller.extra.keys()
    observation = np.zeros((1, controller.module.shape.observation_width), np.float32)
    goal = np.zeros((1, controller.module.shape.goal_width), np.float32)
    assert np.isfinite(controller.act_vectors(observation, goal)).all()
    source = Path(load_controller.__code__.co_filename).parents[1] / "zoo" / name
    shutil.copytree(source, tmp_path / name)
    assert sum(path.stat().st_size for path in source.iterdir()) < 3_000_000
    _flip(tmp_path / name / "policy.safetensors")
    with pytest.raises(IntegrityError):
        load_controller(tmp_path / name)
