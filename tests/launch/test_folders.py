"""A folder that holds what another run left is refused before anything is done, by every verb that writes one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
