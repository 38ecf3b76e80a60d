"""A user's mistake gets one line that says what to do, exit code 2, nothing on stdout and no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vlm_describer

SIM_BLIP = Path(vlm_describer.__file__).parent / "weights" / "sim_blip"
MJCF_BROKEN = "<mujoco><worldbody><body></mujoco>"

MANY = ",".join(["64"] * 500)

# (words, what the line must mention)
MISTAKES: list[tuple[list[str], str]] = [
    ([], "verb"),
    (["trian"], "train"),
    (["benchmark"], "unknown verb"),
    (["bench"], "suite="),
    (["bench", "suite=lerning"], "learn"),
    (["train"], "task="),
    (["train", "task="], "task="),
    (["train", "task=fetch_raech"], "fetch_reach"),
    (["train", "task=gym:NoSuchEnv-v0"], "NoSuchEnv"),
    (["train", "task=gym:CartPole-v1"], "goal"),
    (["train", "task=fetch_reach", "total_steps=-5"], "total_steps"),
    (["train", "task=fetch_reach", "total_steps=0"], "total_steps"),
    (["train", "task=fetch_reach", "total_steps=many"], "total_steps"),
    (["train", "task=fetch_reach", "total_steps=1e3"], "total_steps"),
    (["train", "task=fetch_reach", "seed=1,2"], "seed"),
    (["train", "task=fetch_reach", "preset=turbo"], "frugal"),
    (["train", "task=fetch_reach", "advisor=oracle"], "advisor"),
    (["train", "task=fetch_reach", "logger=wandb"], "tensorboard"),
    (["train", "task=fetch_reach", "resume=maybe"], "auto"),
    (["train", "task=fetch_reach", "workers=0"], "workers"),
    (["train", "task=fetch_reach", "init_from=nowhere"], "nowhere"),
    (["train", "task=fetch_reach", "stepz=5"], "stepz"),
    (["fit", "describer=clip", "fit.frames=0"], "fit.frames=0: must be at least 1"),
    (["fit", "describer=clip", "fit.held_out_frames=-3"], "fit.held_out_frames"),
    (["fit", "planner=embedded", "fit.frames=3"], "fit.frames"),
    (["fit", "describer=clip", "parser.passes=2"], "parser.passes"),
    (["describe", "scene=tabletop_blocks", "describer=clip", f"model={SIM_BLIP}"], "describer=blip"),
    (["train", "task=fetch_reach", "sac.gamma=2"], "gamma"),
    (["train", "task=fetch_reach", "sac.gamma={"], "sac.gamma"),
    (["train", "task=fetch_reach", "seed=1", "seed=2"], "twice"),
    (["train", "task=fetch_reach", "sac.actor_lr=-1"], "actor_lr"),
    (["train", "task=fetch_reach", "sac.max_concentration=1"], "max_concentration"),
    (["train", "task=fetch_reach", "workers=100000"], "at most 256"),
    (["train", "task=fetch_reach", "run_dir=broken.xml"], "broken.xml"),
    (["train", "task=fetch_reach", "run_dir=theirs", "resume=auto"], "metrics.jsonl"),
    (["train", "task=fetch_reach", "sac.distances=true"], "sac.relative_to"),
    (["train", "task=fetch_push", "loop.ends_after=20"], "replay.lost_after"),
    (["train", "task=fetch_push", "replay.lost_after=-1"], "at least 0"),
    (["train", "fetch_reach"], "key=value"),
    (["train", "task=fetch_reach", "sac.actor_critics=5"], "at most 2"),
    (["train", "task=fetch_reach", "sac.target_entropy=nan"], "sac.target_entropy"),
    (["train", "task=fetch_reach", "loop.random_share=nan"], "random_share"),
    (["train", "task=fetch_push", "relay.fallen_m=nan"], "relay.fallen_m"),
    (["train", "task=fetch_reach", "sac.hidden=[1000000,1000000]"], "sac.hidden=[1000000,1000000] with sac.critics=2"),
    (["train", "task=fetch_reach", "sac.critics=100000000"], "sac.critics=100000000"),
    (["train", "task=fetch_reach", "loop.batch_size=100000000"], "replay.capacity=1000000"),
    (["train", "task=fetch_reach", "loop.batch_size=1000000", f"sac.hidden=[{MANY}]"], "loop.batch_size=1000000"),
    (["train", "task=fetch_reach", "replay.n_step=1000000000"], "fetch_reach has: 50"),
    (["train", "task=fetch_reach", "replay.settle=51", "replay.success_ends=1"], "replay.settle=51"),
    (["train", "task=fetch_reach", "replay.settle=5"], "replay.settle: does nothing with replay.success_ends=0"),
    (["train", "task=fetch_reach", "replay.lost_after=0"], "replay.lost_after: does nothing in fetch_reach"),
    (["train", "task=fetch_reach", "replay.later_after=9"], "replay.later_after: does nothing without"),
    (
        ["train", "task=fetch_push", "relay.enabled=false", "relay.mix=0.1"],
        "relay.mix: does nothing with relay.enabled",
    ),
    (["train", "task=fetch_slide", "relay.gentle=0.1"], "relay.gentle: does nothing with relay.gentle_share=0"),
    (["train", "task=fetch_reach", "record_layout=minari"], "record_layout: does nothing without record="),
    (["train", "task=fetch_push", "loop.ends_at_goal=3"], "replay.lost_after to null"),
    (["train", "task=fetch_reach", "sac.initial_temperature=1e300"], "sac.initial_temperature must lie in"),
    (["train", "task=fetch_reach", "loop.batch_size=0"], "loop.batch_size must be at least 1"),
    (["train", "task=fetch_reach", "sac.hidden=abc"], "sac.hidden=abc: expected a list such as [64,64]"),
    (["train", "task=fetch_reach", "sac.hidden=[a]"], "sac.hidden=[a]: expected a list such as [64,64]"),
    (["train", "task=fetch_reach", "sac.gamma=high", "sac.tau=0.1"], "sac.gamma=high: expected a number"),
    (["train", "task=fetch_reach", "sac.critics=1.5"], "sac.critics=1.5: expected a whole number"),
    (["train", "task=fetch_reach", "sac.distances=maybe"], "sac.distances=maybe: expected true or false"),
    (["train", "task=fetch_reach", "sac.gamme=1"], "unknown key 'sac.gamme'; did you mean sac.gamma"),
    (["train", "task=fetch_reach", "sack.gamma=1"], "did you mean sac.gamma"),
    (["train", "task=fetch_reach", "sac.xyzzy=1"], "keys of sac: sac.hidden, "),
    (["train", "task=fetch_reach", "xyzzy.q=1"], "groups: loop.*, relay.*, replay.*, sac.*"),
    (["train", "task=fetch_raech", "--help"], "fetch_reach"),
    (["train", "task=fetch_reach", "init_from=zoo:nothing"], "unknown zoo controller 'nothing'"),
    (["export", "run=zoo:nothing"], "unknown zoo controller 'nothing'"),
    (["plan", "scene=tabletop_blocks", "instruction=touch it", "run=zoo:nothing"], "unknown zoo controller 'nothing'"),
    (["bench", "suite=tabletop", "controller=zoo:nothing"], "unknown zoo controller 'nothing'"),
    (["bench", "suite=tabletop", "task=fetch_reach"], "task: does nothing with suite=tabletop"),
    (["bench", "suite=stepping", "frames=3", "seeds=2"], "frames, seeds: does nothing with suite=stepping"),
    (["bench", "suite=learning", "systems=ours,ours"], "names ours twice"),
    (["bench", "suite=describer", "describers=oracle", "model=x"], "model: does nothing where describers= has no clip"),
    (["fit", "describer=clip", "fit.caption_epochs=2"], "fit.caption_epochs: does nothing with describer=clip"),
    (["deploy", "bundle=folder.xml", "episodes=3"], "episodes: does nothing with driver=trace"),
    (["describe", "image=none.png", "describer=clip", "camera=front"], "camera= belongs to scene="),
    (["describe", "scene=tabletop_blocks", "describer=clip", "pretrained=openai"], "pretrained= belongs to model="),
    (["train", "task=fetch_reach", "relay.mix=0.5"], "relay.mix: does nothing in fetch_reach"),
    (["train", "task=point_umaze", "replay.gripper_share=0.2"], "replay.gripper_share: does nothing"),
    (["train", "task=fetch_reach", "sac.relative_to=[grip_velp]"], "valid: grip_pos"),
    (["train", "task=fetch_reach", "init_from=zoo:fetch_push"], "trained on fetch_push, this run is on fetch_reach"),
    (
        ["train", "task=fetch_push", "init_from=zoo:fetch_push", "sac.hidden=[16]"],
        "sac.hidden ([128,128,128], here [16])",
    ),
    (["train", "task=fetch_reach", "run_dir=/proc/nope"], "cannot make the folder '/proc/nope'"),
    (["train", "run_dir=folder.xml", "resume=auto"], "task= is required"),
    (["evaluate", "run=zoo:fetch_reach", "out=/proc/nope/deeper"], "cannot make the folder"),
    (["bench", "suite=tabletop", "controller=zoo:fetch_reach", "out=made"], "neither place nor stack"),
    (["bench", "suite=tabletop", "out=/proc/nope"], "cannot make the folder"),
    (["bench", "suite=learning", "task=tabletop", "systems=ours,sb3_sac_her", "out=made"], "systems=ours"),
    (["evaluate"], "run="),
    (["evaluate", "run=nowhere"], "nowhere"),
    (["evaluate", "run=zoo:nothing"], "fetch_reach"),
    (["evaluate", "run=zoo:fetch_reach", "episodes=0"], "episodes"),
    (["evaluate", "run=zoo:fetch_reach", "episodes=nan"], "episodes"),
    (["evaluate", "run=zoo:fetch_reach", "task=point_umaze"], "term"),
    (["evaluate", "run=zoo:fetch_reach", "episodes=1", "video=film.txt"], ".mp4"),
    (["describe"], "scene="),
    (["describe", "scene=kitchen_sink"], "tabletop_blocks"),
    (["describe", "scene=broken.xml"], "broken.xml"),
    (["describe", "scene=empty.xml"], "empty.xml"),
    (["describe", "scene=folder.xml"], "folder.xml"),
    (["describe", "scene=tabletop_blocks", "camera=side"], "front"),
    (["describe", "scene=tabletop_blocks", "describer=klip"], "oracle"),
    (["describe", "scene=tabletop_blocks", "describer=clip", "model=ViT-B-23"], "ViT-B-32"),
    (["describe", "scene=tabletop_blocks", "describer=clip", "model=ViT-B-32"], "pretrained="),
    (["describe", "scene=tabletop_blocks", "describer=clip", "model=/nowhere"], "no folder /nowhere"),
    (["describe", "scene=tabletop_blocks", "describer=clip", "model=folder.xml"], "open_clip_config.json"),
    (["describe", "scene=tabletop_blocks", "describer=blip", "model=folder.xml"], "config.json"),
    (["describe", "scene=tabletop_blocks", "describer=blip", "model=word"], "hub name"),
    (["describe", "scene=tabletop_blocks", "describer=blip", "pretrained=openai"], "describer=clip"),
    (["describe", "scene=tabletop_blocks", "model=folder.xml"], "oracle has no model"),
    (["describe"], "scene="),
    (["describe", "image=none.png"], "describer=clip"),
    (["describe", "image=none.png", "describer=clip"], "none.png"),
    (["describe", "scene=tabletop_blocks", "image=none.png"], "not both"),
    (["describe", "scene=tabletop_blocks", "depth=none.npy"], "image="),
    (["fit", "describer=clap"], "clip"),
    (["fit"], "planner=embedded"),
    (["fit", "describer=clip", "planner=embedded"], "describer=clip"),
    (["plan", "scene=tabletop_blocks"], "instruction="),
    (["plan", "scene=tabletop_blocks", "instruction="], "instruction="),
    (["plan", "instruction=touch the red block"], "scene="),
    (["plan", "scene=broken.xml", "instruction=touch the red block"], "broken.xml"),
    (["plan", "scene=tabletop_blocks", "instruction=touch the red block", "planner=gpt"], "rules"),
    (["plan", "scene=tabletop_blocks", "instruction=touch the red block", "robot=spot"], "fetch"),
    (["plan", "scene=tabletop_blocks", "instruction=touch the red block", "base=1,2"], "base"),
    (["plan", "scene=tabletop_blocks", "instruction=touch the red block", "execute=perhaps"], "execute"),
    (["plan", "scene=tabletop_blocks", "plan=nowhere.json"], "nowhere.json"),
    (["plan", "scene=tabletop_blocks", "plan=broken.xml"], "broken.xml"),
    (["plan", "scene=tabletop_blocks", "plan=dance.json"], "dance"),
    (["plan", "scene=tabletop_blocks", "instruction=touch the red block", "run=nowhere", "execute=true"], "nowhere"),
    (["export"], "run="),
    (["export", "run=nowhere"], "nowhere"),
    (["export", "run=zoo:fetch_reach", "out=broken.xml"], "broken.xml"),
    (["export", "run=zoo:fetch_reach", "trace_steps=10"], "trace_steps"),
    (["deploy"], "bundle="),
    (["deploy", "bundle=nowhere"], "nowhere"),
    (["deploy", "bundle=folder.xml"], "folder.xml"),
    (["deploy", "bundle=broken.xml"], "broken.xml"),
    (["deploy", "bundle=folder.xml", "driver=ros"], "trace"),
    (["deploy", "bundle=folder.xml", "seconds=-1"], "seconds"),
    (["list", "what=tasks"], "what"),
    (["doctor", "--fix"], "key=value"),
    (["demo", "steps=5"], "steps"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "broken.xml").write_text(MJCF_BROKEN)
    (tmp_path / "empty.xml").write_text("")
    (tmp_path / "folder.xml").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "metrics.jsonl").write_text("something else")
    (tmp_path / "dance.json").write_text('[{"skill": "dance", "args": ["red_block"]}]')
    return tmp_path


@pytest.mark.parametrize(
    ("words", "mention"), MISTAKES, ids=[" ".join(words)[:80] or "nothing" for words, _ in MISTAKES]
)
def test_one_line(cli_here: Callable[..., Any], folder: Path, words: list[str], mention: str) -> None:
    check(cli_here, folder, words, mention)


@pytest.mark.parametrize(
    ("words", "mention"), MISTAKES[4::9], ids=[" ".join(words)[:80] for words, _ in MISTAKES[4::9]]
)
def test_one_line_from_the_real_program(cli: Callable[..., Any], folder: Path, words: list[str], mention: str) -> None:
    check(cli, folder, words, mention)


def check(run: Callable[..., Any], folder: Path, words: list[str], mention: str) -> None:
    before = sorted(folder.iterdir())
    ended = run(*words)
    assert ended.code == 2, ended
    assert ended.out == ""
    assert len(ended.err.strip().splitlines()) == 1, ended.err
    assert mention in ended.err
    assert sorted(folder.iterdir()) == before, "a refused command leaves nothing behind"
