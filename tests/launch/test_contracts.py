"""What scripts outside rely on: keys of result.json, run folders, exit codes, evidence that anyone can recompute."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from embodied_launch import api

from embodied.errors import UserError

COMMON = {"schema", "verb", "ok", "seed", "task", "wall_s", "cpu_s", "llm"}
TRAINED = COMMON | {
    "cpu_train_s", "env_steps", "updates", "sample_updates", "success_rate", "success_ci95", "episodes", "evaluations",
    "steps_to", "cpu_s_to",
}  # fmt: skip
DEBUG = ("train", "task=fetch_reach", "preset=debug")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of a training of seconds."""
    from embodied_launch.cli import main

    folder = tmp_path_factory.mktemp("runs") / "a run (with blanks), named = 'oddly' 运行"
    assert main([*DEBUG, "seed=3", f"run_dir={folder}"]) == 0
    return folder


@pytest.fixture(scope="module")
def bundle(trained: Path) -> Path:
    from embodied_launch.cli import main

    assert main(["export", f"run={trained}", f"out={trained / 'export'}", "episodes=1"]) == 0
    return trained / "export" / "bundle"


def result_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text("utf-8"))


def test_train_writes_the_run_folder(trained: Path) -> None:
    result = result_of(trained)
    assert set(result) >= TRAINED
    assert (result["verb"], result["task"], result["seed"], result["ok"]) == ("train", "fetch_reach", 3, True)
    assert result["env_steps"] == 600
    assert set(result["steps_to"]) == set(result["cpu_s_to"]) == {"0.5", "0.8", "0.9", "0.95"}
    assert set(result["evaluations"][0]) >= {"env_steps", "cpu_train_s", "success_rate", "success_final", "success_any"}
    rows = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert all(list(row)[:3] == ["step", "wall_s", "cpu_s"] for row in rows)
    assert len(list((trained / "checkpoints").iterdir())) <= 2
    assert not [path for path in trained.rglob("*") if path.suffix in (".pkl", ".pt", ".pth")]


def test_a_run_folder_is_not_overwritten(cli_here: Callable[..., Any], trained: Path) -> None:
    before = (trained / "metrics.jsonl").read_bytes()
    ended = cli_here(*DEBUG, f"run_dir={trained}")
    assert ended.code == 2
    assert "resume=auto" in ended.err
    assert (trained / "metrics.jsonl").read_bytes() == before


def test_interrupted_training_saves_says_how_to_go_on_and_goes_on(cli: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = [*DEBUG, "total_steps=4000", f"run_dir={folder}"]
    running = subprocess.Popen(
        [Path(sys.executable).with_name("embodied"), *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (folder / "metrics.jsonl").exists() or len((folder / "metrics.jsonl").read_text().splitlines()) < 3:
        assert time.monotonic() < deadline
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert out == ""
    assert "resume=auto" in err
    assert "Traceback" not in err
    ended = cli(*words, "resume=auto")
    assert ended.code == 0, ended.err
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)
    assert steps[-1] == 4000
    assert ended.result["env_steps"] == 4000


def test_evaluate(cli_here: Callable[..., Any], trained: Path, tmp_path: Path) -> None:
    video = tmp_path / "film of 'it'.mp4"
    ended = cli_here("evaluate", f"run={trained}", "episodes=2", f"video={video}", "out=evaluated")
    assert ended.code == 0, ended.err
    assert set(ended.result) >= COMMON | {"success_rate", "success_ci95", "success_final", "success_any", "episodes"}
    assert ended.result["seed"] == 2_000_000
    assert video.stat().st_size > 10_000


def test_the_shipped_controller_solves_its_task(cli_here: Callable[..., Any]) -> None:
    ended = cli_here("evaluate", "run=zoo:fetch_reach", "episodes=20")
    assert ended.code == 0, ended.err
    assert ended.result["success_rate"] >= 0.95


def test_a_controller_answers_in_a_foreign_wrapper_of_its_task_or_says_why_not(cli_here: Callable[..., Any]) -> None:
    ended = cli_here("evaluate", "run=zoo:fetch_reach", "task=gym:FetchReach-v4", "episodes=1")
    assert ended.code == 2
    assert "grip_pos" in ended.err


@pytest.mark.parametrize("scene", ["tabletop_blocks", "desk_unnamed", "rooms", "fetch_push", "point_umaze"])
def test_describe(cli_here: Callable[..., Any], scene: str) -> None:
    ended = cli_here("describe", f"scene={scene}", "out=described")
    assert ended.code == 0, ended.err
    told = ended.result["description"]
    assert set(told) >= {"objects", "facts", "unknown", "caption", "text", "frame"}
    assert all(set(row) >= {"id", "kind", "colour", "position_m", "confidence"} for row in told["objects"])
    assert all(set(row) >= {"predicate", "args", "probability", "source"} for row in told["facts"])
    again = cli_here("describe", f"scene={scene}", "out=again")
    assert again.result["description"] == told


def test_describe_matches_words_to_things_without_names(cli_here: Callable[..., Any]) -> None:
    objects = cli_here("describe", "scene=desk_unnamed").result["description"]["objects"]
    seen = sorted(f"{row['colour']} {row['kind']}" for row in objects if row["role"] != "landmark")
    assert seen == ["blue block", "orange block", "orange block", "purple disc", "teal cylinder", "yellow disc"]


def gripper_touches(compiled: Path, states: Path, thing: str) -> bool:
    """Whether a gripper geom touches the body `thing` in one of the saved states; MuJoCo alone, none of our code."""
    model = mujoco.MjModel.from_xml_path(str(compiled))
    data = mujoco.MjData(model)
    bodies = [model.body(i).name for i in range(model.nbody)]
    gripper = {i for i, name in enumerate(bodies) if name.startswith("robot0:") and "gripper" in name}
    wanted = bodies.index(thing)
    saved = np.load(states)
    for qpos, qvel in zip(saved["qpos"], saved["qvel"], strict=True):
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_forward(model, data)
        for contact in data.contact[: data.ncon]:
            pair = {int(model.geom_bodyid[contact.geom1]), int(model.geom_bodyid[contact.geom2])}
            if wanted in pair and pair & gripper:
                return True
    return False


@pytest.mark.parametrize(
    ("scene", "instruction", "touched", "others"),
    [
        ("tabletop_blocks", "touch the red block, then the blue block", ["red_block", "blue_block"], ["green_block"]),
        ("desk_unnamed", "touch the teal cylinder", ["obj1"], ["obj0", "obj2", "obj3"]),
    ],
)
def test_plan_and_execute(
    cli_here: Callable[..., Any], tmp_path: Path, scene: str, instruction: str, touched: list[str], others: list[str]
) -> None:
    ended = cli_here("plan", f"scene={scene}", f"instruction={instruction}", "execute=true", "out=done (it)")
    assert ended.code == 0, ended.err
    result = ended.result
    assert [(row["skill"], row["args"]) for row in result["plan"]] == [("touch", [name]) for name in touched]
    assert all(set(row) >= {"skill", "args", "target_m", "max_steps"} for row in result["plan"])
    assert all(row["reached"] for row in result["executed"])
    assert all(set(row) >= {"reached", "steps", "why"} for row in result["executed"])
    compiled, states = tmp_path / result["compiled_scene"], tmp_path / result["states"]
    assert compiled.name == "scene_compiled.xml"
    assert all(gripper_touches(compiled, states, name) for name in touched)
    assert not any(gripper_touches(compiled, states, name) for name in others)
    assert set(np.load(states)) == {"time_s", "qpos", "qvel"}
    for name in ("video", "timeline", "contact_sheet"):
        assert (tmp_path / result[name]).stat().st_size > 1_000, name


def test_the_arm_stands_where_the_rule_says(cli_here: Callable[..., Any]) -> None:
    for scene, position, yaw in (
        ("tabletop_blocks", (0.692, 0.744, 0.0), 0.0),
        ("desk_unnamed", (-0.495, -0.354, 0.32), 35.0),
    ):
        base = cli_here("plan", f"scene={scene}", "instruction=touch the blue block").result["robot_base"]
        assert base["position_m"] == pytest.approx(position, abs=1e-3)
        assert np.degrees(base["yaw_rad"]) == pytest.approx(yaw, abs=0.05)


@pytest.mark.parametrize(
    ("scene", "instruction", "args"),
    [
        ("tabletop_blocks", "把红色方块放到左边的托盘里", ["red_block", "left_tray"]),
        ("rooms", "go to the green pillar", ["green_pillar"]),
    ],
)
def test_words_of_another_language_and_rooms_are_carried_out(
    cli_here: Callable[..., Any], scene: str, instruction: str, args: list[str]
) -> None:
    ended = cli_here("plan", f"scene={scene}", f"instruction={instruction}", "execute=true", "film=false")
    assert ended.code == 0
    assert [step["args"] for step in ended.result["plan"]] == [args]
    assert all(row["reached"] for row in ended.result["executed"])


@pytest.mark.parametrize(
    ("scene", "instruction", "reason", "mention"),
    [
        ("tabletop_blocks", "touch the purple block", "unknown_object", "red block"),
        ("desk_unnamed", "touch the orange block", "ambiguous", "obj2"),
        ("rooms", "go to the purple pillar", "unknown_object", "pillar"),
        ("tabletop_blocks", "stack red on blue, and blue on red", "contradictory", "red_block"),
    ],
)
def test_a_refused_plan(cli_here: Callable[..., Any], scene: str, instruction: str, reason: str, mention: str) -> None:
    ended = cli_here("plan", f"scene={scene}", f"instruction={instruction}", "execute=true")
    assert ended.code == 3
    assert ended.result["failure"]["reason"] == reason
    assert mention in ended.result["failure"]["message"]
    assert "executed" not in ended.result
    assert ended.result["ok"] is False


def test_a_skill_that_no_controller_offers_is_refused_before_anything_moves(cli_here: Callable[..., Any]) -> None:
    words = ["plan", "scene=tabletop_blocks", "instruction=put the red block in the left tray"]
    assert cli_here(*words).code == 0
    ended = cli_here(*words, "execute=true", "run=zoo:fetch_reach")
    assert ended.code == 3
    assert ended.result["failure"]["reason"] == "impossible"
    assert "touch" in ended.result["failure"]["message"]


def test_a_block_is_put_into_a_tray_by_the_shipped_controller(cli_here: Callable[..., Any]) -> None:
    words = ["plan", "scene=tabletop_blocks", "instruction=put the red block in the left tray", "execute=true"]
    ended = cli_here(*words, "film=false")
    assert ended.code == 0, ended
    assert [(row["skill"], row["reached"]) for row in ended.result["executed"]] == [("place", True)]
    assert {"predicate": "in", "args": ["red_block", "left_tray"]}.items() <= _facts(ended)[0].items()


def _facts(ended: Any) -> list[dict[str, Any]]:
    return [fact for fact in ended.result["final_facts"] if fact["predicate"] == "in"]


def test_a_saved_plan_runs(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    plan = tmp_path / "plan of {mine}.json"
    plan.write_text('[{"skill": "reach", "args": ["1.30,0.70,0.55"]}, {"skill": "touch", "args": ["green_block"]}]')
    ended = cli_here("plan", "scene=tabletop_blocks", f"plan={plan}", "execute=true", "film=false", "out=saved")
    assert ended.code == 0, ended
    assert [row["reached"] for row in ended.result["executed"]] == [True, True]
    again = cli_here("plan", "scene=tabletop_blocks", "plan=saved/result.json")
    assert again.code == 0, again
    assert [row["args"] for row in again.result["plan"]] == [["1.30,0.70,0.55"], ["green_block"]]


def test_export_and_deploy(cli_here: Callable[..., Any], trained: Path, bundle: Path) -> None:
    exported = result_of(trained / "export")
    assert set(exported) >= COMMON | {"bundle", "parity_max_abs", "trace_steps", "closed_loop_success"}
    assert exported["parity_max_abs"] <= 1e-5
    assert exported["trace_steps"] >= 1000
    assert Path(exported["bundle"]) == bundle
    assert {path.suffix for path in bundle.iterdir()} == {".json", ".onnx", ".npz"}
    traced = cli_here("deploy", f"bundle={bundle}", "out=traced")
    assert traced.code == 0, traced.err
    driven = cli_here("deploy", f"bundle={bundle}", "driver=sim", "episodes=2", "out=driven")
    assert driven.code == 0, driven.err
    for ended in (traced, driven):
        assert set(ended.result) >= COMMON | {"interventions", "periods_us", "held", "loaded_modules", "success_rate"}
        assert not {"torch", "mujoco", "hydra"} & set(ended.result["loaded_modules"])
    assert driven.result["episodes"] == 2


def test_a_bundle_is_not_written_over_by_another_controllers(bundle: Path) -> None:
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}
    with pytest.raises(UserError, match="holds a bundle with other settings .* choose another out="):
        api.export(api.load_controller("zoo:fetch_reach"), bundle)
    assert {path.name: path.read_bytes() for path in bundle.iterdir()} == before


def test_a_damaged_bundle_is_refused(cli_here: Callable[..., Any], bundle: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(bundle, broken)
    model = broken / "policy.onnx"
    data = bytearray(model.read_bytes())
    data[len(data) // 2] ^= 1
    model.write_bytes(bytes(data))
    ended = cli_here("deploy", f"bundle={broken}")
    assert ended.code == 2
    assert "policy.onnx" in ended.err
    assert len(ended.err.strip().splitlines()) == 1


def test_list_and_doctor(cli_here: Callable[..., Any]) -> None:
    listed = cli_here("list")
    assert listed.code == 0
    assert set(listed.result["tasks"]) >= {"fetch_reach", "fetch_push", "fetch_pick_place", "fetch_slide"}
    assert "fetch_reach" in listed.result["zoo"]
    assert set(listed.result["scenes"]) == {"tabletop_blocks", "desk_unnamed", "rooms"}
    doctor = cli_here("doctor")
    assert doctor.code == 0
    assert {row["subject"] for row in doctor.result["findings"]} >= {
        "renderer", "torch", "mujoco", "cores", "compiled updates",
    }  # fmt: skip


@pytest.mark.parametrize(
    "verb", ["demo", "train", "evaluate", "describe", "plan", "export", "deploy", "list", "doctor"]
)
def test_help_names_every_key(cli_here: Callable[..., Any], verb: str) -> None:
    from embodied_launch.cli import VERBS, load
    from embodied_launch.keys import all_key_names

    ended = cli_here(verb, "--help")
    assert ended.code == 0
    assert all(f"{name}=" in ended.out for name in all_key_names(load(VERBS[verb]).KEYS))
