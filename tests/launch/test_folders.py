"""A folder that holds what another run left is refused before anything is done, by every verb that writes one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from embodied.errors import UserError

DEBUG = ("preset=debug", "total_steps=100", "loop.eval_every=100", "loop.final_episodes=1")

WRITERS = {
    "demo": ("out=",),
    "train": ("run_dir=", "task=fetch_reach"),
    "evaluate": ("out=", "run=zoo:fetch_reach"),
    "describe": ("out=", "scene=tabletop_blocks"),
    "plan": ("out=", "scene=tabletop_blocks", "instruction=touch the red block"),
    "export": ("out=", "run=zoo:fetch_reach"),
    "deploy": ("out=", "bundle=nowhere"),
    "fit": ("out=", "describer=clip"),
    "bench": ("out=", "suite=stepping"),
    "ablate": ("out=", "task=fetch_reach", "variants=base"),
    "list": ("out=",),
    "doctor": ("out=",),
}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_verb_is_looked_at() -> None:
    from embodied_launch.cli import VERBS

    assert set(WRITERS) == set(VERBS)


@pytest.mark.parametrize(
    ("verb", "resumed"),
    [(verb, False) for verb in WRITERS] + [(verb, True) for verb in ("train", "fit", "bench", "ablate")],
)
def test_another_verbs_result_stays(cli_here: Callable[..., Any], tmp_path: Path, verb: str, resumed: bool) -> None:
    other = "export" if verb == "train" else "train"
    folder = tmp_path / "taken"
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps({"verb": other}))
    (folder / "config.yaml").write_text(f"verb: {other}\n")
    before = files(folder)
    key, *words = WRITERS[verb]
    ended = cli_here(verb, *words, f"{key}{folder}", *(["resume=auto"] if resumed else []))
    assert (ended.code, ended.out) == (2, ""), ended
    assert len(ended.err.strip().splitlines()) == 1, ended.err
    assert f"a run of 'embodied {other}'" in ended.err
    assert f"choose another {key}" in ended.err
    assert files(folder) == before


@pytest.mark.parametrize("left", [{"config.yaml": "verb: evaluate\n"}, {"config.yaml": '{\n  "verb": "deploy"\n}'},
                                  {"begun.json": "{}"}, {"config.yaml": "mine: 1\n"}])  # fmt: skip
def test_a_run_that_has_no_result_yet_counts_too(
    cli_here: Callable[..., Any], tmp_path: Path, left: dict[str, str]
) -> None:
    (tmp_path / "taken").mkdir()
    for name, text in left.items():
        (tmp_path / "taken" / name).write_text(text)
    ended = cli_here("list", "out=taken")
    assert (ended.code, ended.out) == (2, "")
    assert "choose another out=" in ended.err


def test_the_same_verb_again_and_another_suite(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    assert cli_here("list", "out=listed").code == 0
    assert cli_here("list", "out=listed").code == 0
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "result.json").write_text(json.dumps({"verb": "bench", "suite": "learning"}))
    ended = cli_here("bench", "suite=tabletop", "out=table", "resume=auto")
    assert ended.code == 2
    assert "choose another out=" in ended.err


def test_a_run_goes_on_without_its_task_and_not_with_another(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    assert cli_here("train", "task=fetch_push", "seed=4", *DEBUG, "run_dir=run").code == 0
    other = cli_here("train", "task=fetch_reach", "run_dir=run", "resume=auto")
    assert other.code == 2
    assert "begun with task=fetch_push, not fetch_reach" in other.err
    ended = cli_here("train", "run_dir=run", "resume=auto", "total_steps=150")
    assert ended.code == 0, ended.err
    assert (ended.result["task"], ended.result["seed"], ended.result["env_steps"]) == ("fetch_push", 4, 150)
    assert "config.yaml" in ended.err


@pytest.mark.parametrize(
    ("verb", "saved", "words", "differs"),
    [
        ("evaluate", ["run=zoo:fetch_push"], ["run=zoo:fetch_reach"], "run=zoo:fetch_push, not zoo:fetch_reach"),
        ("evaluate", ["run=zoo:fetch_reach"], ["run=zoo:fetch_reach", "seed=5"], "seed=2000000, not 5"),
        ("describe", ["scene=rooms"], ["scene=tabletop_blocks"], "scene=rooms, not tabletop_blocks"),
        (
            "plan", ["scene=rooms", "instruction=touch the blue block"], ["scene=rooms", "instruction=touch it"],
            "instruction=touch the blue block, not touch it",
        ),
        ("export", ["run=zoo:fetch_reach"], ["run=zoo:fetch_reach", "seed=1"], "seed=2000000, not 1"),
        ("deploy", ["bundle=one"], ["bundle=two"], "bundle=one, not two"),
        ("demo", [], ["seed=1"], "seed=0, not 1"),
    ],
)  # fmt: skip
def test_the_same_verb_with_other_settings_is_refused(
    cli_here: Callable[..., Any], tmp_path: Path, verb: str, saved: list[str], words: list[str], differs: str
) -> None:
    folder = earlier_run(tmp_path / "taken", verb, saved)
    before = files(folder)
    ended = cli_here(verb, *words, f"out={folder}")
    assert (ended.code, ended.out) == (2, ""), ended
    assert len(ended.err.strip().splitlines()) == 1, ended.err
    assert f"with other settings ({differs}) already: choose another out=" in ended.err
    assert files(folder) == before


def earlier_run(folder: Path, verb: str, words: list[str], ok: bool = True) -> Path:
    """A folder as a run of these words leaves it, but for what it made."""
    from embodied_launch.cli import VERBS, configure, load
    from embodied_launch.outcome import RunFolder

    config = configure(VERBS[verb], load(VERBS[verb]), [*words, f"out={folder}"])
    run = RunFolder(verb, str(folder), settings=config)
    run.write_config()
    run.write_json("result.json", {"verb": verb, "ok": ok})
    return folder


def test_a_run_whose_settings_cannot_be_read_is_refused(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "taken", "evaluate", ["run=zoo:fetch_reach"])
    (folder / "config.yaml").write_text("verb: evaluate\nconfig: [")
    ended = cli_here("evaluate", "run=zoo:fetch_reach", f"out={folder}")
    assert ended.code == 2
    assert "config.yaml does not say which" in ended.err


def test_the_same_evaluation_may_be_made_again(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    words = ["evaluate", "run=zoo:fetch_reach", "episodes=1"]
    folder = earlier_run(tmp_path / "again", "evaluate", words[1:])
    ended = cli_here(*words, f"out={folder}")
    assert ended.code == 0, ended.err
    assert ended.result["episodes"] == 1


REFUSED = ["scene=tabletop_blocks", "instruction=touch the purple block", "execute=true"]


def test_a_refused_plan_takes_an_earlier_success_away(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "taken", "plan", REFUSED)
    for name in ("states.npz", "execution.mp4", "plan.json", "timeline.json"):
        (folder / name).write_text("of a success")
    (folder / "timeline").mkdir()
    (folder / "timeline" / "0001.png").write_text("of a success")
    ended = cli_here("plan", *REFUSED, f"out={folder}")
    assert ended.code == 3, ended
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "result.json"]
    assert ended.result["failure"]["reason"] == "unknown_object"


def test_files_of_nobody_known_are_not_planned_over(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "plan.json").write_text("[]")
    ended = cli_here("plan", *REFUSED, "out=mine")
    assert ended.code == 2
    assert "holds plan.json of something else" in ended.err
    assert (tmp_path / "mine" / "plan.json").read_text() == "[]"


def test_a_plan_from_python_looks_at_its_folder_as_the_command_line_does(
    cli_here: Callable[..., Any], tmp_path: Path
) -> None:
    from embodied_launch import api

    def touch(colour: str, out: str = "touched") -> api.Planned:
        return api.plan("tabletop_blocks", f"touch the {colour} block", execute=True, film=False, out=out)

    assert touch("red").ok
    states = (tmp_path / "touched" / "states.npz").read_bytes()
    with pytest.raises(UserError, match="with other settings .* choose another out="):
        touch("blue")
    ended = cli_here("plan", *REFUSED, "out=touched")
    assert ended.code == 2
    assert "with other settings" in ended.err
    assert (tmp_path / "touched" / "states.npz").read_bytes() == states
    assert touch("red").ok
    earlier_run(tmp_path / "trained", "evaluate", ["run=zoo:fetch_reach"])
    with pytest.raises(UserError, match="a run of 'embodied evaluate'"):
        touch("red", out="trained")


def test_names_of_files_have_no_colons() -> None:
    from embodied_launch.outcome import file_name

    assert file_name("gym:ALE/Reach-v4") == "gym-ALE-Reach-v4"
    assert file_name("fetch_reach") == "fetch_reach"


def test_networks_of_another_task_to_begin_with_are_told(cli_here: Callable[..., Any]) -> None:
    words = ["train", "task=fetch_push", *DEBUG, "sac.hidden=[128,128,128]", "run_dir=run"]
    ended = cli_here(*words, "init_from=zoo:fetch_pick_place")
    assert ended.code == 0, ended.err
    assert "init_from: the controller to begin with was trained on fetch_pick_place" in ended.err


def test_a_plan_from_python_says_its_settings_as_the_command_line_does() -> None:
    from embodied_launch.planners import PlannerSettings
    from embodied_launch.planning import settings_as_keys
    from embodied_launch.verbs.plan import KEYS

    usual = asdict(KEYS(scene="rooms", instruction="touch it"))
    told = settings_as_keys(None)
    assert told == {name: usual[name] for name in told}
    assert settings_as_keys(PlannerSettings(retries=9, votes=3)) == {**told, "retries": 9, "votes": 3}
    assert {"model", "votes", "budget_calls", "price_in"} <= told.keys()
